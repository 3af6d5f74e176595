// RAM-Net (spec: ramnet 1): logits, captured fields and generation against the same equations written a second time; whole =
// segmented = token by token.
#include <functional>

#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

using nlohmann::json;
using Made = MadeRamNet;

std::unique_ptr<engine::Model> load(Context& t, const TinyCheckpoint& made, const std::string& dtype) {
  const auto folder = t.temp();
  made.write(folder);
  return load_model(folder, dtype, t.device());
}

}  // namespace

SLOTSCOPE_CASE(equals_the_equations_written_out) {
  const auto ids = some_ids(70, 53);
  for (const Made& m : made_ramnet_models()) {
    const TinyCheckpoint c = m.checkpoint();
    RamNetTwin twin(c);
    twin.feed(ids);
    const double error =
        worst(run_ids(*load(t, c, "float64"), ids, capture("logits", 17))->values("output/logits"), twin.logits);
    CHECK_CLOSE(error, 0, 1e-9);
    const double single = worst(run_ids(*load(t, c, "float32"), ids, capture("logits"))->values("output/logits"), twin.logits);
    CHECK_CLOSE(single, 0, 1e-4 * (t.device() == "cpu" ? 1 : 2));
    t.note(m.name + ": logits up to " + sci(largest(twin.logits)) + ", worst error float64 " + sci(error) + ", float32 " +
           sci(single));
  }
}

// Both sides could leave an option out: each must move the logits.
SLOTSCOPE_CASE(every_option_moves_the_logits) {
  const auto ids = some_ids(30, 53);
  const auto logits = [&](const TinyCheckpoint& c) {
    RamNetTwin twin(c);
    twin.feed(ids);
    return twin.logits;
  };
  const auto moves = [&](const json& with, const json& without) {
    TinyCheckpoint c = made_ramnet(with);
    const auto before = logits(c);
    c.config["ramnet"].update(without);
    CHECK(worst(before, logits(c)) > 1e-3);
  };
  moves({}, {{"readout", "mass_aware"}});
  moves({}, {{"top_k", 4}});
  moves({}, {{"renormalize_topk", true}});
  moves({}, {{"slot_order", "factor0_most_significant"}});
  moves({}, {{"cape_direction", -1}});
  moves({}, {{"cape_heads", {{0, 2}, {3}}}});
  moves({}, {{"state_eps", 0.1}});
  moves({}, {{"cumulative", true}});
  moves({{"update_rule", "pdma"}}, {{"pdma_gamma", 0.5}});
  moves({{"update_rule", "pdma"}}, {{"readout", "mass_aware"}});
  moves({{"update_rule", "pdma"}}, {{"state_eps", 0.1}});
  for (const char* part : {"bias", "log_scale", "gate", "norm"}) {
    TinyCheckpoint c = made_ramnet({}, {"bias", "log_scale", "gate", "norm"});
    const auto before = logits(c);
    for (auto it = c.tensors.begin(); it != c.tensors.end();) {
      const std::string& name = it->first;
      const bool gone = (part == std::string("bias") && (name.ends_with("r_proj.bias") || name.ends_with("w_proj.bias"))) ||
                        (part == std::string("log_scale") && name.ends_with("log_scale")) ||
                        (part == std::string("gate") && name.find("g_proj") != std::string::npos) ||
                        (part == std::string("norm") && name.ends_with("o_norm.weight"));
      it = gone ? c.tensors.erase(it) : std::next(it);
    }
    CHECK(worst(before, logits(c)) > 1e-3);
  }
}

namespace {

double worst_of(const std::vector<double>& values, const std::function<double(size_t)>& expected) {
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error =
        values[i] == expected(i) || (std::isnan(values[i]) && std::isnan(expected(i))) ? 0 : std::abs(values[i] - expected(i));
    if (!(error <= most)) most = error;
    if (std::isnan(error)) return NAN;
  }
  return values.empty() ? NAN : most;
}

}  // namespace

// What a run stores of every head and token, in float64 and in segments of 9.
SLOTSCOPE_CASE(captured_fields) {
  const auto ids = some_ids(40, 53);
  const size_t T = ids.size();
  for (const Made& m : made_ramnet_models()) {
    const TinyCheckpoint c = m.checkpoint();
    RamNetTwin at_10(c), twin(c);
    at_10.feed(std::vector<int32_t>(ids.begin(), ids.begin() + 11));
    twin.feed(ids);
    engine::RunOptions options = capture("*", 9);
    options.plan.read_at = "0:1,5:7,39:40";
    options.plan.state_at = "10,39";
    const auto run = run_ids(*load(t, c, "float64"), ids, options);
    double most = 0;
    for (size_t i = 0; i < twin.layers.size(); ++i) {
      const auto& heads = twin.layers[i];
      const size_t H = heads.size(), K = heads[0].steps[0].write.slot.size(), M = twin.slots(), d_v = heads[0].slot[0].size();
      const std::string at = "layers/" + std::to_string(i) + "/";
      const auto field = [&](const char* name, size_t width, double tolerance, auto expected) {
        const auto values = run->values(at + name);
        CHECK_EQ(values.size(), T * H * width);
        const double error =
            worst_of(values, [&](size_t n) { return double(expected(heads[n / width % H].steps[n / width / H], n % width)); });
        CHECK_CLOSE(error, 0, tolerance);
        most = std::max(most, error);
      };
      using Step = RamNetTwin::Step;
      field("route_index", K, 0, [](const Step& s, size_t k) { return s.write.slot[k]; });
      field("route_weight", K, 1e-12, [](const Step& s, size_t k) { return s.write.weight[k]; });
      field("write_strength", K, 1e-12, [](const Step& s, size_t k) { return s.strength[k]; });
      field("read_index", K, 0, [](const Step& s, size_t k) { return s.read.slot[k]; });
      field("read_route_weight", K, 1e-12, [](const Step& s, size_t k) { return s.read.weight[k]; });
      field("lost_mass_write", 1, 1e-12, [](const Step& s, size_t) { return s.write.lost; });
      field("lost_mass_read", 1, 1e-12, [](const Step& s, size_t) { return s.read.lost; });
      field("read_mass_written", 1, 1e-12, [](const Step& s, size_t) { return s.read_mass; });
      field("margin", 1, 1e-12, [](const Step& s, size_t) { return s.write.gap; });
      field("value", d_v, 1e-12, [](const Step& s, size_t n) { return s.value[n]; });
      field("read_out", d_v, 1e-12 * 10, [](const Step& s, size_t n) { return s.out[n]; });
      const bool gamma = c.tensors.contains("model.layers.0.attn.gamma_proj.weight");
      CHECK_EQ(run->has(at + "gamma"), gamma);
      if (gamma) field("gamma", 1, 1e-12, [](const Step& s, size_t) { return s.gamma; });
      // The gate of the slot's value: f = a w, -inf where nothing is left.
      const auto decay = run->values(at + "log_decay"), weight = run->values(at + "route_weight");
      CHECK_EQ(decay.size(), weight.size());
      double keep = 0;
      for (size_t n = 0; n < decay.size(); ++n) {
        const double expected = heads[n / K % H].steps[n / K / H].keep[n % K];
        keep = std::max(keep, std::abs(std::exp(decay[n] * weight[n]) - expected));
        CHECK(!std::isnan(decay[n]) && decay[n] <= 0);
      }
      CHECK_CLOSE(keep, 0, 1e-12);
      // Read weights over all slots, states at two tokens.
      const auto read = run->values(at + "read_weight");
      CHECK_EQ(run->values(at + "read_token"), std::vector<double>({0, 5, 6, 39}));
      CHECK_EQ(read.size(), 4 * H * M);
      const std::vector<size_t> asked = {0, 5, 6, 39};
      const double reads = worst_of(read, [&](size_t n) {
        const Step& s = heads[n / M % H].steps[asked[n / M / H]];
        for (size_t k = 0; k < K; ++k)
          if (s.read.slot[k] == n % M) return s.p[k];
        return 0.0;
      });
      CHECK_CLOSE(reads, 0, 1e-11);
      CHECK_EQ(run->values(at + "state_token"), std::vector<double>({10, 39}));
      const auto state = [&](size_t row, size_t h) -> const RamNetTwin::Head& { return (row ? twin : at_10).layers[i][h]; };
      const auto mass = run->values(at + "mass"), slot = run->values(at + "slot_value");
      CHECK_EQ(mass.size(), 2 * H * M);
      CHECK_EQ(slot.size(), 2 * H * M * d_v);
      CHECK_CLOSE(worst_of(mass, [&](size_t n) { return state(n / M / H, n / M % H).mass[n % M]; }), 0, 1e-12);
      const bool pdma = m.memory.value("update_rule", "") == "pdma";
      CHECK_CLOSE(worst_of(slot,
                           [&](size_t n) {
                             const auto& head = state(n / d_v / M / H, n / d_v / M % H);
                             const size_t s = n / d_v % M;
                             return head.slot[s][n % d_v] / (pdma ? head.mass[s] + m.memory.value("state_eps", 1e-6) : 1);
                           }),
                  0, 1e-11);
      // Counters: every write has a weight above 0 here.
      std::vector<double> count(H * M, 0);
      for (size_t h = 0; h < H; ++h)
        for (const Step& s : heads[h].steps)
          for (const size_t slot_written : s.write.slot) ++count[h * M + slot_written];
      CHECK_EQ(run->values(at + "esl"), count);
      CHECK_EQ(run->values(at + "selected"), count);
      CHECK_EQ(run->values(at + "ties"), std::vector<double>(H, 0));
      CHECK(run->sink.runs[0].datasets[size_t(run->sink.find(0, at + "route_index"))].type == trace::ElementType::u32);
      CHECK(run->sink.runs[0].datasets[size_t(run->sink.find(0, at + "read_index"))].type == trace::ElementType::u32);
    }
    t.note(m.name + ": worst " + sci(most));
  }
}

SLOTSCOPE_CASE(whole_is_segmented) {
  for (const Made& m : made_ramnet_models())
    for (const std::string dtype : {"float64", "float32"}) {
      const auto model = load(t, m.checkpoint(), dtype);
      double most = 0;
      for (const int64_t length : {1, 63, 64, 65, 129, 400}) {
        const auto ids = some_ids(length, 53, uint64_t(length));
        engine::RunOptions whole = capture("logits,mass,slot_value", 4096);
        const auto expected = run_ids(*model, ids, whole);
        const auto logits = expected->values("output/logits");
        const double tolerance = dtype == "float64" ? 1e-9 : 1e-5 * std::max(1.0, largest(logits));
        for (const int64_t segment : {64, 7, 1}) {
          if (segment >= length) continue;
          whole.segment = segment;
          const auto run = run_ids(*model, ids, whole);
          const double error = worst(logits, run->values("output/logits"));
          CHECK_CLOSE(error, 0, tolerance);
          CHECK_CLOSE(worst(expected->values("layers/1/mass"), run->values("layers/1/mass")), 0, tolerance);
          CHECK_CLOSE(worst(expected->values("layers/1/slot_value"), run->values("layers/1/slot_value")), 0, tolerance);
          most = std::max(most, error);
        }
      }
      t.note(m.name + " " + dtype + ": worst logit error " + sci(most));
    }
}

// Greedy generation is the twin's own likeliest token, fed back.
SLOTSCOPE_CASE(generates) {
  for (const Made& m : made_ramnet_models()) {
    const TinyCheckpoint c = m.checkpoint();
    const auto ids = some_ids(11, 53);
    RamNetTwin twin(c);
    twin.feed(ids);
    std::vector<int32_t> expected;
    for (int i = 0; i < 20; ++i) {
      expected.push_back(twin.likeliest());
      twin.feed(expected.back());
    }
    engine::RunOptions options = capture("addresses");
    options.generate = 20;
    const auto run = run_ids(*load(t, c, "float64"), ids, options);
    CHECK_EQ(run->outcome.runs[0].output_ids, expected);
    CHECK_EQ(run->values("layers/1/lost_mass_read").size(), size_t((11 + 19) * 4));
  }
}

// bfloat16 rounds projections; what is made of the logits, gamma and values that a run tells is computed in float32. The states
// of 50 tokens are replayed in double from them.
SLOTSCOPE_CASE(bfloat16_keeps_the_memory_in_float32) {
  const auto ids = some_ids(50, 53);
  for (const size_t i : {0, 2, 6, 8}) {
    const TinyCheckpoint c = made_ramnet_models()[i].checkpoint();
    const RamNetTwin twin(c);
    const auto run = run_ids(*load(t, c, "bfloat16"), ids, capture("*"));
    double weights = 0, outs = 0;
    for (size_t layer = 0; layer < 2; ++layer) {
      const std::string at = "layers/" + std::to_string(layer) + "/";
      const auto get = [&](const char* field) { return run->values(at + field); };
      const auto key = get("key"), query = get("query"), value = get("value"), out = get("read_out"), w = get("route_weight"),
                 r = get("read_route_weight"), slot = get("route_index"), read = get("read_index");
      const auto gamma = run->has(at + "gamma") ? get("gamma") : std::vector<double>();
      const size_t H = 4, K = w.size() / ids.size() / H, wide = key.size() / ids.size() / H, d_v = 6;
      for (size_t h = 0; h < H; ++h) {
        RamNetTwin::Head head = twin.empty();
        for (size_t now = 0; now < ids.size(); ++now) {
          const size_t row = now * H + h;
          RamNetTwin::Step step;
          step.write = twin.address(key.data() + row * wide, twin.cape(layer, h), now);
          step.read = twin.address(query.data() + row * wide, twin.cape(layer, h), now);
          for (size_t k = 0; k < K; ++k) {
            weights = std::max(
                {weights, std::abs(step.write.weight[k] - w[row * K + k]), std::abs(step.read.weight[k] - r[row * K + k])});
            step.write.slot[k] = size_t(slot[row * K + k]);
            step.read.slot[k] = size_t(read[row * K + k]);
          }
          if (!gamma.empty()) step.gamma = gamma[row];
          for (size_t n = 0; n < d_v; ++n) step.value.push_back(value[row * d_v + n]);
          twin.write(head, step);
          twin.read(head, step);
          for (size_t n = 0; n < d_v; ++n) {
            const double error = std::abs(step.out[n] - out[row * d_v + n]);
            if (!(error <= outs)) outs = error;
          }
        }
      }
    }
    CHECK_CLOSE(weights, 0, 1e-6);
    CHECK_CLOSE(outs, 0, 2e-5);
    t.note(made_ramnet_models()[i].name + ": weights " + sci(weights) + ", read_out " + sci(outs));
  }
}

// What each layer says of itself, and the memory table's row.
SLOTSCOPE_CASE(described) {
  const auto folder = t.temp();
  made_ramnet({{"teacher", {{"model", "a teacher"}, {"num_key_value_heads", 2}}}, {"top_k", 100}}).write(folder);
  const auto info = engine::inspect(*formats::Checkpoint::open(folder));
  CHECK_EQ(info.family, std::string("ramnet"));
  const engine::LayerInfo& layer = info.layers[0];
  CHECK_EQ(layer.route_kind, std::string("sparse"));
  CHECK_EQ(layer.slots, int64_t(27));
  CHECK_EQ(layer.top_k, int64_t(27));
  CHECK_EQ(layer.state_bytes, int64_t(4 * 4 * 27 * 7));
  CHECK_EQ(layer.note, std::string("3 factors of 3 codes, GSU, CAPE in 2 of 4 heads"));
  CHECK(info.card.router.find("top-27 of 3^3 slots") == 0);
  CHECK(std::any_of(info.notes.begin(), info.notes.end(), [](const std::string& n) {
    return n.find("top_k 100 is more than the 27 slots: nothing is left out") != std::string::npos;
  }));
  const auto row = [&](const std::string& key) {
    for (const auto& r : info.config)
      if (r.key == key) return r.value + " / " + r.source;
    return std::string();
  };
  CHECK_EQ(row("ramnet.order"), std::string("3 / config.json"));
  CHECK_EQ(row("slots"), std::string("27 / rule: codes_per_factor^order"));
  CHECK_EQ(row("ramnet.cape_heads"), std::string("3 of 8 heads / config.json"));
  CHECK_EQ(row("ramnet.update_rule"), std::string("gsu / default"));
  CHECK_EQ(row("ramnet.teacher"), std::string("{\"model\":\"a teacher\",\"num_key_value_heads\":2} / config.json"));
  int64_t parameters = 0;
  for (const auto& [name, tensor] : made_ramnet().tensors) parameters += int64_t(tensor.values.size());
  CHECK_EQ(info.parameters, parameters);
}

// FLA's names give the same numbers.
SLOTSCOPE_CASE(fla_names) {
  const auto ids = some_ids(20, 53);
  TinyCheckpoint c = made_ramnet();
  const auto expected = run_ids(*load(t, c, "float64"), ids, capture("logits"))->values("output/logits");
  c.rename("model.embed_tokens.weight", "model.embeddings.weight");
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    c.rename(layer + "input_layernorm.weight", layer + "attn_norm.weight");
    c.rename(layer + "post_attention_layernorm.weight", layer + "mlp_norm.weight");
    c.rename(layer + "attn.r_proj.weight", layer + "attn.q_proj.weight");
    c.rename(layer + "attn.w_proj.weight", layer + "attn.k_proj.weight");
  }
  const auto model = load(t, c, "float64");
  CHECK_EQ(run_ids(*model, ids, capture("logits"))->values("output/logits"), expected);
  CHECK(std::any_of(model->info().notes.begin(), model->info().notes.end(), [](const std::string& n) {
    return n.find("FLA names: embeddings.weight, attn_norm.weight, mlp_norm.weight, q_proj.weight, k_proj.weight") == 0;
  }));
}
