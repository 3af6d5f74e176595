#include "views/format.h"

#include <QChar>
#include <cmath>

namespace slotscope::views {

namespace {

constexpr QChar kMinus(0x2212), kThin(0x2009), kNarrow(0x202F), kEllipsis(0x2026);

QString no_number() { return QString(QChar(0x2013)); }

QString with_minus(QString s) { return s.replace(QLatin1Char('-'), kMinus); }

// "3.2e−5": one decimal, no padding zeros in the exponent, no plus.
QString scientific(double v) {
  const QString s = QString::number(v, 'e', 1);
  const auto e = s.indexOf(QLatin1Char('e'));
  return with_minus(s.left(e) + QLatin1Char('e') + QString::number(s.mid(e + 1).toInt()));
}

// True with the text of what is no finite number.
bool not_finite(double v, QString* text) {
  if (std::isfinite(v)) return false;
  *text = std::isnan(v) ? no_number() : (v < 0 ? QString(kMinus) : QString()) + QChar(0x221E);
  return true;
}

// Length of the UTF-8 character at s[0], 0 when it is not whole, with its code point.
int decode(std::string_view s, char32_t* code) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char b = byte(0);
  const int n = b < 0x80                ? 1
                : b >= 0xC2 && b < 0xE0 ? 2
                : b >= 0xE0 && b < 0xF0 ? 3
                : b >= 0xF0 && b < 0xF5 ? 4
                                        : 0;
  if (n == 0 || s.size() < size_t(n)) return 0;
  char32_t c = n == 1 ? b : b & (0x7F >> n);
  for (int i = 1; i < n; ++i) {
    if ((byte(size_t(i)) & 0xC0) != 0x80) return 0;
    c = c << 6 | (byte(size_t(i)) & 0x3F);
  }
  const bool overlong = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000);
  if (overlong || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) return 0;
  *code = c;
  return n;
}

QString hex(uint32_t v, int digits) {
  return QString::number(v, 16).toUpper().rightJustified(digits, QLatin1Char('0'));
}

QString one_character(char32_t c) {
  switch (c) {
    case U' ':
      return QStringLiteral("␣");
    case U'\n':
      return QStringLiteral("↵");
    case U'\t':
      return QStringLiteral("⇥");
    default:
      break;
  }
  if (c < 0x20 || c == 0x7F) return QStringLiteral("\\x") + hex(c, 2);
  const auto category = QChar::category(c);
  // Format and control characters would be invisible or turn the rest of the line around. Joiners stay: emoji
  // need them.
  const bool invisible = category == QChar::Other_Control ||
                         (category == QChar::Other_Format && c != 0x200D) ||
                         category == QChar::Separator_Line || category == QChar::Separator_Paragraph;
  if (invisible) return QStringLiteral("\\u") + hex(c, 4);
  return QString::fromUcs4(&c, 1);
}

// A run of bytes that are no whole character.
QString broken(std::string_view run, bool at_end) {
  QString s;
  for (const char b : run)
    s += (s.isEmpty() ? QString() : QStringLiteral(" ")) + hex(static_cast<unsigned char>(b), 2);
  const auto first = static_cast<unsigned char>(run.front());
  if ((first & 0xC0) == 0x80)
    s.prepend(kEllipsis);  // continuation bytes: the character began in an earlier token
  if (at_end && first >= 0xC2 && first < 0xF5) s += kEllipsis;  // it goes on in the next one
  return s;
}

}  // namespace

QString strength(double v, int decimals) {
  QString text;
  if (not_finite(v, &text)) return text;
  if (v == 0) return QStringLiteral("0");
  if (std::abs(v) < 0.0005 || std::abs(v) >= 1e7) return scientific(v);
  return with_minus(QString::number(v, 'f', decimals));
}

QString share(double v, int decimals) {
  QString text;
  if (not_finite(v, &text)) return text;
  return signedNumber(100 * v, decimals) + kThin + QLatin1Char('%');
}

QString barShare(double v) {
  QString text;
  if (not_finite(v, &text)) return text;
  // 9.95 % and more would print as "10.0%".
  return signedNumber(100 * v, 100 * v < 9.95 && v > 0 ? 1 : 0) + QLatin1Char('%');
}

QString count(qint64 n) {
  QString s = QString::number(n);
  const qsizetype first = n < 0 ? 1 : 0;
  if (s.size() - first >= 5)
    for (qsizetype i = s.size() - 3; i > first; i -= 3) s.insert(i, kNarrow);
  return with_minus(s);
}

QString bytes(qint64 n) {
  if (n < 0) return no_number();
  static const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double v = double(n);
  int u = 0;
  while (v >= 999.5 && u < 6) v /= 1000, ++u;
  const int decimals = u >= 3 && v < 9.95 ? 1 : 0;
  return QString::number(v, 'f', decimals) + QChar(0x00A0) + QLatin1String(units[u]);
}

QString seconds(double s) {
  QString text;
  if (not_finite(s, &text)) return text;
  if (s < 0.95) return QString::number(std::max(0.0, s), 'f', 1) + QStringLiteral(" s");
  const qint64 n = qint64(std::llround(std::min(s, 1e15)));
  if (n < 60) return QString::number(n) + QStringLiteral(" s");
  const QLatin1Char zero('0'), colon(':');
  const QString sec = QString::number(n % 60).rightJustified(2, zero);
  if (n < 3600) return QString::number(n / 60) + colon + sec;
  return QString::number(n / 3600) + colon + QString::number(n / 60 % 60).rightJustified(2, zero) + colon +
         sec;
}

QString signedNumber(double v, int decimals) {
  QString text;
  if (not_finite(v, &text)) return text;
  QString s = QString::number(v, 'f', decimals);
  bool zero = true;
  for (const QChar c : s) zero = zero && !(c >= QLatin1Char('1') && c <= QLatin1Char('9'));
  if (zero) s.remove(QLatin1Char('-'));
  return with_minus(s);
}

QString tokenText(std::string_view bytes) {
  QString out;
  size_t i = 0;
  while (i < bytes.size()) {
    char32_t c = 0;
    if (const int n = decode(bytes.substr(i), &c); n > 0) {
      out += one_character(c);
      i += size_t(n);
      continue;
    }
    // As far as the bytes belong together: a lead byte with what follows it, or a run of continuation bytes.
    size_t end = i + 1;
    char32_t ignored;
    while (end < bytes.size() && decode(bytes.substr(end), &ignored) == 0 &&
           (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80)
      ++end;
    if (!out.isEmpty()) out += QLatin1Char(' ');
    out += broken(bytes.substr(i, end - i), end == bytes.size());
    if (end < bytes.size()) out += QLatin1Char(' ');
    i = end;
  }
  return out;
}

}  // namespace slotscope::views
