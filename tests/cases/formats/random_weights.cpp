// Random weights: the same on every machine, in any order, of the distribution that the rules say.
#include "core/formats/random_weights.h"

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/formats/byte_tokenizer.h"
#include "core/formats/json.h"
#include "core/formats/planned_checkpoint.h"
#include "core/formats/presets.h"
#include "core/formats/sha256.h"
#include "core/formats/tokenizer.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

namespace slotscope::testing {
namespace {

using formats::DType;
using formats::Initial;
using formats::RandomTensor;

constexpr Initial kNormal{Initial::Kind::normal, 0, 1}, kUniform{Initial::Kind::uniform, -6.9, -2.25};

// A twin from the description: SHA-256 for the beginning, SplitMix64 written out, whole numbers of 21 bits.
double twin(uint64_t seed, const std::string& name, uint64_t index, bool normal) {
  const std::string digits = formats::sha256_hex("slotscope weights 1\n" + std::to_string(seed) + "\n" + name);
  uint64_t state = std::stoull(digits.substr(0, 16), nullptr, 16) + index * 4 * 0x9E3779B97F4A7C15ull;
  double sum = 0;
  for (int draw = 0; draw < 4; ++draw) {
    state += 0x9E3779B97F4A7C15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    if (!normal) return double(z >> 11) / 9007199254740992.0;
    for (int part = 0; part < 3; ++part) sum += double((z >> (21 * part)) % 2097152);
  }
  return (sum - 6 * 2097151.0) / 2097152.0;
}

}  // namespace

SLOTSCOPE_CASE(values_are_those_of_the_description) {
  for (const auto& [seed, name] : {std::pair<uint64_t, std::string>{0, "model.norm.weight"}, {UINT64_MAX, "é"}}) {
    const RandomTensor normal(seed, name, kNormal), uniform(seed, name, kUniform);
    std::vector<double> a(5000), b(5000);
    normal.fill(0, a.size(), a.data());
    uniform.fill(0, b.size(), b.data());
    int64_t wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      wrong += a[i] != twin(seed, name, i, true);
      const double scaled = twin(seed, name, i, false) * (kUniform.b - kUniform.a);
      wrong += std::fabs(b[i] - (kUniform.a + scaled)) > 1e-15;  // this file may be compiled with contraction
    }
    CHECK_EQ(wrong, int64_t(0));
  }
}

// What every machine must give: a digest of the stored bytes, in every dtype, of both kinds, with mean and deviation.
SLOTSCOPE_CASE(bytes_are_the_same_on_every_machine) {
  const auto digest = [](DType dtype, const Initial& initial) {
    std::string bytes(3000 * size_t(formats::dtype_bits(dtype)) / 8, '\0');
    RandomTensor(7, "model.layers.3.attn.r_proj.weight", initial).fill(dtype, 1'000'000'007, 3000, reinterpret_cast<std::byte*>(bytes.data()));
    return formats::sha256_hex(bytes).substr(0, 16);
  };
  const Initial scaled{Initial::Kind::normal, 1, 1 / std::sqrt(1000.0)};
  CHECK_EQ(digest(DType::f64, scaled), std::string("68afcd262377aadd"));
  CHECK_EQ(digest(DType::f32, scaled), std::string("855a9126208bb21b"));
  CHECK_EQ(digest(DType::bf16, scaled), std::string("49748d7ac3bb62a1"));
  CHECK_EQ(digest(DType::f16, scaled), std::string("d0a1afad24359c33"));
  CHECK_EQ(digest(DType::f64, kUniform), std::string("b5d89cc85889ec7d"));
}

SLOTSCOPE_CASE(pieces_do_not_change_values) {
  const RandomTensor tensor(3, "w", {Initial::Kind::normal, 0.5, 2});
  std::vector<double> whole(4001);
  tensor.fill(0, whole.size(), whole.data());
  for (const uint64_t step : {1, 7, 1024, 1025})
    for (uint64_t at = 0; at < whole.size(); at += step) {
      const uint64_t n = std::min<uint64_t>(step, whole.size() - at);
      std::vector<double> piece(n);
      std::vector<float> stored(n);
      tensor.fill(at, n, piece.data());
      tensor.fill(DType::f32, at, n, reinterpret_cast<std::byte*>(stored.data()));
      for (uint64_t i = 0; i < n; ++i)
        if (piece[i] != whole[at + i] || stored[i] != float(whole[at + i])) return t.fail("value " + std::to_string(at + i), __FILE__, __LINE__);
    }
  double zero = 1;
  tensor.fill(0, 0, &zero);
  CHECK_CLOSE(zero, 1, 0);
  CHECK_ERROR(tensor.fill(DType::i8, 0, 1, nullptr), "I8", "BF16");
}

// Mean, variance, kurtosis and independence of neighbours, within five standard errors of a million draws.
SLOTSCOPE_CASE(distribution) {
  constexpr size_t n = 1'000'000;
  std::vector<double> x(n), other(n);
  RandomTensor(1, "a", kNormal).fill(0, n, x.data());
  RandomTensor(1, "b", kNormal).fill(0, n, other.data());
  double mean = 0, square = 0, fourth = 0, next = 0, cross = 0, most = 0;
  for (size_t i = 0; i < n; ++i) {
    mean += x[i] / n, square += x[i] * x[i] / n, fourth += x[i] * x[i] * x[i] * x[i] / n;
    if (i + 1 < n) next += x[i] * x[i + 1] / n;
    cross += x[i] * other[i] / n;
    most = std::max(most, std::fabs(x[i]));
  }
  CHECK_CLOSE(mean, 0, 5e-3);
  CHECK_CLOSE(square, 1, 5 * std::sqrt(2.0) * 1e-3);
  CHECK_CLOSE(fourth, 2.9, 5 * std::sqrt(96.0) * 1e-3);  // Irwin-Hall of twelve: 3 - 6 / (5 * 12)
  CHECK_CLOSE(next, 0, 5e-3);
  CHECK_CLOSE(cross, 0, 5e-3);
  CHECK(most > 4 && most <= 6);
  std::vector<double> u(n);
  RandomTensor(1, "a", kUniform).fill(0, n, u.data());
  double low = 0, high = -10, sum = 0;
  for (const double v : u) low = std::min(low, v), high = std::max(high, v), sum += v / n;
  CHECK(low >= -6.9 && low < -6.8999 && high <= -2.25 && high > -2.2501);
  CHECK_CLOSE(sum, -4.575, 5 * 4.65 / std::sqrt(12.0) * 1e-3);
}

SLOTSCOPE_CASE(rules_by_name) {
  formats::RandomModel model{.model_type = "ramnet", .embedding = "model.embed_tokens.weight", .layers = 8};
  const auto rule = [&](const char* name, std::vector<int64_t> shape) { return formats::initial_of(model, {name, std::move(shape), ""}); };
  const auto is = [&](const Initial& got, Initial::Kind kind, double a, double b) {
    CHECK(got.kind == kind);
    CHECK_CLOSE(got.a, a, 0);
    CHECK_CLOSE(got.b, b, 0);
  };
  using enum Initial::Kind;
  is(rule("model.layers.0.attn.r_proj.weight", {320, 1024}), normal, 0, 1.0 / 32);
  is(rule("model.layers.0.attn.o_proj.weight", {1024, 1024}), normal, 0, 1.0 / 128);
  is(rule("model.layers.0.mlp.down_proj.weight", {1024, 256}), normal, 0, 1.0 / 64);
  is(rule("model.layers.0.attn.q_conv1d.weight", {64, 1, 4}), normal, 0, 0.5);
  is(rule("model.embed_tokens.weight", {260, 64}), normal, 0, 1);
  model.tied = true;
  is(rule("model.embed_tokens.weight", {260, 64}), normal, 0, 0.125);
  is(rule("lm_head.weight", {260, 64}), normal, 0, 0.125);
  is(rule("model.layers.0.input_layernorm.weight", {64}), normal, 1, 0.1);
  is(rule("model.layers.0.input_layernorm.bias", {64}), normal, 0, 0.02);
  is(rule("model.layers.0.attn.A_log", {4}), uniform, 0, 2.77);
  is(rule("backbone.layers.0.mixer.A_log", {128, 16}), uniform, 0, 2.77);
  is(rule("backbone.layers.0.mixer.dt_proj.bias", {128}), uniform, -6.9, -2.25);
  is(rule("backbone.layers.0.mixer.D", {128}), normal, 1, 0.1);
  is(rule("model.layers.0.attn.r_log_scale", {16}), uniform, 0, 1);
  is(rule("model.layers.0.attn.gamma_proj.bias", {16}), normal, 0, 1);
  is(rule("model.layers.0.attn.g_proj.bias", {16}), normal, 3, 0.1);
  model.model_type = "forgetting_transformer";
  is(rule("model.layers.0.attn.f_proj.bias", {16}), uniform, 1, 5);
  model.model_type = "kda";
  is(rule("model.layers.0.attn.g_proj.1.bias", {16}), normal, 0, 0.02);
}

// The bundled checkpoint's tokenizer was written by the public library: ours says the same.
SLOTSCOPE_CASE(byte_tokenizer_is_the_bundled_one) {
  const auto ours = nlohmann::json::parse(formats::byte_tokenizer_json());
  const auto theirs = nlohmann::json::parse(formats::read_text_file(t.resource("checkpoints/raven-passkey/tokenizer.json"), 1 << 20));
  for (const auto& [key, value] : theirs.items()) CHECK_EQ(ours.value(key, nlohmann::json()).dump(), value.dump());
  CHECK_EQ(ours.size(), theirs.size());
  const auto folder = t.temp();
  write_file(folder / "tokenizer.json", formats::byte_tokenizer_json());
  const auto tokenizer = formats::Tokenizer::load(folder);
  CHECK_EQ(tokenizer->encode("a\xc3\xa9").ids, (std::vector<int32_t>{256, 'a', 0xc3, 0xa9}));
  CHECK_EQ(tokenizer->decode({256, 'a', 0xc3, 0xa9, 257}), std::string("aé"));
  CHECK(tokenizer->size() <= formats::kByteTokenizerRows && tokenizer->is_special(formats::kByteTokenizerEos));
}

SLOTSCOPE_CASE(presets_and_pattern) {
  CHECK_EQ(formats::cape_pattern(3, 3, 1, 1).dump(), std::string("[[0,1,2],[0],[]]"));
  const auto& config = formats::presets().at(0).config;
  CHECK_EQ(config.at("num_hidden_layers").get<int>(), 27);
  const auto& cape = config.at("ramnet").at("cape_heads");
  CHECK_EQ(cape.size(), size_t(27));
  size_t heads = 0;
  for (const auto& list : cape) heads += list.size();
  CHECK_EQ(heads, size_t(4 * 16 + 4 * 8));
}

SLOTSCOPE_CASE(planned_checkpoint_is_a_listing) {
  const formats::PlannedCheckpoint planned("{\"model_type\": \"x\"}", "/new");
  CHECK(formats::is_planned(planned));
  CHECK(planned.find("a") == nullptr);
  const formats::PlannedCheckpoint listed(planned, {{"b", {2, 3}, ""}, {"a", {}, ""}}, {DType::bf16, DType::f32});
  CHECK(!formats::is_planned(listed));
  CHECK_EQ(listed.total_bytes(), uint64_t(16));
  CHECK_EQ(listed.find("b")->bytes, uint64_t(12));
  CHECK_ERROR(listed.data(*listed.find("b")), "'b'", "no values");
  CHECK_ERROR(formats::PlannedCheckpoint(planned, {{"a", {INT64_MAX, 2}, ""}}, {DType::f64}), "/new", "'a'", "smaller");
  CHECK_ERROR(formats::PlannedCheckpoint("[1]", "/new"), "/new/config.json", "a JSON object");
  CHECK_ERROR(formats::PlannedCheckpoint("{", "/new"), "/new/config.json");
}

}  // namespace slotscope::testing
