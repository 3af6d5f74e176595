// slotscope-cli info: what it says of the weight files, as JSON and as text.
#include <filesystem>

#include "core/formats/checkpoint.h"
#include "tests/cases/case.h"
#include "tests/cases/cli_checks.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/torch_writer.h"

using namespace slotscope::testing;
using nlohmann::json;
namespace p = slotscope::testing::pkl;

namespace {

std::string tensor(const std::string& key, int64_t numel, std::initializer_list<int64_t> shape, std::initializer_list<int64_t> strides) {
  return p::tensor(p::storage("FloatStorage", key, numel), 0, shape, strides);
}

}  // namespace

SLOTSCOPE_CASE(shards_with_their_sizes_and_metadata) {
  const auto folder = t.temp();
  const auto one = safetensors("{\"__metadata__\":{\"format\":\"pt\"},\"a\":" + entry("F32", "[2,3]", 0, 24) + "}", std::string(24, '\0'));
  const auto two = safetensors("{\"b\":" + entry("BF16", "[5]", 0, 10) + ",\"c\":" + entry("F32", "[1]", 10, 14) + "}", std::string(14, '\0'));
  write_file(folder / "model-00001-of-00002.safetensors", one);
  write_file(folder / "model-00002-of-00002.safetensors", two);
  const json map = {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}, {"c", "model-00002-of-00002.safetensors"}};
  write_file(folder / "model.safetensors.index.json", json{{"metadata", {{"total_size", 38}}}, {"weight_map", map}}.dump());
  const Child c = run_cli({"info", folder.string(), "--json", "--tensors"});
  EXPECT_CODE(c, 0, "info");
  const json d = document(c);
  CHECK_EQ(d["format"].get<std::string>(), std::string("safetensors"));
  CHECK_EQ(d["files"].size(), size_t(2));
  CHECK_EQ(d["files"][0]["name"].get<std::string>(), std::string("model-00001-of-00002.safetensors"));
  CHECK_EQ(d["files"][0]["bytes"].get<uint64_t>(), uint64_t(one.size()));
  CHECK_EQ(d["files"][1]["bytes"].get<uint64_t>(), uint64_t(two.size()));
  CHECK_EQ(d["files"][1]["tensors"].get<int>(), 2);
  CHECK_EQ(d["files"][1]["tensor_bytes"].get<int>(), 14);
  CHECK_EQ(d["files"][1]["format"].get<std::string>(), std::string("safetensors"));
  CHECK_EQ(d["bytes"].get<int>(), 38);
  CHECK((d["dtypes"]["F32"] == json{{"tensors", 2}, {"elements", 7}, {"bytes", 28}}));
  CHECK((d["metadata"] == json::array({{{"key", "format"}, {"value", "pt"}}})));
  CHECK(d["shared"].empty() && d["candidates"].empty() && d["ignored"].empty());
  CHECK(d["tensors"][2]["offset"].get<uint64_t>() == two.size() - 4);
  CHECK(d["tensors"][0]["strides"].is_null() && d["tensors"][0]["shares_with"].is_null());
  EXPECT_SAYS(run_cli({"info", folder.string()}).out, "2 safetensors files", "model-00002-of-00002.safetensors: 2 tensors", "format: pt");
}

// Embedding and head on one storage, averages and optimiser state beside the model (bad-inputs B20, B21).
SLOTSCOPE_CASE(a_training_checkpoint) {
  const auto path = t.temp() / "last.pt";
  const std::string model = p::dict({{"embed.weight", tensor("0", 6, {2, 3}, {3, 1})}, {"head.weight", tensor("0", 6, {2, 3}, {3, 1})},
                                     {"turned", tensor("0", 6, {3, 2}, {1, 3})}, {"norm.weight", tensor("1", 3, {3}, {1})}});
  const std::string ema = p::dict({{"embed.weight", tensor("2", 6, {2, 3}, {3, 1})}, {"norm.weight", tensor("3", 3, {3}, {1})}});
  const std::string state = p::dict({{"exp_avg", tensor("4", 6, {2, 3}, {3, 1})}});
  const std::string optimizer = p::dict({{"state", p::dict({{"w", state}})}});
  write_file(path, torch_zip(p::dict({{"model", model}, {"ema", ema}, {"optimizer", optimizer}, {"epoch", p::integer(3)}}),
                             {{"0", raw<float>({1, 2, 3, 4, 5, 6})}, {"1", raw<float>({1, 1, 1})}, {"2", raw<float>({9, 2, 3, 4, 5, 6})},
                              {"3", raw<float>({2, 2, 2})}, {"4", raw<float>({0, 0, 0, 0, 0, 0})}}));
  const Child c = run_cli({"info", path.string(), "--json", "--tensors"});
  EXPECT_CODE(c, 0, "info of a training checkpoint");
  const json d = document(c);
  CHECK_EQ(d["format"].get<std::string>(), std::string("torch.save (zip)"));
  CHECK_EQ(d["tensor_count"].get<int>(), 4);
  CHECK_EQ(d["bytes"].get<int>(), 24 + 12);  // the storage of three tensors once
  CHECK((d["shared"] == json::array({{{"name", "head.weight"}, {"with", "embed.weight"}, {"tied", true}},
                                     {{"name", "turned"}, {"with", "embed.weight"}, {"tied", false}}})));
  CHECK((d["candidates"] == json::array({"model", "ema"})));
  bool optimiser = false;
  for (const auto& item : d["ignored"])
    optimiser |= item["item"] == "optimizer" && item["why"].get<std::string>().find("optimiser state") != std::string::npos;
  CHECK(optimiser);
  for (const auto& x : d["tensors"])
    if (x["name"] == "turned") CHECK((x["strides"] == json::array({1, 3})));
  EXPECT_SAYS(run_cli({"info", path.string()}).out, "torch.save (zip)", "model; --weights takes another: ema", "optimiser state",
              "head.weight: same values as embed.weight", "turned: another view");

  const Child other = run_cli({"info", path.string(), "--weights", "ema", "--json"});
  EXPECT_CODE(other, 0, "the averages");
  CHECK_EQ(document(other)["tensor_count"].get<int>(), 2);
  CHECK_EQ(document(other)["candidates"][0].get<std::string>(), std::string("ema"));
  const Child one = run_cli({"info", path.string(), "--weights", "ema", "--tensor", "embed.weight", "--json"});
  EXPECT_CODE(one, 0, "a tensor of the averages");
  CHECK_EQ(document(one)["statistics"]["maximum"].get<double>(), 9.0);
  const Child wrong = run_cli({"info", path.string(), "--weights", "nothing"});
  CHECK(wrong.code == 1 || wrong.code == 2);
  EXPECT_SAYS(wrong.err, "nothing", "model", "ema");
}
