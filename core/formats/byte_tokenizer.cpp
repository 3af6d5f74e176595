#include "core/formats/byte_tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/formats/byte_level.h"

namespace slotscope::formats {

std::string byte_tokenizer_json() {
  using json = nlohmann::ordered_json;
  const auto special = [](int32_t id, const char* text) {
    return json{{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const auto sequence = [](const char* id, int type) { return json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  const auto token = [](int type) { return json{{"SpecialToken", {{"id", "<bos>"}, {"type_id", type}}}}; };
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_level_text(static_cast<unsigned char>(byte))] = byte;
  json root;
  root["version"] = "1.0";
  root["truncation"] = nullptr;
  root["padding"] = nullptr;
  root["added_tokens"] = {special(kByteTokenizerBos, "<bos>"), special(kByteTokenizerEos, "<eos>")};
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  root["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", json::array({token(0), sequence("A", 0)})},
      {"pair", json::array({sequence("A", 0), sequence("B", 1)})},
      {"special_tokens",
       {{"<bos>", {{"id", "<bos>"}, {"ids", json::array({kByteTokenizerBos})}, {"tokens", json::array({"<bos>"})}}}}}};
  root["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  root["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false},
                   {"vocab", vocabulary},
                   {"merges", json::array()}};
  return root.dump(2) + "\n";
}

}  // namespace slotscope::formats
