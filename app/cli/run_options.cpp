#include "app/cli/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/fields.h"
#include "core/formats/prompt_import.h"

namespace slotscope::cli {
namespace {

[[noreturn]] void usage(std::string item, std::string found, std::string expected, std::string advice = "") {
  throw Error({.item = std::move(item), .found = std::move(found), .expected = std::move(expected),
               .advice = std::move(advice)}, Error::Kind::usage);
}

constexpr int64_t kMostRuns = 1000;  // rows that are run without --rows
constexpr uint64_t kMostTokens = uint64_t(1) << 24;  // a prompt is made in memory: no number from a slip of the finger

std::string quoted(const std::string& text) { return "'" + text + "'"; }

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

void check_name(const char* option, const std::string& value, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), value) == names.end())
    usage(option, quoted(value), (names.size() > 1 ? "one of " : "") + joined(names));
}

// `!(low <= value)` and not `value < low`, so that NaN is refused.
void check_number(const char* option, double value, double low, double high, const char* expected) {
  if (!(value >= low && value <= high)) {
    char text[40];
    std::snprintf(text, sizeof text, "%g", value);
    usage(option, text, expected);
  }
}

void check_device(const std::string& device) {
  if (device == "cpu" || device == "cuda") return;
  const std::string digits = device.rfind("cuda:", 0) == 0 ? device.substr(5) : "";
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos)
    usage("--device", quoted(device), "cpu, cuda or cuda:N");
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  const char* p = text.data();
  const char* end = p + text.size();
  while (true) {
    while (p < end && *p == ' ') ++p;
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(p, end, id);
    if (error != std::errc() || id < 0)
      usage("--ids", quoted(text) + " at character " + std::to_string(p - text.data()),
            "token ids separated by commas, such as 256,72,105");
    ids.push_back(id);
    p = rest;
    while (p < end && *p == ' ') ++p;
    if (p == end) return ids;
    if (*p++ != ',')
      usage("--ids", quoted(text) + " at character " + std::to_string(p - 1 - text.data()),
            "a comma between token ids");
  }
}

// "A,B": token positions. Throws Error(usage).
std::vector<int64_t> parse_positions(const std::string& text, const char* option) {
  std::vector<int64_t> list;
  size_t at = 0;
  while (true) {
    const size_t comma = std::min(text.find(',', at), text.size());
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + comma, value);
    if (error != std::errc() || rest != text.data() + comma || value < 0)
      usage(option, quoted(text), "end, none or token positions such as 100,511");
    list.push_back(value);
    if (comma == text.size()) return list;
    at = comma + 1;
  }
}

const formats::Tokenizer& need_tokenizer(const formats::Tokenizer* tokenizer, const char* option) {
  if (!tokenizer)
    throw Error({.item = option, .found = "the folder has no tokenizer",
                 .expected = "a tokenizer to turn text into token ids",
                 .advice = "Give token ids instead: --ids 1,2,3 or --ids-file F.json"});
  return *tokenizer;
}

void check_ids(const std::vector<formats::Prompt>& prompts, const RunSettings& settings, int64_t vocab_rows) {
  const char* option = settings.ids ? "--ids" : settings.ids_file ? "--ids-file" : settings.prompts ? "--prompts" : settings.task ? "--task" : "--text";
  for (size_t p = 0; p < prompts.size(); ++p) {
    const auto& ids = prompts[p].ids;
    const std::string place = settings.prompts ? " of " + prompts[p].name : prompts.size() > 1 ? " of prompt " + std::to_string(p) : "";
    if (ids.empty())
      usage(option, "no token" + (place.empty() ? std::string() : " in prompt " + std::to_string(p)),
            "at least one token", "The forward pass needs something to read");
    if (vocab_rows <= 0) continue;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= vocab_rows)
        throw Error({.file = settings.ids_file.value_or(settings.prompts.value_or("")), .item = option,
                     .found = "token id " + std::to_string(ids[i]) + " at position " + std::to_string(i) + place,
                     .expected = "0 to " + std::to_string(vocab_rows - 1) + " (the embedding has " +
                                 std::to_string(vocab_rows) + " rows)"},
                    settings.ids ? Error::Kind::usage : Error::Kind::input);
  }
}

// Positions on the token axis that a run of this prompt can have: what is fed is prompt plus generated but the last.
int64_t fed_at_most(const formats::Prompt& prompt, const RunSettings& settings) {
  int64_t generate = settings.generate;
  if (generate < 0 && prompt.has_answer) generate = prompt.generate >= 0 ? prompt.generate : int64_t(prompt.answer_ids.size()) + 1;
  return int64_t(prompt.ids.size()) + std::max<int64_t>(generate - 1, 0);
}

// The rows of a file of prompts that --rows names. More rows than a trace should hold are not taken without being asked for.
std::vector<formats::Prompt> imported(const RunSettings& s, const formats::Tokenizer* tokenizer) {
  const auto file = formats::PromptFile::open(*s.prompts, *formats::prompt_format_from(s.format));
  if (s.rows.empty() && file->rows() > kMostRuns)
    usage("--rows", "not given for a file of " + std::to_string(file->rows()) + " rows",
          "the rows to run, when there are more than " + std::to_string(kMostRuns), "--rows 0:100 takes the first hundred");
  std::vector<formats::Prompt> prompts;
  for (const int64_t row : formats::parse_rows(s.rows, file->rows())) {
    const formats::PromptRow source = file->row(row);
    if (source.has_text && !tokenizer) need_tokenizer(tokenizer, "--prompts");
    try {
      prompts.push_back(formats::make_prompt(source, tokenizer, !s.no_bos));
    } catch (const Error& e) {
      if (!e.parts().file.empty()) throw;
      auto parts = e.parts();
      parts.file = *s.prompts;
      parts.item = "row " + std::to_string(row) + (parts.item.empty() ? "" : ": " + parts.item);
      throw Error(parts, e.kind());
    }
  }
  return prompts;
}

}  // namespace

std::string run_name(size_t run) {
  const std::string digits = std::to_string(run);
  return digits.size() < 4 ? std::string(4 - digits.size(), '0') + digits : digits;
}

std::vector<std::string> import_warnings(const std::vector<formats::Prompt>& prompts) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::string row, warning;
    for (const auto& [key, value] : prompts[i].parameters) {
      if (key == "row") row = value;
      if (key == "import_warning") warning = value;
    }
    if (!warning.empty()) lines.push_back("run " + run_name(i) + " (row " + row + "): " + warning);
  }
  return lines;
}

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names = {"float32", "bfloat16", "float64"};
  return names;
}
const std::vector<std::string>& router_dtype_names() {
  static const std::vector<std::string> names = {"float32", "bf16"};
  return names;
}
const std::vector<std::string>& flavour_names() {
  static const std::vector<std::string> names = {"fla", "goombalab", "nope"};
  return names;
}
const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names = {"passkey"};
  return names;
}
const std::vector<std::string>& store_names() {
  static const std::vector<std::string> names = {"float32", "float16"};
  return names;
}

// An empty value is a script's unset variable more often than a wish: it must not quietly mean "all" or "any".
CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? std::string("'', expected a value") : std::string(); }, "");
}

CLI::Validator whole_number(int64_t low, uint64_t high) {
  const auto check = [low, high](std::string& text) -> std::string {
    const char* end = text.data() + text.size();
    bool good = false;
    if (!text.empty() && text[0] == '-') {
      int64_t value = 0;
      const auto [rest, error] = std::from_chars(text.data(), end, value);
      good = error == std::errc() && rest == end && value >= low;
    } else {
      uint64_t value = 0;
      const auto [rest, error] = std::from_chars(text.data(), end, value);
      good = error == std::errc() && rest == end && value <= high && (low <= 0 || value >= uint64_t(low));
    }
    if (good) return {};
    return "'" + text + "', expected a whole number from " + std::to_string(low) +
           (high < uint64_t(INT64_MAX) ? " to " + std::to_string(high) : "");
  };
  return CLI::Validator(check, "");
}

CLI::Validator real_number(double low, double high) {
  const auto check = [low, high](std::string& text) -> std::string {
    double value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // `value >= low` and not `!(value < low)`, so that NaN is refused.
    if (error == std::errc() && rest == text.data() + text.size() && value >= low && value <= high) return {};
    char range[80];
    if (high < 1e300)
      std::snprintf(range, sizeof range, " from %g to %g", low, high);
    else
      std::snprintf(range, sizeof range, " from %g", low);
    return "'" + text + "', expected a number" + range;
  };
  return CLI::Validator(check, "");
}

void add_model_options(CLI::App& app, RunSettings& s) {
  const char* group = "Model";
  app.add_option("--device", s.device, "Where the model runs (default cpu). Plain cuda is the first GPU")
      ->group(group)->option_text("cpu|cuda[:N]");
  app.add_option("--dtype", s.dtype, "Compute type (default float32). CPU: float32, float64. CUDA: also bfloat16; states, "
                 "decay, softmaxes and the router then stay in float32")
      ->group(group)->option_text("float32|bfloat16|float64");
  app.add_option("--router-dtype", s.router_dtype, "With bfloat16: bf16 makes the router compute as the reference code does "
                 "(default float32). The trace says which")
      ->group(group)->option_text("float32|bf16");
  app.add_option("--flavour", s.flavour, "Which reference code the checkpoint comes from; without it, detected from "
                 "config.json and the weights' shapes (`info` says why). nope: a transformer without RoPE, which no config.json tells")
      ->group(group)->option_text("fla|goombalab|nope");
  app.add_option("--weights", s.weights, "Which weights of a torch.save file that holds several (`info` lists them; default: the "
                 "likely ones)")
      ->group(group)->option_text("NAME");
  app.add_flag("--tf32", s.tf32, "Allow TF32 in CUDA matrix products (off: exact float32)")->group(group);
}

void add_prompt_options(CLI::App& app, RunSettings& s) {
  const char* prompt = "Prompt (exactly one)";
  app.add_option("--text", s.text, "This text. The tokenizer adds <bos> (see --no-bos). Write --text=-x when it begins with a "
                 "dash")
      ->group(prompt)->option_text("TEXT");
  app.add_option("--text-file", s.text_file, "The bytes of this file exactly, nothing trimmed; - is standard input")
      ->group(prompt)->option_text("FILE");
  app.add_option("--ids", s.ids, "Token ids, nothing added: 256,72,105. Needs no tokenizer")
      ->group(prompt)->option_text("1,2,3");
  app.add_option("--ids-file", s.ids_file, "A JSON array of token ids, or an array of such arrays: several prompts, stored as "
                 "runs 0000, 0001, ...")
      ->group(prompt)->option_text("FILE.json");
  CLI::Option* file = app.add_option("--prompts", s.prompts, "A file of prompts: rows of lm-eval or RULER with answers, jsonl with prompt or text, "
                 "token ids, plain text. One run per row, with spans of needle, key, value, query and lead-in")
      ->group(prompt)->option_text("FILE");
  app.add_option("--rows", s.rows, "Rows of --prompts, from 0: half-open ranges and single rows (default: all)")
      ->check(not_empty())->needs(file)->group(prompt)->option_text("A:B|I,J");
  app.add_option("--format", s.format, "Layout of --prompts (default auto): " + joined(formats::prompt_format_names()))
      ->needs(file)->group(prompt)->option_text("NAME");
  CLI::Option* chosen = app.add_option("--task", s.task, "A prompt with a known answer and marked spans. passkey: a password hidden in a haystack, "
                 "asked for at the end; the answer is generated unless --generate 0")
      ->group(prompt)->option_text("passkey");
  app.add_flag("--no-bos", s.no_bos, "Leave out what the tokenizer's post-processor adds (<bos>)")->group(prompt);

  const char* task = "Task";
  app.add_option("--length", s.length, "Prompt tokens with <bos>, without the answer (default 512)")
      ->check(whole_number(1, kMostTokens))->needs(chosen)->group(task)->option_text("N");
  app.add_option("--depth", s.depth, "Place of the needle in the haystack, 0 start to 1 end (default: drawn from the seed)")
      ->check(real_number(0, 1))->needs(chosen)->group(task)->option_text("D");
  app.add_option("--seed", s.seed, "Same seed, same prompt, on every machine; also the seed of sampling (default 0)")
      ->check(whole_number(0, UINT64_MAX))->group(task)->option_text("S");
  app.add_option("--haystack", s.haystack, "noise (default): the grass is green ...; or a UTF-8 text file to take a passage of")
      ->needs(chosen)->group(task)->option_text("noise|FILE");
  app.add_option("--key", s.key, "The password (default: 6 to 10 letters and digits drawn from the seed)")
      ->check(not_empty())->needs(chosen)->group(task)->option_text("KEY");
}

void add_capture_options(CLI::App& app, RunSettings& s) {
  const char* group = "Capture";
  app.add_option("--capture", s.capture, std::string("Field names or globs, comma-separated. route = route_index, "
                 "route_weight, selected, esl. Default: ") + kDefaultCapture + " (all that the window shows)")
      ->group(group)->option_text("FIELDS");
  app.add_option("--layers", s.layers, "Layers to capture (default: all), from 0")
      ->check(not_empty())->group(group)->option_text("0,2-3");
  app.add_option("--heads", s.heads, "Heads to capture (default: all); query heads and heads that own slots by their own index")
      ->check(not_empty())->group(group)->option_text("0,2-3");
  app.add_option("--tokens", s.tokens, "Token positions to capture, half-open (default: all). The counters esl, selected and "
                 "ties always cover every token")
      ->check(not_empty())->group(group)->option_text("A:B[,C:D]");
  app.add_option("--read-at", s.read_at, "Where read_weight is taken: query (default: last prompt token and every answer "
                 "token), all, or token ranges")
      ->group(group)->option_text("query|all|A:B[,C:D]");
  app.add_option("--state-at", s.state_at, "After which tokens state fields are taken (default end)")
      ->group(group)->option_text("end|none|A,B");
  app.add_option("--store", s.store, "float16 halves route_weight only (default float32; a float64 run stores float64)")
      ->group(group)->option_text("float32|float16");
}

void add_forward_options(CLI::App& app, RunSettings& s) {
  const char* group = "Run";
  app.add_option("--stop-after", s.stop_after, "Last layer to run, included: no logits, no answer")
      ->check(whole_number(0, 1'000'000))->group(group)->option_text("LAYER");
  app.add_option("--segment", s.segment, "Tokens per segment; the state is carried, the numbers do not change (default: so that "
                 "a cancel takes under a second)")
      ->check(whole_number(1, kMostTokens))->group(group)->option_text("N");
  app.add_option("--generate", s.generate, "Tokens to generate after the prompt (default: answer + 1 for a task, what the benchmark takes for imported rows with an answer, else 0); "
                 "stops at <eos>")
      ->check(whole_number(0, kMostTokens))->group(group)->option_text("N");
  app.add_option("--temperature", s.temperature, "Sample at this temperature (default 0: greedy)")
      ->check(real_number(0, 1e6))->group(group)->option_text("X");
  app.add_option("--top-p", s.top_p, "Sample from the smallest set of tokens with this probability (default 1)")
      ->check(real_number(0, 1))->group(group)->option_text("P");
  app.add_option("--candidates", s.candidates, "How many candidates per generated token go to top_ids (default 4)")
      ->check(whole_number(1, 1000))->group(group)->option_text("C");
  app.add_flag("--unused-rows", s.unused_rows, "Also choose and list rows of the vocabulary that the tokenizer has no token for "
               "(<unused 300>; default: left out, with a note when that mattered)")
      ->group(group);
  app.add_option("--max-gpu-mem", s.max_gpu_mem, "Use at most this much GPU memory, GiB (default: what is free)")
      ->check(real_number(0, 1e6))->group(group)->option_text("G");
}

void add_run_options(CLI::App& app, RunSettings& settings) {
  add_prompt_options(app, settings);
  add_model_options(app, settings);
  add_capture_options(app, settings);
  add_forward_options(app, settings);
}

bool has_prompt(const RunSettings& s) { return s.text || s.text_file || s.ids || s.ids_file || s.prompts || s.task; }

void check_model_settings(const RunSettings& s) {
  check_device(s.device);
  check_name("--dtype", s.dtype, dtype_names());
  check_name("--router-dtype", s.router_dtype, router_dtype_names());
  if (s.router_dtype == "bf16" && s.dtype != "bfloat16")
    usage("--router-dtype", "bf16 with --dtype " + s.dtype, "--dtype bfloat16",
          "It reproduces the reference code's bfloat16 router");
  if (s.dtype == "bfloat16" && s.device == "cpu")
    usage("--dtype", "bfloat16 on cpu", "float32 or float64 there", "bfloat16 runs on --device cuda");
  if (!s.flavour.empty()) check_name("--flavour", s.flavour, flavour_names());
}

void check_settings(const RunSettings& s) {
  std::vector<std::string> given;
  if (s.text) given.push_back("--text");
  if (s.text_file) given.push_back("--text-file");
  if (s.ids) given.push_back("--ids");
  if (s.ids_file) given.push_back("--ids-file");
  if (s.prompts) given.push_back("--prompts");
  if (s.task) given.push_back("--task");
  const char* one = "exactly one of --text, --text-file, --ids, --ids-file, --prompts, --task";
  if (given.empty()) usage("prompt", "none given", one);
  if (given.size() > 1) usage("prompt", joined(given) + " given together", one);
  if (s.task) check_name("--task", *s.task, task_names());
  check_model_settings(s);
  check_name("--store", s.store, store_names());
  check_name("--format", s.format, formats::prompt_format_names());
  if (s.task) {
    if (s.length < 1) usage("--length", std::to_string(s.length), "at least 1 token");
    if (s.depth) check_number("--depth", *s.depth, 0, 1, "a number from 0 (start of the haystack) to 1 (end)");
  }
  expand_fields(s.capture);
  if (!s.layers.empty()) parse_index_list(s.layers, "--layers", -1);
  if (!s.heads.empty()) parse_index_list(s.heads, "--heads", -1);
  if (!s.tokens.empty()) parse_ranges(s.tokens, "--tokens");
  if (s.read_at != "query" && s.read_at != "all") parse_ranges(s.read_at, "--read-at");
  if (s.state_at != "end" && s.state_at != "none") parse_positions(s.state_at, "--state-at");
  if (s.stop_after < -1) usage("--stop-after", std::to_string(s.stop_after), "a layer from 0");
  if (s.segment < 0) usage("--segment", std::to_string(s.segment), "at least 1 token (0: chosen)");
  if (s.generate < -1) usage("--generate", std::to_string(s.generate), "0 or more tokens");
  check_number("--temperature", s.temperature, 0, 1e6, "0 (greedy) or more");
  check_number("--top-p", s.top_p, 1e-12, 1, "a probability above 0, up to 1");
  if (s.top_p < 1 && s.temperature == 0)
    usage("--top-p", "given with greedy generation", "--temperature above 0 as well",
          "Greedy generation takes the most probable token and samples nothing");
  if (s.candidates < 1 || s.candidates > 1000)
    usage("--candidates", std::to_string(s.candidates), "1 to 1000");
  check_number("--max-gpu-mem", s.max_gpu_mem, 0, 1e6, "gibibytes, 0 (what is free) or more");
  if (s.stop_after >= 0 && s.generate > 0)
    usage("--generate", std::to_string(s.generate) + " with --stop-after " + std::to_string(s.stop_after),
          "one of the two", "A run that stops inside the model has no logits to choose a token from");
}

std::string read_text_file(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string name = standard_input ? "standard input" : path;
  if (fd < 0)
    throw Error({.file = name, .found = std::strerror(errno), .advice = "Check the path given to --text-file"});
  std::string bytes;
  struct stat info{};
  int error = fstat(fd, &info) ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  constexpr size_t kLimit = size_t(1) << 30;  // a prompt, not a corpus: refuse before memory is gone
  std::string block(size_t(1) << 16, '\0');
  while (!error && bytes.size() <= kLimit) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n == 0) break;
    if (n < 0 && errno != EINTR) error = errno;
    if (n > 0) bytes.append(block.data(), size_t(n));
  }
  if (!standard_input) ::close(fd);
  if (error == EISDIR)
    throw Error({.file = name, .found = "a folder", .expected = "a text file"});
  if (error) throw Error({.file = name, .found = std::strerror(error), .expected = "readable text"});
  if (bytes.size() > kLimit)
    throw Error({.file = name, .found = "more than 1 GiB", .expected = "a prompt that fits in memory"});
  return bytes;
}

std::vector<formats::Prompt> make_prompts(const RunSettings& s, const formats::Tokenizer* tokenizer, int64_t vocab_rows) {
  std::vector<formats::Prompt> prompts;
  if (s.text) {
    prompts.push_back(formats::prompt_from_text(need_tokenizer(tokenizer, "--text"), *s.text, "text", !s.no_bos));
  } else if (s.text_file) {
    const auto& t = need_tokenizer(tokenizer, "--text-file");
    const std::string name = *s.text_file == "-" ? "standard input" : std::filesystem::path(*s.text_file).filename().string();
    try {
      prompts.push_back(formats::prompt_from_text(t, read_text_file(*s.text_file), name, !s.no_bos));
    } catch (const Error& e) {
      if (!e.parts().file.empty()) throw;
      auto parts = e.parts();
      parts.file = *s.text_file;  // "invalid UTF-8 at byte 17" needs to say of which file
      throw Error(parts, e.kind());
    }
  } else if (s.ids) {
    prompts.push_back(formats::prompt_from_ids(parse_ids(*s.ids), "ids"));
  } else if (s.ids_file) {
    prompts = formats::prompts_from_ids_file(*s.ids_file);
    if (prompts.empty())
      throw Error({.file = *s.ids_file, .found = "no prompt", .expected = "an array of token ids, or of such arrays"});
  } else if (s.prompts) {
    prompts = imported(s, tokenizer);
  } else if (s.task) {
    formats::PasskeyOptions options;
    options.length = s.length;
    options.depth = s.depth.value_or(-1);
    options.seed = s.seed;
    options.haystack = s.haystack;
    options.key = s.key;
    options.add_special = !s.no_bos;
    prompts.push_back(formats::make_passkey(need_tokenizer(tokenizer, "--task"), options));
  }
  check_ids(prompts, s, vocab_rows);
  return prompts;
}

engine::LoadOptions load_options(const RunSettings& s) {
  return {.device = s.device, .dtype = s.dtype, .router_dtype = s.router_dtype, .flavour = s.flavour, .tf32 = s.tf32};
}

engine::RunOptions run_options(const RunSettings& s, const engine::ModelInfo& info,
                               const std::vector<formats::Prompt>& prompts, std::vector<std::string>& notes) {
  engine::RunOptions options;
  engine::CapturePlan& plan = options.plan;
  const int layers = int(info.layers.size());
  int heads = 0;
  for (const auto& layer : info.layers) heads = std::max({heads, int(layer.heads), int(layer.route_heads)});
  plan.fields = expand_fields(s.capture);
  if (!s.layers.empty()) plan.layers = parse_index_list(s.layers, "--layers", layers);
  if (!s.heads.empty()) plan.heads = parse_index_list(s.heads, "--heads", heads);
  if (s.stop_after >= layers)
    usage("--stop-after", std::to_string(s.stop_after), "a layer from 0 to " + std::to_string(layers - 1));

  int64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, fed_at_most(prompt, s));
  const auto check_ranges = [&](const std::string& text, const char* option) {
    auto ranges = parse_ranges(text, option);
    for (auto& [begin, end] : ranges) {
      if (begin >= longest)
        usage(option, std::to_string(begin) + ":" + std::to_string(end),
              "positions below " + std::to_string(longest), "The longest run feeds " + std::to_string(longest) + " tokens");
      if (end > longest) {
        notes.push_back(std::string(option) + " " + std::to_string(begin) + ":" + std::to_string(end) + " ends after the last token: " +
                        std::to_string(begin) + ":" + std::to_string(longest) + " is captured");
        end = longest;
      }
    }
    return ranges;
  };
  if (!s.tokens.empty()) plan.tokens = check_ranges(s.tokens, "--tokens");
  plan.read_at = s.read_at;
  if (s.read_at != "query" && s.read_at != "all") {
    plan.read_at.clear();
    for (const auto& [begin, end] : check_ranges(s.read_at, "--read-at"))
      plan.read_at += (plan.read_at.empty() ? "" : ",") + std::to_string(begin) + ":" + std::to_string(end);
  }
  plan.state_at = s.state_at;
  if (s.state_at != "end" && s.state_at != "none")
    for (int64_t at : parse_positions(s.state_at, "--state-at"))
      if (at >= longest)
        usage("--state-at", std::to_string(at), "positions below " + std::to_string(longest));
  plan.store = s.store;
  options.segment = s.segment;
  options.stop_after = s.stop_after;
  // A run that stops inside the model cannot answer: the default of a task is then no generation.
  options.generate = s.stop_after >= 0 ? 0 : s.generate;
  options.temperature = s.temperature;
  options.top_p = s.top_p;
  options.seed = s.seed;
  options.candidates = s.candidates;
  options.unused_rows = s.unused_rows;
  options.max_gpu_mem = s.max_gpu_mem;
  return options;
}

}  // namespace slotscope::cli
