// The pickle stream of a torch.save file.
#include "core/formats/pickle.h"

#include <cstring>
#include <utility>

#include "core/error.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::formats;

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_value(const PickleTree& tree, const PickleValue& value, std::string_view input) {
  const auto known = [&](PickleId id) { return id == kNoPickle || id < tree.size(); };
  for (const PickleId item : value.items) require(item < tree.size(), "items are values of the tree");
  require(known(value.callee) && known(value.args) && known(value.state), "parts are values of the tree");
  switch (value.kind) {
    case PickleKind::global:
      require(global_role(value.text) != GlobalRole::refused, "only names of the lists get into a tree");
      break;
    case PickleKind::object:
      require(tree.is(value.callee, PickleKind::global) && value.args != kNoPickle, "an object has a maker and arguments");
      break;
    case PickleKind::persistent:
      require(value.args != kNoPickle, "a reference to a storage describes it");
      break;
    case PickleKind::dict:
      require(value.items.size() % 2 == 0, "keys and values come in pairs");
      tree.get(PickleId(&value - &tree[0]), "state_dict");
      break;
    case PickleKind::boolean:
      require(value.integer == 0 || value.integer == 1, "a boolean is 0 or 1");
      break;
    case PickleKind::text:
    case PickleKind::bytes:
    case PickleKind::big_integer:
      require(within(value.text, input), "texts are views into the input");
      break;
    default:
      break;
  }
}

// Depth of the walk that marks where it has been.
size_t walk(const PickleTree& tree) {
  std::vector<bool> seen(tree.size());
  std::vector<std::pair<PickleId, size_t>> path{{tree.root(), 0}};
  seen[tree.root()] = true;
  size_t deepest = 0;
  while (!path.empty()) {
    deepest = std::max(deepest, path.size());
    auto& [id, next] = path.back();
    const PickleValue& value = tree[id];
    if (next >= value.items.size() + 3) {
      path.pop_back();
      continue;
    }
    const size_t i = next++;
    const PickleId child = i < value.items.size()       ? value.items[i]
                           : i == value.items.size()     ? value.args
                           : i == value.items.size() + 1 ? value.state
                                                         : value.callee;
    if (child == kNoPickle || seen[child]) continue;
    seen[child] = true;
    path.emplace_back(child, 0);
  }
  return deepest;
}

}  // namespace

void run_pickle(Bytes input) {
  const std::string_view bytes = text_of(input);
  PickleOptions options{.file = "model.bin", .item = "data.pkl", .max_values = 200'000, .max_depth = 200};
  PickleTree tree;
  try {
    tree = unpickle(bytes, options);
  } catch (const Error& error) {
    require(std::strlen(error.what()) > 20, "an error says what is wrong");
    return;
  }
  require(tree.root() < tree.size() && tree.end() <= bytes.size(), "root and end");
  require(tree.protocol() >= 2 && tree.protocol() <= 5, "protocols 2 to 5");
  for (PickleId id = 0; id < tree.size(); ++id) check_value(tree, tree[id], bytes);
  require(walk(tree) <= options.max_depth + 3, "the depth limit holds for the walk");
  // The beginning of an accepted stream asks for more and never fails.
  options.available = bytes.size();
  for (const size_t part : {tree.end() / 3, tree.end() / 2, tree.end() - 1})
    if (part > 0) require(!try_unpickle(bytes.substr(0, part), options), "a beginning asks for more");
  require(try_unpickle(bytes, options).has_value(), "the whole stream is enough");
}

}  // namespace slotscope::fuzz
