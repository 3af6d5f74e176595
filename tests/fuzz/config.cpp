// config.json over checkpoints of the golden models: the text is the input, the weights are fixed. JSON may begin with blanks: their
// number chooses the weights, so that every input is a config.json as it stands.
#include "core/error.h"
#include "core/formats/raven_config.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::formats;
namespace fs = std::filesystem;

const std::vector<fs::path>& folders() {
  static const std::vector<fs::path> list = [] {
    std::vector<fs::path> made;
    for (const char* name : {"raven_fla_default", "raven_gb_gate", "raven_fla_hybrid_list",
                             "raven_fla_gla_softmax_bias_t2r", "raven_fla_rule_mlp", "raven_fla_tied"}) {
      made.push_back(scratch_folder() / name);
      fs::create_directory(made.back());
      fs::copy_file(tests_data(std::string("golden/models/") + name + "/model.safetensors"),
                    made.back() / "model.safetensors");
    }
    return made;
  }();
  return list;
}

// What was accepted fits the tensors that are there.
void check_promises(const Checkpoint& checkpoint, const RavenConfig& config) {
  require(config.topk >= 1 && config.topk <= config.slots, "1 <= topk <= slots");
  require(config.heads >= 1 && config.kv_heads >= 1 && config.heads % config.kv_heads == 0, "heads and groups");
  require(int64_t(config.attention.size()) == config.layers, "one entry per layer");
  for (const ExpectedTensor& tensor : raven_tensors(config)) {
    const TensorInfo* found = checkpoint.find(tensor.name);
    require(found && found->shape == tensor.shape, "an accepted config fits the tensors");
  }
  for (const ConfigRow& row : config.rows) require(!row.key.empty() && !row.source.empty(), "every row has a source");
}

}  // namespace

void run_config(Bytes input) {
  const std::string_view text = text_of(input);
  const size_t blanks = std::min(text.find_first_not_of(" \n\t"), text.size());
  const fs::path& folder = folders()[blanks % folders().size()];
  write_file(folder / "config.json", text);
  try {
    const auto checkpoint = Checkpoint::open(folder);
    for (const char* flavour : {"", "fla", "goombalab"}) {
      try {
        RavenConfig config = read_raven_config(*checkpoint, flavour);
        check_raven_values(*checkpoint, config);
        check_promises(*checkpoint, config);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace slotscope::fuzz
