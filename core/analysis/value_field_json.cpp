#include "core/analysis/value_field_json.h"

#include <cmath>
#include <algorithm>
#include <charconv>
#include <type_traits>

#include "core/error.h"
#include "core/formats/json.h"

namespace slotscope::analysis {

namespace {

using Json = nlohmann::ordered_json;
using Read = nlohmann::json;
constexpr size_t kMostText = size_t(16) << 20;

template <class Value>
struct Name {
  const char* name;
  Value value;
};
constexpr Name<FieldSpace> spaces[] = {{"torus", FieldSpace::torus}, {"plane", FieldSpace::plane}};
constexpr Name<FieldKind> kinds[] = {{"full-attention", FieldKind::full_attention}, {"quantised", FieldKind::quantised},
                                     {"linear-elu", FieldKind::linear_elu}, {"linear-features", FieldKind::linear_features},
                                     {"ramnet", FieldKind::ramnet}};
constexpr Name<FieldQuantiser> quantisers[] = {{"none", FieldQuantiser::none}, {"circular", FieldQuantiser::circular},
                                               {"k-means", FieldQuantiser::kmeans}};
constexpr Name<FieldOrder> orders[] = {{"given", FieldOrder::given}, {"reversed", FieldOrder::reversed}, {"shuffled", FieldOrder::shuffled}};

template <class Value, size_t N>
const char* name_of(const Name<Value> (&names)[N], Value value) {
  for (const auto& n : names)
    if (n.value == value) return n.name;
  return names[0].name;
}

Json number(double v) {
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}

Json panel_json(const FieldPanel& p) {
  const FieldPanel plain;
  Json j = {{"kind", name_of(kinds, p.kind)}};
  const auto put = [&](const char* name, const auto& value, const auto& usual, const Json& text) {
    if (!(value == usual)) j[name] = text;
  };
  put("name", p.name, plain.name, p.name);
  j["codes"] = p.codes, j["top_k"] = p.top_k;
  put("beta_read", p.beta_read, plain.beta_read, number(p.beta_read));
  put("beta_write", p.beta_write, plain.beta_write, number(p.beta_write));
  put("mass_aware", p.mass_aware, plain.mass_aware, p.mass_aware);
  put("divide", p.divide, plain.divide, p.divide);
  put("cumulative", p.cumulative, plain.cumulative, p.cumulative);
  put("gamma", p.gamma, plain.gamma, number(p.gamma));
  put("order", p.order, plain.order, name_of(orders, p.order));
  put("eps", p.eps, plain.eps, p.eps);
  put("quantiser", p.quantiser, plain.quantiser, name_of(quantisers, p.quantiser));
  put("value_bits", p.value_bits, plain.value_bits, p.value_bits);
  put("features", p.features, plain.features, p.features);
  put("seed", p.seed, plain.seed, std::to_string(p.seed));  // a double does not hold every uint64
  return j;
}

// Reads the members of one object; finish() refuses names that nobody asked for.
class Members {
 public:
  Members(const Read& json, std::string where, const std::string& source) : json_(json), where_(std::move(where)), source_(source) {
    if (!json.is_object()) fail("", json.type_name(), "an object");
  }

  void get(const char* name, double& v) { if (const Read* j = find(name)) v = number(*j, name); }
  void get(const char* name, bool& v) {
    if (const Read* j = find(name)) v = j->is_boolean() ? j->get<bool>() : (fail(name, j->dump(), "true or false"), false);
  }
  void get(const char* name, std::string& v, size_t most = 200) {
    if (const Read* j = find(name)) v = j->is_string() ? j->get<std::string>() : (fail(name, j->dump(), "a text"), "");
    if (v.size() > most) fail(name, std::to_string(v.size()) + " bytes", "at most " + std::to_string(most));
  }
  void get(const char* name, int& v) {
    int64_t wide = v;
    get(name, wide);
    if (wide < INT32_MIN || wide > INT32_MAX) fail(name, std::to_string(wide), "a smaller number");
    v = int(wide);
  }
  void get(const char* name, int64_t& v) {
    const Read* j = find(name);
    if (!j) return;
    if (!j->is_number_integer() || (j->is_number_unsigned() && j->get<uint64_t>() > uint64_t(INT64_MAX))) fail(name, j->dump(), "a whole number");
    v = j->get<int64_t>();
  }
  void get(const char* name, uint64_t& v) {  // as text, or a number that is not negative
    const Read* j = find(name);
    if (!j) return;
    if (j->is_number_unsigned()) {
      v = j->get<uint64_t>();
      return;
    }
    const std::string text = j->is_string() ? j->get<std::string>() : "";
    if (text.empty() || text.size() > 20 || text.find_first_not_of("0123456789") != std::string::npos) fail(name, j->dump(), "a whole number");
    try {
      v = std::stoull(text);
    } catch (const std::out_of_range&) {
      fail(name, text, "at most 18446744073709551615");
    }
  }
  template <class Value, size_t N>
  void get(const char* name, Value& v, const Name<Value> (&names)[N]) {
    const Read* j = find(name);
    if (!j) return;
    std::string known;
    for (const auto& n : names) {
      if (j->is_string() && j->get<std::string>() == n.name) {
        v = n.value;
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(n.name);
    }
    fail(name, j->dump(), "one of " + known);
  }
  // At most `most` numbers, at least `least`.
  std::vector<double> numbers(const char* name, std::vector<double> usual, size_t least, size_t most) {
    const Read* j = find(name);
    if (!j) return usual;
    if (!j->is_array() || j->size() < least || j->size() > most)
      fail(name, j->is_array() ? std::to_string(j->size()) + " elements" : j->dump(),
           least == most ? std::to_string(most) + " numbers" : std::to_string(least) + " to " + std::to_string(most) + " numbers");
    std::vector<double> values;
    for (const Read& v : *j) values.push_back(number(v, name));
    return values;
  }
  const Read* list(const char* name, size_t most) {
    const Read* j = find(name);
    if (j && (!j->is_array() || j->size() > most)) fail(name, j->is_array() ? std::to_string(j->size()) + " elements" : j->dump(), "a list of at most " + std::to_string(most));
    return j;
  }
  void finish() {
    for (const auto& [name, value] : json_.items())
      if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) {
        std::string known;
        for (const auto& a : asked_) known += (known.empty() ? "" : ", ") + a;
        fail(name, "not known", "one of " + known);
      }
  }
  [[noreturn]] void fail(const std::string& name, std::string found, std::string expected) const {
    if (found.size() > 80) found = found.substr(0, 80) + "...";
    throw Error({.file = source_, .item = where_ + (name.empty() || where_.empty() ? "" : ".") + name, .found = std::move(found), .expected = std::move(expected)},
                Error::Kind::usage);
  }

 private:
  const Read* find(const char* name) {
    asked_.push_back(name);
    const auto at = json_.find(name);
    return at == json_.end() ? nullptr : &*at;
  }
  double number(const Read& j, const char* name) const {
    if (j.is_number()) return j.get<double>();
    if (j == "inf") return std::numeric_limits<double>::infinity();
    if (j == "-inf") return -std::numeric_limits<double>::infinity();
    fail(name, j.dump(-1, ' ', false, Read::error_handler_t::replace), "a number, \"inf\" or \"-inf\"");
  }

  const Read& json_;
  std::string where_;
  const std::string& source_;
  std::vector<std::string> asked_;
};

FieldPanel read_panel(const Read& json, const std::string& where, const std::string& source) {
  FieldPanel p;
  Members m(json, where, source);
  m.get("kind", p.kind, kinds);
  m.get("name", p.name);
  m.get("codes", p.codes), m.get("top_k", p.top_k);
  m.get("beta_read", p.beta_read), m.get("beta_write", p.beta_write);
  m.get("mass_aware", p.mass_aware), m.get("divide", p.divide), m.get("cumulative", p.cumulative);
  m.get("gamma", p.gamma), m.get("order", p.order, orders), m.get("eps", p.eps);
  m.get("quantiser", p.quantiser, quantisers), m.get("value_bits", p.value_bits);
  m.get("features", p.features), m.get("seed", p.seed);
  m.finish();
  return p;
}

FieldKey read_key(const Read& json, const std::string& where, const std::string& source, int channels) {
  FieldKey key;
  Members m(json, where, source);
  const auto at = m.numbers("at", {0, 0}, 2, 2), radius = m.numbers("radius", {1, 1}, 2, 2);
  const auto value = m.numbers("value", std::vector<double>(size_t(channels)), size_t(channels), size_t(channels));
  m.finish();
  key.x = at[0], key.y = at[1], key.radius = {radius[0], radius[1]};
  std::copy(value.begin(), value.end(), key.value.begin());
  return key;
}

}  // namespace

std::string field_settings_json(const FieldSettings& s) {
  Json j = {{"space", name_of(spaces, s.space)}, {"tau", s.tau}, {"grid", s.grid}, {"channels", s.channels}};
  if (s.extent != FieldSettings().extent) j["extent"] = s.extent;
  if (s.query_radius != FieldSettings().query_radius) j["query_radius"] = s.query_radius;
  j["keys"] = Json::array();
  for (const FieldKey& key : s.keys) {
    Json k = {{"at", {key.x, key.y}}, {"value", std::vector<double>(key.value.begin(), key.value.begin() + s.channels)}};
    if (key.radius != FieldKey().radius) k["radius"] = key.radius;
    j["keys"].push_back(std::move(k));
  }
  if (!s.queries.empty()) j["queries"] = s.queries;
  if (!s.origin.empty()) j["origin"] = s.origin;
  j["rows"] = Json::array();
  for (const double row : s.rows) j["rows"].push_back(number(row));
  j["columns"] = Json::array();
  for (const FieldPanel& p : s.columns) j["columns"].push_back(panel_json(p));
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

FieldSettings parse_field_settings(std::string_view text, const std::string& source) {
  if (text.size() > kMostText)
    throw Error({.file = source, .item = "settings", .found = std::to_string(text.size()) + " bytes", .expected = "at most " + std::to_string(kMostText)},
                Error::Kind::usage);
  const Read json = formats::parse_json(text, {.file = source});
  FieldSettings s;
  Members m(json, "", source);
  m.get("space", s.space, spaces);
  m.get("tau", s.tau), m.get("grid", s.grid), m.get("channels", s.channels), m.get("extent", s.extent);
  if (s.channels != 1 && s.channels != 3) m.fail("channels", std::to_string(s.channels), "1 or 3");
  const auto radius = m.numbers("query_radius", {1, 1}, 2, 2);
  s.query_radius = {radius[0], radius[1]};
  s.rows = m.numbers("rows", s.rows, 1, size_t(kMostFieldPanels));
  if (const Read* keys = m.list("keys", size_t(kMostFieldKeys)))
    for (size_t i = 0; i < keys->size(); ++i) s.keys.push_back(read_key((*keys)[i], "keys[" + std::to_string(i) + "]", source, s.channels));
  if (const Read* columns = m.list("columns", size_t(kMostFieldPanels)))
    for (size_t i = 0; i < columns->size(); ++i) s.columns.push_back(read_panel((*columns)[i], "columns[" + std::to_string(i) + "]", source));
  if (const Read* queries = m.list("queries", size_t(kMostFieldQueries)))
    for (const Read& q : *queries) {
      if (!q.is_array() || q.size() != 2 || !q[0].is_number() || !q[1].is_number()) m.fail("queries", q.dump(-1, ' ', false, Read::error_handler_t::replace), "pairs of numbers");
      s.queries.push_back({q[0].get<double>(), q[1].get<double>()});
    }
  m.get("origin", s.origin, 4000);
  m.finish();
  if (const std::string problem = field_problem(s); !problem.empty())
    throw Error({.file = source, .item = "value field", .found = problem}, Error::Kind::usage);
  return s;
}

namespace {

// "gamma=-2" -> the number; refuses anything behind it.
template <class Number>
Number number_of(std::string_view word, const char* expected) {
  const std::string_view text = word.substr(word.find('=') + 1);
  Number v{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  bool good = error == std::errc() && end == text.data() + text.size() && !text.empty();
  if constexpr (std::is_floating_point_v<Number>) good = good && !std::isnan(v);
  if (!good) throw Error({.item = "--panel", .found = "'" + std::string(word) + "'", .expected = expected}, Error::Kind::usage);
  return v;
}

[[noreturn]] void refuse_word(std::string_view word, const std::string& expected) {
  throw Error({.item = "--panel", .found = "'" + std::string(word) + "'", .expected = expected}, Error::Kind::usage);
}

// One setting of a RAM-Net panel; false: not one.
bool ramnet_word(std::string_view word, FieldPanel& p, bool& all) {
  const std::string_view name = word.substr(0, word.find('='));
  if (word == "mass-aware") p.mass_aware = true;
  else if (word == "divide") p.divide = true;
  else if (name == "d") p.codes = number_of<int>(word, "d=4");
  else if (name == "K") p.top_k = number_of<int64_t>(word, "K=16"), all = false;
  else if (name == "gamma") p.gamma = number_of<double>(word, "gamma=-2"), p.cumulative = false;
  else if (name == "beta-read") p.beta_read = number_of<double>(word, "beta-read=1.5, in units of beta*");
  else if (name == "beta-write") p.beta_write = number_of<double>(word, "beta-write=1.5, in units of beta*, or inf");
  else if (name == "eps") p.eps = number_of<double>(word, "eps=1e-6");
  else if (name == "seed") p.seed = number_of<uint64_t>(word, "seed=1");
  else if (name == "order") {
    for (const auto& order : orders)
      if (word.substr(6) == order.name) return p.order = order.value, true;
    refuse_word(word, "order=given, order=reversed or order=shuffled");
  } else return false;
  return true;
}

bool quantised_word(std::string_view word, FieldPanel& p) {
  const std::string_view name = word.substr(0, word.find('='));
  if (name == "d") p.codes = number_of<int>(word, "d=8"), p.quantiser = FieldQuantiser::circular;
  else if (name == "k-means") p.codes = number_of<int>(word, "k-means=16"), p.quantiser = FieldQuantiser::kmeans;
  else if (name == "bits") p.value_bits = number_of<int>(word, "bits=4");
  else if (name == "seed") p.seed = number_of<uint64_t>(word, "seed=1");
  else return false;
  return true;
}

bool linear_word(std::string_view word, FieldPanel& p) {
  const std::string_view name = word.substr(0, word.find('='));
  if (word == "elu") p.kind = FieldKind::linear_elu;
  else if (name == "features") p.features = number_of<int>(word, "features=64"), p.kind = FieldKind::linear_features;
  else if (name == "seed") p.seed = number_of<uint64_t>(word, "seed=1");
  else return false;
  return true;
}

}  // namespace

FieldPanel parse_field_panel(std::string_view text, FieldSpace space) {
  FieldPanel p;
  bool all = true;
  const std::string_view kind = text.substr(0, text.find(','));
  if (kind == "full") p.kind = FieldKind::full_attention;
  else if (kind == "quantised") p.kind = FieldKind::quantised, p.quantiser = FieldQuantiser::none;
  else if (kind == "linear") p.kind = FieldKind::linear_features;
  else if (kind != "ramnet") refuse_word(kind, "full, quantised, linear or ramnet");
  for (std::string_view rest = text.substr(kind.size()); !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size());
    if (kind == "ramnet" && ramnet_word(word, p, all)) continue;
    if (kind == "quantised" && quantised_word(word, p)) continue;
    if (kind == "linear" && linear_word(word, p)) continue;
    refuse_word(word, kind == "ramnet"      ? "d, K, mass-aware, divide, gamma, order, seed, beta-read, beta-write or eps of ramnet"
                      : kind == "quantised" ? "d, k-means, bits or seed of quantised"
                      : kind == "linear"    ? "elu, features or seed of linear"
                                            : "nothing after full");
  }
  if (kind == "ramnet" && all && p.codes >= 1 && p.codes <= kMostFieldCodes) p.top_k = field_slots(space, p.codes);
  return p;
}

}  // namespace slotscope::analysis
