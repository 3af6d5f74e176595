#include "views/token_cells.h"

#include <algorithm>

#include "views/answer_verdict.h"
#include "views/format.h"

namespace slotscope::views {

namespace {

// Bytes that the character starting with `lead` has, 0 when it cannot start one.
int characterLength(unsigned char lead) {
  return lead < 0x80                   ? 1
         : lead >= 0xC2 && lead < 0xE0 ? 2
         : lead >= 0xE0 && lead < 0xF0 ? 3
         : lead >= 0xF0 && lead < 0xF5 ? 4
                                       : 0;
}
bool continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes still missing at the end of `bytes`, 0 when it ends with a whole character (or with bytes that never
// become one).
int missing(std::string_view bytes) {
  for (int back = 1; back <= 4 && size_t(back) <= bytes.size(); ++back) {
    const char c = bytes[bytes.size() - size_t(back)];
    if (continuation(c)) continue;
    const int length = characterLength(static_cast<unsigned char>(c));
    return length > back ? length - back : 0;
  }
  return 0;
}

bool special(const trace::RunInfo& run, int64_t t) {
  return size_t(t) < run.special.size() && run.special[size_t(t)] != 0;
}

// Tokens [first, first + n) that complete the character left open by token `first`; 1 when it is not
// completed.
int joinedFrom(const trace::RunInfo& run, int64_t first) {
  if (special(run, first)) return 1;
  int open = missing(run.token_bytes(first));
  if (open == 0) return 1;
  for (int64_t t = first + 1; t < run.tokens && t < first + 8; ++t) {
    const auto bytes = run.token_bytes(t);
    if (special(run, t) || bytes.empty()) return 1;
    size_t used = 0;
    while (used < bytes.size() && open > 0 && continuation(bytes[used])) ++used, --open;
    if (used == 0) return 1;
    if (open > 0) {
      if (used < bytes.size()) return 1;  // something else where the character should go on
      continue;
    }
    if (used < bytes.size()) open = missing(bytes.substr(used));
    if (open == 0) return int(t - first + 1);
  }
  return 1;
}

// A token without bytes: a row that the tokenizer has no token for.
QString unusedName(const trace::RunInfo& run, int64_t token) {
  return size_t(token) < run.ids.size() ? QStringLiteral("<unused %1>").arg(run.ids[size_t(token)]) : QStringLiteral("∅");
}

// The cell's text: as tokenText, but spaces stay spaces.
QString runningText(std::string_view bytes) {
  return tokenText(bytes).replace(QChar(0x2423), QLatin1Char(' '));
}

}  // namespace

std::pair<int64_t, int> joinedTokens(const trace::RunInfo& run, int64_t token) {
  for (int64_t first = std::max<int64_t>(0, token - 7); first <= token; ++first) {
    const int count = joinedFrom(run, first);
    if (count > 1 && first + count > token) {
      // `first` itself must not be the inside of an earlier character.
      return {first, count};
    }
    if (count > 1) first += count - 1;
  }
  return {token, 1};
}

QVector<TokenCell> tokenCells(const trace::RunInfo& run, int64_t from, int64_t to) {
  QVector<TokenCell> cells;
  from = std::max<int64_t>(0, from);
  to = std::min(to, run.tokens);
  if (from >= to) return cells;
  from = joinedTokens(run, from).first;
  cells.reserve(to - from);
  for (int64_t t = from; t < to;) {
    TokenCell cell;
    cell.first = t;
    cell.special = special(run, t);
    cell.count = joinedFrom(run, t);
    std::string_view bytes = run.token_bytes(t);
    if (cell.count > 1) {
      // Bytes of all tokens of a run lie one after the other.
      const auto last = run.token_bytes(t + cell.count - 1);
      bytes = std::string_view(bytes.data(), size_t(last.data() + last.size() - bytes.data()));
    }
    cell.text = cell.special ? QString::fromUtf8(bytes.data(), qsizetype(bytes.size())) : runningText(bytes);
    if (cell.text.isEmpty())
      cell.text = run.bytes.empty()
                      ? QStringLiteral("#%1").arg(size_t(t) < run.ids.size() ? run.ids[size_t(t)] : -1)
                      : unusedName(run, t);
    if (!cell.special && !bytes.empty()) {
      cell.newline = bytes.back() == '\n';
      cell.space_before = bytes.front() == ' ';
      cell.space_after = bytes.back() == ' ' || bytes.back() == '\t' || cell.newline;
    } else {
      cell.space_before = cell.space_after = run.bytes.empty();
    }
    if (run.bytes.empty()) cell.text += QLatin1Char(' ');
    t += cell.count;
    cells.push_back(std::move(cell));
  }
  return cells;
}

QString tokenName(const trace::RunInfo& run, int64_t token) {
  if (token < 0 || token >= run.tokens) return {};
  if (run.bytes.empty())
    return size_t(token) < run.ids.size() ? QStringLiteral("#%1").arg(run.ids[size_t(token)]) : QString();
  const auto bytes = run.token_bytes(token);
  if (bytes.empty()) return unusedName(run, token);
  if (special(run, token)) return QString::fromUtf8(bytes.data(), qsizetype(bytes.size()));
  const auto [first, count] = joinedTokens(run, token);
  if (count > 1) {
    const auto begin = run.token_bytes(first), last = run.token_bytes(first + count - 1);
    return tokenText({begin.data(), size_t(last.data() + last.size() - begin.data())});
  }
  return tokenText(bytes);
}

QString tokenTitle(const trace::RunInfo& run, int64_t token) {
  const QString quotes = QStringLiteral("“%1”"), name = tokenName(run, token);
  if (token < 0 || token >= run.tokens || joinedTokens(run, token).second == 1) return quotes.arg(name);
  return quotes.arg(tokenText(run.token_bytes(token))) + QStringLiteral(" of ") + quotes.arg(name);
}

QString tokenSpan(const trace::RunInfo& run, int64_t token) {
  const Span* best = nullptr;
  const auto strong = [&](const Span& s) { return isStrongSpan(run, s.name); };
  for (const auto& span : run.spans) {
    if (token < span.begin || token >= span.end) continue;
    const bool better = !best || (strong(span) && !strong(*best)) ||
                        (strong(span) == strong(*best) && span.end - span.begin < best->end - best->begin);
    if (better) best = &span;
  }
  return best ? QString::fromStdString(best->name) : QString();
}

bool isRetrieval(const trace::RunInfo& run, int64_t token) {
  return token >= 0 && size_t(token) < run.roles.size() && run.roles[size_t(token)] == 1;
}

QString idName(const trace::RunInfo& run, int32_t id) {
  // From the end: generated text first. A vocabulary is not part of a trace, so entries that never occurred
  // have no text.
  for (int64_t t = std::min<int64_t>(run.tokens, int64_t(run.ids.size())) - 1; t >= 0; --t)
    if (run.ids[size_t(t)] == id) {
      const auto bytes = run.token_bytes(t);
      return special(run, t) ? QString::fromUtf8(bytes.data(), qsizetype(bytes.size())) : tokenText(bytes);
    }
  return QStringLiteral("#%1").arg(id);
}

}  // namespace slotscope::views
