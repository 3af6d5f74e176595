#include "views/output_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/answer_verdict.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/surprisal.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {
constexpr double kLeft = 13, kRight = 14, kRow = 20, kAnswer = 19, kHeads = 41, kFirst = 50;
double unit(const Theme& theme) { return theme.base / 12; }
}  // namespace

OutputView::OutputView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  refreshAccessibility();
}

void OutputView::setTokenNames(std::function<QString(int32_t)> names) {
  names_ = std::move(names);
  contentChanged();
}

QString OutputView::candidateName(size_t at) const {
  const auto& info = run_->info();
  if (at < info.top_bytes.size() && !info.top_bytes[at].empty()) return tokenText(info.top_bytes[at]);
  return nameOf(info.top_ids[at]);
}

QString OutputView::nameOf(int32_t id) const {
  const QString name = idName(run_->info(), id);
  // The trace knows its own tokens and the candidates; whoever has the tokenizer knows the rest.
  if (names_ && name.startsWith(QLatin1Char('#')))
    if (const QString known = names_(id); !known.isEmpty()) return known;
  return name;
}

QVector<OutputView::Step> OutputView::steps() const {
  QVector<Step> steps;
  if (!run_ || !hasInfo(*run_)) return steps;
  const auto& info = run_->info();
  for (size_t g = 0; g < info.output_ids.size(); ++g) {
    Step step;
    step.position = info.prompt_tokens + int64_t(g);
    step.chosen = step.position < info.tokens ? tokenName(info, step.position) : nameOf(info.output_ids[g]);
    step.p = std::nan("");
    for (int64_t c = 0; c < info.candidates; ++c) {
      const auto at = g * size_t(info.candidates) + size_t(c);
      if (at >= info.top_ids.size() || at >= info.top_logprob.size()) break;
      const double p = std::exp(info.top_logprob[at]);
      if (info.top_ids[at] == info.output_ids[g]) {
        step.p = p;
        // The last token is never fed, so its text stands with the candidates only.
        if (step.chosen.startsWith(QLatin1Char('#'))) step.chosen = candidateName(at);
      } else {
        step.others.push_back({candidateName(at), p});
      }
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

QString OutputView::emptyText() const {
  if (!run_ || !hasInfo(*run_)) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (run_->info().output_ids.empty()) return QStringLiteral("This run generated no tokens.");
  return {};
}

double OutputView::tableTop() const {
  const double u = unit(Theme::current());
  const auto& info = run_->info();
  const AnswerVerdict verdict = answerVerdict(info);
  const bool expected = verdict.known && !verdict.good;
  return (kFirst + (expected ? 20 : 0)) * u;
}

QRectF OutputView::stepRect(int step, double width) const {
  const double u = unit(Theme::current());
  return {5, tableTop() + step * kRow * u, width - 10, kRow * u};
}

double OutputView::contentHeight(double) const {
  return tableTop() + double(run_->info().output_ids.size()) * kRow * unit(Theme::current()) + 4;
}

void OutputView::paintAll(QPainter& painter, double width, const Theme& theme, bool marks) const {
  const double u = unit(theme), right = width - kRight;
  const auto& info = run_->info();
  const auto write = [&](double left, double right_edge, double middle, int align, const QString& s,
                         const QFont& font, const QColor& colour) {
    painter.setFont(font);
    painter.setPen(colour);
    painter.drawText(QRectF(left, middle - 12, std::max(0.0, right_edge - left), 24),
                     align | int(Qt::AlignVCenter) | int(Qt::TextSingleLine), s);
  };
  QFont bold = theme.fixed;
  bold.setBold(true);
  QFont answer = bold;
  answer.setPixelSize(int(std::lround(theme.base + 2)));
  write(kLeft, right, kAnswer * u, int(Qt::AlignLeft), QStringLiteral("Answer"), theme.label(), theme.text2);
  double x = kLeft + 50 * u;
  const AnswerVerdict verdict = answerVerdict(info);
  const double verdict_width = verdict.known ? 80 * u : 0;
  QString said = QString::fromStdString(info.output_text);
  said.replace(QLatin1Char('\n'), QChar(0x21B5));
  write(x, right - verdict_width, kAnswer * u, int(Qt::AlignLeft),
        QFontMetricsF(answer).elidedText(said, Qt::ElideRight, right - verdict_width - x), answer,
        theme.text);
  if (verdict.known) {
    const QColor colour = verdict.good ? theme.ok : theme.error;
    const QString word = verdict.word;
    const double wide = QFontMetricsF(theme.semibold()).horizontalAdvance(word);
    write(right - wide - 9 * u, right, kAnswer * u, int(Qt::AlignLeft), word, theme.semibold(), colour);
    paintVerdict(painter, {right - wide - 20 * u, kAnswer * u}, verdict.good, colour);
    if (!verdict.good) {
      write(kLeft, right, kAnswer * u + 20 * u, int(Qt::AlignLeft), QStringLiteral("expected"), theme.label(),
            theme.text2);
      write(x + 8 * u, right, kAnswer * u + 20 * u, int(Qt::AlignLeft),
            QFontMetricsF(bold).elidedText(QString::fromStdString(info.answer), Qt::ElideRight,
                                           right - x - 8 * u),
            bold, theme.error);
    }
  }
  const double heads = tableTop() / unit(Theme::current()) * u - (kFirst - kHeads) * u;
  const auto list = steps();
  // Positions grow to "131 072": the column keeps clear of the next one, at the cost of the bars.
  const double widest =
      list.isEmpty() ? 0 : QFontMetricsF(theme.label()).horizontalAdvance(count(list.back().position));
  const double chosen_x = kLeft + std::max(40 * u, widest + 8 * u), p_x = chosen_x + 48 * u;
  write(kLeft, right, heads, int(Qt::AlignLeft), QStringLiteral("step"), theme.micro(), theme.text3);
  write(chosen_x, right, heads, int(Qt::AlignLeft), QStringLiteral("chosen"), theme.micro(), theme.text3);
  write(p_x, right, heads, int(Qt::AlignLeft), QStringLiteral("p"), theme.micro(), theme.text3);
  const double number_right = std::min(kLeft + 190 * u, right - 20 * u);
  const bool others = right - number_right > 50 * u;
  if (others)
    write(p_x + 20, right, heads, int(Qt::AlignRight), QStringLiteral("next candidates"), theme.micro(),
          theme.text3);
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.fillRect(QRectF(kLeft - 1, std::round(heads + 9 * u) - 1, width - kLeft - kRight + 2, 1),
                   theme.line);
  const int64_t token = selection_ ? selection_->current().token : -1;
  const QRectF clip = painter.hasClipping() ? painter.clipBoundingRect() : QRectF(0, 0, width, 1e9);
  for (int i = 0; i < list.size(); ++i) {
    const QRectF area(5, heads + (kFirst - kHeads) * u + i * kRow * u, width - 10, kRow * u);
    if (area.bottom() < clip.top() || area.top() > clip.bottom()) continue;
    const auto& step = list[i];
    const double middle = area.center().y();
    const bool here = marks && step.position == token, predicted = marks && step.position == token + 1;
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (here)
      painter.fillRect(area, theme.selectionRow);
    else if (predicted)
      painter.fillRect(area, theme.hoverFill);
    write(kLeft, chosen_x, middle, int(Qt::AlignLeft), count(step.position), theme.label(),
          here ? theme.selection : theme.text2);
    const QString name = QFontMetricsF(bold).elidedText(step.chosen, Qt::ElideRight, p_x - chosen_x - 4);
    write(chosen_x, p_x, middle, int(Qt::AlignLeft), name, bold, here ? theme.selection : theme.text);
    if (std::isnan(step.p)) {
      write(number_right - 38 * u, right, middle, int(Qt::AlignLeft), QStringLiteral("–"), theme.label(),
            theme.text3);
    } else {
      const double bar_right = number_right - 42 * u, top = std::round(middle - 3);
      painter.fillRect(QRectF(p_x, top, bar_right - p_x, 6), theme.hoverFill);
      painter.fillRect(QRectF(p_x, top, std::max(1.0, std::round((bar_right - p_x) * step.p)), 6),
                       theme.text2);
      write(bar_right + 4 * u, right, middle, int(Qt::AlignLeft), strength(step.p), theme.label(),
            theme.text);
    }
    if (!others) continue;
    QStringList names;
    for (int c = 0; c < std::min<int>(3, int(step.others.size())); ++c) names << step.others[c].first;
    QFont small = theme.fixed;
    small.setPixelSize(int(std::lround(theme.base - 1)));
    write(number_right + 8 * u, right, middle, int(Qt::AlignRight),
          QFontMetricsF(small).elidedText(names.join(QLatin1Char(' ')), Qt::ElideRight,
                                          right - number_right - 8 * u),
          small, theme.text3);
  }
}

void OutputView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  paintAll(painter, size.width(), theme, true);
}

QSizeF OutputView::figureSize() const {
  return {320, emptyText().isEmpty() ? std::min(1200.0, contentHeight(320)) + 60 : 120};
}

void OutputView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                             const FigureOptions& options) {
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
  if (options.caption) rest = paintCaption(painter, area, captionText(*run_, nullptr, {}, options), theme);
  painter.setClipRect(rest, Qt::IntersectClip);
  painter.translate(rest.topLeft());
  paintAll(painter, rest.width(), theme, options.selection);
  painter.restore();
}

QString OutputView::csv() const {
  if (!emptyText().isEmpty()) return {};
  const auto& info = run_->info();
  Facts facts = runFacts(*run_, nullptr);
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("answer"), QString::fromStdString(info.output_text)});
  if (info.has_answer) facts.push_back({QStringLiteral("expected"), QString::fromStdString(info.answer)});
  if (info.exact)
    facts.push_back({QStringLiteral("exact"), *info.exact ? QStringLiteral("1") : QStringLiteral("0")});
  if (info.score) facts.push_back({QStringLiteral("score"), csvNumber(*info.score)});
  QString text = factLines(facts) + QStringLiteral("step,position,rank,id,text,logprob,chosen\n");
  for (size_t g = 0; g < info.output_ids.size(); ++g)
    for (int64_t c = 0; c < info.candidates; ++c) {
      const auto at = g * size_t(info.candidates) + size_t(c);
      if (at >= info.top_ids.size() || at >= info.top_logprob.size()) break;
      text += QStringLiteral("%1,%2,%3,%4,%5,%6,%7\n")
                  .arg(QString::number(g), QString::number(info.prompt_tokens + int64_t(g)),
                       QString::number(c), QString::number(info.top_ids[at]), csvField(candidateName(at)),
                       csvNumber(info.top_logprob[at]),
                       info.top_ids[at] == info.output_ids[g] ? QStringLiteral("1") : QStringLiteral("0"));
    }
  return text;
}

int OutputView::stepAt(const QPointF& position) const {
  if (!emptyText().isEmpty()) return -1;
  const int at = int(std::floor((position.y() - tableTop()) / (kRow * unit(Theme::current()))));
  return at >= 0 && size_t(at) < run_->info().output_ids.size() ? at : -1;
}

QString OutputView::tipAt(const QPointF& position) const {
  const int at = stepAt(position);
  if (at < 0) return {};
  const auto step = steps()[at];
  QVector<std::pair<QString, QString>> rows{
      {QStringLiteral("“%1” (chosen)").arg(step.chosen),
       std::isnan(step.p) ? QStringLiteral("not among the captured candidates") : strength(step.p, 4)}};
  for (const auto& [name, p] : step.others)
    rows.push_back({QStringLiteral("“%1”").arg(name), strength(p, 4)});
  return tipText(
      QStringLiteral("Token %1").arg(count(step.position)), rows,
      QStringLiteral("probability of each candidate; predicted at token %1").arg(count(step.position - 1)),
      Theme::current());
}

QString OutputView::accessibleText() const {
  if (!emptyText().isEmpty()) return QStringLiteral("Output, ") + emptyText();
  const auto& info = run_->info();
  QString text = QStringLiteral("Output, answer ") + QString::fromStdString(info.output_text);
  if (const AnswerVerdict verdict = answerVerdict(info); verdict.known)
    text += QStringLiteral(", ") + verdict.word +
            (verdict.good ? QString() : QStringLiteral(", expected ") + QString::fromStdString(info.answer));
  const int64_t at = selection_->current().token + 1 - info.prompt_tokens;
  const auto list = steps();
  if (at >= 0 && at < list.size())
    text += QStringLiteral(", step %1 %2, p %3")
                .arg(list[int(at)].position)
                .arg(list[int(at)].chosen, strength(list[int(at)].p));
  return text;
}

bool OutputView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Up || key == Qt::Key_Down) event->accept();
  }
  return PaintedView::event(event);
}

void OutputView::mousePressEvent(QMouseEvent* event) {
  const int at = stepAt(toContent(event->position()));
  if (event->button() != Qt::LeftButton || at < 0) return;
  const auto& info = run_->info();
  // The last sampled token was never fed; the one that predicts it was.
  selection_->request({.token = std::min(info.prompt_tokens + at, info.tokens - 1)});
}

void OutputView::mouseMoveEvent(QMouseEvent* event) {
  const int at = stepAt(toContent(event->position()));
  const int64_t position = at < 0 ? -1 : run_->info().prompt_tokens + at;
  selection_->setHover(-1, at >= 0 && position < run_->info().tokens ? position : -1);
  setCursor(at < 0 ? Qt::ArrowCursor : Qt::PointingHandCursor);
}

void OutputView::keyPressEvent(QKeyEvent* event) {
  if (!emptyText().isEmpty() || (event->key() != Qt::Key_Up && event->key() != Qt::Key_Down))
    return PaintedView::keyPressEvent(event);
  const auto& info = run_->info();
  const int64_t now = selection_->current().token, step = event->key() == Qt::Key_Up ? -1 : 1;
  const int64_t last = std::min(info.tokens, info.prompt_tokens + int64_t(info.output_ids.size())) - 1;
  if (last >= info.prompt_tokens)
    selection_->request(
        {.token = std::clamp(std::max(now, info.prompt_tokens - 1) + step, info.prompt_tokens, last)},
        event->isAutoRepeat());
  event->accept();
}

}  // namespace slotscope::views
