// Training checkpoints, wrapper names, folders with .bin files and their indexes (bad-inputs B21, issue 3).
#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/torch_weights.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/torch_writer.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;
namespace p = slotscope::testing::pkl;

namespace {

using Values = std::vector<double>;

Values all_values(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (!tensor) throw std::runtime_error("no tensor " + std::string(name));
  return read_values(checkpoint, *tensor, 0, element_count(*tensor));
}
bool any_has(const std::vector<std::string>& texts, std::string_view part) {
  for (const auto& text : texts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}
const IgnoredItem* ignored(const Checkpoint& checkpoint, std::string_view item) {
  for (const auto& entry : checkpoint.ignored())
    if (entry.item == item) return &entry;
  return nullptr;
}
std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> all;
  for (const auto& tensor : checkpoint.tensors()) all.push_back(tensor.name);
  return all;
}
const std::string kOne = raw<float>({1, 2}), kTwo = raw<float>({3, 4});

// Opens `value` as a single file; storages 0 = [1, 2] and 1 = [3, 4], and none for the optimiser.
std::shared_ptr<const Checkpoint> open(Context& t, const std::string& value, const OpenOptions& options = {},
                                       const std::string& config = "") {
  const auto folder = t.temp();
  write_file(folder / "checkpoint.pt", torch_zip(value, {{"0", kOne}, {"1", kTwo}}));
  if (!config.empty()) write_file(folder / "config.json", config);
  return Checkpoint::open(folder / "checkpoint.pt", options);
}

// What Adam keeps. Its storages are not in the file: nothing may look for them.
std::string optimiser() {
  const std::string moment = p::floats("gone", {1000});
  const std::string state = "}(" + p::integer(0) + p::dict({{"step", p::floats("step", {})}, {"exp_avg", moment}, {"exp_avg_sq", moment}}) + "u";
  return p::dict({{"state", state}, {"param_groups", p::list({p::dict({{"lr", p::real(0.1)}})})}});
}

}  // namespace

// B21: the model is found beside the optimiser; everything else is named, and nothing of it is read.
SLOTSCOPE_CASE(training_checkpoint) {
  const std::string value = p::dict({{"step", p::integer(100)},
                                     {"optimizer", optimiser()},
                                     {"model", p::ordered({{"w", p::floats("0", {2})}})},
                                     {"args", p::global("argparse", "Namespace") + ")\x81" + p::dict({{"lr", p::real(1)}}) + "b"},
                                     {"loss", p::real(0.5)}, {"name", p::text("run 7")}, {"none", p::none()}});
  const auto checkpoint = open(t, value);
  CHECK_EQ(names(*checkpoint), (std::vector<std::string>{"w"}));
  CHECK_EQ(all_values(*checkpoint, "w"), (Values{1, 2}));
  CHECK(any_has(checkpoint->notes(), "weights are read from 'model', 1 of 2 candidates"));
  CHECK(any_has(checkpoint->notes(), "'optimizer' (optimiser state, 3 tensors)"));
  const IgnoredItem* optimizer = ignored(*checkpoint, "optimizer");
  CHECK(optimizer && optimizer->bytes == 4000 + 4 && optimizer->why == "optimiser state, 3 tensors");
  CHECK(ignored(*checkpoint, "step") && ignored(*checkpoint, "step")->why == "the number 100");
  CHECK(ignored(*checkpoint, "args") && ignored(*checkpoint, "args")->why.find("argparse.Namespace") != std::string::npos);
  CHECK(ignored(*checkpoint, "loss") && ignored(*checkpoint, "name") && ignored(*checkpoint, "none"));
  CHECK_EQ(checkpoint->ignored().size(), size_t(6));
  CHECK_ERROR(open(t, value, {.weights = "optimizer"}), "optimiser state", "no weights");
  CHECK_ERROR(open(t, value, {.weights = "ema"}), "weights 'ema'", "'model'", "'optimizer'");
}

// Content decides before names: averages and small helpers come after the model.
SLOTSCOPE_CASE(candidates) {
  const std::string one = p::ordered({{"a.weight", p::floats("0", {2})}}), two = p::ordered({{"a.weight", p::floats("1", {2})}});
  const auto first = [&](const p::Pairs& pairs, const OpenOptions& options = {}) {
    return all_values(*open(t, p::dict(pairs), options), "a.weight")[0];
  };
  CHECK_EQ(first({{"ema", two}, {"model", one}}), 1.0);
  CHECK_EQ(first({{"model_ema", two}, {"net", one}}), 1.0);
  CHECK_EQ(first({{"ema", two}, {"model", one}}, {.weights = "ema"}), 3.0);
  CHECK_EQ(first({{"critic", two}, {"model", one}}), 1.0);
  CHECK_EQ(first({{"ema", two}, {"model", p::text("raven-small")}}), 3.0);  // the only one
  // 'model' holds one helper tensor, 'student' has the names of parameters.
  CHECK_EQ(first({{"model", p::dict({{"scale", p::floats("1", {2})}})}, {"student", one}}), 1.0);
  // Names of a known family count more than any key.
  const std::string family = p::dict({{"model.embeddings.weight", p::floats("0", {2})}});
  const auto raven = open(t, p::dict({{"model", two}, {"x", family}}));
  CHECK_EQ(names(*raven), (std::vector<std::string>{"model.embeddings.weight"}));
  // Loose tensors beside the model, and deeper nesting.
  CHECK_EQ(first({{"rng_state", p::floats("1", {2})}, {"module", p::dict({{"model", one}})}}), 1.0);
  CHECK_EQ(first({{"module", p::dict({{"model", one}})}}, {.weights = "module.model"}), 1.0);
  const auto loose = open(t, p::dict({{"model", one}, {"rng_state", p::floats("1", {2})}}));
  CHECK(!any_has(loose->notes(), "candidates"));
  CHECK(ignored(*loose, "rng_state") && ignored(*loose, "rng_state")->why == "state of random number generators" &&
        ignored(*loose, "rng_state")->bytes == 8);
  // Lists, single tensors, keys that are numbers.
  CHECK_EQ(names(*open(t, p::list({p::floats("0", {2}), p::floats("1", {2})}))), (std::vector<std::string>{"0", "1"}));
  CHECK_EQ(names(*open(t, p::floats("0", {2}))), (std::vector<std::string>{"tensor"}));
  CHECK_EQ(names(*open(t, "}" + p::integer(7) + p::floats("0", {2}) + "s")), (std::vector<std::string>{"7"}));
  CHECK_ERROR(open(t, optimiser()), "optimiser state", "no weights");
  CHECK_ERROR(open(t, p::dict({})), "no tensor in it");
  CHECK_ERROR(open(t, p::dict({{"w", p::floats("0", {2})}, {"w", p::floats("1", {2})}})), "tensor 'w'", "appears twice");
  CHECK_ERROR(open(t, p::dict({{"a\xff", p::floats("0", {2})}})), "byte 1 of its name", "UTF-8");
  CHECK_ERROR(open(t, p::dict({{"w", p::call(p::global("numpy.core.multiarray", "_reconstruct"), {p::none()})}})), "NumPy");
  // A weights dict may hold what is no tensor.
  const auto extra = open(t, p::dict({{"a.weight", p::floats("0", {2})}, {"a._extra_state", p::none()}}));
  CHECK(extra->tensors().size() == 1 && ignored(*extra, "a._extra_state"));
}

// Thousands of references to one large part of a checkpoint cost one walk, and a part that holds itself ends.
SLOTSCOPE_CASE(shared_parts) {
  std::string value = "}(" + p::text("model") + p::ordered({{"w", p::floats("0", {2})}});
  value += p::text("big") + "]q\x01(";
  for (int i = 0; i < 20000; ++i) value += "K\x01";
  value += "e";
  for (int i = 0; i < 3000; ++i) value += p::text("k" + std::to_string(i)) + "h\x01";
  const auto checkpoint = open(t, value + "u");
  CHECK_EQ(checkpoint->tensors().size(), size_t(1));
  CHECK(checkpoint->ignored().size() > 100 && checkpoint->ignored().size() < 300);
  const auto cycle = open(t, "}q\x01(" + p::text("self") + "h\x01" + p::text("w") + p::floats("0", {2}) + "u");
  CHECK_EQ(names(*cycle), (std::vector<std::string>{"w"}));
}

// Long texts that many entries share, and many parts below one long key: time and memory stay those of the file's size.
SLOTSCOPE_CASE(long_shared_texts) {
  const std::string text = p::text(std::string(1 << 20, 'k')) + "q\x01" "0";
  std::string keys = text + "}(";
  for (int i = 0; i < 20'000; ++i) keys += "h\x01N";
  CHECK_ERROR(open(t, keys + "u"), "no tensor in it");
  CHECK_EQ(names(*open(t, keys + p::text("w") + p::floats("0", {2}) + "u")), (std::vector<std::string>{"w"}));
  // Every part is a dict with a tensor, all of them below the long key.
  std::string parts = text + p::floats("0", {2}) + "q\x02" "0}(h\x01}(";
  for (int i = 0; i < 20'000; ++i) parts += p::text(std::to_string(i)) + "}" + p::text("w") + "h\x02s";
  CHECK_ERROR(open(t, parts + "uu"), "under no key that could be a name");
  // One long storage key in many references.
  std::string storages = text + "}(";
  for (int i = 0; i < 2000; ++i)
    storages += p::text("w" + std::to_string(i)) + p::tensor(p::tuple({p::text("storage"), p::global("torch", "FloatStorage"), "h\x01", p::none(), p::integer(2)}) + "Q", 0, {2}, {1});
  CHECK_ERROR(open(t, storages + "u"), "a key of 1,048,576 bytes");
  std::string wrapped;
  for (int i = 0; i < 50'000; ++i) wrapped += "module.";
  CHECK_EQ(open(t, p::dict({{wrapped + "w", p::floats("0", {2})}}))->tensors()[0].name.size(), wrapped.size() - 4 * 7 + 1);
}

// A prefix goes only when that makes names match.
SLOTSCOPE_CASE(wrapper_prefixes) {
  const auto stripped = [&](const std::vector<std::string>& stored, const std::string& config = "") {
    p::Pairs pairs;
    for (const auto& name : stored) pairs.push_back({name, p::floats("0", {2})});
    return names(*open(t, p::dict({{"state_dict", p::ordered(pairs)}}), {}, config));
  };
  using Names = std::vector<std::string>;
  CHECK_EQ(stripped({"module.model.embeddings.weight", "module.lm_head.weight"}), (Names{"lm_head.weight", "model.embeddings.weight"}));
  CHECK_EQ(stripped({"model.model.embeddings.weight", "model.lm_head.weight"}), (Names{"lm_head.weight", "model.embeddings.weight"}));
  CHECK_EQ(stripped({"_orig_mod.module.model.embeddings.weight", "_orig_mod.module.lm_head.weight"}),
           (Names{"lm_head.weight", "model.embeddings.weight"}));
  CHECK_EQ(stripped({"net.gpt_neox.embed_in.weight", "net.embed_out.weight"}), (Names{"embed_out.weight", "gpt_neox.embed_in.weight"}));
  CHECK_EQ(stripped({"model.layers.0._orig_mod.w", "model.embed_tokens.weight"}), (Names{"model.embed_tokens.weight", "model.layers.0.w"}));
  CHECK_EQ(stripped({"module.w", "module.v"}), (Names{"v", "w"}));  // nothing to compare with: DataParallel's own prefix
  // No match: names stay as they are.
  CHECK_EQ(stripped({"model.w", "model.v"}), (Names{"model.v", "model.w"}));
  CHECK_EQ(stripped({"model.embeddings.weight", "model.norm.weight"}), (Names{"model.embeddings.weight", "model.norm.weight"}));
  CHECK_EQ(stripped({"module.w", "v"}), (Names{"module.w", "v"}));
  CHECK_EQ(stripped({"module.model.embeddings.weight", "lm_head.weight"}), (Names{"lm_head.weight", "module.model.embeddings.weight"}));
  CHECK_EQ(stripped({"a._orig_mod.w", "a.w"}), (Names{"a._orig_mod.w", "a.w"}));  // would make two equal names
  // config.json says which names count: for llama this is no embedding, so only "module." goes.
  CHECK_EQ(stripped({"net.model.embeddings.weight"}, R"({"model_type":"llama"})"), (Names{"net.model.embeddings.weight"}));
  CHECK_EQ(stripped({"net.model.embeddings.weight"}, R"({"model_type":"raven"})"), (Names{"model.embeddings.weight"}));
  const auto checkpoint = open(t, p::dict({{"module.w", p::floats("0", {2})}}));
  CHECK(any_has(checkpoint->notes(), "prefix 'module.' was removed"));
}

// Folders: safetensors first, then the usual .bin names, then a single other file.
SLOTSCOPE_CASE(folders) {
  const auto folder = t.temp();
  const std::string bin = torch_zip(p::dict({{"w", p::floats("0", {2})}}), {{"0", kOne}});
  write_file(folder / "weights.pt", bin);
  write_file(folder / "optimizer.pt", torch_zip(optimiser(), {}));
  write_file(folder / "training_args.bin", "x");
  write_file(folder / "notes.bin", "some text");
  auto checkpoint = Checkpoint::open(folder);
  CHECK_EQ(all_values(*checkpoint, "w"), (Values{1, 2}));
  CHECK(any_has(checkpoint->notes(), "weights read from weights.pt"));
  CHECK(ignored(*checkpoint, "optimizer.pt") && ignored(*checkpoint, "optimizer.pt")->why == "optimiser state");
  CHECK(ignored(*checkpoint, "training_args.bin") && ignored(*checkpoint, "training_args.bin")->bytes == 1);
  write_file(folder / "other.pth", bin);
  CHECK_ERROR(Checkpoint::open(folder), "2 torch.save files: other.pth, weights.pt");
  write_file(folder / "pytorch_model.bin", torch_zip(p::dict({{"w", p::floats("0", {2})}}), {{"0", kTwo}}));
  checkpoint = Checkpoint::open(folder);
  CHECK_EQ(all_values(*checkpoint, "w"), (Values{3, 4}));
  CHECK(ignored(*checkpoint, "other.pth"));
  write_file(folder / "model.safetensors", zeros_file({{"w", {2}}}, 9));
  checkpoint = Checkpoint::open(folder);
  CHECK_EQ(all_values(*checkpoint, "w"), (Values{9, 9}));
  CHECK(checkpoint->format() == FileFormat::safetensors);
  CHECK(ignored(*checkpoint, "pytorch_model.bin") &&
        ignored(*checkpoint, "pytorch_model.bin")->why == "the safetensors files are read");
  const auto distributed = t.temp();
  write_file(distributed / ".metadata", "x");
  write_file(distributed / "__0_0.distcp", "x");
  CHECK_ERROR(Checkpoint::open(distributed), "distributed checkpoint", "dcp_to_torch_save");
  const auto zero = t.temp();
  write_file(zero / "zero_to_fp32.py", "x");
  CHECK_ERROR(Checkpoint::open(zero), "DeepSpeed", "zero_to_fp32.py");
}

// Shards with their index, of both forms; the same rules as for safetensors.
SLOTSCOPE_CASE(sharded) {
  const auto folder = t.temp();
  const std::string one = "pytorch_model-00001-of-00002.bin", two = "pytorch_model-00002-of-00002.bin";
  write_file(folder / one, torch_zip(p::ordered({{"module.a", p::floats("0", {2})}, {"module.b", p::floats("0", {2})}}), {{"0", kOne}}));
  write_file(folder / two, torch_legacy(p::ordered({{"module.c", p::floats("0", {2}, true)}}), {{"0", {2, kTwo}}}));
  CHECK_ERROR(Checkpoint::open(folder), "pytorch_model.bin.index.json", "missing", one);
  json index = {{"metadata", {{"total_size", 16}}}, {"weight_map", {{"module.a", one}, {"module.b", one}, {"module.c", two}}}};
  const auto write_index = [&] { write_file(folder / "pytorch_model.bin.index.json", index.dump()); };
  write_index();
  const auto check = [&](const std::filesystem::path& path, const OpenOptions& options) {
    const auto checkpoint = Checkpoint::open(path, options);
    CHECK_EQ(names(*checkpoint), (std::vector<std::string>{"a", "b", "c"}));
    CHECK_EQ(all_values(*checkpoint, "b"), (Values{1, 2}));
    CHECK_EQ(all_values(*checkpoint, "c"), (Values{3, 4}));
    CHECK_EQ(checkpoint->find("b")->shares_with, std::string("a"));
    CHECK_EQ(checkpoint->find("c")->shares_with, std::string());
    CHECK_EQ(checkpoint->total_bytes(), uint64_t(16));
    CHECK(!any_has(checkpoint->notes(), "total_size"));
  };
  check(folder, {});
  check(folder / "pytorch_model.bin.index.json", {});
  check(folder, {.ignore_index = true});
  index["weight_map"]["module.c"] = one;
  write_index();
  CHECK_ERROR(Checkpoint::open(folder), "tensor 'module.c'", "mapped to " + one, "--ignore-index");
  index["weight_map"]["module.c"] = "pytorch_model-00003-of-00003.bin";
  write_index();
  CHECK_ERROR(Checkpoint::open(folder), "pytorch_model-00003-of-00003.bin (1 tensor)", one);
}
