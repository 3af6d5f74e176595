// Text files that were damaged or made up: config.json, tokenizer.json, the index and id files. Whatever is
// in them, the answer is a result or a slotscope::Error, never another exception, a crash or a long wait.
// (Mutated safetensors headers: suite safetensors.)
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/formats/prompt.h"
#include "core/formats/prompt_import.h"
#include "core/formats/raven_config.h"
#include "core/formats/tokenizer.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (state_ >> 33) % n;
  }
  // Bytes changed, removed, copied.
  std::string bytes(std::string text) {
    for (uint64_t edits = 1 + below(3); edits-- > 0 && !text.empty();) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = char(below(256));
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.erase(at, 1 + below(12));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(24)));
      }
    }
    return text;
  }
  // One value somewhere in the document replaced by a value of any kind: well-formed, but not what is
  // expected.
  json values(json root) {
    static const std::vector<std::string> odd = {"null",
                                                 "true",
                                                 "false",
                                                 "0",
                                                 "-1",
                                                 "1",
                                                 "3",
                                                 "4.5",
                                                 "1e300",
                                                 "-1e-300",
                                                 "9223372036854775807",
                                                 "18446744073709551615",
                                                 "\"\"",
                                                 "\"x\"",
                                                 "\"swish\"",
                                                 "[]",
                                                 "{}",
                                                 "[1]",
                                                 "[[]]",
                                                 "{\"a\":1}",
                                                 "[null]",
                                                 "{\"type\":5}",
                                                 "{\"layers\":[0]}"};
    json* node = &root;
    for (;;) {
      if (!node->is_structured() || node->empty() || (node != &root && below(3) == 0)) {
        *node = json::parse(odd[below(odd.size())]);
        return root;
      }
      auto child = node->begin();
      std::advance(child, long(below(std::min<size_t>(node->size(), 60))));
      if (node->is_object() && below(12) == 0) {
        node->erase(child);
        return root;
      }
      node = &*child;
    }
  }

 private:
  uint64_t state_;
};

// Runs `use` on the file with `rounds` damaged contents; anything but a result or an Error fails the case by
// escaping.
void damage(Context& t, const std::filesystem::path& path, int rounds, const std::function<void()>& use) {
  const std::string good = read_all(path);
  const json root = json::parse(good);
  Mutator mutator(11);
  int accepted = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    write_file(path, round % 2 ? mutator.bytes(good) : mutator.values(root).dump());
    try {
      use();
      ++accepted;
    } catch (const slotscope::Error& error) {
      ++refused;
      CHECK(std::string_view(error.what()).size() > 10);
    } catch (const std::exception& error) {
      t.fail(std::string("another exception: ") + error.what() + " for " + read_all(path).substr(0, 2000),
             __FILE__, __LINE__);
    }
  }
  write_file(path, good);
  CHECK(accepted > 0 && refused > 0);
  t.note(std::to_string(accepted) + " accepted, " + std::to_string(refused) + " refused");
}

std::filesystem::path copy_of(Context& t, const std::filesystem::path& from) {
  const auto folder = t.temp() / "model";
  std::filesystem::copy(from, folder, std::filesystem::copy_options::recursive);
  return folder;
}

}  // namespace

SLOTSCOPE_CASE(damaged_config) {
  for (const char* name : {"raven_fla_hybrid_list", "raven_gb_gate", "raven_fla_gla_softmax_bias_t2r"}) {
    const auto folder = copy_of(t, t.data(std::string("golden/models/") + name));
    damage(t, folder / "config.json", 700, [&] {
      const auto checkpoint = Checkpoint::open(folder);
      RavenConfig config = read_raven_config(*checkpoint);
      check_raven_values(*checkpoint, config);
      // What was accepted fits the tensors that are there.
      for (const auto& tensor : raven_tensors(config))
        CHECK(checkpoint->find(tensor.name)->shape == tensor.shape);
    });
  }
}

SLOTSCOPE_CASE(damaged_tokenizer) {
  const auto folder = copy_of(t, t.data("golden/tokenizers/byte_level"));
  json root = json::parse(read_all(folder / "tokenizer.json"));
  root["model"]["vocab"]["ab"] = 258;
  root["model"]["vocab"]["abc"] = 259;
  root["model"]["merges"] = json::array({"a b", json{"ab", "c"}});
  write_file(folder / "tokenizer.json", root.dump());
  damage(t, folder / "tokenizer.json", 1500, [&] {
    const auto tokenizer = Tokenizer::load(folder);
    const std::string text = "abcab <bos> é";
    const Encoding encoding = tokenizer->encode(text);
    CHECK_EQ(encoding.ids.size(), encoding.offsets.size());
    tokenizer->decode(encoding.ids, false);
    for (const int32_t id : encoding.ids) tokenizer->token_text(id);
  });
}

SLOTSCOPE_CASE(damaged_index) {
  const auto folder = t.temp();
  write_file(folder / "a.safetensors", zeros_file({{"x", {2}}}));
  write_file(folder / "b.safetensors", zeros_file({{"y", {3}}}));
  write_file(
      folder / "model.safetensors.index.json",
      R"({"metadata": {"total_size": 20}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");
  damage(t, folder / "model.safetensors.index.json", 600, [&] { Checkpoint::open(folder); });
}

SLOTSCOPE_CASE(damaged_ids) {
  const auto path = t.temp() / "ids.json";
  write_file(path, "[[1, 2, 3], [4, 5, 600, 70000]]");
  damage(t, path, 600, [&] {
    for (const Prompt& prompt : prompts_from_ids_file(path.string())) CHECK(!prompt.ids.empty());
  });
}

SLOTSCOPE_CASE(damaged_prompts) {
  const auto path = t.temp() / "rows.jsonl";
  const auto tokenizer = Tokenizer::load(t.data("golden/tokenizers/byte_level"));
  for (const char* source : {"niah_single_1.jsonl", "niah_single_2/validation.jsonl", "kv_retrieval.jsonl",
                             "samples_niah_single_1_2025-03-04T05-06-07.123456.jsonl"}) {
    std::string line = read_all(t.data(std::string("data/prompts/") + source));
    line.erase(line.find('\n') + 1);
    write_file(path, line);
    damage(t, path, 400, [&] {
      const auto file = PromptFile::open(path);
      for (int64_t i = 0; i < file->rows(); ++i) {
        const PromptRow row = file->row(i);
        for (const auto& mark : row.marks)
          CHECK(mark.begin < mark.end && mark.end <= (row.has_text ? row.text.size() : row.ids.size()));
        const Prompt prompt = make_prompt(row, tokenizer.get());
        CHECK_EQ(prompt.roles.size(), prompt.ids.size());
        for (const auto& span : prompt.spans)
          CHECK(span.begin >= 0 && span.begin < span.end && span.end <= int64_t(prompt.ids.size()));
      }
    });
  }
  write_file(path, R"({"inputs":[2,8,4,7,0,0,4,0],"labels":[-100,-100,-100,-100,-100,-100,7,-100]})");
  damage(t, path, 400, [&] { make_prompt(PromptFile::open(path)->row(0), nullptr); });
}
