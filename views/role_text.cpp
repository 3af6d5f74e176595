#include "views/role_text.h"

#include <algorithm>

#include "views/token_cells.h"

namespace slotscope::views {

namespace {

struct Word {
  QVector<RoleRun> runs;
  int length = 0;
  bool new_line = false;  // starts a line
};

// Text of a token on one line: line breaks and tabs are spaces here.
QString flat(const TokenCell& cell) {
  QString text = cell.text;
  return text.replace(QChar(0x21B5), QLatin1Char(' ')).replace(QChar(0x21E5), QLatin1Char(' '));
}

bool retrieval(const std::vector<uint8_t>& roles, int64_t t) {
  return size_t(t) < roles.size() && roles[size_t(t)] == 1;
}

void append(Word& word, const QString& text, bool red, bool ellipsis = false) {
  if (text.isEmpty()) return;
  if (!word.runs.isEmpty() && word.runs.back().retrieval == red && !word.runs.back().ellipsis && !ellipsis)
    word.runs.back().text += text;
  else
    word.runs.push_back({text, red, ellipsis});
  word.length += int(text.size());
}

// Words of tokens [from, to): breaks come after spaces, except inside a run of retrieval tokens.
void addWords(QVector<Word>& words, const trace::RunInfo& run, const std::vector<uint8_t>& roles,
              int64_t from, int64_t to, int columns) {
  Word word;
  const auto close = [&] {
    if (word.length > 0) words.push_back(word);
    word = {};
  };
  for (const auto& cell : tokenCells(run, from, to)) {
    const bool red = retrieval(roles, cell.first);
    const QString text = flat(cell);
    if (cell.special && !red) {
      close();
      append(word, text, red);
      close();
      continue;
    }
    QString part;
    for (const QChar c : text) {
      part += c;
      if (c == QLatin1Char(' ') && !red) {
        append(word, part, red);
        part.clear();
        close();
      }
    }
    append(word, part, red);
    if (word.length >= columns && !red) close();  // no spaces at all
  }
  close();
}

QVector<RoleLine> wrap(const QVector<Word>& words, int columns) {
  QVector<RoleLine> lines;
  int at = columns + 1;
  for (const auto& word : words) {
    int visible = word.length;
    // A trailing space may hang over the edge.
    if (!word.runs.isEmpty() && word.runs.back().text.endsWith(QLatin1Char(' '))) --visible;
    if (lines.isEmpty() || word.new_line || (at + visible > columns && at > 0)) {
      lines.push_back({});
      at = 0;
    }
    for (const auto& run : word.runs) {
      auto& runs = lines.back().runs;
      if (!runs.isEmpty() && runs.back().retrieval == run.retrieval && !runs.back().ellipsis && !run.ellipsis)
        runs.back().text += run.text;
      else
        runs.push_back(run);
    }
    at += word.length;
  }
  return lines;
}

// [from, to) widened to word boundaries inside [low, high), by at most 24 tokens each way.
int64_t wordStart(const trace::RunInfo& run, int64_t from, int64_t low) {
  for (int64_t t = from; t > low && t > from - 24; --t)
    if (const auto b = run.token_bytes(t - 1); !b.empty() && (b.back() == ' ' || b.back() == '\n')) return t;
  return from - 24 <= low ? low : from;
}
int64_t wordEnd(const trace::RunInfo& run, int64_t to, int64_t high) {
  for (int64_t t = to; t < high && t < to + 24; ++t)
    if (const auto b = run.token_bytes(t); !b.empty() && (b.front() == ' ' || b.front() == '\n')) return t;
  return std::min(to, high);
}

}  // namespace

QVector<RoleLine> roleText(const trace::RunInfo& run, const std::vector<uint8_t>& roles, int64_t end,
                           int columns, int lines) {
  columns = std::max(8, columns);
  lines = std::max(1, lines);
  end = std::min(end, run.tokens);
  const auto length = [&](int64_t a, int64_t b) {  // in bytes, close enough to characters for a budget
    return run.byte_offsets.size() > size_t(b) ? run.byte_offsets[size_t(b)] - run.byte_offsets[size_t(a)]
                                               : (b - a) * 6;
  };
  QVector<Word> words;
  if (length(0, end) <= int64_t(columns) * lines * 2) {
    addWords(words, run, roles, 0, end, columns);
    const auto all = wrap(words, columns);
    if (all.size() <= lines) return all;
  }
  // Kept pieces: the first token when it is special, surroundings of each retrieval run, the question (or the
  // last words).
  int64_t tail = std::max<int64_t>(0, end - 30);
  if (const Span* query = run.span("query");
      query && query->begin < end && length(query->begin, end) < columns)
    tail = query->begin;
  std::vector<std::pair<int64_t, int64_t>> keys;
  for (int64_t t = 0; t < tail && keys.size() < 8; ++t) {
    if (!retrieval(roles, t)) continue;
    int64_t stop = t;
    while (stop < end && retrieval(roles, stop)) ++stop;
    keys.push_back({t, stop});
    t = stop;
  }
  if (keys.empty()) keys.push_back({0, 0});
  const int64_t head = run.special.size() > 0 && run.special[0] ? 1 : 0;
  // The largest surroundings that fit, by halving.
  QVector<RoleLine> best;
  int64_t low = 0, high = int64_t(columns) * lines;
  while (low <= high) {
    const int64_t around = (low + high) / 2;
    std::vector<std::pair<int64_t, int64_t>> pieces;
    if (head > 0) pieces.push_back({0, head});
    for (const auto& [a, b] : keys) {
      // More before the key than after it when it comes late, as a reader would quote it.
      const int64_t from = wordStart(run, std::clamp<int64_t>(a - around * 3 / 4, head, tail), head);
      const int64_t to = wordEnd(run, std::clamp<int64_t>(b + around * 3 / 4, std::min(b, tail), tail), tail);
      if (!pieces.empty() && from <= pieces.back().second)
        pieces.back().second = std::max(pieces.back().second, to);
      else if (to > from)
        pieces.push_back({from, to});
    }
    if (!pieces.empty() && pieces.back().second >= tail)
      pieces.back().second = end;
    else
      pieces.push_back({tail, end});
    words.clear();
    int64_t last = 0;
    for (const auto& [a, b] : pieces) {
      if (a > last || (last == head && head > 0 && a > head)) {
        Word gap;
        gap.new_line = a == tail && lines > 1 && b == end;
        const auto next = run.token_bytes(a);
        const bool spaced = !next.empty() && (next.front() == ' ' || next.front() == '\n');
        append(gap,
               QStringLiteral("%1…%2").arg(last > 0 && !gap.new_line ? QStringLiteral(" ") : QString(),
                                           spaced ? QString() : QStringLiteral(" ")),
               false, true);
        words.push_back(gap);
      }
      addWords(words, run, roles, a, b, columns);
      last = b;
    }
    const auto wrapped = wrap(words, columns);
    if (wrapped.size() <= lines) {
      best = wrapped;
      low = around + 1;
    } else {
      high = around - 1;
    }
  }
  if (best.isEmpty()) best = wrap(words, columns).mid(0, lines);
  return best;
}

}  // namespace slotscope::views
