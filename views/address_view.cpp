#include "views/address_view.h"

#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QSignalBlocker>
#include <QToolButton>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

// At most this many lines of single accesses in a CSV; beyond that its pixels.
constexpr int64_t kMostLines = 1'000'000;

QString digitText(const analysis::ProductCode& code, int64_t slot) {
  QStringList out;
  if (code.known())
    for (const int d : code.digits(slot)) out << QString::number(d);
  return out.join(QLatin1Char(' '));
}

}  // namespace

AddressView::AddressView(SelectionModel* selection, Worker* worker, QWidget* parent)
    : PaintedView(selection, parent), worker_(worker ? std::make_unique<Worker>() : nullptr) {
  buildBar();
  again_.setSingleShot(true);
  again_.setInterval(worker_ ? 20 : 0);
  connect(&again_, &QTimer::timeout, this, &AddressView::request);
  if (selection_)
    connect(selection_, &SelectionModel::tokenRangeChanged, this, [this](qint64 first, qint64 last) {
      if (!following_) setTokens({first, last});
    });
  refreshAccessibility();
}

AddressView::~AddressView() {
  if (progress_) progress_->request_cancel();
}

void AddressView::buildBar() {
  auto* bar = viewBar();
  static const char* const tips[] = {"Slots that each token writes and reads: heads with CAPE drift diagonally, others do not",
                                     "How each factor's probability moves over the tokens, as far as the kept slots tell",
                                     "Codes and slots of the selected token's addresses", "Mass of every slot after the selected token"};
  for (int i = 0; i < kAddressModes; ++i) {
    auto* button = new QToolButton(this);
    button->setText(addressModeName(AddressMode(i)));
    button->setCheckable(true);
    button->setProperty("ui", QStringLiteral("segment"));
    button->setToolTip(QString::fromUtf8(tips[i]));
    connect(button, &QToolButton::clicked, this, [this, i] { setMode(AddressMode(i)); });
    bar->addWidget(button);
    modes_ << button;
  }
  address_box_ = new QComboBox(this);
  address_box_->setAccessibleName(QStringLiteral("Which address"));
  address_box_->addItem(QStringLiteral("write address"));
  address_box_->addItem(QStringLiteral("read address"));
  connect(address_box_, &QComboBox::activated, this, [this](int i) { setWriteFactors(i == 0); });
  bar->addWidget(address_box_);
  decoded_button_ = new QToolButton(this);
  decoded_button_->setText(QStringLiteral("before the shift"));
  decoded_button_->setCheckable(true);
  decoded_button_->setProperty("ui", QStringLiteral("segment"));
  decoded_button_->setToolTip(QStringLiteral("Slots as the logits chose them, without CAPE's shift of one slot per token"));
  connect(decoded_button_, &QToolButton::toggled, this, &AddressView::setDecoded);
  bar->addWidget(decoded_button_);
  bar->addStretch(1);
  legend_ = new LegendWidget(this);
  bar->addWidget(legend_, 0);
  updateBar();
}

void AddressView::updateBar() {
  const QSignalBlocker a(address_box_), b(decoded_button_);
  for (int i = 0; i < modes_.size(); ++i) modes_[i]->setChecked(i == int(mode_));
  const analysis::Addresses* addresses = picture_ ? picture_->addresses.get() : nullptr;
  address_box_->setVisible(mode_ == AddressMode::factors && (!addresses || addresses->own_reads));
  address_box_->setCurrentIndex(write_ ? 0 : 1);
  decoded_button_->setVisible(mode_ == AddressMode::access && addresses && addresses->code.shift != 0);
  decoded_button_->setChecked(decoded_);
  legend_->setItems(legend(Theme::current()));
}

void AddressView::setRun(std::shared_ptr<const RunData> run) {
  if (progress_) progress_->request_cancel();
  picture_ = nullptr;
  PaintedView::setRun(std::move(run));
  tokens_ = {0, std::max<int64_t>(tokens(), 1)};
  if (selection_ && selection_->tokenRange().second > selection_->tokenRange().first) tokens_ = clampRange(selection_->tokenRange(), tokens());
}

void AddressView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  const bool other = head != head_;
  const int64_t before = slotCount();
  PaintedView::setHead(std::move(head));
  if (!other) return;
  if (progress_) progress_->request_cancel();
  if (!head_) picture_ = nullptr;
  if (slotCount() != before || slots_.second <= 1) slots_ = {0, std::max<int64_t>(slotCount(), 1)};
  if (tokens_.second <= 1 || tokens_.second > tokens()) tokens_ = {0, std::max<int64_t>(tokens(), 1)};
  request();
}

int64_t AddressView::tokens() const { return head_ ? head_->routes.tokens : run_ && hasInfo(*run_) ? run_->info().tokens : 0; }
int64_t AddressView::slotCount() const { return head_ ? head_->routes.slots : 0; }

void AddressView::setMode(AddressMode mode) {
  if (mode != mode_) picture_ = nullptr;
  mode_ = mode;
  image_ = {};
  updateBar();
  request();
  contentChanged();
}

void AddressView::setWriteFactors(bool write) {
  write_ = write;
  updateBar();
  request();
}

void AddressView::setDecoded(bool on) {
  decoded_ = on;
  updateBar();
  request();
}

void AddressView::setTokens(CellRange range) {
  range = clampRange(range, tokens());
  if (range == tokens_) return;
  tokens_ = range;
  if (selection_ && selection_->tokenRange() != std::pair<qint64, qint64>(range)) {
    following_ = true;
    selection_->setTokenRange(range.first, range.second, true);
    following_ = false;
  }
  update();
  again_.start();
}

void AddressView::setSlots(CellRange range) {
  range = clampRange(range, slotCount());
  if (range == slots_) return;
  slots_ = range;
  update();
  again_.start();
}

AddressJob AddressView::job() const {
  const QRectF plot = plotFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current().base / 12);
  AddressJob j;
  j.run = run_, j.head = head_, j.mode = mode_, j.write = write_, j.decoded = decoded_;
  j.tokens = tokens_, j.slots = slots_;
  j.token = selection_ ? std::clamp<int64_t>(selection_->current().token, 0, std::max<int64_t>(tokens() - 1, 0)) : 0;
  j.columns = std::clamp(int(plot.width() * devicePixelRatioF()), 16, 4096);
  j.rows = std::clamp(int(plot.height() * devicePixelRatioF()), 16, 4096);
  j.progress = std::make_shared<Progress>();
  return j;
}

void AddressView::drawNow() {
  if (!head_ || !run_) return;
  ++ticket_;
  adopt(std::make_shared<const AddressPicture>(source_->make(job())));
}

void AddressView::request() {
  again_.stop();
  if (!head_ || !run_) return;
  if (progress_) progress_->request_cancel();
  if (!worker_) return drawNow();
  const AddressJob wanted = job();
  progress_ = wanted.progress;
  waiting_ = 1;
  worker_->post(QStringLiteral("addresses"), this, [this, wanted, source = source_, ticket = ++ticket_]() -> Worker::Done {
    auto made = std::make_shared<const AddressPicture>(source->make(wanted));
    return [this, made, ticket] {
      if (ticket != ticket_) return;
      waiting_ = 0;
      adopt(made);
    };
  });
}

void AddressView::adopt(std::shared_ptr<const AddressPicture> picture) {
  if (picture->cancelled || picture->mode != mode_) return;
  picture_ = std::move(picture);
  image_ = {};
  updateBar();
  contentChanged();
  QString text;
  if (mode_ == AddressMode::access && picture_->access.rows > 0) {
    const auto& g = picture_->access;
    text = g.slots_per_row == 1 && g.tokens_per_column == 1 ? QStringLiteral("every access drawn, no reduction")
                                                            : QStringLiteral("max of %1 slots × %2 tokens per pixel").arg(g.slots_per_row).arg(g.tokens_per_column);
  } else if (mode_ == AddressMode::factors) {
    text = QString::fromStdString(picture_->factors.reduction) + QStringLiteral("; of the kept mass");
  }
  Q_EMIT reductionText(text);
}

QString AddressView::emptyText() const {
  if (!run_) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (!head_) return QStringLiteral("This head has no routes, so there are no addresses to show.");
  return picture_ ? picture_->failed : QString();
}

void AddressView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  const QRectF area(QPointF(0, 0), size);
  painter.fillRect(area, theme.surface);
  if (picture_ && picture_->addresses) paintMode(painter, {.area = area, .theme = &theme, .scale = theme.base / 12});
}

QString AddressView::modeText() const {
  switch (mode_) {
    case AddressMode::access:
      return QStringLiteral("accesses of slots %1–%2 by tokens %3–%4%5, deeper colour = larger weight (square root)").arg(slots_.first).arg(slots_.second - 1)
          .arg(tokens_.first).arg(tokens_.second - 1).arg(decoded_ ? QStringLiteral(", before the shift") : QString());
    case AddressMode::factors:
      return QStringLiteral("factor marginals p_u(j) of the %1 address, of the kept mass (what Top-K left out is not in it), tokens %2–%3")
          .arg(write_ ? QStringLiteral("write") : QStringLiteral("read")).arg(tokens_.first).arg(tokens_.second - 1);
    case AddressMode::digits:
      return QStringLiteral("addresses of token %1, marginals of the kept mass").arg(picture_ ? picture_->token : 0);
    case AddressMode::mass:
      return QStringLiteral("mass of each slot after token %1").arg(picture_ ? picture_->mass.token : 0);
  }
  return {};
}

void AddressView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  if (!picture_ && head_) drawNow();
  if (paintGround(painter, area, theme) || !picture_) return;
  painter.save();
  QRectF rest = area;
  if (options.caption) rest = paintCaption(painter, area, captionText(*run_, head_.get(), modeText(), options), theme);
  const auto items = legend(theme);
  if (options.legend && !items.isEmpty()) {
    const double bar = 26 * theme.base / 12;
    paintLegend(painter, rest.left() + 100 * theme.base / 12, rest.top() + bar / 2, items, theme);
    rest.setTop(rest.top() + bar);
  }
  image_ = {};
  paintMode(painter, {.area = rest, .theme = &theme, .scale = theme.base / 12, .marks = options.selection, .count_from_one = options.countFromOne});
  image_ = {};
  painter.restore();
}

QString AddressView::csv() const {
  if (!run_ || !head_ || !picture_ || !picture_->addresses || !picture_->failed.isEmpty()) return {};
  const analysis::Addresses& a = *picture_->addresses;
  Facts facts = runFacts(*run_, head_.get());
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("shown"), modeText()});
  QString text = factLines(facts);
  const auto put = [&](std::initializer_list<QString> fields) { text += QStringList(fields).join(QLatin1Char(',')) + QLatin1Char('\n'); };
  const auto number = [](int64_t v) { return QString::number(v); };
  const QString names[] = {QStringLiteral("read"), QStringLiteral("write")};
  if (mode_ == AddressMode::access) {
    const int64_t span = tokens_.second - tokens_.first;
    if (span * (a.write->top_k + (a.own_reads ? a.read_k : 0)) > kMostLines) {
      const auto& g = picture_->access;
      text += QStringLiteral("access,first_token,first_slot,largest_weight\n");
      for (int r = 0; r < g.rows; ++r)
        for (int c = 0; c < g.columns; ++c)
          for (const bool write : {true, false})
            if (const float w = (write ? g.write : g.read)[size_t(r) * size_t(g.columns) + size_t(c)]; w > 0)
              put({names[write], number(g.first_token + c * g.tokens_per_column), number(g.first_slot + r * g.slots_per_row), csvNumber(double(w))});
      return text;
    }
    text += QStringLiteral("access,token,rank,slot,digits,decoded_slot,weight\n");
    for (int64_t row = 0; row < a.rows(); ++row) {
      const int64_t t = a.write->token_of(row);
      if (t < tokens_.first || t >= tokens_.second) continue;
      for (const bool write : {true, false})
        for (int k = 0; k < (write ? a.write->top_k : a.own_reads ? a.read_k : 0); ++k) {
          const int64_t slot = write ? a.write->slot_at(row, k) : a.read_slot_at(row, k), decoded = a.code.decoded(slot, a.position[size_t(row)], a.slots());
          if (slot >= a.slots() || (decoded_ ? decoded : slot) < slots_.first || (decoded_ ? decoded : slot) >= slots_.second) continue;
          put({names[write], number(t), number(k), number(slot), digitText(a.code, slot), number(decoded), csvNumber(write ? a.write->weight_at(row, k) : a.read_weight_at(row, k))});
        }
    }
  } else if (mode_ == AddressMode::factors) {
    text += QStringLiteral("address,token,factor,code,kept_mass\n");
    const auto& g = picture_->factors;
    for (int c = 0; c < g.columns; ++c)
      for (int r = 0; r < g.rows; ++r)
        if (g.state[size_t(r) * size_t(g.columns) + size_t(c)] == analysis::Cell::finite)
          put({names[picture_->write], number(g.first + c * int64_t(g.tokens_per_column)), number(r / a.code.codes), number(r % a.code.codes),
               csvNumber(double(g.value[size_t(r) * size_t(g.columns) + size_t(c)]))});
  } else if (mode_ == AddressMode::digits) {
    text += QStringLiteral("address,token,rank,slot,digits,decoded_slot,weight\n");
    for (const bool write : {true, false})
      for (int k = 0; picture_->row >= 0 && k < (write ? a.write->top_k : a.own_reads ? a.read_k : 0); ++k) {
        const int64_t slot = write ? a.write->slot_at(picture_->row, k) : a.read_slot_at(picture_->row, k);
        put({names[write], number(picture_->token), number(k), number(slot), digitText(a.code, slot), number(a.code.decoded(slot, a.position[size_t(picture_->row)], a.slots())),
             csvNumber(write ? a.write->weight_at(picture_->row, k) : a.read_weight_at(picture_->row, k))});
      }
  } else {
    text += QStringLiteral("token,slot,digits,mass\n");
    for (size_t slot = 0; slot < picture_->mass.mass.size(); ++slot)
      put({number(picture_->mass.token), number(int64_t(slot)), digitText(a.code, int64_t(slot)), csvNumber(picture_->mass.mass[slot])});
  }
  return text;
}

AddressView::Hit AddressView::hitAt(const QPointF& at) const {
  Hit hit;
  if (!picture_ || !picture_->addresses || !emptyText().isEmpty()) return hit;
  const QRectF area(QPointF(0, 0), contentRect().size());
  const double s = Theme::current().base / 12;
  const auto share = [](double v, double from, double length) { return std::clamp((v - from) / length, 0.0, 1.0 - 1e-12); };
  if (mode_ == AddressMode::digits) {
    for (const bool read : {false, true})
      for (int k = 0; picture_->row >= 0 && k < (read ? (picture_->addresses->own_reads ? picture_->addresses->read_k : 0) : picture_->addresses->write->top_k); ++k)
        if (rankRow(area, s, read, k).contains(at)) hit.slot = read ? picture_->addresses->read_slot_at(picture_->row, k) : picture_->addresses->write->slot_at(picture_->row, k);
    return hit;
  }
  const QRectF plot = plotFor(area, s);
  const bool in_rows = at.y() >= plot.top() && at.y() < plot.bottom(), in_columns = at.x() >= plot.left() && at.x() < plot.right();
  if (mode_ == AddressMode::mass) {
    if (in_columns && at.y() >= plot.top()) hit.slot = slots_.first + int64_t(share(at.x(), plot.left(), plot.width()) * double(slots_.second - slots_.first));
    return hit;
  }
  if (in_columns && at.y() >= plot.top()) hit.token = tokens_.first + int64_t(share(at.x(), plot.left(), plot.width()) * double(tokens_.second - tokens_.first));
  if (!in_rows) return hit;
  if (mode_ == AddressMode::access) {
    if (at.x() < plot.right()) hit.slot = slots_.first + int64_t(share(at.y(), plot.top(), plot.height()) * double(slots_.second - slots_.first));
  } else if (in_columns) {
    const auto& code = picture_->addresses->code;
    const double gap = std::round(6 * s), strip = (plot.height() - gap * (code.factors - 1)) / code.factors;
    const int u = std::min(code.factors - 1, int((at.y() - plot.top()) / (strip + gap)));
    hit.factor = u;
    hit.code = std::clamp(int((at.y() - plot.top() - u * (strip + gap)) / strip * code.codes), 0, code.codes - 1);
  }
  return hit;
}

QString AddressView::hitText(const Hit& hit) const {
  if (!picture_ || !picture_->addresses) return {};
  const analysis::Addresses& a = *picture_->addresses;
  QStringList out;
  if (hit.token >= 0) out << QStringLiteral("token %1 %2").arg(count(hit.token), run_ && hasInfo(*run_) ? tokenTitle(run_->info(), hit.token) : QString());
  const int64_t row = hit.token >= 0 ? analysis::row_of(*a.write, hit.token) : -1;
  if (hit.slot >= 0) out << (decoded_ && mode_ == AddressMode::access ? QStringLiteral("slot before the shift ") : QStringLiteral("slot ")) + QString::fromStdString(analysis::slot_name(a.code, hit.slot));
  if (hit.token >= 0 && row < 0) out << QStringLiteral("not captured");
  if (mode_ == AddressMode::access && row >= 0 && hit.slot >= 0) {
    for (const bool write : {true, false})
      for (int k = 0; k < (write ? a.write->top_k : a.own_reads ? a.read_k : 0); ++k) {
        const int64_t slot = write ? a.write->slot_at(row, k) : a.read_slot_at(row, k);
        if ((decoded_ ? a.code.decoded(slot, a.position[size_t(row)], a.slots()) : slot) == hit.slot)
          out << QStringLiteral("%1 %2 (rank %3)").arg(write ? QStringLiteral("written") : QStringLiteral("read"), strength(write ? a.write->weight_at(row, k) : a.read_weight_at(row, k), 4)).arg(k);
      }
  }
  if (hit.factor >= 0 && row >= 0) {
    const auto m = analysis::factor_marginals(a, row, picture_->write);
    out << QStringLiteral("p_%1(%2) %3 of kept %4").arg(hit.factor).arg(hit.code).arg(strength(m[size_t(hit.factor * a.code.codes + hit.code)], 4), strength(analysis::kept_mass(a, row, picture_->write), 4));
  }
  if (mode_ == AddressMode::mass && hit.slot >= 0 && size_t(hit.slot) < picture_->mass.mass.size())
    out << QStringLiteral("mass %1").arg(strength(picture_->mass.mass[size_t(hit.slot)], 4));
  return out.join(QStringLiteral("   "));
}

QString AddressView::tipAt(const QPointF& at) const {
  const Hit hit = hitAt(at);
  const QString text = hitText(hit);
  if (text.isEmpty()) return {};
  QStringList parts = text.split(QStringLiteral("   "));
  QVector<std::pair<QString, QString>> rows;
  for (qsizetype i = 1; i < parts.size(); ++i) rows.push_back({parts[i], {}});
  static const char* const sources[] = {"K slots of each address after Top-K; a CAPE head moves them by one slot per token, modulo M (v1 Fig. 5)",
                                        "Sum of the kept weights of slots whose factor u has code j, before the shift: of the kept mass, what Top-K left out is not in it",
                                        "slot = Σᵤ code_u · d_p^u", "GSU: m ← ρ m + w, ρ = σ(logit(1−w) − γ); PDMA: z ← (1−w)^γ z + w"};
  return tipText(parts.front(), rows, QString::fromUtf8(sources[int(mode_)]), Theme::current());
}

QString AddressView::accessibleText() const {
  const QString why = emptyText();
  if (!why.isEmpty() || !picture_ || !picture_->addresses) return QStringLiteral("Addresses, ") + why;
  const analysis::Addresses& a = *picture_->addresses;
  QString text = QStringLiteral("Addresses, %1, layer %2 head %3").arg(addressModeName(mode_)).arg(head_->layer).arg(head_->head);
  const int64_t t = selection_ ? selection_->current().token : -1, row = t >= 0 ? analysis::row_of(*a.write, t) : -1;
  if (row < 0) return text;
  const auto best = [&](bool write) { return QString::fromStdString(analysis::slot_name(a.code, write ? a.write->slot_at(row, 0) : a.read_slot_at(row, 0))); };
  text += QStringLiteral(", token %1 writes slot %2 with %3").arg(t).arg(best(true), strength(a.write->weight_at(row, 0), 4));
  if (a.own_reads) text += QStringLiteral(" and reads slot %1 with %2").arg(best(false), strength(a.read_weight_at(row, 0), 4));
  if (mode_ == AddressMode::mass && selection_ && size_t(selection_->current().slot) < picture_->mass.mass.size())
    text += QStringLiteral(", slot %1 has mass %2").arg(selection_->current().slot).arg(strength(picture_->mass.mass[size_t(selection_->current().slot)], 4));
  return text;
}

void AddressView::selectionMoved(int parts) {
  if ((parts & SelectionModel::Token) && (mode_ == AddressMode::digits || mode_ == AddressMode::mass)) again_.start();
  PaintedView::selectionMoved(parts);
}

void AddressView::changeEvent(QEvent* event) {
  PaintedView::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && legend_) {
    image_ = {};
    updateBar();
  }
}

void AddressView::resizeEvent(QResizeEvent* event) {
  PaintedView::resizeEvent(event);
  if (head_ && worker_) again_.start();
}

void AddressView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return PaintedView::mousePressEvent(event);
  press_ = event->position();
  press_tokens_ = tokens_, press_slots_ = slots_;
  pressed_ = true, panning_ = false;
}

void AddressView::mouseReleaseEvent(QMouseEvent* event) {
  if (!pressed_ || event->button() != Qt::LeftButton) return;
  pressed_ = false;
  if (std::exchange(panning_, false) || !selection_) return;
  const Hit hit = hitAt(toContent(event->position()));
  SelectionRequest wanted;
  if (hit.token >= 0) wanted.token = hit.token;
  if (hit.slot >= 0 && !(decoded_ && mode_ == AddressMode::access)) wanted.slot = int(hit.slot);
  if (wanted.token || wanted.slot) selection_->request(wanted);
}

void AddressView::mouseMoveEvent(QMouseEvent* event) {
  if (pressed_ && mode_ != AddressMode::digits && ((event->position() - press_).manhattanLength() > 6 || panning_)) {
    panning_ = true;
    const QRectF plot = plotFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current().base / 12);
    const QPointF moved = event->position() - press_;
    const auto by = [](double pixels, double length, CellRange r) { return -std::llround(pixels / length * double(r.second - r.first)); };
    if (mode_ == AddressMode::mass) return setSlots(panRange(press_slots_, by(moved.x(), plot.width(), press_slots_), slotCount()));
    setTokens(panRange(press_tokens_, by(moved.x(), plot.width(), press_tokens_), tokens()));
    if (mode_ == AddressMode::access) setSlots(panRange(press_slots_, by(moved.y(), plot.height(), press_slots_), slotCount()));
    return;
  }
  const Hit hit = hitAt(toContent(event->position()));
  if (selection_) selection_->setHover(decoded_ && mode_ == AddressMode::access ? -1 : int(hit.slot), hit.token);
  Q_EMIT statusText(hitText(hit));
}

void AddressView::leaveEvent(QEvent*) {
  if (selection_) selection_->setHover(-1, -1);
  Q_EMIT statusText({});
}

void AddressView::wheelEvent(QWheelEvent* event) {
  const double units = event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x();
  if (units == 0 || !head_ || mode_ == AddressMode::digits) return event->ignore();
  event->accept();
  const QRectF plot = plotFor(QRectF(QPointF(0, 0), contentRect().size()), Theme::current().base / 12);
  const QPointF at = toContent(event->position());
  const double x = std::clamp((at.x() - plot.left()) / plot.width(), 0.0, 1.0), y = std::clamp((at.y() - plot.top()) / plot.height(), 0.0, 1.0);
  const auto place = [](CellRange r, double share) { return double(r.first) + share * double(r.second - r.first); };
  if (mode_ == AddressMode::mass) return setSlots(zoomRange(slots_, place(slots_, x), wheelFactor(units), slotCount()));
  const bool slots_only = mode_ == AddressMode::access && (at.x() < plot.left() || (event->modifiers() & Qt::ControlModifier));
  if (event->modifiers() & Qt::ShiftModifier) return setTokens(panRange(tokens_, std::llround(-units / 120 * double(tokens_.second - tokens_.first) / 10), tokens()));
  if (slots_only) return setSlots(zoomRange(slots_, place(slots_, y), wheelFactor(units), slotCount()));
  setTokens(zoomRange(tokens_, place(tokens_, x), wheelFactor(units), tokens()));
}

void AddressView::keyPressEvent(QKeyEvent* event) {
  const bool by_slot = mode_ == AddressMode::mass;
  const double at = !selection_ ? 0 : by_slot ? selection_->current().slot + 0.5 : double(selection_->current().token) + 0.5;
  const auto zoom = [&](double factor) {
    if (by_slot) setSlots(zoomRange(slots_, at, factor, slotCount()));
    else setTokens(zoomRange(tokens_, at, factor, tokens()));
  };
  switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoom(1.5);
    case Qt::Key_Minus:
      return zoom(1 / 1.5);
    case Qt::Key_0:
      setSlots({0, slotCount()});
      return setTokens({0, tokens()});
    case Qt::Key_C:
      return setMode(AddressMode((int(mode_) + 1) % kAddressModes));
    default:
      PaintedView::keyPressEvent(event);
  }
}

}  // namespace slotscope::views
