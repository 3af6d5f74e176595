// The stack machine behind unpickle(): values, calls, memo. Every number of the stream is checked against
// what is left of it before anything is allocated; no function here calls itself.
#pragma once

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/pickle.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

inline constexpr uint64_t kMaxLongBytes =
    1024;  // an integer of 8192 bits; hash states and the magic number need far less
inline constexpr size_t kMaxGlobalName = 256;
inline constexpr PickleId kNone = 0, kTrue = 1, kFalse = 2, kSmallInts = 3, kEmptyTuple = kSmallInts + 256;

struct NeedMore {};  // the stream goes on behind the given bytes

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const PickleOptions& options)
      : bytes_(bytes), options_(options), available_(std::max<uint64_t>(bytes.size(), options.available)) {
    add({.kind = PickleKind::none});
    add({.kind = PickleKind::boolean, .integer = 1});
    add({.kind = PickleKind::boolean, .integer = 0});
    for (int64_t i = 0; i < 256; ++i) add({.kind = PickleKind::integer, .integer = i});
    add({.kind = PickleKind::tuple});
  }

  // Reads one pickle. Throws Error, or NeedMore.
  PickleTree run();

 private:
  // ---- messages and reading

  [[noreturn]] void refuse(std::string found, std::string expected, std::string advice = "") const {
    throw Error(
        {options_.file,
         (options_.item.empty() ? "" : options_.item + ", ") + "byte " +
             std::to_string(options_.base + opcode_at_),
         std::move(found), std::move(expected),
         advice.empty() ? "The file is damaged or was not written by torch.save." : std::move(advice)});
  }
  static std::string byte_text(char c) {
    static const char* digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    return std::string("0x") + digits[byte >> 4] + digits[byte & 15];
  }
  std::string_view take(uint64_t count) {
    if (count <= bytes_.size() - position_) {
      const std::string_view taken = bytes_.substr(position_, count);
      position_ += count;
      return taken;
    }
    if (count > available_ - position_)
      refuse(thousands(count) + " bytes are needed, " + thousands(available_ - position_) + " are left",
             "the whole pickle", "Incomplete download?");
    throw NeedMore{};
  }
  // Unsigned, little-endian.
  uint64_t number(int bytes) {
    const std::string_view text = take(uint64_t(bytes));
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[size_t(i)]);
    return value;
  }
  std::string_view line() {
    const std::string_view window = bytes_.substr(position_, kMaxGlobalName + 1);
    const size_t end = window.find('\n');
    if (end == std::string_view::npos) {
      if (window.size() > kMaxGlobalName)
        refuse("a name or number of more than " + std::to_string(kMaxGlobalName) + " bytes", "a line");
      take(window.size() + 1);  // ends the reading: there is no newline in what is left
      refuse("no end of line", "a line");
    }
    position_ += end + 1;
    return window.substr(0, end);
  }

  // ---- values

  PickleValue& at(PickleId id) { return tree_.values_[id]; }

  PickleId add(PickleValue value) {
    auto& values = tree_.values_;
    if (values.size() >= options_.max_values)
      refuse("more than " + thousands(options_.max_values) + " values", "a weights file");
    values.push_back(std::move(value));
    return PickleId(values.size() - 1);
  }
  void push(PickleId id) {
    if (stack_.size() >= options_.max_values)
      refuse("more than " + thousands(options_.max_values) + " values on the stack", "a weights file");
    stack_.push_back(id);
  }
  void push_new(PickleValue value) { push(add(std::move(value))); }
  void push_integer(int64_t value) {
    if (value >= 0 && value < 256)
      push(kSmallInts + PickleId(value));
    else
      push_new({.kind = PickleKind::integer, .integer = value});
  }
  void push_text(PickleKind kind, std::string_view text) { push_new({.kind = kind, .text = text}); }
  void push_long(uint64_t count) {
    if (count > kMaxLongBytes && count <= available_ - position_)
      refuse("an integer of " + thousands(count) + " bytes", "at most " + thousands(kMaxLongBytes));
    const std::string_view text = take(count);
    if (count > 8) return push_text(PickleKind::big_integer, text);
    uint64_t value = count && (text[count - 1] & 0x80) ? ~uint64_t(0) : 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
    push_integer(std::bit_cast<int64_t>(value));
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleId pop() {
    if (stack_.size() <= floor()) refuse("the stack is empty", "a value");
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  PickleId top() const {
    if (stack_.size() <= floor()) refuse("the stack is empty", "a value");
    return stack_.back();
  }
  std::vector<PickleId> pop_to_mark() {
    if (marks_.empty()) refuse("no mark on the stack", "MARK");
    std::vector<PickleId> items(stack_.begin() + long(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  // Depth as far as it is known when a value is put into another; check_depth() has the last word.
  void deepen(PickleId parent, PickleId child) {
    const uint32_t depth = at(child).depth + 1;
    if (depth > at(parent).depth) at(parent).depth = depth;
    if (depth > options_.max_depth) too_deep();
  }
  [[noreturn]] void too_deep() const {
    refuse("values nested deeper than " + std::to_string(options_.max_depth) + " levels", "a weights file",
           "Nothing that torch.save writes is nested so deep.");
  }
  void tuple(std::vector<PickleId> items) {
    if (items.empty()) return push(kEmptyTuple);
    const PickleId id = add({.kind = PickleKind::tuple});
    for (const PickleId item : items) deepen(id, item);
    at(id).items = std::move(items);
    push(id);
  }
  void tuple_of(size_t count) {
    std::vector<PickleId> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    tuple(std::move(items));
  }
  void insert(PickleId into, const PickleId* items, size_t count) {
    for (size_t i = 0; i < count; ++i) deepen(into, items[i]);
    auto& list = at(into).items;
    list.insert(list.end(), items, items + count);
  }
  void append(const PickleId* items, size_t count, PickleKind kind) {
    const PickleId into = top();
    if (at(into).kind != kind && at(into).kind != PickleKind::object)
      refuse("a value is put into something that is no list or set", "a list or set");
    insert(into, items, count);
  }
  void set_items(const PickleId* items, size_t count) {
    if (count % 2) refuse("a key without a value", "pairs");
    const PickleId into = top();
    if (at(into).kind != PickleKind::dict && at(into).kind != PickleKind::object)
      refuse("a pair is put into something that is no dict", "a dict");
    insert(into, items, count);
  }

  // ---- names and calls

  void global(std::string_view module, std::string_view name) {
    std::string full = python3_global(module, name);
    const auto known = globals_.find(full);
    if (known != globals_.end()) return push(known->second);
    if (global_role(full) == GlobalRole::refused)
      refuse(printable(full, 120) + " is not allowed in a weights file",
             "names of tensors, storages, dtypes and plain data", refused_global_advice(full));
    tree_.names_.push_back(std::move(full));
    const std::string_view stored = tree_.names_.back();
    const PickleId id = add({.kind = PickleKind::global, .text = stored});
    globals_.emplace(stored, id);
    push(id);
  }
  void stack_global() {
    const PickleId name = pop(), module = pop();
    if (at(name).kind != PickleKind::text || at(module).kind != PickleKind::text)
      refuse("a global whose name is no text", "two texts");
    if (at(name).text.size() > kMaxGlobalName || at(module).text.size() > kMaxGlobalName)
      refuse("a name of more than " + std::to_string(kMaxGlobalName) + " bytes", "a name");
    global(at(module).text, at(name).text);
  }

  void call(PickleId callee, PickleId args, PickleId keywords = kNoPickle) {
    if (at(callee).kind != PickleKind::global)
      refuse("a call of something that is no name", "a call of an allowed name");
    if (at(args).kind != PickleKind::tuple) refuse("a call whose arguments are no tuple", "a tuple");
    const std::string_view name = at(callee).text;
    if (name == "torch.Size" && at(args).items.size() == 1 && at(at(args).items[0]).kind == PickleKind::tuple)
      return push(at(args).items[0]);
    if (global_role(name) == GlobalRole::mapping) {
      const PickleId id = add({.kind = PickleKind::dict, .callee = callee});
      push(id);
      return initial_items(id, args);
    }
    const PickleId id = add({.kind = PickleKind::object, .callee = callee, .args = args});
    deepen(id, args);
    if (keywords != kNoPickle) insert(id, &keywords, 1);
    push(id);
  }
  // OrderedDict([[key, value], ...]), as Python 2 writes it. Copied items count as values: a list that is
  // shared by many calls must not multiply.
  void initial_items(PickleId dict, PickleId args) {
    if (at(args).items.size() > 4)
      refuse("a dict made of more than 4 arguments", "at most a factory and pairs");
    for (const PickleId arg : at(args).items) {
      const PickleKind kind = at(arg).kind;
      if (kind != PickleKind::list && kind != PickleKind::tuple) continue;  // a default factory
      copied_ += at(arg).items.size();
      if (copied_ > options_.max_values)
        refuse("more than " + thousands(options_.max_values) + " values", "a weights file");
      for (size_t i = 0; i < at(arg).items.size(); ++i) {
        const PickleValue& pair = at(at(arg).items[i]);
        if ((pair.kind != PickleKind::list && pair.kind != PickleKind::tuple) || pair.items.size() != 2)
          refuse("a dict is made of something that is no list of pairs", "pairs");
        const PickleId both[2] = {pair.items[0], pair.items[1]};
        insert(dict, both, 2);
      }
    }
  }
  void build() {
    const PickleId state = pop(), target = top();
    if (at(target).kind != PickleKind::object && at(target).kind != PickleKind::dict)
      refuse("a state for something that has none", "an object");
    deepen(target, state);
    at(target).state = state;
  }
  void persistent() {
    const PickleId args = pop();
    if (at(args).kind != PickleKind::tuple) refuse("a storage reference that is no tuple", "a tuple");
    const PickleId id = add({.kind = PickleKind::persistent, .args = args});
    deepen(id, args);
    push(id);
  }

  // ---- memo

  void put(uint64_t index) {
    // Picklers number values from 0; each took at least one byte of the stream.
    if (index >= available_)
      refuse("memo number " + std::to_string(index) + " in a pickle of " + thousands(available_) + " bytes",
             "a number below that");
    if (index >= memo_.size()) {
      if (index > position_ + 1)
        refuse("memo number " + std::to_string(index) + " after " + thousands(position_) + " bytes",
               "a number below that");
      memo_.resize(index + 1, kNoPickle);
    }
    memo_count_ += memo_[index] == kNoPickle;
    memo_[index] = top();
  }
  void get(uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kNoPickle)
      refuse("memo number " + std::to_string(index) + ", which was never set", "one that was");
    push(memo_[index]);
  }

  // ---- opcodes (pickle.cpp)

  bool step();           // one opcode; true at STOP
  bool scalar(char op);  // these three: false for an opcode of another group
  bool container(char op);
  bool structure(char op);
  void push_decimal(std::string_view text);

  // Walks everything once. A list that was deepened after its parent took it is found here; so whoever walks
  // the tree in this way meets no path longer than the limit.
  void check_depth() const {
    struct Step {
      PickleId id;
      size_t next;
    };
    std::vector<bool> seen(tree_.size());
    std::vector<Step> path = {{tree_.root_, 0}};
    seen[tree_.root_] = true;
    while (!path.empty()) {
      PickleId child = kNoPickle;
      if (!child_of(path.back().id, path.back().next++, child)) {
        path.pop_back();
      } else if (child != kNoPickle && !seen[child]) {
        seen[child] = true;
        if (path.size() > options_.max_depth) too_deep();
        path.push_back({child, 0});
      }
    }
  }
  // Child number `index` (kNoPickle for arguments or a state that are not there); false behind the last.
  bool child_of(PickleId id, size_t index, PickleId& child) const {
    const PickleValue& value = tree_[id];
    const size_t items = value.items.size();
    if (index >= items + 2) return false;
    child = index < items ? value.items[index] : index == items ? value.args : value.state;
    return true;
  }

  std::string_view bytes_;
  const PickleOptions& options_;
  uint64_t available_;
  size_t position_ = 0, opcode_at_ = 0;
  PickleTree tree_;
  std::vector<PickleId> stack_, memo_;
  std::vector<size_t> marks_;
  std::unordered_map<std::string_view, PickleId> globals_;
  uint64_t copied_ = 0, memo_count_ = 0;
};

}  // namespace slotscope::formats
