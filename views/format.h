// Numbers and token text as the program writes them (design: section 5 "Formats").
#pragma once

#include <QString>
#include <cstdint>
#include <string_view>

namespace slotscope::views {

QString strength(double v, int decimals = 3);   // 0.363; below 0.0005 scientific "3.2e−5"; exact zero "0"; NaN "–"
QString share(double v, int decimals = 1);      // "39.3 %" with a thin space
QString count(qint64 n);                        // narrow no-break space from 10 000
QString bytes(qint64 n);                        // "21 MB"
QString seconds(double s);                      // "4 s", "1:12"
QString signedNumber(double v, int decimals);   // U+2212 minus
// One token as one short text: space ␣, newline ↵, tab ⇥, control bytes \x07, bytes that are not whole UTF-8 as hex "F0 9F…".
QString tokenText(std::string_view bytes);

}  // namespace slotscope::views
