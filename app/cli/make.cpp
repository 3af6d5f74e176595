#include "app/cli/make.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <optional>

#include "app/cli/run_options.h"
#include "core/engine/new_model.h"
#include "core/formats/byte_tokenizer.h"
#include "core/formats/json.h"
#include "core/formats/presets.h"
#include "core/formats/tokenizer.h"

namespace slotscope::cli {
namespace {

namespace fs = std::filesystem;
using formats::DType;

constexpr uint64_t kMostConfigBytes = uint64_t(64) << 20;

[[noreturn]] void usage(std::string item, std::string found, std::string expected, std::string advice = "") {
  throw Error({.item = std::move(item), .found = std::move(found), .expected = std::move(expected), .advice = std::move(advice)},
              Error::Kind::usage);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

DType dtype_of(const std::string& name) {
  for (const auto& [text, dtype] : {std::pair{"bfloat16", DType::bf16}, {"float32", DType::f32}, {"float16", DType::f16}, {"float64", DType::f64}})
    if (name == text) return dtype;
  usage("--dtype", "'" + name + "'", "bfloat16, float32, float16 or float64");
}

const formats::Preset* preset_of(const std::string& name) {
  if (name.empty()) return nullptr;
  std::vector<std::string> known;
  for (const formats::Preset& preset : formats::presets()) {
    if (name == preset.name) return &preset;
    known.push_back(preset.name);
  }
  usage("--preset", "'" + name + "'", joined(known));
}

Json config_file(fs::path path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) path /= "config.json";
  const auto root = formats::parse_json(formats::read_text_file(path, kMostConfigBytes), {.file = path.string()});
  if (!root.is_object()) throw Error({.file = path.string(), .found = root.type_name(), .expected = "a JSON object"});
  Json config = Json::object();
  for (const auto& [key, value] : root.items()) config[key] = value;
  return config;
}

// "ramnet.order=5": JSON where the value is some, else a text.
void set_key(Json& config, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string path = text.substr(0, equals);
  if (equals == std::string::npos || path.empty() || path.front() == '.' || path.back() == '.' || path.find("..") != std::string::npos)
    usage("--set", "'" + printable(text) + "'", "KEY=VALUE or KEY.KEY=VALUE", "Such as --set hidden_size=512 or --set ramnet.top_k=4");
  const std::string value = text.substr(equals + 1);
  if (!valid_utf8(text)) usage("--set", "'" + printable(text) + "'", "UTF-8");
  Json* at = &config;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    Json& next = (*at)[path.substr(begin, dot - begin)];
    if (next.is_null()) next = Json::object();
    if (!next.is_object()) usage("--set", "'" + printable(path) + "'", "a key of an object: " + path.substr(0, dot) + " is " + next.type_name());
    at = &next;
    begin = dot + 1;
  }
  try {
    (*at)[path.substr(begin)] = formats::parse_json(value, {.file = "--set"});
  } catch (const Error&) {
    if (!value.empty() && (value[0] == '[' || value[0] == '{' || value[0] == '"')) usage("--set", "'" + printable(text) + "'", "JSON behind '='");
    (*at)[path.substr(begin)] = value;
  }
}

int64_t count_in(const Json& config, const char* key, int64_t fallback, int64_t most) {
  const auto at = config.find(key);
  if (at == config.end() || !at->is_number_integer()) return fallback;
  const double value = at->get<double>();
  return value >= 1 && value <= double(most) ? at->get<int64_t>() : fallback;
}

// A RAM-Net without a choice of its own gets the paper's pattern for the number of layers and heads that it has.
void fill_ramnet(Json& config, const MakeSettings& s) {
  if (config.value("model_type", Json()) != "ramnet") return;
  if (!config.contains("ramnet")) config["ramnet"] = {{"order", 5}, {"codes_per_factor", 4}, {"top_k", 8}};
  if (!config["ramnet"].is_object()) return;  // the family says what is wrong
  bool chosen = !s.config.empty() && config["ramnet"].contains("cape_heads");
  for (const std::string& text : s.set) chosen |= text.starts_with("ramnet.cape_heads=") || text.starts_with("ramnet=");
  if (chosen) return;
  const int64_t layers = count_in(config, "num_hidden_layers", 24, 1 << 14), heads = count_in(config, "num_attention_heads", 16, 1 << 12);
  const bool tiny = s.preset == "ramnet-tiny";
  config["ramnet"]["cape_heads"] = formats::cape_pattern(layers, heads, tiny ? 1 : 4, tiny ? 2 : 4);
}

Json config_of(const MakeSettings& s) {
  const formats::Preset* preset = preset_of(s.preset);
  if (preset && !s.config.empty()) usage("--preset", "given with --config", "one of the two");
  Json config = preset ? preset->config : !s.config.empty() ? config_file(s.config) : Json::object();
  if (!s.model_type.empty()) config["model_type"] = s.model_type;
  for (const std::string& text : s.set) set_key(config, text);
  if (!config.contains("model_type") && !(config.contains("d_model") && config.contains("n_layer")))
    usage("--model-type", "not given", "one of " + joined(engine::model_types()), "Or begin with --preset or --config");
  fill_ramnet(config, s);
  if (config.contains("dtype")) config["dtype"] = s.dtype;
  if (config.contains("torch_dtype") || !config.contains("dtype")) config["torch_dtype"] = s.dtype;
  return config;
}

struct TokenizerFiles {
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<fs::path> copies;
  std::string kind = "none";
};

// The tokenizer, and what it means for config.json: rows of the vocabulary, ids of <bos> and <eos>.
TokenizerFiles tokenizer_of(const MakeSettings& s, Json& config) {
  TokenizerFiles files;
  const bool given = config.contains("vocab_size") && !config["vocab_size"].is_null();
  if (s.no_tokenizer) {
    if (!s.tokenizer.empty()) usage("--no-tokenizer", "given with --tokenizer", "one of the two");
    return files;
  }
  int64_t rows = formats::kByteTokenizerRows, needed = formats::kByteTokenizerEos + 1;
  if (s.tokenizer.empty()) {
    files.texts.emplace_back("tokenizer.json", formats::byte_tokenizer_json());
    files.kind = "one token per byte, <bos> and <eos>";
    if (!config.contains("bos_token_id")) config["bos_token_id"] = formats::kByteTokenizerBos;
    if (!config.contains("eos_token_id")) config["eos_token_id"] = formats::kByteTokenizerEos;
  } else {
    const auto tokenizer = formats::Tokenizer::load(s.tokenizer);
    if (!tokenizer)
      throw Error({.file = s.tokenizer, .item = "--tokenizer", .found = "no tokenizer files", .expected = "a folder with tokenizer.json, "
                   "tokenizer.model, or vocab.json and merges.txt"});
    for (const std::string& name : formats::tokenizer_file_names())
      if (std::error_code ignored; fs::is_regular_file(fs::path(s.tokenizer) / name, ignored)) files.copies.push_back(fs::path(s.tokenizer) / name);
    files.kind = tokenizer->kind();
    rows = needed = tokenizer->size();
    std::error_code ignored;
    if (const fs::path path = fs::path(s.tokenizer) / "config.json"; fs::is_regular_file(path, ignored)) {
      const Json beside = config_file(path);
      for (const char* key : {"bos_token_id", "eos_token_id"})
        if (!config.contains(key) && beside.contains(key)) config[key] = beside[key];
    }
  }
  if (!given) config["vocab_size"] = rows;
  const Json& size = config["vocab_size"];
  if (size.is_number_integer() && size.get<double>() >= 1 && size.get<double>() < double(needed))
    usage("vocab_size", std::to_string(size.get<int64_t>()) + " rows for a tokenizer of " + std::to_string(needed),
          "at least " + std::to_string(needed), "Set a larger vocab_size, choose --tokenizer FOLDER, or write none: --no-tokenizer");
  return files;
}

Json initial_json(const formats::Initial& initial) {
  if (initial.kind == formats::Initial::Kind::normal) return {{"kind", "normal"}, {"mean", initial.a}, {"deviation", initial.b}};
  return {{"kind", "uniform"}, {"from", initial.a}, {"to", initial.b}};
}

std::string initial_text(const formats::Initial& initial) {
  if (initial.kind == formats::Initial::Kind::normal) return "normal " + number_text(initial.a) + " +- " + number_text(initial.b);
  return "uniform " + number_text(initial.a) + " to " + number_text(initial.b);
}

void report(const MakeSettings& s, const engine::NewModel& model, const std::string& tokenizer,
            const std::optional<std::vector<std::string>>& files, const Console& console) {
  const engine::ModelInfo& info = model.info;
  const bool written = files.has_value();
  if (console.json) {
    Json tensors = Json::array();
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      const auto& t = model.tensors[i];
      tensors.push_back({{"name", t.name}, {"dtype", formats::dtype_name(model.dtypes[i])}, {"shape", t.shape}, {"values", initial_json(formats::initial_of(model.random, t))}});
    }
    Json document = {{"folder", s.folder},        {"written", written},          {"model_type", info.model_type},
                     {"parameters", info.parameters}, {"bytes", model.bytes},          {"dtype", s.dtype},
                     {"seed", s.seed},            {"tokenizer", tokenizer},      {"tensor_digest", info.tensor_digest},
                     {"files", written ? Json(*files) : Json::array()},          {"config", Json::parse(info.config_json)}};
    if (!written) document["tensors"] = tensors;
    return console.out_json(document);
  }
  std::string text = (written ? "written: " : "would be written: ") + printable(s.folder) + ": " + info.model_type + ", " +
                     count_text(info.parameters) + " parameters in " + std::to_string(info.layers.size()) + " layers, " +
                     count_text(int64_t(model.tensors.size())) + " tensors, " + bytes_text(int64_t(model.bytes)) + " in " + s.dtype + ", seed " +
                     std::to_string(s.seed) + ", tokenizer: " + tokenizer + "\n";
  if (!written) {
    Table table({"tensor", "dtype", "shape", "values"});
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      const auto& t = model.tensors[i];
      table.row({printable(t.name), std::string(formats::dtype_name(model.dtypes[i])), shape_text(t.shape),
                 initial_text(formats::initial_of(model.random, t))});
    }
    text += table.text();
  }
  console.out(text);
}

}  // namespace

void add_make_options(CLI::App& app, MakeSettings& s) {
  app.add_option("FOLDER", s.folder, "The checkpoint folder to write. One that exists is refused unless --force")->required();
  std::string presets;
  for (const formats::Preset& preset : formats::presets()) presets += (presets.empty() ? "" : "|") + std::string(preset.name);
  const char* model = "Model (begin with a preset, a config or a model type)";
  app.add_option("--preset", s.preset, "A known shape, below")->group(model)->option_text(presets);
  app.add_option("--config", s.config, "A config.json, or a folder that has one")->group(model)->option_text("FILE");
  app.add_option("--model-type", s.model_type, "The family: any that `slotscope-cli run` runs")->group(model)->option_text("TYPE");
  app.add_option("--set", s.set, "A key of config.json, as often as needed; keys inside objects with dots: ramnet.top_k=4")
      ->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->group(model)->option_text("KEY=VALUE");
  app.add_option("--flavour", s.flavour, "Of which reference code (default: detected from the config)")->group(model)->option_text("fla|goombalab|nope");
  const char* weights = "Weights";
  app.add_option("--seed", s.seed, "Another seed gives other weights; the same one the same bytes (default 0)")
      ->check(whole_number(0, UINT64_MAX))->group(weights)->option_text("N");
  app.add_option("--dtype", s.dtype, "Of the tensors (default bfloat16); A_log and dt_bias have 32 bits at least")->group(weights)->option_text("bfloat16|float32|float16|float64");
  app.add_option("--shard-size", s.shard_gb, "Largest weight file, in GB of 10^9 bytes (default 5)")
      ->check(real_number(0.0001, 1e6))->group(weights)->option_text("GB");
  const char* tokenizer = "Tokenizer";
  app.add_option("--tokenizer", s.tokenizer, "Copy the tokenizer of this folder (default: one token per byte, <bos> and <eos>)")
      ->group(tokenizer)->option_text("FOLDER");
  app.add_flag("--no-tokenizer", s.no_tokenizer, "Write none: prompts as token ids only")->group(tokenizer);
  app.add_flag("--force", s.force, "Replace FOLDER, if it holds nothing but the files of a checkpoint")->group("Output");
  app.add_flag("--dry-run", s.dry_run, "List the tensors that would be written, and end")->group("Output");
}

int run_make(const MakeSettings& s, const Console& console) {
  const DType dtype = dtype_of(s.dtype);
  Json config = config_of(s);
  TokenizerFiles tokenizer = tokenizer_of(s, config);
  const engine::NewModel model = engine::plan_model(config.dump(2) + "\n", s.folder, s.flavour, dtype);
  for (const std::string& warning : model.info.warnings) console.warning(warning);
  if (s.dry_run) {
    report(s, model, tokenizer.kind, std::nullopt, console);
    return kExitOk;
  }
  Progress& progress = cancel_on_signal();
  formats::WrittenCheckpoint written;
  try {
    const ProgressLine line(progress, console);
    written = engine::write_random_model(s.folder, model, s.seed, std::move(tokenizer.texts), std::move(tokenizer.copies),
                                         {.shard_bytes = uint64_t(s.shard_gb * 1e9), .force = s.force}, progress);
  } catch (const Error&) {
    if (!progress.cancel_requested()) throw;
    console.info("cancelled: nothing was written");
    if (console.json) console.out_json({{"status", "cancelled"}});
    return kExitCancelled;
  }
  report(s, model, tokenizer.kind, written.files, console);
  return kExitOk;
}

}  // namespace slotscope::cli
