#include "core/trace/layer_rule.h"

#include <algorithm>
#include <cmath>

#include "core/trace/trace_source.h"

namespace slotscope::trace {
namespace {

const AttributeValue* attribute(const LayerSpec& layer, std::string_view name) {
  for (const auto& [key, value] : layer.attributes)
    if (key == name) return &value;
  return nullptr;
}

template <class T>
std::optional<T> value_of(const LayerSpec& layer, std::string_view name) {
  const AttributeValue* value = attribute(layer, name);
  const T* held = value ? std::get_if<T>(value) : nullptr;
  return held ? std::optional<T>(*held) : std::nullopt;
}

// Sentences for the reader: the views print them as they are.
std::string survival_of_delta(const std::string& family) {
  return family +
         ": survival is undefined. The delta rule also takes out what a later key overwrites, which no gate of a slot "
         "says. Read attribution follows it exactly";
}
std::string survival_of_key_decay(const LayerRule& rule) {
  return rule.family + (rule.channels ? ": survival is undefined. Every state of a channel decays at a rate of its own"
                                     : ": survival is undefined. Every key channel decays by a gate of its own") +
         ", so a slot has no single share that is left. Read attribution follows each of them";
}
std::string too_large(const char* what, int64_t slots, int64_t rows) {
  return std::string(what) + " of " + std::to_string(slots) + " slots x " + std::to_string(rows) +
         " tokens are too many numbers to hold (at most " + std::to_string(kMostCells) +
         "): run again and capture fewer tokens with --tokens";
}

class RuleReader {
 public:
  RuleReader(const Trace& trace, int run, const LayerSpec& layer, int head, Progress* progress)
      : trace_(trace),
        run_(run),
        info_(trace.run(run)),
        layer_(layer),
        rule_(layer_rule(layer)),
        file_(trace.path().string()),
        at_("layers/" + std::to_string(layer.index) + "/"),
        head_(head),
        place_(route_head_place(layer, head, file_)),
        progress_(progress) {}

  HeadRoutes read() {
    r_.layer = layer_.index;
    r_.head = head_;
    r_.tokens = r_.rows = info_.tokens;
    if (layer_.slots < 0 || layer_.slots > int64_t(1) << 24)
      damaged(file_, at_ + "slots", std::to_string(layer_.slots), "0 to 16777216");
    r_.slots = int(layer_.slots);
    if (rule_.kind == RuleKind::dense)
      dense();
    else
      by_position();
    return std::move(r_);
  }

 private:
  const DatasetInfo* find(const char* field) const { return info_.find(at_ + field); }

  // Token t in slot t (append) or t mod W (ring): all of it is known, whatever was captured.
  void by_position() {
    const bool ring = rule_.kind == RuleKind::ring;
    if (ring && r_.slots == 0 && r_.rows > 0) damaged(file_, at_ + "slots", "0", "the window");
    // The number of slots is the planned length; a writer that did not know it has fewer, or 0.
    if (!ring) r_.slots = int(std::max(layer_.slots, std::min<int64_t>(r_.tokens, 1 << 24)));
    r_.top_k = 1;
    r_.no_cut = "the position of a token decides its slot: there is no router and no cut";
    if (!ring)
      r_.no_score = "every token has a slot of its own, so each slot of a retrieval token is retrieval only and the score "
                    "would be 1 in every head";
    r_.index.resize(size_t(r_.rows));
    for (int64_t t = 0; t < r_.rows; ++t) r_.index[size_t(t)] = uint32_t(ring ? t % r_.slots : t);
    r_.weight.assign(size_t(r_.rows), 1);
    r_.strength = r_.weight;
    // A ring keeps nothing of what was in the slot that it writes; an appended slot is written once.
    r_.log_decay.assign(size_t(r_.rows), ring ? -std::numeric_limits<double>::infinity() : 0.0);
    if (const DatasetInfo* gates = find("log_decay")) forget_gates(*gates);
  }

  // FoX: a gate per query head and token, on all slots.
  void forget_gates(const DatasetInfo& gates) {
    if (layer_.heads != layer_.route_heads) {
      r_.common_decay.assign(size_t(r_.tokens), std::numeric_limits<double>::quiet_NaN());
      r_.no_survival = rule_.family + ": survival is undefined. Each of the " +
                       std::to_string(layer_.heads / std::max<int64_t>(layer_.route_heads, 1)) +
                       " query heads that read these slots has a forget gate of its own. Read weights and read "
                       "attribution have them in themselves";
      return;
    }
    r_.common_token = token_list();
    r_.common_decay = trace_.read_head(run_, gates.path, int(place_), 0, -1, progress_);
    const int64_t expected = r_.common_token.empty() ? r_.tokens : int64_t(r_.common_token.size());
    if (int64_t(r_.common_decay.size()) != expected)
      damaged(file_, gates.path, std::to_string(r_.common_decay.size()) + " numbers of a head",
              std::to_string(expected) + ", one for each token");
  }

  std::vector<int64_t> token_list() const {
    if (!find("token")) return {};
    return trace_.read_int(run_, at_ + "token");
  }

  void dense() {
    r_.every_slot = true;
    r_.top_k = r_.slots;
    r_.no_cut = "every token writes every slot: there is no cut";
    if (rule_.matrix)
      r_.no_reads = rule_.family +
                    ": no read weight over slots. Value channels are read by an inner product with the query, not through "
                    "a softmax. Read attribution says what is read of each token";
    const DatasetInfo *strength = find("write_strength"), *decay = find("log_decay");
    if (strength || decay) {
      r_.token = token_list();
      if (!r_.token.empty()) r_.rows = int64_t(r_.token.size());
    }
    decays(decay);
    strengths(strength);
  }

  // One number for each slot of a row, or one for the row. Throws Error for another shape.
  bool per_slot(const DatasetInfo& data) const {
    const auto& s = data.shape;
    if (s.size() == 2 && s[0] == r_.rows) return false;
    if (s.size() != 3 || s[0] != r_.rows || s[2] != r_.slots)
      damaged(file_, data.path, "another shape than the layer's", "[T,H_r] or [T,H_r,M]");
    return true;
  }

  void decays(const DatasetInfo* decay) {
    rule_.key_decay |= decay && decay->axes.ends_with("d_k");
    r_.no_survival = survival_undefined(rule_);
    if (!r_.no_survival.empty()) return;
    if (!decay) {
      if (rule_.keep) r_.log_decay.assign(size_t(r_.rows), std::log(*rule_.keep));
      return;
    }
    r_.per_slot_decay = per_slot(*decay);
    if (r_.per_slot_decay && r_.rows > kMostCells / std::max(r_.slots, 1)) {
      r_.per_slot_decay = false;
      r_.no_survival = too_large("the log decays", r_.slots, r_.rows);
      return;
    }
    r_.log_decay = trace_.read_head(run_, decay->path, int(place_), 0, -1, progress_);
  }

  void strengths(const DatasetInfo* strength) {
    if (!strength) {
      if (rule_.strength) {
        r_.common_strength = true;
        r_.strength.assign(size_t(r_.rows), *rule_.strength);
      } else if (!rule_.matrix && r_.per_slot_decay) {  // what the decay leaves (spec: model-zoo 3.3, 4.3)
        for (const double f : r_.log_decay) r_.strength.push_back(-std::expm1(f));
      }
      return;
    }
    r_.common_strength = !per_slot(*strength);
    if (!r_.common_strength && r_.rows > kMostCells / std::max(r_.slots, 1)) {
      r_.no_strength = too_large("the write strengths", r_.slots, r_.rows);
      return;
    }
    r_.strength = trace_.read_head(run_, strength->path, int(place_), 0, -1, progress_);
  }

  const Trace& trace_;
  int run_;
  const RunInfo& info_;
  const LayerSpec& layer_;
  LayerRule rule_;
  std::string file_, at_;
  int head_;
  int64_t place_;
  Progress* progress_;
  HeadRoutes r_;
};

}  // namespace

LayerRule layer_rule(const LayerSpec& layer) {
  LayerRule rule;
  rule.family = layer.family;
  rule.kind = layer.route_kind == "sparse"   ? RuleKind::stored
              : layer.route_kind == "dense"  ? RuleKind::dense
              : layer.route_kind == "ring"   ? RuleKind::ring
              : layer.route_kind == "append" ? RuleKind::append
                                             : RuleKind::none;
  rule.matrix = value_of<std::string>(layer, "slot") == "value channel";
  // Earlier versions said it in words only.
  const bool in_words = value_of<std::string>(layer, "keep").value_or("").find("k k^T") != std::string::npos;
  rule.delta = in_words || value_of<int64_t>(layer, "delta").value_or(0) != 0;
  rule.readout = attribute(layer, "readout") != nullptr;
  rule.normalised = value_of<int64_t>(layer, "normalised").value_or(0) != 0;
  const std::string decay = value_of<std::string>(layer, "decay").value_or("");
  rule.decays = !decay.empty();
  rule.key_decay = decay == "key channel";
  rule.channels = decay == "channel and state" || layer.family == "mamba";
  rule.skip = value_of<int64_t>(layer, "skip").value_or(0) != 0;
  rule.scale = value_of<double>(layer, "scale").value_or(1);
  rule.strength = value_of<double>(layer, "write_strength");
  rule.keep = value_of<double>(layer, "keep");
  return rule;
}

std::string survival_undefined(const LayerRule& rule) {
  if (rule.delta) return survival_of_delta(rule.family);
  return rule.channels || rule.key_decay ? survival_of_key_decay(rule) : "";
}

HeadRoutes routes_by_rule(const Trace& trace, int run, const LayerSpec& layer, int head, Progress* progress) {
  return RuleReader(trace, run, layer, head, progress).read();
}

int64_t route_head_place(const LayerSpec& layer, int head, const std::string& file) {
  const std::string item = "layer " + std::to_string(layer.index);
  const int64_t heads = layer.route_heads;
  if (head < 0 || head >= heads)
    throw Error({.file = file,
                 .item = item,
                 .found = "head " + std::to_string(head) + " asked for",
                 .expected = "heads 0 to " + std::to_string(heads - 1)});
  const AttributeValue* list = attribute(layer, "captured_route_heads");
  const auto* captured = list ? std::get_if<std::vector<int64_t>>(list) : nullptr;
  if (!captured) return head;
  const auto at = std::find(captured->begin(), captured->end(), int64_t(head));
  if (at == captured->end())
    throw Error({.file = file,
                 .item = item,
                 .found = "head " + std::to_string(head) + " was not captured",
                 .advice = "Include it in --heads"});
  return at - captured->begin();
}

}  // namespace slotscope::trace
