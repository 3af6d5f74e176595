#include "core/formats/raven_config.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/formats/raven_check.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;

std::string flavour_name(Flavour flavour) { return flavour == Flavour::fla ? "fla" : "goombalab"; }

bool RavenConfig::hybrid() const {
  return std::any_of(attention.begin(), attention.end(), [](const auto& a) { return a.has_value(); });
}

std::string RavenConfig::layer_prefix(int64_t layer) const {
  return prefix + "layers." + std::to_string(layer) + ".";
}

namespace {

class RavenReader {
 public:
  RavenReader(const Checkpoint& checkpoint, const std::string& flavour)
      : checkpoint_(checkpoint), cfg_(checkpoint), choice_(flavour) {}

  RavenConfig read() {
    require_model_type(cfg_, {"raven"});
    if (!choice_.empty() && choice_ != "fla" && choice_ != "goombalab")
      throw Error({"", "--flavour", choice_, "fla or goombalab", ""}, Error::Kind::usage);
    if (checkpoint_.tensors().empty())
      throw Error({checkpoint_.folder().string(), "", "no weights", "the tensors of the model",
                   "Download the weights."});
    refuse_unsupported();
    read_sizes();
    find_prefix();
    read_flavour();
    read_widths();
    read_router();
    read_mixer();
    read_hybrid();
    read_skeleton();
    add_notes();
    r_.rows = std::move(cfg_.rows);
    r_.notes.insert(r_.notes.begin(), cfg_.notes.begin(), cfg_.notes.end());
    r_.warnings = std::move(cfg_.warnings);
    check_raven_tensors(checkpoint_, r_);
    return std::move(r_);
  }

 private:
  [[noreturn]] void refuse(std::string item, std::string found, std::string expected,
                           std::string advice = "") const {
    throw Error({cfg_.file(), std::move(item), std::move(found), std::move(expected), std::move(advice)});
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
    if (const json* block = cfg_.value("attnres_block_size"))
      refuse("attnres_block_size", block->dump(), "null", "Attention residuals are not supported.");
  }

  void read_sizes() {
    r_.hidden_size = cfg_.get_int("hidden_size", 2048, 1, 1 << 20);
    r_.layers = cfg_.get_int("num_hidden_layers", 24, 1, 1 << 14);
    r_.heads = cfg_.get_int("num_heads", 4, 1, 1 << 16);
    if (const auto kv = cfg_.get_optional_int("num_kv_heads", std::nullopt, 1, 1 << 16)) {
      r_.kv_heads = *kv;
    } else {
      r_.kv_heads = r_.heads;
      cfg_.set_row("num_kv_heads", std::to_string(r_.heads), "rule: num_heads");
    }
    if (r_.heads % r_.kv_heads)
      refuse("num_kv_heads", std::to_string(r_.kv_heads),
             "a divisor of num_heads " + std::to_string(r_.heads));
    r_.output_gate = cfg_.get_bool("use_output_gate", false);
    r_.elementwise_affine = cfg_.get_bool("elementwise_affine", true);
  }

  void find_prefix() {
    if (!checkpoint_.find("model.embeddings.weight") && checkpoint_.find("embeddings.weight")) {
      r_.prefix = "";
      cfg_.note("saved as a base model: names lack the leading 'model.'");
    }
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

  // expand_k and expand_v; where q_proj or v_proj disagree with them the weights decide (B23).
  int64_t read_width(const char* key, const char* misspelt, const char* projection,
                     int64_t heads_of_projection, const char* name) {
    const double expand = cfg_.get_misspelt(key, misspelt, 1, r_.flavour == Flavour::goombalab);
    const double product = double(r_.hidden_size) * expand;
    if (product > double(1 << 24)) refuse(key, number_text(expand), "a smaller factor");
    const auto width = int64_t(product);
    if (double(width) != product)
      cfg_.warn(std::string(key) + ": hidden_size x " + number_text(expand) + " = " + number_text(product) +
                " is cut to " + std::to_string(width));
    const std::string tensor_name = std::string("attn.") + projection + ".weight";
    const int64_t rows = axis(tensor_name, 0), expected = width / r_.heads * heads_of_projection;
    if (rows != 0 && rows % heads_of_projection == 0 && rows != expected) {
      cfg_.warn(std::string(projection) + " has " + std::to_string(rows) + " rows, " + key + " " +
                number_text(expand) + " gives " + std::to_string(expected) + ": the weights decide, " + name +
                " = " + std::to_string(rows / heads_of_projection));
      cfg_.set_row(name, std::to_string(rows / heads_of_projection), "weights");
      return rows / heads_of_projection;
    }
    if (width < r_.heads || width % r_.heads)
      refuse(key, "hidden_size x " + number_text(expand) + " = " + std::to_string(width),
             "a multiple of num_heads " + std::to_string(r_.heads));
    cfg_.set_row(name, std::to_string(width / r_.heads),
                 std::string("rule: hidden_size x ") + key + " / num_heads");
    return width / r_.heads;
  }

  void read_widths() {
    r_.d_k = read_width("expand_k", "exapnd_k", "q_proj", r_.heads, "d_k");
    r_.d_v = read_width("expand_v", "exapnd_v", "v_proj", r_.kv_heads, "d_v");
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
    cfg_.get_choice("hidden_act", "swish", {"swish", "silu"});
    r_.norm_eps = cfg_.get_positive("norm_eps", 1e-6);
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
    r_.attention = cfg_.get_hybrid(r_.hidden_size, r_.layers, !fla);
    const bool rope = r_.use_rope || std::any_of(r_.attention.begin(), r_.attention.end(),
                                                 [](const auto& a) { return a && a->use_rope; });
    if (!rope) {
      if (cfg_.value("rope_scaling")) cfg_.note("rope_scaling has no effect: no layer uses RoPE");
      return;
    }
    const RopeSettings settings = cfg_.get_rope(10000);
    if (settings.type != "default")
      refuse(settings.type_source + ".type", "\"" + printable(settings.type, 40) + "\"", "default or null",
             "Scaled RoPE is not part of this model family, and ignoring it would give wrong numbers.");
    if (r_.use_rope) r_.rope_theta = settings.theta;
  }

  void read_skeleton() {
    // Widths that only the tensors know for sure; the shape check runs afterwards with what is found here.
    const TensorInfo* embedding = checkpoint_.find(r_.prefix + "embeddings.weight");
    const int64_t vocab = cfg_.get_int("vocab_size", 32000, 1, INT32_MAX);
    r_.vocab = embedding && embedding->shape.size() == 2 ? embedding->shape[0] : vocab;
    if (r_.vocab != vocab) {
      cfg_.note("vocab_size is " + std::to_string(vocab) + ", the embedding has " + std::to_string(r_.vocab) +
                " rows: the tensor counts");
      cfg_.set_row("vocab_size", std::to_string(r_.vocab), "weights");
    }
    const double ratio = cfg_.value("hidden_ratio") ? cfg_.get_positive("hidden_ratio", 4) : 4;
    if (ratio > 1e6) refuse("hidden_ratio", number_text(ratio), "at most 1000000");
    const auto given = cfg_.get_optional_int("intermediate_size", std::nullopt, 1, 1 << 28);
    const int64_t expected = given.value_or(gated_mlp_width(r_.hidden_size, ratio));
    if (!given)
      cfg_.set_row("intermediate_size", std::to_string(expected),
                   "rule: 256 ceil(int(hidden_size ratio 2/3) / 256)");
    const TensorInfo* gate = tensor(0, "mlp.gate_proj.weight");
    r_.intermediate = gate && gate->shape.size() == 2 ? gate->shape[0] : expected;
    if (r_.intermediate != expected) {
      cfg_.note("intermediate_size gives " + std::to_string(expected) + ", gate_proj has " +
                std::to_string(r_.intermediate) + " rows: the tensor counts");
      cfg_.set_row("intermediate_size", std::to_string(r_.intermediate), "weights");
    }
    r_.tied = cfg_.get_tied(false);
    if (r_.tied) {
      cfg_.note("tied: logits use the embedding");
      if (checkpoint_.find("lm_head.weight"))
        cfg_.warn(
            "tie_word_embeddings is true, but lm_head.weight is stored as well: the embedding is used, the "
            "stored head is not");
    }
    cfg_.get_dtype();
  }

  void add_notes() {
    std::string ignored;
    for (const char* key : {"clamp_min", "clamp_max", "use_short_conv", "conv_size", "use_norm"})  // R8
      if (cfg_.has(key)) ignored += (ignored.empty() ? "" : ", ") + std::string(key);
    if (!ignored.empty()) cfg_.note("keys without effect in this model: " + ignored);
    const json* architectures = cfg_.value("architectures");
    if (architectures && architectures->is_array() && architectures->size() > 1)
      cfg_.note("architectures lists " + std::to_string(architectures->size()) +
                " classes; model_type decides");
  }

  const Checkpoint& checkpoint_;
  Config cfg_;
  std::string choice_;
  RavenConfig r_;
};

}  // namespace

RavenConfig read_raven_config(const Checkpoint& checkpoint, const std::string& flavour) {
  return RavenReader(checkpoint, flavour).read();
}

}  // namespace slotscope::formats
