// torch.save files of before 1.6 (bad-inputs B19, B22).
#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/torch_writer.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
namespace p = slotscope::testing::pkl;

namespace {

using Values = std::vector<double>;

std::shared_ptr<const Checkpoint> open(Context& t, const std::string& bytes, const std::string& name = "model.pt") {
  const auto path = t.temp() / name;
  write_file(path, bytes);
  return Checkpoint::open(path);
}
Values all_values(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo& tensor = *checkpoint.find(name);
  return read_values(checkpoint, tensor, 0, element_count(tensor));
}

std::string part(const std::string& key, int64_t numel, int64_t offset, int64_t count) {
  return p::tensor(p::storage("FloatStorage", key, numel, true), offset, {count}, {1});
}
// B19: storage '0' comes first in the file, 'a' on storage '1' first in the pickle.
std::string two_storages() { return p::ordered({{"a", part("1", 2, 0, 2)}, {"b", part("0", 3, 1, 2)}}); }
const LegacyStorages kStorages = {{"0", {3, raw<float>({7, 8, 9})}}, {"1", {2, raw<float>({1, 2})}}};

// A storage that is a part of another one: view_metadata of PyTorch 0.1.
std::string storage_view(int64_t offset, int64_t count) {
  return p::tuple({p::text("storage"), p::global("torch", "FloatStorage"), p::text("0"), p::text("cpu"), p::integer(3),
                   p::tuple({p::text("view"), p::integer(offset), p::integer(count)})}) + "Q";
}

}  // namespace

SLOTSCOPE_CASE(each_storage_has_a_count) {
  const auto checkpoint = open(t, torch_legacy(two_storages(), kStorages));
  CHECK_EQ(all_values(*checkpoint, "a"), (Values{1, 2}));
  CHECK_EQ(all_values(*checkpoint, "b"), (Values{8, 9}));
  CHECK(checkpoint->format() == FileFormat::torch_legacy);
  CHECK_EQ(checkpoint->total_bytes(), uint64_t(8 + 8));  // the part of storage 0 that a tensor covers
  CHECK(checkpoint->notes().empty() && checkpoint->warnings().empty());
  CHECK(checkpoint->data(*checkpoint->find("a")).owner == nullptr);
  // A large pickle is read in pieces.
  p::Pairs many;
  for (int i = 0; i < 3000; ++i) many.push_back({"layer." + std::to_string(i), part("0", 3, i % 3, 1)});
  const auto large = open(t, torch_legacy(p::dict(many), {{"0", kStorages.at("0")}}));
  CHECK_EQ(large->tensors().size(), size_t(3000));
  CHECK_EQ(all_values(*large, "layer.2999"), (Values{9}));
  CHECK_EQ(large->total_bytes(), uint64_t(12));
}

SLOTSCOPE_CASE(storage_views) {
  const auto file = [&](int64_t offset, int64_t count, int64_t tensor_offset, int64_t n) {
    return torch_legacy(p::dict({{"v", p::tensor(storage_view(offset, count), tensor_offset, {n}, {1})}}),
                        {{"0", kStorages.at("0")}});
  };
  CHECK_EQ(all_values(*open(t, file(1, 2, 0, 2)), "v"), (Values{8, 9}));
  CHECK_EQ(all_values(*open(t, file(1, 2, 1, 1)), "v"), (Values{9}));
  CHECK_ERROR(open(t, file(1, 2, 1, 2)), "tensor 'v'", "elements below 2");
  CHECK_ERROR(open(t, file(1, 3, 0, 1)), "tensor 'v'", "inside the 3");
  CHECK_ERROR(open(t, file(4, 0, 0, 0)), "inside the 3");
  CHECK_ERROR(open(t, file(INT64_MAX, 2, 0, 1)), "inside the 3");
  CHECK_ERROR(open(t, file(-1, 2, 0, 1)), "offset is -1");
}

// Counts that disagree, files that were cut, lists that do not fit.
SLOTSCOPE_CASE(damaged) {
  const std::string good = torch_legacy(two_storages(), kStorages);
  for (size_t cut : {1, 7, 8, 9, 15, 16, 20, 27})
    CHECK_ERROR(open(t, good.substr(0, good.size() - cut)), "storage '", "Incomplete");
  auto storages = kStorages;
  storages["0"].first = 2;
  CHECK_ERROR(open(t, torch_legacy(two_storages(), storages)), "storage '0'", "2 elements in the file, 3 in the pickle");
  storages["0"].first = -1;
  CHECK_ERROR(open(t, torch_legacy(two_storages(), storages)), "storage '0'", "elements in the file");
  storages = kStorages;
  storages["2"] = {1, "abcd"};
  CHECK_ERROR(open(t, torch_legacy(two_storages(), storages)), "storage '2'", "does not refer");
  storages.erase("2");
  storages.erase("1");
  CHECK_ERROR(open(t, torch_legacy(two_storages(), storages)), "storage '1'", "not in the list");
  CHECK_ERROR(open(t, torch_legacy(p::dict({{"a", part("1", INT64_MAX, 0, 2)}}), {{"1", {INT64_MAX, ""}}})),
              "storage '1'", "bytes are left");
  // Two references to one storage that disagree about its size.
  CHECK_ERROR(open(t, torch_legacy(p::dict({{"a", part("1", 2, 0, 2)}, {"b", part("1", 3, 0, 2)}}),
                                   {{"1", kStorages.at("1")}})), "storage '1'", "3 elements");
  CHECK_EQ(open(t, good + "rest")->notes().size(), size_t(1));
  CHECK_ERROR(open(t, torch_legacy(p::dict({{"w", p::call(p::global("posix", "system"), {p::text("touch PWNED")})}}), {})),
              "posix.system is not allowed in a weights file");
  CHECK(!std::filesystem::exists("PWNED"));
  CHECK_ERROR(open(t, pickle("\x8a\x0a" + std::string("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10)) +
                          pickle(p::integer(1000)) + pickle("N")), "protocol", "1000", "1001");
}

// Older and other files are named, with what to do.
SLOTSCOPE_CASE(other_files) {
  std::string tar = "sys_info";
  tar.resize(512, '\0');
  CHECK_ERROR(open(t, tar), "before 0.1.10", "state_dict again");
  tar.assign(1024, '\0');
  tar.replace(257, 5, "ustar");
  CHECK_ERROR(open(t, tar), "before 0.1.10");
  CHECK_ERROR(open(t, pickle(p::integer(5))), "plain pickle", "torch.save");
  CHECK_ERROR(open(t, ""), "empty (0 bytes)");
  CHECK_ERROR(open(t, "\x80"), "plain pickle");
  CHECK_ERROR(open(t, "version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer", "git lfs pull");
  CHECK_ERROR(open(t, "<!DOCTYPE html>"), "web page");
  CHECK_ERROR(open(t, "hello"), "no format that is known");
  CHECK_ERROR(open(t, torch_legacy(two_storages(), kStorages), "model.safetensors"), "pickle", "Rename");
  const auto renamed = open(t, zeros_file({{"w", {2}}}, 3));  // safetensors under another name
  CHECK_EQ(all_values(*renamed, "w"), (Values{3, 3}));
  CHECK(renamed->format() == FileFormat::safetensors);
  CHECK_EQ(renamed->notes().size(), size_t(1));
}

SLOTSCOPE_CASE(mutations) {
  const std::string good = torch_legacy(two_storages(), kStorages);
  const auto path = t.temp() / "model.pt";
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
    for (const int flip : {0x01, 0x02, 0x10, 0x40, 0x80, 0xff, 0x55}) {
      std::string bytes = good;
      bytes[at] = char(bytes[at] ^ flip);
      attempt(bytes);
    }
  }
  CHECK(accepted > 100 && refused > 1000);
  t.note(std::to_string(accepted) + " accepted, " + std::to_string(refused) + " refused");
}
