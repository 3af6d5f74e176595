// Exact-match accuracy of password prompts over lengths, seeds and haystacks: what "the checkpoint answers its own prompts"
// means in numbers. One line per prompt goes to --out as it is known, so that a run that meets a time limit keeps its results
// and --resume goes on from there. An answer is exact when the greedy tokens are exactly KEY followed by <eos>.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "app/cli/console.h"
#include "app/cli/run_options.h"

namespace {

using namespace slotscope;

// Nothing is captured: the answer alone counts.
class NullSink : public trace::Sink {
 public:
  void begin(const trace::ModelSpec&, const std::vector<trace::RunSpec>&) override {}
  void append(int, int, int64_t, std::vector<std::byte>) override {}
  void write(int, int, std::vector<std::byte>) override {}
  void tokens_done(int, int64_t) override {}
  void set_spans(int, std::vector<Span>) override {}
  void set_exact(int, bool) override {}
  void finish(trace::Status) override {}
};

struct Settings {
  std::string checkpoint = "resources/checkpoints/raven-passkey", device = "cpu", dtype = "float32", router_dtype = "float32";
  std::string haystack_file = "tests/data/shakespeare-excerpt.txt", out = "passkey.csv";
  std::vector<int64_t> lengths = {256, 512, 1024, 2048};
  int64_t seeds = 25, first_seed = 0;
  bool resume = false;
};

struct Item {
  int64_t length = 0, seed = 0;
  bool noise = true;
  std::string id() const { return std::to_string(length) + "," + std::to_string(seed) + "," + (noise ? "noise" : "text"); }
};

// Half noise, half text: they alternate over seeds, and which comes first alternates over lengths, so that an odd number of
// seeds gives halves over an even number of lengths.
std::vector<Item> items(const Settings& s) {
  std::vector<Item> list;
  for (size_t l = 0; l < s.lengths.size(); ++l)
    for (int64_t i = 0; i < s.seeds; ++i) list.push_back({s.lengths[l], s.first_seed + i, (int64_t(l) + i) % 2 == 0});
  return list;
}

struct Tally {
  int64_t right = 0, all = 0, tokens = 0;
  double seconds = 0;
  void add(const Tally& t) { right += t.right, all += t.all, tokens += t.tokens, seconds += t.seconds; }
};
using Tallies = std::map<std::pair<int64_t, bool>, Tally>;

// What an earlier run wrote, by Item::id(): "length,seed,haystack,exact,tokens,seconds,answer,expected". A last line that was
// cut in writing has no newline and does not count.
std::map<std::string, std::string> read_results(const std::string& path) {
  std::map<std::string, std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    size_t comma = std::string::npos, at = 0;
    for (int i = 0; i < 3 && (comma = line.find(',', at)) != std::string::npos; ++i) at = comma + 1;
    if (comma != std::string::npos && line.rfind("length", 0) != 0) lines[line.substr(0, comma)] = line;
  }
  return lines;
}

void tally(Tallies& tallies, const Item& item, const std::string& line) {
  std::stringstream rest(line.substr(item.id().size() + 1));
  char comma = 0;
  Tally one{.all = 1};
  rest >> one.right >> comma >> one.tokens >> comma >> one.seconds;
  tallies[{item.length, item.noise}].add(one);
}

std::string run_one(engine::Model& model, const formats::Tokenizer& tokenizer, const Settings& s, const Item& item) {
  formats::PasskeyOptions options;
  options.length = item.length;
  options.seed = uint64_t(item.seed);
  options.haystack = item.noise ? "noise" : s.haystack_file;
  const auto prompt = formats::make_passkey(tokenizer, options);
  NullSink sink;
  Progress progress;
  const auto outcome = model.run({prompt}, &tokenizer, {}, sink, progress);
  const auto& run = outcome.runs.at(0);
  // The engine's verdict is about the text; here <eos> must follow it as well.
  bool exact = run.output_ids.size() == prompt.answer_ids.size() + 1 && run.exact.value_or(false);
  for (size_t i = 0; exact && i < prompt.answer_ids.size(); ++i) exact = run.output_ids[i] == prompt.answer_ids[i];
  exact = exact && tokenizer.token_text(run.output_ids.back()) == "<eos>";
  std::ostringstream line;
  line << item.id() << "," << exact << "," << run.tokens << "," << outcome.seconds << "," << prompt.answer << ","
       << cli::printable(run.output_text);
  return line.str();
}

void print_table(const Settings& s, const Tallies& tallies) {
  cli::Table table({">length", ">noise", ">text", ">exact", ">tokens/s"});
  const auto cell = [](const Tally& t) { return std::to_string(t.right) + " of " + std::to_string(t.all); };
  const auto get = [&](int64_t length, bool noise) {
    const auto at = tallies.find({length, noise});
    return at == tallies.end() ? Tally{} : at->second;
  };
  Tally total;
  for (int64_t length : s.lengths) {
    Tally sum = get(length, true);
    sum.add(get(length, false));
    total.add(sum);
    table.row({std::to_string(length), cell(get(length, true)), cell(get(length, false)), cell(sum),
               sum.seconds > 0 ? std::to_string(int64_t(double(sum.tokens) / sum.seconds)) : "-"});
  }
  std::printf("%s%s exact\n", table.text().c_str(), cell(total).c_str());
}

int measure(const Settings& s) {
  auto done = s.resume ? read_results(s.out) : std::map<std::string, std::string>();
  std::FILE* out = std::fopen(s.out.c_str(), "w");
  if (!out) throw Error({.file = s.out, .found = "cannot be written"});
  std::fprintf(out, "length,seed,haystack,exact,tokens,seconds,expected,answer\n");
  for (const auto& [id, line] : done) std::fprintf(out, "%s\n", line.c_str());
  std::fflush(out);
  const auto checkpoint = formats::Checkpoint::open(s.checkpoint);
  const auto tokenizer = formats::Tokenizer::load(s.checkpoint);
  if (!tokenizer) throw Error({.file = s.checkpoint, .item = "tokenizer.json", .found = "not there"});
  Progress progress;
  auto model = engine::Model::load(checkpoint, {.device = s.device, .dtype = s.dtype, .router_dtype = s.router_dtype}, progress);
  Tallies tallies;
  for (const Item& item : items(s)) {
    std::string& line = done[item.id()];
    if (line.empty()) {
      line = run_one(*model, *tokenizer, s, item);
      std::fprintf(out, "%s\n", line.c_str());
      std::fflush(out);
    }
    tally(tallies, item, line);
  }
  std::fclose(out);
  std::printf("%s, %s, %s\n", s.checkpoint.c_str(), s.device.c_str(), s.dtype.c_str());
  print_table(s, tallies);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Exact-match accuracy of password prompts over lengths, seeds and haystacks.");
  app.add_option("--checkpoint", s.checkpoint, "Checkpoint folder");
  app.add_option("--device", s.device, "cpu or cuda[:N]");
  app.add_option("--dtype", s.dtype, "float32, bfloat16, float64");
  app.add_option("--router-dtype", s.router_dtype, "float32 or bf16");
  app.add_option("--lengths", s.lengths, "Prompt tokens with <bos>, without the answer")->delimiter(',');
  app.add_option("--seeds", s.seeds, "Prompts per length")->check(cli::whole_number(1, 100000));
  app.add_option("--first-seed", s.first_seed, "First seed")->check(cli::whole_number(0, 1000000000));
  app.add_option("--haystack-file", s.haystack_file, "Text of every other prompt; the rest are noise");
  app.add_option("--out", s.out, "Results, one CSV line per prompt, written as they come");
  app.add_flag("--resume", s.resume, "Keep the results in --out and run what is missing");
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(s);
  } catch (const Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return e.kind() == Error::Kind::usage ? 2 : 1;
  }
}
