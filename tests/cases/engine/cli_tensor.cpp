// slotscope-cli info --tensor as a process: numbers, names, exit codes.
#include <numeric>

#include "core/formats/checkpoint.h"
#include "tests/cases/cli_checks.h"

namespace slotscope::testing {
namespace {

const char* const kTensor = "model.layers.0.attn.q_proj.weight";

}  // namespace

SLOTSCOPE_CASE(statistics_of_a_tensor) {
  const Child c = run_cli({"info", bundled(t), "--tensor", kTensor, "--bins", "7", "--json"});
  EXPECT_CODE(c, 0, "info --tensor");
  const json d = document(c);
  if (!d.is_object()) return t.fail("no document: " + c.out, __FILE__, __LINE__);
  CHECK_EQ(d["tensor"]["name"].get<std::string>(), std::string(kTensor));
  CHECK_EQ(d["tensor"]["dtype"].get<std::string>(), std::string("BF16"));
  CHECK_EQ(d["tensor"]["file"].get<std::string>(), std::string("model.safetensors"));
  const json& s = d["statistics"];
  // From the values themselves.
  const auto checkpoint = formats::Checkpoint::open(bundled(t));
  std::vector<double> values = formats::read_values(*checkpoint, *checkpoint->find(kTensor), 0, 256 * 256);
  std::sort(values.begin(), values.end());
  long double sum = 0, squares = 0;
  for (double v : values) sum += v, squares += (long double)v * v;
  const auto n = (long double)values.size();
  CHECK_EQ(s["count"].get<size_t>(), values.size());
  CHECK_EQ(s["minimum"].get<double>(), values.front());
  CHECK_EQ(s["maximum"].get<double>(), values.back());
  CHECK_CLOSE(s["mean"].get<double>(), double(sum / n), 1e-17);
  CHECK_CLOSE(s["standard_deviation"].get<double>(), double(std::sqrt(squares / n - sum / n * (sum / n))), 1e-14);
  CHECK_CLOSE(s["l2_norm"].get<double>(), double(std::sqrt(squares)), 1e-13);
  CHECK_EQ(s["quantiles"][2]["share"].get<double>(), 0.5);
  CHECK_EQ(s["quantiles"][2]["value"].get<double>(), (values[32767] + values[32768]) / 2);
  const auto counts = s["histogram"]["counts"].get<std::vector<uint64_t>>();
  CHECK_EQ(counts.size(), size_t(7));
  CHECK_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t(0)), uint64_t(values.size()));
  CHECK_EQ(s["histogram"]["edges"][0].get<double>(), values.front());
  CHECK_EQ(s["histogram"]["edges"][7].get<double>(), values.back());
  CHECK_EQ(s["histogram"]["scale"].get<std::string>(), std::string("linear"));
  const Child log = run_cli({"info", bundled(t), "--tensor", kTensor, "--log-bins", "--json"});
  EXPECT_CODE(log, 0, "--log-bins");
  CHECK_EQ(document(log)["statistics"]["histogram"]["scale"].get<std::string>(), std::string("symmetric_log"));
  CHECK_EQ(document(log)["statistics"]["histogram"]["counts"].size(), size_t(32));
}

SLOTSCOPE_CASE(statistics_as_text) {
  const Child c = run_cli({"info", bundled(t), "--tensor", kTensor});
  EXPECT_CODE(c, 0, "info --tensor");
  EXPECT_SAYS(c.out, kTensor, "BF16 [256, 256]", "65 536", "mean", "quantiles", "50 %", "histogram", "####");
  const Child none = run_cli({"info", bundled(t), "--tensor", kTensor, "--bins", "0"});
  EXPECT_CODE(none, 0, "--bins 0");
  CHECK(!has(none.out, "histogram"));
}

SLOTSCOPE_CASE(refusals) {
  const Child missing = run_cli({"info", bundled(t), "--tensor", "q_proj", "--json"});
  EXPECT_CODE(missing, 2, "no such tensor");
  EXPECT_SAYS(missing.err, "no tensor 'q_proj'", kTensor, "--tensors lists");
  EXPECT_CODE(run_cli({"info", bundled(t), "--bins", "3"}), 2, "--bins alone");
  EXPECT_CODE(run_cli({"info", bundled(t), "--tensor", kTensor, "--bins", "65537"}), 2, "too many bins");
  const fs::path folder = t.temp();
  std::string header = "{\"w\":{\"dtype\":\"F8_E8M0\",\"shape\":[8],\"data_offsets\":[0,8]}}";
  header.resize(64, ' ');
  write_file(folder / "model.safetensors", std::string("\x40\0\0\0\0\0\0\0", 8) + header + std::string(8, '\0'));
  const Child kind = run_cli({"info", folder.string(), "--tensor", "w"});
  EXPECT_CODE(kind, 1, "F8_E8M0");
  EXPECT_SAYS(kind.err, "tensor 'w'", "F8_E8M0 cannot be computed with");
}

}  // namespace slotscope::testing
