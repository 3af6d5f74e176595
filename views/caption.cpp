#include "views/caption.h"

#include <QPainter>
#include <QTextLayout>
#include <charconv>
#include <cmath>

#include "views/format.h"

namespace slotscope::views {

namespace {

QString one_line(QString text) {
  return text.replace(QLatin1Char('\n'), QLatin1Char(' ')).replace(QLatin1Char('\r'), QLatin1Char(' '));
}

}  // namespace

bool hasInfo(const RunData& run) { return run.trace || run.own_info; }

QString csvNumber(double value) {
  if (std::isnan(value)) return {};
  if (std::isinf(value)) return value < 0 ? QStringLiteral("-inf") : QStringLiteral("inf");
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return QString::fromLatin1(text, end - text);
}

QString csvField(const QString& text) {
  if (!text.contains(QLatin1Char(',')) && !text.contains(QLatin1Char('"')) &&
      !text.contains(QLatin1Char('\n')) && !text.contains(QLatin1Char('\r')))
    return text;
  QString quoted = text;
  return QLatin1Char('"') + quoted.replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"');
}

Facts runFacts(const RunData& run, const analysis::HeadData* head) {
  Facts facts;
  facts.push_back({QStringLiteral("model"), run.model_name});
  if (run.trace) {
    const auto& model = run.trace->model();
    facts.push_back({QStringLiteral("checkpoint"), QString::fromStdString(model.checkpoint)});
    facts.push_back({QStringLiteral("family"), QString::fromStdString(model.family)});
    facts.push_back({QStringLiteral("dtype"), QString::fromStdString(model.dtype)});
    facts.push_back({QStringLiteral("device"), QString::fromStdString(model.device)});
    facts.push_back({QStringLiteral("trace"), QString::fromStdString(run.trace->path().string())});
  }
  if (hasInfo(run)) {
    const auto& info = run.info();
    facts.push_back({QStringLiteral("run"), QString::number(run.run)});
    facts.push_back({QStringLiteral("prompt"), QString::fromStdString(info.name)});
    facts.push_back({QStringLiteral("tokens"), QString::number(info.tokens)});
    facts.push_back({QStringLiteral("prompt_tokens"), QString::number(info.prompt_tokens)});
    if (info.planned_tokens > info.tokens)
      facts.push_back({QStringLiteral("planned_tokens"), QString::number(info.planned_tokens)});
  }
  if (head) {
    facts.push_back({QStringLiteral("layer"), QString::number(head->layer)});
    facts.push_back({QStringLiteral("head"), QString::number(head->head)});
    facts.push_back({QStringLiteral("slots"), QString::number(head->routes.slots)});
    facts.push_back({QStringLiteral("top_k"), QString::number(head->routes.top_k)});
  }
  return facts;
}

Facts thresholdFacts(const RunData& run) {
  return {{QStringLiteral("write_strength_threshold"), csvNumber(run.allocation.threshold)},
          {QStringLiteral("role_tau"), csvNumber(run.allocation.tau)},
          {QStringLiteral("retrieval_head_score"), csvNumber(run.allocation.retrieval_head)},
          {QStringLiteral("esl_cut_low"), csvNumber(run.esl.low)},
          {QStringLiteral("esl_cut_high"), csvNumber(run.esl.high)}};
}

QString factLines(const Facts& facts) {
  QString text;
  for (const auto& [key, value] : facts)
    text += QStringLiteral("# ") + key + QStringLiteral(": ") + one_line(value) + QLatin1Char('\n');
  return text;
}

Facts parseFacts(const QString& csv) {
  Facts facts;
  qsizetype at = 0;
  while (at < csv.size() && csv[at] == QLatin1Char('#')) {
    qsizetype end = csv.indexOf(QLatin1Char('\n'), at);
    if (end < 0) end = csv.size();
    const QString line = csv.mid(at, end - at);
    const auto colon = line.indexOf(QStringLiteral(": "));
    if (colon > 2) facts.push_back({line.mid(2, colon - 2), line.mid(colon + 2)});
    at = end + 1;
  }
  return facts;
}

QString captionText(const RunData& run, const analysis::HeadData* head, const QString& extra,
                    const FigureOptions& options) {
  const int base = options.countFromOne ? 1 : 0;
  QStringList parts{run.model_name};
  if (hasInfo(run)) {
    const auto& info = run.info();
    parts << QStringLiteral("“%1”").arg(QString::fromStdString(info.name));
    QString length = QStringLiteral("%1 tokens").arg(count(info.tokens));
    if (info.tokens > info.prompt_tokens)
      length += QStringLiteral(" (%1 prompt + %2 answer)")
                    .arg(count(info.prompt_tokens), count(info.tokens - info.prompt_tokens));
    parts << length;
  }
  if (head) parts << QStringLiteral("layer %1, head %2").arg(head->layer + base).arg(head->head + base);
  if (!extra.isEmpty()) parts << extra;
  if (!run.device_text.isEmpty()) parts << run.device_text;
  parts.removeAll(QString());
  return parts.join(QStringLiteral(" · "));
}

QRectF paintCaption(QPainter& painter, const QRectF& area, const QString& text, const Theme& theme) {
  if (text.isEmpty()) return area;
  const QFont font = theme.label();
  const QRectF inner = area.adjusted(12, 0, -12, 0);
  QTextLayout layout(text, font, painter.device());
  layout.beginLayout();
  double height = 0;
  while (true) {
    QTextLine line = layout.createLine();
    if (!line.isValid()) break;
    line.setLineWidth(inner.width());
    line.setPosition({0, height});
    height += line.height();
  }
  layout.endLayout();
  const double top = area.bottom() - height - 8;
  painter.setPen(theme.text2);
  layout.draw(&painter, {inner.left(), top});
  return {area.left(), area.top(), area.width(), std::max(0.0, top - 4 - area.top())};
}

}  // namespace slotscope::views
