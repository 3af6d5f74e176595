// Colour maps as numeric stops, evenly spaced. Sources: viridis and magma (CC0), cividis (Nunez, Anderton,
// Renslow 2018; MIT), batlow (F. Crameri, Scientific colour maps; MIT). "Cividis on paper" is cividis
// reversed with a softened low end.
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "views/theme.h"

namespace slotscope::views {

namespace {

using Stops = std::vector<uint32_t>;

const Stops kCividis = {0x00224E, 0x123570, 0x3B496C, 0x575D6D, 0x707173,
                        0x8A8678, 0xA59C74, 0xC3B369, 0xE1CC55, 0xFEE838};
const Stops kCividisOnPaper = {0xF1ECD3, 0xE6DBA4, 0xCFC183, 0xADA27A, 0x8A8678,
                               0x707173, 0x575D6D, 0x3B496C, 0x123570, 0x00224E};
const Stops kViridis = {0x440154, 0x481A6C, 0x472F7D, 0x414487, 0x39568C, 0x31688E, 0x2A788E, 0x23888E,
                        0x1F988B, 0x22A884, 0x35B779, 0x54C568, 0x7AD151, 0xA5DB36, 0xD2E21B, 0xFDE725};
const Stops kMagma = {0x000004, 0x0B0924, 0x20114B, 0x3B0F70, 0x57157E, 0x721F81, 0x8C2981, 0xA8327D,
                      0xC43C75, 0xDE4968, 0xF1605D, 0xFA7F5E, 0xFE9F6D, 0xFEBF84, 0xFDDEA0, 0xFCFDBF};
const Stops kBatlow = {0x011959, 0x0D325E, 0x124561, 0x185562, 0x26635F, 0x3C6D56, 0x577647, 0x737E38,
                       0x91862D, 0xB38E2F, 0xD29343, 0xED9A62, 0xFBA689, 0xFDB2AF, 0xFCBFD3, 0xFACCFA};
const Stops kGrey = {0x101010, 0x2A2A2A, 0x434343, 0x5E5E5E, 0x797979,
                     0x969696, 0xB3B3B3, 0xD1D1D1, 0xF0F0F0};

// 12 %: the part of a map at its low end that a soft map leaves out.
constexpr double kSoft = 0.12;

QRgb at(const Stops& stops, double x) {
  x = std::clamp(x, 0.0, 1.0) * double(stops.size() - 1);
  const size_t i = std::min(size_t(x), stops.size() - 2);
  return mix(QColor(QRgb(stops[i + 1])), QColor(QRgb(stops[i])), x - double(i)).rgb();
}

}  // namespace

QVector<QRgb> colourMap(const QString& name, bool dark, bool reverse, bool softLowEnd) {
  const Stops* stops = &kCividis;
  if (name == QLatin1String("viridis")) stops = &kViridis;
  if (name == QLatin1String("magma")) stops = &kMagma;
  if (name == QLatin1String("batlow")) stops = &kBatlow;
  if (name == QLatin1String("grey")) stops = &kGrey;
  // All tables run from dark to pale; on a light background more is darker.
  bool downwards = !dark;
  double from = softLowEnd ? kSoft : 0;
  if (stops == &kCividis && !dark && softLowEnd) stops = &kCividisOnPaper, downwards = false, from = 0;
  QVector<QRgb> colours(256);
  for (int i = 0; i < 256; ++i) {
    const double x = from + (1 - from) * i / 255.0;
    colours[reverse ? 255 - i : i] = at(*stops, downwards ? 1 - x : x);
  }
  return colours;
}

QVector<QRgb> divergingMap(bool dark) {
  const Stops stops = {0x8C510A, 0xBF812D, 0xDFC27D, dark ? 0x2A3038u : 0xF5F5F5u,
                       0x80CDC1, 0x35978F, 0x01665E};
  QVector<QRgb> colours(256);
  for (int i = 0; i < 256; ++i) colours[i] = at(stops, i / 255.0);
  return colours;
}

QStringList colourMapNames() {
  return {QStringLiteral("cividis"), QStringLiteral("viridis"), QStringLiteral("magma"),
          QStringLiteral("batlow"), QStringLiteral("grey")};
}

}  // namespace slotscope::views
