#include "core/formats/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

namespace {

std::string found_text(const json& value) {
  if (value.is_number_float()) return number_text(value.get<double>());
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

// A whole number, also when it is written 4.0; never true or false.
std::optional<int64_t> whole(const json& value) {
  if (value.is_number_unsigned()) {
    const auto n = value.get<uint64_t>();
    return n <= uint64_t(INT64_MAX) ? std::optional<int64_t>(int64_t(n)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double d = value.get<double>();
  return d == std::floor(d) && std::abs(d) < 9e15 ? std::optional<int64_t>(int64_t(d)) : std::nullopt;
}

std::string bool_text(bool b) { return b ? "true" : "false"; }

}  // namespace

Config::Config(json root, std::string file) : root_(std::move(root)), file_(std::move(file)) {
  if (!root_.is_object()) throw Error({file_, "", root_.type_name(), "a JSON object", ""});
}

Config::Config(const Checkpoint& checkpoint) {
  file_ = (checkpoint.folder() / "config.json").string();
  if (!checkpoint.config())
    throw Error({file_, "", "no readable config.json in this folder", "the model's config.json",
                 "The files can be listed, but not run; download config.json beside the weights."});
  root_ = *checkpoint.config();
}

bool Config::has(std::string_view key) const { return root_.contains(key); }

const json* Config::value(std::string_view key) const {
  const auto at = root_.find(key);
  return at == root_.end() || at->is_null() ? nullptr : &*at;
}

void Config::refuse(std::string_view key, const json& found, std::string expected) const {
  throw Error({file_, std::string(key), found_text(found), std::move(expected), ""});
}

void Config::set_row(std::string_view key, std::string value, std::string source) {
  for (ConfigRow& row : rows)
    if (row.key == key) {
      row = {std::string(key), std::move(value), std::move(source)};
      return;
    }
  rows.push_back({std::string(key), std::move(value), std::move(source)});
}

std::optional<int64_t> Config::get_optional_int(std::string_view key, std::optional<int64_t> fallback,
                                                int64_t least, int64_t most) {
  const auto at = root_.find(key);
  if (at == root_.end()) {
    if (fallback) set_row(key, std::to_string(*fallback), "default");
    return fallback;
  }
  if (at->is_null()) return std::nullopt;
  const auto n = whole(*at);
  if (!n || *n < least || *n > most)
    refuse(key, *at, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  set_row(key, std::to_string(*n), "config.json");
  return n;
}

int64_t Config::get_int(std::string_view key, int64_t fallback, int64_t least, int64_t most) {
  if (const auto n = get_optional_int(key, fallback, least, most)) return *n;
  set_row(key, std::to_string(fallback), "default (null in config.json)");
  return fallback;
}

double Config::get_double(std::string_view key, double fallback) {
  const json* v = value(key);
  if (v && !v->is_number()) refuse(key, *v, "a number");
  const double d = v ? v->get<double>() : fallback;
  if (v && !std::isfinite(d)) refuse(key, *v, "a finite number");
  set_row(key, number_text(d), v ? "config.json" : has(key) ? "default (null in config.json)" : "default");
  return d;
}

double Config::get_positive(std::string_view key, double fallback) {
  const double d = get_double(key, fallback);
  if (!(d > 0)) refuse(key, *value(key), "a number above 0");
  return d;
}

bool Config::get_bool(std::string_view key, bool fallback) {
  const json* v = value(key);
  if (v && !v->is_boolean()) refuse(key, *v, "true or false");
  const bool b = v ? v->get<bool>() : fallback;
  set_row(key, bool_text(b), v ? "config.json" : has(key) ? "default (null in config.json)" : "default");
  return b;
}

std::string Config::get_string(std::string_view key, std::string fallback) {
  const json* v = value(key);
  if (v && !v->is_string()) refuse(key, *v, "a text");
  std::string s = v ? v->get<std::string>() : std::move(fallback);
  set_row(key, s, v ? "config.json" : has(key) ? "default (null in config.json)" : "default");
  return s;
}

std::string Config::get_choice(std::string_view key, std::string fallback,
                               std::initializer_list<std::string_view> choices) {
  std::string s = get_string(key, std::move(fallback));
  if (std::find(choices.begin(), choices.end(), s) == choices.end()) {
    std::string list;
    for (const auto choice : choices) list += (list.empty() ? "" : " or ") + std::string(choice);
    throw Error({file_, std::string(key), "\"" + printable(s, 40) + "\" is not supported", list, ""});
  }
  return s;
}

double Config::get_misspelt(std::string_view key, std::string_view misspelt, double fallback,
                            bool misspelt_counts) {
  const bool right = value(key) != nullptr, wrong = value(misspelt) != nullptr;
  if (right || !wrong) {
    const double d = get_positive(key, fallback);
    if (right && wrong && !(value(misspelt)->is_number() && value(misspelt)->get<double>() == d))
      note(std::string(misspelt) + " " + found_text(*value(misspelt)) + " is overridden by " +
           std::string(key) + " " + number_text(d));
    return d;
  }
  const json& v = *value(misspelt);
  if (!v.is_number() || !std::isfinite(v.get<double>()) || !(v.get<double>() > 0))
    refuse(misspelt, v, "a number above 0");
  if (!misspelt_counts) {
    if (v.get<double>() != fallback)
      warn(std::string(misspelt) + " " + found_text(v) + " has no effect in this code base (it reads " +
           std::string(key) + "); " + number_text(fallback) + " counts");
    set_row(key, number_text(fallback), "default");
    return fallback;
  }
  note("the misspelt key " + std::string(misspelt) + " gives " + std::string(key) + " = " + found_text(v));
  set_row(key, number_text(v.get<double>()), std::string(misspelt));
  return v.get<double>();
}

std::string Config::get_dtype() {
  const json *now = value("dtype"), *old = value("torch_dtype");
  for (const auto& [key, v] : {std::pair{"dtype", now}, std::pair{"torch_dtype", old}})
    if (v && !v->is_string()) refuse(key, *v, "a text such as \"bfloat16\"");
  if (now && old && *now != *old)
    warn("dtype " + found_text(*now) + " and torch_dtype " + found_text(*old) + " differ: dtype counts");
  const json* chosen = now ? now : old;
  std::string text = chosen ? chosen->get<std::string>() : "";
  if (text.starts_with("torch.")) text = text.substr(6);
  set_row("dtype", text.empty() ? "not given" : text, now ? "dtype" : old ? "torch_dtype" : "default");
  return text;
}

RopeSettings Config::get_rope(double fallback_theta, const char* theta_key) {
  RopeSettings rope;
  const json *parameters = value("rope_parameters"), *scaling = value("rope_scaling"), *top = value(theta_key);
  for (const auto& [key, v] : {std::pair{"rope_parameters", parameters}, std::pair{"rope_scaling", scaling}})
    if (v && !v->is_object()) refuse(key, *v, "an object or null");
  const auto number = [&](const json& v, const std::string& key) {
    if (!v.is_number() || !std::isfinite(v.get<double>()) || !(v.get<double>() > 0))
      refuse(key, v, "a number above 0");
    return v.get<double>();
  };
  const json* inner =
      parameters && parameters->contains("rope_theta") && !(*parameters)["rope_theta"].is_null()
          ? &(*parameters)["rope_theta"]
          : nullptr;
  rope.theta = inner ? number(*inner, "rope_parameters.rope_theta")
               : top ? number(*top, theta_key)
                     : fallback_theta;
  rope.theta_source = inner ? "rope_parameters.rope_theta" : top ? theta_key : "default";
  if (inner && top && number(*top, theta_key) != rope.theta)
    warn(std::string(theta_key) + " " + found_text(*top) + " and rope_parameters.rope_theta " + found_text(*inner) +
         " differ: rope_parameters counts");
  for (const auto& [key, v] :
       {std::pair{"rope_scaling", scaling}, std::pair{"rope_parameters", parameters}}) {
    if (!v) continue;
    const std::string where = key;
    for (const char* type_key : {"type", "rope_type"}) {  // the newer spelling is read last and wins
      if (!v->contains(type_key)) continue;
      const json& type = (*v)[type_key];
      if (!type.is_string()) refuse(where + "." + type_key, type, "a text");
      rope.type = type.get<std::string>();
      rope.type_source = key;
    }
    for (const auto& [name, field] :
         {std::pair{"factor", &rope.given_factor}, std::pair{"low_freq_factor", &rope.low_freq_factor},
          std::pair{"high_freq_factor", &rope.high_freq_factor}, std::pair{"partial_rotary_factor", &rope.partial},
          std::pair{"original_max_position_embeddings", &rope.original_positions}})
      if (v->contains(name) && !(*v)[name].is_null()) *field = number((*v)[name], where + "." + name);
    // Newer files of other families have one object per kind of layer in place of the settings themselves.
    for (const char* kind : {"full_attention", "sliding_attention"})
      if (v->contains(kind)) refuse(where + "." + kind, (*v)[kind], "one RoPE for all layers");
  }
  rope.factor = rope.given_factor.value_or(1);
  set_row("rope_theta", number_text(rope.theta),
          rope.theta_source == "rope_theta" ? "config.json" : rope.theta_source);
  if (!rope.type_source.empty()) set_row("rope_type", rope.type, rope.type_source);
  return rope;
}

bool Config::get_tied(bool class_default) {
  constexpr auto key = "tie_word_embeddings";
  const json* text_config = value("text_config");
  const json* nested = nullptr;
  if (text_config && text_config->is_object() && text_config->contains(key) &&
      !(*text_config)[key].is_null()) {
    nested = &(*text_config)[key];
    if (!nested->is_boolean()) refuse(std::string("text_config.") + key, *nested, "true or false");
  }
  if (value(key) || !nested) {
    const bool tied = get_bool(key, class_default);
    if (nested && nested->get<bool>() != tied)
      warn(std::string(key) + " is " + bool_text(tied) + " but " + found_text(*nested) +
           " in text_config: the top level counts");
    return tied;
  }
  set_row(key, bool_text(nested->get<bool>()), "text_config");
  note(std::string(key) + " is read from text_config");
  return nested->get<bool>();
}

int64_t Config::get_head_dim(int64_t hidden, int64_t heads) {
  if (const auto given = get_optional_int("head_dim", std::nullopt)) return *given;
  if (hidden % heads)
    throw Error(
        {file_, "head_dim",
         "hidden size " + std::to_string(hidden) + " is no multiple of " + std::to_string(heads) + " heads",
         "a head_dim in the config, or a hidden size that the heads divide", ""});
  set_row("head_dim", std::to_string(hidden / heads), "rule: hidden / heads");
  return hidden / heads;
}

AttentionConfig Config::hybrid_entry(const json& entry, const std::string& where, int64_t hidden,
                                     bool read_use_rope) {
  const auto get = [&](const char* key) -> const json* {
    const auto at = entry.find(key);
    return at == entry.end() || at->is_null() ? nullptr : &*at;
  };
  const auto count = [&](const char* key) -> std::optional<int64_t> {
    const json* v = get(key);
    if (!v) return std::nullopt;
    const auto n = whole(*v);
    if (!n || *n < 1) refuse(where + "." + key, *v, "a whole number from 1");
    return n;
  };
  const auto flag = [&](const char* key, bool fallback) {
    const json* v = get(key);
    if (v && !v->is_boolean()) refuse(where + "." + key, *v, "true or false");
    return v ? v->get<bool>() : fallback;
  };
  AttentionConfig attention;
  const auto heads = count("num_heads");
  if (!heads) throw Error({file_, where + ".num_heads", "missing", "the number of attention heads", ""});
  attention.heads = *heads;
  attention.kv_heads = count("num_kv_heads").value_or(attention.heads);
  if (attention.heads % attention.kv_heads)
    throw Error({file_, where + ".num_kv_heads", std::to_string(attention.kv_heads),
                 "a divisor of num_heads " + std::to_string(attention.heads), ""});
  if (hidden % attention.heads)  // d = D / H always (model-zoo 1.6)
    throw Error({file_, where + ".num_heads", std::to_string(attention.heads),
                 "a divisor of hidden_size " + std::to_string(hidden), ""});
  attention.head_dim = hidden / attention.heads;
  attention.window = count("window_size").value_or(0);
  attention.qkv_bias = flag("qkv_bias", false);
  if (const json* theta = get("rope_theta")) {
    if (!theta->is_number() || !std::isfinite(theta->get<double>()) || !(theta->get<double>() > 0))
      refuse(where + ".rope_theta", *theta, "a number above 0");
    attention.rope_theta = theta->get<double>();
  }
  const bool wants_rope = flag("use_rope", true);
  attention.use_rope = read_use_rope ? wants_rope : true;
  if (!read_use_rope && !wants_rope)
    warn(where +
         ".use_rope false is ignored by the fla code base, which always applies RoPE in attention layers; "
         "choose "
         "flavour goombalab if the model was trained without it");
  static const std::set<std::string> known = {"layers",      "num_heads",  "num_kv_heads", "qkv_bias",
                                              "window_size", "rope_theta", "use_rope"};
  for (const auto& [key, v] : entry.items())
    if (!known.contains(key)) note(where + "." + printable(key) + " is not read by the model");
  return attention;
}

std::vector<std::optional<AttentionConfig>> Config::get_hybrid(int64_t hidden, int64_t layers,
                                                               bool read_use_rope) {
  std::vector<std::optional<AttentionConfig>> mixers{size_t(layers)};
  const json* attn = value("attn");
  if (!attn) {
    set_row("attn", "null", has("attn") ? "config.json" : "default");
    return mixers;
  }
  if (!attn->is_object() && !attn->is_array()) refuse("attn", *attn, "null, an object or a list of objects");
  std::vector<std::string> taken(size_t(layers), std::string{});
  const size_t entries = attn->is_array() ? attn->size() : 1;
  std::string listed;
  for (size_t i = 0; i < entries; ++i) {
    const json& entry = attn->is_array() ? (*attn)[i] : *attn;
    const std::string where = attn->is_array() ? "attn[" + std::to_string(i) + "]" : "attn";
    if (!entry.is_object()) refuse(where, entry, "an object with layers and num_heads");
    if (!entry.contains("layers") || entry["layers"].is_null())
      throw Error({file_, where + ".layers", "missing", "a list of layer numbers", ""});
    const json& list = entry["layers"];
    if (!list.is_array()) refuse(where + ".layers", list, "a list of layer numbers");
    const AttentionConfig attention = hybrid_entry(entry, where, hidden, read_use_rope);
    for (size_t j = 0; j < list.size(); ++j) {
      const std::string place = where + ".layers[" + std::to_string(j) + "]";
      const auto n = whole(list[j]);
      if (!n || *n < 0 || *n >= layers)
        refuse(place, list[j], "a layer from 0 to " + std::to_string(layers - 1));
      std::string& owner = taken[size_t(*n)];
      if (!owner.empty())
        throw Error({file_, place, "layer " + std::to_string(*n) + " is listed already at " + owner,
                     "each layer once", ""});
      owner = place;
      mixers[size_t(*n)] = attention;
      listed += (listed.empty() ? "" : ", ") + std::to_string(*n);
    }
    if (list.empty()) note(where + ".layers is empty: it makes no attention layer");
  }
  set_row("attn", listed.empty() ? "no layers" : "attention in layers " + listed, "config.json");
  return mixers;
}

int64_t gated_mlp_width(int64_t hidden, double ratio) {
  const auto raw = int64_t(double(hidden) * ratio * 2 / 3);
  return 256 * ((raw + 255) / 256);
}

std::string require_model_type(const Config& config, const std::vector<std::string>& known) {
  std::string list;
  for (const auto& type : known) list += (list.empty() ? "" : ", ") + type;
  const json* type = config.value("model_type");
  if (!type || !type->is_string() ||
      std::find(known.begin(), known.end(), type->get<std::string>()) == known.end())
    throw Error({config.file(), "model_type", type ? found_text(*type) + " is not known" : "missing",
                 "one of: " + list, "Its tensors can be listed, but the model cannot be run."});
  return type->get<std::string>();
}

}  // namespace slotscope::formats
