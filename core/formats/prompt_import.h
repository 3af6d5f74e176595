// Prompts out of other people's files: plain text, rows of lm-eval and RULER, key-value retrieval, token ids
// (spec: prompts). A file is listed without being tokenized; a row is read when it is asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/prompt.h"
#include "core/progress.h"

namespace slotscope::formats {

enum class PromptFormat {
  automatic,        // from name and content
  text,             // the whole file, byte for byte, is one prompt
  lm_eval,          // rows of lm-eval's RULER tasks: input, outputs, length, max_length, gen_prefix
  lm_eval_samples,  // lm-eval's log of samples (samples_TASK_DATE.jsonl): doc, arguments, target
  ruler,            // rows of RULER: input, outputs, answer_prefix
  kv_retrieval,     // rows of lost-in-the-middle: ordered_kv_records, key, value
  infinitebench,    // rows of InfiniteBench passkey and kv_retrieval: context, input, answer
  prompts,          // rows with "prompt" or "text" or "input", and the answer where it is known
  ids,  // token ids: an array, an array of arrays, a line per array, rows with "ids" and MQAR's "labels"
};
// "auto", "text", "lm-eval", "lm-eval-samples", "ruler", "kv-retrieval", "infinitebench", "prompts", "ids",
// in that order.
const std::vector<std::string>& prompt_format_names();
std::string_view prompt_format_name(PromptFormat format);
std::optional<PromptFormat> prompt_format_from(std::string_view name);

// One row as the file has it, before any tokenizer.
struct PromptRow {
  int64_t row = 0;   // from 0, empty lines not counted
  int64_t line = 0;  // from 1; 0: the file is no list of lines
  std::string name;  // "niah_single_1 · 3"
  bool has_text = true;
  std::string text;                     // the whole prompt, answer lead-in joined
  std::vector<int32_t> ids;             // has_text = false
  std::vector<std::string> references;  // what the answer must contain
  std::string answer;                   // the references as one text; empty: none known
  // Half-open ranges: bytes of `text`, or positions of `ids`. Names: needle, key, value, query, lead-in.
  struct Mark {
    std::string name;
    size_t begin = 0, end = 0;
    bool operator==(const Mark&) const = default;
  };
  std::vector<Mark> marks;
  int64_t generate = -1;  // new tokens that the task's own evaluation takes; -1: the answer's and one more
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> warnings;  // "the value '123' is not in the prompt"
};

// A file of prompts. Immutable once open, so rows may be read from any thread.
class PromptFile {
 public:
  static constexpr uint64_t kMaxLine = uint64_t(64) << 20;  // bytes of one row
  static constexpr uint64_t kMaxDocument = uint64_t(256)
                                           << 20;  // bytes of a file that is one JSON document, or one text
  static constexpr int64_t kMaxRows = 1'000'000;

  // Finds the rows (lines) and the format, which the first row decides; reads nothing else. `progress` (may
  // be null) counts bytes under the stage "listing prompts"; a cancel throws Error "cancelled". Throws Error
  // for what is no such file: compressed or binary files by their kind, broken first rows with file, line,
  // what is there and what was expected.
  static std::shared_ptr<const PromptFile> open(const std::filesystem::path& path,
                                                PromptFormat format = PromptFormat::automatic,
                                                Progress* progress = nullptr);
  virtual ~PromptFile() = default;
  virtual const std::filesystem::path& path() const = 0;
  virtual PromptFormat format() const = 0;
  virtual int64_t rows() const = 0;
  // Throws Error naming file, line, field, found and expected; usage Error for a row that is not there.
  virtual PromptRow row(int64_t i) const = 0;
};

// Tokenizes a row. Spans, roles (1 = the value's tokens in the prompt), answer, references and parameters go
// along; a token that overlaps the edge of a span belongs to it. `tokenizer` may be null for rows of ids.
// Throws Error (no tokenizer, no token). What is odd about the row is in row.warnings and, as one text, among
// the parameters.
Prompt make_prompt(const PromptRow& row, const Tokenizer* tokenizer, bool add_special = true);

// "0:100", "3,5,8", "0:2,7", "10:", in the order given. Throws usage Error for what is no such list, rows
// beyond `count` and rows that are given twice. Empty text: all rows.
std::vector<int64_t> parse_rows(const std::string& text, int64_t count);

// What a layout's own text says about its parts; `input` is the byte range to search (without lead-in).
struct PromptParts {
  size_t input_begin = 0, input_end = 0;
  size_t lead_begin = 0, lead_end = 0;  // answer lead-in; equal: none
};
// Fills row.marks and row.warnings of a text row by searching row.references: every occurrence before the
// question is a value; its sentence is the needle; RULER's "special magic" sentences also give key and
// question (spec: prompts 3.1).
void find_marks(PromptRow& row, const PromptParts& parts);

}  // namespace slotscope::formats
