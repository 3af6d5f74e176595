// Formulas of one line as they are printed in papers: italic variables, indices and exponents raised and lowered.
#pragma once

#include <QPainter>
#include <QString>

namespace slotscope::views {

// `text` with "_x", "_{xy}" (index) and "^x", "^{xy}" (exponent), nested at most 8 deep; everything else is taken as it is,
// < and & included. Single Latin and Greek letters are variables (italic), words are not. Returns rich text of Qt.
QString mathHtml(const QString& text);
// The same without markup, for lists, tooltips and CSV: "r_t", "σ(f)^{1/τ}" becomes "σ(f)^(1/τ)".
QString mathPlain(const QString& text);

// Draws rich text into `area`, wrapped, from the top; the height it takes. A null painter only measures.
double paintRichText(QPainter* painter, const QRectF& area, const QString& html, const QFont& font, const QColor& colour);

}  // namespace slotscope::views
