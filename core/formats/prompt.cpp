#include "core/formats/prompt.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;

namespace {

constexpr uint64_t kMaxIdsFileBytes = 1ull << 30;

std::vector<int32_t> read_ids(const json& list, const std::string& file, const std::string& where) {
  if (list.empty())
    throw Error({file, where.empty() ? "ids" : where, "an empty list", "at least one token id", ""});
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const json& n = list[i];
    if (!n.is_number_unsigned() || n.get<uint64_t>() > 0x7FFFFFFF)
      throw Error({file, where + "[" + std::to_string(i) + "]",
                   n.is_structured() ? n.type_name()
                                     : printable(n.dump(-1, ' ', false, json::error_handler_t::replace), 40),
                   "a token id: a whole number from 0 to 2147483647", ""});
    ids.push_back(n.get<int32_t>());
  }
  return ids;
}

}  // namespace

Prompt prompt_from_text(const Tokenizer& tokenizer, std::string text, std::string name, bool add_special) {
  Encoding encoding = tokenizer.encode(text, add_special);
  Prompt prompt;
  prompt.name = std::move(name);
  prompt.ids = std::move(encoding.ids);
  prompt.has_text = true;
  prompt.text = std::move(text);
  prompt.char_offsets = std::move(encoding.offsets);
  prompt.roles.assign(prompt.ids.size(), 0);
  return prompt;
}

Prompt prompt_from_ids(std::vector<int32_t> ids, std::string name) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0)
      throw Error({"", "ids[" + std::to_string(i) + "]", std::to_string(ids[i]), "a token id from 0", ""},
                  Error::Kind::usage);
  Prompt prompt;
  prompt.name = std::move(name);
  prompt.roles.assign(ids.size(), 0);
  prompt.ids = std::move(ids);
  return prompt;
}

Span token_span(const Encoding& encoding, std::string name, size_t begin, size_t end) {
  Span span{std::move(name), 0, 0};
  bool found = false;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto [b, e] = encoding.byte_offsets[i];
    if (b == e || e <= int64_t(begin) || b >= int64_t(end)) continue;
    if (!found) span.begin = int64_t(i);
    found = true;
    span.end = int64_t(i) + 1;
  }
  return span;
}

std::vector<int32_t> continuation_ids(const Tokenizer& tokenizer, const std::string& text,
                                      const std::vector<int32_t>& prompt, const std::string& continuation,
                                      bool add_special) {
  const std::vector<int32_t> whole = tokenizer.encode(text + continuation, add_special).ids;
  if (whole.size() > prompt.size() && std::equal(prompt.begin(), prompt.end(), whole.begin()))
    return {whole.begin() + long(prompt.size()), whole.end()};
  return tokenizer.encode(continuation, false).ids;
}

std::vector<Prompt> prompts_from_ids_file(const std::string& path) {
  const json root = parse_json(read_text_file(path, kMaxIdsFileBytes), {.file = path});
  if (!root.is_array())
    throw Error({path, "", root.type_name(), "a JSON array of token ids, or of arrays of them", ""});
  const std::string name = std::filesystem::path(path).filename().string();
  std::vector<Prompt> prompts;
  if (root.empty() || !root[0].is_array()) {
    prompts.push_back(prompt_from_ids(read_ids(root, path, ""), name));
    return prompts;
  }
  for (size_t i = 0; i < root.size(); ++i) {
    const std::string where = "[" + std::to_string(i) + "]";
    if (!root[i].is_array())
      throw Error(
          {path, where, root[i].type_name(), "an array of token ids, like the entries before it", ""});
    prompts.push_back(prompt_from_ids(read_ids(root[i], path, where), name + " " + where));
  }
  return prompts;
}

}  // namespace slotscope::formats
