// Bad requests, missing devices, broken models, cancel, memory: every message names what to do (spec:
// bad-inputs B26-B28, B40, B41).
#include <atomic>
#include <charconv>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

std::unique_ptr<engine::Model> load_tiny(Context& t, const TinyCheckpoint& c,
                                         const std::string& dtype = "float32") {
  const auto folder = t.temp();
  c.write(folder);
  return load_model(folder, dtype, t.device());
}

// Asks for a cancel as soon as `after` tokens are done.
class CancellingSink : public trace::MemorySink {
 public:
  CancellingSink(Progress& progress, int64_t after) : progress_(progress), after_(after) {}
  void tokens_done(int run, int64_t n) override {
    MemorySink::tokens_done(run, n);
    if (n >= after_) progress_.request_cancel();
  }

 private:
  Progress& progress_;
  int64_t after_;
};

// A disk that fills up.
class FailingSink : public trace::MemorySink {
 public:
  void append(int run, int dataset, int64_t rows, std::vector<std::byte> data) override {
    if (++calls_ > 30) throw Error({.file = "trace.h5", .item = "write", .found = "disk full"});
    MemorySink::append(run, dataset, rows, std::move(data));
  }

 private:
  int calls_ = 0;
};

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

SLOTSCOPE_CASE(devices_and_dtypes) {
  std::string why;
  const auto found = engine::devices(&why);
  CHECK_EQ(found.front().name, std::string("cpu"));
  CHECK(found.front().total_bytes > 0 && found.front().free_bytes > 0);
  if (found.size() == 1) CHECK(!why.empty());
  const auto golden = t.data("golden/models/raven_fla_default");
  CHECK_ERROR(load_model(golden, "float32", "cuda:77"), "cuda:77", "cpu");
  for (const auto& device : found) CHECK_ERROR(load_model(golden, "float32", "cuda:77"), device.name);
  CHECK_ERROR(load_model(golden, "float32", "gpu"), "--device", "gpu", "cuda:N");
  CHECK_ERROR(load_model(golden, "float32", "cuda:x"), "cuda:x");
  CHECK_ERROR(load_model(golden, "float32", "cuda:-1"), "cuda:-1");
  CHECK_ERROR(load_model(golden, "float16"), "float16", "bfloat16");
  CHECK_ERROR(load_model(golden, "float32", "cpu", "", "bf16"), "--router-dtype", "bfloat16");
  CHECK_ERROR(load_model(golden, "float32", "cpu", "other"), "other");
  if (found.size() == 1) CHECK_ERROR(load_model(golden, "float32", "cuda"), "cuda", "--device cpu");
}

SLOTSCOPE_CASE(prompts_that_cannot_run) {
  const auto model = load_model(t.data("golden/models/raven_fla_default"));
  CHECK_ERROR(run_ids(*model, {}, capture("")), "no tokens");
  CHECK_ERROR(run_prompts(*model, {}, capture("")), "prompt");
  CHECK_ERROR(run_ids(*model, {1, 2, 53}, capture("")), "token 2", "53", "52");
  CHECK_ERROR(run_ids(*model, {-1}, capture("")), "token 0", "-1");
  CHECK_ERROR(run_prompts(*model, {ids_prompt({1}), ids_prompt({99})}, capture("")), "prompt 1", "99");
  const auto with = [&](auto change) {
    engine::RunOptions options = capture("route,read_weight,state_k");
    change(options);
    return run_ids(*model, {1, 2, 3}, options);
  };
  CHECK_ERROR(with([](auto& o) { o.stop_after = 2; }), "--stop-after", "2", "0 to 1");
  CHECK_ERROR(with([](auto& o) { o.stop_after = 0, o.generate = 1; }), "--generate");
  CHECK_ERROR(with([](auto& o) { o.segment = -1; }), "--segment");
  CHECK_ERROR(with([](auto& o) { o.temperature = -1; }), "--temperature");
  CHECK_ERROR(with([](auto& o) { o.temperature = NAN; }), "--temperature");
  CHECK_ERROR(with([](auto& o) { o.top_p = 0; }), "--top-p");
  CHECK_ERROR(with([](auto& o) { o.plan.layers = {2}; }), "--layers", "0 to 1");
  CHECK_ERROR(with([](auto& o) { o.plan.heads = {4}; }), "--heads", "0 to 3");
  CHECK_ERROR(with([](auto& o) { o.plan.state_at = "3"; }), "--state-at", "3");
  CHECK_ERROR(with([](auto& o) { o.plan.state_at = "x"; }), "--state-at", "x");
  CHECK_ERROR(with([](auto& o) { o.plan.read_at = "5"; }), "--read-at");
  CHECK_ERROR(with([](auto& o) { o.plan.store = "int8"; }), "--store");
}

// B27: tied flag without a head, a missing head that is not tied, tied with another head.
SLOTSCOPE_CASE(tied_embeddings) {
  TinyCheckpoint tied = TinyCheckpoint::raven({{"tie_word_embeddings", true}});
  const auto model = load_tiny(t, tied, "float64");
  CHECK(model->info().tied);
  TinyCheckpoint explicit_head = tied;
  explicit_head.config["tie_word_embeddings"] = false;
  explicit_head.tensors["lm_head.weight"] = tied.tensors["model.embeddings.weight"];
  const auto ids = some_ids(9, 53);
  const auto a = run_ids(*model, ids, capture("logits"))->values("output/logits");
  CHECK_CLOSE(
      worst(
          a,
          run_ids(*load_tiny(t, explicit_head, "float64"), ids, capture("logits"))->values("output/logits")),
      0, 0);

  TinyCheckpoint missing = TinyCheckpoint::raven();
  missing.tensors.erase("lm_head.weight");
  CHECK_ERROR(load_tiny(t, missing), "lm_head.weight");

  TinyCheckpoint other = tied;
  other.tensors["lm_head.weight"] = TinyCheckpoint::raven().tensors["lm_head.weight"];
  const auto warned = load_tiny(t, other, "float64");
  CHECK(!warned->info().warnings.empty());
  CHECK_CLOSE(worst(a, run_ids(*warned, ids, capture("logits"))->values("output/logits")), 0, 0);
}

// B26, B28: unknown model type, shapes that disagree with the config, layer lists that name no layer.
SLOTSCOPE_CASE(configs_that_cannot_be_honoured) {
  TinyCheckpoint c = TinyCheckpoint::raven();
  c.config["model_type"] = "llamoid";
  CHECK_ERROR(load_tiny(t, c), "llamoid", "raven");
  c = TinyCheckpoint::raven();
  c.config["num_slots"] = 16;
  CHECK_ERROR(load_tiny(t, c), "r_proj.weight", "32", "64");
  c = TinyCheckpoint::raven();
  c.config["attn"] = {{"layers", {24}}, {"num_heads", 4}};
  CHECK_ERROR(load_tiny(t, c), "layers", "24");
  c = TinyCheckpoint::raven();
  c.config["router_alpha"] = 4;
  CHECK_ERROR(load_tiny(t, c), "router_alpha");
}

// Weights with NaN: the run says from which token on, and generation stops.
SLOTSCOPE_CASE(not_finite) {
  TinyCheckpoint c = TinyCheckpoint::raven();
  for (int i = 0; i < 32; ++i) c.tensors["model.embeddings.weight"].values[size_t(7 * 32 + i)] = NAN;
  const auto model = load_tiny(t, c);
  engine::RunOptions options = capture("route,logits,esl", 4);
  options.generate = 5;
  const auto run = run_ids(*model, {1, 2, 3, 4, 5, 6, 7, 8}, options);
  CHECK(run->outcome.runs[0].output_ids.empty());
  std::string notes, warnings;
  for (const auto& note : run->outcome.notes) notes += note + "\n";
  for (const auto& warning : run->outcome.warnings) warnings += warning + "\n";
  CHECK(warnings.find("token 6") != std::string::npos && warnings.find("not finite") != std::string::npos);
  CHECK(notes.find("generation stopped") != std::string::npos);
  CHECK_EQ(run->values("tokens/ids").size(), size_t(8));
}

// A cancel between segments: the sink holds whole segments, and the counters cover exactly them.
SLOTSCOPE_CASE(cancel_leaves_whole_segments) {
  const auto model = load_model(t.data("golden/models/raven_fla_default"), "float32", t.device());
  Progress progress;
  CancellingSink sink(progress, 24);
  engine::RunOptions options = capture("route,state_k,hidden,ties", 8);
  options.generate = 5;
  const auto outcome = model->run({ids_prompt(some_ids(80, 53)), ids_prompt(some_ids(8, 53))}, nullptr,
                                  options, sink, progress);
  CHECK(outcome.status == trace::Status::cancelled);
  CHECK(sink.status == trace::Status::cancelled);
  CHECK_EQ(sink.done[0], int64_t(24));
  CHECK_EQ(sink.done[1], int64_t(0));
  CHECK_EQ(sink.values(0, "layers/0/hidden").size(), size_t(24 * 32));
  CHECK_EQ(sum(sink.values(0, "layers/1/selected")), 24.0 * 4 * 3);
  // The state is the one after the last whole segment.
  CHECK_EQ(sink.values(0, "layers/0/state_token"), (std::vector<double>{23}));
  engine::RunOptions shorter = capture("state_k", 8);
  const auto ids = some_ids(80, 53);
  const auto part = run_ids(*model, {ids.begin(), ids.begin() + 24}, shorter);
  CHECK_EQ(sink.values(0, "layers/1/state_k"), part->values("layers/1/state_k"));
}

// A cancel in the middle of a segment is answered by the next layer, and nothing of the broken segment stays.
SLOTSCOPE_CASE(cancel_within_a_segment) {
  const auto model = load_model(t.resource("checkpoints/raven-passkey"), "float32", t.device());
  Progress progress;
  trace::MemorySink sink;
  std::atomic<bool> ended{false};
  std::chrono::steady_clock::time_point asked{};
  std::thread watcher([&] {
    while (!ended && progress.snapshot().detail != "layer 2 of 4")
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    asked = std::chrono::steady_clock::now();
    progress.request_cancel();
  });
  const auto outcome =
      model->run({ids_prompt(some_ids(40000, 256))}, nullptr, capture("route", 4000), sink, progress);
  const double answer = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count();
  ended = true;
  watcher.join();
  CHECK(outcome.status == trace::Status::cancelled);
  CHECK(sink.done[0] < 40000);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string group = "layers/" + std::to_string(layer) + "/";
    CHECK_EQ(int64_t(sink.values(0, group + "route_index").size()), sink.done[0] * 4 * 8);
    CHECK_EQ(sum(sink.values(0, group + "selected")), double(sink.done[0]) * 4 * 8);
  }
  CHECK(answer < 5);
  t.note("cancelled after " + std::to_string(sink.done[0]) + " tokens, " + std::to_string(answer) +
         " s after the request");
}

// What the sink throws ends the run: the sink is told it failed, and the caller gets the sink's own error.
SLOTSCOPE_CASE(sink_errors_end_the_run) {
  const auto model = load_model(t.data("golden/models/raven_fla_default"), "float32", t.device());
  FailingSink sink;
  Progress progress;
  CHECK_ERROR(model->run({ids_prompt(some_ids(80, 53))}, nullptr, capture("route", 8), sink, progress),
              "trace.h5", "disk full");
  CHECK(sink.status == trace::Status::failed);
}

// The estimate is what comes: file bytes to the byte where they can be known, memory that does not grow with
// the length.
SLOTSCOPE_CASE(estimate_is_honest) {
  const auto model = load_model(t.resource("checkpoints/raven-passkey"), "float32", t.device());
  const engine::RunOptions options = capture("route,log_decay,hidden,state_v", 128);
  const auto prompt = ids_prompt(some_ids(700, 256));
  const engine::Estimate e = model->estimate({prompt}, options);
  const auto run = run_prompts(*model, {prompt}, options);
  int64_t bytes = 0;
  for (const auto& d : run->sink.data[0]) bytes += int64_t(d.bytes.size());
  CHECK(e.file_bytes >= bytes);
  // Token bytes are planned with 4 a token and come with none here; prompt offsets take 16.
  CHECK(e.file_bytes <= bytes + 700 * 20 + 64);
  CHECK(e.fits && e.advice.empty());
  CHECK(e.memory_bytes > model->info().parameters * 4);
  const engine::Estimate longer = model->estimate({ids_prompt(some_ids(70000, 256))}, options);
  CHECK_EQ(longer.memory_bytes, e.memory_bytes);
  CHECK(longer.file_bytes > 90 * e.file_bytes);
  engine::RunOptions logits = options;
  logits.plan.fields.push_back("logits");
  CHECK(model->estimate({prompt}, logits).memory_bytes > e.memory_bytes);
}

// Too little memory: refused before anything starts, with a segment that fits.
SLOTSCOPE_CASE(too_little_memory) {
  const auto model = load_model(t.resource("checkpoints/raven-passkey"), "float32", t.device());
  engine::RunOptions options = capture("hidden");
  formats::Prompt prompt = ids_prompt(some_ids(1 << 20, 256));
  engine::Estimate e;
  for (int doubling = 0; doubling < 6; ++doubling) {
    options.segment = int64_t(prompt.ids.size());
    e = model->estimate({prompt}, options);
    if (!e.fits) break;
    const auto copy = prompt.ids;
    prompt.ids.insert(prompt.ids.end(), copy.begin(), copy.end());
  }
  if (e.fits) t.skip("this machine has room for 64 million tokens at once");
  CHECK(e.advice.starts_with("--segment "));
  int64_t smaller = 0;
  std::from_chars(e.advice.data() + 10, e.advice.data() + e.advice.size(), smaller);
  CHECK(smaller > 0);
  CHECK_ERROR(run_prompts(*model, {prompt}, options), "memory", "--segment", "MiB", "tokens");
  options.segment = smaller;
  CHECK(model->estimate({prompt}, options).fits);
}

// What the checkpoint panel shows of the bundled model.
SLOTSCOPE_CASE(model_info) {
  const auto info = engine::inspect(*formats::Checkpoint::open(t.resource("checkpoints/raven-passkey")));
  CHECK_EQ(info.model_type, std::string("raven"));
  CHECK_EQ(info.flavour, std::string("fla"));
  CHECK_EQ(info.card.router, std::string("top-8 of 64, sigmoid"));
  CHECK_EQ(info.card.content, std::string("k, v"));
  CHECK_EQ(info.card.decay, std::string("scalar per head x route (Mamba2)"));
  CHECK_EQ(info.card.readout, std::string("softmax over all slots"));
  CHECK_EQ(info.parameters, int64_t(4072480));  // training.json
  CHECK_EQ(info.layers.size(), size_t(4));
  CHECK_EQ(info.layers[0].slots, int64_t(64));
  CHECK_EQ(info.layers[0].state_bytes, int64_t(4 * 64 * 128 * 4));
  CHECK_EQ(info.tensor_digest.size(), size_t(64));
  const auto hybrid =
      engine::inspect(*formats::Checkpoint::open(t.data("golden/models/raven_fla_hybrid_list")));
  CHECK(std::any_of(hybrid.layers.begin(), hybrid.layers.end(),
                    [](const auto& l) { return l.mixer == "attention" && !l.note.empty(); }));
}
