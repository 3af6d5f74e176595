// slotscope-cli ramnet overlap as a process, on traces of real runs.
#include "core/analysis/overlap.h"
#include "core/trace/result_file.h"
#include "core/trace/trace.h"
#include "tests/cases/cli_checks.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

const char* const kFields = "route,log_decay,write_strength,read_weight,read_index,read_route_weight,gamma,value,read_out";

fs::path trace_of(Context& t, const json& memory, const std::string& ids) {
  const fs::path folder = t.temp(), out = folder / "r.h5";
  made_ramnet(memory, {"log_scale", "gate"}, {}).write(folder);
  EXPECT_CODE(run_cli({"run", folder.string(), "--ids", ids, "--generate", "0", "--dtype", "float64", "--capture", kFields, "--read-at", "all", "--out", out.string()}), 0, "run");
  return out;
}

std::string some_text_ids(int count) {
  std::string text;
  for (const auto id : some_ids(count, 53)) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

}  // namespace

SLOTSCOPE_CASE(induced_weights_of_a_run_times_its_values_are_its_output) {
  for (const json& memory : {json{}, json{{"readout", "mass_aware"}, {"cape_direction", -1}, {"state_eps", 0.0}},
                             json{{"update_rule", "pdma"}, {"pdma_gamma", 0.5}}, json{{"update_rule", "pdma"}, {"pdma_gamma", 1.0}, {"readout", "mass_aware"}},
                             json{{"cumulative", true}, {"renormalize_topk", true}}}) {
    const auto trace = trace::Trace::open(trace_of(t, memory, some_text_ids(40)));
    const auto& info = trace->run(0);
    for (const auto& layer : info.layers)
      for (int h = 0; h < int(layer.route_heads); ++h) {
        const std::string at = "layers/" + std::to_string(layer.index) + "/";
        const auto value = trace->read_head(0, at + "value", h), out = trace->read_head(0, at + "read_out", h);
        const auto a = analysis::load_addresses(*trace, 0, layer.index, h);
        const auto weights = analysis::tile(*analysis::induced_matrix(a), 0, 40, 0, 40);
        const size_t d = value.size() / 40;
        double worst = 0;
        for (size_t row = 0; row < 40; ++row)
          for (size_t c = 0; c < d; ++c) {
            double sum = 0;
            for (size_t s = 0; s <= row; ++s) sum += weights[row * 40 + s] * value[s * d + c];
            worst = std::max(worst, std::abs(sum - out[row * d + c]));
          }
        CHECK_CLOSE(worst, 0, 1e-12);
        // The same rows through the captured read weights over all slots.
        const auto head = analysis::load_head(*trace, 0, layer.index, h);
        const auto captured = analysis::tile(*analysis::attribution_matrix(head, h), 0, 40, 0, 40);
        CHECK_CLOSE(slotscope::testing::worst(weights, captured), 0, 1e-12);
      }
  }
}

SLOTSCOPE_CASE(overlap_command_writes_what_it_says) {
  const fs::path trace_file = trace_of(t, {}, some_text_ids(40)), out = t.temp() / "o.h5";
  const Child c = run_cli({"ramnet", "overlap", trace_file.string(), "--layer", "0", "--head", "1", "--tokens", "3:35", "--against",
                           trace_file.string(), "--layer-b", "1", "--out", out.string(), "--json"});
  EXPECT_CODE(c, 0, "overlap");
  const json j = document(c);
  CHECK_EQ(j["first_token"], 3);
  CHECK_EQ(j["last_token"], 35);
  CHECK_EQ(j["against"]["common_tokens"], 40);
  CHECK_EQ(j["divergences"].size(), size_t(3));
  const trace::Result r = trace::read_result(out, "ramnet-overlap");
  const auto trace = trace::Trace::open(trace_file);
  const auto m = analysis::overlap_matrix(analysis::load_addresses(*trace, 0, 0, 1));
  CHECK_EQ(trace::as_doubles(r.at("overlap").values), analysis::tile(*m, 3, 35, 3, 35));
  CHECK_EQ(trace::as_doubles(r.at("attention").values), analysis::tile(*analysis::induced_matrix(analysis::load_addresses(*trace, 0, 1, 1)), 3, 35, 3, 35));
  CHECK_EQ(r.integer("against_layer"), int64_t(1));
  const Words base = {"ramnet", "overlap", trace_file.string(), "--layer", "0", "--head", "1", "--out", out.string()};
  const auto with = [&](Words more) {
    Words words = base;
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  };
  const struct {
    Words more;
    int code;
    const char* says;
  } wrong[] = {{{}, 1, "o.h5"},
               {{"--force", "--tokens", "40:50"}, 2, "0:40"},
               {{"--force", "--tokens", "x"}, 2, "FIRST:END"},
               {{"--force", "--temperature", "2"}, 2, "softmax over the others"},
               {{"--force", "--top-k", "30"}, 2, "ranks were captured"},
               {{"--force", "--kind", "min"}, 1, "r_t(a) w_s(a)"},
               {{"--force", "--against", "/no/such.h5"}, 1, "/no/such.h5"}};
  for (const auto& w : wrong) {
    const Child refused = with(w.more);
    EXPECT_CODE(refused, w.code, w.says);
    EXPECT_SAYS(refused.err, w.says);
  }
  EXPECT_CODE(run_cli({"ramnet", "overlap", trace_file.string(), "--layer", "9", "--head", "0", "--out", out.string()}), 2, "layer");
  EXPECT_CODE(run_cli({"ramnet", "overlap", trace_file.string(), "--layer", "0", "--head", "44", "--out", out.string()}), 2, "head");
  const Child text = with({"--force", "--shift", "0"});
  EXPECT_CODE(text, 0, "shift");
  EXPECT_SAYS(text.out, "largest overlap", "induced", "missing mass");
}
