// Checkpoints written: the reference library's bytes, round trips bit for bit, shards, what is replaced and what never is.
#include "core/formats/checkpoint_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "core/error.h"
#include "core/formats/encode.h"
#include "core/formats/sha256.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/torch_writer.h"
#include "tests/cases/trace/child.h"

namespace slotscope::testing {
namespace {

namespace fs = std::filesystem;
namespace p = pkl;
using formats::Checkpoint;
using formats::CheckpointContent;
using formats::DType;

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Named {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

// The content keeps a reference to `tensors`.
CheckpointContent content_of(const std::vector<Named>& tensors) {
  CheckpointContent content;
  for (const Named& t : tensors) content.tensors.push_back(formats::tensor_to_write(t.name, t.dtype, t.shape));
  content.read = [&tensors](size_t i, uint64_t first, std::span<std::byte> out) {
    std::memcpy(out.data(), tensors.at(i).bytes.data() + first, out.size());
  };
  content.texts = {{"config.json", "{\"model_type\": \"raven\"}"}};
  return content;
}

std::string random_bytes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes;
  while (bytes.size() < n) bytes += le64(random());
  return bytes.substr(0, n);
}

// Of every dtype with whole bytes; bit patterns of all kinds, NaNs among them.
std::vector<Named> made_tensors() {
  std::vector<Named> list;
  for (int d = 0; d < int(DType::unknown); ++d) {
    const uint64_t bits = uint64_t(formats::dtype_bits(DType(d)));
    list.push_back({"t." + std::string(formats::dtype_name(DType(d))), DType(d), {3, 8}, random_bytes(24 * bits / 8, uint64_t(d))});
  }
  list.push_back({"scalar", DType::f32, {}, random_bytes(4, 99)});
  list.push_back({"empty", DType::bf16, {0, 7}, ""});
  list.push_back({"large", DType::f16, {3'000'001}, random_bytes(6'000'002, 100)});  // two pieces, the second of odd size
  return list;
}

uint64_t write(const fs::path& folder, const std::vector<Named>& tensors, const formats::CheckpointWriteOptions& options = {}) {
  Progress progress;
  return formats::write_checkpoint(folder, content_of(tensors), options, progress).bytes;
}

std::string stored_bytes(const Checkpoint& checkpoint, const formats::TensorInfo& tensor) {
  return bytes_of(checkpoint.files()[size_t(tensor.file)]).substr(tensor.offset, tensor.bytes);
}

}  // namespace

// The same tensors saved with safetensors 0.8.0 (Python, numpy): header and whole file byte for byte.
SLOTSCOPE_CASE(bytes_of_the_reference_library) {
  std::vector<Named> tensors = {
      {"b", DType::f32, {2, 3}, raw<float>({0, 1, 2, 3, 4, 5})},
      {"a.é\"\\/\n\x01", DType::f16, {3}, raw<uint16_t>({0, 0x3c00, 0x4000})},
      {"c", DType::f64, {2}, raw<double>({0, 1})},
      {"d", DType::f32, {}, raw<float>({1.5f})},
      {"e", DType::f32, {0, 4}, ""},
      {"i64", DType::i64, {2}, raw<int64_t>({0, 1})},
      {"u8", DType::u8, {3}, raw<uint8_t>({0, 1, 2})},
      {"i8", DType::i8, {3}, raw<int8_t>({0, 1, 2})},
      {"bo", DType::boolean, {1}, raw<uint8_t>({1})},
      {"i16", DType::i16, {1}, raw<int16_t>({0})},
      {"u16", DType::u16, {1}, raw<uint16_t>({0})},
      {"i32", DType::i32, {1}, raw<int32_t>({0})},
      {"u32", DType::u32, {1}, raw<uint32_t>({0})},
      {"u64", DType::u64, {1}, raw<uint64_t>({0})},
      {"c64", DType::c64, {1}, raw<uint64_t>({0})}};
  const fs::path folder = t.temp() / "m";
  CHECK_EQ(write(folder, tensors), uint64_t(101));
  const std::string bytes = bytes_of(folder / "model.safetensors");
  CHECK_EQ(bytes.size(), size_t(1005));
  CHECK(bytes.substr(8).starts_with("{\"__metadata__\":{\"format\":\"pt\"},\"u64\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]},"));
  CHECK_EQ(formats::sha256_hex(bytes), std::string("bda2a2e3739a5d8653b727685ca169a9abff732d2d402e4b33f3f3f92af9c054"));
  std::vector<formats::TensorToWrite> narrow;
  for (const auto& [name, dtype] : {std::pair{"z1", DType::bf16}, {"z2", DType::f16}, {"y8a", DType::f8_e4m3}, {"y8b", DType::f8_e5m2},
                                    {"x", DType::boolean}, {"w", DType::u8}, {"v", DType::i8}, {"m", DType::f8_e8m0}})
    narrow.push_back(formats::tensor_to_write(name, dtype, {1}));
  narrow.push_back(formats::tensor_to_write("q4", DType::f4, {2}));
  narrow.push_back({.name = "fn", .dtype = "F8_E4M3FNUZ", .shape = {1}, .bytes = 1});
  narrow.push_back({.name = "f5", .dtype = "F8_E5M2FNUZ", .shape = {1}, .bytes = 1});
  std::vector<size_t> order;
  CHECK_EQ(formats::safetensors_head(narrow, {}, order).substr(8),
           std::string("{\"z1\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]},\"z2\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[2,4]},"
                       "\"f5\":{\"dtype\":\"F8_E5M2FNUZ\",\"shape\":[1],\"data_offsets\":[4,5]},"
                       "\"fn\":{\"dtype\":\"F8_E4M3FNUZ\",\"shape\":[1],\"data_offsets\":[5,6]},"
                       "\"m\":{\"dtype\":\"F8_E8M0\",\"shape\":[1],\"data_offsets\":[6,7]},"
                       "\"y8a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[7,8]},"
                       "\"y8b\":{\"dtype\":\"F8_E5M2\",\"shape\":[1],\"data_offsets\":[8,9]},"
                       "\"v\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[9,10]},\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[10,11]},"
                       "\"q4\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[11,12]},"
                       "\"x\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[12,13]}}     "));
}

SLOTSCOPE_CASE(every_dtype_bit_for_bit) {
  const auto tensors = made_tensors();
  for (const uint64_t shard : {uint64_t(5'000'000'000), uint64_t(400), uint64_t(1)}) {
    const fs::path folder = t.temp() / "m", copy = t.temp() / "copy";
    const uint64_t bytes = write(folder, tensors, {.shard_bytes = shard});
    for (const fs::path& place : {folder, copy}) {
      const auto checkpoint = Checkpoint::open(place == copy ? folder : place);
      if (place == copy) {
        Progress progress;
        const auto written = formats::copy_checkpoint(*checkpoint, copy, {.shard_bytes = 300, .threads = 3}, progress);
        CHECK_EQ(written.bytes, bytes);
        CHECK_EQ(uint64_t(progress.snapshot().done), bytes);
      }
      const auto read = Checkpoint::open(place);
      CHECK_EQ(read->total_bytes(), bytes);
      CHECK_EQ(read->config_text(), std::string("{\"model_type\": \"raven\"}"));
      CHECK_EQ(read->tensors().size(), tensors.size());
      for (const Named& want : tensors) {
        const auto* found = read->find(want.name);
        CHECK(found && found->dtype == want.dtype && found->shape == want.shape);
        if (found) CHECK(stored_bytes(*read, *found) == want.bytes);
      }
      CHECK_EQ(formats::tensor_digest(*read), formats::tensor_digest(*checkpoint));
    }
    if (shard == 1) CHECK_EQ(Checkpoint::open(folder)->files().size(), tensors.size() - 1);  // "empty" needs no file of its own
    if (shard == 400) CHECK(fs::exists(folder / "model.safetensors.index.json"));
  }
}

// As transformers saves shards: the index with sorted names, two blanks, total_size; every name in the file that it says.
SLOTSCOPE_CASE(shards_and_index) {
  const std::vector<Named> tensors = {{"b", DType::f32, {2}, raw<float>({1, 2})}, {"a", DType::f32, {3}, raw<float>({3, 4, 5})},
                                      {"c", DType::bf16, {1}, raw<uint16_t>({7})}};
  const fs::path folder = t.temp() / "m";
  write(folder, tensors, {.shard_bytes = 14});
  CHECK_EQ(bytes_of(folder / "model.safetensors.index.json"),
           std::string("{\n  \"metadata\": {\n    \"total_size\": 22\n  },\n  \"weight_map\": {\n    \"a\": \"model-00002-of-00002.safetensors\",\n"
                       "    \"b\": \"model-00001-of-00002.safetensors\",\n    \"c\": \"model-00002-of-00002.safetensors\"\n  }\n}\n"));
  const auto read = Checkpoint::open(folder);
  CHECK(read->notes().empty());
  CHECK_EQ(formats::read_values(*read, *read->find("a"), 0, 3), (std::vector<double>{3, 4, 5}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  CHECK_EQ(names, (std::set<std::string>{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                         "model.safetensors.index.json"}));
}

SLOTSCOPE_CASE(any_number_of_threads_gives_the_same_bytes) {
  const auto tensors = made_tensors();
  const fs::path folder = t.temp();
  for (const int threads : {1, 2, 7}) write(folder / std::to_string(threads), tensors, {.threads = threads});
  for (const char* other : {"2", "7"}) CHECK(bytes_of(folder / "1" / "model.safetensors") == bytes_of(folder / other / "model.safetensors"));
}

SLOTSCOPE_CASE(bundled_checkpoint_copied) {
  const fs::path source = t.resource("checkpoints/raven-passkey"), folder = t.temp() / "copy";
  const auto from = Checkpoint::open(source);
  Progress progress;
  formats::copy_checkpoint(*from, folder, {}, progress);
  const auto to = Checkpoint::open(folder);
  CHECK_EQ(formats::tensor_digest(*from), formats::tensor_digest(*to));
  for (const auto& tensor : from->tensors()) {
    const auto a = from->data(tensor), b = to->data(*to->find(tensor.name));
    CHECK(a.bytes.size() == b.bytes.size() && std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
  }
  for (const char* name : {"config.json", "tokenizer.json"}) CHECK(bytes_of(source / name) == bytes_of(folder / name));
}

// A torch.save file, whose tensors are views with strides and share their storage.
SLOTSCOPE_CASE(torch_save_file_becomes_safetensors) {
  const fs::path folder = t.temp() / "source", copy = t.temp() / "copy";
  fs::create_directories(folder);
  const auto view = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return p::tensor(p::storage("FloatStorage", "0", 6), 0, std::move(shape), std::move(strides));
  };
  write_file(folder / "pytorch_model.bin", torch_zip(p::ordered({{"plain", view({2, 3}, {3, 1})}, {"turned", view({3, 2}, {1, 3})}}),
                                                     {{"0", raw<float>({0, 1, 2, 3, 4, 5})}}));
  write_file(folder / "config.json", "{\"x\": Infinity}");
  const auto from = Checkpoint::open(folder);
  Progress progress;
  formats::copy_checkpoint(*from, copy, {}, progress);
  const auto to = Checkpoint::open(copy);
  CHECK(to->format() == formats::FileFormat::safetensors);
  CHECK_EQ(formats::read_values(*to, *to->find("plain"), 0, 6), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  CHECK_EQ(formats::read_values(*to, *to->find("turned"), 0, 6), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  CHECK_EQ(to->config_text(), std::string("{\"x\": Infinity}"));
}

SLOTSCOPE_CASE(nothing_is_replaced_that_is_no_checkpoint) {
  const std::vector<Named> one = {{"a", DType::f32, {1}, raw<float>({1})}}, two = {{"a", DType::f32, {1}, raw<float>({2})}};
  const fs::path base = t.temp(), folder = base / "m", part = base / "m.part";
  const auto value = [&] {
    const auto c = Checkpoint::open(folder);
    return formats::read_values(*c, *c->find("a"), 0, 1).at(0);
  };
  fs::create_directory(folder);
  write(folder, one);  // an empty folder is no loss
  CHECK_ERROR(write(folder, two), "m", "exists already", "--force");
  CHECK_CLOSE(value(), 1, 0);
  write(folder, two, {.force = true});
  CHECK_CLOSE(value(), 2, 0);
  CHECK(!fs::exists(part));
  for (const char* stranger : {"thesis.tex", ".hidden", "sub/x"}) {
    const fs::path file = folder / stranger;
    fs::create_directories(file.parent_path());
    write_file(file, "years of work");
    CHECK_ERROR(write(folder, one, {.force = true}), fs::path(stranger).begin()->string(), "no file of a checkpoint", "--force would delete it");
    CHECK(fs::exists(file) && !fs::exists(part));
    CHECK_CLOSE(value(), 2, 0);
    fs::remove_all(folder / *fs::path(stranger).begin());
  }
  fs::create_symlink("/etc", folder / "link.safetensors");
  CHECK_ERROR(write(folder, one, {.force = true}), "link.safetensors", "no file of a checkpoint");
  fs::remove(folder / "link.safetensors");
  fs::create_directory_symlink(folder, base / "link");
  CHECK_ERROR(write(base / "link", one, {.force = true}), "a link", "nothing but a checkpoint folder");
  write_file(base / "file", "x");
  CHECK_ERROR(write(base / "file", one), "a file of this name");
  CHECK_ERROR(write(base / "file", one, {.force = true}), "no folder");
  CHECK_ERROR(write(base / "none" / "m", one), "does not exist");
  CHECK_ERROR(write("/", one, {.force = true}), "no name of its own");
  CHECK_ERROR(write(base / "..", one, {.force = true}), "no name of its own");
  write(fs::path((base / "slash").string() + "/"), one);
  CHECK(fs::exists(base / "slash" / "config.json"));
}

SLOTSCOPE_CASE(rests_and_second_writers) {
  const std::vector<Named> one = {{"a", DType::f32, {1}, raw<float>({1})}};
  const fs::path base = t.temp(), folder = base / "m", part = base / "m.part";
  fs::create_directory(part);
  write_file(part / "model.safetensors", "half of it");
  CHECK_ERROR(write(folder, one), "m.part", "left over", "--force");
  CHECK(fs::exists(part / "model.safetensors"));
  write_file(part / "notes.txt", "mine");
  CHECK_ERROR(write(folder, one, {.force = true}), "notes.txt", "no file of a checkpoint");
  CHECK(fs::exists(part / "notes.txt"));
  fs::remove(part / "notes.txt");
  const int other = ::open(part.c_str(), O_RDONLY | O_DIRECTORY);
  ::flock(other, LOCK_EX);
  CHECK_ERROR(write(folder, one, {.force = true}), "m.part", "in use by another program");
  CHECK(fs::exists(part / "model.safetensors"));
  ::close(other);
  write(folder, one, {.force = true});
  CHECK(Checkpoint::open(folder)->find("a") != nullptr);
  CHECK(!fs::exists(part));
}

SLOTSCOPE_CASE(failures_leave_nothing_behind) {
  std::vector<Named> tensors = {{"a", DType::f32, {300'000}, random_bytes(1'200'000, 1)}};
  const fs::path base = t.temp(), folder = base / "m", message = base / "message";
  Child child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{500'000, 500'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    write(folder, tensors);
  }, message.string());
  CHECK_EQ(child.wait(), 3);
  const std::string said = bytes_of(message);
  CHECK(said.find("model.safetensors") != std::string::npos && said.find("no space") != std::string::npos &&
        said.find("another disk") != std::string::npos);
  CHECK(!fs::exists(folder) && !fs::exists(base / "m.part"));

  CheckpointContent content = content_of(tensors);
  content.read = [](size_t, uint64_t, std::span<std::byte>) { throw Error({.item = "a", .found = "cannot be computed"}); };
  Progress progress;
  CHECK_ERROR(formats::write_checkpoint(folder, content, {}, progress), "cannot be computed");
  content = content_of(tensors);
  content.read = [&](size_t, uint64_t, std::span<std::byte>) { progress.request_cancel(); };
  CHECK_ERROR(formats::write_checkpoint(folder, content, {.threads = 2}, progress), "cancelled");
  CHECK(!fs::exists(folder) && !fs::exists(base / "m.part"));
}

SLOTSCOPE_CASE(content_that_cannot_be_written) {
  const fs::path folder = t.temp() / "m";
  Progress progress;
  const auto refused = [&](auto change, std::initializer_list<const char*> words) {
    const std::vector<Named> tensors = {{"a", DType::f32, {1}, raw<float>({1})}, {"b", DType::bf16, {1}, raw<uint16_t>({1})}};
    CheckpointContent content = content_of(tensors);
    change(content);
    for (const char* word : words) CHECK_ERROR(formats::write_checkpoint(folder, content, {}, progress), word);
    CHECK(!fs::exists(folder));
  };
  refused([](CheckpointContent& c) { c.tensors[1].name = "a"; }, {"'a'", "appears twice"});
  refused([](CheckpointContent& c) { c.tensors[1].name = "__metadata__"; }, {"__metadata__", "keeps for itself"});
  refused([](CheckpointContent& c) { c.tensors[1].name = "\xff"; }, {"no UTF-8"});
  refused([](CheckpointContent& c) { c.texts.push_back({"../evil", "x"}); }, {"../evil", "no file of a checkpoint"});
  refused([](CheckpointContent& c) { c.texts.push_back({"config.json", "x"}); }, {"config.json", "two files"});
  refused([](CheckpointContent& c) { c.tensors[0].bytes = uint64_t(1) << 62; }, {"no space", "free"});
  refused([](CheckpointContent& c) { c.tensors[0].bytes = c.tensors[1].bytes = INT64_MAX; }, {"no space"});
  CHECK_ERROR(formats::tensor_to_write("x", DType::f32, {INT64_MAX, 2}), "'x'", "whole bytes");
  CHECK_ERROR(formats::tensor_to_write("x", DType::f32, {-1}), "'x'");
  CHECK_ERROR(formats::tensor_to_write("x", DType::f4, {3}), "whole bytes");
}

// Every bfloat16 and every binary16 survives; everything between rounds to the nearest, ties to even: against a search.
SLOTSCOPE_CASE(rounding_to_stored_dtypes) {
  const auto back = [](uint16_t bits, DType dtype) {
    double value = 0;
    formats::convert_values(reinterpret_cast<const std::byte*>(&bits), dtype, 1, &value);
    return value;
  };
  std::mt19937_64 random(5);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::vector<std::pair<double, uint16_t>> finite;  // not negative, ascending
    int64_t wrong = 0;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = back(uint16_t(bits), dtype);
      uint16_t stored = 0;
      formats::encode_values(&value, dtype, 1, reinterpret_cast<std::byte*>(&stored));
      if (std::isnan(value))
        wrong += !std::isnan(back(stored, dtype));
      else
        wrong += stored != bits;
      if (std::isfinite(value) && bits < 32768) finite.emplace_back(value, uint16_t(bits));
    }
    CHECK_EQ(wrong, int64_t(0));
    const double largest = finite.back().first, step = largest - finite[finite.size() - 2].first;
    const auto expected = [&](double magnitude) {
      if (magnitude >= largest + step / 2) return uint16_t(finite.back().second + 1);  // infinity
      const auto above = std::upper_bound(finite.begin(), finite.end(), std::pair{magnitude, uint16_t(65535)});
      if (above == finite.end()) return finite.back().second;
      const auto below = above - 1;
      const long double down = (long double)magnitude - below->first, up = (long double)above->first - magnitude;
      return down < up || (down == up && below->second % 2 == 0) ? below->second : above->second;
    };
    for (int i = 0; i < 200'000; ++i) {
      double value;
      const uint64_t choice = random() % 4;
      const size_t at = random() % (finite.size() - 1);
      const double middle = (finite[at].first + finite[at + 1].first) / 2;
      if (choice == 0)
        value = middle;  // ties, and their neighbours, where a second rounding would go wrong
      else if (choice == 1)
        value = std::nextafter(middle, random() % 2 ? 0 : 1e300);
      else if (choice == 2)
        value = finite[at].first + (finite[at + 1].first - finite[at].first) * double(random() >> 11) * 0x1p-53;
      else
        value = std::fabs(std::bit_cast<double>(random()));
      if (std::isnan(value)) continue;
      for (const double sign : {1.0, -1.0}) {
        const double signed_value = sign * value;
        uint16_t stored = 0;
        formats::encode_values(&signed_value, dtype, 1, reinterpret_cast<std::byte*>(&stored));
        wrong += stored != (expected(value) | (sign < 0 ? 0x8000 : 0));
        const float narrow = float(signed_value);  // and from float
        uint16_t from_float = 0;
        formats::encode_values(&narrow, dtype, 1, reinterpret_cast<std::byte*>(&from_float));
        if (!std::isinf(narrow)) wrong += from_float != (expected(std::fabs(double(narrow))) | (sign < 0 ? 0x8000 : 0));
      }
    }
    CHECK_EQ(wrong, int64_t(0));
  }
  const double wide[] = {0.1, -1e300, 1e-320};
  double same[3];
  float single[3];
  formats::encode_values(wide, DType::f64, 3, reinterpret_cast<std::byte*>(same));
  formats::encode_values(wide, DType::f32, 3, reinterpret_cast<std::byte*>(single));
  CHECK(std::memcmp(wide, same, sizeof wide) == 0);
  CHECK(single[0] == 0.1f && single[1] == -INFINITY && single[2] == 0);
}

}  // namespace slotscope::testing
