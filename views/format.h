// Numbers and token text as the program writes them (design: section 5 "Formats").
#pragma once

#include <QString>
#include <cstdint>
#include <string_view>

namespace slotscope::views {

QString strength(double v,
                 int decimals = 3);  // 0.363; below 0.0005 scientific "3.2e−5"; exact zero "0"; NaN "–"
QString share(double v, int decimals = 1);  // v 0..1: 0.393 -> "39.3 %" with a thin space; NaN "–"
QString barShare(double v);                 // v 0..1, beside bars: "39%", below 10 % "4.2%"; NaN "–"
QString count(qint64 n);                    // narrow no-break space from 10 000
QString bytes(qint64 n);                    // decimal units: "512 B", "6 kB", "21 MB", "1.4 GB"
QString seconds(double s);                  // "0.4 s", "4 s", "1:12", "1:02:03"
QString signedNumber(double v, int decimals);  // U+2212 minus, no plus; never "−0.00"; NaN "–", infinity "∞"
// One token as one short text: space ␣, newline ↵, tab ⇥, control bytes \x07, bytes that are not whole UTF-8
// as hex "F0 9F…". Invisible characters as \u202E. An unfinished character ends in "…", the rest of one
// begins with it.
QString tokenText(std::string_view bytes);

}  // namespace slotscope::views
