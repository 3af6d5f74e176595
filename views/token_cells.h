// Tokens as they are written in running text: bytes that only together form one character become one joined
// cell.
#pragma once

#include <QString>
#include <QVector>
#include <cstdint>

#include "core/trace/trace.h"

namespace slotscope::views {

// Cell of running text: tokens [first, first + count) drawn as `text`. count > 1 only for a character split
// over tokens.
struct TokenCell {
  int64_t first = 0;
  int count = 1;
  QString text;  // display form: ␣ is a plain space here, newline ↵, tab ⇥, control bytes \x07
  bool special = false;
  bool newline = false;                            // text holds a line break
  bool space_before = false, space_after = false;  // a line may break there
};

// Cells of tokens [from, to) of the run; `from` is moved back to the start of its cell.
QVector<TokenCell> tokenCells(const trace::RunInfo& run, int64_t from, int64_t to);

// Whole characters when `token` is part of a split one (first token and count), else {token, 1}.
std::pair<int64_t, int> joinedTokens(const trace::RunInfo& run, int64_t token);

// Short name of a token for lists: its text in display form with visible spaces; the whole character for a
// part of one.
QString tokenName(const trace::RunInfo& run, int64_t token);
// The same for titles: of a part of a character its bytes and the character, “F0 9F…” of “😀”. With quotes.
QString tokenTitle(const trace::RunInfo& run, int64_t token);
// Name of the innermost span that holds the token, or "": key, answer, needle, query ... Key and answer win.
QString tokenSpan(const trace::RunInfo& run, int64_t token);
bool isRetrieval(const trace::RunInfo& run, int64_t token);
// Name of a vocabulary entry that may not occur in the run: its bytes when some token of the run has this id,
// else "#id".
QString idName(const trace::RunInfo& run, int32_t id);

}  // namespace slotscope::views
