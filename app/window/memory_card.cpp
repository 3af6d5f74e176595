#include "app/window/memory_card.h"

#include <algorithm>
#include <tuple>

#include "views/format.h"

namespace slotscope::app {

namespace {

auto kind(const engine::LayerInfo& l) {
  return std::tie(l.mixer, l.route_kind, l.heads, l.route_heads, l.slots, l.top_k, l.d_k, l.d_v, l.state_bytes, l.note);
}

// "0–3, 5"
QString ranges(const std::vector<int>& layers) {
  QStringList parts;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    parts << (end - i == 1 ? QString::number(layers[i])
                           : QString("%1–%2").arg(layers[i]).arg(layers[end - 1]));
    i = end;
  }
  return parts.join(", ");
}

views::MemoryCardRow::Cell cell(const std::string& formula, const std::string& words) {
  return {QString::fromStdString(formula), QString::fromStdString(words)};
}

}  // namespace

views::MemoryCardData memoryCard(const OpenCheckpoint& open) {
  views::MemoryCardData card;
  if (!open.info) return card;
  const engine::ModelInfo& info = *open.info;
  const QString gap = QStringLiteral(" · ");
  card.model = open.name;
  card.facts = QString::fromStdString(info.family) + gap + QString("%1 layers").arg(info.layers.size()) + gap +
               views::count(info.parameters) + " parameters";
  std::vector<std::vector<int>> groups;
  for (size_t i = 0; i < info.layers.size(); ++i) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& g) {
      return kind(info.layers[size_t(g.front())]) == kind(info.layers[i]);
    });
    if (same == groups.end())
      groups.push_back({int(i)});
    else
      same->push_back(int(i));
  }
  for (const auto& group : groups) {
    const engine::LayerInfo& l = info.layers[size_t(group.front())];
    views::MemoryCardRow row;
    row.layers = ranges(group);
    row.layer_count = int(group.size());
    row.mixer = QString::fromStdString(l.mixer);
    row.route_kind = QString::fromStdString(l.route_kind);
    const engine::MemoryCard& c = l.card;
    row.router = cell(c.formulas.router, c.router);
    row.content = cell(c.formulas.content, c.content);
    row.decay = cell(c.formulas.decay, c.decay);
    row.readout = cell(c.formulas.readout, c.readout);
    row.heads = l.heads, row.route_heads = l.route_heads, row.slots = l.slots, row.top_k = l.top_k;
    row.d_k = l.d_k, row.d_v = l.d_v, row.state_bytes = l.state_bytes;
    card.rows.push_back(std::move(row));
  }
  return card;
}

}  // namespace slotscope::app
