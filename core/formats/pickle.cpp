// Opcodes of protocols 2 to 5, and the entry points.
#include "core/formats/pickle.h"

#include <charconv>

#include "core/formats/pickle_machine.h"

namespace slotscope::formats {

PickleTree PickleMachine::run() {
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

// One opcode. True at STOP.
bool PickleMachine::step() {
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
        refuse("opcode " + byte_text(op) + ", which torch.save never writes", "an opcode of protocol 2 to 5");
      return false;
  }
}
// The three below return false for an opcode of another group.
bool PickleMachine::scalar(char op) {
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
bool PickleMachine::container(char op) {
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
bool PickleMachine::structure(char op) {
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
void PickleMachine::push_decimal(std::string_view text) {
  if (text == "00" || text == "01") return push(text == "01" ? kTrue : kFalse);
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size())
    refuse("'" + printable(text, 40) + "' as an integer", "a decimal number of at most 64 bits");
  push_integer(value);
}

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
