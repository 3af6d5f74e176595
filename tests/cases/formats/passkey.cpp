// The password prompt: exact form, exact length, spans, roles, and the same numbers on every platform.
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/formats/prompt.h"
#include "core/formats/random.h"
#include "core/formats/sha256.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

namespace {

std::shared_ptr<const Tokenizer> bundled(Context& t) {
  return Tokenizer::load(t.resource("checkpoints/raven-passkey"));
}

std::string span_text(const Tokenizer& tokenizer, const Prompt& prompt, const std::string& name) {
  for (const auto& span : prompt.spans)
    if (span.name == name)
      return tokenizer.decode({prompt.ids.begin() + long(span.begin), prompt.ids.begin() + long(span.end)},
                              false);
  return "(no span)";
}

// The prompt's form, checked from outside: what is left of the text without needle and question must be
// haystack.
void check_form(Context& t, const Tokenizer& tokenizer, const Prompt& prompt, const std::string& source,
                int64_t length) {
  CHECK_EQ(int64_t(prompt.ids.size()), length);
  CHECK_EQ(prompt.ids[0], 256);
  CHECK_EQ(prompt.roles.size(), prompt.ids.size());
  CHECK_EQ(prompt.char_offsets.size(), prompt.ids.size());
  CHECK_EQ(tokenizer.decode(prompt.ids, true), prompt.text);
  const std::string needle = " The password is " + prompt.answer + ". Remember it. ",
                    query = " Now tell me the password = ";
  CHECK_EQ(span_text(tokenizer, prompt, "needle"), needle);
  CHECK_EQ(span_text(tokenizer, prompt, "key"), prompt.answer);
  CHECK_EQ(span_text(tokenizer, prompt, "query"), query);
  CHECK(prompt.text.ends_with(query));
  const auto at = prompt.text.find(needle);
  CHECK(at != std::string::npos);
  std::string hay = prompt.text.substr(0, prompt.text.size() - query.size());
  hay.erase(at, needle.size());
  std::string cycle = source;
  while (cycle.size() < hay.size() + source.size()) cycle += source;
  CHECK(cycle.find(hay) != std::string::npos);
  for (size_t i = 0; i < prompt.ids.size(); ++i) {
    const auto key =
        std::find_if(prompt.spans.begin(), prompt.spans.end(), [](auto& s) { return s.name == "key"; });
    if (int(prompt.roles[i]) != int(int64_t(i) >= key->begin && int64_t(i) < key->end))
      t.fail("role", __FILE__, __LINE__);
  }
  CHECK(prompt.has_answer);
  CHECK_EQ(tokenizer.decode(prompt.answer_ids), prompt.answer);
}

const std::string kNoise =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";

std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

// The published outputs of SplitMix64 for seed 1234567.
SLOTSCOPE_CASE(split_mix_64) {
  SplitMix64 random(1234567);
  for (const uint64_t expected : {6457827717110365317ull, 3203168211198807973ull, 9817491932198370423ull,
                                  4593380528125082431ull, 16408922859458223821ull})
    CHECK_EQ(random.next(), expected);
  std::vector<int> counts(10);
  for (int i = 0; i < 10'000; ++i) ++counts[random.below(10)];
  for (const int n : counts) CHECK(n > 850 && n < 1150);
  CHECK_EQ(random.below(1), uint64_t(0));
}

SLOTSCOPE_CASE(form_and_length) {
  const auto tokenizer = bundled(t);
  const auto file = t.data("data/shakespeare-excerpt.txt");
  const std::string shakespeare = read_all(file);
  std::set<std::string> keys;
  std::set<size_t> key_lengths;
  for (uint64_t seed = 0; seed < 40; ++seed)
    for (const int64_t length : {100, 256, 513, 2048}) {
      const Prompt noise = make_passkey(*tokenizer, {.length = length, .seed = seed});
      check_form(t, *tokenizer, noise, kNoise, length);
      check_form(t, *tokenizer,
                 make_passkey(*tokenizer, {.length = length, .seed = seed, .haystack = file.string()}),
                 shakespeare, length);
      keys.insert(noise.answer);
      key_lengths.insert(noise.answer.size());
      CHECK_EQ(
          noise.answer.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
          std::string::npos);
    }
  CHECK_EQ(keys.size(), size_t(40));  // the key depends on the seed alone
  CHECK_EQ(key_lengths, (std::set<size_t>{6, 7, 8, 9, 10}));
}

// Same options, same prompt: these digests were computed by an independent program in another language from the description in
// prompt.h and random.h; they may never change, or figures could not be made again.
SLOTSCOPE_CASE(reproducible) {
  const auto tokenizer = bundled(t);
  const std::string shakespeare = t.data("data/shakespeare-excerpt.txt").string();
  const auto digest = [&](PasskeyOptions options) { return sha256_hex(make_passkey(*tokenizer, options).text); };
  CHECK_EQ(digest({.length = 256, .seed = 0}),
           std::string("17a9ee3bf979e4e00018263344297e1c3d5a28f48c8cc9fef08f9fcdb97245db"));
  CHECK_EQ(digest({.length = 1024, .seed = 2}),
           std::string("e1694178551021217d9d88861c6e29d564c2f4ed6260d79bb0c55d059a3f24d8"));
  CHECK_EQ(digest({.length = 2048, .depth = 0.3, .seed = 24}),
           std::string("4c451cd0fb90e1f3e4a46c58fc21396a81b7bd92e55064a7fb139cf281a1e1b0"));
  CHECK_EQ(digest({.length = 512, .seed = 7, .haystack = shakespeare}),
           std::string("a1aa32ab8940ef45894eb1c6885e1093b9277bfa6cbf50b352b2ab9ef403bda4"));
  CHECK_EQ(digest({.length = 100, .depth = 1, .seed = UINT64_MAX, .haystack = shakespeare}),
           std::string("bc72db87db299891b8883dcfe560d2fb930214ec5bf595abde10724f3d77dfdb"));
  const Prompt a = make_passkey(*tokenizer, {.length = 256, .seed = 0}),
               b = make_passkey(*tokenizer, {.length = 256, .seed = 0});
  CHECK_EQ(a.ids, b.ids);
  CHECK_EQ(a.parameters[0].second, std::string("passkey"));
  CHECK_EQ(a.name, std::string("password · 256"));
  // One option chosen by hand leaves the others.
  const Prompt c =
      make_passkey(*tokenizer, {.length = 256, .seed = 0, .key = std::string(a.answer.size(), 'Q')});
  CHECK_SAME(c.spans, a.spans);
  CHECK_EQ(c.text.substr(0, 20), a.text.substr(0, 20));
}

SLOTSCOPE_CASE(depth) {
  const auto tokenizer = bundled(t);
  const auto needle_at = [&](double depth, int64_t length) {
    return make_passkey(*tokenizer, {.length = length, .depth = depth, .seed = 5, .key = "abcdef"})
        .spans[0]
        .begin;
  };
  // 512 tokens: <bos>, needle of 38, question of 28, haystack of 445.
  CHECK_EQ(needle_at(0, 512), int64_t(1));
  CHECK_EQ(needle_at(1, 512), int64_t(1 + 445));
  CHECK_EQ(needle_at(0.5, 512), int64_t(1 + 223));
  CHECK_EQ(needle_at(0.1, 512), int64_t(1 + 45));
  std::set<int64_t> drawn;
  for (uint64_t seed = 0; seed < 50; ++seed)
    drawn.insert(make_passkey(*tokenizer, {.length = 512, .seed = seed}).spans[0].begin * 10 / 512);
  CHECK(drawn.size() >= 8);  // the whole range is used
  CHECK_ERROR(needle_at(1.5, 512), "--depth", "1.5", "0 to 1");
  CHECK_ERROR(needle_at(std::numeric_limits<double>::quiet_NaN(), 512), "--depth");
}

SLOTSCOPE_CASE(shortest_and_too_short) {
  const auto tokenizer = bundled(t);
  const Prompt shortest = make_passkey(*tokenizer, {.length = 67, .seed = 1, .key = "abcdef"});
  CHECK_EQ(shortest.text, std::string(" The password is abcdef. Remember it.  Now tell me the password = "));
  CHECK_ERROR(make_passkey(*tokenizer, {.length = 66, .seed = 1, .key = "abcdef"}), "--length", "66",
              "at least 67");
  CHECK_EQ(make_passkey(*tokenizer, {.length = 66, .seed = 1, .key = "abcdef", .add_special = false}).ids[0],
           32);
  for (const int64_t length : {int64_t(0), int64_t(-5), int64_t(1) << 60})
    CHECK_ERROR(make_passkey(*tokenizer, {.length = length}), "--length");
  try {
    make_passkey(*tokenizer, {.length = 10});
  } catch (const slotscope::Error& error) {
    CHECK(error.kind() == slotscope::Error::Kind::usage);
  }
}

SLOTSCOPE_CASE(haystack_files) {
  const auto tokenizer = bundled(t);
  const auto folder = t.temp();
  const auto with = [&](const char* name, int64_t length) {
    return make_passkey(*tokenizer, {.length = length, .seed = 3, .haystack = (folder / name).string()});
  };
  write_file(folder / "short.txt", "abc ");  // shorter than the prompt: repeated
  check_form(t, *tokenizer, with("short.txt", 300), "abc ", 300);
  // Characters of several bytes are never cut, and the length is exact all the same.
  write_file(folder / "wide.txt", "é€😀");
  for (const int64_t length : {301, 302, 303, 304, 305}) {
    const Prompt prompt = with("wide.txt", length);
    CHECK_EQ(int64_t(prompt.ids.size()), length);
    CHECK_EQ(tokenizer->decode(prompt.ids), prompt.text);
    CHECK_EQ(tokenizer->encode(prompt.text).ids, prompt.ids);  // valid UTF-8, or this throws
    CHECK_EQ(span_text(*tokenizer, prompt, "key"), prompt.answer);
  }
  write_file(folder / "empty.txt", "");
  CHECK_ERROR(with("empty.txt", 300), "empty.txt", "empty");
  write_file(folder / "bad.txt", "ab\xff");
  CHECK_ERROR(with("bad.txt", 300), "bad.txt", "byte 2");
  CHECK_ERROR(with("none.txt", 300), "none.txt", "cannot be opened");
  CHECK_ERROR(make_passkey(*tokenizer, {.length = 300, .haystack = folder.string()}), "not a regular file");
  CHECK_ERROR(make_passkey(*tokenizer, {.length = 300, .key = "\xff"}), "--key", "UTF-8");
}

// A vocabulary in which tokens grow over the seams: the length is still exact, and the key's span covers the
// key.
SLOTSCOPE_CASE(with_merges) {
  std::ifstream in(t.resource("checkpoints/raven-passkey/tokenizer.json"));
  nlohmann::json root = nlohmann::json::parse(in);
  int32_t id = 258;
  for (const auto& [a, b] : {std::pair{"Ġ", "T"},
                             {"h", "e"},
                             {"ĠT", "he"},
                             {"i", "s"},
                             {"Ġ", "is"},
                             {"r", "e"},
                             {".", "ĠThe"},
                             {"Ġ", "Ġ"}}) {
    root["model"]["vocab"][std::string(a) + b] = id++;
    root["model"]["merges"].push_back({a, b});
  }
  const auto folder = t.temp();
  write_file(folder / "tokenizer.json", root.dump());
  const auto tokenizer = Tokenizer::load(folder);
  int clean_seams = 0, grown_seams = 0;
  for (int64_t length = 200; length < 260; ++length) {
    const Prompt prompt = make_passkey(*tokenizer, {.length = length, .seed = uint64_t(length)});
    CHECK_EQ(int64_t(prompt.ids.size()), length);
    CHECK(span_text(*tokenizer, prompt, "key").find(prompt.answer) != std::string::npos);
    CHECK(prompt.text.find(" The password is " + prompt.answer + ". Remember it. ") != std::string::npos);
    // The answer's ids continue the prompt; where a token would grow over the seam they are those of the key
    // alone.
    const std::vector<int32_t> whole = tokenizer->encode(prompt.text + prompt.answer).ids;
    const bool clean = std::equal(prompt.ids.begin(), prompt.ids.end(), whole.begin(),
                                  whole.begin() + std::min<long>(length, long(whole.size())));
    (clean ? clean_seams : grown_seams)++;
    CHECK_EQ(prompt.answer_ids, clean ? std::vector<int32_t>(whole.begin() + long(length), whole.end())
                                      : tokenizer->encode(prompt.answer, false).ids);
  }
  CHECK(clean_seams > 0 && grown_seams > 0);
}

SLOTSCOPE_CASE(plain_text_prompt) {
  const auto tokenizer = bundled(t);
  const Prompt prompt = prompt_from_text(*tokenizer, "né", "text");
  CHECK_EQ(prompt.ids, (std::vector<int32_t>{256, 110, 0xC3, 0xA9}));
  CHECK_SAME(prompt.char_offsets, (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {1, 2}, {1, 2}}));
  CHECK_EQ(prompt.roles, (std::vector<uint8_t>{0, 0, 0, 0}));
  CHECK(!prompt.has_answer && prompt.has_text);
  CHECK_EQ(prompt_from_text(*tokenizer, "n", "text", false).ids, std::vector<int32_t>{110});
}
