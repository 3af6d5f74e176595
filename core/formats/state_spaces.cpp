#include "core/formats/state_spaces.h"

#include "core/error.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;

class Original {
 public:
  explicit Original(const Config& config) : config_(config), ssm_(json::object()) {
    if (const json* ssm = config.value("ssm_cfg")) {
      if (!ssm->is_object()) refuse("ssm_cfg", ssm->dump(), "an object");
      ssm_ = *ssm;
    }
  }

  json renamed() {
    const std::string layer = ssm_.contains("layer") ? text("layer") : "Mamba1";
    if (layer != "Mamba1" && layer != "Mamba2") refuse("ssm_cfg.layer", layer, "Mamba1 or Mamba2");
    const bool second = layer == "Mamba2";
    refuse_others();
    json out = config_.root();
    out["model_type"] = second ? "mamba2" : "mamba";
    move(out, config_.root(), "d_model", "hidden_size", 2560);
    move(out, config_.root(), "n_layer", "num_hidden_layers", 64);
    move(out, config_.root(), "tie_embeddings", "tie_word_embeddings", true);
    out["norm_eps"] = 1e-5;
    out["vocab_size"] = padded_vocabulary();
    move(out, ssm_, "d_state", "state_size", second ? 128 : 16);
    move(out, ssm_, "d_conv", "conv_kernel", 4);
    move(out, ssm_, "expand", "expand", 2);
    move(out, ssm_, "bias", "use_bias", false);
    move(out, ssm_, "conv_bias", "use_conv_bias", true);
    out.erase("rms_norm");  // here the norm of the blocks; it is true
    if (!second) {
      move(out, ssm_, "dt_rank", "dt_rank", "auto");
      return out;
    }
    move(out, ssm_, "headdim", "head_dim", 64);
    move(out, ssm_, "ngroups", "n_groups", 1);
    move(out, ssm_, "rmsnorm", "rmsnorm", true);
    move(out, ssm_, "norm_before_gate", "norm_before_gate", false);
    move(out, ssm_, "D_has_hdim", "D_has_hdim", false);
    if (ssm_.contains("dt_limit")) out["dt_limit"] = ssm_["dt_limit"];
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& item, const std::string& found, const std::string& expected) const {
    throw Error({config_.file(), item, printable(found, 60), expected, "This option of the state-spaces code is not supported."});
  }

  void refuse_others() const {
    if (const json* norm = config_.value("rms_norm"); norm && *norm != json(true))
      refuse("rms_norm", norm->dump(), "true: blocks with RMS norms");
    if (const json* attention = config_.value("attn_layer_idx"); attention && !attention->empty())
      refuse("attn_layer_idx", attention->dump(), "no attention layers");
    if (const json* mlp = config_.value("d_intermediate"); mlp && *mlp != json(0))
      refuse("d_intermediate", mlp->dump(), "0: blocks without an MLP");
    if (ssm_.contains("d_ssm") && !ssm_["d_ssm"].is_null())
      refuse("ssm_cfg.d_ssm", ssm_["d_ssm"].dump(), "null: all channels in the state-space model");
  }

  std::string text(const char* key) const {
    if (!ssm_[key].is_string()) refuse(std::string("ssm_cfg.") + key, ssm_[key].dump(), "a string");
    return ssm_[key].get<std::string>();
  }

  // The type of what is moved is checked when the family reads it.
  static void move(json& out, const json& from, const char* key, const char* name, const json& fallback) {
    out[name] = from.contains(key) && !from[key].is_null() ? from[key] : fallback;
  }

  // The embedding has its rows padded to a multiple.
  json padded_vocabulary() const {
    const json* given = config_.value("vocab_size");
    const json* multiple = config_.value("pad_vocab_size_multiple");
    const json rows = given ? *given : json(50277), step = multiple ? *multiple : json(8);
    const auto sound = [](const json& v) { return v.is_number_integer() && v >= 1 && v <= INT32_MAX; };
    if (!sound(rows)) refuse("vocab_size", rows.dump(), "a number of tokens");
    if (!sound(step)) refuse("pad_vocab_size_multiple", step.dump(), "a whole number from 1");
    const int64_t n = rows.get<int64_t>(), m = step.get<int64_t>();
    return (n + m - 1) / m * m;
  }

  const Config& config_;
  json ssm_;
};

}  // namespace

Config model_config(const Checkpoint& checkpoint) {
  Config config(checkpoint);
  if (config.value("model_type") || !config.value("d_model") || !config.value("n_layer")) return config;
  Config renamed(Original(config).renamed(), config.file());
  renamed.note("original state-spaces layout: d_model, n_layer and ssm_cfg are read as hidden_size, num_hidden_layers and the "
               "options of " + renamed.root().at("model_type").get<std::string>());
  return renamed;
}

}  // namespace slotscope::formats
