#include "core/analysis/references.h"

#include <filesystem>

#include "core/analysis/trace_access.h"

namespace slotscope::analysis {

std::vector<EslReference> esl_references(const trace::Trace& trace, int run) {
  const trace::RunInfo& info = run_info(trace, run);
  const std::filesystem::path folder(trace.model().checkpoint);
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  std::vector<EslReference> out;
  for (const bool ring : {false, true})
    for (const trace::LayerSpec& any : info.layers) {
      if (any.route_kind != (ring ? "ring" : "dense")) continue;
      const trace::LayerSpec& layer = layer_spec(trace, run, any.index);
      // More slots than any figure has bars for are no reference.
      if (layer.slots < 1 || layer.slots > 1 << 16 || info.tokens < 1) continue;
      std::vector<uint32_t> esl(size_t(layer.slots), 0);
      // Token by token, as the memory was written.
      for (int64_t t = 0; ring && t < info.tokens; ++t) ++esl[size_t(t % layer.slots)];
      if (!ring) esl.assign(esl.size(), uint32_t(info.tokens));
      out.push_back({ring, run, layer.index, 0, name.empty() ? layer.family : name, analyse_esl(esl, {}, info.tokens)});
      break;
    }
  return out;
}

}  // namespace slotscope::analysis
