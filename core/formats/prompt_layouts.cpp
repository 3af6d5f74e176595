#include "core/formats/prompt_layouts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"
#include "core/score.h"

namespace slotscope::formats {

using nlohmann::json;

namespace {

// Greedy tokens that RULER and lm-eval's copies of it generate (spec: prompts 3.1), and the others' own
// numbers.
constexpr int64_t kRulerTokens = 128, kKvTokens = 100, kInfinitePasskeyTokens = 6, kInfiniteKvTokens = 50;

[[noreturn]] void refuse(const RowPlace& place, const std::string& field, std::string found,
                         std::string expected, std::string advice = "") {
  throw Error(
      {place.file.string(), place.item(field), std::move(found), std::move(expected), std::move(advice)});
}

std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  if (value.is_null()) return "null";
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

const json& field(const RowPlace& place, const json& row, const char* name, const char* expected) {
  const auto at = row.find(name);
  if (at == row.end()) refuse(place, name, "no such field", expected, "--format names another layout.");
  return *at;
}

std::string text_field(const RowPlace& place, const json& row, const char* name) {
  const json& value = field(place, row, name, "text");
  if (!value.is_string()) refuse(place, name, shown(value), "text");
  return value.get<std::string>();
}

// Absent, null or empty: no text.
std::string optional_text(const RowPlace& place, const json& row, const char* name) {
  const auto at = row.find(name);
  if (at == row.end() || at->is_null()) return {};
  if (!at->is_string()) refuse(place, name, shown(*at), "text");
  return at->get<std::string>();
}

// Text, a whole number, or a list of these. Passkeys are text: a leading zero stays.
std::vector<std::string> references(const RowPlace& place, const json& value, const std::string& name) {
  std::vector<std::string> list;
  const auto add = [&](const json& item, const std::string& where) {
    if (item.is_string())
      list.push_back(item.get<std::string>());
    else if (item.is_number_integer())
      list.push_back(item.dump());
    else
      refuse(place, where, shown(item), "text, or a list of texts");
    if (list.back().empty()) refuse(place, where, "an empty text", "the text of an answer");
  };
  if (!value.is_array()) add(value, name);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) add(value[i], name + "[" + std::to_string(i) + "]");
  return list;
}

std::vector<int32_t> token_ids(const RowPlace& place, const json& list, const std::string& name) {
  if (!list.is_array()) refuse(place, name, shown(list), "an array of token ids");
  if (list.empty()) refuse(place, name, "an empty list", "at least one token id");
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_number_unsigned() || list[i].get<uint64_t>() > 0x7FFFFFFF)
      refuse(place, name + "[" + std::to_string(i) + "]", shown(list[i]),
             "a token id: a whole number from 0 to 2147483647");
    ids.push_back(list[i].get<int32_t>());
  }
  return ids;
}

// "niah_single_1" of samples_niah_single_1_2025-01-02T03-04-05.123456.jsonl and of
// niah_single_1/validation.jsonl.
std::string task_of_file(const std::filesystem::path& file) {
  std::string stem = file.stem().string();
  if (stem.starts_with("samples_")) {
    stem.erase(0, 8);
    const size_t date = stem.rfind("_20");  // _2025-01-02T...
    if (date != std::string::npos && stem.find('T', date) != std::string::npos) stem.erase(date);
    return stem;
  }
  for (const char* split : {"validation", "test", "train", "dev"})
    if (stem == split) return file.parent_path().filename().string();
  return {};
}

// RULER's question answering counts any of the references (spec: prompts 3.1 names the other tasks).
bool any_reference_counts(const std::string& task) {
  return task == "qa" || task.starts_with("qa_") || task.starts_with("ruler_qa");
}

class RowReader {
 public:
  RowReader(const RowPlace& place, const json& source, PromptFormat format) : place_(place), source_(source) {
    const std::string file = place.file.filename().string();
    row_.row = place.row;
    row_.line = place.line;
    task_ = source.is_object() && source.contains("task") && source["task"].is_string()
                ? source["task"].get<std::string>()
                : task_of_file(place.file);
    row_.name = task_.empty() ? file : printable(task_, 60);
    if (!place.single)
      row_.name += task_.empty() && format == PromptFormat::ids ? " [" + std::to_string(place.row) + "]"
                                                                : " · " + std::to_string(place.row);
    if (!task_.empty()) parameter("task", printable(task_, 200));
    parameter("file", file);
    parameter("row", std::to_string(place.row));
    parameter("prompt_format", std::string(prompt_format_name(format)));
  }

  PromptRow lm_eval() {
    answer(field(place_, source_, "outputs", "a list of answers"), "outputs");
    const std::string lead = optional_text(place_, source_, "gen_prefix");
    joined(text_field(place_, source_, "input"), lead.empty() ? "" : " ", lead);
    return finish(kRulerTokens);
  }

  PromptRow ruler() {
    answer(field(place_, source_, "outputs", "a list of answers"), "outputs");
    joined(text_field(place_, source_, "input"), "", optional_text(place_, source_, "answer_prefix"));
    return finish(kRulerTokens);
  }

  // The prompt is what the model was given: the first argument of the first request.
  PromptRow lm_eval_samples() {
    const auto [prompt, generate] = first_request();
    const json& doc = field(place_, source_, "doc", "the row of the task");
    if (doc.is_object() && doc.contains("outputs") && !doc["outputs"].is_null())
      answer(doc["outputs"], "doc.outputs");
    else if (source_.contains("target") && !source_["target"].is_null() && source_["target"] != "")
      answer(source_["target"], "target");
    row_.text = prompt;
    parts_ = {0, prompt.size(), prompt.size(), prompt.size()};
    if (doc.is_object()) {
      const std::string lead = doc.contains("gen_prefix") && doc["gen_prefix"].is_string()
                                   ? doc["gen_prefix"].get<std::string>()
                                   : "";
      if (!lead.empty() && prompt.ends_with(lead)) {
        parts_.lead_begin = prompt.size() - lead.size();
        parts_.input_end = parts_.lead_begin;
      }
      const std::string input =
          doc.contains("input") && doc["input"].is_string() ? doc["input"].get<std::string>() : "";
      const size_t at = input.empty() ? std::string::npos : prompt.rfind(input);
      if (at != std::string::npos) parts_.input_begin = at, parts_.input_end = at + input.size();
    }
    for (const char* name : {"doc_id", "filter"}) keep(name, name);
    return finish(generate);
  }

  PromptRow kv_retrieval() {
    const json& records = field(place_, source_, "ordered_kv_records", "a list of [key, value] pairs");
    const std::string key = text_field(place_, source_, "key"), value = text_field(place_, source_, "value");
    if (value.empty()) refuse(place_, "value", "an empty text", "the value that belongs to the key");
    if (!records.is_array() || records.empty())
      refuse(place_, "ordered_kv_records", shown(records), "a list of [key, value] pairs");
    row_.references = {value};
    row_.text =
        "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n";
    int found = 0;
    for (size_t i = 0; i < records.size(); ++i) {
      const json& pair = records[i];
      const std::string where = "ordered_kv_records[" + std::to_string(i) + "]";
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
        refuse(place_, where, shown(pair), "a pair of texts: [key, value]");
      row_.text += i == 0 ? "{" : " ";
      const size_t begin = row_.text.size();
      const auto k = pair[0].get<std::string>(), v = pair[1].get<std::string>();
      row_.text += "\"" + k + "\": \"" + v + "\"";
      if (k == key && ++found == 1) {
        if (v != value)
          row_.warnings.push_back("the records give the key the value '" + printable(v, 60) +
                                  "', the row says '" + printable(value, 60) + "'");
        row_.marks = {{"needle", begin, row_.text.size()},
                      {"key", begin + 1, begin + 1 + k.size()},
                      {"value", row_.text.size() - 1 - v.size(), row_.text.size() - 1}};
        parameter("gold_index", std::to_string(i));
        parameter("records", std::to_string(records.size()));
      }
      row_.text += i + 1 < records.size() ? ",\n" : "}";
    }
    if (found != 1)
      row_.warnings.push_back("the key '" + printable(key, 60) + "' stands in " + std::to_string(found) +
                              " records, expected in one");
    row_.text += "\n\n";
    const size_t query = row_.text.size();
    row_.text += "Key: \"" + key + "\"";
    row_.marks.push_back({"query", query, row_.text.size()});
    row_.text += "\n";
    const size_t lead = row_.text.size();
    row_.text += "Corresponding value:";
    row_.marks.push_back({"lead-in", lead, row_.text.size()});
    return finish(kKvTokens);
  }

  // The form of lm-eval: description, empty line, context, empty line, question.
  PromptRow infinitebench() {
    const std::string context = text_field(place_, source_, "context"),
                      input = text_field(place_, source_, "input");
    answer(field(place_, source_, "answer", "the answer"), "answer");
    const bool key_value = input.starts_with("Key:");
    if (!key_value && input.find("pass key") == std::string::npos)
      refuse(place_, "input", "'" + printable(input, 60) + "'", "the question of passkey or of kv_retrieval",
             "Other tasks of InfiniteBench: write rows with \"prompt\" and \"answer\".");
    row_.text =
        key_value
            ? "Extract the value corresponding to the specified key in the JSON object below.\n\n"
            : "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. "
              "I will quiz you about the important information there.\n\n";
    row_.text += context + "\n\n" + input;
    parts_ = {0, row_.text.size(), row_.text.size(), row_.text.size()};
    return finish(key_value ? kInfiniteKvTokens : kInfinitePasskeyTokens);
  }

  PromptRow prompt() {
    for (const char* name : {"prompt", "text", "input"}) {
      if (!source_.contains(name)) continue;
      row_.text = text_field(place_, source_, name);
      parts_ = {0, row_.text.size(), row_.text.size(), row_.text.size()};
      break;
    }
    if (row_.text.empty())
      refuse(place_, "prompt", "no text", "a field prompt, text or input that holds some",
             "--format names another layout.");
    for (const char* name : {"outputs", "answers", "references", "answer", "target", "expected"}) {
      const auto at = source_.find(name);
      if (at == source_.end() || at->is_null() || *at == "" || *at == json::array()) continue;
      answer(*at, name);
      break;
    }
    return finish(-1);
  }

  PromptRow ids() {
    row_.has_text = false;
    if (source_.is_array()) {
      row_.ids = token_ids(place_, source_, "");
    } else {
      for (const char* name : {"ids", "input_ids", "inputs", "tokens"})
        if (source_.contains(name)) {
          row_.ids = token_ids(place_, source_[name], name);
          break;
        }
      if (row_.ids.empty())
        refuse(place_, "ids", "no such field", "a field ids, input_ids, inputs or tokens");
      if (source_.contains("labels")) labels(source_["labels"]);
    }
    return std::move(row_);
  }

 private:
  void parameter(const char* name, std::string value) {
    row_.parameters.emplace_back(name, std::move(value));
  }
  void keep(const char* name, const char* as) {
    const auto at = source_.find(name);
    if (at == source_.end() || at->is_structured() || at->is_null()) return;
    parameter(as, printable(at->is_string() ? at->get<std::string>() : shown(*at), 200));
  }
  void answer(const json& value, const std::string& name) {
    row_.references = references(place_, value, name);
  }

  void joined(const std::string& input, const char* between, const std::string& lead) {
    row_.text = input + between + lead;
    parts_ = {0, input.size(), input.size(), row_.text.size()};
    if (lead.empty()) return;
    // The space that joins them belongs to neither.
    while (parts_.lead_begin < parts_.lead_end && row_.text[parts_.lead_begin] == ' ') ++parts_.lead_begin;
  }

  PromptRow finish(int64_t generate) {
    if (row_.text.empty()) refuse(place_, "", "an empty prompt", "text");
    if (!row_.references.empty()) {
      for (const std::string& reference : row_.references)
        row_.answer += (row_.answer.empty() ? "" : std::string(kReferenceSeparator)) + reference;
      row_.generate = generate;
      parameter("metric", metric_name(any_reference_counts(task_) ? ScoreMetric::any : ScoreMetric::all));
    }
    if (source_.contains("length") && source_["length"].is_number()) keep("length", "source_length");
    for (const char* name : {"max_length", "token_position_answer", "depth_percent"}) keep(name, name);
    keep("index", "source_index");
    if (row_.marks.empty()) find_marks(row_, parts_);
    return std::move(row_);
  }

  // arguments: {"gen_args_0": {"arg_0": prompt, "arg_1": {"max_gen_toks": 128, ...}}, ...}; older logs
  // [[prompt, {...}], ...].
  std::pair<std::string, int64_t> first_request() {
    const json& arguments = field(place_, source_, "arguments", "the requests: gen_args_0, ...");
    const char* expected = "the prompt as gen_args_0.arg_0, or [[prompt, ...], ...]";
    const json* prompt = nullptr;
    const json* settings = nullptr;
    if (arguments.is_object()) {
      const auto request = arguments.find("gen_args_0");
      if (request != arguments.end() && request->is_object()) {
        if (request->contains("arg_0")) prompt = &(*request)["arg_0"];
        if (request->contains("arg_1")) settings = &(*request)["arg_1"];
      }
    } else if (arguments.is_array() && !arguments.empty() && arguments[0].is_array()) {
      if (!arguments[0].empty()) prompt = &arguments[0][0];
      if (arguments[0].size() > 1) settings = &arguments[0][1];
    }
    if (arguments.size() > 1)
      row_.warnings.push_back("the sample has " + std::to_string(arguments.size()) +
                              " requests; the prompt is the first one's");
    if (prompt && prompt->is_array() && prompt->size() == 1)
      prompt = &(*prompt)[0];  // a chat template's text in a list
    if (!prompt || !prompt->is_string())
      refuse(place_, "arguments", prompt ? shown(*prompt) : shown(arguments), expected);
    int64_t generate = kRulerTokens;
    if (settings && settings->is_object() && settings->contains("max_gen_toks") &&
        (*settings)["max_gen_toks"].is_number_unsigned())
      generate = int64_t(std::min<uint64_t>((*settings)["max_gen_toks"].get<uint64_t>(), 1 << 20));
    return {prompt->get<std::string>(), generate};
  }

  // MQAR: the label at a query position is the value stored with that key, all other labels are negative
  // (spec: prompts 3.4).
  void labels(const json& list) {
    if (!list.is_array() || list.size() != row_.ids.size())
      refuse(place_, "labels", list.is_array() ? std::to_string(list.size()) + " labels" : shown(list),
             std::to_string(row_.ids.size()) + " labels, one per token id");
    std::unordered_map<int32_t, std::vector<size_t>> places;
    size_t wrong = 0;
    for (size_t t = 0; t < row_.ids.size(); ++t) {
      if (!list[t].is_number_integer())
        refuse(place_, "labels[" + std::to_string(t) + "]", shown(list[t]), "a token id, or -100");
      const int64_t label = list[t].get<int64_t>();
      auto& before = places[row_.ids[t]];
      if (label >= 0) {
        const auto pair =
            std::find_if(before.begin(), before.end(), [&](size_t at) { return row_.ids[at + 1] == label; });
        if (pair == before.end()) {
          if (++wrong == 1)
            row_.warnings.push_back("label " + std::to_string(label) + " at position " + std::to_string(t) +
                                    " is not the value that was stored with key " +
                                    std::to_string(row_.ids[t]));
        } else if (row_.marks.size() < 3 * kMaxPairs) {
          row_.marks.push_back({"key", *pair, *pair + 1});
          row_.marks.push_back({"value", *pair + 1, *pair + 2});
          row_.marks.push_back({"query", t, t + 1});
        }
      }
      if (t + 1 < row_.ids.size() && before.size() < kMaxPairs) before.push_back(t);
    }
    if (wrong > 1) row_.warnings.push_back(std::to_string(wrong) + " labels are wrong like that");
  }
  static constexpr size_t kMaxPairs = 1024;

  const RowPlace& place_;
  const json& source_;
  PromptRow row_;
  PromptParts parts_;
  std::string task_;
};

}  // namespace

std::string RowPlace::item(const std::string& field) const {
  std::string text = line > 0 ? "line " + std::to_string(line) : single ? "" : "row " + std::to_string(row);
  if (!field.empty()) text += (text.empty() ? "" : ": ") + field;
  return text;
}

PromptFormat detect_layout(const RowPlace& place, const json& row) {
  if (row.is_array() || row.is_number()) return PromptFormat::ids;
  const auto has = [&](const char* key) { return row.is_object() && row.contains(key); };
  if (has("arguments") && has("doc")) return PromptFormat::lm_eval_samples;
  if (has("ordered_kv_records")) return PromptFormat::kv_retrieval;
  if (has("input") && has("outputs"))
    return has("gen_prefix") || (has("max_length") && !has("answer_prefix")) ? PromptFormat::lm_eval
                                                                             : PromptFormat::ruler;
  if (has("context") && has("input") && has("answer")) return PromptFormat::infinitebench;
  for (const char* key : {"ids", "input_ids", "tokens"})
    if (has(key) && row[key].is_array()) return PromptFormat::ids;
  if (has("inputs") && row["inputs"].is_array() && !row["inputs"].empty() && row["inputs"][0].is_number())
    return PromptFormat::ids;
  for (const char* key : {"prompt", "text", "input"})
    if (has(key)) return PromptFormat::prompts;
  std::string keys;
  if (row.is_object())
    for (const auto& [key, value] : row.items()) keys += (keys.empty() ? "" : ", ") + printable(key, 40);
  refuse(place, "",
         row.is_object()
             ? (keys.empty() ? "an empty object" : "an object with the keys " + printable(keys, 300))
             : shown(row),
         "input and outputs (lm-eval, RULER), doc and arguments (lm-eval's samples), ordered_kv_records, "
         "prompt or text, or token ids");
}

PromptRow layout_row(const RowPlace& place, const json& row, PromptFormat format) {
  if (format == PromptFormat::ids ? !row.is_array() && !row.is_object() : !row.is_object())
    refuse(place, "", shown(row),
           format == PromptFormat::ids ? "an array of token ids" : "an object: one row");
  RowReader reader(place, row, format);
  switch (format) {
    case PromptFormat::lm_eval:
      return reader.lm_eval();
    case PromptFormat::lm_eval_samples:
      return reader.lm_eval_samples();
    case PromptFormat::ruler:
      return reader.ruler();
    case PromptFormat::kv_retrieval:
      return reader.kv_retrieval();
    case PromptFormat::infinitebench:
      return reader.infinitebench();
    case PromptFormat::ids:
      return reader.ids();
    default:
      return reader.prompt();
  }
}

}  // namespace slotscope::formats
