// slotscope-cli ramnet theory: the numbers, their digits, the file, hostile options.
#include <cmath>
#include <limits>

#include "core/analysis/theory_result.h"
#include "tests/cases/cli_checks.h"

using namespace slotscope::testing;
using namespace slotscope::analysis;
using nlohmann::json;

namespace {

const std::string kQ = "0.6,-0.2,0.1,0.7", kK = "0.5,0.3,-0.4,0.6";

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double v : values) text += (text.empty() ? "" : ",") + json(v).dump();
  return text;
}

Words theory(Words more) {
  Words words = {"ramnet", "theory"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A double again, bit for bit.
void same(Context& t, const json& got, double expected, const char* what) {
  if (!got.is_number() || got.get<double>() != expected)
    t.fail(std::string(what) + ": got " + got.dump() + ", expected " + json(expected).dump(), __FILE__, __LINE__);
}

}  // namespace

SLOTSCOPE_CASE(every_case_of_the_reference) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  const json all = json::parse(file)["theory"];
  for (const json& c : all) {
    const KernelInput in{c["d_p"].get<int64_t>(), c["q"].get<std::vector<double>>(), c["k"].get<std::vector<double>>(),
                         c["beta_r"].get<double>(), c["beta_w"].get<double>()};
    Words words = theory({"--codes", std::to_string(in.codes), "--q", list(in.q), "--k", list(in.k), "--json"});
    if (in.beta_read == in.beta_write)
      words.insert(words.end(), {"--beta", json(in.beta_read).dump()});
    else
      words.insert(words.end(), {"--beta-read", json(in.beta_read).dump(), "--beta-write", json(in.beta_write).dump()});
    const Child child = run_cli(words);
    EXPECT_CODE(child, 0, c["name"].get<std::string>());
    const json d = document(child);
    CHECK_EQ(d.size(), size_t(7));
    const KernelNumbers n = kernel_numbers(in);
    same(t, d["kappa"], n.kappa, "kappa");
    same(t, d["kappa_bruteforce"], std::exp(log_kappa_brute_force(in)), "kappa_bruteforce");
    same(t, d["target"], n.target, "target");
    same(t, d["log_error"], n.log_error, "log_error");
    same(t, d["radius"], n.bounds.radius, "radius");
    same(t, d["xi"], n.bounds.xi, "xi");
    if (n.bounds.bound)
      same(t, d["bound"], *n.bounds.bound, "bound");
    else
      CHECK(d["bound"].is_null());
    CHECK_CLOSE(d["kappa"].get<double>(), c["kappa_closed"].get<double>(), 1e-12 * c["kappa_closed"].get<double>());
    CHECK_CLOSE(d["xi"].get<double>(), c["xi"].get<double>(), 1e-12 * c["xi"].get<double>());
    CHECK_EQ(d["bound"].is_null(), c["bound_theorem2"].is_null());
  }
}

SLOTSCOPE_CASE(default_beta_and_text) {
  const Child plain = run_cli(theory({"--codes", "4", "--q", "0.5,0", "--k", "0.3,0.4", "--json"}));
  EXPECT_CODE(plain, 0, "beta*");
  CHECK_CLOSE(document(plain)["kappa"].get<double>(), 1.0946240228758328, 1e-15);  // reference u1-dp4: beta* = 1.189207
  CHECK(has(plain.out, "\"kappa\": 1.09462402287583"));
  const Child text = run_cli(theory({"--codes", "4", "--q", kQ, "--k", kK}));
  EXPECT_CODE(text, 0, "text");
  EXPECT_SAYS(text.out, "1.31383544288140", "brute force", "1.3634251141321778", "beta* = 1", "16 slots", "0.42678115278149", "codes of k 0, 1",
              "2.94433853998954");
  EXPECT_SAYS(run_cli(theory({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "4"})).out, "xi >= 1: Theorem 2 says nothing here");
  EXPECT_SAYS(run_cli(theory({"--codes", "2", "--q", kQ, "--k", kK})).out, "outside Theorem 1");
}

SLOTSCOPE_CASE(limits) {
  const json zero = document(run_cli(theory({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "0", "--json"})));
  for (const char* name : {"kappa", "kappa_bruteforce", "target"}) CHECK_EQ(zero[name].get<double>(), 1.0);
  for (const char* name : {"log_error", "radius", "xi", "bound"}) CHECK_EQ(zero[name].get<double>(), 0.0);
  // Above every double: still JSON numbers.
  const Child large = run_cli(theory({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "1e6", "--json"}));
  EXPECT_CODE(large, 0, "beta 1e6");
  EXPECT_SAYS(large.out, "e+134631289390", "e+313196", "\"bound\": null");
  CHECK(!has(large.out, "inf") && !has(large.out, "nan"));
  EXPECT_SAYS(run_cli(theory({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "1e150", "--json"})).out, "\"xi\": 1e+999999999999999");
  // More addresses than can be walked: null, and why.
  const json many = document(run_cli(theory({"--codes", "16", "--q", "1,0,1,0,1,0,1,0,1,0,1,0,1,0", "--k", "1,0,1,0,1,0,1,0,1,0,1,0,1,0", "--json"})));
  CHECK(many["kappa"].is_number() && many["kappa_bruteforce"].is_null());
  CHECK(has(many["why_no_bruteforce"].get<std::string>(), "16^7"));
}

SLOTSCOPE_CASE(hostile_options) {
  const auto refused = [&](Words words, std::initializer_list<const char*> says) {
    Words with = theory(words);
    with.push_back("--json");
    const Child c = run_cli(with);
    EXPECT_CODE(c, 2, words.back());
    const json d = document(c);
    CHECK(d.contains("error") && d["error"]["kind"] == "usage");
    expect_says(t, c.err, says, __LINE__);
  };
  refused({"--codes", "1", "--q", kQ, "--k", kK}, {"codes per factor", "1", "2 to 1048576", "every address is the same"});
  refused({"--codes", "0", "--q", kQ, "--k", kK}, {"codes per factor", "0"});
  refused({"--codes", "-4", "--q", kQ, "--k", kK}, {"codes per factor", "-4"});
  refused({"--codes", "99999999999999999999", "--q", kQ, "--k", kK}, {"--codes", "whole number"});
  refused({"--codes", "1000000000", "--q", kQ, "--k", kK}, {"codes per factor", "1000000000"});
  refused({"--codes", "4.5", "--q", kQ, "--k", kK}, {"--codes", "4.5"});
  refused({"--codes", "4", "--q", "1,2,3", "--k", kK}, {"--q", "3 numbers", "even"});
  refused({"--codes", "4", "--q", kQ, "--k", "1,2"}, {"--k", "2 numbers", "4, as many as --q"});
  refused({"--codes", "4", "--q", "", "--k", kK}, {"--q"});
  refused({"--codes", "4", "--q", "0.6,nan,0,0", "--k", kK}, {"--q, number 1", "nan", "finite"});
  refused({"--codes", "4", "--q", kQ, "--k", "0,0,0,-inf"}, {"--k, number 3", "-inf"});
  refused({"--codes", "4", "--q", kQ, "--k", "0,0,0,1e999"}, {"--k, number 3", "out of the range"});
  refused({"--codes", "4", "--q", "1e200,0", "--k", "1,0"}, {"q, number 0", "1e150"});
  refused({"--codes", "4", "--q", "1 2,0", "--k", "1,0"}, {"--q, number 0", "'1 2'"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "-1"}, {"--beta", "-1", "0 or more"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "nan"}, {"--beta", "nan"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--beta-write", "inf"}, {"--beta-write", "inf"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "1", "--beta-read", "1"}, {"--beta", "--beta-read"});
  refused({"--q", kQ, "--k", kK}, {"--codes is required"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--sweep", "1:2:3"}, {"--sweep requires --out"});
  const std::string out = (t.temp() / "never.h5").string();
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--out", out, "--sweep", "0:1:5"}, {"range", "above 0"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--out", out, "--sweep", "1:2"}, {"--sweep", "LOW:HIGH:COUNT"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--out", out, "--sweep", "1:2:1000000"}, {"points", "100000"});
  refused({"--codes", "4", "--q", kQ, "--k", kK, "--out", out, "--pair-kind", "odd"}, {"kind of pairs", "turned-key"});
  refused({"--codes", "1048576", "--q", kQ, "--k", kK, "--out", out, "--pairs", "100000"}, {"fewer points"});
  CHECK(!fs::exists(out));
}

SLOTSCOPE_CASE(file_of_sweeps) {
  const fs::path out = t.temp() / "theory.h5";
  const Words words = theory({"--codes", "4", "--q", kQ, "--k", kK, "--beta", "1", "--out", out.string(), "--sweep", "0.5:4:31", "--pairs", "60",
                              "--pair-kind", "random-blocks", "--seed", "18446744073709551615", "--json"});
  EXPECT_CODE(run_cli(words), 0, "--out");
  const auto result = slotscope::trace::read_result(out, kTheoryKind);
  CHECK_EQ(result.integer("codes_per_factor"), int64_t(4));
  CHECK_EQ(result.number("beta_read"), 1.0);
  const StoredTheory stored = stored_theory(result);
  CHECK_EQ(stored.input.k, (std::vector<double>{0.5, 0.3, -0.4, 0.6}));
  CHECK_EQ(stored.options.seed, std::numeric_limits<uint64_t>::max());
  CHECK(stored.options.kind == PairKind::random_blocks);
  const BetaSweep sweep = sweep_beta(stored.input, spaced(0.5, 4, 31, true));
  using slotscope::trace::as_doubles;
  CHECK_EQ(as_doubles(result.at("sweep/beta_multiple").values), sweep.multiple);
  CHECK_EQ(as_doubles(result.at("sweep/log_kappa").values), sweep.log_kappa);
  CHECK_EQ(as_doubles(result.at("sweep/xi").values), sweep.xi);
  const auto bound = as_doubles(result.at("sweep/bound").values);
  for (size_t i = 0; i < bound.size(); ++i) CHECK(std::isnan(bound[i]) ? sweep.xi[i] >= 1 : bound[i] == sweep.bound[i]);
  const PairCloud cloud = pair_cloud(stored.input, stored.options.kind, 60, stored.options.seed);
  CHECK_EQ(as_doubles(result.at("pairs/log_error").values), cloud.log_error);
  CHECK_EQ(result.at("pairs/q").shape, (std::vector<int64_t>{60, 2, 2}));
  CHECK_EQ(result.at("pairs/q").axes, std::string("pair,factor,coordinate"));
  CHECK_EQ(as_doubles(result.at("log_kappa").values)[0], kernel_numbers(stored.input).log_kappa);
  for (const auto& dataset : result.datasets) CHECK(!dataset.description.empty());
  const Child again = run_cli(words);
  EXPECT_CODE(again, 1, "the file exists");
  EXPECT_SAYS(again.err, "theory.h5", "--force");
  Words force = words;
  force.push_back("--force");
  EXPECT_CODE(run_cli(force), 0, "--force");
}
