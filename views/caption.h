// What a figure says about itself: the same facts go under the figure, into the file's metadata and into the
// head of the CSV.
#pragma once

#include <QRectF>
#include <QString>
#include <QVector>
#include <utility>

#include "views/view.h"

class QPainter;

namespace slotscope::views {

// Whether run.info() may be called.
bool hasInfo(const RunData& run);

using Facts = QVector<std::pair<QString, QString>>;

// model, checkpoint, prompt, tokens, prompt_tokens, device; with `head` also layer, head, slots, top_k.
// Indices start at 0.
Facts runFacts(const RunData& run, const analysis::HeadData* head);
Facts thresholdFacts(const RunData& run);  // threshold, tau, retrieval_head, regime cuts
// "# key: value" lines.
QString factLines(const Facts& facts);
// The facts at the head of a CSV text, as factLines wrote them.
Facts parseFacts(const QString& csv);
// One sentence for under the figure: "raven-passkey · “password · 512” · 520 tokens (512 prompt + 8 answer) ·
// layer 3 · head 0".
QString captionText(const RunData& run, const analysis::HeadData* head, const QString& extra,
                    const FigureOptions& options);
// Draws `text` wrapped at the foot of `area` and returns the area that is left above it.
QRectF paintCaption(QPainter& painter, const QRectF& area, const QString& text, const Theme& theme);
// A field of a CSV line: quoted when it holds a comma, quote or line break.
QString csvField(const QString& text);
// A number for CSV: shortest text that reads back as the same double; "" for NaN.
QString csvNumber(double value);

}  // namespace slotscope::views
