// One model in every saved form gives the same numbers: the bundled checkpoint as safetensors, in shards, as torch.save files
// of both kinds, and converted to bfloat16, float16 and float32.
#include "tests/cases/engine/helpers.h"
#include "tests/cases/fixtures.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kContainers = {"safetensors", "shards",         "bin",      "legacy",
                                              "bin-shards",  "bin-parameters", "training"};
const std::string kAnswer = "dv0w66";  // of the password prompt of 256 tokens with seed 0

struct Outcome {
  std::unique_ptr<Ran> run;
  int layers = 0;
  int64_t prompt_tokens = 0;
};

Outcome run_form(Context& t, const fs::path& folder) {
  const auto tokenizer = formats::Tokenizer::load(folder);
  formats::PasskeyOptions options;
  options.length = 256;
  const formats::Prompt prompt = formats::make_passkey(*tokenizer, options);
  const auto model = load_model(folder, "float32", t.device());
  return {run_prompts(*model, {prompt}, capture("route,margin,logits"), tokenizer.get()), int(model->info().layers.size()),
          int64_t(prompt.ids.size())};
}

// Bit by bit: the same logits, routes, weights and answer.
void check_equal(Context& t, const Outcome& a, const Outcome& b, const std::string& form) {
  const auto same = [&](const std::string& path) {
    const bool equal = a.run->values(path) == b.run->values(path);
    if (!equal) t.fail(form + ": " + path + " differs", __FILE__, __LINE__);
  };
  same("output/logits");
  for (int layer = 0; layer < a.layers; ++layer)
    for (const std::string field : {"route_index", "route_weight", "margin", "esl", "selected"})
      same("layers/" + std::to_string(layer) + "/" + field);
  CHECK_EQ(a.run->outcome.runs[0].output_ids, b.run->outcome.runs[0].output_ids);
}

struct RouteDifference {
  int64_t cuts = 0, different = 0;
  double widest = 0;  // largest gap at the cut (of `a`) where the sets differ
};

// Selected sets of every layer, head and prompt token.
RouteDifference compare_routes(const Outcome& a, const Outcome& b) {
  RouteDifference d;
  for (int i = 0; i < a.layers; ++i) {
    const std::string group = "layers/" + std::to_string(i) + "/";
    const trace::LayerSpec& layer = a.run->layer(i);
    const auto x = a.run->values(group + "route_index"), y = b.run->values(group + "route_index");
    const auto gap = a.run->values(group + "margin");
    for (size_t row = 0; row < size_t(a.prompt_tokens * layer.route_heads); ++row) {
      const auto set = [&](const std::vector<double>& all) {
        std::vector<double> s(all.begin() + int64_t(row) * layer.top_k, all.begin() + int64_t(row + 1) * layer.top_k);
        std::sort(s.begin(), s.end());
        return s;
      };
      ++d.cuts;
      if (set(x) == set(y)) continue;
      ++d.different;
      d.widest = std::max(d.widest, gap[row]);
    }
  }
  return d;
}

}  // namespace

// The values as they are stored (bfloat16 matrices, float32 vectors) and widened to float32: every container gives every bit.
SLOTSCOPE_CASE(equal_values_in_every_form) {
  const fs::path source = t.resource("checkpoints/raven-passkey");
  std::vector<std::string> forms;
  for (const std::string& container : kContainers) forms.insert(forms.end(), {container, container + "-f32"});
  const fs::path made = saved_forms(t, source, forms);
  const Outcome reference = run_form(t, source);
  CHECK_EQ(reference.run->outcome.runs[0].output_text, kAnswer);
  for (const std::string& form : forms) check_equal(t, reference, run_form(t, made / form), form);
  t.note(std::to_string(forms.size()) + " forms: equal in every bit of logits, routes and weights");
}

// Rounded to bfloat16 or float16, vectors too: every container gives every bit of what the same rounded values give as float32.
// Against the unrounded model single cuts change, and only where the scores beside the cut are less than the unit roundoff apart.
SLOTSCOPE_CASE(rounded_values_in_every_form) {
  const fs::path source = t.resource("checkpoints/raven-passkey");
  const Outcome unrounded = run_form(t, source);
  struct Rounding {
    std::string conversion;
    double unit;  // unit roundoff of the dtype
  };
  for (const Rounding& rounding : {Rounding{"bf16", 0x1p-8}, Rounding{"f16", 0x1p-11}}) {
    std::vector<std::string> forms;
    for (const std::string& container : kContainers) forms.push_back(container + "-" + rounding.conversion);
    const std::string widened = "safetensors-" + rounding.conversion + "-f32";
    forms.push_back(widened);
    const fs::path made = saved_forms(t, source, forms);
    const Outcome reference = run_form(t, made / widened);
    for (const std::string& form : forms) check_equal(t, reference, run_form(t, made / form), form);
    const RouteDifference d = compare_routes(unrounded, reference);
    CHECK_EQ(d.cuts, int64_t(256 * 4 * 4));
    CHECK(d.different * 200 <= d.cuts);  // half a per cent
    CHECK(d.widest <= rounding.unit);
    CHECK_EQ(reference.run->outcome.runs[0].output_text, kAnswer);
    t.note(rounding.conversion + ": " + std::to_string(d.different) + " of " + std::to_string(d.cuts) +
           " cuts differ from the unrounded model, at gaps of at most " + sci(d.widest) + "; worst logit difference " +
           sci(worst(unrounded.run->values("output/logits"), reference.run->values("output/logits"))));
  }
}

// Float16 matrices beside float32 vectors: 349 of 4 million values are below its normal range and change, no route does.
SLOTSCOPE_CASE(half_matrices_keep_the_routes) {
  const fs::path source = t.resource("checkpoints/raven-passkey");
  const fs::path made = saved_forms(t, source, {"safetensors-f16-matrices"});
  const Outcome a = run_form(t, source), b = run_form(t, made / "safetensors-f16-matrices");
  CHECK_EQ(compare_routes(a, b).different, int64_t(0));
  CHECK_EQ(b.run->outcome.runs[0].output_text, kAnswer);
  const auto logits = a.run->values("output/logits");
  CHECK(worst(logits, b.run->values("output/logits")) > 0);  // it is another file
  CHECK_CLOSE(worst(logits, b.run->values("output/logits")), 0, 1e-4);
}
