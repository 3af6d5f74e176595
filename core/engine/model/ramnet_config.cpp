#include "core/engine/model/ramnet_config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/formats/planned_checkpoint.h"
#include "core/formats/utf8.h"

namespace slotscope::engine {
namespace {

using nlohmann::json;

// What a trace and the analyses can index.
constexpr int64_t kMostSlots = int64_t(1) << 24;
// Elements of one layer's state, 256 GiB in float32.
constexpr int64_t kMostState = int64_t(1) << 36;

const std::set<std::string>& known_keys() {
  static const std::set<std::string> keys = {
      "order",   "codes_per_factor", "top_k",      "renormalize_topk", "slot_order",  "update_rule", "pdma_gamma", "state_eps",
      "readout", "cape_direction",   "cape_heads", "log_scale",        "output_norm", "output_gate", "cumulative", "teacher"};
  return keys;
}

// The keys of config.json's "ramnet", under the names "ramnet.order", ...
class Reader {
 public:
  Reader(const formats::Checkpoint& checkpoint, RamNetConfig& config)
      : checkpoint_(checkpoint), c_(config), r_(checkpoint, config), k_(flat(r_), r_.cfg.file()) {}

  void read() {
    read_names();
    r_.read_layers(1024, 24, "rms_norm_eps", 1e-6);
    refuse_other_mixers();
    c_.heads = r_.read_heads("num_attention_heads", 16);
    refuse_shared_heads();
    c_.d_v = r_.cfg.get_head_dim(c_.hidden_size, c_.heads);
    if (c_.d_v > 1 << 20) r_.refuse("head_dim", std::to_string(c_.d_v), "at most 1048576");
    read_code();
    read_rule();
    read_cape();
    read_options();
    r_.read_embedding(false, 32000);
    r_.cfg.get_choice("hidden_act", "silu", {"silu", "swish"});
    r_.read_plain_mlp(4 * c_.hidden_size);
    r_.note_ignored({"rope_theta", "rope_scaling", "rope_parameters", "pretraining_tp", "sliding_window"});
    for (const auto& row : k_.rows) r_.cfg.set_row(row.key, row.value, row.source);
    for (const auto& note : k_.notes) r_.cfg.note(note);
    for (const auto& warning : k_.warnings) r_.cfg.warn(warning);
    r_.finish();
  }

 private:
  static json flat(const formats::ModelReader& r) {
    const json* own = r.cfg.value("ramnet");
    if (!own || !own->is_object())
      r.refuse("ramnet", own ? own->type_name() : "missing",
               "an object with order, codes_per_factor, top_k and the rules of the memory");
    json keys = json::object();
    for (const auto& [key, value] : own->items()) {
      if (!known_keys().contains(key)) {
        std::string list;
        for (const auto& known : known_keys()) list += (list.empty() ? "" : ", ") + known;
        r.refuse(
            "ramnet." + formats::printable(key, 40), "not a setting of this family", list,
            "A setting that is not computed would give wrong numbers: take it out if it means nothing to the forward pass.");
      }
      keys["ramnet." + key] = value;
    }
    return keys;
  }

  bool stored(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  // A tensor of any layer's mixer.
  bool any(const std::string& name) const {
    for (int64_t i = 0; i < c_.layers; ++i)
      if (stored(c_.mixer_prefix(i) + name)) return true;
    return false;
  }

  // Names of the format, or those of FLA where the folder has them.
  void read_names() {
    formats::SkeletonNames& n = c_.names;
    std::string alias;
    const auto choose = [&](std::string& name, const char* own, const char* fla, const std::vector<std::string>& places) {
      name = own;
      for (const auto& place : places) {
        if (stored(place + own) || !stored(place + fla)) continue;
        name = fla;
        alias += (alias.empty() ? "" : ", ") + std::string(fla);
        return;
      }
    };
    choose(n.embedding, "embed_tokens.weight", "embeddings.weight", {"model.", ""});
    const std::vector<std::string> layer = {"model.layers.0.", "layers.0."}, attn = {"model.layers.0.attn.", "layers.0.attn."};
    choose(n.mixer_norm, "input_layernorm.weight", "attn_norm.weight", layer);
    choose(n.mlp_norm, "post_attention_layernorm.weight", "mlp_norm.weight", layer);
    std::string weight;
    choose(weight, "r_proj.weight", "q_proj.weight", attn);
    c_.read_name = weight.substr(0, weight.find('.'));
    choose(weight, "w_proj.weight", "k_proj.weight", attn);
    c_.write_name = weight.substr(0, weight.find('.'));
    if (!alias.empty()) r_.cfg.note("FLA names: " + alias);
  }

  void refuse_other_mixers() const {
    for (const char* key : {"attn", "layer_types"})
      if (const json* other = r_.cfg.value(key))
        r_.refuse(key, formats::printable(other->dump(), 60), "null: every layer is a RAM-Net layer",
                  "Hybrids of this family have no definition.");
  }

  // Key and value heads of a teacher are repeated when it is migrated (spec: ramnet 1.8).
  void refuse_shared_heads() const {
    const auto shared = r_.cfg.value("num_key_value_heads");
    if (shared && *shared != c_.heads)
      r_.refuse("num_key_value_heads", formats::printable(shared->dump(), 40),
                std::to_string(c_.heads) + " = num_attention_heads, or nothing",
                "Every head has a memory of its own: repeat shared heads, and keep the teacher's number in ramnet.teacher.");
  }

  int64_t required(const char* key, int64_t least, int64_t most, const std::string& expected) {
    const std::string name = std::string("ramnet.") + key;
    if (!k_.value(name)) r_.refuse(name, "missing", expected);
    return k_.get_int(name, 0, least, most);
  }

  void read_code() {
    AddressCode& code = c_.code;
    code.factors = int(required("order", 1, 24, "the number of factors U of an address"));
    const json* codes = k_.value("ramnet.codes_per_factor");
    if (codes && codes->is_number_integer() && *codes == 1)
      r_.refuse("ramnet.codes_per_factor", "1", "2 or more codes: with one code all addresses are the same slot");
    code.codes = int(required("codes_per_factor", 2, kMostSlots, "the number of codes d_p of a factor"));
    const std::string power = std::to_string(code.codes) + "^" + std::to_string(code.factors);
    code.slots = kernels::address_slots(code.codes, code.factors);
    if (code.slots == 0 || code.slots > kMostSlots)
      r_.refuse("ramnet.order",
                power + (code.slots ? " = " + std::to_string(code.slots) : std::string()) + " slots (codes_per_factor^order)",
                "at most " + std::to_string(kMostSlots) + " slots");
    if (c_.heads * code.slots > kMostState / (c_.d_v + 1))
      r_.refuse("ramnet.order",
                power + " slots of " + std::to_string(c_.heads) + " heads and " + std::to_string(c_.d_v) + " value channels",
                "a state of at most " + std::to_string(kMostState) + " numbers in a layer");
    const int64_t k = required("top_k", 1, int64_t(1) << 40, "the number of slots K that a token writes and reads");
    code.top_k = std::min(k, code.slots);
    if (k > code.slots)
      k_.note("ramnet.top_k " + std::to_string(k) + " is more than the " + std::to_string(code.slots) +
              " slots: nothing is left out");
    code.renormalize = k_.get_bool("ramnet.renormalize_topk", false);
    code.order = k_.get_choice("ramnet.slot_order", "factor0_least_significant",
                               {"factor0_least_significant", "factor0_most_significant"}) == "factor0_least_significant"
                     ? kernels::SlotOrder::factor0_least
                     : kernels::SlotOrder::factor0_most;
    k_.set_row("slots", std::to_string(code.slots), "rule: codes_per_factor^order");
  }

  double not_negative(const char* key, double fallback) {
    const double value = k_.get_double(key, fallback);
    if (value < 0) r_.refuse(key, formats::number_text(value), "0 or more");
    return value;
  }

  void read_rule() {
    AddressRule& rule = c_.rule;
    rule.pdma = k_.get_choice("ramnet.update_rule", "gsu", {"gsu", "pdma"}) == "pdma";
    rule.pdma_gamma = not_negative("ramnet.pdma_gamma", 1);
    rule.eps = not_negative("ramnet.state_eps", 1e-6);
    rule.mass_aware = k_.get_choice("ramnet.readout", "standard", {"standard", "mass_aware"}) == "mass_aware";
    rule.cumulative = k_.get_bool("ramnet.cumulative", false);
    if (rule.pdma && rule.cumulative)
      r_.refuse("ramnet.cumulative", "true with update_rule pdma", "false, or pdma_gamma 0, which is the same for PDMA");
    if (!rule.pdma && rule.pdma_gamma != 1) k_.note("ramnet.pdma_gamma has no effect with update_rule gsu");
  }

  void read_cape() {
    const int64_t direction = k_.get_int("ramnet.cape_direction", 1, -1, 1);
    if (direction == 0) r_.refuse("ramnet.cape_direction", "0", "1 or -1");
    c_.code.direction = int(direction);
    c_.cape_heads.assign(size_t(c_.layers), {});
    const std::string key = "ramnet.cape_heads";
    const json* lists = k_.value(key);
    if (!lists) return k_.set_row(key, "none", "default");
    if (!lists->is_array() || int64_t(lists->size()) != c_.layers)
      r_.refuse(key, lists->is_array() ? std::to_string(lists->size()) + " lists" : lists->type_name(),
                "one list of heads for each of the " + std::to_string(c_.layers) + " layers");
    int64_t count = 0;
    for (int64_t i = 0; i < c_.layers; ++i)
      count += read_cape_layer(key + "[" + std::to_string(i) + "]", (*lists)[size_t(i)], c_.cape_heads[size_t(i)]);
    k_.set_row(key, std::to_string(count) + " of " + std::to_string(c_.layers * c_.heads) + " heads", "config.json");
  }

  int64_t read_cape_layer(const std::string& place, const json& list, std::vector<int64_t>& heads) {
    if (!list.is_array()) r_.refuse(place, list.type_name(), "a list of heads");
    std::vector<bool> listed(size_t(c_.heads), false);
    for (size_t j = 0; j < list.size(); ++j) {
      const std::string at = place + "[" + std::to_string(j) + "]";
      const bool whole = list[j].is_number_integer();
      const int64_t head = !whole                         ? -1
                           : list[j].is_number_unsigned() ? int64_t(std::min<uint64_t>(list[j].get<uint64_t>(), INT64_MAX))
                                                          : list[j].get<int64_t>();
      if (head < 0 || head >= c_.heads)
        r_.refuse(at, formats::printable(list[j].dump(), 40), "a head from 0 to " + std::to_string(c_.heads - 1));
      if (listed[size_t(head)]) r_.refuse(at, "head " + std::to_string(head) + " again", "each head once");
      listed[size_t(head)] = true;
      heads.push_back(head);
    }
    std::sort(heads.begin(), heads.end());
    return int64_t(heads.size());
  }

  // A tensor that a flag speaks of. What is not stored is not there (spec: ramnet 1.9), whatever the flag says.
  bool option(const char* key, bool present, const std::string& missing) {
    const bool given = k_.value(key) != nullptr, flag = k_.get_bool(key, present);
    if (!given) k_.set_row(key, present ? "true" : "false", "weights");
    if (given && flag && !present) k_.warn(std::string(key) + " is true, but the weights have none: " + missing);
    if (given && !flag && present)
      r_.refuse(key, "false, but the weights have it", "true, or weights without it",
                "Is config.json the one of these weights?");
    return present;
  }

  // A new model, of which there is only the config, has what the config asks for.
  bool there(const char* key, bool fallback, const char* name) {
    return formats::is_planned(checkpoint_) ? k_.get_bool(key, fallback) : any(name);
  }

  void read_options() {
    const std::string &r = c_.read_name, &w = c_.write_name;
    c_.read_scale = there("ramnet.log_scale", true, "r_log_scale");
    c_.write_scale = there("ramnet.log_scale", true, "w_log_scale");
    option("ramnet.log_scale", c_.read_scale || c_.write_scale, "log scales are 0");
    c_.gate = option("ramnet.output_gate", there("ramnet.output_gate", true, "g_proj.weight"), "no gate");
    c_.gate_bias = there("ramnet.output_gate", true, "g_proj.bias");
    c_.norm = option("ramnet.output_norm", there("ramnet.output_norm", false, "o_norm.weight"), "no output norm");
    c_.gamma = c_.uses_gamma() || any("gamma_proj.weight");
    c_.gamma_bias = any("gamma_proj.bias") || (c_.uses_gamma() && !any("gamma_proj.weight"));
    if (c_.gamma && !c_.uses_gamma())
      k_.note(std::string("gamma_proj is stored and not used: ") +
              (c_.rule.pdma ? "PDMA forgets by pdma_gamma" : "ramnet.cumulative never forgets"));
    const bool bias = r_.cfg.get_bool("attention_bias", any(r + ".bias"));
    if (!r_.cfg.value("attention_bias")) r_.cfg.set_row("attention_bias", bias ? "true" : "false", "weights");
    c_.read_bias = bias || any(r + ".bias");
    c_.write_bias = bias || any(w + ".bias");
    c_.value_bias = bias || any("v_proj.bias");
    c_.out_bias = any("o_proj.bias");
    if (!bias && (c_.read_bias || c_.write_bias || c_.value_bias))
      r_.cfg.warn("attention_bias is false, but the weights have biases: they are added");
    c_.mlp_bias = r_.cfg.value("mlp_bias") && r_.cfg.get_bool("mlp_bias", false);
    if (const json* teacher = k_.value("ramnet.teacher"))
      k_.set_row("ramnet.teacher", formats::printable(teacher->dump(-1, ' ', false, json::error_handler_t::replace), 200),
                 "config.json");
  }

  const formats::Checkpoint& checkpoint_;
  RamNetConfig& c_;
  formats::ModelReader r_;
  formats::Config k_;
};

}  // namespace

void RamNetConfig::tensors(formats::TensorList& list) const {
  const int64_t D = hidden_size, rows = heads * logits(), wide = heads * d_v;
  for (const auto& [name, bias] : {std::pair{&read_name, read_bias}, std::pair{&write_name, write_bias}}) {
    list.add(*name + ".weight", {rows, D}, "H U d_p, D");
    list.add_if(bias, *name + ".bias", {rows}, "H U d_p");
  }
  list.add_if(read_scale, "r_log_scale", {heads}, "H");
  list.add_if(write_scale, "w_log_scale", {heads}, "H");
  list.add_if(gamma, "gamma_proj.weight", {heads, D}, "H, D");
  list.add_if(gamma_bias, "gamma_proj.bias", {heads}, "H");
  list.add("v_proj.weight", {wide, D}, "H d_v, D");
  list.add_if(value_bias, "v_proj.bias", {wide}, "H d_v");
  list.add_if(gate, "g_proj.weight", {wide, D}, "H d_v, D");
  list.add_if(gate_bias, "g_proj.bias", {wide}, "H d_v");
  list.add_if(norm, "o_norm.weight", {d_v}, "d_v");
  list.add("o_proj.weight", {D, wide}, "D, H d_v");
  list.add_if(out_bias, "o_proj.bias", {D}, "D");
}

LayerShape RamNetConfig::shape(int layer) const {
  LayerShape s;
  const auto& cape = cape_heads[size_t(layer)];
  s.family = "ramnet";
  s.route_kind = "sparse";
  s.hidden = hidden_size;
  s.heads = s.route_heads = heads;
  s.slots = code.slots;
  s.top_k = code.top_k;
  s.wide_routes = true;
  s.d_k = logits();
  s.d_v = d_v;
  s.decay = s.strength = Columns::selected;
  s.state_elements = heads * code.slots * (d_v + 1);
  s.fields = {Field::route_index,
              Field::route_weight,
              Field::log_decay,
              Field::write_strength,
              Field::read_weight,
              Field::read_index,
              Field::read_route_weight,
              Field::lost_mass_write,
              Field::lost_mass_read,
              Field::read_mass_written,
              Field::mass,
              Field::slot_value,
              Field::query,
              Field::key,
              Field::value,
              Field::read_out,
              Field::esl,
              Field::selected,
              Field::ties,
              Field::margin};
  if (uses_gamma()) s.fields.push_back(Field::gamma);
  s.note =
      std::to_string(code.factors) + " factors of " + std::to_string(code.codes) + " codes, " +
      (rule.pdma         ? "PDMA"
       : rule.cumulative ? "cumulative"
                         : "GSU") +
      (rule.mass_aware ? ", mass-aware" : "") +
      (cape.empty() ? ", no CAPE" : ", CAPE in " + std::to_string(cape.size()) + " of " + std::to_string(heads) + " heads");
  s.attributes = {{"order", int64_t(code.factors)},
                  {"codes_per_factor", int64_t(code.codes)},
                  {"slot_order", std::string(code.order == kernels::SlotOrder::factor0_least ? "factor0_least_significant"
                                                                                             : "factor0_most_significant")},
                  {"renormalize_topk", int64_t(code.renormalize)},
                  {"update_rule", std::string(rule.pdma ? "pdma" : "gsu")},
                  {"cumulative", int64_t(rule.cumulative)},
                  {"state_eps", rule.eps},
                  {"readout", std::string(rule.mass_aware ? "mass_aware" : "standard")},
                  {"cape_direction", int64_t(code.direction)},
                  {"cape_heads", cape},
                  {"slot", std::string("address of a product code")},
                  {"query", std::string("read logits after their log scale, U groups of d_p")},
                  {"key", std::string("write logits after their log scale, U groups of d_p")},
                  {"read_weight", std::string(rule.mass_aware ? rule.pdma ? "r z / sum of r z / (z + eps)" : "r m / sum of r m"
                                              : rule.pdma     ? "r / (z + eps)"
                                                              : "r")},
                  {"mass", std::string(rule.pdma ? "z, 1/M where nothing was written" : "m")},
                  {"slot_value", std::string(rule.pdma ? "S / (z + eps)" : "s")}};
  if (rule.pdma) s.attributes.emplace_back("pdma_gamma", rule.pdma_gamma);
  return s;
}

MemoryCard RamNetConfig::card() const {
  const std::string k = std::to_string(code.top_k), eps = formats::number_text(rule.eps),
                    gamma = formats::number_text(rule.pdma_gamma);
  MemoryCard card;
  card.router = "top-" + k + " of " + std::to_string(code.codes) + "^" + std::to_string(code.factors) + " slots, product of " +
                std::to_string(code.factors) + " softmaxes, for reads and writes apart" +
                (code.renormalize ? ", weights divided by their sum" : "");
  card.content = "v";
  card.formulas.router = "w_t = top_K(∏_u softmax_u(e^α W_w x_t)), r_t with W_r";
  card.formulas.content = "v_t = W_v x_t";
  if (rule.pdma) {
    card.decay = "per written slot, (1 - w)^" + gamma;
    card.readout = rule.mass_aware ? "mean of the K read slots S / z, weighted by address and z"
                                   : "sum over the K read slots, divided by their weight z";
    card.formulas.decay = "S_t[i] = (1 − w_t[i])^γ S_{t−1}[i] + w_t[i] v_t, z_t likewise with 1";
    card.formulas.readout = rule.mass_aware ? "o_t = (Σ_i r_t[i] z_t[i] S_t[i] / (z_t[i] + ε)) / Σ_i r_t[i] z_t[i]"
                                            : "o_t = Σ_i r_t[i] S_t[i] / (z_t[i] + ε)";
    return card;
  }
  card.decay = rule.cumulative ? "none of the mass: each slot is the mean of what was written"
                               : "per written slot, the gate sigmoid(logit(1 - w) - gamma) of its mass";
  card.formulas.decay = std::string("m_t[i] = ") + (rule.cumulative ? "" : "σ(logit(1 − w_t[i]) − γ_t) ") +
                        "m_{t−1}[i] + w_t[i], S_t[i] = S_{t−1}[i] + w_t[i] / (m_t[i] + ε) (v_t − S_{t−1}[i])";
  card.readout = rule.mass_aware ? "mean of the K read slots, weighted by address and mass" : "sum over the K read slots";
  card.formulas.readout = rule.mass_aware ? "o_t = Σ_i r_t[i] m_t[i] S_t[i] / Σ_i r_t[i] m_t[i]" : "o_t = Σ_i r_t[i] S_t[i]";
  return card;
}

RamNetConfig read_ramnet_config(const formats::Checkpoint& checkpoint) {
  RamNetConfig config;
  Reader(checkpoint, config).read();
  return config;
}

}  // namespace slotscope::engine
