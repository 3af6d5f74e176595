#include "views/inspector_view.h"

#include <QActionGroup>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QGuiApplication>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/strip.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {
constexpr double kLeft = 13, kRight = 14, kRow = 19, kFact = 18;
}

struct InspectorView::Pen {
  QPainter* painter = nullptr;  // null: only measuring
  const Theme& theme;
  double width = 0, y = 0, unit = 1;
  bool marks = true;
  QVector<Row>* rows = nullptr;
  double right() const { return width - kRight; }
  int shown() const { return width >= 340 * unit ? 8 : 5; }

  void text(double left, double right_edge, double middle, int align, const QString& s, const QFont& font,
            const QColor& colour) {
    if (!painter) return;
    painter->setFont(font);
    painter->setPen(colour);
    painter->drawText(QRectF(left, middle - 12, std::max(0.0, right_edge - left), 24),
                      align | int(Qt::AlignVCenter) | int(Qt::TextSingleLine), s);
  }
  // Name at the left, value at the right.
  void fact(const QString& name, const QString& value, bool quiet = false) {
    text(kLeft, right(), y, int(Qt::AlignLeft), name, theme.label(), theme.text2);
    text(kLeft, right(), y, int(Qt::AlignRight), value, quiet ? theme.label() : theme.ui,
         quiet ? theme.text3 : theme.text);
    y += kFact * unit;
  }
  // Title of a list with its column heads; `sorted` is drawn stronger.
  void head(const QString& name, const QString& first, const QString& second, RowOrder order, bool sortable) {
    text(kLeft, right(), y, int(Qt::AlignLeft), name, theme.labelSemibold(), theme.text2);
    text(kLeft, right() - 76 * unit, y, int(Qt::AlignRight), first, theme.micro(),
         sortable && order == RowOrder::Strength ? theme.text2 : theme.text3);
    text(kLeft, right(), y, int(Qt::AlignRight), second, theme.micro(),
         sortable && order == RowOrder::Left ? theme.text2 : theme.text3);
    if (painter) {
      painter->setRenderHint(QPainter::Antialiasing, false);
      painter->fillRect(QRectF(kLeft - 1, std::round(y + 9 * unit), width - kLeft - kRight + 2, 1),
                        theme.line);
    }
  }
  void bar(double left, double right_edge, double share, const QColor& colour) {
    if (!painter || std::isnan(share)) return;
    painter->setRenderHint(QPainter::Antialiasing, false);
    const double top = std::round(y - 2.5);
    painter->fillRect(QRectF(left, top, right_edge - left, 5), theme.hoverFill);
    const double filled = std::clamp(share, 0.0, 1.0) * (right_edge - left);
    if (share > 0) painter->fillRect(QRectF(left, top, std::max(1.0, std::round(filled)), 5), colour);
  }
  QRectF rowArea() const { return {5, y - kRow * unit / 2, width - 10, kRow * unit}; }
  void highlight() {
    if (painter && marks) painter->fillRect(rowArea().adjusted(0, 0, 0, 0), theme.selectionRow);
  }
  void add(Row::Kind kind, int64_t value, const QString& copy) {
    if (rows) rows->push_back({kind, rowArea(), value, copy});
    y += kRow * unit;
  }
  void more(Row::Kind kind, qsizetype n, bool all) {
    text(kLeft + 24 * unit, right(), y, int(Qt::AlignLeft),
         all ? QStringLiteral("show fewer") : QStringLiteral("%1 more").arg(count(n)), theme.label(),
         theme.text3);
    add(kind, n, {});
  }
  // Name of a token in the narrow column at the left.
  void glyph(const QString& name, const QColor& colour) {
    if (!painter) return;
    QFont font = theme.fixed;
    font.setBold(true);
    const QFontMetricsF metrics(font);
    const QString fits = metrics.elidedText(name, Qt::ElideRight, 66 * unit);
    const bool one = metrics.horizontalAdvance(fits) < 20 * unit;
    text(one ? kLeft : kLeft + 4, one ? kLeft + 20 * unit : right(), y,
         int(one ? Qt::AlignHCenter : Qt::AlignLeft), fits, font, colour);
  }
  // Where the position column begins: after a name longer than one character it moves to the right.
  double afterGlyph(const QString& name) const {
    QFont font = theme.fixed;
    font.setBold(true);
    const QFontMetricsF metrics(font);
    const double wide = std::min(metrics.horizontalAdvance(name), 66 * unit);
    return wide < 20 * unit ? kLeft + 24 * unit : kLeft + 12 * unit + wide;
  }
  // A sentence over as many lines as it needs: why something is undefined.
  void paragraph(const QString& sentence) {
    if (sentence.isEmpty()) return;
    const QFont font = theme.label();
    const QRectF room(kLeft, y - 4 * unit, right() - kLeft, 1000);
    const QRectF used = QFontMetricsF(font).boundingRect(room, int(Qt::AlignLeft | Qt::TextWordWrap), sentence);
    if (painter) {
      painter->setFont(font);
      painter->setPen(theme.text3);
      painter->drawText(room, int(Qt::AlignLeft | Qt::TextWordWrap), sentence);
    }
    y += used.height() + 8 * unit;
  }
  double badge(double left, double middle, const QString& name, const QColor& colour) {
    const QFont font = theme.labelSemibold();
    const double wide = QFontMetricsF(font).horizontalAdvance(name) + 13 * unit, high = 18 * unit;
    if (painter) {
      painter->setRenderHint(QPainter::Antialiasing);
      const QRectF box(left + 0.5, std::round(middle - high / 2) + 0.5, wide, high - 1);
      painter->setPen(QPen(colour, 1));
      painter->setBrush(mix(colour, theme.surface, theme.dark ? 0.22 : 0.1));
      painter->drawRoundedRect(box, high / 2 - 0.5, high / 2 - 0.5);
      painter->setBrush(Qt::NoBrush);
      text(box.left(), box.right(), middle, int(Qt::AlignHCenter), name, font, colour);
    }
    return left + wide;
  }
};

InspectorView::InspectorView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  refreshAccessibility();
}

void InspectorView::setRun(std::shared_ptr<const RunData> run) {
  all_writers_ = all_slots_ = all_readers_ = false;
  PaintedView::setRun(std::move(run));
  refresh();
}

void InspectorView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  View::setHead(head);
  refresh();
  PaintedView::setHead(std::move(head));
}

void InspectorView::setReference(Reference reference) {
  reference_ = reference;
  refresh();
  contentChanged();
  Q_EMIT choiceTextChanged(choiceText());
}

void InspectorView::setWritersOrder(RowOrder order) {
  writers_order_ = order;
  refresh();
  contentChanged();
}

void InspectorView::setSlotsOrder(RowOrder order) {
  slots_order_ = order;
  refresh();
  contentChanged();
}

int64_t InspectorView::referenceToken() const {
  if (!run_ || !hasInfo(*run_)) return 0;
  const auto& info = run_->info();
  const int64_t last = std::max<int64_t>(0, info.tokens - 1);
  switch (reference_) {
    case Reference::End:
      return last;
    case Reference::SelectedToken:
      return std::clamp<int64_t>(selection_->current().token, 0, last);
    case Reference::Query:
    case Reference::EndOfPrompt:
      break;
  }
  return std::clamp<int64_t>(analysis::query_token(info), 0, last);
}

QString InspectorView::referenceName() const {
  switch (reference_) {
    case Reference::EndOfPrompt:
      return QStringLiteral("end of prompt");
    case Reference::End:
      return QStringLiteral("end");
    case Reference::SelectedToken:
      return QStringLiteral("token %1").arg(referenceToken());
    case Reference::Query:
      break;
  }
  return QStringLiteral("query");
}

QString InspectorView::choiceText() const { return QStringLiteral("at ") + referenceName(); }

QMenu* InspectorView::choiceMenu() {
  if (menu_) return menu_;
  menu_ = new QMenu(this);
  auto* group = new QActionGroup(menu_);
  const std::pair<QString, Reference> choices[] = {
      {QStringLiteral("At the query"), Reference::Query},
      {QStringLiteral("At the end of the prompt"), Reference::EndOfPrompt},
      {QStringLiteral("At the end"), Reference::End},
      {QStringLiteral("At the selected token"), Reference::SelectedToken}};
  for (const auto& [text, reference] : choices) {
    auto* action = menu_->addAction(text, this, [this, reference = reference] { setReference(reference); });
    action->setCheckable(true);
    action->setData(int(reference));
    group->addAction(action);
  }
  connect(menu_, &QMenu::aboutToShow, this, [this, group] {
    const auto actions = group->actions();
    for (auto* action : actions) action->setChecked(action->data().toInt() == int(reference_));
  });
  return menu_;
}

void InspectorView::refresh() {
  valid_ = head_ && run_ && hasInfo(*run_) && run_->info().tokens > 0;
  rows_width_ = -1;
  current_row_ = -1;
  if (!valid_) return;
  const auto& s = selection_->current();
  const int64_t reference = referenceToken();
  const auto known = token_.token == s.token ? token_.surprisal : std::nullopt;
  slot_ = slotFacts(*head_, s.slot, reference, writers_order_);
  token_ = tokenFacts(*head_, s.token, reference, slots_order_, s.slot);
  token_.surprisal = known;
  requestSurprisal();
}

void InspectorView::requestSurprisal() {
  const int64_t token = token_.token;
  if (const double v = candidateSurprisal(run_->info(), token); std::isfinite(v)) {
    token_.surprisal = v;
    return;
  }
  if (token_.surprisal || token == 0 || !hasLogits(*run_)) return;
  const auto wanted = run_;
  reader_.request(this, run_, token, 1, [this, wanted, token](int64_t, std::vector<double> values) {
    if (run_ != wanted || token_.token != token || values.empty() || !std::isfinite(values[0])) return;
    token_.surprisal = values[0];
    update();
  });
}

QString InspectorView::emptyText() const {
  if (!run_ || !hasInfo(*run_)) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (valid_ && head_) return {};
  const auto& s = selection_->current();
  const auto* summary = findHead(run_->summary, s.layer, s.head);
  if (summary && !summary->why.empty())
    return QStringLiteral("Layer %1 has no slots to inspect: %2.")
        .arg(s.layer)
        .arg(QString::fromStdString(summary->why));
  return QStringLiteral("No routes are known for layer %1, head %2.").arg(s.layer).arg(s.head);
}

void InspectorView::slotBlock(Pen& pen) const {
  const auto& theme = pen.theme;
  const auto& info = run_->info();
  const double unit = pen.unit, right = pen.right();
  pen.y += 18 * unit;
  const QString title = QStringLiteral("Slot %1").arg(slot_.slot);
  pen.text(kLeft, right, pen.y, int(Qt::AlignLeft), title, theme.title(), theme.text);
  pen.badge(kLeft + QFontMetricsF(theme.title()).horizontalAdvance(title) + 11 * unit, pen.y,
            slotClassName(slot_.kind), theme.roleTextColour(slot_.kind));
  pen.y += 25 * unit;
  const double part = slot_.tokens ? double(slot_.writes) / double(slot_.tokens)
                                   : 0;  // few writes of many tokens are not "0.0 %"
  pen.fact(QStringLiteral("ESL"), QStringLiteral("%1 of %2 tokens · %3")
                                      .arg(count(slot_.writes), count(slot_.tokens),
                                           share(part, part > 0 && part < 0.0005 ? 3 : 1)));
  pen.fact(QStringLiteral("Tokens held"), signedNumber(slot_.tokens_held, 2));
  pen.fact(QStringLiteral("Specialisation"),
           std::isnan(slot_.specialisation)
               ? QStringLiteral("–")
               : signedNumber(slot_.specialisation, 2) + QStringLiteral(" retrieval"));
  pen.fact(QStringLiteral("Read at ") + referenceName(),
           slot_.read                          ? QStringLiteral("p = ") + strength(*slot_.read)
           : head_->routes.no_reads.empty() ? QStringLiteral("not captured")
                                            : QStringLiteral("no softmax over slots"),
           !slot_.read);
  pen.y += 3 * unit;
  pen.head(QStringLiteral("Who wrote it"), QStringLiteral("s"), QStringLiteral("left at ") + referenceName(),
           writers_order_, true);
  if (pen.rows) pen.rows->push_back({Row::SortWriters, {kLeft, pen.y - 9, right - kLeft, 18}, 0, {}});
  pen.y += 18.5 * unit;
  const auto total = qsizetype(slot_.writers.size());
  const auto shown =
      all_writers_ ? total : std::min<qsizetype>(total, total <= pen.shown() + 1 ? total : pen.shown());
  if (total == 0) {
    pen.text(kLeft, right, pen.y, int(Qt::AlignLeft), QStringLiteral("nothing was written"), theme.label(),
             theme.text3);
    pen.y += kRow * unit;
  }
  for (qsizetype i = 0; i < shown; ++i) {
    const auto& row = slot_.writers[size_t(i)];
    const bool on = pen.marks && row.token == token_.token, red = isRetrieval(info, row.token);
    if (on) pen.highlight();
    const QString name = tokenName(info, row.token);
    pen.glyph(name, on ? theme.selection : red ? theme.retrieval : theme.text);
    pen.text(pen.afterGlyph(name), right, pen.y, int(Qt::AlignLeft), count(row.token), theme.label(),
             theme.text2);
    pen.text(kLeft, right - 76 * unit, pen.y, int(Qt::AlignRight), strength(row.strength), theme.label(),
             theme.text);
    if (row.after) {
      pen.text(kLeft, right, pen.y, int(Qt::AlignRight), QStringLiteral("after ") + referenceName(),
               theme.micro(), theme.text3);
    } else {
      pen.bar(right - 68 * unit, right - 32 * unit, row.left, red ? theme.retrieval : theme.text2);
      pen.text(kLeft, right, pen.y, int(Qt::AlignRight), barShare(row.left), theme.micro(), theme.text2);
    }
    pen.add(Row::Writer, row.token, QString::number(row.strength, 'f', 6));
  }
  if (total > shown || (all_writers_ && total > pen.shown() + 1))
    pen.more(Row::MoreWriters, total - shown, all_writers_);
}

void InspectorView::tokenBlock(Pen& pen) const {
  const auto& theme = pen.theme;
  const auto& info = run_->info();
  const double unit = pen.unit, right = pen.right();
  if (pen.painter) pen.painter->fillRect(QRectF(1, std::round(pen.y - 1), pen.width - 2, 2), theme.hoverFill);
  pen.y += 18 * unit;
  const QString title = QStringLiteral("Token %1").arg(count(token_.token));
  pen.text(kLeft, right, pen.y, int(Qt::AlignLeft), title, theme.title(), theme.text);
  QFont fixed = theme.fixed;
  fixed.setBold(true);
  fixed.setPixelSize(theme.title().pixelSize());
  double x = kLeft + QFontMetricsF(theme.title()).horizontalAdvance(title) + 12 * unit;
  const QString span = tokenSpan(info, token_.token);
  const double badge_room =
      span.isEmpty() ? 0 : QFontMetricsF(theme.labelSemibold()).horizontalAdvance(span) + 30 * unit;
  const QString name =
      QFontMetricsF(fixed).elidedText(QStringLiteral("“%1”").arg(tokenName(info, token_.token)),
                                      Qt::ElideRight, std::max(20.0, right - x - badge_room));
  pen.text(x, right, pen.y, int(Qt::AlignLeft), name, fixed, theme.text);
  x += QFontMetricsF(fixed).horizontalAdvance(name) + 11 * unit;
  if (!span.isEmpty())
    pen.badge(x, pen.y, span, isRetrieval(info, token_.token) ? theme.retrieval : theme.text2);
  pen.y += 25 * unit;
  pen.fact(
      QStringLiteral("Still there at ") + referenceName(),
      token_.token > referenceToken()         ? QStringLiteral("after ") + referenceName()
      : head_->routes.no_survival.empty() ? share(token_.survival)
                                          : QStringLiteral("undefined"),
      token_.token > referenceToken() || !head_->routes.no_survival.empty());
  pen.fact(QStringLiteral("Surprisal"),
           token_.surprisal    ? signedNumber(*token_.surprisal, 2) + QStringLiteral(" nats")
           : token_.token == 0 ? QStringLiteral("–")
                               : QStringLiteral("not captured"),
           !token_.surprisal);
  pen.y += 3 * unit;
  pen.head(QStringLiteral("Where it went"), QStringLiteral("s"), QStringLiteral("left at ") + referenceName(),
           slots_order_, true);
  if (pen.rows) pen.rows->push_back({Row::SortSlots, {kLeft, pen.y - 9, right - kLeft, 18}, 0, {}});
  pen.y += 18.5 * unit;
  auto total = qsizetype(token_.slots.size());
  auto shown = all_slots_ ? total : std::min<qsizetype>(total, pen.shown());
  if (total == 0) {
    pen.text(kLeft, right, pen.y, int(Qt::AlignLeft),
             QStringLiteral("no routes were captured for this token"), theme.label(), theme.text3);
    pen.y += kRow * unit;
  }
  for (qsizetype i = 0; i < shown; ++i) {
    const auto& row = token_.slots[size_t(i)];
    const bool on = pen.marks && row.slot == slot_.slot;
    if (on) pen.highlight();
    if (pen.painter) {
      const auto kind = size_t(row.slot) < head_->allocation.slot_class.size()
                            ? head_->allocation.slot_class[size_t(row.slot)]
                            : analysis::SlotClass::empty;
      pen.painter->setRenderHint(QPainter::Antialiasing, false);
      pen.painter->fillRect(QRectF(std::round(kLeft + 5 * unit), std::round(pen.y - 4.5), 9, 9),
                            theme.roleColour(kind));
    }
    pen.text(kLeft + 24 * unit, right, pen.y, int(Qt::AlignLeft), QStringLiteral("slot %1").arg(row.slot),
             on ? theme.labelSemibold() : theme.label(), on ? theme.selection : theme.text);
    pen.text(kLeft, right - 76 * unit, pen.y, int(Qt::AlignRight), strength(row.strength), theme.label(),
             theme.text);
    if (row.after) {
      pen.text(kLeft, right, pen.y, int(Qt::AlignRight), QStringLiteral("after ") + referenceName(),
               theme.micro(), theme.text3);
    } else {
      pen.bar(right - 68 * unit, right - 32 * unit, row.left, theme.text2);
      pen.text(kLeft, right, pen.y, int(Qt::AlignRight), barShare(row.left), theme.micro(), theme.text2);
    }
    pen.add(Row::Slot, row.slot, QString::number(row.strength, 'f', 6));
  }
  if (total > shown || (all_slots_ && total > pen.shown()))
    pen.more(Row::MoreSlots, total - shown, all_slots_);
  pen.y += 3 * unit;
  pen.head(QStringLiteral("Who reads it later"), {}, QStringLiteral("A[t,j]"), RowOrder::Strength, false);
  pen.y += 18.5 * unit;
  total = qsizetype(token_.readers.size());
  shown = all_readers_ ? total : std::min<qsizetype>(total, total <= pen.shown() + 1 ? total : pen.shown());
  if (total == 0) {
    pen.text(kLeft, right, pen.y, int(Qt::AlignLeft),
             token_.reads_captured ? QStringLiteral("no later reads were captured")
                                   : QStringLiteral("reads were not captured"),
             theme.label(), theme.text3);
    pen.y += kRow * unit;
    if (!token_.reads_captured) pen.paragraph(token_.no_reads);
  }
  for (qsizetype i = 0; i < shown; ++i) {
    const auto& row = token_.readers[size_t(i)];
    const bool red = isRetrieval(info, row.token);
    const QString reader = tokenName(info, row.token);
    pen.glyph(reader, red ? theme.retrieval : theme.text);
    QString where = count(row.token);
    if (row.token == analysis::query_token(info))
      where += QStringLiteral("  query");
    else if (row.token >= info.prompt_tokens)
      where += QStringLiteral("  answer");
    if (head_->read_heads.size() > 1) where += QStringLiteral(" · q%1").arg(row.head);
    pen.text(pen.afterGlyph(reader), right - 120 * unit, pen.y, int(Qt::AlignLeft), where, theme.label(),
             theme.text2);
    pen.bar(right - 118 * unit, right - 44 * unit, row.weight, red ? theme.retrieval : theme.text2);
    pen.text(kLeft, right, pen.y, int(Qt::AlignRight), strength(row.weight), theme.label(), theme.text);
    pen.add(Row::Reader, row.token, QString::number(row.weight, 'f', 6));
  }
  if (total > shown || (all_readers_ && total > pen.shown() + 1))
    pen.more(Row::MoreReaders, total - shown, all_readers_);
}

// Survival of the token's write in each of its slots over the whole run; the selected slot on top in magenta.
void InspectorView::curves(Pen& pen, double room) const {
  const double unit = pen.unit, high = 90 * unit;
  pen.paragraph(QString::fromStdString(head_->routes.no_survival));
  if (!head_->writes.has_gates || !head_->routes.no_survival.empty() || token_.slots.empty() || room < high + 60 * unit)
    return;
  const auto& theme = pen.theme;
  pen.y += 9 * unit;
  pen.text(kLeft, pen.right(), pen.y, int(Qt::AlignLeft), QStringLiteral("Left over time"),
           theme.labelSemibold(), theme.text2);
  const QRectF plot(kLeft + 38 * unit, std::round(pen.y + 13 * unit),
                    std::max(20.0, pen.right() - 4 - kLeft - 38 * unit), high);
  pen.y = plot.bottom() + 20 * unit;
  if (!pen.painter) return;
  auto& painter = *pen.painter;
  const int64_t tokens = run_->info().tokens;
  const auto x_of = [&](double t) {
    return plot.left() + (t + 0.5) / double(std::max<int64_t>(1, tokens)) * plot.width();
  };
  const auto y_of = [&](double share_left) { return plot.bottom() - share_left * plot.height(); };
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const double tick : {0.0, 0.5, 1.0}) {
    painter.fillRect(QRectF(plot.left(), std::round(y_of(tick)), plot.width(), 1), theme.line);
    pen.text(kLeft - 10, plot.left() - 6, y_of(tick), int(Qt::AlignRight),
             QString::number(int(100 * tick)) + QLatin1Char('%'), theme.micro(), theme.text2);
  }
  const double reference_x = std::round(x_of(double(referenceToken())));
  QPen dashed(theme.text2, 1);
  dashed.setDashPattern({3, 2});
  painter.setPen(dashed);
  painter.drawLine(QPointF(reference_x + 0.5, plot.top()), QPointF(reference_x + 0.5, plot.bottom()));
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  const auto curve = [&](int slot, const QPen& line) {
    const double start = std::round(x_of(double(token_.token))) + 0.5;  // all curves begin on one line
    QPainterPath path(QPointF(start, y_of(0)));
    const int64_t span = tokens - token_.token;
    const int64_t steps = std::min<int64_t>(span, int64_t(plot.width()));
    double last = 1;
    path.lineTo(start, y_of(1));
    for (int64_t i = 1; i < steps; ++i) {
      const int64_t t = token_.token + i * (span - 1) / std::max<int64_t>(1, steps - 1);
      const double left = std::exp(head_->writes.log_keep_between(slot, token_.token, t));
      if (left != last) path.lineTo(x_of(double(t)), y_of(last));  // writes are steps, not slopes
      path.lineTo(x_of(double(t)), y_of(left));
      last = left;
    }
    painter.setPen(line);
    painter.drawPath(path);
  };
  bool chosen = false;
  for (const auto& row : token_.slots) {
    if (pen.marks && row.slot == slot_.slot)
      chosen = true;
    else
      curve(row.slot, QPen(mix(theme.text2, theme.surface, 0.7), 1));
  }
  if (chosen) curve(slot_.slot, QPen(theme.selection, 2));
  const double token_x = x_of(double(token_.token));
  const QString name = QString::number(token_.token);
  pen.text(token_x - 40, token_x + 40, plot.bottom() + 9 * unit, int(Qt::AlignHCenter), name, theme.micro(),
           pen.marks ? theme.selection : theme.text2);
  const QFontMetricsF metrics(theme.micro());
  const double wide = metrics.horizontalAdvance(referenceName());
  const double label_left = std::min(reference_x - wide / 2, plot.right() - wide);
  if (reference_ != Reference::SelectedToken &&
      label_left > token_x + metrics.horizontalAdvance(name) / 2 + 6)
    pen.text(label_left, label_left + wide + 4, plot.bottom() + 9 * unit, int(Qt::AlignLeft), referenceName(),
             theme.micro(), theme.text2);
}

double InspectorView::layout(QPainter* painter, double width, double room, const Theme& theme, bool marks,
                             QVector<Row>* rows) const {
  Pen pen{painter, theme, width, 0, theme.base / 12, marks, rows};
  slotBlock(pen);
  pen.y += (18 - kRow) * pen.unit;  // the divider lies 18 below the last row's middle
  tokenBlock(pen);
  curves(pen, room - pen.y);
  return pen.y;
}

double InspectorView::contentHeight(double width) const {
  return layout(nullptr, width, 0, Theme::current(), true, nullptr);
}

const QVector<InspectorView::Row>& InspectorView::rows() const {
  const double width = contentRect().width();
  if (rows_width_ != width) {
    rows_width_ = width;
    rows_.clear();
    if (emptyText().isEmpty()) layout(nullptr, width, contentRect().height(), Theme::current(), true, &rows_);
  }
  return rows_;
}

void InspectorView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  layout(&painter, size.width(), size.height(), theme, true, nullptr);
  if (current_row_ >= 0 && current_row_ < rows().size() && hasFocus()) {
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.selection, 2));
    painter.drawRoundedRect(rows()[current_row_].area.adjusted(1, 1, -1, -1), 3, 3);
  }
}

void InspectorView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                                const FigureOptions& options) {
  if (paintGround(painter, area, theme)) return;
  painter.save();
  QRectF rest = area;
  if (options.caption)
    rest = paintCaption(painter, area,
                        captionText(*run_, head_.get(), QStringLiteral("at ") + referenceName(), options),
                        theme);
  painter.setClipRect(rest, Qt::IntersectClip);
  painter.translate(rest.topLeft());
  layout(&painter, rest.width(), rest.height(), theme, options.selection, nullptr);
  painter.restore();
}

QString InspectorView::csv() const {
  if (!emptyText().isEmpty()) return {};
  const auto& info = run_->info();
  Facts facts = runFacts(*run_, head_.get());
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts += thresholdFacts(*run_);
  facts.push_back({QStringLiteral("reference"), referenceName()});
  facts.push_back({QStringLiteral("reference_token"), QString::number(referenceToken())});
  facts.push_back({QStringLiteral("slot"), QString::number(slot_.slot)});
  facts.push_back({QStringLiteral("slot_class"), slotClassName(slot_.kind)});
  facts.push_back({QStringLiteral("esl"), QString::number(slot_.writes)});
  facts.push_back({QStringLiteral("tokens_held"), csvNumber(slot_.tokens_held)});
  facts.push_back({QStringLiteral("specialisation"), csvNumber(slot_.specialisation)});
  if (slot_.read) facts.push_back({QStringLiteral("read_weight"), csvNumber(*slot_.read)});
  facts.push_back({QStringLiteral("token"), QString::number(token_.token)});
  facts.push_back({QStringLiteral("survival"), csvNumber(token_.survival)});
  if (token_.surprisal) facts.push_back({QStringLiteral("surprisal_nats"), csvNumber(*token_.surprisal)});
  QString text =
      factLines(facts) + QStringLiteral("list,token,text,slot,write_strength,left,read_attribution\n");
  for (const auto& r : slot_.writers)
    text += QStringLiteral("writer,%1,%2,%3,%4,%5,\n")
                .arg(QString::number(r.token), csvField(tokenName(info, r.token)),
                     QString::number(slot_.slot), csvNumber(r.strength), csvNumber(r.left));
  for (const auto& r : token_.slots)
    text += QStringLiteral("slot,%1,%2,%3,%4,%5,\n")
                .arg(QString::number(token_.token), csvField(tokenName(info, token_.token)),
                     QString::number(r.slot), csvNumber(r.strength), csvNumber(r.left));
  for (const auto& r : token_.readers)
    text += QStringLiteral("reader,%1,%2,,,,%3\n")
                .arg(QString::number(r.token), csvField(tokenName(info, r.token)), csvNumber(r.weight));
  return text;
}

QString InspectorView::accessibleText() const {
  if (!emptyText().isEmpty()) return QStringLiteral("Inspector, ") + emptyText();
  QString text = QStringLiteral("Inspector, slot %1 %2, ESL %3 of %4, token %5 %6, still there at %7 %8")
                     .arg(slot_.slot)
                     .arg(slotClassName(slot_.kind))
                     .arg(slot_.writes)
                     .arg(slot_.tokens)
                     .arg(token_.token)
                     .arg(tokenName(run_->info(), token_.token), referenceName(), share(token_.survival));
  if (current_row_ >= 0 && current_row_ < rows().size()) {
    const auto& row = rows()[current_row_];
    switch (row.kind) {
      case Row::Writer:
        text += QStringLiteral("; row: written by token %1, strength %2").arg(row.value).arg(row.text);
        break;
      case Row::Slot:
        text += QStringLiteral("; row: went to slot %1, strength %2").arg(row.value).arg(row.text);
        break;
      case Row::Reader:
        text += QStringLiteral("; row: read by token %1, weight %2").arg(row.value).arg(row.text);
        break;
      case Row::SortWriters:
      case Row::SortSlots:
        text += QStringLiteral("; row: sort order");
        break;
      default:
        text += QStringLiteral("; row: more");
        break;
    }
  }
  return text;
}

const InspectorView::Row* InspectorView::rowAt(const QPointF& position) const {
  for (const auto& row : rows())
    if (row.area.contains(position)) return &row;
  return nullptr;
}

QString InspectorView::tipAt(const QPointF& position) const {
  const auto* row = rowAt(position);
  const auto& theme = Theme::current();
  if (!row) return {};
  switch (row->kind) {
    case Row::Writer:
      return tipText(
          QStringLiteral("Token %1 “%2”").arg(count(row->value), tokenName(run_->info(), row->value)),
          {{QStringLiteral("write strength s"), row->text}},
          QStringLiteral("s = 1 − exp(a·r), Raven section 3; left = exp(Σ a·r) over later tokens"), theme);
    case Row::Slot:
      return tipText(
          QStringLiteral("Slot %1").arg(row->value), {{QStringLiteral("write strength s"), row->text}},
          QStringLiteral("s = 1 − exp(a·r), Raven section 3; left = exp(Σ a·r) over later tokens"), theme);
    case Row::Reader:
      return tipText(
          QStringLiteral("Token %1 “%2”").arg(count(row->value), tokenName(run_->info(), row->value)),
          {{QStringLiteral("read attribution"), row->text}},
          QStringLiteral("A[t,j] = Σᵢ p·s·exp(Σ a·r) (ours)"), theme);
    case Row::SortWriters:
    case Row::SortSlots:
      return tipText(
          QStringLiteral("Sort"), {},
          QStringLiteral("Click the name for position, s for strength, the right head for what is left."),
          theme);
    default:
      return {};
  }
}

void InspectorView::selectionMoved(int parts) {
  if (parts & (SelectionModel::Slot | SelectionModel::Token)) {
    if (parts & SelectionModel::Slot) all_writers_ = false;
    if (parts & SelectionModel::Token) all_slots_ = all_readers_ = false;
    refresh();
    updateScroll();
    if (reference_ == Reference::SelectedToken) Q_EMIT choiceTextChanged(choiceText());
  }
  PaintedView::selectionMoved(parts);
}

void InspectorView::contentChanged() {
  rows_width_ = -1;
  PaintedView::contentChanged();
}

void InspectorView::activate(const Row& row) {
  switch (row.kind) {
    case Row::Writer:
    case Row::Reader:
      selection_->request({.token = row.value});
      break;
    case Row::Slot:
      selection_->request({.slot = int(row.value)});
      break;
    case Row::MoreWriters:
      all_writers_ = !all_writers_;
      contentChanged();
      break;
    case Row::MoreSlots:
      all_slots_ = !all_slots_;
      contentChanged();
      break;
    case Row::MoreReaders:
      all_readers_ = !all_readers_;
      contentChanged();
      break;
    case Row::SortWriters:
      setWritersOrder(RowOrder(row.value));
      break;
    case Row::SortSlots:
      setSlotsOrder(RowOrder(row.value));
      break;
  }
}

bool InspectorView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Up || key == Qt::Key_Down || key == Qt::Key_Return || key == Qt::Key_Enter)
      event->accept();
  }
  return PaintedView::event(event);
}

void InspectorView::mousePressEvent(QMouseEvent* event) {
  const QPointF position = toContent(event->position());
  const auto* found = rowAt(position);
  if (event->button() != Qt::LeftButton || !found) return;
  Row row = *found;
  if (row.kind == Row::SortWriters || row.kind == Row::SortSlots) {
    // Three heads in one line: name = position, s = strength, the right one = left.
    const double right = contentRect().width() - kRight, unit = Theme::current().base / 12;
    row.value = int(position.x() > right - 74 * unit    ? RowOrder::Left
                    : position.x() > right - 110 * unit ? RowOrder::Strength
                                                        : RowOrder::Position);
  }
  activate(row);
}

void InspectorView::mouseMoveEvent(QMouseEvent* event) {
  const auto* row = emptyText().isEmpty() ? rowAt(toContent(event->position())) : nullptr;
  setCursor(row ? Qt::PointingHandCursor : Qt::ArrowCursor);
  if (row && row->kind == Row::Slot)
    selection_->setHover(int(row->value), -1);
  else if (row && (row->kind == Row::Writer || row->kind == Row::Reader))
    selection_->setHover(-1, row->value);
  else
    selection_->setHover(-1, -1);
}

void InspectorView::leaveEvent(QEvent*) {
  if (selection_) selection_->setHover(-1, -1);
}

void InspectorView::keyPressEvent(QKeyEvent* event) {
  const auto n = int(rows().size());
  if (n == 0) return PaintedView::keyPressEvent(event);
  switch (event->key()) {
    case Qt::Key_Up:
      current_row_ = std::max(0, current_row_ - 1);
      break;
    case Qt::Key_Down:
      current_row_ = std::min(n - 1, current_row_ + 1);
      break;
    case Qt::Key_Return:
    case Qt::Key_Enter: {
      if (current_row_ < 0 || current_row_ >= n) return PaintedView::keyPressEvent(event);
      Row row = rows()[current_row_];
      const int keep = current_row_;
      if (row.kind == Row::SortWriters) row.value = (int(writers_order_) + 1) % 3;
      if (row.kind == Row::SortSlots) row.value = (int(slots_order_) + 1) % 3;
      activate(row);
      current_row_ = std::min(keep, int(rows().size()) - 1);
      break;
    }
    default:
      return PaintedView::keyPressEvent(event);
  }
  if (current_row_ >= 0 && current_row_ < rows().size())
    ensureVisible(rows()[current_row_].area.top(), rows()[current_row_].area.bottom());
  refreshAccessibility();
  update();
  event->accept();
}

void InspectorView::contextMenuEvent(QContextMenuEvent* event) {
  const auto* row = emptyText().isEmpty() ? rowAt(toContent(event->pos())) : nullptr;
  if (!row || row->text.isEmpty()) return;
  QMenu menu(this);
  const QString text = row->text;
  menu.addAction(QStringLiteral("Copy value"), this, [text] { QGuiApplication::clipboard()->setText(text); });
  menu.exec(event->globalPos());
}

}  // namespace slotscope::views
