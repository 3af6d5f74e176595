// Reads the pickles of torch.save files into plain values: an allow-list unpickler of our own, protocols 2 to 5
// (bad-inputs B17-B22). Nothing is ever imported or called: a global is only a name, a call only a node that holds
// the name and its arguments. A name on neither list of pickle_globals.cpp ends the reading with an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::formats {

enum class PickleKind : uint8_t {
  none,
  boolean,      // integer is 0 or 1
  integer,      // fits 64 bits
  big_integer,  // text: two's complement, little-endian, more than 8 bytes
  real,
  text,         // as stored: UTF-8 from Python 3 (lone surrogates possible), any bytes from Python 2
  bytes,
  tuple,
  list,
  set,
  dict,         // dict, OrderedDict, defaultdict, Counter; items: key, value, key, value, ...
  global,       // text: "torch._utils._rebuild_tensor_v2", with the module names of Python 3
  object,       // what a call of `callee` with `args` would have made; items: what was put into it afterwards
  persistent    // a reference to a storage: args is the tuple that describes it
};

using PickleId = uint32_t;  // position of a value in its tree
inline constexpr PickleId kNoPickle = UINT32_MAX;

struct PickleValue {
  PickleKind kind = PickleKind::none;
  uint32_t depth = 0;  // at least the levels below it
  union {
    int64_t integer = 0;
    double real;
  };
  std::string_view text;
  std::vector<PickleId> items;
  PickleId callee = kNoPickle, args = kNoPickle;  // object; persistent: args only
  PickleId state = kNoPickle;                     // object or dict: what BUILD would have set
};

// Values by number. Values are shared as they were in Python and may even contain each other, so whoever walks them
// marks where he has been. No value owns another: a tree of any shape is destroyed without recursion.
class PickleTree {
 public:
  const PickleValue& operator[](PickleId id) const { return values_[id]; }
  size_t size() const { return values_.size(); }
  PickleId root() const { return root_; }
  size_t end() const { return end_; }    // bytes that the pickle has: the position behind its STOP
  int protocol() const { return protocol_; }

  bool is(PickleId id, PickleKind kind) const { return id < values_.size() && values_[id].kind == kind; }
  // The name of a global, or of what an object was made by; empty for every other value.
  std::string_view global(PickleId id) const;
  std::string_view callee(PickleId id) const;
  // The value of a text key in a dict, or kNoPickle. The last one counts, as in Python.
  PickleId get(PickleId dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::deque<std::string> names_;  // of globals: they must not move
  std::vector<PickleValue> values_;
  PickleId root_ = kNoPickle;
  size_t end_ = 0;
  int protocol_ = 0;
};

struct PickleOptions {
  std::string file, item;        // for messages: the path, "data.pkl"
  uint64_t base = 0;             // position of the first byte in the file, for messages
  uint64_t available = 0;        // bytes that could follow the given ones in the file (see try_unpickle)
  size_t max_values = 10'000'000;
  uint32_t max_depth = 1000;     // levels; Python's own pickler gives up earlier
};

inline constexpr uint64_t kMaxPickleBytes = 512ull << 20;

// The first pickle of `bytes`; what follows its STOP is not looked at. Texts are views into `bytes`, which must outlive the
// tree. Memory is bounded by a small multiple of the input, time is linear in it. Throws Error: the file, the byte, and
// what is wrong; for a global on neither list "posix.system is not allowed in a weights file".
PickleTree unpickle(std::string_view bytes, const PickleOptions& options = {});

// The same for the beginning of a longer stream: nothing when the pickle goes on behind `bytes` and `available` says that
// there is more.
std::optional<PickleTree> try_unpickle(std::string_view bytes, const PickleOptions& options);

// What a global name may be in a weights file.
enum class GlobalRole {
  torch,     // rebuild functions, storages, dtypes: they describe tensors
  mapping,   // OrderedDict and other kinds of dict: calls of them make a dict
  inert,     // plain data of training scripts (argparse.Namespace, NumPy arrays, paths): kept as a node, never made
  refused
};
// `name` is "module.name" with Python 3 module names (see python3_global).
GlobalRole global_role(std::string_view name);
// "__builtin__", "set" -> "builtins.set": pickles of protocol 2 carry the names of Python 2.
std::string python3_global(std::string_view module, std::string_view name);
// What to do about a refused global.
std::string refused_global_advice(std::string_view name);

}  // namespace slotscope::formats
