#include "core/formats/torch_tensors.h"

#include <algorithm>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/safetensors.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr size_t kMaxAxes = 64;

bool is_parameter(std::string_view callee) {
  return callee == "torch._utils._rebuild_parameter" ||
         callee == "torch._utils._rebuild_parameter_with_state";
}
bool is_dense(std::string_view callee) {
  return callee == "torch._utils._rebuild_tensor_v2" || callee == "torch._utils._rebuild_tensor_v3" ||
         callee == "torch._utils._rebuild_tensor";
}

struct Reader {
  TorchFile& file;
  const PickleTree& tree;
  TensorInfo info;
  TorchType type;
  uint64_t begin = 0;    // of the storage's part that the reference covers, bytes in the storage
  uint64_t covered = 0;  // bytes of that part

  [[noreturn]] void refuse(std::string found, std::string expected, std::string advice = "") const {
    throw Error({file.path(), "tensor '" + printable(info.name, 120) + "'", std::move(found),
                 std::move(expected),
                 advice.empty() ? "The file is damaged: download it again, or save the model again."
                                : std::move(advice)});
  }
  const std::vector<PickleId>& arguments(PickleId call) const { return tree[tree[call].args].items; }
  int64_t whole(PickleId id, const char* what) const {
    if (!tree.is(id, PickleKind::integer)) refuse(std::string("its ") + what + " is no whole number", "one");
    if (tree[id].integer < 0)
      refuse("its " + std::string(what) + " is " + std::to_string(tree[id].integer), "0 or more");
    return tree[id].integer;
  }
  std::vector<int64_t> numbers(PickleId id, const char* what) const {
    if (!tree.is(id, PickleKind::tuple) && !tree.is(id, PickleKind::list))
      refuse("its " + std::string(what) + " is no tuple", "a tuple of whole numbers");
    const auto& items = tree[id].items;
    if (items.size() > kMaxAxes) refuse(std::to_string(items.size()) + " axes", "at most 64");
    std::vector<int64_t> values;
    for (const PickleId item : items) values.push_back(whole(item, what));
    return values;
  }

  // ('storage', type, key, location, count) and in legacy files a sixth field: (view key, offset, count) or
  // None.
  void storage(PickleId id) {
    if (!tree.is(id, PickleKind::persistent)) refuse("its storage is no storage", "a reference to one");
    const auto& fields = tree[tree[id].args].items;
    if (fields.size() < 5 || fields.size() > 6 || !tree.is(fields[0], PickleKind::text) ||
        tree[fields[0]].text != "storage" || !tree.is(fields[2], PickleKind::text))
      refuse("its storage reference has another form", "('storage', type, key, location, count)");
    type = torch_type(tree.global(fields[1]));
    if (!type.size)
      refuse("storage type " + printable(tree.global(fields[1]), 60), "a storage with an element type");
    const auto count = uint64_t(whole(fields[4], "storage's count"));
    const int number = file.find_storage(tree[fields[2]].text, type, count);
    const TorchStorage& found = file.storages()[size_t(number)];
    info.storage = number;
    begin = 0, covered = found.bytes;
    if (fields.size() == 6 && !tree.is(fields[5], PickleKind::none)) view(fields[5], count);
  }
  void view(PickleId id, uint64_t count) {
    if (!tree.is(id, PickleKind::tuple) || tree[id].items.size() != 3)
      refuse("its storage view has another form", "(key, offset, count)");
    const auto offset = uint64_t(whole(tree[id].items[1], "storage view's offset"));
    const auto elements = uint64_t(whole(tree[id].items[2], "storage view's count"));
    if (offset > count || elements > count - offset)
      refuse(
          "a storage view of elements " + std::to_string(offset) + " to " + std::to_string(offset + elements),
          "a range inside the " + thousands(count) + " of its storage");
    begin = offset * type.size, covered = elements * type.size;  // count * size fits: find_storage checked it
  }

  // Offset and strides count elements of `type`. Every element must lie in the covered part.
  void layout(PickleId offset_id, PickleId shape_id, PickleId stride_id) {
    const auto offset = uint64_t(whole(offset_id, "offset"));
    info.shape = numbers(shape_id, "shape");
    std::vector<int64_t> strides = numbers(stride_id, "stride");
    if (strides.size() != info.shape.size())
      refuse(std::to_string(strides.size()) + " strides for shape " + shape_text(info.shape),
             "one for each axis");
    if (!tensor_bytes(info.shape, int(type.size) * 8, info.bytes))
      refuse("shape " + shape_text(info.shape) + " of " + std::string(type.text) + " is too large",
             "a size below 2^63");
    info.dtype = type.dtype;
    info.dtype_text = type.text;
    info.offset = file.storages()[size_t(info.storage)].offset + begin;
    if (info.bytes == 0) return;
    uint64_t last = offset;
    bool fits = true;
    for (size_t i = 0; i < strides.size(); ++i) {
      uint64_t step = 0;
      fits &= !__builtin_mul_overflow(uint64_t(info.shape[i] - 1), uint64_t(strides[i]), &step) &&
              !__builtin_add_overflow(last, step, &last);
    }
    const uint64_t elements = covered / type.size;
    if (!fits || last >= elements)
      refuse("shape " + shape_text(info.shape) + ", strides " + shape_text(strides) + " and offset " +
                 std::to_string(offset) + " reach element " + (fits ? thousands(last) : "beyond 2^64"),
             "elements below " + thousands(elements) + ", the size of its storage");
    info.offset += offset * type.size;
    if (!contiguous(strides)) info.strides = std::move(strides);
  }
  bool contiguous(const std::vector<int64_t>& strides) const {
    int64_t expected = 1;
    for (size_t i = strides.size(); i-- > 0; expected *= info.shape[i])
      if (info.shape[i] != 1 && strides[i] != expected) return false;
    return true;
  }

  void dense(std::string_view callee, const std::vector<PickleId>& args) {
    const bool v3 = callee.ends_with("_v3");
    if (args.size() < (v3 ? 7u : callee.ends_with("_v2") ? 6u : 4u) || args.size() > 8)
      refuse(std::string(callee) + " with " + std::to_string(args.size()) + " arguments",
             "those of torch.save");
    storage(args[0]);
    if (v3) {
      const TorchType stored = torch_type(tree.global(args[6]));
      if (!stored.size || !tree.global(args[6]).starts_with("torch."))
        refuse("its dtype is " + printable(tree.global(args[6]), 60), "a torch dtype");
      type = stored;
    }
    layout(args[1], args[2], args[3]);
    // Lazy conjugation or negation: a flag, the stored values are not those of the tensor.
    const size_t at = v3 ? 7 : 6;
    if (at >= args.size() || callee == "torch._utils._rebuild_tensor") return;
    if (tree.is(args[at], PickleKind::dict) && tree[args[at]].items.size() > 64)
      refuse("metadata of " + thousands(tree[args[at]].items.size() / 2) + " entries", "those of torch.save");
    for (const char* bit : {"conj", "neg"}) {
      const PickleId flag = tree.get(args[at], bit);
      if (tree.is(flag, PickleKind::boolean) && tree[flag].integer)
        special(info.dtype_text + " (" + bit + " bit)");
    }
  }
  void special(std::string text) {
    info.dtype = DType::unknown;
    info.dtype_text = std::move(text);
  }

  void quantised(const std::vector<PickleId>& args) {
    if (args.size() < 5)
      refuse("_rebuild_qtensor with " + std::to_string(args.size()) + " arguments", "at least 5");
    storage(args[0]);
    layout(args[1], args[2], args[3]);
    special("quantised " + info.dtype_text);
  }
  // What is listed without values. The shape where it stands in the arguments, else none.
  void listed(const char* text, const std::vector<PickleId>& args, size_t shape_at) {
    special(text);
    if (shape_at < args.size() && (tree.is(args[shape_at], PickleKind::tuple)))
      info.shape = numbers(args[shape_at], "shape");
    uint64_t bytes = 0;
    if (!tensor_bytes(info.shape, 8, bytes))
      refuse("shape " + shape_text(info.shape) + " is too large", "a size below 2^63");
  }
  void sparse(const std::vector<PickleId>& args) {
    if (args.size() != 2 || !tree.is(args[1], PickleKind::tuple) || tree[args[1]].items.size() > 8)
      return listed("sparse", args, SIZE_MAX);
    const auto& data =
        tree[args[1]].items;  // COO: indices, values, size; compressed: two indices, values, size
    size_t at = 0;
    while (at < data.size() && !tree.is(data[at], PickleKind::tuple)) ++at;
    listed("sparse", data, at);
  }

  void call(PickleId id) {
    // Parameters and typed rebuilds wrap the tensor: a few levels at most.
    for (int level = 0; level < 8; ++level) {
      const std::string_view callee = tree.callee(id);
      const auto& args = arguments(id);
      if (is_dense(callee)) return dense(callee, args);
      if (is_parameter(callee)) {
        if (args.empty() || !is_torch_tensor(tree, args[0])) refuse("a Parameter without a tensor", "one");
        id = args[0];
        continue;
      }
      if (callee == "torch._tensor._rebuild_from_type_v2") {
        // (function, class, its arguments, attributes): classes other than the plain ones are on no
        // allow-list.
        if (args.size() < 3 || !is_dense(tree.global(args[0])) || !tree.is(args[2], PickleKind::tuple))
          return listed("tensor subclass", args, SIZE_MAX);
        return dense(tree.global(args[0]), tree[args[2]].items);
      }
      if (callee == "torch._utils._rebuild_qtensor") return quantised(args);
      if (callee.starts_with("torch._utils._rebuild_sparse")) return sparse(args);
      if (callee == "torch._utils._rebuild_meta_tensor_no_storage") return listed("meta tensor", args, 1);
      if (callee == "torch._utils._rebuild_wrapper_subclass") return listed("tensor subclass", args, 2);
      if (callee == "torch._utils._rebuild_nested_tensor") return listed("nested tensor", args, SIZE_MAX);
      return listed("device tensor", args, SIZE_MAX);
    }
    refuse("Parameters inside Parameters", "a tensor");
  }
};

}  // namespace

bool is_torch_tensor(const PickleTree& tree, PickleId id) {
  const std::string_view callee = tree.callee(id);
  return (callee.starts_with("torch._utils._rebuild_") || callee == "torch._tensor._rebuild_from_type_v2") &&
         tree.is(tree[id].args, PickleKind::tuple);
}

TensorInfo read_torch_tensor(TorchFile& file, PickleId id, std::string name) {
  Reader reader{file, file.tree(), {}, {}};
  reader.info.name = std::move(name);
  reader.call(id);
  return std::move(reader.info);
}

}  // namespace slotscope::formats
