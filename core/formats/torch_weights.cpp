#include "core/formats/torch_weights.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/torch_tensors.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr size_t kMaxCandidates = 2000;
constexpr size_t kMaxKeyBytes = 256;  // of keys on the way to a candidate; names of tensors may be longer
constexpr size_t kMaxPathLevels = 16;
constexpr size_t kMaxListed = 200;  // entries of one dict in the list of what was ignored

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}
bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What lies under a path.
enum class Content { other_state, tensors, parameters, known_family };  // ascending: more likely the weights

struct Candidate {
  std::string path;  // keys with dots between; empty: the whole file
  PickleId node = kNoPickle;
  std::vector<PickleId> levels;   // containers from the root to `node`
  std::vector<std::string> keys;  // keys between them
  Content content = Content::tensors;
  const char* state = "";  // "optimiser state": why it is no model
  bool average = false;
  size_t key_rank = 0;
  uint64_t tensors = 0, bytes = 0;
};

// A child of a container with its key as text; keys that are neither text nor whole numbers have none. Texts
// are not copied: many entries of a pickle can share one long text.
struct Child {
  std::string_view text;
  std::string number;
  PickleId id;
  bool named;
  std::string_view key() const { return number.empty() ? text : std::string_view(number); }
};

class Finder {
 public:
  Finder(TorchFile& file, std::string_view model_type)
      : file_(file), tree_(file.tree()), embeddings_(embedding_names(model_type)) {}

  TorchWeights run(const std::string& wanted) {
    mark_holders();
    explore();
    if (candidates_.empty()) no_tensors();
    const size_t chosen = wanted.empty() ? likeliest() : named(wanted);
    if (const Candidate& c = candidates_[chosen]; c.content == Content::other_state)
      refuse(c.path.empty() ? "" : "'" + printable(c.path) + "'", what(c) + ", no weights",
             "the weights of a model", "Open the file that holds the model.");
    TorchWeights weights;
    read_tensors(candidates_[chosen], weights);
    describe_rest(chosen, weights);
    return weights;
  }

 private:
  [[noreturn]] void refuse(std::string item, std::string found, std::string expected,
                           std::string advice) const {
    throw Error({file_.path(), std::move(item), std::move(found), std::move(expected), std::move(advice)});
  }

  // ---- the tree

  bool is_container(PickleId id) const {
    const PickleKind kind = tree_[id].kind;
    return kind == PickleKind::dict || kind == PickleKind::list || kind == PickleKind::tuple ||
           (kind == PickleKind::object && !is_torch_tensor(tree_, id));
  }
  bool has_keys(PickleId id) const {
    return tree_[id].kind == PickleKind::dict || tree_[id].kind == PickleKind::object;
  }
  size_t child_count(PickleId id) const { return tree_[id].items.size() / (has_keys(id) ? 2 : 1); }
  Child child(PickleId id, size_t index) const {
    const auto& items = tree_[id].items;
    if (!has_keys(id)) return {"", std::to_string(index), items[index], true};
    const PickleValue& key = tree_[items[2 * index]];
    if (key.kind == PickleKind::text) return {key.text, "", items[2 * index + 1], true};
    if (key.kind == PickleKind::integer) return {"", std::to_string(key.integer), items[2 * index + 1], true};
    return {"", "", items[2 * index + 1], false};
  }

  // Marks every value below which there is a tensor: bottom up, each value once, without recursion.
  void mark_holders() {
    struct Step {
      PickleId id;
      size_t next;
    };
    holds_.assign(tree_.size(), false);
    std::vector<bool> seen(tree_.size());
    std::vector<Step> path = {{tree_.root(), 0}};
    seen[tree_.root()] = true;
    while (!path.empty()) {
      Step& step = path.back();
      const PickleId id = step.id;
      if (is_torch_tensor(tree_, id)) holds_[id] = true;
      if (!is_container(id) || step.next >= tree_[id].items.size()) {
        path.pop_back();
        if (holds_[id] && !path.empty()) holds_[path.back().id] = true;
        continue;
      }
      const PickleId below = tree_[id].items[step.next++];
      if (holds_[below]) holds_[id] = true;
      if (seen[below]) continue;
      seen[below] = true;
      path.push_back({below, 0});
    }
  }

  // ---- candidates

  void explore() {
    if (is_torch_tensor(tree_, tree_.root())) {
      candidates_.push_back({.node = tree_.root()});
      return;
    }
    std::vector<Candidate> open = {{.node = tree_.root()}};
    std::vector<bool> seen(tree_.size());
    for (size_t at = 0; at < open.size() && candidates_.size() < kMaxCandidates; ++at) {
      Candidate here = open[at];
      if (seen[here.node] || !holds_[here.node]) continue;
      seen[here.node] = true;
      here.state = other_state(here);
      if (*here.state) {
        here.content = Content::other_state;
        candidates_.push_back(std::move(here));
        continue;
      }
      if (look_at_names(here)) candidates_.push_back(here);
      if (here.levels.size() >= kMaxPathLevels) continue;
      for (size_t i = 0; i < child_count(here.node); ++i) {
        const Child next = child(here.node, i);
        if (!next.named || next.key().size() > kMaxKeyBytes || !is_container(next.id) || !holds_[next.id])
          continue;
        Candidate below;
        below.node = next.id;
        below.path = here.path.empty() ? std::string(next.key()) : here.path + "." + std::string(next.key());
        below.levels = here.levels;
        below.levels.push_back(here.node);
        below.keys = here.keys;
        below.keys.emplace_back(next.key());
        open.push_back(std::move(below));
        if (open.size() > 10 * kMaxCandidates) return;
      }
    }
  }

  // State of a training run that is never a model, by its key or its form; else "".
  const char* other_state(const Candidate& here) const {
    if (tree_.get(here.node, "state") != kNoPickle && tree_.get(here.node, "param_groups") != kNoPickle)
      return "optimiser state";
    return here.keys.empty() ? "" : state_by_key(here.keys.back());
  }
  static const char* state_by_key(std::string_view text) {
    const std::string key = lower(text.substr(0, kMaxKeyBytes));
    if (contains(key, "optim") || key == "opt_state" || key == "opt") return "optimiser state";
    if (key == "rng" || contains(key, "rng_state") || contains(key, "random_state"))
      return "state of random number generators";
    if (contains(key, "scheduler")) return "scheduler state";
    if (key == "scaler" || contains(key, "grad_scaler") || contains(key, "loss_scal"))
      return "loss scaler state";
    return "";
  }

  // Judges a container by the tensors directly in it. False when there is none.
  bool look_at_names(Candidate& here) const {
    bool any = false, parameters = false, family = false;
    for (size_t i = 0; i < child_count(here.node); ++i) {
      const Child c = child(here.node, i);
      if (!c.named || !is_torch_tensor(tree_, c.id)) continue;
      any |= !*state_by_key(c.key());  // a loose rng_state makes no candidate
      parameters |= contains(c.key().substr(0, kMaxKeyBytes), ".") || c.key() == "weight" || c.key() == "bias";
      for (const std::string_view name : embeddings_)
        family |= c.key().ends_with(name) &&
                  (c.key().size() == name.size() || c.key()[c.key().size() - name.size() - 1] == '.');
    }
    here.content = family ? Content::known_family : parameters ? Content::parameters : Content::tensors;
    static const std::vector<std::string> usual = {
        "model",  "state_dict", "model_state_dict", "module",    "weights",
        "params", "net",        "network",          "generator", "student"};
    here.key_rank = usual.size();
    for (const std::string& level : here.keys) {
      const std::string key = lower(level);
      here.average |= key == "ema" || key.starts_with("ema_") || key.ends_with("_ema") ||
                      contains(key, "_ema_") || contains(key, "average") || contains(key, "swa_") ||
                      contains(key, "shadow");
      const auto found = std::find(usual.begin(), usual.end(), key);
      here.key_rank = std::min(here.key_rank, size_t(found - usual.begin()));
    }
    return any;
  }

  size_t likeliest() {
    measure_all();
    size_t best = 0;
    const auto merit = [](const Candidate& c) {
      return std::tuple(int(c.content), !c.average, -int(c.key_rank), c.bytes);
    };
    for (size_t i = 1; i < candidates_.size(); ++i)
      if (merit(candidates_[i]) > merit(candidates_[best])) best = i;
    return best;
  }
  size_t named(const std::string& wanted) {
    measure_all();
    std::string list;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].path == wanted) return i;
      if (i < 10) list += (i ? ", " : "") + shown(candidates_[i]);
    }
    refuse("weights '" + printable(wanted) + "'", "no such part of the file", "one of " + list,
           "Choose one of these, or leave the choice to the program.");
  }
  static std::string shown(const Candidate& c) {
    return c.path.empty() ? "the top level" : "'" + printable(c.path) + "'";
  }

  // ---- sizes

  void measure_all() {
    for (Candidate& c : candidates_) {
      std::vector<PickleId> direct;
      if (c.content == Content::other_state || is_torch_tensor(tree_, c.node)) {
        direct = {c.node};
      } else {
        for (const PickleId id : tree_[c.node].items)
          if (is_torch_tensor(tree_, id)) direct.push_back(id);
      }
      measure(direct, c.tensors, c.bytes);
    }
  }
  // Tensors below `from` and the bytes of their storages, both as far as no earlier call has counted them.
  // The bytes are what the pickle says: nothing is looked up.
  void measure(const std::vector<PickleId>& from, uint64_t& tensors, uint64_t& bytes) {
    counted_.resize(tree_.size());
    std::vector<PickleId> open = from;
    const auto visit = [&](PickleId id) {
      if (id != kNoPickle && !counted_[id]) open.push_back(id);
    };
    while (!open.empty()) {
      const PickleId id = open.back();
      open.pop_back();
      if (counted_[id]) continue;
      counted_[id] = true;
      const PickleValue& value = tree_[id];
      if (value.kind == PickleKind::persistent) bytes += storage_bytes(id);
      const std::string_view callee = tree_.callee(id);
      tensors += is_torch_tensor(tree_, id) && !callee.starts_with("torch._utils._rebuild_parameter");
      for (const PickleId item : value.items) visit(item);
      visit(value.args);
    }
  }
  uint64_t storage_bytes(PickleId id) {
    const auto& fields = tree_[tree_[id].args].items;
    if (fields.size() < 5 || !tree_.is(fields[2], PickleKind::text) ||
        !tree_.is(fields[4], PickleKind::integer) || tree_[fields[2]].text.size() > kMaxKeyBytes)
      return 0;
    if (!storages_seen_.insert(tree_[fields[2]].text).second) return 0;
    const uint64_t size = torch_type(tree_.global(fields[1])).size;
    const int64_t count = tree_[fields[4]].integer;
    return count > 0 && count < (int64_t(1) << 48) ? uint64_t(count) * size : 0;
  }

  // ---- results

  void read_tensors(const Candidate& chosen, TorchWeights& out) {
    if (is_torch_tensor(tree_, chosen.node)) {
      out.tensors.push_back(read_torch_tensor(file_, chosen.node, "tensor"));
      out.notes.push_back("the file holds one tensor without a name");
      return;
    }
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < child_count(chosen.node); ++i) {
      Child c = child(chosen.node, i);
      if (!is_torch_tensor(tree_, c.id)) continue;
      if (!c.named) refuse("", "a tensor whose key is neither text nor a whole number", "named tensors", "");
      if (const size_t at = first_invalid_utf8(c.key()); at != kValidUtf8)
        refuse("tensor '" + printable(c.key()) + "'",
               "byte " + std::to_string(at) + " of its name is no valid UTF-8", "a UTF-8 name",
               "Save the weights again with plain names.");
      if (!names.emplace(c.key()).second)
        refuse("tensor '" + printable(c.key()) + "'", "appears twice", "each name once",
               "The file is damaged: save the model again.");
      out.tensors.push_back(read_torch_tensor(file_, c.id, std::string(c.key())));
    }
  }

  void describe_rest(size_t chosen, TorchWeights& out) {
    const Candidate& c = candidates_[chosen];
    if (candidates_.size() > 1) {
      std::string others;
      for (size_t i = 0, told = 0; i < candidates_.size(); ++i) {
        if (i == chosen) continue;
        if (told == 5) {
          others += " and " + std::to_string(candidates_.size() - 6) + " more";
          break;
        }
        others += (told++ ? ", " : "") + shown(candidates_[i]) + " (" + what(candidates_[i]) + ")";
      }
      out.notes.push_back("weights are read from " + shown(c) + ", 1 of " +
                          std::to_string(candidates_.size()) + " candidates; not read: " + others);
    } else if (!c.path.empty()) {
      out.notes.push_back("weights are read from " + shown(c));
    }
    for (size_t level = 0; level < c.levels.size(); ++level)
      list_entries(c, c.levels[level], level, c.keys[level], out);
    if (!is_torch_tensor(tree_, c.node)) list_entries(c, c.node, c.levels.size(), "", out);
  }
  static std::string what(const Candidate& c) {
    const std::string count = std::to_string(c.tensors) + (c.tensors == 1 ? " tensor" : " tensors");
    if (*c.state) return std::string(c.state) + ", " + count;
    return (c.average ? "averaged weights, " : "other weights, ") + count;
  }

  // What is in a container beside the way to the weights; for the weights' own container: what is no tensor.
  void list_entries(const Candidate& chosen, PickleId container, size_t level, const std::string& way,
                    TorchWeights& out) {
    std::string prefix;
    for (size_t i = 0; i < level; ++i) prefix += chosen.keys[i] + ".";
    size_t listed = 0, left_out = 0;
    for (size_t i = 0; i < child_count(container); ++i) {
      const Child c = child(container, i);
      const bool own = container == chosen.node;
      if (own ? is_torch_tensor(tree_, c.id) : c.named && c.key() == way) continue;
      if (listed == kMaxListed) {
        ++left_out;
        continue;
      }
      ++listed;
      out.ignored.push_back(describe(prefix + (c.named ? printable(c.key()) : "(another key)"), c.id));
    }
    if (left_out) out.ignored.push_back({prefix + "...", std::to_string(left_out) + " more entries", 0});
  }

  IgnoredItem describe(std::string item, PickleId id) {
    for (const Candidate& c : candidates_)
      if (c.node == id && !c.keys.empty()) return {std::move(item), what(c), c.bytes};
    uint64_t tensors = 0, bytes = 0;
    for (const Candidate& c : candidates_)  // candidates below it
      if (std::find(c.levels.begin(), c.levels.end(), id) != c.levels.end())
        tensors += c.tensors, bytes += c.bytes;
    measure({id}, tensors, bytes);
    if (is_torch_tensor(tree_, id)) {
      const char* state = state_by_key(std::string_view(item).substr(item.rfind('.') + 1));
      return {std::move(item), *state ? state : "a tensor", bytes};
    }
    if (tensors)
      return {std::move(item), std::to_string(tensors) + (tensors == 1 ? " tensor" : " tensors"), bytes};
    return {std::move(item), kind_text(id), 0};
  }
  std::string kind_text(PickleId id) const {
    const PickleValue& value = tree_[id];
    switch (value.kind) {
      case PickleKind::none:
        return "nothing (None)";
      case PickleKind::boolean:
        return value.integer ? "True" : "False";
      case PickleKind::integer:
        return "the number " + std::to_string(value.integer);
      case PickleKind::real:
        return "the number " + number_text(value.real);
      case PickleKind::big_integer:
        return "a number";
      case PickleKind::text:
        return "text '" + printable(value.text, 40) + "'";
      case PickleKind::bytes:
        return thousands(value.text.size()) + " bytes";
      case PickleKind::dict:
        return "settings: a dict of " + std::to_string(value.items.size() / 2);
      case PickleKind::list:
      case PickleKind::tuple:
      case PickleKind::set:
        return "settings: a list of " + std::to_string(value.items.size());
      case PickleKind::object:
        if (contains(tree_.callee(id), "multiarray")) return "a NumPy value";
        if (tree_.callee(id) == "_codecs.encode") return "bytes";
        if (tree_.callee(id) == "builtins.set") return "settings: a set";
        return "settings: " + std::string(tree_.callee(id));
      case PickleKind::global:
        return "the name " + std::string(value.text);
      case PickleKind::persistent:
        return "a storage without a tensor";
    }
    return "";
  }

  [[noreturn]] void no_tensors() const {
    if (holds_[tree_.root()])
      refuse("", "tensors, but under no key that could be a name", "a dict of tensors by name",
             "Save the weights again: torch.save(model.state_dict(), \"pytorch_model.bin\").");
    bool arrays = false;
    for (PickleId id = 0; id < tree_.size(); ++id)
      arrays |= contains(tree_.callee(id), "multiarray._reconstruct");
    refuse("", arrays ? "NumPy arrays, but no tensor" : "no tensor in it", "saved weights",
           arrays ? "Save them as tensors, or as safetensors." : "Is this the file with the weights?");
  }

  TorchFile& file_;
  const PickleTree& tree_;
  std::vector<std::string_view> embeddings_;
  std::vector<Candidate> candidates_;
  std::vector<bool> holds_, counted_;
  std::unordered_set<std::string_view> storages_seen_;
};

}  // namespace

TorchWeights find_torch_weights(TorchFile& file, const std::string& wanted, std::string_view model_type) {
  return Finder(file, model_type).run(wanted);
}

}  // namespace slotscope::formats
