// The stack machine. Every number of the stream is checked against what is left of it before anything is
// allocated; no function here calls itself.
#include "core/formats/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr uint64_t kMaxLongBytes =
    1024;  // an integer of 8192 bits; hash states and the magic number need far less
constexpr size_t kMaxGlobalName = 256;
constexpr PickleId kNone = 0, kTrue = 1, kFalse = 2, kSmallInts = 3, kEmptyTuple = kSmallInts + 256;

struct NeedMore {};  // the stream goes on behind the given bytes

}  // namespace

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

  PickleTree run() {
    if (bytes_.empty()) refuse("no pickle: 0 bytes", "a pickle of protocol 2 to 5");
    if (bytes_[0] != '\x80')
      refuse("no pickle of protocol 2 to 5: the first byte is " + byte_text(bytes_[0]),
             "0x80, a protocol number, values",
             "Save the file again with torch.save; protocols 0 and 1 are not read.");
    while (!step()) {
    }
    if (!marks_.empty() || stack_.size() != 1)
      refuse("STOP with " + std::to_string(stack_.size()) + " values on the stack", "one value");
    tree_.root_ = stack_[0];
    tree_.end_ = position_;
    check_depth();
    return std::move(tree_);
  }

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

  // ---- opcodes

  // One opcode. True at STOP.
  bool step() {
    opcode_at_ = position_;
    const char op = take(1)[0];
    if (opcode_at_ > 0 && tree_.protocol_ == 0) refuse("no protocol number", "PROTO first");
    switch (op) {
      case '\x80': {
        const uint64_t protocol = number(1);
        if (protocol < 2 || protocol > 5)
          refuse("pickle protocol " + std::to_string(protocol), "2 to 5",
                 "Save the file again with torch.save.");
        tree_.protocol_ = int(protocol);
        return false;
      }
      case '\x95':
        number(8);
        return false;  // FRAME: a hint for readers that buffer
      case '.':
        return true;
      case '(':
        if (marks_.size() >= options_.max_values) refuse("too many marks", "a weights file");
        marks_.push_back(stack_.size());
        return false;
      case '0':
        if (!marks_.empty() && stack_.size() == marks_.back())
          marks_.pop_back();
        else
          pop();
        return false;
      case '1':
        pop_to_mark();
        return false;
      case '2':
        push(top());
        return false;
      case 'q':
        put(number(1));
        return false;
      case 'r':
        put(number(4));
        return false;
      case '\x94':
        put(memo_count_);
        return false;
      case 'h':
        get(number(1));
        return false;
      case 'j':
        get(number(4));
        return false;
      default:
        if (!scalar(op) && !container(op) && !structure(op))
          refuse("opcode " + byte_text(op) + ", which torch.save never writes",
                 "an opcode of protocol 2 to 5");
        return false;
    }
  }
  // The three below return false for an opcode of another group.
  bool scalar(char op) {
    switch (op) {
      case 'N':
        push(kNone);
        break;
      case '\x88':
        push(kTrue);
        break;
      case '\x89':
        push(kFalse);
        break;
      case 'J':
        push_integer(int32_t(uint32_t(number(4))));
        break;
      case 'K':
        push_integer(int64_t(number(1)));
        break;
      case 'M':
        push_integer(int64_t(number(2)));
        break;
      case 'I':
        push_decimal(line());
        break;
      case 'G':
        push_new({.kind = PickleKind::real, .real = std::bit_cast<double>(__builtin_bswap64(number(8)))});
        break;
      case '\x8a':
        push_long(number(1));
        break;
      case '\x8b': {
        const uint64_t count = number(4);
        if (count > INT32_MAX) refuse("an integer of a negative number of bytes", "0 or more");
        push_long(count);
        break;
      }
      case '\x8c':
        push_text(PickleKind::text, take(number(1)));
        break;
      case 'X':
        push_text(PickleKind::text, take(number(4)));
        break;
      case '\x8d':
        push_text(PickleKind::text, take(number(8)));
        break;
      case 'U':
        push_text(PickleKind::text, take(number(1)));
        break;
      case 'T':
        push_text(PickleKind::text, take(number(4)));
        break;
      case 'C':
        push_text(PickleKind::bytes, take(number(1)));
        break;
      case 'B':
        push_text(PickleKind::bytes, take(number(4)));
        break;
      case '\x8e':
        push_text(PickleKind::bytes, take(number(8)));
        break;
      case '\x96':
        push_text(PickleKind::bytes, take(number(8)));
        break;
      default:
        return false;
    }
    return true;
  }
  bool container(char op) {
    switch (op) {
      case ')':
        push(kEmptyTuple);
        break;
      case '\x85':
        tuple_of(1);
        break;
      case '\x86':
        tuple_of(2);
        break;
      case '\x87':
        tuple_of(3);
        break;
      case 't':
        tuple(pop_to_mark());
        break;
      case ']':
        push_new({.kind = PickleKind::list});
        break;
      case '}':
        push_new({.kind = PickleKind::dict});
        break;
      case '\x8f':
        push_new({.kind = PickleKind::set});
        break;
      case '\x91': {
        const auto items = pop_to_mark();
        push_new({.kind = PickleKind::set});
        insert(top(), items.data(), items.size());
        break;
      }
      case 'a': {
        const PickleId item = pop();
        append(&item, 1, PickleKind::list);
        break;
      }
      case 'e': {
        const auto items = pop_to_mark();
        append(items.data(), items.size(), PickleKind::list);
        break;
      }
      case '\x90': {
        const auto items = pop_to_mark();
        append(items.data(), items.size(), PickleKind::set);
        break;
      }
      case 's': {
        PickleId both[2];
        both[1] = pop(), both[0] = pop();
        set_items(both, 2);
        break;
      }
      case 'u': {
        const auto items = pop_to_mark();
        set_items(items.data(), items.size());
        break;
      }
      default:
        return false;
    }
    return true;
  }
  bool structure(char op) {
    switch (op) {
      case 'c': {
        const std::string_view module = line();
        global(module, line());
        break;
      }
      case '\x93':
        stack_global();
        break;
      case 'R':
      case '\x81': {
        const PickleId args = pop(), callee = pop();
        call(callee, args);
        break;
      }
      case '\x92': {
        const PickleId keywords = pop(), args = pop(), callee = pop();
        call(callee, args, keywords);
        break;
      }
      case 'b':
        build();
        break;
      case 'Q':
        persistent();
        break;
      default:
        return false;
    }
    return true;
  }

  // Python 2 writes integers over 32 bits as a line of text; I00 and I01 are booleans.
  void push_decimal(std::string_view text) {
    if (text == "00" || text == "01") return push(text == "01" ? kTrue : kFalse);
    int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size())
      refuse("'" + printable(text, 40) + "' as an integer", "a decimal number of at most 64 bits");
    push_integer(value);
  }

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

std::string_view PickleTree::global(PickleId id) const {
  return is(id, PickleKind::global) ? values_[id].text : std::string_view();
}

std::string_view PickleTree::callee(PickleId id) const {
  return is(id, PickleKind::object) ? global(values_[id].callee) : std::string_view();
}

PickleId PickleTree::get(PickleId dict, std::string_view key) const {
  if (!is(dict, PickleKind::dict)) return kNoPickle;
  const auto& items = values_[dict].items;
  for (size_t i = items.size(); i >= 2; i -= 2)
    if (is(items[i - 2], PickleKind::text) && values_[items[i - 2]].text == key) return items[i - 1];
  return kNoPickle;
}

PickleTree unpickle(std::string_view bytes, const PickleOptions& options) {
  PickleOptions all = options;
  all.available = bytes.size();
  return PickleMachine(bytes, all).run();
}

std::optional<PickleTree> try_unpickle(std::string_view bytes, const PickleOptions& options) {
  try {
    return PickleMachine(bytes, options).run();
  } catch (const NeedMore&) {
    return std::nullopt;
  }
}

}  // namespace slotscope::formats
