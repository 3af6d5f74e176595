#include "core/sweep/sweep.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "core/analysis/sweep.h"
#include "core/error.h"
#include "core/fields.h"
#include "core/formats/checkpoint.h"
#include "core/formats/sha256.h"
#include "core/formats/sweep_prompts.h"
#include "core/trace/file_lock.h"

namespace slotscope::sweep {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string now() {
  const std::time_t t = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&t, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// "0:41", "2:03:10".
std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  char text[48];
  if (s < 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

// The engine reports the stages of one prompt to a progress of its own; only the cancel is passed on to it.
class CancelRelay {
 public:
  CancelRelay(const Progress& outer, Progress& inner)
      : thread_([this, &outer, &inner] {
          while (!stop_) {
            if (outer.cancel_requested()) inner.request_cancel();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~CancelRelay() {
    stop_ = true;
    thread_.join();
  }
  CancelRelay(const CancelRelay&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// SHA-256 over name, dtype, shape and the first values of every tensor: tells a retrained checkpoint from the one that was run, without
// reading gigabytes.
std::string weights_digest(const formats::Checkpoint& checkpoint) {
  constexpr uint64_t kValues = 256;
  formats::Sha256 sum;
  for (const formats::TensorInfo& tensor : checkpoint.tensors()) {
    std::string head = tensor.name + " " + tensor.dtype_text;
    uint64_t count = 1;
    for (const int64_t n : tensor.shape) head += " " + std::to_string(n), count *= uint64_t(n);
    sum.add(head + "\n");
    if (count == 0 || formats::dtype_bits(tensor.dtype) < 8) continue;
    const formats::TensorData data = checkpoint.slice(tensor, 0, std::min(count, kValues));
    sum.add({reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()});
  }
  return sum.hex();
}

std::string last_name(const fs::path& folder) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(folder, error);
  if (error) whole = folder.lexically_normal();
  if (whole.has_filename()) return whole.filename().string();
  return whole.parent_path().filename().string();
}

std::vector<int32_t> eos_ids(const nlohmann::json* config) {
  std::vector<int32_t> ids;
  if (!config || !config->contains("eos_token_id")) return ids;
  const auto& value = config->at("eos_token_id");
  for (const auto& id : value.is_array() ? value : nlohmann::json::array({value}))
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  return ids;
}

struct Source {
  std::string folder;
  std::shared_ptr<const formats::Checkpoint> checkpoint;
  std::shared_ptr<const formats::Tokenizer> tokenizer;
  engine::ModelInfo info;
  std::vector<int32_t> eos;     // eos_token_id of config.json, as the engine stops at
  trace::SweepModel described;  // without rows
  size_t place = 0;             // in Sweep::models
};

class Runner {
 public:
  Runner(const Request& request, Progress& progress) : request_(request), progress_(progress), started_(Clock::now()) {}

  Outcome run() {
    check();
    std::vector<std::string> lock_warnings;
    const fs::path lock_file = request_.out.string() + ".lock";
    const trace::FileLock lock(lock_file, lock_warnings);
    const struct Remove {
      const fs::path& file;
      ~Remove() {
        std::error_code ignored;
        fs::remove(file, ignored);  // while the lock is still held
      }
    } remove{lock_file};
    take(outcome_.warnings, lock_warnings);
    load_file();
    for (const std::string& folder : request_.folders) open(folder);
    name_models();
    for (Source& source : sources_) place_model(source);
    count();
    progress_.begin_stage("sweep", outcome_.total);
    progress_.set(outcome_.kept);
    save(true);
    try {
      for (Source& source : sources_)
        if (!outcome_.cancelled) run_model(source);
    } catch (...) {
      save(true);  // what was done before the error is kept
      throw;
    }
    finish();
    return std::move(outcome_);
  }

 private:
  static void take(std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const auto& line : from)
      if (std::find(to.begin(), to.end(), line) == to.end()) to.push_back(line);
  }

  void check() const {
    const auto& s = request_.settings;
    const auto refuse = [](const char* item, const std::string& found, const char* expected) {
      throw Error({.item = item, .found = found, .expected = expected}, Error::Kind::usage);
    };
    if (request_.folders.empty()) refuse("FOLDER", "none given", "one or more checkpoint folders");
    if (s.task != "passkey") refuse("--task", "'" + s.task + "'", "passkey");
    if (s.lengths.empty()) refuse("--lengths", "none", "numbers of tokens such as 256,512");
    if (s.length_counts != "prompt" && s.length_counts != "total") refuse("--length-counts", "'" + s.length_counts + "'", "prompt or total");
    if (s.prompts < 1) refuse("--seeds", std::to_string(s.prompts), "at least 1");
    std::error_code ignored;
    const fs::path folder = request_.out.has_parent_path() ? request_.out.parent_path() : fs::path(".");
    if (request_.out.filename().empty() || fs::is_directory(request_.out, ignored))
      throw Error({.file = request_.out.string(), .found = "this is a folder", .expected = "the name of a file to write",
                   .advice = "Add a file name, such as sweep.h5"});
    if (!fs::is_directory(folder, ignored))
      throw Error({.file = request_.out.string(), .found = "the folder " + folder.string() + " does not exist",
                   .advice = "Create it or choose another --out"});
  }

  trace::SweepSettings settings() const {
    trace::SweepSettings s = request_.settings;
    s.device = request_.load.device.substr(0, request_.load.device.find(':'));
    s.dtype = request_.load.dtype;
    s.router_dtype = request_.load.router_dtype;
    s.tf32 = request_.load.tf32;
    return s;
  }

  void load_file() {
    trace::Sweep& sweep = outcome_.sweep;
    std::error_code ignored;
    if (!request_.force && fs::exists(request_.out, ignored)) {
      sweep = trace::read_sweep(request_.out);
      if (const std::string differs = difference(settings(), sweep.settings); !differs.empty()) {
        const size_t colon = differs.find(": "), comma = differs.rfind(", the file has ");
        throw Error({.file = request_.out.string(), .item = differs.substr(0, colon), .found = differs.substr(colon + 2, comma - colon - 2),
                     .expected = differs.substr(comma + 15) + ", with which this sweep was begun",
                     .advice = "Give the same value, another --out, or --force to start again"},
                    Error::Kind::usage);
      }
      return;
    }
    sweep.settings = settings();
    sweep.created = now();
  }

  void open(const std::string& folder) {
    Source s{.folder = folder};
    s.checkpoint = formats::Checkpoint::open(folder, {.ignore_index = request_.ignore_index, .weights = request_.weights});
    s.info = engine::inspect(*s.checkpoint, request_.load.flavour);
    s.tokenizer = formats::Tokenizer::load(s.checkpoint->folder());
    if (!s.tokenizer)
      throw Error({.file = folder, .item = "tokenizer", .found = "the folder has none", .expected = "a tokenizer to write the prompts with"});
    s.eos = eos_ids(s.checkpoint->config());
    const std::string name = last_name(s.checkpoint->folder());
    if (s.eos.empty()) outcome_.notes.push_back(name + ": no eos_token_id in config.json: an answer is exact without <eos>");
    for (const auto& text : s.info.warnings) outcome_.warnings.push_back(name + ": " + text);
    trace::SweepModel& m = s.described;
    m.checkpoint = folder;
    m.model_type = s.info.model_type, m.family = s.info.family, m.flavour = s.info.flavour;
    m.config_json = s.info.config_json;
    m.device = request_.load.device;
    m.tensor_digest = s.info.tensor_digest;
    m.weights_digest = weights_digest(*s.checkpoint);
    describe_layers(s);
    sources_.push_back(std::move(s));
  }

  void describe_layers(Source& s) const {
    std::vector<int> chosen;
    const int count = int(s.info.layers.size());
    if (!request_.settings.layers.empty()) chosen = parse_index_list(request_.settings.layers, "--layers", count);
    for (const auto& layer : s.info.layers) {
      if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), layer.index) == chosen.end()) continue;
      trace::SweepLayer l{.index = layer.index, .family = layer.mixer, .route_kind = layer.route_kind, .route_heads = layer.route_heads,
                          .slots = layer.slots, .top_k = layer.top_k};
      const bool known = l.route_kind == "sparse" || l.route_kind == "dense" || l.route_kind == "ring" || l.route_kind == "append";
      if (!known) l.why = layer.mixer + " has no slots";
      s.described.layers.push_back(std::move(l));
    }
  }

  // Names are those of the folders; where two are equal, with the folder above.
  void name_models() {
    std::set<std::string> folders, names;
    for (Source& s : sources_) {
      std::error_code error;
      const fs::path whole = fs::weakly_canonical(s.folder, error);
      if (!folders.insert(whole.string()).second)
        throw Error({.item = "FOLDER", .found = s.folder + " given twice", .expected = "each model once"}, Error::Kind::usage);
      const auto own = [](const Source& o) { return last_name(o.checkpoint->folder()); };
      const std::string name = own(s);
      const auto same = std::count_if(sources_.begin(), sources_.end(), [&](const Source& o) { return own(o) == name; });
      s.described.name = same > 1 ? last_name(whole.parent_path()) + "/" + name : name;
      if (!names.insert(s.described.name).second) s.described.name = s.folder;
    }
  }

  void place_model(Source& s) {
    auto& models = outcome_.sweep.models;
    const auto at = std::find_if(models.begin(), models.end(), [&](const auto& m) { return m.name == s.described.name; });
    s.place = size_t(at - models.begin());
    if (at == models.end()) {
      models.push_back(s.described);
      return;
    }
    const auto other = [&](const char* what, const std::string& found, const std::string& stored) {
      if (found == stored) return;
      throw Error({.file = request_.out.string(), .item = "model " + s.described.name,
                   .found = std::string("another ") + what + " than when this sweep was begun", .expected = "the same checkpoint",
                   .advice = "Choose another --out, or --force to start again"});
    };
    other("architecture", s.described.tensor_digest, at->tensor_digest);
    other("content of its weights", s.described.weights_digest, at->weights_digest);
    other("config.json", s.described.config_json, at->config_json);
    other("flavour", s.described.flavour, at->flavour);
    if (s.described.heads() != at->heads()) other("list of layers", "now", "then");
  }

  void count() {
    outcome_.total = int64_t(sources_.size()) * outcome_.sweep.settings.total();
    for (const Source& s : sources_) outcome_.kept += int64_t(outcome_.sweep.models[s.place].rows.size());
    for (const Source& s : sources_)
      for (const auto& cell : missing(outcome_.sweep.models[s.place])) tokens_left_ += double(length_of(cell));
  }

  using Cell = std::tuple<int64_t, int64_t, int64_t>;  // length, depth, number
  int64_t length_of(const Cell& cell) const { return outcome_.sweep.settings.lengths[size_t(std::get<0>(cell))]; }

  std::vector<Cell> missing(const trace::SweepModel& model) const {
    std::set<Cell> done;
    for (const auto& row : model.rows) done.insert({row.length, row.depth, row.number});
    const auto& s = outcome_.sweep.settings;
    std::vector<Cell> cells;
    for (int64_t length = 0; length < int64_t(s.lengths.size()); ++length)
      for (int64_t depth = 0; depth < std::max<int64_t>(1, int64_t(s.depths.size())); ++depth)
        for (int64_t number = 0; number < s.prompts; ++number)
          if (!done.contains({length, depth, number})) cells.emplace_back(length, depth, number);
    return cells;
  }

  void run_model(Source& s) {
    trace::SweepModel& model = outcome_.sweep.models[s.place];
    const auto cells = missing(model);
    if (cells.empty()) return;
    progress_.set_detail(model.name + ", loading weights");
    std::unique_ptr<engine::Model> loaded;
    try {
      Progress inner;
      const CancelRelay relay(progress_, inner);
      loaded = engine::Model::load(s.checkpoint, request_.load, inner);
    } catch (const Error&) {
      if (!progress_.cancel_requested()) throw;  // a load that was stopped says so by an error
      outcome_.cancelled = true;
      return;
    }
    for (const Cell& cell : cells) {
      if (progress_.cancel_requested() || !run_prompt(s, *loaded, model, cell)) {
        outcome_.cancelled = true;
        return;
      }
      progress_.add(1);
      ++outcome_.run;
      save(false);
    }
  }

  formats::SweepPrompt prompt_of(const Source& s, const Cell& cell) const {
    const auto& set = outcome_.sweep.settings;
    formats::SweepPromptOptions o{.length = length_of(cell), .total = set.length_counts == "total", .seed = set.seed,
                                  .number = std::get<2>(cell), .haystack = set.haystack, .add_special = set.bos};
    if (!set.depths.empty()) o.depth = set.depths[size_t(std::get<1>(cell))];
    auto made = formats::make_sweep_prompt(*s.tokenizer, o);
    for (const int32_t id : made.prompt.ids)
      if (id < 0 || id >= s.info.vocab_rows)
        throw Error({.file = s.folder, .item = "tokenizer", .found = "token id " + std::to_string(id),
                     .expected = "ids below " + std::to_string(s.info.vocab_rows) + " (rows of the embedding)"});
    return made;
  }

  // False: cancelled.
  bool run_prompt(const Source& s, engine::Model& loaded, trace::SweepModel& model, const Cell& cell) {
    const auto& set = outcome_.sweep.settings;
    formats::SweepPrompt made = prompt_of(s, cell);
    engine::RunOptions options;
    for (const auto& layer : model.layers)
      if (layer.why.empty() && layer.route_kind == "sparse") options.plan.layers.push_back(layer.index);
    if (!options.plan.layers.empty()) options.plan.fields = {"route_index", "route_weight", "write_strength", "esl"};
    options.plan.state_at = "none";
    options.segment = request_.segment;
    options.max_gpu_mem = request_.max_gpu_mem;
    options.generate = int64_t(made.prompt.answer_ids.size()) + (s.eos.empty() ? 0 : 1);
    options.unused_rows = true;  // "the arg max" is that of all rows
    progress_.set_detail(model.name + ", " + std::to_string(length_of(cell)) + " tokens" + time_left());
    trace::MemorySink sink;
    engine::RunOutcome out;
    {
      Progress inner;
      const CancelRelay relay(progress_, inner);
      out = loaded.run({made.prompt}, s.tokenizer.get(), options, sink, inner);
    }
    for (const auto& text : out.warnings) take(outcome_.warnings, {model.name + ": " + text});
    if (out.status != trace::Status::complete) return false;
    const auto& run = out.runs.at(0);
    trace::SweepRow row{.length = std::get<0>(cell), .depth = std::get<1>(cell), .number = std::get<2>(cell), .seed = made.seed,
                        .digest = made.digest, .haystack = made.haystack, .place = made.place,
                        .prompt_tokens = int64_t(made.prompt.ids.size()), .tokens = run.tokens,
                        .answer_tokens = options.generate, .seconds = out.seconds, .answer = made.prompt.answer,
                        .output = run.output_text, .output_ids = run.output_ids};
    row.right = right_tokens(made.prompt.answer_ids, run.output_ids, s.eos);
    row.exact = row.right == row.answer_tokens;
    row.heads = analysis::sweep_heads(sink, 0, model, {.threshold = set.threshold, .tau = set.tau});
    model.rows.push_back(std::move(row));
    tokens_done_ += double(length_of(cell));
    return true;
  }

  // Answer tokens in their places, then <eos>. Greedy generation stops at <eos>, and until the first wrong token it feeds what teacher
  // forcing would, so "all of the answer and <eos> are the arg max" is the same as "all were generated".
  static int64_t right_tokens(const std::vector<int32_t>& answer, const std::vector<int32_t>& output, const std::vector<int32_t>& eos) {
    size_t right = 0;
    while (right < answer.size() && right < output.size() && output[right] == answer[right]) ++right;
    if (right < answer.size() || output.size() <= answer.size()) return int64_t(right);
    return int64_t(right) + (std::find(eos.begin(), eos.end(), output[right]) != eos.end());
  }

  std::string time_left() const {
    const double seconds = since(started_);
    if (tokens_done_ <= 0 || seconds < 1) return "";
    return ", " + clock_text(seconds / tokens_done_ * std::max(0.0, tokens_left_ - tokens_done_)) + " left";
  }

  void save(bool at_once) {
    const double wait = request_.save_seconds > 0 ? std::max(request_.save_seconds, 20 * save_took_) : 0;
    if (!at_once && since(saved_) < wait) return;
    const auto begun = Clock::now();
    trace::write_sweep(outcome_.sweep, request_.out);
    save_took_ = since(begun);
    saved_ = Clock::now();
  }

  void finish() {
    trace::Sweep& sweep = outcome_.sweep;
    const bool all = std::all_of(sweep.models.begin(), sweep.models.end(),
                                 [&](const auto& m) { return int64_t(m.rows.size()) == sweep.settings.total(); });
    sweep.status = all ? trace::Status::complete : outcome_.cancelled ? trace::Status::cancelled : trace::Status::partial;
    save(true);
    outcome_.seconds = since(started_);
  }

  const Request& request_;
  Progress& progress_;
  Clock::time_point started_, saved_ = Clock::now();
  double save_took_ = 0, tokens_left_ = 0, tokens_done_ = 0;
  std::vector<Source> sources_;
  Outcome outcome_;
};

}  // namespace

Outcome run(const Request& request, Progress& progress) { return Runner(request, progress).run(); }

}  // namespace slotscope::sweep
