// slotscope-cli ramnet valuefield: golden numbers, the file, settings again, hostile options.
#include <cmath>

#include "core/analysis/value_field_file.h"
#include "core/analysis/value_field_json.h"
#include "core/analysis/value_field_keys.h"
#include "tests/cases/cli_checks.h"

using namespace slotscope::testing;
using namespace slotscope::analysis;
using nlohmann::json;

namespace {

Words valuefield(Words more) {
  Words words = {"ramnet", "valuefield"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

SLOTSCOPE_CASE(the_reference_from_words) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  const json ref = json::parse(file)["value_field"];
  Words words = valuefield({"--tau", "2", "--grid", "6", "--rows", "0.5,1,2", "--panel", "full", "--panel", "ramnet,d=4", "--panel", "ramnet,d=4,K=4",
                            "--panel", "ramnet,d=16,K=256", "--panel", "ramnet,d=4,mass-aware", "--panel", "ramnet,d=16,mass-aware", "--json"});
  for (size_t i = 0; i < ref["values"].size(); ++i)
    words.insert(words.end(), {"--key", ref["key_angles"][i][0].dump() + "," + ref["key_angles"][i][1].dump() + "," + ref["values"][i].dump()});
  const auto out = t.temp() / "field.h5";
  words.insert(words.end(), {"--out", out.string()});
  const Child child = run_cli(words);
  EXPECT_CODE(child, 0, "reference");
  const json d = document(child);
  CHECK_EQ(d["keys"].get<int>(), 6);
  CHECK_CLOSE(d["beta_star"].get<double>(), 1, 1e-15);
  size_t compared = 0;
  for (const json& panel : d["panels"]) {
    const int column = panel["column"].get<int>();
    if (column == 0) {
      CHECK_EQ(panel["rmse"].get<double>(), 0.0);
      CHECK(panel["mean_read_mass"].is_null());
      continue;
    }
    const json& expected = ref["ramnet"][panel["row"].get<size_t>() * 5 + size_t(column) - 1];
    CHECK_EQ(expected["beta_multiple"].get<double>(), d["rows"][panel["row"].get<size_t>()].get<double>());
    CHECK_CLOSE(panel["rmse"].get<double>(), expected["rmse_to_full_attention"].get<double>(), 1e-12);
    ++compared;
  }
  CHECK_EQ(compared, size_t(15));
  // The file holds the fields, and its settings make them again.
  const auto field = field_of_result(slotscope::trace::read_result(out, kValueFieldKind), out.string());
  const auto golden = ref["ramnet"][6]["field"].get<std::vector<double>>();
  for (size_t i = 0; i < golden.size(); ++i) CHECK_CLOSE(field->at(1, 2).value[i], golden[i], 1e-12);
  const auto settings = t.temp() / "again.json";
  std::ofstream(settings) << field_settings_json(field->settings);
  const auto again = t.temp() / "again.h5";
  EXPECT_CODE(run_cli(valuefield({"--settings", settings.string(), "--out", again.string()})), 0, "settings");
  const auto second = field_of_result(slotscope::trace::read_result(again, kValueFieldKind), again.string());
  CHECK(second->settings == field->settings);
  for (size_t i = 0; i < field->panels.size(); ++i) CHECK(second->panels[i]->value == field->panels[i]->value);
  ChildOptions piped;
  piped.stdin_text = field_settings_json(field->settings);
  EXPECT_CODE(run_cli(valuefield({"--settings", "-", "--json"}), piped), 0, "standard input");
}

SLOTSCOPE_CASE(presets_and_parts) {
  for (const FieldPreset& preset : field_presets()) {
    const Child child = run_cli(valuefield({"--preset", preset.name, "--grid", "8", "--json"}));
    EXPECT_CODE(child, 0, preset.name);
    CHECK_EQ(document(child)["panels"].size(), preset.make().rows.size() * preset.make().columns.size());
  }
  const json d = document(run_cli(valuefield({"--space", "plane", "--keys", "5", "--layout", "ring", "--seed", "9", "--values", "rgb", "--columns", "predictors",
                                              "--rows", "1,inf", "--grid", "8", "--extent", "2", "--json"})));
  CHECK_EQ(d["keys"].get<int>(), 5);
  CHECK_EQ(d["channels"].get<int>(), 3);
  CHECK(d["rows"][1].is_null());
  CHECK_EQ(d["columns"].size(), size_t(4));
  const Child text = run_cli(valuefield({"--grid", "8"}));
  CHECK(text.out.find("d 16 · K 256 mass-aware") != std::string::npos);
  CHECK(text.out.find("beta* 4") != std::string::npos);
}

SLOTSCOPE_CASE(bad_options) {
  const auto refused = [&](Words more, int code, std::initializer_list<std::string> words) {
    const Child child = run_cli(valuefield(std::move(more)));
    EXPECT_CODE(child, code, "refused");
    for (const auto& word : words)
      if (child.err.find(word) == std::string::npos) t.fail("lacks '" + word + "': " + child.err, __FILE__, __LINE__);
  };
  refused({"--panel", "ramnet,d=1"}, 2, {"1 codes", "says nothing"});
  refused({"--panel", "ramnet,d=100000"}, 2, {"at most 256"});
  refused({"--panel", "ramnet,K=0"}, 2, {"Top-K is 0"});
  refused({"--panel", "ramnet,gamma=nan"}, 2, {"gamma=nan"});
  refused({"--panel", "magic"}, 2, {"magic", "full, quantised, linear or ramnet"});
  refused({"--tau", "0"}, 2, {"tau is 0"});
  refused({"--tau", "nan"}, 2, {"tau is nan"});
  refused({"--grid", "100000"}, 2, {"grid of 100000", "1 to 1024"});
  refused({"--keys", "0"}, 2, {"number of keys"});
  refused({"--keys", "2000000000"}, 2, {"1 to 4096"});
  refused({"--key", "1,2"}, 2, {"X,Y,VALUE"});
  refused({"--key", "1,2,0.5", "--keys", "3"}, 2, {"either --key"});
  refused({"--rows", "1,,2"}, 2, {"--rows"});
  refused({"--rows", "-1"}, 2, {"0 or more"});
  refused({"--preset", "none"}, 2, {"none", "paper"});
  refused({"--columns", "none"}, 2, {"none", "top-k"});
  refused({"--settings", (t.temp() / "none.json").string()}, 1, {"none.json"});
  const auto broken = t.temp() / "broken.json";
  std::ofstream(broken) << "{\"keys\": [{}";
  refused({"--settings", broken.string()}, 1, {"broken.json"});
  const auto out = t.temp() / "field.h5";
  EXPECT_CODE(run_cli(valuefield({"--grid", "8", "--out", out.string()})), 0, "written");
  refused({"--grid", "8", "--out", out.string()}, 1, {"exists", "--force"});
  EXPECT_CODE(run_cli(valuefield({"--grid", "8", "--out", out.string(), "--force"})), 0, "replaced");
  // gamma without bounds, beta 0: the limits, not an error.
  EXPECT_CODE(run_cli(valuefield({"--grid", "8", "--rows", "0", "--panel", "ramnet,gamma=inf", "--panel", "ramnet,gamma=-inf"})), 0, "limits");
}

SLOTSCOPE_CASE(keys_of_a_captured_head) {
  const auto trace = (t.temp() / "trace.h5").string(), without = (t.temp() / "without.h5").string();
  EXPECT_CODE(run_cli({"run", bundled(t), "--task", "passkey", "--length", "96", "--generate", "0", "--capture", "query,key,value", "--out", trace}), 0, "trace");
  EXPECT_CODE(run_cli({"run", bundled(t), "--task", "passkey", "--length", "96", "--generate", "0", "--capture", "route", "--out", without}), 0, "trace");
  const json pca = document(run_cli(valuefield({"--trace", trace, "--layer", "3", "--head", "1", "--grid", "16", "--json"})));
  CHECK_EQ(pca["space"].get<std::string>(), std::string("plane"));
  CHECK_EQ(pca["keys"].get<int>(), 64);
  CHECK(pca["origin"].get<std::string>().find("layer 3 head 1, tokens 0 to 63 as keys, two principal axes") == 0);
  CHECK_EQ(pca["columns"][1].get<std::string>(), std::string("d 4 · K 4"));  // the preset's columns, for one factor
  const auto out = (t.temp() / "field.h5").string();
  const json blocks = document(run_cli(valuefield({"--trace", trace, "--layer", "3", "--head", "1", "--project", "blocks:0:2", "--tokens", "10:30", "--values", "rgb", "--grid", "16", "--out", out, "--json"})));
  CHECK_EQ(blocks["space"].get<std::string>(), std::string("torus"));
  CHECK_EQ(blocks["keys"].get<int>(), 20);
  const auto field = field_of_result(slotscope::trace::read_result(out, kValueFieldKind), out);
  CHECK_EQ(field->settings.queries.size(), size_t(96));
  CHECK_EQ(field->settings.origin, blocks["origin"].get<std::string>());
  const auto refused = [&](Words more, int code, const std::string& word) {
    more.insert(more.begin(), {"--layer", "3", "--grid", "8"});
    const Child child = run_cli(valuefield(more));
    EXPECT_CODE(child, code, word);
    CHECK(child.err.find(word) != std::string::npos);
  };
  refused({"--trace", without}, 1, "--capture");
  refused({"--trace", trace, "--head", "99"}, 2, "head 99");
  refused({"--trace", trace, "--project", "blocks:0"}, 2, "--project");
  refused({"--trace", trace, "--project", "pair:0:100000"}, 2, "coordinate");
  refused({"--trace", trace, "--project", "turn"}, 2, "pca, pair:A:B");
  refused({"--trace", trace, "--tokens", "0:97"}, 2, "96 captured tokens");
  refused({"--trace", trace, "--keys", "5"}, 2, "--trace");
  refused({"--trace", (t.temp() / "none.h5").string()}, 1, "none.h5");
}
