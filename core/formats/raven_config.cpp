#include "core/formats/raven_config.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/formats/planned_checkpoint.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;

std::string flavour_name(Flavour flavour) { return flavour == Flavour::fla ? "fla" : "goombalab"; }

namespace {

class RavenReader {
 public:
  RavenReader(const Checkpoint& checkpoint, const std::string& flavour)
      : checkpoint_(checkpoint), choice_(flavour), reader_(checkpoint, r_), cfg_(reader_.cfg) {}

  RavenConfig read() {
    require_model_type(cfg_, {"raven"});
    if (!choice_.empty() && choice_ != "fla" && choice_ != "goombalab")
      throw Error({"", "--flavour", choice_, "fla or goombalab", ""}, Error::Kind::usage);
    refuse_unsupported();
    read_sizes();
    read_flavour();
    read_widths();
    read_router();
    read_mixer();
    read_hybrid();
    reader_.read_embedding();
    reader_.read_mlp();
    reader_.note_ignored({"clamp_min", "clamp_max", "use_short_conv", "conv_size", "use_norm"});  // R8
    reader_.finish();
    if (!is_planned(checkpoint_)) check_tensors(checkpoint_, raven_tensors(r_), r_);
    return std::move(r_);
  }

 private:
  [[noreturn]] void refuse(std::string item, std::string found, std::string expected,
                           std::string advice = "") const {
    reader_.refuse(std::move(item), std::move(found), std::move(expected), std::move(advice));
  }

  const TensorInfo* tensor(int64_t layer, std::string_view name) const {
    return checkpoint_.find(r_.layer_prefix(layer) + std::string(name));
  }
  // The first layer that has a router, or -1: where the widths are read.
  int64_t router_layer() const {
    for (int64_t i = 0; i < r_.layers; ++i)
      if (tensor(i, "attn.r_proj.weight") || tensor(i, "attn.r_proj.2.weight")) return i;
    return -1;
  }
  // Axis 0 or 1 of a matrix of that layer; 0 when it is missing or no matrix.
  int64_t axis(std::string_view name, size_t which) const {
    const int64_t layer = router_layer();
    const TensorInfo* t = layer < 0 ? nullptr : tensor(layer, name);
    return t && t->shape.size() == 2 ? t->shape[which] : 0;
  }

  void refuse_unsupported() {
    for (const char* key : {"alpha", "router_alpha"})
      if (cfg_.has(key))
        refuse(key, "present in config.json", "no such key",
               "Neither public code divides the route by a constant, so what it means here is not known.");
  }

  void read_sizes() {
    reader_.read_sizes(2048, 24);
    r_.heads = reader_.read_heads("num_heads", 4);
    r_.kv_heads = reader_.read_kv_heads("num_kv_heads", r_.heads);
    r_.output_gate = cfg_.get_bool("use_output_gate", false);
    r_.elementwise_affine = cfg_.get_bool("elementwise_affine", true);
  }

  // First key of `names` that config.json has, or null.
  const char* first_key(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (cfg_.has(name)) return name;
    return nullptr;
  }
  bool attn_has_use_rope() const {
    const json* attn = cfg_.value("attn");
    if (!attn) return false;
    if (attn->is_object()) return attn->contains("use_rope");
    return attn->is_array() && std::any_of(attn->begin(), attn->end(), [](const json& e) {
             return e.is_object() && e.contains("use_rope");
           });
  }

  // The detection order of model-zoo 2.7, then R6 and R7: where shapes contradict a key, they decide.
  void read_flavour() {
    const int64_t value_width = axis("attn.o_proj.weight", 1);
    const bool grouped = r_.kv_heads < r_.heads;
    const bool wide = value_width != 0 && value_width != r_.hidden_size;
    bool guessed = false;
    const auto set = [&](Flavour flavour, std::string reason) {
      r_.flavour = flavour;
      r_.flavour_reason = std::move(reason);
    };
    if (!choice_.empty()) {
      set(choice_ == "fla" ? Flavour::fla : Flavour::goombalab, "chosen by the user");
    } else if (const char* key = first_key({"attnres_block_size", "use_rope"})) {
      set(Flavour::fla, std::string("config.json has ") + key);
    } else if (const char* key = first_key({"clamp_min", "clamp_max", "use_norm", "exapnd_k", "exapnd_v"})) {
      set(Flavour::goombalab, std::string("config.json has ") + key);
    } else if (attn_has_use_rope()) {
      set(Flavour::goombalab, "config.json has attn.use_rope");
    } else if (grouped) {
      set(Flavour::fla, "fewer kv heads than heads work only in fla");
    } else if (wide) {
      set(Flavour::fla, "value width " + std::to_string(value_width) + " differs from hidden size " +
                            std::to_string(r_.hidden_size));
    } else {
      guessed = true;
      set(Flavour::fla, "guessed: neither keys nor shapes tell the code bases apart");
    }
    check_groups(grouped);
    check_norm_width(wide, value_width);
    // Only the norm without output gate (its epsilon) and hybrid layers (RoPE) change numbers.
    r_.flavour_matters = guessed && (!r_.output_gate || cfg_.value("attn") != nullptr);
    if (r_.flavour_matters)
      cfg_.warn("flavour " + flavour_name(r_.flavour) + " is guessed and matters here (" +
                (r_.output_gate ? "hybrid layers" : "no output gate: g_norm's epsilon") +
                "): choose fla or goombalab if you know the code the model was trained with");
  }

  void check_groups(bool grouped) {
    if (!grouped) return;
    const int64_t router_rows = std::max(axis("attn.r_proj.weight", 0), axis("attn.r_proj.2.weight", 0));
    const int64_t key_rows = axis("attn.q_proj.weight", 0);
    const json* given = cfg_.value("num_slots");
    const int64_t slots = given && given->is_number_integer() ? given->get<int64_t>()
                          : cfg_.has("num_slots")             ? key_rows / r_.heads
                                                              : 64;
    const bool rows_of_groups = router_rows > 0 && router_rows == r_.kv_heads * slots;
    const bool rows_of_heads = router_rows > 0 && router_rows == r_.heads * slots;
    if (r_.flavour == Flavour::goombalab && choice_.empty() && rows_of_groups) {
      cfg_.warn(r_.flavour_reason +
                ", but r_proj has one router per kv head, as only fla makes it: read as fla");
      r_.flavour = Flavour::fla;
      r_.flavour_reason = "r_proj has " + std::to_string(router_rows) + " rows, one router per kv head";
      return;
    }
    if (r_.flavour == Flavour::goombalab || rows_of_heads)
      refuse("num_kv_heads",
             std::to_string(r_.kv_heads) + " of " + std::to_string(r_.heads) + " heads" +
                 (router_rows ? ", r_proj with " + std::to_string(router_rows) + " rows" : ""),
             "num_kv_heads = num_heads in the goombalab code, whose grouped heads are broken",
             rows_of_groups ? "Its tensors have the shapes of fla: choose flavour fla."
                            : "This model cannot be run.");
  }

  void check_norm_width(bool wide, int64_t value_width) {
    if (r_.flavour != Flavour::goombalab || r_.output_gate || !wide) return;
    const int64_t layer = router_layer();
    const TensorInfo* norm = layer < 0 ? nullptr : tensor(layer, "attn.g_norm.weight");
    const bool fits = norm && norm->shape == std::vector<int64_t>{value_width};
    if (choice_.empty() && fits) {
      cfg_.warn(r_.flavour_reason + ", but g_norm has the value width, as only fla makes it: read as fla");
      r_.flavour = Flavour::fla;
      r_.flavour_reason = "g_norm has the value width " + std::to_string(value_width);
      return;
    }
    throw Error(
        {checkpoint_.folder().string(),
         "tensor '" +
             (layer < 0 ? std::string("g_norm.weight") : r_.layer_prefix(layer) + "attn.g_norm.weight") + "'",
         "value width " + std::to_string(value_width) + " without output gate",
         "hidden size " + std::to_string(r_.hidden_size) +
             " in the goombalab code, whose g_norm has that width",
         fits ? "Its tensors have the shapes of fla: choose flavour fla." : ""});
  }

  void read_widths() {
    const bool counts = r_.flavour == Flavour::goombalab;
    r_.d_k = reader_.read_width({"expand_k", "exapnd_k", 1, "q_proj", "d_k", r_.heads, r_.heads, counts},
                                axis("attn.q_proj.weight", 0));
    r_.d_v = reader_.read_width({"expand_v", "exapnd_v", 1, "v_proj", "d_v", r_.heads, r_.kv_heads, counts},
                                axis("attn.v_proj.weight", 0));
  }

  void read_router() {
    const bool fla = r_.flavour == Flavour::fla;
    const auto slots = cfg_.get_optional_int("num_slots", 64, 1, 1 << 24);
    r_.slots = slots.value_or(r_.d_k);
    if (!slots) cfg_.set_row("num_slots", std::to_string(r_.slots), "rule: key dim per head");
    r_.topk = cfg_.get_int("topk", 32, 1, 1 << 24);
    if (r_.topk > r_.slots) {  // R9
      if (slots || !fla)
        refuse("topk", std::to_string(r_.topk), "1 to " + std::to_string(r_.slots) + ", the number of slots");
      cfg_.note("topk " + std::to_string(r_.topk) + " is lowered to the " + std::to_string(r_.slots) +
                " slots that num_slots null gives");
      r_.topk = r_.slots;
      cfg_.set_row("topk", std::to_string(r_.topk), "rule: number of slots");
    }
    if (fla) {
      r_.router_score = cfg_.get_choice("router_score", "sigmoid", {"sigmoid", "softmax"}) == "sigmoid"
                            ? RouterScore::sigmoid
                            : RouterScore::softmax;
    } else {
      const std::string score = cfg_.get_string("router_score", "sigmoid");
      r_.router_score = score == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax;
      if (score != "sigmoid" && score != "softmax")
        cfg_.warn("router_score \"" + printable(score, 40) + "\" counts as softmax in the goombalab code");
    }
    r_.router_type =
        cfg_.get_choice("router_type", "lin", {"lin", "mlp"}) == "lin" ? RouterType::lin : RouterType::mlp;
    r_.bias_rmm = cfg_.get_bool("bias_rmm", false);
    if (cfg_.get_bool("add_gumbel_noise", true))
      cfg_.note("add_gumbel_noise acts in training only: no noise here");  // R10
  }

  void read_mixer() {
    const bool fla = r_.flavour == Flavour::fla;
    const std::string map = cfg_.get_choice("feature_map", "swish", {"swish", "relu", "t2r"});
    r_.feature_map = map == "swish" ? FeatureMap::swish : map == "relu" ? FeatureMap::relu : FeatureMap::t2r;
    r_.decay_type = cfg_.get_choice("decay_type", "Mamba2", {"Mamba2", "GLA"}) == "GLA" ? DecayType::gla
                                                                                        : DecayType::mamba2;
    r_.tau = cfg_.get_positive("gate_logit_normalizer", 8);
    r_.eps_o = r_.norm_eps;
    r_.eps_g = fla ? r_.norm_eps : 1e-5;  // R1: the goombalab code calls the fused norm without an epsilon
    r_.o_norm_affine = fla ? r_.elementwise_affine : true;
    if (!r_.output_gate)
      cfg_.set_row("g_norm eps", number_text(r_.eps_g), fla ? "norm_eps" : "rule: goombalab");
    if (fla)
      r_.use_rope = cfg_.get_bool("use_rope", false);
    else if (const json* rope = cfg_.value("use_rope"); rope && *rope != false)
      cfg_.warn("use_rope has no effect in the goombalab code: no RoPE in the raven layers");
  }

  void read_hybrid() {
    const bool fla = r_.flavour == Flavour::fla;
    if (const json* attn = cfg_.value("attn"); attn && attn->is_array() && !fla)
      refuse("attn", "a list", "null or one object in the goombalab code",
             "Choose flavour fla if the model was trained with it.");
    const RopeSettings settings = reader_.read_hybrid(r_.use_rope, !fla);
    if (r_.use_rope) r_.rope_theta = settings.theta;
  }

  const Checkpoint& checkpoint_;
  std::string choice_;
  RavenConfig r_;
  ModelReader reader_;
  Config& cfg_;
};

}  // namespace

RavenConfig read_raven_config(const Checkpoint& checkpoint, const std::string& flavour) {
  return RavenReader(checkpoint, flavour).read();
}

}  // namespace slotscope::formats
