// Files of prompts in the field layouts of lm-eval, RULER and others: joined texts, spans, references,
// refusals by line.
#include "core/formats/prompt_import.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope;
using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

std::shared_ptr<const Tokenizer> bytes_tokenizer(Context& t) {
  return Tokenizer::load(t.resource("checkpoints/raven-passkey"));
}

// Cuts a text into pieces of four bytes, wherever they end: the edges of words fall inside tokens.
class FourBytes : public Tokenizer {
 public:
  Encoding encode(std::string_view text, bool add_special) const override {
    Encoding e;
    if (add_special) e.ids.push_back(0), e.offsets.push_back({0, 0}), e.byte_offsets.push_back({0, 0});
    for (size_t at = 0; at < text.size(); at += 4) {
      const auto end = int64_t(std::min(at + 4, text.size()));
      e.ids.push_back(int32_t(e.ids.size()) + 1);
      e.offsets.push_back({int64_t(at), end});
      e.byte_offsets.push_back({int64_t(at), end});
    }
    return e;
  }
  std::string decode(const std::vector<int32_t>&, bool) const override { return {}; }
  std::string token_text(int32_t) const override { return {}; }
  std::string token_bytes(int32_t) const override { return {}; }
  bool is_special(int32_t id) const override { return id == 0; }
  int32_t size() const override { return 1 << 20; }
  std::string kind() const override { return "four bytes"; }
};

std::vector<json> rows_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

// Texts of the marks of one name, in the order of their places.
std::vector<std::string> marked(const PromptRow& row, const std::string& name) {
  std::vector<std::string> texts;
  for (const auto& mark : row.marks)
    if (mark.name == name) texts.push_back(row.text.substr(mark.begin, mark.end - mark.begin));
  return texts;
}

std::string parameter(const PromptRow& row, const std::string& name) {
  for (const auto& [key, value] : row.parameters)
    if (key == name) return value;
  return "(none)";
}

using Texts = std::vector<std::string>;

struct File {
  std::filesystem::path folder;
  explicit File(Context& t) : folder(t.temp()) {}
  std::shared_ptr<const PromptFile> operator()(const std::string& name, std::string_view bytes,
                                               PromptFormat format = PromptFormat::automatic) const {
    write_file(folder / name, bytes);
    return PromptFile::open(folder / name, format);
  }
};

}  // namespace

SLOTSCOPE_CASE(rows_of_lm_eval) {
  const auto path = t.data("data/prompts/niah_single_1.jsonl");
  const auto file = PromptFile::open(path);
  CHECK_EQ(std::string(prompt_format_name(file->format())), std::string("lm-eval"));
  CHECK_EQ(file->rows(), int64_t(3));
  const auto rows = rows_of(path);
  const auto tokenizer = bytes_tokenizer(t);
  for (int64_t i = 0; i < 3; ++i) {
    const PromptRow row = file->row(i);
    const json& source = rows[size_t(i)];
    const std::string input = source["input"], lead = source["gen_prefix"], value = source["outputs"][0];
    CHECK_EQ(row.text, input + " " + lead);  // one space, whatever there is
    CHECK_EQ(row.line, i + 1);
    CHECK_EQ(row.references, Texts{value});
    CHECK_EQ(row.answer, value);
    CHECK_EQ(row.warnings, Texts{});
    CHECK_EQ(row.generate, int64_t(128));
    const std::string key = lead.substr(29, lead.find(" mentioned") - 29);
    CHECK_EQ(marked(row, "value"), Texts{value});
    CHECK_EQ(marked(row, "key"), Texts{key});
    CHECK_EQ(marked(row, "needle"),
             Texts{"One of the special magic numbers for " + key + " is: " + value + "."});
    CHECK_EQ(marked(row, "query"),
             Texts{"What is the special magic number for " + key + " mentioned in the provided text?"});
    CHECK_EQ(marked(row, "lead-in"), Texts{lead});
    CHECK_EQ(parameter(row, "row"), std::to_string(i));
    CHECK_EQ(parameter(row, "file"), std::string("niah_single_1.jsonl"));
    CHECK_EQ(parameter(row, "metric"), std::string("string_match_all"));
    CHECK_EQ(parameter(row, "max_length"), std::string("1024"));

    // Bytes: <bos>, then token = byte + 1.
    const Prompt prompt = make_prompt(row, tokenizer.get());
    CHECK_EQ(prompt.ids.size(), row.text.size() + 1);
    for (const Span& span : prompt.spans) {
      bool known = false;
      for (const auto& mark : row.marks)
        known |= mark.name == span.name && int64_t(mark.begin) + 1 == span.begin &&
                 int64_t(mark.end) + 1 == span.end;
      if (!known) t.fail("span " + span.name, __FILE__, __LINE__);
    }
    CHECK_EQ(prompt.spans.size(), row.marks.size());
    int64_t roles = 0;
    for (size_t k = 0; k < prompt.roles.size(); ++k) roles += prompt.roles[k];
    CHECK_EQ(roles, int64_t(value.size()));
    CHECK_EQ(prompt.roles[row.text.find(value) + 1], uint8_t(1));
    CHECK_EQ(prompt.answer, value);
    CHECK_EQ(prompt.answer_lead, std::string(" "));
    CHECK_EQ(tokenizer->decode(prompt.answer_ids), " " + value);
    CHECK_EQ(prompt.answer_roles,
             (std::vector<uint8_t>{0, 1, 1, 1, 1, 1, 1, 1}));  // the space is nobody's value
    CHECK_EQ(prompt.generate, int64_t(128));
  }
  CHECK_ERROR(file->row(3), "niah_single_1.jsonl", "row", "3", "0 to 2");
}

SLOTSCOPE_CASE(rows_of_ruler) {
  const auto path = t.data("data/prompts/niah_single_2/validation.jsonl");
  const auto file = PromptFile::open(path);
  CHECK_EQ(std::string(prompt_format_name(file->format())), std::string("ruler"));
  const auto rows = rows_of(path);
  for (int64_t i = 0; i < 2; ++i) {
    const PromptRow row = file->row(i);
    const std::string input = rows[size_t(i)]["input"], lead = rows[size_t(i)]["answer_prefix"],
                      value = rows[size_t(i)]["outputs"][0];
    CHECK_EQ(row.text, input + lead);  // the field brings its space
    CHECK_EQ(marked(row, "lead-in"), Texts{lead.substr(1)});
    CHECK_EQ(marked(row, "value"), Texts{value});
    CHECK_EQ(marked(row, "key"), Texts{i == 0 ? "stormy-owl" : "gray-violin"});
    CHECK_EQ(marked(row, "needle"), Texts{std::string("One of the special magic uuids for ") +
                                          (i == 0 ? "stormy-owl" : "gray-violin") + " is: " + value + "."});
    CHECK_EQ(row.warnings, Texts{});
    CHECK_EQ(row.name, "niah_single_2 · " + std::to_string(i));  // the folder is the task's name
    CHECK_EQ(parameter(row, "task"), std::string("niah_single_2"));
    // RULER's index is the place of the answer in characters, not the row.
    size_t characters = 0;
    for (size_t at = 0; at < input.find(value); ++at) characters += (input[at] & 0xC0) != 0x80;
    CHECK_EQ(parameter(row, "source_index"), std::to_string(characters));
  }
  // Two keys asked for, two values each: every needle of theirs is marked and no other.
  const PromptRow row = file->row(2);
  CHECK_EQ(marked(row, "value"), (Texts{"1111111", "2222222", "3333333", "4444444"}));
  CHECK_EQ(marked(row, "key"), (Texts{"a-b", "a-b", "c-d", "c-d"}));
  CHECK_EQ(marked(row, "needle").size(), size_t(4));
  CHECK_EQ(row.references.size(), size_t(4));
  CHECK_EQ(row.answer, std::string("1111111, 2222222, 3333333, 4444444"));
  CHECK_EQ(row.warnings, Texts{});
  CHECK_EQ(marked(row, "query"),
           Texts{"What are all the special magic numbers for a-b, and c-d mentioned in the provided text?"});
  const auto tokenizer = bytes_tokenizer(t);
  const Prompt prompt = make_prompt(row, tokenizer.get());
  std::string of_values;
  const std::string continuation = prompt.answer_lead + prompt.answer;
  CHECK_EQ(prompt.answer_roles.size(), continuation.size());
  for (size_t i = 0; i < prompt.answer_roles.size(); ++i)
    if (prompt.answer_roles[i]) of_values += continuation[i];
  CHECK_EQ(of_values, std::string("1111111222222233333334444444"));
}

SLOTSCOPE_CASE(samples_logged_by_lm_eval) {
  const auto path = t.data("data/prompts/samples_niah_single_1_2025-03-04T05-06-07.123456.jsonl");
  const auto file = PromptFile::open(path);
  CHECK_EQ(std::string(prompt_format_name(file->format())), std::string("lm-eval-samples"));
  const auto plain = PromptFile::open(t.data("data/prompts/niah_single_1.jsonl"));
  for (int64_t i = 0; i < 2; ++i) {
    const PromptRow row = file->row(i), same = plain->row(i);
    CHECK_EQ(row.text, same.text);
    CHECK(row.marks == same.marks);
    CHECK_EQ(row.references, same.references);
    CHECK_EQ(row.generate, int64_t(64));  // max_gen_toks of the request
    CHECK_EQ(row.name, "niah_single_1 · " + std::to_string(i));
    CHECK_EQ(parameter(row, "doc_id"), std::to_string(i));
    CHECK_EQ(parameter(row, "filter"), std::string("none"));
  }
  // Few-shot examples before the row's own text hold values too: they are not its needle. NaN is a metric's
  // value.
  File open(t);
  const json doc = {{"input", "The code is 77."}, {"answer", "77"}};
  const json older = {
      {"doc_id", 5},
      {"doc", doc},
      {"target", "77"},
      {"arguments", json::array({json::array({"The code is 77.\n77\n\nThe code is 77.", json::object()})})}};
  std::string line = older.dump();
  line.insert(line.size() - 1, ",\"acc\":NaN");
  const auto shots = open("samples_codes.jsonl", line + "\n")->row(0);
  CHECK_EQ(marked(shots, "value").size(), size_t(1));
  CHECK_EQ(shots.marks.at(0).begin, size_t(20));
  CHECK_EQ(parameter(shots, "task"), std::string("codes"));
  CHECK_ERROR(open("s.jsonl", R"({"doc":{},"arguments":{"gen_args_0":{"arg_0":7}}})")->row(0), "s.jsonl",
              "line 1", "arguments", "7", "arg_0");
}

SLOTSCOPE_CASE(key_value_rows_become_their_published_prompt) {
  const auto file = PromptFile::open(t.data("data/prompts/kv_retrieval.jsonl"));
  const PromptRow row = file->row(0);
  const std::string key = "9f4a92b9-5f69-4725-ba1e-403f08dea695",
                    value = "703a7ce5-f17f-4e6d-b895-5836ba5ec71c";
  CHECK_EQ(row.text,
           "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n"
           "{\"2a8d601d-1d69-4e64-9f90-8ad825a74195\": \"bb3ba2a5-7de8-434b-a86e-a88bb9fa7289\",\n"
           " \"" +
               key + "\": \"" + value +
               "\",\n"
               " \"a54e2eed-e625-4570-9f74-3624e77d6684\": \"d1ff29be-4e2a-4208-a182-0cea716be3d4\"}\n\n"
               "Key: \"" +
               key + "\"\nCorresponding value:");
  CHECK_EQ(marked(row, "key"), Texts{key});
  CHECK_EQ(marked(row, "value"), Texts{value});
  CHECK_EQ(marked(row, "needle"), Texts{"\"" + key + "\": \"" + value + "\""});
  CHECK_EQ(marked(row, "query"), Texts{"Key: \"" + key + "\""});
  CHECK_EQ(marked(row, "lead-in"), Texts{"Corresponding value:"});
  CHECK_EQ(row.warnings, Texts{});
  File open(t);
  const auto wrong =
      open("kv.jsonl", R"({"ordered_kv_records":[["a","1"],["b","2"]],"key":"c","value":"2"})")->row(0);
  CHECK_EQ(wrong.warnings.size(), size_t(1));
  CHECK_EQ(open("kv.jsonl", R"({"ordered_kv_records":[["a","1"],["b","2"]],"key":"a","value":"2"})")
               ->row(0)
               .warnings.size(),
           size_t(1));
  CHECK_ERROR(open("kv.jsonl", R"({"ordered_kv_records":[["a"]],"key":"a","value":"2"})")->row(0), "line 1",
              "ordered_kv_records[0]", "pair");
}

SLOTSCOPE_CASE(infinitebench_rows) {
  File open(t);
  const auto row =
      open(
          "passkey.jsonl",
          R"({"id":0,"context":"Grass.\nThe pass key is 04312. Remember it. 04312 is the pass key.\nSky.","input":"What is the pass key?","answer":["04312"],"options":[]})")
          ->row(0);
  CHECK_EQ(row.text, std::string("There is an important info hidden inside a lot of irrelevant text. Find it "
                                 "and memorize them. I will quiz you about the "
                                 "important information there.\n\nGrass.\nThe pass key is 04312. Remember "
                                 "it. 04312 is the pass key.\nSky.\n\nWhat is the pass key?"));
  CHECK_EQ(row.references, Texts{"04312"});  // text: the zero stays
  CHECK_EQ(marked(row, "value"), (Texts{"04312", "04312"}));
  CHECK_EQ(marked(row, "needle"), (Texts{"The pass key is 04312.", "04312 is the pass key."}));
  CHECK_EQ(marked(row, "query"), Texts{"What is the pass key?"});
  CHECK_EQ(row.generate, int64_t(6));
  CHECK_ERROR(open("math.jsonl", R"({"context":"1 2","input":"Find the largest","answer":2})")->row(0),
              "math.jsonl", "line 1", "input", "passkey");
}

SLOTSCOPE_CASE(rows_with_prompt_and_answer) {
  File open(t);
  const auto file = open(
      "my.jsonl",
      "\xEF\xBB\xBF{\"prompt\": \"Ann's code is 4127. Bob's is 41. Whose is 41?\", \"answer\": "
      "\"41\"}\r\n\r\n"
      "{\"text\": \"no answer known\"}\r\n   \r\n{\"prompt\": \"x yes\", \"answer\": \"No\"}\r\n"
      "{\"prompt\": \"Say YES.\\nWell?\", \"answer\": \"yes\"}\n{\"prompt\":\"abc12\\nq\",\"answer\":12}");
  CHECK_EQ(file->rows(), int64_t(5));
  const auto row = file->row(0);
  CHECK_EQ(row.text, std::string("Ann's code is 4127. Bob's is 41. Whose is 41?"));
  CHECK_EQ(marked(row, "value"), Texts{"41"});  // neither inside 4127 nor in the question
  CHECK_EQ(row.marks.at(0).name, std::string("needle"));
  CHECK_EQ(marked(row, "needle"), Texts{"Bob's is 41."});
  CHECK_EQ(marked(row, "query"), Texts{"Whose is 41?"});
  CHECK_EQ(row.generate, int64_t(-1));
  const auto open_end = file->row(1);
  CHECK_EQ(open_end.line, int64_t(3));
  CHECK(open_end.references.empty() && open_end.marks.empty() && open_end.warnings.empty());
  CHECK(!make_prompt(open_end, bytes_tokenizer(t).get()).has_answer);
  CHECK_EQ(file->row(2).warnings.size(), size_t(1));  // absent: said, not refused
  CHECK(file->row(2).warnings[0].find("'No' is not in the prompt") != std::string::npos);
  CHECK_EQ(marked(file->row(3), "value"), Texts{"YES"});
  CHECK(file->row(3).warnings.at(0).find("other case") != std::string::npos);
  CHECK_EQ(marked(file->row(4), "value"), Texts{"12"});
  CHECK(file->row(4).warnings.at(0).find("inside longer words") != std::string::npos);
  const Prompt warned = make_prompt(file->row(2), bytes_tokenizer(t).get());
  CHECK_EQ(warned.parameters.back().first, std::string("import_warning"));
}

SLOTSCOPE_CASE(s_niah_value_stands_once) {
  File open(t);
  json row = rows_of(t.data("data/prompts/niah_single_1.jsonl"))[0];
  row["input"] = "8271934 " + row["input"].get<std::string>();
  const auto twice = open("n.jsonl", row.dump())->row(0);
  CHECK_EQ(twice.warnings.size(), size_t(1));
  CHECK(twice.warnings.at(0).find("2 times") != std::string::npos);
  CHECK_EQ(marked(twice, "value").size(), size_t(2));
  row["outputs"] = {"1234567"};
  const auto absent = open("n.jsonl", row.dump())->row(0);
  CHECK_EQ(absent.warnings.size(), size_t(1));
  CHECK(absent.warnings.at(0).find("0 times") != std::string::npos);
  // The value of a needle that the question does not ask for.
  json other = rows_of(t.data("data/prompts/niah_single_1.jsonl"))[0];
  std::string input = other["input"];
  input.replace(input.rfind("silly-hammer"), 12, "other-hammer");
  other["input"] = input;
  const auto asked = open("n.jsonl", other.dump())->row(0);
  CHECK_EQ(asked.warnings.size(), size_t(1));
  CHECK(asked.warnings.at(0).find("'silly-hammer'") != std::string::npos);
  // A word of the language is no needle: the marks are bounded.
  std::string many;
  for (int i = 0; i < 500; ++i) many += "yes and ";
  const auto word = open("m.jsonl", json{{"prompt", many + "\nso?"}, {"answer", "yes"}}.dump())->row(0);
  CHECK_EQ(marked(word, "value").size(), size_t(64));
  CHECK(word.warnings.at(0).find("500 times") != std::string::npos);
}

// The brute-force twin: a token belongs to a span when any of its bytes lies in it.
SLOTSCOPE_CASE(tokens_that_overlap_an_edge_belong_to_the_span) {
  const FourBytes tokenizer;
  const auto file = PromptFile::open(t.data("data/prompts/niah_single_2/validation.jsonl"));
  for (int64_t i = 0; i < file->rows(); ++i) {
    const PromptRow row = file->row(i);
    for (const bool special : {false, true}) {
      const Prompt prompt = make_prompt(row, &tokenizer, special);
      const Encoding encoding = tokenizer.encode(row.text, special);
      CHECK_EQ(prompt.spans.size(), row.marks.size());
      for (size_t m = 0; m < row.marks.size() && m < prompt.spans.size(); ++m) {
        Span twin{row.marks[m].name, -1, -1};
        for (size_t k = 0; k < encoding.ids.size(); ++k)
          for (int64_t b = encoding.byte_offsets[k].first; b < encoding.byte_offsets[k].second; ++b)
            if (size_t(b) >= row.marks[m].begin && size_t(b) < row.marks[m].end) {
              if (twin.begin < 0) twin.begin = int64_t(k);
              twin.end = int64_t(k) + 1;
            }
        CHECK(twin == prompt.spans[m]);
        if (twin.name == "value")
          for (int64_t k = twin.begin; k < twin.end; ++k) CHECK_EQ(prompt.roles[size_t(k)], uint8_t(1));
      }
    }
  }
}

// Vocabularies that merge over the edges of a span: a leading space, Metaspace, several characters a token.
// Ids and offsets of these are checked against the public library elsewhere; here each span must be the least
// run of tokens that covers its text.
SLOTSCOPE_CASE(spans_with_the_tokenizers_of_models) {
  if (!has_all_tokenizers()) t.skip("a build without ICU and SentencePiece");
  int inside = 0, whole = 0;  // spans whose edge falls inside a token; answers that decode to themselves
  for (const char* name : {"gpt2", "llama3", "qwen2", "neox", "llama2_first", "llama2_never", "unigram"}) {
    const auto tokenizer = Tokenizer::load(t.data(std::string("golden/tokenizers/") + name));
    for (const char* source :
         {"niah_single_1.jsonl", "niah_single_2/validation.jsonl", "kv_retrieval.jsonl"}) {
      const auto file = PromptFile::open(t.data(std::string("data/prompts/") + source));
      for (int64_t i = 0; i < file->rows(); ++i) {
        const PromptRow row = file->row(i);
        const Prompt prompt = make_prompt(row, tokenizer.get());
        const Encoding encoding = tokenizer->encode(row.text);
        CHECK_EQ(prompt.ids, encoding.ids);
        CHECK_EQ(prompt.spans.size(), row.marks.size());
        for (size_t m = 0; m < std::min(prompt.spans.size(), row.marks.size()); ++m) {
          const Span& span = prompt.spans[m];
          const auto begin = int64_t(row.marks[m].begin), end = int64_t(row.marks[m].end);
          const auto first = encoding.byte_offsets[size_t(span.begin)],
                     last = encoding.byte_offsets[size_t(span.end) - 1];
          CHECK_EQ(span.name, row.marks[m].name);
          CHECK(first.first <= begin && first.second > begin && last.second >= end && last.first < end);
          inside += first.first < begin || last.second > end;
          if (span.begin > 0 && encoding.byte_offsets[size_t(span.begin) - 1].second > begin)
            t.fail("a token before " + span.name, __FILE__, __LINE__);
          if (size_t(span.end) < encoding.ids.size() && encoding.byte_offsets[size_t(span.end)].first < end)
            t.fail("a token behind " + span.name, __FILE__, __LINE__);
        }
        CHECK(prompt.answer_roles.size() == prompt.answer_ids.size() || prompt.answer_roles.empty());
        // A vocabulary without the answer's characters gives it back as unknown tokens; the others give it back whole.
        const auto holds = [&](const std::vector<int32_t>& ids) {
          return tokenizer->decode(ids).find(row.references[0]) != std::string::npos;
        };
        whole += holds(prompt.answer_ids);
        CHECK_EQ(holds(prompt.answer_ids), holds(tokenizer->encode(row.references[0], false).ids));
      }
    }
  }
  CHECK(inside > 0);
  CHECK(whole >= 6 * 7);
  t.note(std::to_string(inside) + " spans with an edge inside a token");
}

SLOTSCOPE_CASE(token_id_files) {
  File open(t);
  const auto ids = [](const PromptFile& file, int64_t i) { return make_prompt(file.row(i), nullptr).ids; };
  CHECK_EQ(ids(*open("a.json", " [1, 2,\n3]"), 0), (std::vector<int32_t>{1, 2, 3}));
  const auto two = open("b.json", "[[5],[6,2147483647]]");
  CHECK_EQ(two->rows(), int64_t(2));
  CHECK_EQ(ids(*two, 1), (std::vector<int32_t>{6, 2147483647}));
  CHECK_EQ(two->row(1).name, std::string("b.json [1]"));
  const auto lines = open("c.jsonl", "[1,2]\n\n[3]\n");
  CHECK_EQ(lines->rows(), int64_t(2));
  CHECK_EQ(ids(*lines, 1), (std::vector<int32_t>{3}));
  CHECK_EQ(lines->row(1).line, int64_t(3));
  CHECK_EQ(open("d.jsonl", "[[1,2],[3]]")->rows(), int64_t(2));  // one line that is a list of rows
  CHECK_EQ(open("e.json", "[1,2]\n[3]")->rows(), int64_t(2));    // json by name, lines by content
  CHECK_EQ(ids(*open("f.jsonl", "{\"input_ids\":[7,8]}"), 0), (std::vector<int32_t>{7, 8}));
  CHECK_ERROR(open("g.jsonl", "[1,2]\n[3,-4]\n")->row(1), "g.jsonl", "line 2", "[1]", "-4", "whole number");
  CHECK_ERROR(open("g.jsonl", "[1,2]\n[]\n")->row(1), "line 2", "empty");
  CHECK_ERROR(open("g.jsonl", "[1,2]\n{\"prompt\":\"x\"}\n")->row(1), "line 2", "ids");
  CHECK_ERROR(make_prompt(open("h.jsonl", "{\"prompt\":\"x\"}")->row(0), nullptr), "no tokenizer");
}

// The example of spec prompts 3.4: V = 12, K = 2, the label 7 at the position of the second 4.
SLOTSCOPE_CASE(mqar_rows) {
  File open(t);
  const auto row =
      open("mqar.jsonl",
           R"({"inputs":[2,8,4,7,0,0,4,0,2,0],"labels":[-100,-100,-100,-100,-100,-100,7,-100,8,-100]})")
          ->row(0);
  CHECK_EQ(row.warnings, Texts{});
  CHECK(
      row.marks ==
      (std::vector<PromptRow::Mark>{
          {"key", 2, 3}, {"value", 3, 4}, {"query", 6, 7}, {"key", 0, 1}, {"value", 1, 2}, {"query", 8, 9}}));
  const Prompt prompt = make_prompt(row, nullptr);
  CHECK_EQ(prompt.roles, (std::vector<uint8_t>{0, 1, 0, 1, 0, 0, 0, 0, 0, 0}));
  CHECK(!prompt.has_answer);
  const auto wrong =
      open("mqar.jsonl", R"({"inputs":[2,8,4,7,0,0,4,0],"labels":[-100,-100,-100,-100,-100,-100,8,-100]})")
          ->row(0);
  CHECK_EQ(wrong.warnings.size(), size_t(1));
  CHECK(wrong.warnings.at(0).find("label 8 at position 6") != std::string::npos);
  CHECK_ERROR(open("mqar.jsonl", R"({"inputs":[2,8],"labels":[-100]})")->row(0), "labels", "1 labels",
              "2 labels");
}

SLOTSCOPE_CASE(plain_text_is_taken_byte_for_byte) {
  File open(t);
  const std::string bytes = "  {\"a\"\r\n\xC3\xA9\n\n";
  for (const char* name : {"p.txt", "p.md", "p", "p.cpp"}) {
    const auto file = open(name, bytes);
    CHECK_EQ(std::string(prompt_format_name(file->format())), std::string("text"));
    CHECK_EQ(file->row(0).text, bytes);
    CHECK_EQ(file->row(0).name, std::string(name));
  }
  CHECK_EQ(open("q.txt", "{\"prompt\":\"x\"}\n")->row(0).text,
           std::string("{\"prompt\":\"x\"}\n"));  // text by name
  CHECK_EQ(open("q", "{\"prompt\":\"x\"}\n")->row(0).text, std::string("x"));
  CHECK_EQ(open("q.txt", "{\"prompt\":\"x\"}\n", PromptFormat::prompts)->row(0).text, std::string("x"));
  CHECK_EQ(open("q.json", "[1]", PromptFormat::text)->row(0).text, std::string("[1]"));
  const auto marked_text = open("b.txt", "\xEF\xBB\xBFhi")->row(0);
  CHECK_EQ(marked_text.text, std::string("\xEF\xBB\xBFhi"));
  CHECK_EQ(marked_text.warnings.size(), size_t(1));
  CHECK_ERROR(open("bad.txt", "ab\xFFz")->row(0), "bad.txt", "invalid UTF-8 at byte 2", "0xff");
}

SLOTSCOPE_CASE(what_cannot_be_read_is_named) {
  File open(t);
  CHECK_ERROR(open("a.jsonl", ""), "a.jsonl", "empty");
  CHECK_ERROR(open("a.jsonl", "\n \r\n"), "a.jsonl");
  CHECK_ERROR(open("a.jsonl", "hello\n"), "a.jsonl", "line 1", "hello", "JSON");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\": \"x\n"), "a.jsonl", "line 1", "not valid JSON");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\":\"x\"}\n\n{\"prompt\":\n")->row(1), "a.jsonl", "line 3",
              "not valid JSON at byte");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\":\"x\"}\n{\"prompt\":\"\xC3\x28\"}\n")->row(1), "line 2",
              "invalid UTF-8 at byte 11");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\":\"x\"}\n{\"prompt\":3}\n")->row(1), "line 2", "prompt", "3",
              "text");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\":\"x\"}\n{\"prompt\":\"\"}\n")->row(1), "line 2", "prompt",
              "no text");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\":\"x\"}\n7\n")->row(1), "line 2", "7", "object");
  CHECK_ERROR(open("a.jsonl", "{\"prompt\":\"x\",\"prompt\":\"y\"}\n"), "line 1", "appears twice");
  CHECK_ERROR(open("a.jsonl", "{\"foo\":1,\"bar\":2}\n"), "line 1", "bar, foo", "outputs", "prompt");
  CHECK_ERROR(open("a.jsonl", "{\"input\":\"x\",\"outputs\":[]}\n{\"input\":\"x\"}")->row(1), "line 2",
              "outputs", "no such field");
  CHECK_ERROR(open("a.jsonl", "{\"input\":\"x\",\"outputs\":[{}]}")->row(0), "line 1", "outputs[0]",
              "an object");
  CHECK_ERROR(open("a.jsonl", "{\"input\":\"x\",\"outputs\":[\"\"]}")->row(0), "outputs[0]", "empty");
  CHECK_ERROR(open("a.json", "{\"prompt\":\n"), "a.json", "not valid JSON");
  CHECK_ERROR(open("a.json", "[]"), "a.json", "empty list");
  CHECK_ERROR(open("a.json", "7"), "a.json");
  CHECK_ERROR(open("a.jsonl", std::string(200, '[') + "\n"), "a.jsonl", "line 1");
  CHECK_ERROR(open("a.json", std::string(100'000, '[')), "a.json", "nested deeper");
  CHECK_ERROR(open("a.jsonl.gz", "\x1F\x8B\x08"), "gzip", "gunzip");
  CHECK_ERROR(open("a.npy", "\x93NUMPY\x01"), "NumPy", "tolist");
  CHECK_ERROR(open("a.parquet", "PAR1...."), "Parquet", "jsonl");
  CHECK_ERROR(open("a.txt", std::string_view("\xFF\xFEh\0i\0", 6)), "UTF-16", "UTF-8");
  CHECK_ERROR(PromptFile::open(open.folder), "not a regular file");
  CHECK_ERROR(PromptFile::open(open.folder / "none.jsonl"), "none.jsonl");
  Progress stopped;
  stopped.request_cancel();
  write_file(open.folder / "c.jsonl", "[1]\n[2]\n");
  CHECK_ERROR(PromptFile::open(open.folder / "c.jsonl", PromptFormat::automatic, &stopped), "cancelled");
}

// A sparse line beyond the limit is refused before it is read whole.
SLOTSCOPE_CASE(long_lines_and_many_rows) {
  File open(t);
  write_file(open.folder / "long.jsonl", "{\"prompt\":\"x\"}\n{");
  std::filesystem::resize_file(open.folder / "long.jsonl", PromptFile::kMaxLine + (8 << 20));
  CHECK_ERROR(PromptFile::open(open.folder / "long.jsonl"), "line 2", "at most 67,108,864");
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "{\"prompt\":\"row " + std::to_string(i) + "\"}\n";
  const auto file = open("many.jsonl", many);
  CHECK_EQ(file->rows(), int64_t(10'000));
  CHECK_EQ(file->row(9'999).text, std::string("row 9999"));
  // Across the blocks that the file is listed in.
  std::string big;
  for (int i = 0; i < 5; ++i) big += "{\"prompt\":\"" + std::string(900'000, char('a' + i)) + "\"}\r\n";
  const auto blocks = open("big.jsonl", big);
  CHECK_EQ(blocks->rows(), int64_t(5));
  for (int i = 0; i < 5; ++i) CHECK_EQ(blocks->row(i).text, std::string(900'000, char('a' + i)));
  write_file(open.folder / "big.jsonl", "{}");
  CHECK_ERROR(blocks->row(4), "big.jsonl", "line 5", "shorter");
}

SLOTSCOPE_CASE(lists_of_rows) {
  const auto rows = [](const char* text) { return parse_rows(text, 10); };
  using Rows = std::vector<int64_t>;
  CHECK_EQ(rows("0:3"), (Rows{0, 1, 2}));
  CHECK_EQ(rows("7,3,5"), (Rows{7, 3, 5}));
  CHECK_EQ(rows("8:,0:1"), (Rows{8, 9, 0}));
  CHECK_EQ(rows(":2"), (Rows{0, 1}));
  CHECK_EQ(rows("").size(), size_t(10));
  CHECK_EQ(rows(":").size(), size_t(10));
  for (const char* wrong : {"10", "0:11", "3:3", "4:2", "-1", "1,1", "0:3,2", "a", "1,", ",1", "1 2", "1:2:3",
                            "0x1", "9223372036854775808"})
    CHECK_ERROR(rows(wrong), "--rows");
}

SLOTSCOPE_CASE(format_names) {
  for (size_t i = 0; i < prompt_format_names().size(); ++i)
    CHECK_EQ(int(prompt_format_from(prompt_format_names()[i]).value()), int(i));
  CHECK(!prompt_format_from("csv"));
  CHECK_EQ(prompt_format_names().size(), size_t(PromptFormat::ids) + 1);
}
