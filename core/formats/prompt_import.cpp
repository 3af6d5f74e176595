// Files of prompts: which format, where the rows are, what make_prompt() makes of a row. Layouts:
// prompt_layouts.cpp.
#include "core/formats/prompt_import.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/mapped_file.h"
#include "core/formats/prompt_layouts.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
constexpr size_t kMaxStoredReferences = 16 << 10;  // bytes of JSON in one attribute of the trace

[[noreturn]] void refuse(const fs::path& file, std::string item, std::string found, std::string expected,
                         std::string advice = "") {
  throw Error({file.string(), std::move(item), std::move(found), std::move(expected), std::move(advice)});
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return extension;
}

// Kinds of files that people drop here and that are no text. Each with what to do.
void refuse_binary(const fs::path& path, std::string_view head) {
  struct Kind {
    std::string_view magic;
    const char *what, *advice;
  };
  static constexpr Kind kinds[] = {
      {std::string_view("\x1F\x8B", 2), "a gzip-compressed file", "Unpack it first: gunzip -k FILE.gz"},
      {std::string_view("PK\x03\x04", 4), "a zip archive (or a torch.save file)",
       "Unpack it, or write its rows as jsonl."},
      {std::string_view("\x28\xB5\x2F\xFD", 4), "a zstd-compressed file", "Unpack it first: unzstd FILE.zst"},
      {std::string_view("\xFD\x37zXZ", 5), "an xz-compressed file", "Unpack it first: unxz -k FILE.xz"},
      {std::string_view("BZh", 3), "a bzip2-compressed file", "Unpack it first: bunzip2 -k FILE.bz2"},
      {std::string_view("PAR1", 4), "a Parquet file", "Write it as jsonl first: datasets' to_json()."},
      {std::string_view("ARROW1", 6), "an Arrow file", "Write it as jsonl first: datasets' to_json()."},
      {std::string_view("\x93NUMPY", 6), "a NumPy array",
       "Write the ids as JSON first: json.dump(array.tolist(), file)."},
      {std::string_view("\x89HDF\r\n\x1A\n", 8), "an HDF5 file, perhaps a trace", "Open it as a trace."},
      {std::string_view("\xFF\xFE", 2), "UTF-16 text", "Save it as UTF-8."},
      {std::string_view("\xFE\xFF", 2), "UTF-16 text", "Save it as UTF-8."},
  };
  for (const Kind& kind : kinds)
    if (head.starts_with(kind.magic))
      refuse(path, "", kind.what, "prompts as text, JSON or JSON lines in UTF-8", kind.advice);
}

// A row's JSON. Errors say the line; positions within it are those of the line.
json parse_row(const fs::path& path, std::string_view text, int64_t line) {
  JsonOptions options;
  options.file = path.string();
  options.nonfinite = true;  // logs of samples hold NaN
  try {
    return parse_json(text, options);
  } catch (const Error& e) {
    if (line == 0) throw;
    ErrorParts parts = e.parts();
    parts.item = "line " + std::to_string(line) + (parts.item.empty() ? "" : ": " + parts.item);
    if (parts.expected.empty()) parts.expected = "one JSON object or array of token ids on the line";
    throw Error(parts, e.kind());
  }
}

struct Line {
  uint64_t begin = 0, length = 0;
  int64_t number = 0;  // from 1
};

// Lines that hold something. Reads in blocks and never maps: a file that shrinks meanwhile must not end the
// program.
std::vector<Line> list_lines(const MappedFile& file, Progress* progress) {
  constexpr uint64_t kBlock = 1 << 20;
  std::vector<Line> lines;
  if (progress) progress->begin_stage("listing prompts", int64_t(file.size()));
  uint64_t begin = 0, at = 0;
  int64_t number = 1;
  bool blank = true;
  const auto end_line = [&](uint64_t end) {
    if (!blank) {
      if (end - begin > PromptFile::kMaxLine)
        refuse(file.path(), "line " + std::to_string(number), thousands(end - begin) + " bytes",
               "at most " + thousands(PromptFile::kMaxLine) + " bytes on one line");
      if (int64_t(lines.size()) == PromptFile::kMaxRows)
        refuse(file.path(), "", "more than " + thousands(uint64_t(PromptFile::kMaxRows)) + " rows", "fewer",
               "Split the file.");
      lines.push_back({begin, end - begin, number});
    }
    blank = true;
    ++number;
  };
  while (at < file.size()) {
    const std::string block = file.read(at, kBlock);
    if (block.empty()) break;
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] == '\n') {
        end_line(at + i);
        begin = at + i + 1;
      } else if (blank && !is_space(block[i]) && !(at == 0 && i < 3 && block.starts_with(kUtf8Mark))) {
        blank = false;
      }
    }
    at += block.size();
    if (!blank && at - begin > PromptFile::kMaxLine)
      end_line(at);  // refuses it, without reading the rest first
    if (progress) progress->set(int64_t(at));
    if (progress && progress->cancel_requested()) refuse(file.path(), "", "cancelled", "");
  }
  end_line(at);
  return lines;
}

class Lines : public PromptFile {
 public:
  Lines(std::unique_ptr<MappedFile> file, std::vector<Line> lines, PromptFormat format)
      : file_(std::move(file)), lines_(std::move(lines)), format_(format) {}
  const fs::path& path() const override { return file_->path(); }
  PromptFormat format() const override { return format_; }
  int64_t rows() const override { return int64_t(lines_.size()); }
  PromptRow row(int64_t i) const override {
    check_row(*this, i);
    const Line& line = lines_[size_t(i)];
    return layout_row({path(), i, line.number}, parse_row(path(), text(line), line.number), format_);
  }
  std::string text(const Line& line) const {
    std::string bytes = file_->read(line.begin, line.length);
    if (bytes.size() != line.length)
      refuse(path(), "line " + std::to_string(line.number), "the file became shorter while it was open",
             "its " + thousands(file_->size()) + " bytes", "Open it again.");
    if (line.begin == 0 && bytes.starts_with(kUtf8Mark)) bytes.erase(0, kUtf8Mark.size());
    return bytes;
  }
  static void check_row(const PromptFile& file, int64_t i) {
    if (i >= 0 && i < file.rows()) return;
    throw Error(
        {file.path().string(), "row", std::to_string(i), "0 to " + std::to_string(file.rows() - 1), ""},
        Error::Kind::usage);
  }

 private:
  std::unique_ptr<MappedFile> file_;
  std::vector<Line> lines_;
  PromptFormat format_;
};

// One JSON document: an array of rows, an array of ids or of arrays of them, or a single row.
class Document : public PromptFile {
 public:
  Document(fs::path path, json root, PromptFormat format) : path_(std::move(path)), format_(format) {
    const bool list = root.is_array() && !root.empty() && root[0].is_structured();
    if (list)
      rows_ = std::move(root);
    else
      rows_ = json::array({std::move(root)});
    single_ = !list;
    if (int64_t(rows_.size()) > kMaxRows)
      refuse(path_, "", thousands(rows_.size()) + " rows", "at most " + thousands(uint64_t(kMaxRows)),
             "Split the file.");
  }
  const fs::path& path() const override { return path_; }
  PromptFormat format() const override { return format_; }
  int64_t rows() const override { return int64_t(rows_.size()); }
  PromptRow row(int64_t i) const override {
    Lines::check_row(*this, i);
    RowPlace place{path_, i, 0};
    place.single = single_;
    return layout_row(place, rows_[size_t(i)], format_);
  }
  const json& first() const { return rows_[0]; }
  void set_format(PromptFormat format) { format_ = format; }

 private:
  fs::path path_;
  json rows_;
  PromptFormat format_;
  bool single_ = false;
};

class Text : public PromptFile {
 public:
  explicit Text(fs::path path) : path_(std::move(path)) {}
  const fs::path& path() const override { return path_; }
  PromptFormat format() const override { return PromptFormat::text; }
  int64_t rows() const override { return 1; }
  PromptRow row(int64_t i) const override {
    Lines::check_row(*this, i);
    PromptRow row;
    row.name = path_.filename().string();
    row.text = read_text_file(path_, kMaxDocument);
    require_utf8(row.text, path_.string(), "");
    if (row.text.empty()) refuse(path_, "", "an empty file", "text");
    if (row.text.starts_with(kUtf8Mark))
      row.warnings.push_back("the text begins with a byte order mark, which is part of the prompt");
    row.parameters = {{"file", row.name}, {"row", "0"}, {"prompt_format", "text"}};
    return row;
  }

 private:
  fs::path path_;
};

std::shared_ptr<const PromptFile> open_document(const fs::path& path, PromptFormat format) {
  std::string text = read_text_file(path, PromptFile::kMaxDocument);
  if (text.starts_with(kUtf8Mark)) text.erase(0, kUtf8Mark.size());
  json root = parse_row(path, text, 0);
  if (!root.is_structured())
    refuse(path, "", root.type_name(), "an array of token ids, an array of rows, or one row");
  if (root.is_array() && root.empty()) refuse(path, "", "an empty list", "at least one prompt");
  auto document = std::make_shared<Document>(path, std::move(root), format);
  if (format == PromptFormat::automatic) document->set_format(detect_layout({path, 0, 0}, document->first()));
  return document;
}

// Whether the text is one whole JSON document.
bool is_whole_json(std::string_view text) {
  try {
    JsonOptions options;
    options.nonfinite = true;
    options.refuse_duplicates = false;
    parse_json(text, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool starts_structure(std::string_view text) {
  return !text.empty() && (text.front() == '{' || text.front() == '[');
}

}  // namespace

std::shared_ptr<const PromptFile> PromptFile::open(const fs::path& path, PromptFormat format,
                                                   Progress* progress) {
  auto file = std::make_unique<MappedFile>(path);
  refuse_binary(path, file->read(0, 16));
  if (file->size() == 0) refuse(path, "", "an empty file", "at least one prompt");
  if (format == PromptFormat::text) return std::make_shared<Text>(path);

  const std::string extension = lower_extension(path);
  const bool may_be_text = format == PromptFormat::automatic && extension != ".json" &&
                           extension != ".jsonl" && extension != ".ndjson";
  if (may_be_text && (extension == ".txt" || extension == ".md" || extension == ".text"))
    return std::make_shared<Text>(path);
  std::string head = file->read(0, 1 << 16);
  std::string_view start = head;
  if (start.starts_with(kUtf8Mark)) start.remove_prefix(kUtf8Mark.size());
  start = trimmed(start);
  if (start.empty()) start = head;
  if (may_be_text && !starts_structure(start)) return std::make_shared<Text>(path);
  if (!starts_structure(start))
    refuse(path, "line 1", "'" + printable(start, 40) + "'", "JSON: an object or an array",
           "Plain text is read with --format text, and from files named .txt.");

  std::vector<Line> lines = list_lines(*file, progress);
  if (lines.empty()) refuse(path, "", "only empty lines", "at least one prompt");
  const bool only = lines.size() == 1;
  auto rows = std::make_shared<Lines>(std::move(file), lines, format);
  const std::string first = rows->text(lines[0]);
  // A document that is spread over lines, or one line with an array of rows: not a line per row.
  const bool whole = is_whole_json(first), by_line = extension == ".jsonl" || extension == ".ndjson";
  if (only ? whole && (start.front() == '[' || !by_line) : !whole && !by_line) {
    if (!may_be_text) return open_document(path, format);
    try {
      return open_document(path, format);
    } catch (const Error&) {
      if (whole) throw;
      return std::make_shared<Text>(path);  // a text that begins with a bracket
    }
  }
  if (may_be_text && !whole) return std::make_shared<Text>(path);
  if (format == PromptFormat::automatic)
    format = detect_layout({path, 0, lines[0].number}, parse_row(path, first, lines[0].number));
  return std::make_shared<Lines>(std::make_unique<MappedFile>(path), std::move(lines), format);
}

Prompt make_prompt(const PromptRow& row, const Tokenizer* tokenizer, bool add_special) {
  Prompt prompt;
  std::vector<std::string> warnings = row.warnings;
  if (!row.has_text) {
    prompt = prompt_from_ids(row.ids, row.name);
    for (const auto& mark : row.marks)
      prompt.spans.push_back({mark.name, int64_t(mark.begin), int64_t(mark.end)});
  } else {
    if (!tokenizer)
      throw Error({"", row.name, "no tokenizer", "a folder with a tokenizer to turn text into token ids",
                   "Give token ids instead."});
    const Encoding encoding = tokenizer->encode(row.text, add_special);
    prompt.name = row.name;
    prompt.ids = encoding.ids;
    prompt.has_text = true;
    prompt.text = row.text;
    prompt.char_offsets = encoding.offsets;
    prompt.roles.assign(prompt.ids.size(), 0);
    for (const auto& mark : row.marks) {
      Span span = token_span(encoding, mark.name, mark.begin, mark.end);
      if (span.end > span.begin)
        prompt.spans.push_back(std::move(span));
      else
        warnings.push_back("no token holds the " + mark.name);
    }
  }
  for (const Span& span : prompt.spans)
    if (span.name == "value")
      std::fill(prompt.roles.begin() + span.begin, prompt.roles.begin() + span.end, uint8_t(1));
  prompt.parameters = row.parameters;
  prompt.generate = row.generate;
  prompt.references = row.references;
  if (row.has_text && !row.answer.empty()) {
    prompt.has_answer = true;
    prompt.answer = row.answer;
    prompt.answer_lead = row.text.empty() || is_space(row.text.back()) ? "" : " ";
    const std::string continuation = prompt.answer_lead + prompt.answer;
    prompt.answer_ids = continuation_ids(*tokenizer, row.text, prompt.ids, continuation, add_special);
    // The space before the answer and what joins several references are nobody's value.
    const Encoding encoding = tokenizer->encode(continuation, false);
    if (encoding.ids == prompt.answer_ids) {
      prompt.answer_roles.assign(prompt.answer_ids.size(), 0);
      size_t at = prompt.answer_lead.size();
      for (const std::string& reference : row.references) {
        const Span span = token_span(encoding, "", at, at + reference.size());
        std::fill(prompt.answer_roles.begin() + span.begin, prompt.answer_roles.begin() + span.end,
                  uint8_t(1));
        at += reference.size() + kReferenceSeparator.size();
      }
    }
  }
  if (!row.references.empty()) {
    const std::string list = json(row.references).dump();
    if (list.size() <= kMaxStoredReferences)
      prompt.parameters.emplace_back("references", list);
    else
      warnings.push_back("the references take " + thousands(list.size()) +
                         " bytes: too long to be stored, so the trace has no score");
  }
  if (!warnings.empty()) {
    std::string text;
    for (const std::string& warning : warnings) text += (text.empty() ? "" : "; ") + warning;
    prompt.parameters.emplace_back("import_warning", printable(text, 2000));
  }
  return prompt;
}

std::vector<int64_t> parse_rows(const std::string& text, int64_t count) {
  const auto wrong = [&](const std::string& found, const std::string& expected) {
    throw Error({"", "--rows", found, expected, ""}, Error::Kind::usage);
  };
  const std::string most = "rows 0 to " + std::to_string(count - 1);
  std::vector<int64_t> rows;
  std::vector<bool> given(size_t(std::max<int64_t>(count, 0)), false);
  const auto add = [&](int64_t row) {
    if (row < 0 || row >= count) wrong(std::to_string(row), most);
    if (given[size_t(row)]) wrong("row " + std::to_string(row) + " twice", "each row once");
    given[size_t(row)] = true;
    rows.push_back(row);
  };
  if (text.empty()) {
    for (int64_t i = 0; i < count; ++i) rows.push_back(i);
    return rows;
  }
  const auto number = [&](std::string_view digits, int64_t empty) {
    if (digits.empty()) return empty;
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || rest != digits.data() + digits.size() || value < 0)
      wrong("'" + printable(text, 60) + "'", "rows such as 0:100 (half-open) or 3,5,8");
    return value;
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, comma - at);
    const size_t colon = item.find(':');
    if (item.empty()) wrong("'" + printable(text, 60) + "'", "rows such as 0:100 (half-open) or 3,5,8");
    if (colon == std::string_view::npos) {
      add(number(item, 0));
    } else {
      const int64_t begin = number(item.substr(0, colon), 0), end = number(item.substr(colon + 1), count);
      if (begin >= end) wrong(std::string(item), "a range that holds a row");
      if (end > count) wrong(std::string(item), most + " (the end is not included)");
      for (int64_t i = begin; i < end; ++i) add(i);
    }
    at = comma + 1;
  }
  return rows;
}

const std::vector<std::string>& prompt_format_names() {
  static const std::vector<std::string> names = {"auto",  "text",         "lm-eval",       "lm-eval-samples",
                                                 "ruler", "kv-retrieval", "infinitebench", "prompts",
                                                 "ids"};
  return names;
}

std::string_view prompt_format_name(PromptFormat format) { return prompt_format_names()[size_t(format)]; }

std::optional<PromptFormat> prompt_format_from(std::string_view name) {
  const auto& names = prompt_format_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return PromptFormat(at - names.begin());
}

}  // namespace slotscope::formats
