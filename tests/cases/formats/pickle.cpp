// The unpickler: values, the allow-lists, bounds (bad-inputs B17, B22).
#include "core/formats/pickle.h"

#include <chrono>

#include "core/error.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/torch_writer.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
namespace p = slotscope::testing::pkl;

namespace {

// One value in every way that picklers write it. The tree's texts point into `bytes`.
struct Read {
  std::string bytes;
  PickleTree tree;
  explicit Read(const std::string& value, int protocol = 2)
      : bytes(pickle(value, protocol)), tree(unpickle(bytes)) {}
  const PickleValue& root() const { return tree[tree.root()]; }
  const PickleValue& item(size_t i) const { return tree[root().items.at(i)]; }
};

std::string repeat(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

SLOTSCOPE_CASE(scalars) {
  CHECK(Read("N").root().kind == PickleKind::none);
  CHECK_EQ(Read("\x88").root().integer, int64_t(1));
  CHECK(Read("\x89").root().kind == PickleKind::boolean);
  const std::pair<std::string, int64_t> integers[] = {
      {"K\xff", 255}, {"M\xff\xff", 65535}, {"J\xff\xff\xff\xff", -1}, {"I01\n", 1}, {"I-12345678901\n", -12345678901},
      {std::string("\x8a\x00", 2), 0}, {"\x8a\x01\x80", -128}, {std::string("\x8a\x02\x80\x00", 4), 128},
      {"\x8a\x08" + le(uint64_t(INT64_MIN), 8), INT64_MIN}, {"\x8b" + le(3, 4) + "\xff\xff\x7f", 0x7fffff}};
  for (const auto& [text, value] : integers) {
    const Read read(text);
    CHECK(read.root().kind == PickleKind::integer || read.root().kind == PickleKind::boolean);
    CHECK_EQ(read.root().integer, value);
  }
  const Read big("\x8a\x09" + le(0, 8) + "\x01");
  CHECK(big.root().kind == PickleKind::big_integer);
  CHECK_EQ(big.root().text.size(), size_t(9));
  CHECK_EQ(Read(p::real(-2.5)).root().real, -2.5);
  CHECK_EQ(Read(p::text("é\n")).root().text, std::string_view("é\n"));
  CHECK_EQ(Read("\x8c\x02hi", 4).root().text, std::string_view("hi"));
  CHECK_EQ(Read("\x8d" + le(2, 8) + "hi", 4).root().text, std::string_view("hi"));
  CHECK(Read("U\x02hi").root().kind == PickleKind::text);
  CHECK(Read(std::string("C\x02hi"), 3).root().kind == PickleKind::bytes);
  CHECK_EQ(Read("B" + le(2, 4) + "hi", 3).root().text, std::string_view("hi"));
  CHECK_EQ(Read("\x96" + le(2, 8) + "hi", 5).root().text, std::string_view("hi"));
}

SLOTSCOPE_CASE(containers) {
  const Read tuple(p::tuple({p::integer(1), p::none(), p::text("x")}));
  CHECK(tuple.root().kind == PickleKind::tuple);
  CHECK_EQ(tuple.root().items.size(), size_t(3));
  CHECK_EQ(tuple.item(2).text, std::string_view("x"));
  CHECK_EQ(Read("K\x01K\x02K\x03\x87").item(1).integer, int64_t(2));
  CHECK_EQ(Read("]K\x01" "aK\x02" "a").item(1).integer, int64_t(2));
  CHECK_EQ(Read("\x8f(K\x05\x90", 4).item(0).integer, int64_t(5));
  CHECK_EQ(Read("(K\x06\x91", 4).item(0).integer, int64_t(6));
  const Read dict(p::dict({{"a", p::integer(1)}, {"b", p::integer(2)}, {"a", p::integer(3)}}));
  CHECK_EQ(dict.tree[dict.tree.get(dict.tree.root(), "a")].integer, int64_t(3));  // the last counts, as in Python
  CHECK(dict.tree.get(dict.tree.root(), "c") == kNoPickle);
  // OrderedDict in the forms of Python 3 and of Python 2, with the attribute that state_dict() sets.
  const Read ordered(p::ordered({{"w", p::integer(7)}}) + p::dict({{"_metadata", p::none()}}) + "b");
  CHECK(ordered.root().kind == PickleKind::dict);
  CHECK_EQ(ordered.tree[ordered.tree.get(ordered.tree.root(), "w")].integer, int64_t(7));
  CHECK(ordered.root().state != kNoPickle);
  const Read old(p::call(p::global("collections", "OrderedDict"),
                         {p::list({p::list({p::text("w"), p::integer(7)}), p::list({p::text("v"), p::integer(8)})})}));
  CHECK_EQ(old.tree[old.tree.get(old.tree.root(), "v")].integer, int64_t(8));
  // The memo: the same value twice, FRAME, MEMOIZE, STACK_GLOBAL of protocol 4.
  const Read memo("\x95" + le(9, 8) + "]\x94K\x01" "ah" + le(0, 1) + "\x86", 4);
  CHECK_EQ(memo.root().items.at(0), memo.root().items.at(1));
  const Read stack_global("\x8c\x0b" "collections\x8c\x0bOrderedDict\x93)R", 4);
  CHECK(stack_global.root().kind == PickleKind::dict);
}

SLOTSCOPE_CASE(tensors_and_inert_objects) {
  const Read read(p::floats("0", {2, 3}));
  CHECK(read.root().kind == PickleKind::object);
  CHECK_EQ(read.tree.callee(read.tree.root()), std::string_view("torch._utils._rebuild_tensor_v2"));
  const PickleValue& args = read.tree[read.root().args];
  CHECK(read.tree[args.items[0]].kind == PickleKind::persistent);
  const PickleValue& storage = read.tree[read.tree[args.items[0]].args];
  CHECK_EQ(read.tree.global(storage.items[1]), std::string_view("torch.FloatStorage"));
  CHECK_EQ(storage.items.size(), size_t(5));
  // What training scripts put beside the weights becomes a node; nothing is made of it.
  const Read args_object(p::global("argparse", "Namespace") + ")\x81" + p::dict({{"lr", p::real(0.1)}}) + "b");
  CHECK_EQ(args_object.tree.callee(args_object.tree.root()), std::string_view("argparse.Namespace"));
  CHECK_EQ(args_object.tree[args_object.tree.get(args_object.root().state, "lr")].real, 0.1);
  const Read bytes(p::call(p::global("_codecs", "encode"), {p::text("\xc3\xbf"), p::text("latin1")}));
  CHECK_EQ(bytes.tree.callee(bytes.tree.root()), std::string_view("_codecs.encode"));
  const Read set(p::call(p::global("__builtin__", "set"), {p::list({p::integer(1)})}));
  CHECK_EQ(set.tree.callee(set.tree.root()), std::string_view("builtins.set"));
  CHECK_EQ(Read(p::call(p::global("torch", "Size"), {p::integers({2, 3})})).item(1).integer, int64_t(3));
}

// B22: every other name is refused before anything else happens, by the name that Python 3 gives it.
SLOTSCOPE_CASE(refused_globals) {
  const std::pair<const char*, const char*> hostile[] = {
      {"posix", "system"}, {"nt", "system"}, {"os", "popen"}, {"subprocess", "Popen"}, {"builtins", "eval"},
      {"__builtin__", "eval"}, {"builtins", "exec"}, {"builtins", "getattr"}, {"__builtin__", "apply"},
      {"builtins", "__import__"}, {"builtins", "open"}, {"functools", "partial"}, {"operator", "attrgetter"},
      {"torch.storage", "_load_from_bytes"}, {"torch", "load"}, {"torch.hub", "load"}, {"pip", "main"},
      {"torch.serialization", "load"}, {"numpy", "load"}, {"numpy.dtypes", "x.yDType"}, {"runpy", "_run_code"},
      {"__main__", "Net"}, {"collections", "OrderedDict.__init__"}, {"argparse", "FileType"}, {"", ""},
      {"torch", "FloatStorage.from_file"}, {"torch.cuda", "float32"}, {"pathlib", "Path.unlink"}};
  for (const auto& [module, name] : hostile) {
    const std::string shown =
        std::string(std::string_view(module) == "__builtin__" ? "builtins" : module) + "." + name;
    CHECK_ERROR(Read(p::call(p::global(module, name), {p::text("touch PWNED")})),
                shown + " is not allowed in a weights file");
    CHECK_ERROR(Read(p::text(module) + p::text(name) + "\x93)R", 4), shown + " is not allowed in a weights file");
    CHECK_ERROR(Read(p::global(module, name)), shown + " is not allowed");  // the name alone, never called
  }
  CHECK_ERROR(Read(p::global("posix", "system")), "do not trust it", "byte 2");
  CHECK_ERROR(Read(p::global("__main__", "Net")), "state_dict");
  // An allowed name is no way to another: calls of results, of texts, of attributes.
  CHECK_ERROR(Read(p::text("posix.system") + ")R"), "a call of something that is no name");
  CHECK_ERROR(Read(p::call(p::call(p::global("argparse", "Namespace"), {}), {})), "no name");
  CHECK_ERROR(Read(p::global("argparse", "Namespace") + "NR"), "arguments are no tuple");
  CHECK_ERROR(Read(p::integer(5) + "}b"), "a state for something that has none");
  CHECK_ERROR(Read(p::integer(5) + p::integer(6) + "\x93"), "name is no text");
  for (const char op : {'i', 'o', 'P', '\x82', '\x97', 'V', 'S', 'p', 'g', '\xff', '\0'})
    CHECK_ERROR(Read(std::string("N") + op), "opcode 0x", "torch.save never writes");
}

SLOTSCOPE_CASE(bounds) {
  CHECK_ERROR(unpickle(""), "0 bytes");
  CHECK_ERROR(unpickle("I1\n."), "protocol");
  CHECK_ERROR(Read("N", 1), "pickle protocol 1");
  CHECK_ERROR(Read("N", 6), "pickle protocol 6");
  CHECK_ERROR(Read("\x8b" + le(1'000'000'000, 4) + "abc"), "1,000,000,000 bytes are needed, 4 are left");
  CHECK_ERROR(Read("\x8b" + le(0x80000000, 4)), "negative");
  CHECK_ERROR(Read("\x8b" + le(2000, 4) + std::string(2000, 'x')), "an integer of 2,000 bytes");
  CHECK_ERROR(Read("\x8d" + le(UINT64_MAX, 8)), "are left");
  CHECK_ERROR(Read("X" + le(5, 4) + "ab"), "5 bytes are needed");
  for (const char* bad : {"", "NN", "(", "(N", "a", "]a", "0", "1", "(0N0", "2", "e", "(e", "(Ne", "u", "}(Nu", "s", "t",
                          "\x85", "R", "NR", ")R", "\x81", "\x92", "b", "Nb", "Q", "NQ", "q\x01", "h\x01", "}N\x61",
                          "]NNs", "K", "\x8f(N", "N(NNu", "]NN\x86s", "cposix", "cposix\nsystem", "I\n", "I1x\n"})
    CHECK_ERROR(Read{bad}, "byte ");
  CHECK_ERROR(Read("Nr" + le(4'000'000'000, 4)), "memo number");
  CHECK_ERROR(Read("Nr" + le(100, 4) + repeat("2", 200) + repeat("0", 200)), "memo number 100");
  CHECK_ERROR(Read("c" + std::string(300, 'x') + "\ny\n"), "more than 256 bytes");
  CHECK_ERROR(unpickle(std::string("\x80\x02") + repeat("]", 1000) + repeat("N", 1000),
                       {.max_values = 500}), "more than 500 values");
}

// B22: nesting 100,000 deep in every way there is, refused without recursion.
SLOTSCOPE_CASE(deep_nesting) {
  constexpr size_t n = 100'000;
  const std::string forms[] = {
      repeat("]", n) + repeat("a", n - 1), repeat("(", n) + repeat("t", n), ")" + repeat("\x85", n),
      repeat("]q\x01", n) + repeat("a", n - 1), repeat("}N", n) + "N" + repeat("s", n),
      // From the outside in: each list is put into its parent while still empty.
      "]2" + repeat("]q\x01" "ah\x01", n) + repeat("0", n + 1),
      p::global("argparse", "Namespace") + "q\x05" + ")" + repeat("\x85h\x05" "0", 1) +
          repeat("q\x02" "0h\x05h\x02R\x85", n)};
  for (const std::string& form : forms) CHECK_ERROR(Read{form}, "nested deeper than 1000 levels");
  Read(repeat("]", 900) + repeat("a", 899));  // fine, and destroyed without recursion
}

// A billion laughs: shared values cost what is written, not what they would unfold to.
SLOTSCOPE_CASE(shared_values) {
  std::string lists = "]q\x01";
  for (int level = 0; level < 300; ++level) {
    lists += "](";
    for (int i = 0; i < 10; ++i) lists += "h\x01";
    lists += "eq\x01";
  }
  std::string value = "(" + lists + "t";  // only the last one counts, the others stay below it on the stack
  const Read read(value);
  CHECK(read.tree.size() < 1000);
  // A dict made of one long list again and again copies the pairs: bounded.
  std::string pairs = "](";
  for (int i = 0; i < 1000; ++i) pairs += "K\x01K\x02\x86";
  const std::string many = p::global("collections", "OrderedDict") + "q\x01" "0" + pairs + "e\x85q\x02" "0" +
                           repeat("h\x01h\x02R0", 50'000) + "N";
  CHECK_ERROR(Read{many}, "more than 10,000,000 values");
  // A list that holds itself ends as well.
  CHECK_EQ(Read("]q\x01h\x01" "a").root().items.size(), size_t(1));
}

// Every byte changed, every length: a tree or an Error, never anything else.
SLOTSCOPE_CASE(mutations) {
  const std::string good =
      pickle(p::ordered({{"w", p::floats("0", {2, 3})}, {"n", p::list({p::integer(300), p::real(1)})},
                         {"a", p::global("argparse", "Namespace") + ")\x81" + p::dict({{"x", p::none()}}) + "b"}}));
  int accepted = 0, refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const PickleTree tree = unpickle(bytes);
      CHECK(tree.root() < tree.size() && tree.end() <= bytes.size());
      ++accepted;
    } catch (const slotscope::Error& error) {
      CHECK(std::string_view(error.what()).size() > 10);
      ++refused;
    }
  };
  for (size_t at = 0; at < good.size(); ++at) {
    attempt(good.substr(0, at));
    std::string bytes = good;
    for (int value = 0; value < 256; ++value) {
      bytes[at] = char(value);
      attempt(bytes);
    }
  }
  CHECK(accepted > 1000 && refused > 1000);
  t.note(std::to_string(accepted) + " accepted, " + std::to_string(refused) + " refused");
}

// The beginning of a longer stream asks for more instead of failing.
SLOTSCOPE_CASE(pieces) {
  const std::string good = pickle(p::ordered({{"w", p::floats("0", {2, 3})}})) + "what follows";
  const size_t end = good.size() - 12;
  PickleOptions options;
  options.available = good.size();
  for (size_t at = 0; at < end; ++at)
    if (at > 0) CHECK(!try_unpickle(std::string_view(good).substr(0, at), options));
  CHECK_EQ(try_unpickle(good, options)->end(), end);
}
