// RAM-Net (spec: ramnet 1): logits, captured fields and generation against the same equations written a second time; whole =
// segmented = token by token; the numbers of reference.json through the operations that the layer uses.
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

using nlohmann::json;
using Parts = std::set<std::string>;

struct Made {
  std::string name;
  json memory;
  Parts parts = {"log_scale", "gate"};
  json options = {};
};

// Every option that changes numbers, in at least one of them.
const std::vector<Made>& made_models() {
  static const std::vector<Made> list = {
      {"gsu", {}},
      {"gsu eps 0, biases, norm", {{"state_eps", 0.0}}, {"bias", "gate", "norm", "log_scale"}},
      {"mass-aware", {{"readout", "mass_aware"}, {"cape_direction", -1}}},
      {"mass-aware eps 0, most significant first",
       {{"readout", "mass_aware"}, {"state_eps", 0.0}, {"slot_order", "factor0_most_significant"}, {"codes_per_factor", 4}, {"order", 2}},
       {}},
      {"cumulative, renormalised", {{"cumulative", true}, {"renormalize_topk", true}, {"state_eps", 1e-3}}},
      {"all slots", {{"order", 2}, {"top_k", 40}, {"cape_heads", {json::array(), {0, 1, 2, 3}}}}, {"bias"}},
      {"pdma", {{"update_rule", "pdma"}, {"pdma_gamma", 0.5}}},
      {"pdma gamma 1, eps 0, minus", {{"update_rule", "pdma"}, {"state_eps", 0.0}, {"cape_direction", -1}}, {"norm"}},
      {"pdma gamma 0", {{"update_rule", "pdma"}, {"pdma_gamma", 0.0}}, {"gate"}},
      {"one factor, tied", {{"order", 1}, {"codes_per_factor", 16}}, {"log_scale"}, {{"tie_word_embeddings", true}}},
      {"K = 1 renormalised", {{"top_k", 1}, {"renormalize_topk", true}}},
      {"two codes, five factors", {{"order", 5}, {"codes_per_factor", 2}, {"top_k", 9}}},
  };
  return list;
}

TinyCheckpoint made(const Made& m) { return made_ramnet(m.memory, m.parts, m.options); }

std::unique_ptr<engine::Model> load(Context& t, const TinyCheckpoint& made, const std::string& dtype) {
  const auto folder = t.temp();
  made.write(folder);
  return load_model(folder, dtype, t.device());
}

}  // namespace

SLOTSCOPE_CASE(equals_the_equations_written_out) {
  const auto ids = some_ids(70, 53);
  for (const Made& m : made_models()) {
    const TinyCheckpoint c = made(m);
    RamNetTwin twin(c);
    twin.feed(ids);
    const double error = worst(run_ids(*load(t, c, "float64"), ids, capture("logits", 17))->values("output/logits"), twin.logits);
    CHECK_CLOSE(error, 0, 1e-9);
    const double single = worst(run_ids(*load(t, c, "float32"), ids, capture("logits"))->values("output/logits"), twin.logits);
    CHECK_CLOSE(single, 0, 1e-4 * (t.device() == "cpu" ? 1 : 2));
    t.note(m.name + ": logits up to " + sci(largest(twin.logits)) + ", worst error float64 " + sci(error) + ", float32 " +
           sci(single));
  }
}
