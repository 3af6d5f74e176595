#include "views/math_text.h"

#include <QAbstractTextDocumentLayout>
#include <QTextDocument>

namespace slotscope::views {

namespace {

constexpr int kDeepest = 8;

// The part behind "_" or "^" at `at`: one character or what stands in braces. Moves `at` behind it.
QString scriptAt(const QString& text, qsizetype& at) {
  if (at >= text.size()) return {};
  if (text[at] != QLatin1Char('{')) {
    const bool pair = text[at].isHighSurrogate() && at + 1 < text.size();
    const QString one = text.mid(at, pair ? 2 : 1);
    at += one.size();
    return one;
  }
  int depth = 0;
  for (qsizetype end = at; end < text.size(); ++end) {
    depth += (text[end] == QLatin1Char('{')) - (text[end] == QLatin1Char('}'));
    if (depth > 0) continue;
    const QString inside = text.mid(at + 1, end - at - 1);
    at = end + 1;
    return inside;
  }
  const QString rest = text.mid(at + 1);  // a brace that is not closed
  at = text.size();
  return rest;
}

QString html(const QString& text, int depth) {
  QString out;
  for (qsizetype at = 0; at < text.size();) {
    const QChar c = text[at];
    if ((c == QLatin1Char('_') || c == QLatin1Char('^')) && at + 1 < text.size() && depth < kDeepest) {
      const QLatin1String tag(c == QLatin1Char('_') ? "sub" : "sup");
      ++at;
      out += QLatin1Char('<') + tag + QLatin1Char('>') + html(scriptAt(text, at), depth + 1) + QLatin1String("</") + tag +
             QLatin1Char('>');
      continue;
    }
    qsizetype end = at;
    while (end < text.size() && text[end].isLetter()) ++end;
    if (end > at) {
      const QString word = text.mid(at, end - at);
      out += word.size() == 1 ? QLatin1String("<i>") + word + QLatin1String("</i>") : word;
      at = end;
      continue;
    }
    out += QString(c).toHtmlEscaped();
    ++at;
  }
  return out;
}

}  // namespace

QString mathHtml(const QString& text) { return html(text, 0); }

QString mathPlain(const QString& text) {
  QString out;
  for (qsizetype at = 0; at < text.size();) {
    const QChar c = text[at];
    if ((c == QLatin1Char('_') || c == QLatin1Char('^')) && at + 1 < text.size()) {
      ++at;
      const QString inside = mathPlain(scriptAt(text, at));
      out += c + (inside.size() == 1 ? inside : QLatin1Char('(') + inside + QLatin1Char(')'));
      continue;
    }
    out += c;
    ++at;
  }
  return out;
}

double paintRichText(QPainter* painter, const QRectF& area, const QString& html, const QFont& font, const QColor& colour) {
  QTextDocument document;
  document.setDocumentMargin(0);
  document.setDefaultFont(font);
  document.setHtml(html);
  document.setTextWidth(area.width());
  if (painter) {
    painter->save();
    painter->translate(area.topLeft());
    QAbstractTextDocumentLayout::PaintContext context;
    context.palette.setColor(QPalette::Text, colour);
    document.documentLayout()->draw(painter, context);
    painter->restore();
  }
  return document.size().height();
}

}  // namespace slotscope::views
