// The bundled checkpoint in every saved form holds the same tensors, bit by bit, and says what form it has.
#include <cstring>

#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/fixtures.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

namespace {

struct Container {
  std::string name;
  FileFormat format;
  size_t files = 1;
};
const std::vector<Container> kContainers = {{"safetensors", FileFormat::safetensors},   {"shards", FileFormat::safetensors, 3},
                                            {"bin", FileFormat::torch_zip},             {"legacy", FileFormat::torch_legacy},
                                            {"bin-shards", FileFormat::torch_zip, 3},   {"bin-parameters", FileFormat::torch_zip},
                                            {"training", FileFormat::torch_zip}};

// Names, shapes, dtypes and bytes.
void check_same_tensors(Context& t, const Checkpoint& a, const Checkpoint& b, const std::string& form) {
  if (a.tensors().size() != b.tensors().size())
    return t.fail(form + ": " + std::to_string(b.tensors().size()) + " tensors", __FILE__, __LINE__);
  for (const TensorInfo& x : a.tensors()) {
    const TensorInfo* y = b.find(x.name);
    if (!y || y->shape != x.shape || y->dtype != x.dtype || y->dtype_text != x.dtype_text || y->bytes != x.bytes)
      return t.fail(form + ": " + x.name + " is not listed as it was", __FILE__, __LINE__);
    const TensorData p = a.data(x), q = b.data(*y);
    if (p.bytes.size() != q.bytes.size() || std::memcmp(p.bytes.data(), q.bytes.data(), p.bytes.size()) != 0)
      return t.fail(form + ": " + x.name + " has other values", __FILE__, __LINE__);
    const uint64_t count = element_count(x), first = count / 3, some = std::min<uint64_t>(count - first, 1000);
    const size_t width = size_t(dtype_bits(x.dtype) / 8);
    const TensorData part = b.slice(*y, first, some);
    if (part.bytes.size() != some * width ||
        std::memcmp(part.bytes.data(), p.bytes.data() + first * width, some * width) != 0)
      return t.fail(form + ": a slice of " + x.name + " has other values", __FILE__, __LINE__);
  }
  if (a.total_bytes() != b.total_bytes()) t.fail(form + ": total bytes", __FILE__, __LINE__);
  if (tensor_digest(a) != tensor_digest(b)) t.fail(form + ": tensor digest", __FILE__, __LINE__);
}

}  // namespace

// The script's conversions against other formulas, and its files read back with Python's own zipfile and pickle modules.
SLOTSCOPE_CASE(script_checks_itself) {
  run_fixture_script(t, {"--check", t.resource("checkpoints/raven-passkey").string()});
}

SLOTSCOPE_CASE(same_tensors) {
  const auto source = t.resource("checkpoints/raven-passkey");
  std::vector<std::string> forms;
  for (const Container& container : kContainers)
    for (const std::string conversion : {"", "-f32", "-bf16", "-f16"}) forms.push_back(container.name + conversion);
  const auto made = saved_forms(t, source, forms);
  const auto stored = Checkpoint::open(source);
  for (const Container& container : kContainers)
    for (const std::string conversion : {"", "-f32", "-bf16", "-f16"}) {
      const std::string form = container.name + conversion;
      const auto opened = Checkpoint::open(made / form);
      // Converted files are compared with the plain safetensors file of the same conversion.
      const auto reference = conversion.empty() ? stored : Checkpoint::open(made / ("safetensors" + conversion));
      check_same_tensors(t, *reference, *opened, form);
      CHECK_SAME(opened->format(), container.format);
      CHECK_EQ(opened->files().size(), container.files);
      CHECK(opened->config() != nullptr);
      CHECK_EQ(opened->warnings(), std::vector<std::string>{});
      CHECK_EQ(opened->ignored().empty(), container.name != "training");
    }
  t.note(std::to_string(forms.size()) + " forms hold the same bytes");
}

// The optimiser beside the weights is listed as left on disk, with its size, and the data-parallel prefix is gone.
SLOTSCOPE_CASE(training_checkpoint) {
  const auto source = t.resource("checkpoints/raven-passkey");
  const auto made = saved_forms(t, source, {"training"});
  const auto opened = Checkpoint::open(made / "training");
  const auto reference = Checkpoint::open(source);
  uint64_t optimiser = 0;
  for (const IgnoredItem& item : opened->ignored())
    if (item.item.starts_with("optimizer")) optimiser += item.bytes;
  // Two moments of every weight and one float32 step counter each.
  CHECK_EQ(optimiser, 2 * reference->total_bytes() + 4 * reference->tensors().size());
  CHECK(opened->find("model.embeddings.weight") != nullptr);
  CHECK(opened->find("module.model.embeddings.weight") == nullptr);
}
