// Raven as a family: what config, names and values say beyond the mixer (spec: model-zoo 2, 17).
#include "core/engine/model/families.h"
#include "core/engine/model/raven.h"

namespace slotscope::engine {
namespace {

MemoryCard memory_card(const formats::RavenConfig& c) {
  const bool mamba2 = c.decay_type == formats::DecayType::mamba2;
  MemoryCard card;
  card.router = "top-" + std::to_string(c.topk) + " of " + std::to_string(c.slots) +
                (c.router_score == formats::RouterScore::sigmoid ? ", sigmoid" : ", softmax") +
                (c.router_type == formats::RouterType::mlp ? ", two-layer router" : "") +
                (c.bias_rmm ? ", selection bias" : "");
  card.content = "k, v";
  card.decay = mamba2 ? "scalar per head x route (Mamba2)" : "per slot x route (GLA)";
  card.readout = "softmax over all slots";
  card.formulas = {"r_t = norm(top_{" + std::to_string(c.topk) + "}(" +
                       (c.router_score == formats::RouterScore::sigmoid ? "σ" : "softmax") + "(W_r x_t)))",
                   "(k_t, v_t)",
                   mamba2 ? "S_t[i] = exp(a_t r_t[i]) S_{t−1}[i] + (1 − exp(a_t r_t[i])) (k_t, v_t)"
                          : "S_t[i] = exp(a_t[i] r_t[i]) S_{t−1}[i] + (1 − exp(a_t[i] r_t[i])) (k_t, v_t)",
                   "o_t = softmax(q_t K_t^⊤) V_t"};
  return card;
}

class RavenModel final : public FamilyModel {
 public:
  explicit RavenModel(formats::RavenConfig config) : c_(std::move(config)) {}

  formats::ModelConfig& config() override { return c_; }
  void mixer_tensors(formats::TensorList& list, int64_t) const override { add_raven_tensors(list, c_); }
  LayerShape mixer_shape(int) const override { return raven_shape(c_); }
  MemoryCard card() const override { return memory_card(c_); }
  std::unique_ptr<Mixer> mixer(int layer, const std::string&, const Weights& weights) const override {
    return make_raven(c_, layer, weights);
  }
  void describe(ModelInfo& info) const override {
    info.flavour = formats::flavour_name(c_.flavour);
    info.flavour_reason = c_.flavour_reason;
    info.flavour_matters = c_.flavour_matters;
  }
  void check_tensors(const formats::Checkpoint&) override {}  // part of read_raven_config
  void check_values(const formats::Checkpoint& checkpoint) override { check_raven_values(checkpoint, c_); }

 private:
  formats::RavenConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_raven(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  return std::make_unique<RavenModel>(formats::read_raven_config(checkpoint, flavour));
}

}  // namespace slotscope::engine
