// torch.save files in zip form (bad-inputs B01, B17, B20, B22): values, views, sharing, packed and damaged archives.
#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/sharded.h"
#include "core/formats/tensor_statistics.h"
#include "core/formats/values.h"
#include "core/formats/zip_archive.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/torch_writer.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
namespace p = slotscope::testing::pkl;

namespace {

using Values = std::vector<double>;

struct File {
  std::filesystem::path path;
  File(Context& t, const std::string& bytes, const std::string& name = "pytorch_model.bin") : path(t.temp() / name) {
    write_file(path, bytes);
  }
  std::shared_ptr<const Checkpoint> open(const OpenOptions& options = {}) const {
    return Checkpoint::open(path, options);
  }
};

Values all_values(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (!tensor) throw std::runtime_error("no tensor " + std::string(name));
  return read_values(checkpoint, *tensor, 0, element_count(*tensor));
}
bool any_has(const std::vector<std::string>& texts, std::string_view part) {
  for (const auto& text : texts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}
const std::string kTwo = raw<float>({1, 2});
std::string one_tensor() { return p::ordered({{"w", p::floats("0", {2})}}); }

// rchar of this process: every byte that a read call has returned.
uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string key;
  uint64_t value = 0;
  while (io >> key >> value)
    if (key == "rchar:") return value;
  return 0;
}

}  // namespace

// B17: OrderedDict and plain dict, with the attribute that state_dict() adds, in protocols 2 to 5.
SLOTSCOPE_CASE(state_dict) {
  for (const std::string& value : {one_tensor(), p::dict({{"w", p::floats("0", {2})}}),
                                  one_tensor() + p::dict({{"_metadata", p::ordered({})}}) + "b"}) {
    const File file(t, torch_zip(value, {{"0", kTwo}}));
    const auto checkpoint = file.open();
    CHECK_EQ(checkpoint->tensors().size(), size_t(1));
    CHECK_EQ(all_values(*checkpoint, "w"), (Values{1, 2}));
    CHECK(checkpoint->format() == FileFormat::torch_zip);
    CHECK_EQ(checkpoint->total_bytes(), uint64_t(8));
    CHECK(checkpoint->notes().empty() && checkpoint->warnings().empty() && checkpoint->ignored().empty());
    CHECK_EQ(checkpoint->find("w")->dtype_text, std::string("F32"));
  }
  for (int protocol = 2; protocol <= 5; ++protocol) {
    auto entries = torch_entries("", {{"0", kTwo}});
    entries[0].data = pickle(one_tensor(), protocol);
    CHECK_EQ(all_values(*File(t, zip(entries)).open(), "w"), (Values{1, 2}));
  }
  // Any name of the root folder, none, and the entries of newer versions; zip64 sizes; aligned storages.
  for (const std::string root : {"pytorch_model", "x y-é", "a.b", "archive/0"})
    CHECK_EQ(all_values(*File(t, torch_zip(one_tensor(), {{"0", kTwo}}, root)).open(), "w"), (Values{1, 2}));
  auto entries = torch_entries(one_tensor(), {{"0", kTwo}});
  for (auto& entry : entries) entry.zip64 = true, entry.padding = 64;
  entries.push_back({"archive/.format_version", "1"});
  entries.push_back({"archive/.storage_alignment", "64"});
  entries.push_back({"archive/.data/serialization_id", "123"});
  CHECK_EQ(all_values(*File(t, zip(entries)).open(), "w"), (Values{1, 2}));
  for (auto& entry : entries) entry.name.erase(0, 8);
  CHECK_EQ(all_values(*File(t, zip(entries)).open(), "w"), (Values{1, 2}));
}

// B20: shared storages, half types, Parameters. Stored members stay views into the file.
SLOTSCOPE_CASE(shared_and_tied) {
  const auto tensor = [](const std::string& type, const std::string& key, int64_t n) {
    return p::tensor(p::storage(type, key, n), 0, {n}, {1});
  };
  const std::string parameter =
      p::call(p::global("torch._utils", "_rebuild_parameter"), {p::floats("0", {2}), p::boolean(true), p::ordered({})});
  const std::string with_state = p::call(p::global("torch._utils", "_rebuild_parameter_with_state"),
                                         {p::floats("0", {2}), p::boolean(true), p::ordered({}), p::dict({})});
  const std::string typed = p::call(
      p::global("torch._tensor", "_rebuild_from_type_v2"),
      {p::global("torch._utils", "_rebuild_tensor_v2"), p::global("torch.nn.parameter", "Parameter"),
       p::tuple({p::storage("FloatStorage", "0", 2), p::integer(0), p::integers({2}), p::integers({1}),
                 p::boolean(true), p::ordered({})}),
       p::dict({})});
  const std::string old = p::call(p::global("torch._utils", "_rebuild_tensor"),
                                  {p::storage("FloatStorage", "0", 2), p::integer(0), p::integers({2}), p::integers({1})});
  const File file(t, torch_zip(p::ordered({{"z.first", parameter}, {"a.tied", p::floats("0", {2})}, {"s", with_state},
                                           {"t", typed}, {"u", old}, {"half", tensor("HalfStorage", "1", 2)},
                                           {"bf16", tensor("BFloat16Storage", "2", 2)}}),
                               {{"0", kTwo}, {"1", raw<uint16_t>({0x3c00, 0xc000})}, {"2", std::string("\x80\x3f\x00\x40", 4)}}));
  const auto checkpoint = file.open();
  for (const char* name : {"z.first", "a.tied", "s", "t", "u"})
    CHECK_EQ(all_values(*checkpoint, name), (Values{1, 2}));
  CHECK_EQ(checkpoint->find("a.tied")->shares_with, std::string());
  CHECK_EQ(checkpoint->find("z.first")->shares_with, std::string("a.tied"));
  CHECK_EQ(checkpoint->find("z.first")->storage, checkpoint->find("a.tied")->storage);
  CHECK(checkpoint->find("half")->storage != checkpoint->find("bf16")->storage);
  CHECK_EQ(all_values(*checkpoint, "half"), (Values{1, -2}));
  CHECK_EQ(all_values(*checkpoint, "bf16"), (Values{1, 2}));
  CHECK_EQ(checkpoint->total_bytes(), uint64_t(8 + 4 + 4));
  const TensorData one = checkpoint->data(*checkpoint->find("a.tied")), two = checkpoint->data(*checkpoint->find("u"));
  CHECK(one.bytes.data() == two.bytes.data() && one.owner == nullptr);
}

// Views: offset, transposed, sliced, expanded; every slice equals the part of the whole that a twin makes by indexing.
SLOTSCOPE_CASE(views) {
  std::string numbers;
  for (int i = 0; i < 24; ++i) numbers += raw<float>({float(i)});
  struct View {
    int64_t offset;
    std::vector<int64_t> shape, strides;
  };
  const View views[] = {{0, {24}, {1}}, {1, {3}, {1}}, {0, {4, 6}, {6, 1}}, {0, {6, 4}, {1, 6}}, {2, {2, 3}, {12, 2}},
                        {0, {2, 3, 4}, {12, 4, 1}}, {0, {4, 3, 2}, {1, 4, 12}}, {5, {}, {}}, {7, {2, 3}, {0, 0}},
                        {0, {3, 4}, {0, 1}}, {0, {5, 4}, {1, 1}}, {23, {1, 1}, {100, 7}}, {3, {2, 1, 3}, {9, 77, 1}},
                        {0, {0, 5}, {5, 1}}, {0, {2, 0}, {1, 1}}};
  p::Pairs pairs;
  for (size_t i = 0; i < std::size(views); ++i)
    pairs.push_back({"v" + std::to_string(i), p::tensor(p::storage("FloatStorage", "0", 24), views[i].offset,
                                                        views[i].shape, views[i].strides)});
  for (const bool deflate : {false, true}) {
    auto entries = torch_entries(p::dict(pairs), {{"0", numbers}});
    for (auto& entry : entries) entry.deflate = deflate;
    const auto checkpoint = File(t, zip(entries)).open();
    for (size_t i = 0; i < std::size(views); ++i) {
      const TensorInfo& tensor = *checkpoint->find("v" + std::to_string(i));
      CHECK_EQ(tensor.shape, views[i].shape);
      Values expected;
      std::vector<int64_t> index(views[i].shape.size());
      for (uint64_t n = element_count(tensor); n > 0; --n) {
        int64_t at = views[i].offset;
        for (size_t a = 0; a < index.size(); ++a) at += index[a] * views[i].strides[a];
        expected.push_back(double(at));
        for (size_t a = index.size(); a-- > 0;) {
          if (++index[a] < views[i].shape[a]) break;
          index[a] = 0;
        }
      }
      CHECK_EQ(all_values(*checkpoint, tensor.name), expected);
      CHECK_EQ(tensor.bytes, expected.size() * 4);
      for (uint64_t first = 0; first < expected.size(); ++first)
        for (uint64_t count = 0; count <= expected.size() - first; ++count)
          CHECK_EQ(read_values(*checkpoint, tensor, first, count),
                   Values(expected.begin() + long(first), expected.begin() + long(first + count)));
    }
    CHECK(checkpoint->find("v2")->strides.empty() && !checkpoint->find("v3")->strides.empty());
    CHECK(checkpoint->find("v11")->strides.empty());  // one element: contiguous whatever its strides
    CHECK_EQ(checkpoint->total_bytes(), uint64_t(96));
  }
}

// Views that do not fit their storage, in each way; nothing wraps.
SLOTSCOPE_CASE(bad_views) {
  const auto open = [&](int64_t offset, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                        int64_t numel = 2) {
    File(t, torch_zip(p::dict({{"w", p::tensor(p::storage("FloatStorage", "0", numel), offset, shape, strides)}}),
                      {{"0", kTwo}})).open();
  };
  open(0, {2}, {1});
  CHECK_ERROR(open(1, {2}, {1}), "tensor 'w'", "reach element 2", "elements below 2");
  CHECK_ERROR(open(0, {2}, {2}), "reach element 2");
  CHECK_ERROR(open(3, {}, {}), "reach element 3");
  CHECK_ERROR(open(0, {3}, {1}), "[3]");
  CHECK_ERROR(open(0, {2}, {-1}), "stride is -1");
  CHECK_ERROR(open(-1, {1}, {1}), "offset is -1");
  CHECK_ERROR(open(0, {-2}, {1}), "shape is -2");
  CHECK_ERROR(open(0, {2}, {1, 1}), "2 strides for shape [2]");
  CHECK_ERROR(open(0, {2, 2}, {INT64_MAX, INT64_MAX}), "reach element");
  CHECK_ERROR(open(0, {INT64_MAX, INT64_MAX}, {0, 0}), "too large");
  CHECK_ERROR(open(0, {INT64_MAX}, {0}), "too large");
  CHECK_ERROR(open(INT64_MAX, {2}, {INT64_MAX}), "reach element");
  CHECK_ERROR(open(0, {2}, {1}, 3), "storage '0'", "8 bytes in the file, 3 elements");
  CHECK_ERROR(open(0, {1}, {1}, 1), "8 bytes in the file, 1 elements");
  CHECK_ERROR(open(0, {2}, {1}, INT64_MAX), "elements of 4 bytes");
  CHECK_ERROR(open(0, {2}, {1}, -2), "count is -2");
  open(100, {0}, {1});  // no element: nothing is read
  // An expanded tensor lists, and parts of it are read; all of it at once would be 4 TB.
  const File file(t, torch_zip(p::dict({{"w", p::tensor(p::storage("FloatStorage", "0", 2), 1, {1 << 20, 1 << 20}, {0, 0})}}),
                               {{"0", kTwo}}));
  const auto checkpoint = file.open();
  const TensorInfo& tensor = *checkpoint->find("w");
  CHECK_EQ(checkpoint->total_bytes(), uint64_t(8));
  CHECK_EQ(read_values(*checkpoint, tensor, (uint64_t(1) << 40) - 2, 2), (Values{2, 2}));
  CHECK_ERROR(checkpoint->data(tensor), "tensor 'w'", "repeats the 8 bytes of its storage");
  CHECK_ERROR(tensor_statistics(*checkpoint, tensor, {}, nullptr), "tensor 'w'", "1 stored elements",
              "1,099,511,627,776");
}

// Every storage type and dtype: values, or listed by name and refused by name when used.
SLOTSCOPE_CASE(dtypes) {
  const auto v3 = [](const std::string& dtype, const std::string& key, int64_t bytes, std::vector<int64_t> shape) {
    return p::call(p::global("torch._utils", "_rebuild_tensor_v3"),
                   {p::storage("UntypedStorage", key, bytes), p::integer(0), p::integers(shape), p::integers({1}),
                    p::boolean(false), p::ordered({}), p::global("torch", dtype)});
  };
  const auto v2 = [](const std::string& type, const std::string& key, int64_t n) {
    return p::tensor(p::storage(type, key, n), 0, {n}, {1});
  };
  Storages storages;
  p::Pairs pairs;
  std::map<std::string, std::pair<std::string, Values>> expected;
  const auto add = [&](const std::string& name, const std::string& bytes, const std::string& value,
                       const std::string& dtype, const Values& values) {
    storages[name] = bytes;
    pairs.push_back({name, value});
    expected[name] = {dtype, values};
  };
  add("f64", raw<double>({-0.1}), v2("DoubleStorage", "f64", 1), "F64", {-0.1});
  add("i64", raw<int64_t>({-5}), v2("LongStorage", "i64", 1), "I64", {-5});
  add("i32", raw<int32_t>({-6}), v2("IntStorage", "i32", 1), "I32", {-6});
  add("i16", raw<int16_t>({-7}), v2("ShortStorage", "i16", 1), "I16", {-7});
  add("i8", "\x80", v2("CharStorage", "i8", 1), "I8", {-128});
  add("u8", "\xff", v2("ByteStorage", "u8", 1), "U8", {255});
  add("bool", std::string("\0\1", 2), v2("BoolStorage", "bool", 2), "BOOL", {0, 1});
  add("untyped", "\x07", v2("UntypedStorage", "untyped", 1), "U8", {7});
  add("u16", raw<uint16_t>({65535}), v3("uint16", "u16", 2, {1}), "U16", {65535});
  add("u32", raw<uint32_t>({4294967295u}), v3("uint32", "u32", 4, {1}), "U32", {4294967295.0});
  add("u64", raw<uint64_t>({1ull << 60}), v3("uint64", "u64", 8, {1}), "U64", {double(1ull << 60)});
  add("e4m3", "\x38\x7e", v3("float8_e4m3fn", "e4m3", 2, {2}), "F8_E4M3", {1, 448});
  add("e5m2", "\x3c\x7b", v3("float8_e5m2", "e5m2", 2, {2}), "F8_E5M2", {1, 57344});
  add("v3f32", kTwo, v3("float32", "v3f32", 8, {2}), "F32", {1, 2});
  const std::pair<std::string, std::string> listed[] = {
      {"c64", "C64"}, {"c128", "C128"}, {"q", "quantised QI8"}, {"e8m0", "F8_E8M0"}, {"fnuz", "F8_E4M3FNUZ"},
      {"sparse", "sparse"}, {"meta", "meta tensor"}, {"neg", "F32 (neg bit)"}, {"bits", "bits8"}};
  storages["x"] = std::string(16, 'x');
  pairs.push_back({"c64", v2("ComplexFloatStorage", "x", 2)});
  pairs.push_back({"c128", v2("ComplexDoubleStorage", "x", 1)});
  pairs.push_back({"q", p::call(p::global("torch._utils", "_rebuild_qtensor"),
                                {p::storage("QInt8Storage", "x", 16), p::integer(0), p::integers({16}), p::integers({1}),
                                 p::tuple({p::global("torch", "per_tensor_affine"), p::real(1), p::integer(0)}),
                                 p::boolean(false), p::ordered({})})});
  pairs.push_back({"e8m0", v3("float8_e8m0fnu", "x", 16, {16})});
  pairs.push_back({"fnuz", v3("float8_e4m3fnuz", "x", 16, {16})});
  pairs.push_back({"bits", v3("bits8", "x", 16, {16})});
  pairs.push_back({"sparse", p::call(p::global("torch._utils", "_rebuild_sparse_tensor"),
                                     {p::call(p::global("torch.serialization", "_get_layout"), {p::text("torch.sparse_coo")}),
                                      p::tuple({v2("LongStorage", "x", 2), v2("FloatStorage", "x", 4), p::integers({3, 4})})})});
  pairs.push_back({"meta", p::call(p::global("torch._utils", "_rebuild_meta_tensor_no_storage"),
                                   {p::global("torch", "float32"), p::integers({7}), p::integers({1}), p::boolean(false)})});
  pairs.push_back({"neg", p::call(p::global("torch._utils", "_rebuild_tensor_v2"),
                                  {p::storage("FloatStorage", "x", 4), p::integer(0), p::integers({4}), p::integers({1}),
                                   p::boolean(false), p::ordered({}), p::dict({{"neg", p::boolean(true)}})})});
  for (const bool packed : {false, true}) {
    auto entries = torch_entries(p::dict(pairs), storages);
    for (auto& entry : entries) entry.deflate = packed;
    const auto checkpoint = File(t, zip(entries)).open();
    for (const auto& [name, want] : expected) {
      CHECK_EQ(checkpoint->find(name)->dtype_text, want.first);
      CHECK_EQ(all_values(*checkpoint, name), want.second);
    }
    for (const auto& [name, text] : listed) {
      CHECK(checkpoint->find(name)->dtype_text.starts_with(text));
      CHECK_ERROR(all_values(*checkpoint, name), "tensor '" + name + "'", text);
      if (name != "c64" && name != "e8m0") CHECK_ERROR(checkpoint->data(*checkpoint->find(name)), text);
    }
    CHECK_EQ(checkpoint->find("sparse")->shape, (std::vector<int64_t>{3, 4}));
    CHECK_EQ(checkpoint->find("c128")->bytes, uint64_t(16));
  }
}

// A file of a big-endian machine: the same values.
SLOTSCOPE_CASE(byte_order) {
  const auto big = [](std::string bytes, size_t unit) {
    for (size_t at = 0; at < bytes.size(); at += unit) std::reverse(bytes.begin() + long(at), bytes.begin() + long(at + unit));
    return bytes;
  };
  auto entries = torch_entries(
      p::dict({{"f", p::floats("0", {2})}, {"t", p::tensor(p::storage("FloatStorage", "2", 4), 0, {2, 2}, {1, 2})},
               {"l", p::tensor(p::storage("LongStorage", "1", 1), 0, {1}, {1})},
               {"b", p::tensor(p::storage("ByteStorage", "3", 2), 0, {2}, {1})}}),
      {{"0", big(kTwo, 4)}, {"1", big(raw<int64_t>({-3}), 8)}, {"2", big(raw<float>({1, 2, 3, 4}), 4)}, {"3", "\x01\x02"}});
  entries[1].data = "big";
  const auto checkpoint = File(t, zip(entries)).open();
  CHECK_EQ(all_values(*checkpoint, "f"), (Values{1, 2}));
  CHECK_EQ(all_values(*checkpoint, "l"), (Values{-3}));
  CHECK_EQ(all_values(*checkpoint, "t"), (Values{1, 3, 2, 4}));
  CHECK_EQ(all_values(*checkpoint, "b"), (Values{1, 2}));
  CHECK(any_has(checkpoint->notes(), "big-endian"));
  entries[1].data = "middle";
  CHECK_ERROR(File(t, zip(entries)).open(), "byteorder", "'middle'");
}

// B22: archives that lie. Nothing is allocated from their numbers.
SLOTSCOPE_CASE(hostile_archives) {
  const auto entries = [] { return torch_entries(one_tensor(), {{"0", kTwo}}); };
  const auto refused = [&](const std::vector<ZipEntry>& e, std::initializer_list<std::string> words) {
    std::string text;
    try {
      const auto checkpoint = File(t, zip(e)).open();
      all_values(*checkpoint, "w");
    } catch (const slotscope::Error& error) {
      text = error.what();
    }
    if (text.empty()) t.fail("nothing refused", __FILE__, __LINE__);
    for (const auto& word : words)
      if (text.find(word) == std::string::npos) t.fail("message lacks '" + word + "': " + text, __FILE__, __LINE__);
  };
  CHECK_ERROR(File(t, torch_zip(p::dict({{"w", p::call(p::global("posix", "system"), {p::text("touch PWNED")})}}), {})).open(),
              "posix.system is not allowed in a weights file");
  CHECK(!std::filesystem::exists("PWNED"));
  auto e = entries();
  e[0].crc = 1;  // the pickle, when the file is opened
  refused(e, {"data.pkl", "checksum", "00000001 as the file says"});
  e = entries();
  e[2].crc = 1;  // a storage, when it is first used
  CHECK_EQ(File(t, zip(e)).open()->tensors().size(), size_t(1));
  refused(e, {"archive/data/0", "checksum"});
  for (auto& entry : e) entry.deflate = true;
  refused(e, {"archive/data/0", "checksum"});
  e = entries();
  e.push_back(e[2]);
  refused(e, {"archive/data/0", "two entries of this name"});
  for (size_t i : {0, 2}) {
    e = entries();
    e[i].flags = 1;
    refused(e, {"encrypted"});
  }
  const std::string unsafe[] = {"archive/../../x", "/etc/x", "..", "../x", "a/..", "a\\b", "", std::string("a\0b", 3)};
  for (const std::string& name : unsafe) {
    e = entries();
    e.push_back({name, "x"});
    refused(e, {"leads out of the archive"});
  }
  e = entries();
  e[2].method = 12;
  refused(e, {"method 12"});
  // 10 GB when unpacked: from few bytes (impossible), and as the honest header of a bomb.
  for (size_t i : {0, 2, 3}) {
    e = entries();
    e[i].deflate = true, e[i].zip64 = true;
    e[i].size = 10'000'000'000;
    refused(e, {"10,000,000,000"});
  }
  e = entries();
  e.push_back({"archive/bomb", std::string(1 << 20, '\0'), true});
  e.back().size = 1'000'000;  // less than comes out: read by nobody
  CHECK_EQ(all_values(*File(t, zip(e)).open(), "w"), (Values{1, 2}));
  e = entries();
  e[0].deflate = true, e[0].size = int64_t(e[0].data.size()) - 1;
  refused(e, {"data.pkl"});
  e[0].size = int64_t(e[0].data.size()) + 1;
  refused(e, {"data.pkl"});
  e = entries();
  e[2].size = 4;  // stored, but of two sizes
  refused(e, {"archive/data/0"});
  e = entries();
  e[2].packed = e[2].size = 1 << 30;
  refused(e, {"archive/data/0"});
  e = entries();
  e.erase(e.begin() + 2);
  refused(e, {"storage '0'", "no entry 'archive/data/0'"});
  e = entries();
  e.push_back({"other/data.pkl", e[0].data});
  refused(e, {"two pickles"});
}

// torch can be told to compute no checksums: it writes 0 for every entry. One 0 among others is a wrong one.
SLOTSCOPE_CASE(no_checksums) {
  auto e = torch_entries(one_tensor(), {{"0", kTwo}});
  for (auto& entry : e) entry.crc = 0;
  for (const bool deflate : {false, true}) {
    for (auto& entry : e) entry.deflate = deflate;
    const auto checkpoint = File(t, zip(e)).open();
    CHECK_EQ(all_values(*checkpoint, "w"), (Values{1, 2}));
    CHECK(any_has(checkpoint->notes(), "no checksums"));
  }
  for (auto& entry : e) entry.crc = -1;
  e[2].crc = 0;
  const auto checkpoint = File(t, zip(e)).open();
  CHECK_ERROR(all_values(*checkpoint, "w"), "archive/data/0", "checksum");
}

// Archives that are no saved weights are named, with what to do.
SLOTSCOPE_CASE(other_archives) {
  auto e = torch_entries(one_tensor(), {{"0", kTwo}});
  e.push_back({"archive/constants.pkl", "x"});
  CHECK_ERROR(File(t, zip(e)).open(), "TorchScript", "state_dict");
  e.back().name = "archive/code/__torch__.py";
  CHECK_ERROR(File(t, zip(e)).open(), "TorchScript", "state_dict");
  CHECK_ERROR(File(t, zip({{"a.npy", "x"}, {"b.npy", "x"}})).open(), ".npz");
  CHECK_ERROR(File(t, zip({{"readme.txt", "x"}})).open(), "without data.pkl");
  CHECK_ERROR(File(t, zip({})).open(), "without data.pkl (0 entries)");
  CHECK_ERROR(File(t, torch_zip(one_tensor(), {{"0", kTwo}}), "model.safetensors").open(), "torch zip", "Rename");
  CHECK_ERROR(File(t, torch_zip(p::integer(5), {})).open(), "no tensor in it");
  CHECK_ERROR(File(t, torch_zip(one_tensor(), {{"0", kTwo}}).substr(0, 200)).open(), "no zip directory", "Incomplete");
  CHECK_ERROR(File(t, std::string(100, 'x'), "__0_0.distcp").open(), "distributed checkpoint", "dcp_to_torch_save");
}

// Opening reads the directory and the pickle, whatever the storages weigh: a sparse file of 20 GB. Its last values lie
// beyond 4 GiB.
SLOTSCOPE_CASE(opening_reads_no_storage) {
  constexpr uint64_t size = 20'000'000'000;
  auto e = torch_entries(p::ordered({{"w", p::floats("0", {int64_t(size / 4)})}, {"v", p::floats("1", {2})}}),
                         {{"0", ""}, {"1", kTwo}});
  for (auto& entry : e) entry.zip64 = true, entry.crc = 0;  // no checksums: the hole would have to be read for one
  e[2].hole = size;
  const auto path = t.temp() / "pytorch_model.bin";
  write_sparse_zip(path, e);
  CHECK(std::filesystem::file_size(path) > size);
  const uint64_t before = bytes_read();
  const auto checkpoint = Checkpoint::open(path);
  const uint64_t read = bytes_read() - before;
  CHECK(before > 0 && read > 0 && read < 200'000);
  CHECK_EQ(checkpoint->total_bytes(), size + 8);
  CHECK_EQ(all_values(*checkpoint, "v"), (Values{1, 2}));
  CHECK_EQ(read_values(*checkpoint, *checkpoint->find("w"), size / 4 - 3, 3), (Values{0, 0, 0}));
  t.note(std::to_string(read) + " bytes read of a file of 20 GB");
}

// Every byte changed, every length, of a whole file: it opens and is read, or there is an Error.
SLOTSCOPE_CASE(mutations) {
  auto entries = torch_entries(p::ordered({{"w", p::floats("0", {2})},
                                           {"t", p::tensor(p::storage("FloatStorage", "1", 4), 0, {2, 2}, {1, 2})}}),
                               {{"0", kTwo}, {"1", raw<float>({1, 2, 3, 4})}});
  entries[3].deflate = true;
  const std::string good = zip(entries);
  const auto path = t.temp() / "pytorch_model.bin";
  int accepted = 0, refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    write_file(path, bytes);
    try {
      const auto checkpoint = Checkpoint::open(path);
      for (const TensorInfo& tensor : checkpoint->tensors())
        if (can_compute(tensor.dtype) && element_count(tensor) < 1000) all_values(*checkpoint, tensor.name);
      ++accepted;
    } catch (const slotscope::Error& error) {
      CHECK(std::string_view(error.what()).size() > 10);
      ++refused;
    }
  };
  for (size_t at = 0; at < good.size(); ++at) {
    attempt(good.substr(0, at));
    for (const int flip : {0x01, 0x80, 0xff, 0x55}) {
      std::string bytes = good;
      bytes[at] = char(bytes[at] ^ flip);
      attempt(bytes);
    }
  }
  CHECK(accepted > 100 && refused > 1000);
  t.note(std::to_string(accepted) + " accepted, " + std::to_string(refused) + " refused");
}
