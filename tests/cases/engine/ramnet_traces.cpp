// RAM-Net traces in the analyses that every routed family shares: read attribution explains the output, survival is what the
// equations say and never NaN, although a first write with state_eps 0 keeps nothing (a log decay of -infinity).
#include "core/analysis/head_data.h"
#include "core/trace/writer.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

// A prompt whose tokens 3 and 4 hold what its last token asks for.
formats::Prompt task(std::vector<int32_t> ids) {
  formats::Prompt prompt = ids_prompt(std::move(ids));
  prompt.roles.assign(prompt.ids.size(), 0);
  prompt.roles[3] = prompt.roles[4] = 1;
  prompt.spans = {{"key", 3, 5}};
  return prompt;
}

std::shared_ptr<trace::Trace> run_to_file(Context& t, const TinyCheckpoint& c, const formats::Prompt& prompt, int64_t segment,
                                          const std::string& dtype = "float64", const std::string& fields = "*") {
  const auto folder = t.temp();
  c.write(folder);
  const auto model = load_model(folder, dtype, t.device());
  engine::RunOptions options = capture(fields, segment);
  options.plan.read_at = "all";
  const auto file = t.temp() / "trace.h5";
  trace::Hdf5Sink sink(file);
  Progress progress;
  model->run({prompt}, nullptr, options, sink, progress);
  sink.finish(trace::Status::complete);
  return trace::Trace::open(file);
}

}  // namespace

// A[t,j] as the twin follows every write, and sum_j A[t,j] v_j = o_t, in every variant, whole and in segments, float32 too.
SLOTSCOPE_CASE(attribution_explains_the_output) {
  const auto ids = some_ids(45, 53);
  for (const MadeRamNet& m : made_ramnet_models())
    for (const auto& [dtype, segment, tolerance] :
         {std::tuple{"float64", 0, 1e-11}, std::tuple{"float64", 7, 1e-11}, std::tuple{"float32", 0, 1e-4}}) {
      const TinyCheckpoint c = m.checkpoint();
      RamNetTwin twin(c);
      twin.feed(ids);
      const auto trace = run_to_file(t, c, task(ids), segment, dtype, "attribution,value,read_out");
      double sums = 0, rows = 0, large = 0;
      for (int layer = 0; layer < 2; ++layer)
        for (int head = 0; head < 4; ++head) {
          const std::string at = "layers/" + std::to_string(layer) + "/";
          const auto data = analysis::load_head(*trace, 0, layer, head);
          CHECK_EQ(data->no_attribution, std::string());
          const auto value = trace->read_head(0, at + "value", head), out = trace->read_head(0, at + "read_out", head);
          const size_t d_v = out.size() / ids.size();
          for (size_t now = 0; now < ids.size(); ++now) {
            const auto a = data->attribution(int64_t(now), head);
            CHECK_EQ(a.weight.size(), now + 1);
            if (a.weight.size() != now + 1) return;
            rows = std::max(rows, worst(a.weight, RamNetTwin::induced(twin.layers[size_t(layer)][size_t(head)], now)));
            CHECK(a.read_of_nothing >= -1e-4 && a.read_of_nothing <= 1);
            for (size_t n = 0; n < d_v; ++n) {
              double sum = 0;
              for (size_t s = 0; s <= now; ++s) sum += a.weight[s] * value[s * d_v + n];
              const double error = std::abs(sum - out[now * d_v + n]);
              if (!(error <= sums)) sums = error;
              large = std::max(large, std::abs(out[now * d_v + n]));
            }
          }
        }
      CHECK(large > 0.1);
      CHECK_CLOSE(sums, 0, tolerance);
      CHECK_CLOSE(rows, 0, tolerance);
      if (segment == 0)
        t.note(m.name + " " + dtype + ": |o| up to " + sci(large) + ", worst sum " + sci(sums) + ", worst row " + sci(rows));
    }
}

// Everything that is computed from log decays, in variants with state_eps 0 and 1e-6: survival against the twin's own products.
SLOTSCOPE_CASE(survival_is_never_nan) {
  const auto ids = some_ids(45, 53);
  int64_t cleared = 0;
  for (const MadeRamNet& m : made_ramnet_models()) {
    const TinyCheckpoint c = m.checkpoint();
    RamNetTwin twin(c);
    twin.feed(ids);
    const auto trace = run_to_file(t, c, task(ids), 0);
    double most = 0;
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 4; ++head) {
        const auto& expected = twin.layers[size_t(layer)][size_t(head)];
        const auto data = analysis::load_head(*trace, 0, layer, head);
        const analysis::SlotWrites& w = data->writes;
        for (const double f : w.log_gate) {
          CHECK(f <= 0);
          cleared += std::isinf(f);
        }
        for (size_t j = 0; j < ids.size(); ++j) {
          const auto& step = expected.steps[j];
          std::vector<double> left(step.write.slot.size(), 1);
          const auto curve = analysis::survival_curve(data->routes, w, int64_t(j), int64_t(j), int64_t(ids.size()) - 1);
          for (size_t now = j; now < ids.size(); ++now) {
            double kept = 0, total = 0;
            for (size_t k = 0; k < left.size(); ++k) {
              for (size_t n = 0; now > j && n < left.size(); ++n)
                if (expected.steps[now].write.slot[n] == step.write.slot[k]) left[k] *= expected.steps[now].keep[n];
              kept += step.strength[k] * left[k];
              total += step.strength[k];
            }
            const double one = analysis::survival(data->routes, w, int64_t(j), int64_t(now));
            for (const double found : {one, curve[now - j]}) {
              const double error = std::abs(found - kept / total);
              if (!(error <= most)) most = error;
            }
          }
        }
        for (int slot = 0; slot < w.slots; ++slot) {
          for (const double share : analysis::retained(w, slot, int64_t(ids.size()) - 1))
            CHECK(share >= 0 && share <= 1 + 1e-9);
          CHECK(analysis::tokens_held(w, slot, int64_t(ids.size()) - 1) >= 0);
        }
        analysis::GridRequest request;
        for (int i = 0; i < w.slots; ++i) request.rows.push_back(i);
        request.last = int64_t(ids.size());
        request.reference = 20;
        request.read_weight = data->reads_at(20, head);
        using analysis::Quantity;
        for (const Quantity q : {Quantity::write_strength, Quantity::route_weight, Quantity::log_gate, Quantity::survival_at,
                                 Quantity::survival_of, Quantity::read_attribution, Quantity::read_weight}) {
          request.quantity = q;
          const analysis::SlotGrid grid = data->grid(request);
          CHECK_EQ(grid.nan_cells, int64_t(0));
          CHECK(grid.finite_cells > 0 && grid.unknown_cells == 0);
          if (q != Quantity::log_gate) CHECK_EQ(grid.inf_cells, int64_t(0));
        }
      }
    CHECK_CLOSE(most, 0, 1e-11);
    const analysis::RunSummary summary = analysis::summarise(*trace, 0);
    CHECK_EQ(summary.head_list.size(), size_t(8));
    for (const analysis::HeadSummary& head : summary.head_list) {
      CHECK(head.why.empty() && head.has_routes);
      CHECK(head.key_survival >= 0 && head.key_survival <= 1);
      CHECK(head.read_mass_on_key >= 0 && head.read_mass_on_key <= 1);
      CHECK(head.mean_write_strength > 0 && std::isfinite(head.allocation.head_score) && std::isfinite(head.statistics.gini));
    }
    t.note(m.name + ": worst survival " + sci(most));
  }
  CHECK(cleared > 100);  // first writes with state_eps 0
}

// What is captured of some heads, layers and tokens only is read back as that.
SLOTSCOPE_CASE(parts_of_a_trace) {
  const auto ids = some_ids(30, 53);
  const TinyCheckpoint c = made_ramnet();
  RamNetTwin twin(c);
  twin.feed(ids);
  const auto folder = t.temp();
  c.write(folder);
  const auto model = load_model(folder, "float64", t.device());
  engine::RunOptions options = capture("attribution,addresses,esl,selected,margin,ties,slot_value", 8);
  options.plan.heads = {1, 3};
  options.plan.layers = {1};
  options.plan.tokens = {{4, 9}, {20, 30}};
  options.plan.read_at = "all";
  const auto file = t.temp() / "trace.h5";
  trace::Hdf5Sink sink(file);
  Progress progress;
  const auto outcome = model->run({ids_prompt(ids)}, nullptr, options, sink, progress);
  sink.finish(trace::Status::complete);
  CHECK_EQ(outcome.notes, std::vector<std::string>());
  const auto trace = trace::Trace::open(file);
  CHECK(!trace->run(0).find("layers/0/route_index"));
  CHECK_EQ(trace->run(0).find("layers/1/read_index")->shape, std::vector<int64_t>({15, 2, 5}));
  CHECK_EQ(trace->run(0).find("layers/1/gamma")->shape, std::vector<int64_t>({15, 2}));
  CHECK_EQ(trace->run(0).find("layers/1/mass")->shape, std::vector<int64_t>({1, 2, 27}));
  CHECK_EQ(trace->run(0).find("layers/1/slot_value")->shape, std::vector<int64_t>({1, 2, 27, 6}));
  CHECK_EQ(trace->run(0).find("layers/1/read_index")->axes, std::string("T_c,H,K"));
  const auto gamma = trace->read_head(0, "layers/1/gamma", 1);
  const auto mass = trace->read_head(0, "layers/1/mass", 1);
  CHECK_CLOSE(worst(mass, twin.layers[1][3].mass), 0, 1e-12);
  for (size_t row = 0; row < 15; ++row)
    CHECK_CLOSE(gamma[row], twin.layers[1][3].steps[row < 5 ? row + 4 : row + 15].gamma, 1e-12);
  const auto data = analysis::load_head(*trace, 0, 1, 3);
  const auto a = data->attribution(25, 3), expected = analysis::Attribution{RamNetTwin::induced(twin.layers[1][3], 25), 0};
  for (size_t j = 0; j <= 25; ++j) {
    if (j < 20)
      CHECK(std::isnan(a.weight[j]));
    else
      CHECK_CLOSE(a.weight[j], expected.weight[j], 1e-12);
  }
  CHECK_ERROR(analysis::load_head(*trace, 0, 1, 2), "head 2 was not captured");
}

// float16 has no numbers for the weights of a large product code: they are stored in full whatever --store says.
SLOTSCOPE_CASE(small_weights_are_kept) {
  TinyCheckpoint c = made_ramnet({{"top_k", 27}});
  for (const char* layer : {"model.layers.0.attn.", "model.layers.1.attn."})
    c.set(std::string(layer) + "w_log_scale", {3, 3, 3, 3});
  const auto folder = t.temp();
  c.write(folder);
  engine::RunOptions options = capture("attribution,value,read_out,esl");
  options.plan.store = "float16";
  options.plan.read_at = "all";
  const auto run = run_ids(*load_model(folder, "float32", t.device()), some_ids(10, 53), options);
  const auto weight = run->values("layers/0/route_weight");
  int small = 0;
  for (const double w : weight) small += w > 0 && w < 1e-9;
  CHECK(small > 50);
  CHECK_EQ(run->outcome.notes,
           std::vector<std::string>({"ramnet: route_weight is not stored as float16, in which small weights would vanish"}));
}

namespace {

// softmax of each group of d_p logits.
std::vector<double> factor_softmax(const double* logit, size_t U, size_t d_p) {
  std::vector<double> p(U * d_p);
  for (size_t u = 0; u < U; ++u) {
    double sum = 0;
    for (size_t j = 0; j < d_p; ++j) sum += p[u * d_p + j] = std::exp(logit[u * d_p + j]);
    for (size_t j = 0; j < d_p; ++j) p[u * d_p + j] /= sum;
  }
  return p;
}

// The probability of every slot, moved by `shift`.
std::vector<double> full_address(const std::vector<double>& p, size_t U, size_t d_p, size_t shift) {
  size_t M = 1;
  for (size_t u = 0; u < U; ++u) M *= d_p;
  std::vector<double> all(M, 1);
  for (size_t slot = 0; slot < M; ++slot)
    for (size_t u = 0, rest = (slot + M - shift % M) % M; u < U; ++u, rest /= d_p) all[slot] *= p[u * d_p + rest % d_p];
  return all;
}

}  // namespace

// Whole addresses, nothing forgotten, mass-aware reads: attention with the address kernel, which factorises where no head moves
// (spec: ramnet 1.4, 2).
SLOTSCOPE_CASE(cumulative_mass_aware_is_kernel_attention) {
  const auto ids = some_ids(30, 53);
  for (const auto& [U, d_p] : {std::pair<size_t, size_t>{3, 3}, {2, 4}, {1, 16}, {5, 2}, {4, 4}}) {
    const TinyCheckpoint c = made_ramnet({{"order", U}, {"codes_per_factor", d_p}, {"top_k", 1 << 20}, {"cumulative", true},
                                          {"readout", "mass_aware"}, {"state_eps", 0.0}});
    const auto trace = run_to_file(t, c, task(ids), 0, "float64", "attribution");
    double most = 0;
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 4; ++head) {
        const std::string at = "layers/" + std::to_string(layer) + "/";
        const auto query = trace->read_head(0, at + "query", head), key = trace->read_head(0, at + "key", head);
        const auto data = analysis::load_head(*trace, 0, layer, head);
        const bool moves = layer == 0 ? head == 0 || head == 2 : head == 1;
        for (size_t now = 0; now < ids.size(); ++now) {
          const auto r = factor_softmax(query.data() + now * U * d_p, U, d_p);
          std::vector<double> kernel;
          double sum = 0;
          for (size_t s = 0; s <= now; ++s) {
            const auto w = factor_softmax(key.data() + s * U * d_p, U, d_p);
            double kappa = moves ? 0 : 1;
            if (moves) {
              const auto a = full_address(r, U, d_p, now), b = full_address(w, U, d_p, s);
              for (size_t slot = 0; slot < a.size(); ++slot) kappa += a[slot] * b[slot];
            } else {
              for (size_t u = 0; u < U; ++u) {
                double z = 0;
                for (size_t j = 0; j < d_p; ++j) z += r[u * d_p + j] * w[u * d_p + j];
                kappa *= z;
              }
            }
            kernel.push_back(kappa);
            sum += kappa;
          }
          for (double& k : kernel) k /= sum;
          const double error = worst(data->attribution(int64_t(now), head).weight, kernel);
          if (!(error <= most)) most = error;
        }
      }
    CHECK_CLOSE(most, 0, 1e-12);
    t.note("U " + std::to_string(U) + ", d_p " + std::to_string(d_p) + ": worst row " + sci(most));
  }
}
