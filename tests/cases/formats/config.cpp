// config.json: effective values with their source, renames, odd numbers, odd hybrid settings (bad-inputs B05,
// B23, B24, B26 to B28; Infinity and NaN as Python writes them).
#include "core/formats/config.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/formats/json.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

Config make(json root) { return Config(std::move(root), "folder/config.json"); }

std::string row(const Config& config, const std::string& key) {
  for (const auto& r : config.rows)
    if (r.key == key) return r.value + " from " + r.source;
  return "no row";
}

json parse(std::string_view text) { return parse_json(text, {.file = "x.json", .nonfinite = true}); }

}  // namespace

SLOTSCOPE_CASE(values_and_sources) {
  Config config = make({{"a", 3}, {"b", 4.0}, {"c", nullptr}, {"d", true}, {"e", "text"}, {"f", 1e-6}});
  CHECK_EQ(config.get_int("a", 1), 3);
  CHECK_EQ(config.get_int("b", 1), 4);
  CHECK_EQ(config.get_int("c", 7), 7);
  CHECK_EQ(config.get_int("z", 8), 8);
  CHECK_EQ(row(config, "a"), std::string("3 from config.json"));
  CHECK_EQ(row(config, "c"), std::string("7 from default (null in config.json)"));
  CHECK_EQ(row(config, "z"), std::string("8 from default"));
  CHECK(config.get_bool("d", false) && config.get_bool("y", true));
  CHECK_EQ(config.get_string("e", ""), std::string("text"));
  CHECK_EQ(config.get_double("f", 0), 1e-6);
  CHECK_EQ(row(config, "f"), std::string("1e-06 from config.json"));
  CHECK(!config.get_optional_int("c", 5).has_value());
  CHECK_EQ(config.get_optional_int("x", 5).value_or(0), 5);
  CHECK_ERROR(config.get_int("d", 1), "folder/config.json", "d", "true", "whole number");
  CHECK_ERROR(config.get_int("e", 1), "e", "\"text\"");
  CHECK_ERROR(config.get_int("f", 1), "f", "1e-06");
  CHECK_ERROR(config.get_int("a", 1, 4), "a", "3", "from 4");
  CHECK_ERROR(config.get_bool("a", true), "a", "true or false");
  CHECK_ERROR(config.get_double("e", 1), "e", "a number");
  CHECK_ERROR(config.get_string("a", ""), "a", "a text");
  CHECK_ERROR(config.get_choice("e", "x", {"x", "y"}), "e", "text", "x or y");
  CHECK_ERROR(make({{"n", uint64_t(18446744073709551615ull)}}).get_int("n", 1), "n", "18446744073709551615");
  CHECK_ERROR(make(json::array()), "config.json", "array", "object");
  CHECK_ERROR(make({{"x", std::numeric_limits<double>::infinity()}}).get_double("x", 0), "x", "Infinity",
              "finite");
}

// Infinity, NaN and numbers beyond a double, outside strings only.
SLOTSCOPE_CASE(nonfinite_numbers) {
  const json root = parse(
      R"({"a": [Infinity, -Infinity, NaN, 1e9999, -1e9999, 1e-9999], "Infinity": "NaN \" Infinity", "t": ["", "x"]})");
  CHECK_EQ(root["a"][0].get<double>(), std::numeric_limits<double>::infinity());
  CHECK_EQ(root["a"][1].get<double>(), -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(root["a"][2].get<double>()));
  CHECK_EQ(root["a"][3].get<double>(), std::numeric_limits<double>::infinity());
  CHECK_EQ(root["a"][4].get<double>(), -std::numeric_limits<double>::infinity());
  CHECK_EQ(root["a"][5].get<double>(), 0.0);
  CHECK_EQ(root["Infinity"].get<std::string>(), std::string("NaN \" Infinity"));
  CHECK(root["t"][0].is_string() && root["t"][0] == "");
  CHECK_ERROR(parse("{\"a\": Infinit}"), "x.json", "not valid JSON at byte 6");
  CHECK_ERROR(parse("{\"a\": xNaN}"), "not valid JSON at byte 6");
  CHECK_ERROR(parse_json("[Infinity]", {.file = "x.json"}), "not valid JSON at byte 1");
  CHECK_ERROR(parse_json("[1e9999]", {.file = "x.json"}), "x.json", "not valid JSON");
  CHECK_EQ(parse("18446744073709551616").get<double>(), 18446744073709551616.0);
  CHECK(parse("9007199254740993") == int64_t(9007199254740993));
}

SLOTSCOPE_CASE(broken_json) {
  CHECK_ERROR(parse(""), "x.json", "byte 0");
  CHECK_ERROR(parse("{\"a\": 1,}"), "byte 8");
  CHECK_ERROR(parse("{} {}"), "byte 3");
  CHECK_ERROR(parse("{\"a\": \"\xff\"}"), "invalid UTF-8 at byte 7 (0xff)");
  CHECK_ERROR(parse(R"({"\ud800": 1})"), "not valid JSON", "surrogate");
  CHECK_EQ(parse(R"("\ud83d\ude00")").get<std::string>(), std::string("😀"));
  CHECK_ERROR(parse(std::string(1'000'000, '[')), "nested deeper than 100");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  CHECK_ERROR(parse(deep), "nested deeper than 100");
  CHECK_EQ(parse(std::string(100, '[') + std::string(100, ']')).size(), size_t(1));
  // B05: refused, or told and the last value counts.
  CHECK_ERROR(parse(R"({"a": {"b": 1, "b": 2}})"), "key 'a.b' appears twice");
  std::vector<std::string> duplicates;
  const json last = parse_json(R"({"a": {"b": 1, "c": 0, "b": [2, {"d": 3}]}, "a2": 1})",
                               {.file = "x", .refuse_duplicates = false}, &duplicates);
  CHECK_EQ(last.dump(), std::string(R"({"a":{"b":[2,{"d":3}],"c":0},"a2":1})"));
  CHECK_EQ(duplicates, std::vector<std::string>{"key 'a.b' appears twice"});
}

// A repeated key in config.json warns and its last value counts, as in Python.
SLOTSCOPE_CASE(repeated_key_in_config) {
  const auto folder = t.temp();
  write_file(folder / "model.safetensors", zeros_file({{"w", {1}}}));
  write_file(folder / "config.json",
             R"({"model_type": "a", "dt_limit": [0.0, Infinity], "model_type": "b"})");
  const auto checkpoint = Checkpoint::open(folder);
  CHECK_EQ((*checkpoint->config())["model_type"].get<std::string>(), std::string("b"));
  CHECK(std::isinf((*checkpoint->config())["dt_limit"][1].get<double>()));
  CHECK_EQ(checkpoint->warnings(),
           std::vector<std::string>{"config.json: key 'model_type' appears twice; its last value counts"});
  CHECK(checkpoint->config_text().find("Infinity") != std::string::npos);
  write_file(folder / "config.json", "{\"a\": ");
  CHECK_ERROR(Checkpoint::open(folder), "config.json", "not valid JSON");
  const auto file = Checkpoint::open(folder / "model.safetensors");  // the file itself is good
  CHECK(file->config() == nullptr && file->warnings().size() == 1);
  write_file(folder / "config.json", "[1]");
  CHECK_ERROR(Checkpoint::open(folder), "config.json", "array");
  std::filesystem::remove(folder / "config.json");
  CHECK(Checkpoint::open(folder)->config() == nullptr);
}

// B24: dtype and RoPE renames.
SLOTSCOPE_CASE(renames) {
  const auto dtype = [](json root) {
    Config config = make(std::move(root));
    const std::string value = config.get_dtype();
    return value + "|" + row(config, "dtype") + "|" + std::to_string(config.warnings.size());
  };
  CHECK_EQ(dtype({{"torch_dtype", "float16"}}), std::string("float16|float16 from torch_dtype|0"));
  CHECK_EQ(dtype({{"dtype", "bfloat16"}}), std::string("bfloat16|bfloat16 from dtype|0"));
  CHECK_EQ(dtype({{"dtype", "bfloat16"}, {"torch_dtype", "float16"}}),
           std::string("bfloat16|bfloat16 from dtype|1"));
  CHECK_EQ(dtype({{"dtype", "bfloat16"}, {"torch_dtype", "bfloat16"}}),
           std::string("bfloat16|bfloat16 from dtype|0"));
  CHECK_EQ(dtype(json::object()), std::string("|not given from default|0"));
  CHECK_EQ(dtype({{"dtype", nullptr}, {"torch_dtype", "torch.float32"}}),
           std::string("float32|float32 from torch_dtype|0"));

  const auto rope = [](json root) {
    Config config = make(std::move(root));
    const RopeSettings r = config.get_rope(10000);
    return number_text(r.theta) + " " + r.theta_source + " " + r.type + " " + number_text(r.factor) + " " +
           std::to_string(config.warnings.size());
  };
  CHECK_EQ(rope(json::object()), std::string("10000 default default 1 0"));
  CHECK_EQ(rope({{"rope_theta", 500000}}), std::string("5e+05 rope_theta default 1 0"));
  CHECK_EQ(rope({{"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}}}),
           std::string("5e+05 rope_parameters.rope_theta default 1 0"));
  CHECK_EQ(rope({{"rope_theta", 1e6}, {"rope_parameters", {{"rope_theta", 5e5}}}}),
           std::string("5e+05 rope_parameters.rope_theta default 1 1"));
  CHECK_EQ(rope({{"rope_theta", 5e5}, {"rope_parameters", {{"rope_theta", 5e5}}}}),
           std::string("5e+05 rope_parameters.rope_theta default 1 0"));
  CHECK_EQ(rope({{"rope_scaling", nullptr}}), std::string("10000 default default 1 0"));
  CHECK_EQ(rope({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}),
           std::string("10000 default linear 2 0"));
  CHECK_EQ(rope({{"rope_parameters", {{"rope_type", "foo"}}}}), std::string("10000 default foo 1 0"));
  CHECK_ERROR(rope({{"rope_theta", "x"}}), "rope_theta", "\"x\"");
  CHECK_ERROR(rope({{"rope_theta", 0}}), "rope_theta", "above 0");
  CHECK_ERROR(rope({{"rope_scaling", "linear"}}), "rope_scaling", "linear");
}

// B26: an explicit head_dim counts; otherwise the heads must divide the width.
SLOTSCOPE_CASE(head_dim) {
  CHECK_EQ(make({{"head_dim", 128}}).get_head_dim(2560, 32), 128);
  CHECK_EQ(make({{"head_dim", 256}}).get_head_dim(2048, 6), 256);
  CHECK_EQ(make({{"head_dim", 128}}).get_head_dim(1792, 24), 128);
  CHECK_EQ(make(json::object()).get_head_dim(2560, 32), 80);
  CHECK_EQ(make({{"head_dim", nullptr}}).get_head_dim(2560, 32), 80);
  CHECK_ERROR(make(json::object()).get_head_dim(1792, 24), "head_dim", "1792", "24");
}

// B27: the tie flag at the top level, nested, in conflict.
SLOTSCOPE_CASE(tie_flag) {
  CHECK(make({{"tie_word_embeddings", true}}).get_tied(false));
  CHECK(make({{"text_config", {{"tie_word_embeddings", true}}}}).get_tied(false));
  CHECK(!make(json::object()).get_tied(false));
  CHECK(make(json::object()).get_tied(true));
  Config conflict = make({{"tie_word_embeddings", false}, {"text_config", {{"tie_word_embeddings", true}}}});
  CHECK(!conflict.get_tied(true));
  CHECK_EQ(conflict.warnings.size(), size_t(1));
  CHECK_ERROR(make({{"tie_word_embeddings", 1}}).get_tied(false), "tie_word_embeddings", "1",
              "true or false");
  CHECK_ERROR(make({{"text_config", {{"tie_word_embeddings", "yes"}}}}).get_tied(false),
              "text_config.tie_word_embeddings", "yes");
}

// B28, model-zoo 1.10: hybrid settings; bad lists are refused by index.
SLOTSCOPE_CASE(hybrid_settings) {
  const auto read = [](json attn, int64_t layers = 24) {
    return make({{"attn", std::move(attn)}}).get_hybrid(2048, layers, true);
  };
  const auto none = read(nullptr);
  CHECK_EQ(none.size(), size_t(24));
  for (const auto& layer : none) CHECK(!layer.has_value());
  const auto dict = read({{"layers", {5, 11}}, {"num_heads", 16}});
  CHECK(dict[5] && dict[11] && !dict[6]);
  CHECK_EQ(dict[11]->kv_heads, 16);
  CHECK_EQ(dict[11]->head_dim, 128);
  CHECK_EQ(dict[11]->window, 0);
  CHECK_EQ(dict[11]->rope_theta, 10000.0);
  CHECK(dict[11]->use_rope && !dict[11]->qkv_bias);
  const auto list = read({{{"layers", {1}}, {"num_heads", 8}, {"window_size", 64}},
                          {{"layers", {2}}, {"num_heads", 4}, {"use_rope", false}}});
  CHECK(list[1]->window == 64 && list[1]->heads == 8 && !list[2]->use_rope && list[2]->heads == 4);
  CHECK_EQ(read({{"layers", {0}}, {"num_heads", 4}, {"window_size", nullptr}, {"num_kv_heads", nullptr}})[0]
               ->kv_heads,
           4);
  CHECK_ERROR(read({{"layers", {24}}, {"num_heads", 16}}), "attn.layers[0]", "24", "0 to 23");
  CHECK_ERROR(read({{"layers", {5, 5}}, {"num_heads", 16}}), "attn.layers[1]", "layer 5", "attn.layers[0]");
  CHECK_ERROR(read({{"layers", {true}}, {"num_heads", 16}}), "attn.layers[0]", "true");
  CHECK_ERROR(read({{"layers", {-1}}, {"num_heads", 16}}), "attn.layers[0]", "-1");
  CHECK_ERROR(read({{"layers", {1.5}}, {"num_heads", 16}}), "attn.layers[0]", "1.5");
  CHECK_ERROR(read({{"num_heads", 16}}), "attn.layers", "missing");
  CHECK_ERROR(read({{"layers", 5}, {"num_heads", 16}}), "attn.layers", "5", "list");
  CHECK_ERROR(read({{"layers", {5}}}), "attn.num_heads", "missing");
  CHECK_ERROR(read({{"layers", {5}}, {"num_heads", 7}}), "attn.num_heads", "7",
              "divisor of hidden_size 2048");
  CHECK_ERROR(read({{"layers", {5}}, {"num_heads", 16}, {"num_kv_heads", 3}}), "attn.num_kv_heads", "3");
  CHECK_ERROR(read({{"layers", {5}}, {"num_heads", 16}, {"window_size", 0}}), "attn.window_size", "0");
  CHECK_ERROR(
      read(json::array({{{"layers", {1}}, {"num_heads", 8}}, {{"layers", {2, 1}}, {"num_heads", 8}}})),
      "attn[1].layers[1]", "layer 1", "attn[0].layers[0]");
  CHECK_ERROR(read(json::array({5})), "attn[0]", "5");
  CHECK_ERROR(read("all"), "attn", "all");
  CHECK_ERROR(require_model_type(make({{"model_type", "mystery"}}), {"raven", "gsa"}), "model_type",
              "mystery", "raven, gsa");
  CHECK_ERROR(require_model_type(make(json::object()), {"raven"}), "model_type", "missing");
}
