#include "views/overlap_view.h"

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QStandardItemModel>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

// Up to this many rows everything is made before anything is shown.
constexpr int64_t kAtOnce = 4096;

}  // namespace

OverlapView::OverlapView(SelectionModel* selection, Worker* worker, QWidget* parent)
    : PaintedView(selection, parent), worker_(worker ? std::make_unique<Worker>() : nullptr) {
  buildBar();
  again_.setSingleShot(true);
  again_.setInterval(worker_ ? 30 : 0);
  connect(&again_, &QTimer::timeout, this, &OverlapView::request);
  busy_.setInterval(120);
  connect(&busy_, &QTimer::timeout, this, [this] { update(); });
  if (selection_)
    connect(selection_, &SelectionModel::tokenRangeChanged, this, [this](qint64 first, qint64 last) {
      if (!following_) setWindow({first, last}, {first, last});
    });
  refreshAccessibility();
}

OverlapView::~OverlapView() {
  if (progress_) progress_->request_cancel();  // the worker's thread ends with the view
}

void OverlapView::setRun(std::shared_ptr<const RunData> run) {
  if (progress_) progress_->request_cancel();
  picture_ = nullptr;
  PaintedView::setRun(std::move(run));
  rows_ = columns_ = {0, std::max<int64_t>(tokens(), 1)};
  if (selection_ && selection_->tokenRange().second > selection_->tokenRange().first)
    rows_ = columns_ = clampRange(selection_->tokenRange(), tokens());
}

void OverlapView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  const bool other = head != head_;
  PaintedView::setHead(std::move(head));
  if (!other) return;
  if (progress_) progress_->request_cancel();
  if (!head_) picture_ = nullptr;
  if (!other_chosen_ && head_) other_layer_ = head_->layer, other_head_ = head_->head;
  updateBar();
  request();
}

void OverlapView::setOther(std::shared_ptr<const RunData> other) {
  if (other == other_) return;
  other_ = std::move(other);
  other_chosen_ = false;
  if (head_) other_layer_ = head_->layer, other_head_ = head_->head;
  if (!other_ && (show_ == MatrixKind::against)) show_ = MatrixKind::overlap;
  const QSignalBlocker quiet(other_box_);
  other_box_->clear();
  if (other_ && hasInfo(*other_)) {
    bool found = false;
    for (const auto& layer : other_->info().layers)
      for (int h = 0; h < std::min<int64_t>(layer.heads, 64) && other_box_->count() < 2048; ++h) {
        other_box_->addItem(QStringLiteral("L%1·H%2").arg(layer.index).arg(h), QPoint(layer.index, h));
        found = found || (layer.index == other_layer_ && h == other_head_);
      }
    if (!found && other_box_->count() > 0) other_layer_ = other_box_->itemData(0).toPoint().x(), other_head_ = other_box_->itemData(0).toPoint().y();
  }
  updateBar();
  request();
}

void OverlapView::chooseOther(int layer, int head) {
  other_layer_ = layer, other_head_ = head;
  other_chosen_ = true;
  updateBar();
  request();
}

void OverlapView::setShow(MatrixKind kind) {
  if (kind == show_) return;
  show_ = kind;
  picture_ = nullptr;  // another quantity on the old picture's colours would be wrong
  updateBar();
  request();
}

void OverlapView::setByRowSum(bool on) {
  by_row_sum_ = on;
  updateBar();
  request();
}

void OverlapView::setMean(bool on) {
  mean_ = on;
  updateBar();
  recolour();
}

void OverlapView::setDials(const analysis::AddressDials& dials) {
  if (dials == dials_) return;
  dials_ = dials;
  updateBar();
  again_.start();
}

void OverlapView::setOverlapKind(analysis::OverlapKind kind) {
  kind_ = kind;
  updateBar();
  request();
}

void OverlapView::setColours(const ColourSettings& settings) {
  colours_ = settings;
  recolour();
}

void OverlapView::setWindow(CellRange rows, CellRange columns) {
  rows = clampRange(rows, tokens());
  columns = clampRange(columns, tokens());
  if (rows == rows_ && columns == columns_) return;
  rows_ = rows, columns_ = columns;
  if (selection_ && selection_->tokenRange() != std::pair<qint64, qint64>(columns)) {
    following_ = true;
    selection_->setTokenRange(columns.first, columns.second, true);
    following_ = false;
  }
  refreshAccessibility();
  update();
  again_.start();
}

int64_t OverlapView::tokens() const { return head_ ? head_->routes.tokens : run_ && hasInfo(*run_) ? run_->info().tokens : 0; }

int OverlapView::sides() const {
  if (!picture_) return 2;
  int count = 0;
  for (int kind = 0; kind < kMatrixKinds; ++kind) count += MatrixKind(kind) != show_ && picture_->matrix[size_t(kind)];
  return std::max(1, count);
}

MatrixGeometry OverlapView::geometryFor(const QRectF& area, double scale) const {
  return MatrixGeometry::make(area, rows_, columns_, scale, sides(), !picture_ || !picture_->js_name.isEmpty());
}

OverlapJob OverlapView::job(const QSizeF& size, double ratio) const {
  const MatrixGeometry g = geometryFor(QRectF(QPointF(0, 0), size), Theme::current().base / 12);
  OverlapJob j;
  j.run = run_, j.head = head_;
  j.other = other_, j.other_layer = other_layer_, j.other_head = other_head_;
  j.dials = dials_, j.kind = kind_;
  j.show = show_, j.by_row_sum = by_row_sum_;
  j.rows = rows_, j.columns = columns_;
  j.pixel_rows = j.pixel_columns = std::clamp(int(g.plot.width() * ratio), 64, 2048);
  j.side_pixels = g.side.isEmpty() ? 160 : std::clamp(int(g.side.front().width() * ratio), 64, 512);
  j.progress = std::make_shared<Progress>();
  return j;
}

void OverlapView::drawNow() {
  if (!head_ || !run_) return;
  ++ticket_;
  adopt(std::make_shared<const OverlapPicture>(source_->make(job(contentRect().size(), devicePixelRatioF()))));
}

void OverlapView::request() {
  again_.stop();
  if (!head_ || !run_) return;
  if (progress_) progress_->request_cancel();
  if (!worker_) return drawNow();
  OverlapJob wanted = job(contentRect().size(), devicePixelRatioF());
  wanted.sides = rows_.second - rows_.first <= kAtOnce;
  post(wanted);
}

void OverlapView::post(const OverlapJob& wanted) {
  progress_ = wanted.progress;
  waiting_ = 1;
  busy_.start();
  worker_->post(QStringLiteral("overlap"), this, [this, wanted, source = source_, ticket = ++ticket_]() -> Worker::Done {
    if (wanted.progress->cancel_requested()) return [] {};
    auto made = std::make_shared<const OverlapPicture>(source->make(wanted));
    return [this, made, wanted, ticket] {
      if (ticket != ticket_) return;
      waiting_ = 0;
      busy_.stop();
      if (!made->cancelled) adopt(made);
      update();
      if (made->cancelled || wanted.sides || made->grid.max.rows == 0) return;
      OverlapJob rest = wanted;  // the small pictures of a long prompt take as long again: after what was asked for
      rest.sides = true;
      rest.main = made;
      rest.progress = std::make_shared<Progress>();
      post(rest);
    };
  });
}

void OverlapView::adopt(std::shared_ptr<const OverlapPicture> picture) {
  if (picture->cancelled) return;
  picture_ = std::move(picture);
  recolour();
  updateBar();
  contentChanged();
  Q_EMIT reductionText(grid() ? QString::fromStdString(grid()->reduction) : QString());
}

const analysis::SlotGrid* OverlapView::grid() const {
  if (!picture_ || picture_->grid.max.rows == 0) return nullptr;
  return mean_ ? &picture_->grid.mean : &picture_->grid.max;
}

ColourScale OverlapView::scaleOf(const analysis::SlotGrid& samples, MatrixKind kind, bool own) const {
  if (kind != MatrixKind::difference) return ColourScale::make(samples, &samples, own ? ColourSettings{} : colours_);
  ColourScale scale;
  double most = 0;
  for (size_t i = 0; i < samples.value.size(); ++i)
    if (samples.state[i] == analysis::Cell::finite) most = std::max(most, std::abs(double(samples.value[i])));
  scale.valid = samples.finite_cells > 0;
  scale.high = most > 0 ? most : 1;
  scale.low = -scale.high;
  return scale;
}

QVector<QRgb> OverlapView::mapOf(MatrixKind kind, const Theme& theme) const {
  return kind == MatrixKind::difference ? divergingMap(theme.dark) : colourMap(colours_.map, theme.dark, colours_.reverse, colours_.soft);
}

QVector<QImage> OverlapView::sideImages(const Theme& theme) const {
  QVector<QImage> images;
  if (picture_)
    for (const auto& side : picture_->side) {
      const auto& g = mean_ ? side.grid.mean : side.grid.max;
      images << gridImage(g, scaleOf(g, side.kind, true), mapOf(side.kind, theme));
    }
  return images;
}

void OverlapView::recolour() {
  const Theme& theme = Theme::current();
  image_ = {};
  scale_ = {};
  side_images_ = sideImages(theme);
  ColourState state;
  state.settings = colours_;
  state.colours = mapOf(show_, theme);
  if (const auto* g = grid()) {
    scale_ = scaleOf(*g, show_, false);
    image_ = gridImage(*g, scale_, state.colours);
    ColourSettings whole = colours_;
    whole.mode = RangeMode::min_max;
    const ColourScale all = show_ == MatrixKind::difference ? scale_ : ColourScale::make(*g, nullptr, whole);
    state.scale = scale_;
    state.data_low = all.low, state.data_high = all.high;
    state.histogram = placedHistogram(*g, all, 40);
    state.finite = g->finite_cells, state.nan = g->nan_cells, state.inf = g->inf_cells;
  }
  colour_bar_->setState(state);
  if (range_editor_) range_editor_->setState(state);
  update();
}

QString OverlapView::emptyText() const {
  if (!run_) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (!head_) return QStringLiteral("This head has no routes, so there are no addresses to compare.");
  if (!picture_) return {};
  if (!picture_->failed.isEmpty()) return picture_->failed;
  if (!picture_->matrix[size_t(show_)]) return picture_->why[size_t(show_)];
  return {};
}

MatrixScene OverlapView::scene(const QRectF& area, const Theme& theme, double scale, const QImage& image,
                               const QVector<QImage>& side) const {
  MatrixScene s;
  s.geometry = geometryFor(area, scale);
  s.theme = &theme;
  s.run = run_ && hasInfo(*run_) ? &run_->info() : nullptr;
  s.picture = picture_.get();
  s.grid = grid();
  s.image = &image;
  s.side = &side;
  if (picture_)
    for (const auto& one : picture_->side) s.side_name << matrixName(one.kind, picture_.get(), by_row_sum_);
  s.selected = selection_ ? selection_->current().token : -1;
  return s;
}

void OverlapView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  const QRectF area(QPointF(0, 0), size);
  painter.fillRect(area, theme.surface);
  MatrixScene s = scene(area, theme, theme.base / 12, image_, side_images_);
  s.side_hover = hover_.side;
  s.hover_row = hover_.t, s.hover_column = hover_.s;
  if (!hover_.inside && hover_.s < 0 && selection_) s.hover_column = selection_->hoverToken();
  paintMatrix(painter, s);
  QStringList notes;
  if (picture_ && !picture_->dial_failed.isEmpty()) notes << QStringLiteral("Shown as captured. ") + picture_->dial_failed;
  if (picture_ && !picture_->why[size_t(MatrixKind::induced)].isEmpty()) notes << QStringLiteral("No induced weights: ") + picture_->why[size_t(MatrixKind::induced)];
  painter.setFont(theme.label());
  painter.setPen(theme.text2);
  const double left = s.geometry.side.isEmpty() ? s.geometry.plot.left() : s.geometry.side.front().left();
  const double top = s.geometry.side.isEmpty() ? area.bottom() - 18 : s.geometry.plot.bottom() + 4;
  if (!notes.isEmpty() && !s.geometry.side.isEmpty())
    painter.drawText(QRectF(left, top, area.right() - left - 8, area.bottom() - top), int(Qt::AlignLeft | Qt::AlignTop) | Qt::TextWordWrap, notes.join(QLatin1Char('\n')));
  if (waiting_ == 0 || !progress_) return;
  const auto at = progress_->snapshot();
  const QString text = at.total > 0 && !at.stage.empty()
                           ? QStringLiteral("%1 %2 %").arg(QString::fromStdString(at.stage)).arg(at.done * 100 / at.total)
                           : QStringLiteral("reading addresses");
  const double width = painter.fontMetrics().horizontalAdvance(text) + 16;
  const QRectF box(s.geometry.plot.right() - width - 6, s.geometry.plot.top() + 6, width, 22);
  painter.fillRect(box, theme.surface);
  painter.drawText(box, Qt::AlignCenter, text);
}

void OverlapView::paintLegendBar(QPainter& painter, const QRectF& strip, const Theme& theme) const {
  const QString name = matrixName(show_, picture_.get(), by_row_sum_) + QStringLiteral("   ") + (picture_ ? matrixFormula(show_, *picture_) : QString());
  paintMatrixLegend(painter, strip, name, scale_, mapOf(show_, theme), theme);
}

QString OverlapView::otherText() const {
  return other_ ? QStringLiteral("B: %1 layer %2 head %3").arg(other_->model_name).arg(other_layer_).arg(other_head_) : QString();
}

void OverlapView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  if (!picture_ && head_) drawNow();
  if (paintGround(painter, area, theme)) return;
  painter.save();
  QRectF rest = area;
  if (options.caption) {
    QString extra = matrixName(show_, picture_.get(), by_row_sum_) + QStringLiteral(", tokens t %1–%2, s %3–%4")
                        .arg(rows_.first).arg(rows_.second - 1).arg(columns_.first).arg(columns_.second - 1);
    if (grid()) extra += QStringLiteral(", ") + QString::fromStdString(grid()->reduction);
    if (other_) extra += QStringLiteral(", ") + otherText();
    if (!dials_.captured() && picture_ && picture_->dial_failed.isEmpty()) {
      if (dials_.top_k) extra += QStringLiteral(", Top-%1").arg(dials_.top_k);
      if (dials_.temperature != 1) extra += QStringLiteral(", temperature %1").arg(dials_.temperature);
      if (dials_.shift) extra += QStringLiteral(", shift %1 slots per token").arg(*dials_.shift);
    }
    rest = paintCaption(painter, area, captionText(*run_, head_.get(), extra, options), theme);
  }
  if (options.legend) {
    const double bar = 26 * theme.base / 12;
    paintLegendBar(painter, QRectF(rest.left(), rest.top(), rest.width(), bar), theme);
    rest.setTop(rest.top() + bar);
  }
  const QImage image = grid() ? gridImage(*grid(), scale_, mapOf(show_, theme)) : QImage();
  const QVector<QImage> side = sideImages(theme);
  MatrixScene s = scene(rest, theme, theme.base / 12, image, side);
  s.marks = options.selection;
  s.count_from_one = options.countFromOne;
  paintMatrix(painter, s);
  painter.restore();
}

QString OverlapView::csv() const {
  if (!run_ || !head_ || !picture_ || !grid()) return {};
  Facts facts = runFacts(*run_, head_.get());
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("tokens_t"), QStringLiteral("%1:%2").arg(rows_.first).arg(rows_.second)});
  facts.push_back({QStringLiteral("tokens_s"), QStringLiteral("%1:%2").arg(columns_.first).arg(columns_.second)});
  facts.push_back({QStringLiteral("reduction"), QString::fromStdString(grid()->reduction)});
  facts.push_back({QStringLiteral("dials"), QStringLiteral("top_k %1, temperature %2, shift %3")
                                                .arg(dials_.top_k ? QString::number(dials_.top_k) : QStringLiteral("as captured"),
                                                     csvNumber(dials_.temperature), dials_.shift ? QString::number(*dials_.shift) : QStringLiteral("as captured"))});
  if (other_) facts.push_back({QStringLiteral("against"), otherText()});
  facts.push_back({QStringLiteral("values"), QStringLiteral("pairs that are not listed are 0 where s <= t")});
  if (!picture_->js_name.isEmpty()) facts.push_back({QStringLiteral("js"), picture_->js_name + QStringLiteral(", nats")});
  QString text = factLines(facts) + QStringLiteral("quantity,t,s,value\n");
  const auto lines = [&](const QString& name, const analysis::MatrixGrid& m) {
    const auto& g = mean_ ? m.mean : m.max;
    for (int r = 0; r < g.rows; ++r)
      for (int c = 0; c < g.columns; ++c) {
        const size_t at = size_t(r) * size_t(g.columns) + size_t(c);
        if (g.state[at] == analysis::Cell::not_routed || (g.state[at] == analysis::Cell::finite && g.value[at] == 0)) continue;
        const double v = g.state[at] == analysis::Cell::finite    ? double(g.value[at])
                         : g.state[at] == analysis::Cell::pos_inf ? std::numeric_limits<double>::infinity()
                         : g.state[at] == analysis::Cell::neg_inf ? -std::numeric_limits<double>::infinity()
                                                                  : std::numeric_limits<double>::quiet_NaN();
        text += name + QLatin1Char(',') + QString::number(m.t0 + r * int64_t(g.slots_per_row)) + QLatin1Char(',') +
                QString::number(m.s0 + c * int64_t(g.tokens_per_column)) + QLatin1Char(',') + csvNumber(v) + QLatin1Char('\n');
      }
  };
  static const char* const names[] = {"overlap", "induced", "against", "difference"};
  lines(QString::fromLatin1(names[int(show_)]) + (by_row_sum_ ? QStringLiteral("_by_row_sum") : QString()), picture_->grid);
  for (size_t i = 0; i < picture_->js.size(); ++i)
    if (!std::isnan(picture_->js[i]))
      text += QStringLiteral("js,%1,,%2\n").arg(picture_->js_token[i]).arg(csvNumber(picture_->js[i]));
  return text;
}

}  // namespace slotscope::views
