#include "views/differences_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/answer_verdict.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/key_plot.h"
#include "views/list_widgets.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 13, kRight = 13, kTop = 8, kTitle = 22, kRow = 21, kHeading = 31;

// Two columns of numbers; wide panels give them more.
double columnWidth(double width, double k) { return std::clamp((width - kLeft - kRight - 112 * k) / 2, 60 * k, 150 * k); }

using Row = DifferencesView::Row;
using Mark = Row::Mark;

QString number(double v, int decimals) {
  return std::isnan(v) ? QStringLiteral("–") : QString::number(v, 'f', decimals);
}

QString textOf(const std::string& bytes) {
  return bytes.empty() ? QStringLiteral("–") : oneLine(QString::fromStdString(bytes));
}

// "K 0.601"; the token alone where its probability was not captured.
QString stepText(const std::optional<analysis::AnswerStep>& step) {
  if (!step) return QStringLiteral("–");
  const QString name = step->bytes_known ? tokenText(step->bytes) : QStringLiteral("#%1").arg(step->id);
  return std::isnan(step->p) ? name : name + QLatin1Char(' ') + strength(step->p);
}

Mark markOf(const std::optional<analysis::AnswerStep>& step) {
  if (!step || !step->right) return Mark::none;
  return *step->right ? Mark::none : Mark::wrong;
}

Mark markOf(const trace::RunInfo& run) {
  const AnswerVerdict verdict = answerVerdict(run);
  return !verdict.known ? Mark::none : verdict.good ? Mark::right : Mark::wrong;
}

// Over all slots: how much of the run one slot takes in.
double meanEsl(const analysis::EslResult& esl) {
  if (esl.tokens <= 0 || esl.esl.empty()) return std::nan("");
  double sum = 0;
  for (const uint32_t n : esl.esl) sum += n;
  return sum / double(esl.tokens) / double(esl.esl.size());
}

QString whole(const analysis::HeadData* head, int (*value)(const analysis::HeadData&)) {
  return head ? count(value(*head)) : QStringLiteral("–");
}

}  // namespace

DifferencesView::DifferencesView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  refreshAccessibility();
}

void DifferencesView::setModel(CompareModel* model) {
  if (model_) model_->disconnect(this);
  model_ = model;
  if (model_) connect(model_, &CompareModel::changed, this, [this] { contentChanged(); });
  contentChanged();
}

QString DifferencesView::emptyText() const {
  if (!model_ || !model_->a().run) return QStringLiteral("Nothing is open.");
  if (!model_->b().run) return model_->b().why.isEmpty() ? QStringLiteral("No second trace is open.") : model_->b().why;
  return {};
}

QVector<Row> DifferencesView::rows() const {
  QVector<Row> out;
  if (!emptyText().isEmpty()) return out;
  const CompareSide &a = model_->a(), &b = model_->b();
  const auto& in_a = a.run->info();
  const auto& in_b = b.run->info();
  const auto heading = [&](const QString& name) { out.push_back({Row::Kind::heading, name}); };
  const auto value = [&](const QString& name, const QString& x, const QString& y) {
    out.push_back({Row::Kind::value, name, x, y});
  };
  const auto steps = analysis::step_differences(in_a, in_b);
  heading(QStringLiteral("Answer"));
  out.push_back({Row::Kind::text, QStringLiteral("answered"), textOf(in_a.output_text), textOf(in_b.output_text),
                 markOf(in_a), markOf(in_b)});
  if (in_a.has_answer || in_b.has_answer)
    out.push_back({Row::Kind::text, QStringLiteral("expected"), textOf(in_a.answer), textOf(in_b.answer)});
  value(QStringLiteral("least certain step"), number(analysis::least_certain(analysis::answer_steps(in_a)), 3),
        number(analysis::least_certain(analysis::answer_steps(in_b)), 3));

  heading(QStringLiteral("This head"));
  const auto both = [&](const QString& name, int decimals, double (*of)(const analysis::HeadData&)) {
    value(name, number(a.head ? of(*a.head) : std::nan(""), decimals), number(b.head ? of(*b.head) : std::nan(""), decimals));
  };
  const auto counts = [&](const QString& name, int (*of)(const analysis::HeadData&)) {
    value(name, whole(a.head.get(), of), whole(b.head.get(), of));
  };
  value(QStringLiteral("layer · head"),
        QStringLiteral("%1 · %2").arg(model_->selectionA()->current().layer).arg(model_->selectionA()->current().head),
        QStringLiteral("%1 · %2").arg(model_->selectionB()->current().layer).arg(model_->selectionB()->current().head));
  counts(QStringLiteral("slots used"), [](const analysis::HeadData& h) { return h.statistics.used; });
  both(QStringLiteral("mean ESL / T"), 3, [](const analysis::HeadData& h) { return meanEsl(h.esl); });
  both(QStringLiteral("effective slots, e^H"), 1, [](const analysis::HeadData& h) { return h.statistics.effective_slots; });
  counts(QStringLiteral("retrieval-only slots"), [](const analysis::HeadData& h) { return h.allocation.counts[0]; });
  counts(QStringLiteral("shared slots"), [](const analysis::HeadData& h) { return h.allocation.counts[1]; });
  both(QStringLiteral("retrieval score"), 3, [](const analysis::HeadData& h) { return h.allocation.head_score; });

  heading(QStringLiteral("Key at the query"));
  value(QStringLiteral("still there"), share(a.key.left.empty() ? std::nan("") : a.key.at_query),
        share(b.key.left.empty() ? std::nan("") : b.key.at_query));
  const auto mass = [](const CompareSide& side, const Selection& s) {
    const auto* line = side.head ? findHead(side.run->summary, s.layer, s.head) : nullptr;
    return line ? line->read_mass_on_key : std::nan("");
  };
  value(QStringLiteral("read mass on key"), number(mass(a, model_->selectionA()->current()), 3),
        number(mass(b, model_->selectionB()->current()), 3));

  if (!steps.empty()) heading(QStringLiteral("Step by step"));
  for (const auto& step : steps) {
    const auto* expected = step.a && step.a->right ? &*step.a : step.b && step.b->right ? &*step.b : nullptr;
    Row row{Row::Kind::step, count(step.position), stepText(step.a), stepText(step.b), markOf(step.a), markOf(step.b)};
    if (expected) row.name += QStringLiteral("   ") + tokenText(expected->expected);
    row.token = step.a ? std::min(step.a->position, in_a.tokens - 1) : -1;
    out.push_back(row);
  }
  return out;
}

double DifferencesView::rowHeight(const Row& row, double k) const {
  return (row.kind == Row::Kind::heading ? kHeading : kRow) * k;
}

double DifferencesView::contentHeight(double) const {
  const double k = Theme::current().base / 12;
  double height = (kTop + kTitle) * k;
  for (const Row& row : rows()) height += rowHeight(row, k);
  return height + 8 * k;
}

void DifferencesView::paintRows(QPainter& p, double width, const Theme& theme, bool marks) const {
  const double k = theme.base / 12, column = columnWidth(width, k), right_b = width - kRight, right_a = right_b - column;
  p.save();
  p.setRenderHint(QPainter::Antialiasing, false);
  const auto write = [&](double left, double right, double top, double height, int align, const QString& text,
                         const QFont& font, const QColor& colour, Qt::TextElideMode elide = Qt::ElideRight) {
    p.setFont(font);
    p.setPen(colour);
    p.drawText(QRectF(left, top, std::max(0.0, right - left), height), align | int(Qt::AlignVCenter) | int(Qt::TextSingleLine),
               QFontMetricsF(font).elidedText(text, elide, std::max(0.0, right - left) + 1));
  };
  // Two names that are the same tell nothing apart.
  const bool same = shortName(*model_, false) == shortName(*model_, true);
  const auto name = [&](bool b) { return same ? QString() : shortName(*model_, b); };
  const auto elide = model_->familiesDiffer() ? Qt::ElideRight : Qt::ElideMiddle;  // names of one family end differently
  double y = kTop * k;
  write(kLeft, right_a, y, kTitle * k, int(Qt::AlignRight), QStringLiteral("A  ") + name(false),
        theme.labelSemibold(), theme.modelA, elide);
  write(right_a + 6 * k, right_b, y, kTitle * k, int(Qt::AlignRight), QStringLiteral("B  ") + name(true),
        theme.labelSemibold(), theme.modelB, elide);
  y += kTitle * k;
  QFont fixed = theme.fixed;
  fixed.setBold(true);
  const int64_t selected = selection_ ? selection_->current().token : -1;
  const auto colour = [&](Mark mark, const QColor& plain) {
    return mark == Mark::wrong ? theme.error : mark == Mark::right ? theme.ok : plain;
  };
  for (const Row& row : rows()) {
    const double height = rowHeight(row, k);
    if (row.kind == Row::Kind::heading) {
      write(kLeft, right_b, y + 4 * k, height - 8 * k, int(Qt::AlignLeft), row.name, theme.semibold(), theme.text);
      p.fillRect(QRectF(kLeft, std::round(y + height - 4 * k), right_b - kLeft, 1), theme.line);
      y += height;
      continue;
    }
    const bool here = marks && row.kind == Row::Kind::step && row.token >= 0 && row.token == selected;
    if (here) p.fillRect(QRectF(5, y, width - 10, height), theme.selectionRow);
    const bool text = row.kind == Row::Kind::text;
    // Long answers share what room there is.
    const double split = right_a - column + 4;
    write(kLeft, split - 4, y, height, int(Qt::AlignLeft), row.name, theme.label(), here ? theme.selection : theme.text2);
    write(split, right_a, y, height, int(Qt::AlignRight), row.a, text ? fixed : theme.ui, colour(row.mark_a, theme.text));
    write(right_a + 6 * k, right_b, y, height, int(Qt::AlignRight), row.b, text ? fixed : theme.ui,
          colour(row.mark_b, theme.text));
    y += height;
  }
  p.restore();
}

void DifferencesView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  paintRows(painter, size.width(), theme, true);
}

QSizeF DifferencesView::figureSize() const {
  return {300, emptyText().isEmpty() ? std::min(1400.0, contentHeight(300)) + 60 : 120};
}

void DifferencesView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  painter.save();
  painter.fillRect(area, theme.surface);
  if (!emptyText().isEmpty()) {
    painter.setFont(theme.ui);
    painter.setPen(theme.text2);
    painter.drawText(area, int(Qt::AlignCenter) | Qt::TextWordWrap, emptyText());
    painter.restore();
    return;
  }
  QRectF rest = area;
  if (options.caption) rest = paintCaption(painter, area, captionText(*model_->a().run, nullptr, {}, options), theme);
  painter.setClipRect(rest, Qt::IntersectClip);
  painter.translate(rest.topLeft());
  paintRows(painter, rest.width(), theme, options.selection);
  painter.restore();
}

QString DifferencesView::csv() const {
  if (!emptyText().isEmpty()) return {};
  Facts facts = runFacts(*model_->a().run, nullptr);
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("model_b"), model_->b().run->model_name});
  facts.push_back({QStringLiteral("prompt_b"), QString::fromStdString(model_->b().run->info().name)});
  QString text = factLines(facts) + QStringLiteral("section,name,a,b\n"), section;
  for (const Row& row : rows()) {
    if (row.kind == Row::Kind::heading)
      section = row.name;
    else
      text += csvField(section) + QLatin1Char(',') + csvField(row.name) + QLatin1Char(',') + csvField(row.a) +
              QLatin1Char(',') + csvField(row.b) + QLatin1Char('\n');
  }
  return text;
}

int DifferencesView::rowAt(const QPointF& position) const {
  const double k = Theme::current().base / 12;
  double y = (kTop + kTitle) * k;
  const auto list = rows();
  for (int i = 0; i < list.size(); ++i) {
    const double next = y + rowHeight(list[i], k);
    if (position.y() >= y && position.y() < next) return i;
    y = next;
  }
  return -1;
}

QString DifferencesView::tipAt(const QPointF& position) const {
  const int at = rowAt(position);
  if (at < 0) return {};
  const Row row = rows()[at];
  if (row.kind == Row::Kind::heading) return {};
  return tipText(row.name, {{QStringLiteral("A ") + shortName(*model_, false), row.a}, {QStringLiteral("B ") + shortName(*model_, true), row.b}},
                 row.kind == Row::Kind::step ? QStringLiteral("token and its probability at this step") : QString(),
                 Theme::current());
}

QString DifferencesView::accessibleText() const {
  if (!emptyText().isEmpty()) return QStringLiteral("Differences, ") + emptyText();
  QString text = QStringLiteral("Differences of A %1 and B %2").arg(model_->a().run->model_name, model_->b().run->model_name);
  const int64_t token = selection_ ? selection_->current().token : -1;
  for (const Row& row : rows()) {
    if (row.kind == Row::Kind::heading || (row.kind == Row::Kind::step && row.token != token)) continue;
    text += QStringLiteral(", %1: %2 and %3").arg(row.name, row.a, row.b);
    if (row.mark_a == Mark::wrong) text += QStringLiteral(", A wrong");
    if (row.mark_b == Mark::wrong) text += QStringLiteral(", B wrong");
  }
  return text;
}

bool DifferencesView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Up || key == Qt::Key_Down) event->accept();
  }
  return PaintedView::event(event);
}

void DifferencesView::mousePressEvent(QMouseEvent* event) {
  const int at = rowAt(toContent(event->position()));
  if (event->button() != Qt::LeftButton || at < 0) return;
  if (const Row row = rows()[at]; row.token >= 0) selection_->request({.token = row.token});
}

void DifferencesView::mouseMoveEvent(QMouseEvent* event) {
  const int at = rowAt(toContent(event->position()));
  const int64_t token = at < 0 ? -1 : rows()[at].token;
  selection_->setHover(-1, token);
  setCursor(token < 0 ? Qt::ArrowCursor : Qt::PointingHandCursor);
}

void DifferencesView::leaveEvent(QEvent*) { selection_->setHover(-1, -1); }

// Up and Down go from step to step.
void DifferencesView::keyPressEvent(QKeyEvent* event) {
  if (!emptyText().isEmpty() || (event->key() != Qt::Key_Up && event->key() != Qt::Key_Down))
    return PaintedView::keyPressEvent(event);
  event->accept();
  std::vector<int64_t> tokens;
  for (const Row& row : rows())
    if (row.token >= 0 && (tokens.empty() || tokens.back() != row.token)) tokens.push_back(row.token);
  if (tokens.empty()) return;
  const int64_t now = selection_->current().token;
  auto next = event->key() == Qt::Key_Down ? std::upper_bound(tokens.begin(), tokens.end(), now)
                                           : std::lower_bound(tokens.begin(), tokens.end(), now);
  if (event->key() == Qt::Key_Down)
    next = next == tokens.end() ? std::prev(tokens.end()) : next;
  else
    next = next == tokens.begin() ? next : std::prev(next);
  selection_->request({.token = *next}, event->isAutoRepeat());
}

}  // namespace slotscope::views
