// Keys, presets and the text form of a value field's settings.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "core/analysis/value_field_json.h"
#include "core/analysis/value_field_keys.h"
#include "core/error.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::analysis;

namespace {
constexpr double kTurn = 2 * std::numbers::pi;
}

SLOTSCOPE_CASE(layouts) {
  // The same keys on every machine and in every version: figures name their seed.
  const auto keys = field_keys(FieldSpace::torus, {});
  CHECK_EQ(keys.size(), size_t(12));
  for (const auto kind : {FieldLayoutKind::spread, FieldLayoutKind::random, FieldLayoutKind::ring, FieldLayoutKind::grid})
    for (const FieldSpace space : {FieldSpace::torus, FieldSpace::plane})
      for (const int count : {1, 2, 12, 100}) {
        const FieldLayout layout{kind, count, 9, count % 2 == 0};
        const auto made = field_keys(space, layout);
        CHECK_EQ(int(made.size()), count);
        CHECK(made == field_keys(space, layout));
        for (const FieldKey& key : made) {
          if (space == FieldSpace::torus)
            CHECK(key.x >= 0 && key.x < kTurn && key.y >= 0 && key.y < kTurn);
          else
            CHECK(std::hypot(key.x, key.y) <= (kind == FieldLayoutKind::grid ? 1.14 : 1 + 1e-12));
          for (const double v : key.value) CHECK(v >= 0 && v <= 1);
        }
        if (!layout.rgb && count > 1) {  // every value of an even scale once
          std::vector<double> values;
          for (const FieldKey& key : made) values.push_back(key.value[0]);
          std::sort(values.begin(), values.end());
          for (int i = 0; i < count; ++i) CHECK_CLOSE(values[size_t(i)], double(i) / (count - 1), 1e-15);
        }
      }
  const auto nearest = [](const std::vector<FieldKey>& keys) {
    double least = 1e9;
    for (size_t a = 0; a < keys.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        const double x = std::abs(keys[a].x - keys[b].x), y = std::abs(keys[a].y - keys[b].y);
        least = std::min(least, std::hypot(std::min(x, kTurn - x), std::min(y, kTurn - y)));
      }
    return least;
  };
  double spread = 1e9, random = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    spread = std::min(spread, nearest(field_keys(FieldSpace::torus, {.seed = seed})));
    random += nearest(field_keys(FieldSpace::torus, {.kind = FieldLayoutKind::random, .seed = seed})) / 10;
  }
  t.note("closest pair of 12 keys: spread at least " + testing::to_text(spread) + ", random on average " + testing::to_text(random));
  CHECK(spread > 1);
  CHECK(random < 0.8);
  CHECK_ERROR(field_keys(FieldSpace::torus, {.count = 0}), "number of keys", "1 to 4096");
  CHECK_ERROR(field_keys(FieldSpace::torus, {.count = 2000000000}), "2000000000");
}

SLOTSCOPE_CASE(spare_values) {
  CHECK_EQ(spare_value({}, 1)[0], 0.5);
  CHECK_EQ(spare_value({{.value = {0}}}, 1)[0], 1.0);
  CHECK_EQ(spare_value({{.value = {0}}, {.value = {1}}}, 1)[0], 0.5);
  CHECK_EQ(spare_value({{.value = {0.25}}, {.value = {1}}}, 1)[0], 0.625);
  // Of red and cyan a hue between them.
  const auto v = spare_value({{.value = {1, 0, 0}}, {.value = {0, 1, 1}}}, 3);
  CHECK(std::abs(v[0] - 0.5) > 0.05 || std::abs(v[1] - 0.5) > 0.05);
  for (const double c : v) CHECK(c >= 0 && c <= 1);
}

SLOTSCOPE_CASE(presets_are_accepted_and_come_back) {
  std::set<std::string> names;
  for (const FieldPreset& preset : field_presets()) {
    const FieldSettings s = preset.make();
    CHECK_EQ(field_problem(s), std::string());
    CHECK(names.insert(preset.name).second);
    CHECK(find_field_preset(preset.name) == &preset);
    CHECK(parse_field_settings(field_settings_json(s), "here") == s);
  }
  CHECK(find_field_preset("none") == nullptr);
  for (const FieldColumns& set : field_column_sets())
    for (const FieldSpace space : {FieldSpace::torus, FieldSpace::plane}) {
      FieldSettings s = find_field_preset("paper")->make();
      s.space = space, s.columns = set.make(space);
      CHECK_EQ(field_problem(s), std::string());
      CHECK(s.columns[0].kind == FieldKind::full_attention);
    }
  // Figure 4's columns, by their titles.
  std::string titles;
  for (const FieldPanel& p : find_field_preset("paper")->make().columns) titles += field_title(p, FieldSpace::torus) + "; ";
  CHECK_EQ(titles, std::string("full attention; d 4 · K 16; d 4 · K 4; d 16 · K 256; d 4 · K 16\nmass-aware; d 16 · K 256\nmass-aware; "));
}

SLOTSCOPE_CASE(text_and_back) {
  FieldSettings s;
  s.space = FieldSpace::plane, s.tau = 0.1, s.grid = 17, s.extent = 1.0 / 3, s.channels = 3, s.query_radius = {0.7, 1.1};
  s.keys = {{.x = 1.0 / 3, .y = -2e-17, .radius = {0.1, 7}, .value = {0.1, 0.2, 0.3}}, {.x = 0.5}};
  s.rows = {0, 0.1, 1e3};
  s.queries = {{0.1, -1.0 / 3}, {1e-300, 7}}, s.origin = "layer 0 head 0, q·k";
  FieldPanel all;
  all.kind = FieldKind::ramnet, all.name = "a \"name\" · β\n2", all.codes = 7, all.top_k = int64_t(1) << 40;
  all.beta_read = 0.3, all.beta_write = 2, all.mass_aware = all.divide = true, all.cumulative = false;
  all.gamma = -std::numeric_limits<double>::infinity(), all.order = FieldOrder::shuffled, all.eps = 1e-6;
  all.quantiser = FieldQuantiser::kmeans, all.value_bits = 3, all.features = 5, all.seed = UINT64_MAX;
  s.columns = {all, {.kind = FieldKind::linear_elu}, {.kind = FieldKind::quantised, .quantiser = FieldQuantiser::none}};
  const std::string text = field_settings_json(s);
  CHECK(parse_field_settings(text, "here") == s);
  CHECK_EQ(field_settings_json(parse_field_settings(text, "here")), text);
}

SLOTSCOPE_CASE(bad_texts) {
  const auto with = [](const std::string& members) { return R"({"keys": [{"at": [1, 2], "value": [0]}], "columns": [{"kind": "ramnet"}])" + members + "}"; };
  CHECK_EQ(parse_field_settings(with(""), "f").keys.size(), size_t(1));
  CHECK_ERROR(parse_field_settings("{", "f.json"), "f.json");
  CHECK_ERROR(parse_field_settings("[]", "f.json"), "f.json", "array", "an object");
  CHECK_ERROR(parse_field_settings(with(R"(, "tao": 1)"), "f.json"), "f.json", "tao", "not known", "tau");
  CHECK_ERROR(parse_field_settings(with(R"(, "tau": "big")"), "f"), "tau", "big", "a number");
  CHECK_ERROR(parse_field_settings(with(R"(, "tau": 0)"), "f"), "tau is 0");
  CHECK_ERROR(parse_field_settings(with(R"(, "grid": 1.5)"), "f"), "grid", "1.5", "whole number");
  CHECK_ERROR(parse_field_settings(with(R"(, "grid": 99999999999)"), "f"), "grid", "99999999999");
  CHECK_ERROR(parse_field_settings(with(R"(, "grid": 18446744073709551615)"), "f"), "grid");
  CHECK_ERROR(parse_field_settings(with(R"(, "channels": 100000)"), "f"), "channels", "1 or 3");
  CHECK_ERROR(parse_field_settings(with(R"(, "space": "sphere")"), "f"), "space", "sphere", "torus, plane");
  CHECK_ERROR(parse_field_settings(with(R"(, "rows": [])"), "f"), "rows", "0 elements");
  CHECK_ERROR(parse_field_settings(with(R"(, "rows": [null])"), "f"), "rows", "null");
  CHECK_ERROR(parse_field_settings(R"({"keys": [{"at": [1, 2, 3]}]})", "f"), "keys[0].at", "3 elements", "2 numbers");
  CHECK_ERROR(parse_field_settings(R"({"keys": [7]})", "f"), "keys[0]", "number", "an object");
  CHECK_ERROR(parse_field_settings(R"({"keys": [{"at": [0, 0]}], "columns": [{"kind": "ramnet", "codes": 1}]})", "f"), "column 1", "says nothing");
  CHECK_ERROR(parse_field_settings(R"({"keys": [{"at": [0, 0]}], "columns": [{"seed": "18446744073709551616"}]})", "f"), "columns[0].seed");
  CHECK_ERROR(parse_field_settings(R"({"keys": [{"at": [0, 0]}], "columns": [{"seed": -1}]})", "f"), "columns[0].seed");
  CHECK_ERROR(parse_field_settings(with(R"(, "queries": [[1]])"), "f"), "queries", "pairs of numbers");
  CHECK_ERROR(parse_field_settings(with(R"(, "origin": 7)"), "f"), "origin", "a text");
  CHECK_ERROR(parse_field_settings(R"({"keys": []})", "f"), "no panels");
  CHECK_ERROR(parse_field_settings(std::string(200, '['), "f"), "f");
}

SLOTSCOPE_CASE(panels_in_words) {
  const auto parse = [](const char* text) { return parse_field_panel(text, FieldSpace::torus); };
  CHECK(parse("full") == (FieldPanel{.kind = FieldKind::full_attention}));
  CHECK_EQ(parse("ramnet,d=8").top_k, int64_t(64));
  FieldPanel all;
  all.codes = 5, all.top_k = 7, all.mass_aware = all.divide = true, all.cumulative = false, all.gamma = -2.5, all.order = FieldOrder::shuffled;
  all.seed = UINT64_MAX, all.beta_read = 0.5, all.beta_write = std::numeric_limits<double>::infinity(), all.eps = 1e-6;
  CHECK(parse("ramnet,d=5,K=7,mass-aware,divide,gamma=-2.5,order=shuffled,seed=18446744073709551615,beta-read=0.5,beta-write=inf,eps=1e-6") == all);
  CHECK(parse("quantised,k-means=16,bits=3,seed=2") ==
        (FieldPanel{.kind = FieldKind::quantised, .codes = 16, .quantiser = FieldQuantiser::kmeans, .value_bits = 3, .seed = 2}));
  CHECK(parse("quantised,bits=1").quantiser == FieldQuantiser::none);
  CHECK(parse("linear,elu").kind == FieldKind::linear_elu);
  CHECK_EQ(parse("linear,features=9,seed=3").features, 9);
  CHECK_ERROR(parse(""), "--panel", "full, quantised, linear or ramnet");
  CHECK_ERROR(parse("ramnet,"), "--panel", "''");
  CHECK_ERROR(parse("ramnet,d=4x"), "d=4x");
  CHECK_ERROR(parse("ramnet,gamma=nan"), "gamma=nan");
  CHECK_ERROR(parse("ramnet,K"), "'K'");
  CHECK_ERROR(parse("ramnet,order=backwards"), "order=reversed");
  CHECK_ERROR(parse("full,d=4"), "nothing after full");
  CHECK_ERROR(parse("linear,d=4"), "elu, features or seed");
}
