// What a family adds to the skeleton that all share (spec: model-zoo 1.8, 1.10). A family is one file with a subclass of
// FamilyModel and one line of families.h.
#pragma once

#include <memory>
#include <string>

#include "core/engine/model/causal_lm.h"
#include "core/engine/model/weights.h"
#include "core/engine/session.h"
#include "core/formats/skeleton.h"

namespace slotscope::engine {

// One checkpoint read as a model of its family: what config.json, names and shapes say. Reads no weights.
class FamilyModel {
 public:
  virtual ~FamilyModel() = default;
  virtual formats::ModelConfig& config() = 0;
  // The tensors of a layer's mixer, below its prefix.
  virtual void mixer_tensors(formats::TensorList& list, int64_t layer) const = 0;
  virtual LayerShape mixer_shape(int layer) const = 0;
  virtual MemoryCard card() const = 0;
  // `prefix` is that of the layer's mixer.
  virtual std::unique_ptr<Mixer> mixer(int layer, const std::string& prefix, const Weights& weights) const = 0;

  // Where a model is more than the skeleton.
  virtual std::vector<formats::ExpectedTensor> tensors();
  virtual void describe(ModelInfo&) const {}                   // flavour and the like
  virtual void check_tensors(const formats::Checkpoint&);      // names, shapes, dtypes
  virtual void check_values(const formats::Checkpoint&);       // facts that only values tell
  virtual Block block(int layer, const Weights& weights);      // norms, mixer and MLP of one layer
  virtual Norm final_norm(const Weights& weights);
};

// A family that is the skeleton around one mixer: Config is the ModelConfig with the family's own keys and says what they
// mean (tensors(list), shape(), card()); MixerOf is built from (config, layer, prefix, weights).
template <class Config, class MixerOf>
class FamilyOf final : public FamilyModel {
 public:
  explicit FamilyOf(Config config) : c_(std::move(config)) {}
  formats::ModelConfig& config() override { return c_; }
  void mixer_tensors(formats::TensorList& list, int64_t) const override { c_.tensors(list); }
  LayerShape mixer_shape(int) const override { return c_.shape(); }
  MemoryCard card() const override { return c_.card(); }
  std::unique_ptr<Mixer> mixer(int layer, const std::string& prefix, const Weights& weights) const override {
    return std::make_unique<MixerOf>(c_, layer, prefix, weights);
  }

 private:
  Config c_;
};

// Reads the family's keys; its tensors are checked afterwards. `flavour` as in inspect().
using ReadFamily = std::unique_ptr<FamilyModel> (*)(const formats::Checkpoint&, const std::string& flavour);

// The two halves of the registry's work: describe throws for everything that cannot be run, before a weight is read.
ModelInfo describe_model(FamilyModel& model, const std::string& model_type, const formats::Checkpoint&);
std::unique_ptr<CausalLM> build_model(FamilyModel& model, const Weights& weights, ModelInfo& info);

// For families of one flavour: "" and `only` are accepted. Usage error otherwise.
void require_flavour(const std::string& flavour, const std::string& only, const std::string& family);

}  // namespace slotscope::engine
