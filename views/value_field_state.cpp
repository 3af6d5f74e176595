#include "views/value_field_state.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include "core/analysis/value_field_json.h"
#include "core/error.h"

namespace slotscope::views {

namespace {

constexpr const char* kLayouts[] = {"spread", "random", "ring", "grid"};
constexpr int kVersion = 1;
constexpr qsizetype kMostText = qsizetype(16) << 20;

[[noreturn]] void refuse(const char* item, const QString& found, const char* expected) {
  throw Error({.file = "value-field state", .item = item, .found = found.toStdString(), .expected = expected}, Error::Kind::usage);
}

}  // namespace

FieldState fieldStateOf(const analysis::FieldPreset& preset) {
  FieldState state;
  state.settings = preset.make();
  state.layout.count = int(state.settings.keys.size());
  state.layout.rgb = state.settings.channels == 3;
  for (const auto& set : analysis::field_column_sets())
    if (set.make(state.settings.space) == state.settings.columns) state.columns = QString::fromLatin1(set.name);
  return state;
}

FieldState firstFieldState() { return fieldStateOf(*analysis::find_field_preset("paper")); }

QByteArray fieldStateJson(const FieldState& state) {
  QJsonObject root{{QStringLiteral("format"), QStringLiteral("slotscope-value-field")}, {QStringLiteral("version"), kVersion}};
  // As text, so that every number keeps its digits and every seed its bits.
  root[QStringLiteral("settings")] = QString::fromStdString(analysis::field_settings_json(state.settings));
  root[QStringLiteral("layout")] = QJsonObject{{QStringLiteral("kind"), QString::fromLatin1(kLayouts[int(state.layout.kind)])},
                                               {QStringLiteral("count"), state.layout.count},
                                               {QStringLiteral("seed"), QString::number(state.layout.seed)}};
  root[QStringLiteral("edited")] = state.edited;
  root[QStringLiteral("columns")] = state.columns;
  if (state.cross) root[QStringLiteral("cross")] = QJsonArray{state.cross->x(), state.cross->y()};
  root[QStringLiteral("large")] = state.large;
  root[QStringLiteral("selected")] = state.selected;
  return QJsonDocument(root).toJson(QJsonDocument::Compact);
}

FieldState parseFieldState(const QByteArray& json) {
  if (json.size() > kMostText) refuse("size", QString::number(json.size()), "at most 16 MiB");
  QJsonParseError error;
  const auto document = QJsonDocument::fromJson(json, &error);
  if (!document.isObject()) refuse("JSON", document.isNull() ? error.errorString() : QStringLiteral("no object"), "an object");
  const QJsonObject root = document.object();
  FieldState state;
  // The settings alone, as the command line takes and writes them, are a state too.
  if (!root.contains(QStringLiteral("format"))) {
    state.settings = analysis::parse_field_settings(json.toStdString(), "value-field settings");
    state.layout.count = int(state.settings.keys.size());
    state.layout.rgb = state.settings.channels == 3;
    state.edited = true;
    return state;
  }
  if (root[QStringLiteral("format")].toString() != QStringLiteral("slotscope-value-field"))
    refuse("format", root[QStringLiteral("format")].toString(), "slotscope-value-field");
  if (root[QStringLiteral("version")].toInt() != kVersion) refuse("version", QString::number(root[QStringLiteral("version")].toInt()), "1");
  state.settings = analysis::parse_field_settings(root[QStringLiteral("settings")].toString().toStdString(), "value-field state");
  const QJsonObject layout = root[QStringLiteral("layout")].toObject();
  for (int i = 0; i < 4; ++i)
    if (layout[QStringLiteral("kind")].toString() == QLatin1String(kLayouts[i])) state.layout.kind = analysis::FieldLayoutKind(i);
  state.layout.count = std::clamp(layout[QStringLiteral("count")].toInt(12), 1, analysis::kMostFieldKeys);
  state.layout.seed = layout[QStringLiteral("seed")].toString().toULongLong();
  state.layout.rgb = state.settings.channels == 3;
  state.edited = root[QStringLiteral("edited")].toBool();
  state.columns = root[QStringLiteral("columns")].toString().left(60);
  const QJsonArray cross = root[QStringLiteral("cross")].toArray();
  if (cross.size() == 2 && cross[0].isDouble() && cross[1].isDouble()) state.cross = QPointF(cross[0].toDouble(), cross[1].toDouble());
  const int panels = int(state.settings.rows.size() * state.settings.columns.size());
  state.large = std::clamp(root[QStringLiteral("large")].toInt(-1), -1, panels - 1);
  state.selected = std::clamp(root[QStringLiteral("selected")].toInt(-1), -1, int(state.settings.keys.size()) - 1);
  return state;
}

}  // namespace slotscope::views
