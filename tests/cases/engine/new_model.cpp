// Models that nobody trained: of every family that runs, from the config alone; open, run, generate; the same bytes for one seed.
#include "core/engine/new_model.h"

#include <cmath>
#include <set>

#include "core/formats/byte_tokenizer.h"
#include "core/formats/prompt.h"
#include "core/formats/presets.h"
#include "tests/cases/cli_checks.h"
#include "tests/cases/engine/helpers.h"

namespace slotscope::testing {
namespace {

using formats::DType;

// Small sizes of every family; what a family does not know it leaves out of account.
json small_config(const std::string& type) {
  json c = {{"model_type", type},  {"hidden_size", 64},      {"num_hidden_layers", 3},      {"num_heads", 4},
            {"vocab_size", 260},   {"intermediate_size", 96}, {"num_attention_heads", 4},   {"bos_token_id", 256},
            {"eos_token_id", 257}, {"hidden_act", "silu"}};
  if (type == "raven") c.update({{"num_slots", 16}, {"topk", 4}, {"use_output_gate", true}, {"use_rope", false}});
  if (type == "gsa" || type == "abc") c["num_slots"] = 8;
  if (type == "gated_deltanet" || type == "kda" || type == "mom") c["head_dim"] = 16;
  if (type == "mamba2") c.update({{"head_dim", 16}, {"num_heads", 8}, {"state_size", 8}});
  if (type == "mamba") c.update({{"intermediate_size", 128}, {"state_size", 8}});
  if (type == "llama" || type == "mistral" || type == "qwen2") c["num_key_value_heads"] = 2;
  if (type == "gpt_neox") c["hidden_act"] = "gelu";
  if (type == "ramnet")
    c["ramnet"] = {{"order", 3}, {"codes_per_factor", 4}, {"top_k", 4}, {"cape_heads", {{0, 1, 2, 3}, {0, 2}, json::array()}}};
  return c;
}

fs::path made(const fs::path& folder, const json& config, DType dtype = DType::bf16, uint64_t seed = 0,
              const formats::CheckpointWriteOptions& options = {}) {
  Progress progress;
  const auto model = engine::plan_model(config.dump(), folder, "", dtype);
  engine::write_random_model(folder, model, seed, dtype == DType::bf16 ? std::vector<std::pair<std::string, std::string>>{{"tokenizer.json", formats::byte_tokenizer_json()}}
                                                                       : std::vector<std::pair<std::string, std::string>>{},
                             {}, options, progress);
  return folder;
}

}  // namespace

SLOTSCOPE_CASE(every_family_opens_runs_and_generates) {
  CHECK(engine::model_types().size() >= 19);
  const fs::path base = t.temp();
  for (const std::string& type : engine::model_types()) {
    const fs::path folder = base / type;
    const json config = small_config(type);
    const auto plan = engine::plan_model(config.dump(), folder, "", DType::bf16);
    made(folder, config);
    const auto checkpoint = formats::Checkpoint::open(folder);
    const auto info = engine::inspect(*checkpoint);
    CHECK_EQ(info.model_type, type);
    CHECK_EQ(info.tensor_digest, plan.info.tensor_digest);
    CHECK_EQ(info.parameters, plan.info.parameters);
    CHECK_EQ(checkpoint->total_bytes(), plan.bytes);
    CHECK(info.warnings.empty());
    for (const auto& warning : info.warnings) t.note(type + ": " + warning);
    // A pass of 200 tokens: finite, not the same everywhere, and another one for another seed.
    auto model = load_model(folder);
    const auto ids = some_ids(200, 258, 5);
    const auto run = run_ids(*model, ids, capture("logits,hidden"));
    const auto logits = run->values("output/logits");
    CHECK_EQ(logits.size(), size_t(200 * 260));
    double sum = 0, square = 0;
    std::set<int64_t> best;
    for (int64_t row = 0; row < 200; ++row) {
      const auto begin = logits.begin() + row * 260;
      best.insert(std::max_element(begin, begin + 260) - begin);
    }
    for (const double v : logits) sum += v, square += v * v;
    const double mean = sum / double(logits.size()), deviation = std::sqrt(square / double(logits.size()) - mean * mean);
    if (!(deviation > 0.3 && deviation < 5)) t.fail(type + ": logits deviate by " + sci(deviation), __FILE__, __LINE__);
    if (best.size() < 10) t.fail(type + ": only " + std::to_string(best.size()) + " tokens are ever the best", __FILE__, __LINE__);
    for (const char* layer : {"layers/0/hidden", "layers/2/hidden"}) {
      const auto hidden = run->values(layer);
      double size = 0;
      for (const double v : hidden) size += v * v / double(hidden.size());
      if (!(size > 0.1 && size < 100)) t.fail(type + ": " + layer + " has mean square " + sci(size), __FILE__, __LINE__);
    }
    CHECK(run->outcome.warnings.empty());
    // Text, the password task and its generation.
    const auto tokenizer = formats::Tokenizer::load(folder);
    formats::PasskeyOptions task;
    task.length = 128;
    const auto prompt = formats::make_passkey(*tokenizer, task);
    engine::RunOptions options;
    const auto generated = run_prompts(*model, {prompt}, options, tokenizer.get());
    CHECK(generated->outcome.runs.at(0).output_ids.size() > 0);
    CHECK(generated->outcome.runs.at(0).exact.has_value());
  }
}

// RAM-Net in every form of its memory; what config.json asks for is there.
SLOTSCOPE_CASE(ramnet_in_all_its_forms) {
  const fs::path base = t.temp();
  int number = 0;
  for (const json& options : {json{{"update_rule", "pdma"}, {"pdma_gamma", 0.5}}, json{{"readout", "mass_aware"}}, json{{"cumulative", true}},
                              json{{"output_gate", false}, {"log_scale", false}}, json{{"output_norm", true}, {"renormalize_topk", true}},
                              json{{"slot_order", "factor0_most_significant"}, {"cape_direction", -1}}, json{{"top_k", 1000}}}) {
    json config = small_config("ramnet");
    config["ramnet"].update(options);
    if (number % 2) config["attention_bias"] = config["tie_word_embeddings"] = true;
    const fs::path folder = made(base / std::to_string(number), config);
    const auto checkpoint = formats::Checkpoint::open(folder);
    const auto& set = config["ramnet"];
    const auto stored = [&](const char* name) { return checkpoint->find(std::string("model.layers.1.attn.") + name) != nullptr; };
    CHECK_EQ(stored("g_proj.weight"), set.value("output_gate", true));
    CHECK_EQ(stored("g_proj.bias"), set.value("output_gate", true));
    CHECK_EQ(stored("r_log_scale"), set.value("log_scale", true));
    CHECK_EQ(stored("o_norm.weight"), set.value("output_norm", false));
    CHECK_EQ(stored("gamma_proj.weight"), set.value("update_rule", "gsu") == "gsu" && !set.value("cumulative", false));
    CHECK_EQ(stored("r_proj.bias"), number % 2 == 1);
    CHECK_EQ(checkpoint->find("lm_head.weight") != nullptr, number % 2 == 0);
    CHECK(engine::inspect(*checkpoint).warnings.empty());
    const auto run = run_ids(*load_model(folder), some_ids(150, 258, 6), capture("logits"));
    for (const double v : run->values("output/logits"))
      if (!std::isfinite(v)) return t.fail(options.dump() + ": not finite", __FILE__, __LINE__);
    ++number;
  }
}

SLOTSCOPE_CASE(raven_and_hybrids_in_other_forms) {
  const fs::path base = t.temp();
  int number = 0;
  for (const json& options :
       {json{{"decay_type", "GLA"}, {"bias_rmm", true}}, json{{"router_type", "mlp"}, {"use_output_gate", false}}, json{{"feature_map", "t2r"}, {"use_rope", true}},
        json{{"num_kv_heads", 2}, {"attnres_block_size", nullptr}}, json{{"num_slots", nullptr}, {"topk", 2}}, json{{"expand_v", 2}},
        json{{"attn", {{"layers", {1}}, {"num_heads", 2}, {"qkv_bias", true}, {"window_size", 32}}}}}) {
    json config = small_config("raven");
    config.update(options);
    const fs::path folder = made(base / std::to_string(number++), config);
    const auto run = run_ids(*load_model(folder), some_ids(100, 258, 7), capture("logits"));
    for (const double v : run->values("output/logits"))
      if (!std::isfinite(v)) return t.fail(options.dump() + ": not finite", __FILE__, __LINE__);
  }
}

SLOTSCOPE_CASE(one_seed_one_model) {
  const fs::path base = t.temp();
  const json config = small_config("raven");
  const auto weights = [&](const char* name, uint64_t seed, const formats::CheckpointWriteOptions& options, DType dtype = DType::bf16) {
    return file_bytes(made(base / name, config, dtype, seed, options) / "model.safetensors");
  };
  const std::string first = weights("a", 7, {.threads = 1});
  CHECK(first == weights("b", 7, {.threads = 5}));
  CHECK(first != weights("c", 8, {}));
  CHECK(file_bytes(base / "a" / "config.json") == file_bytes(base / "b" / "config.json"));
  // In another dtype the values are the same, rounded; in shards the same tensors.
  made(base / "wide", config, DType::f64, 7);
  made(base / "shards", config, DType::bf16, 7, {.shard_bytes = 50'000});
  const auto narrow = formats::Checkpoint::open(base / "a"), wide = formats::Checkpoint::open(base / "wide"),
             shards = formats::Checkpoint::open(base / "shards");
  CHECK(shards->files().size() > 3);
  for (const auto& tensor : narrow->tensors()) {
    uint64_t count = 1;
    for (const int64_t n : tensor.shape) count *= uint64_t(n);
    const auto a = formats::read_values(*narrow, tensor, 0, count), b = formats::read_values(*wide, *wide->find(tensor.name), 0, count),
               c = formats::read_values(*shards, *shards->find(tensor.name), 0, count);
    CHECK(a == c);
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double error = std::abs(a[i] - b[i]);
      if (!(error <= std::abs(b[i]) / 256)) worst = std::max(worst, error);
    }
    CHECK_CLOSE(worst, 0, 0);
    const bool decay = tensor.name.ends_with("A_log") || tensor.name.ends_with("dt_bias");
    CHECK(tensor.dtype == (decay ? DType::f32 : DType::bf16));
  }
  // Another seed, the same shapes: other numbers.
  const auto x = run_ids(*load_model(base / "a"), some_ids(20, 258), capture("logits"))->values("output/logits"),
             y = run_ids(*load_model(base / "c"), some_ids(20, 258), capture("logits"))->values("output/logits");
  CHECK(worst(x, y) > 0.1);
}

// The shapes of the papers, counted without writing them.
SLOTSCOPE_CASE(presets_have_the_papers_sizes) {
  const auto count = [](json config) { return engine::plan_model(config.dump(), "/new", "", DType::bf16).info; };
  for (const auto& preset : formats::presets()) {
    const auto info = count(preset.config);
    if (std::string(preset.name) == "ramnet-340m") {
      CHECK_EQ(info.layers.size(), size_t(27));
      CHECK(info.layers[0].slots == 1024 && info.layers[0].top_k == 8 && info.layers[0].heads == 16 && info.layers[0].d_v == 64);
      json pdma = preset.config;  // the memory of the first paper, which says 340.8 million
      pdma["ramnet"]["update_rule"] = "pdma";
      CHECK_CLOSE(double(count(pdma).parameters) / 1e6, 340.8, 0.1);
    }
    if (std::string(preset.name) == "raven-424m") {
      CHECK_CLOSE(double(info.parameters) / 1e6, 424, 0.5);
      CHECK(info.layers[0].slots == 256 && info.layers[0].top_k == 32 && info.layers[0].d_k == 256 && info.layers.size() == 24);
    }
  }
}

SLOTSCOPE_CASE(configs_that_cannot_be) {
  const auto plan = [](const json& changes, const char* type = "ramnet") {
    json config = small_config(type);
    config.merge_patch(changes);
    return engine::plan_model(config.dump(), "/new/model", "", DType::bf16);
  };
  CHECK_ERROR(plan({{"ramnet", {{"codes_per_factor", 1}}}}), "/new/model/config.json", "ramnet.codes_per_factor", "one code");
  CHECK_ERROR(plan({{"ramnet", {{"order", 24}}}}), "4^24", "at most");
  CHECK_ERROR(plan({{"ramnet", {{"top_k", 0}}}}), "ramnet.top_k");
  CHECK_ERROR(plan({{"ramnet", {{"zork", 1}}}}), "ramnet.zork");
  CHECK_ERROR(plan({{"num_attention_heads", 5}, {"ramnet", {{"cape_heads", nullptr}}}}), "head_dim", "5 heads");
  CHECK_ERROR(plan({{"hidden_size", -4}}, "raven"), "hidden_size");
  CHECK_ERROR(plan({{"hidden_size", "wide"}}, "raven"), "hidden_size");
  CHECK_ERROR(plan({{"topk", 99}}, "raven"), "topk");
  CHECK_ERROR(plan({{"quantization_config", {{"quant_method", "gptq"}}}}, "llama"), "gptq");
  CHECK_ERROR(plan({{"model_type", "zork"}}), "zork", "ramnet");
  CHECK_ERROR(plan({{"num_memories", 4096}, {"num_hidden_layers", 16384}}, "mom"), "more than 1,000,000");  // of 268 million
  CHECK_ERROR(engine::plan_model("{}", "/new/model", "", DType::bf16), "model_type");
  CHECK_ERROR(engine::plan_model("[]", "/new/model", "", DType::bf16), "a JSON object");
  CHECK_ERROR(engine::plan_model(small_config("raven").dump(), "/new/model", "zork", DType::bf16), "flavour", "zork");
}

}  // namespace slotscope::testing
