// safetensors files: what opens, what is refused and in which words (bad-inputs B01 to B03, B05 to B08, B10
// to B12).
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

namespace {

std::shared_ptr<const Checkpoint> open_bytes(Context& t, std::string_view bytes) {
  const auto path = t.temp() / "model.safetensors";
  write_file(path, bytes);
  return Checkpoint::open(path);
}

std::vector<double> values(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* tensor = checkpoint.find(name);
  return tensor ? read_values(checkpoint, *tensor, 0, element_count(*tensor)) : std::vector<double>{};
}

}  // namespace

// The bundled checkpoint opens; its numbers are those that Python reads.
SLOTSCOPE_CASE(bundled_checkpoint) {
  const auto checkpoint = Checkpoint::open(t.resource("checkpoints/raven-passkey"));
  const TensorInfo* embedding = checkpoint->find("model.embeddings.weight");
  CHECK(embedding != nullptr);
  if (!embedding) return;
  CHECK_EQ(embedding->dtype, DType::bf16);
  CHECK_EQ(embedding->shape, (std::vector<int64_t>{260, 256}));
  CHECK_EQ(embedding->bytes, uint64_t(260 * 256 * 2));
  CHECK(checkpoint->config() != nullptr);
  CHECK_EQ((*checkpoint->config())["model_type"].get<std::string>(), std::string("raven"));
  CHECK(checkpoint->find("__metadata__") == nullptr);
  CHECK(checkpoint->find("model.embeddings.weigh") == nullptr);
}

// B01: the likely kind is named, and the size; nothing is allocated from the number read.
SLOTSCOPE_CASE(wrong_kind) {
  const std::string lfs =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') + "\nsize 123\n";
  CHECK_ERROR(open_bytes(t, lfs), "Git LFS pointer", "git lfs pull", "model.safetensors",
              std::to_string(lfs.size()));
  CHECK_ERROR(open_bytes(t, std::string("PK\x03\x04\x14\0\0\0\x08\x08\0\0\0\0", 14)), "torch zip", "Rename",
              "14 bytes");
  CHECK_ERROR(open_bytes(t, "<!DOCTYPE html>"), "web page", "download failed", "15 bytes");
  CHECK_ERROR(open_bytes(t, "\n <HTML><body></body></html>"), "web page");
  CHECK_ERROR(open_bytes(t, ""), "empty", "0 bytes");
  CHECK_ERROR(open_bytes(t, "1234567"), "too short", "7 bytes");
  CHECK_ERROR(open_bytes(t, std::string("\x80\x02}q\x00(X\x01\0\0\0wq", 14)), "pickle");
  CHECK_ERROR(open_bytes(t, "{\"weight_map\": {}}"), "JSON");
  CHECK_ERROR(Checkpoint::open(t.temp() / "nothing.safetensors"), "does not exist", "nothing.safetensors");
}

// B02: lengths that wrap or exceed the file.
SLOTSCOPE_CASE(header_length) {
  for (const uint64_t n : {UINT64_MAX, UINT64_MAX - 7, uint64_t(1) << 63, uint64_t(100'000'001)})
    CHECK_ERROR(open_bytes(t, le64(n) + "{}"),
                "header length " + std::to_string(n) + " is over the 100,000,000 byte limit");
  CHECK_ERROR(open_bytes(t, le64(3) + "{}"), "header needs 3 bytes, file has 2");
  CHECK_ERROR(open_bytes(t, le64(0)), "header", "JSON");
  CHECK_ERROR(open_bytes(t, le64(100'000'000) + "{}"), "header needs 100000000 bytes, file has 2");
}

// B02, B14: refusing takes no memory worth mentioning. The address space is limited to 50 MB more than there
// is now, so that a larger request fails with std::bad_alloc, which is no slotscope::Error. (The address
// sanitizer needs terabytes of it.)
SLOTSCOPE_CASE(refused_without_memory) {
#if defined(__SANITIZE_ADDRESS__)
  t.skip("the address space cannot be limited under the address sanitizer");
#else
  const auto folder = t.temp();
  const std::string entries = "{\"w\":" + entry("F32", "[1]", 0, 1ull << 60) + "}";
  const std::string shaped = "{\"w\":" + entry("U8", "[1152921504606846976]", 0, 1ull << 60) + "}";
  std::vector<std::string> files = {le64(UINT64_MAX) + "{}",  le64(1ull << 63) + "{}",
                                    le64(100'000'000) + "{}", le64(100'000'001) + "{}",
                                    safetensors(entries),     safetensors(shaped)};
  for (size_t i = 0; i < files.size(); ++i)
    write_file(folder / (std::to_string(i) + ".safetensors"), files[i]);
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  if (!(statm >> pages)) t.skip("no /proc/self/statm here");
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlimit tight = before;
  tight.rlim_cur = std::min<rlim_t>(before.rlim_max, pages * uint64_t(::sysconf(_SC_PAGESIZE)) + (50u << 20));
  ::setrlimit(RLIMIT_AS, &tight);
  int refused = 0;
  for (size_t i = 0; i < files.size(); ++i) try {
      Checkpoint::open(folder / (std::to_string(i) + ".safetensors"));
    } catch (const slotscope::Error&) {
      ++refused;
    } catch (const std::exception&) {
    }
  bool limited = false;  // the limit works at all
  try {
    limited = std::vector<char>(200u << 20).empty();
  } catch (const std::bad_alloc&) {
    limited = true;
  }
  ::setrlimit(RLIMIT_AS, &before);
  CHECK_EQ(refused, int(files.size()));
  CHECK(limited);
#endif
}

// B03: a header of exactly the cap opens; one byte more does not. 100,000 entries list fast.
SLOTSCOPE_CASE(large_header) {
  const auto folder = t.temp();
  std::string header = "{\"w\":" + entry("F32", "[1]", 0, 4) + "}";
  header.append(100'000'000 - header.size(), ' ');
  {
    std::ofstream out(folder / "cap.safetensors", std::ios::binary);
    out << le64(header.size()) << header << raw<float>({1});
  }
  const auto checkpoint = Checkpoint::open(folder / "cap.safetensors");
  CHECK_EQ(values(*checkpoint, "w"), std::vector<double>{1});
  {
    std::ofstream out(folder / "over.safetensors", std::ios::binary);
    out << le64(header.size() + 1) << header << ' ' << raw<float>({1});
  }
  CHECK_ERROR(Checkpoint::open(folder / "over.safetensors"), "100,000,000", "100000001");

  std::string many = "{";
  for (int i = 0; i < 100'000; ++i)
    many += (i ? "," : "") + std::string("\"model.layers.") + std::to_string(i) +
            ".weight\":" + entry("F32", "[1]", i * 4, i * 4 + 4);
  const auto path = folder / "many.safetensors";
  write_file(path, safetensors(many + "}", std::string(400'000, '\0')));
  const auto start = std::chrono::steady_clock::now();
  const auto listed = Checkpoint::open(path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK_EQ(listed->tensors().size(), size_t(100'000));
  CHECK(listed->find("model.layers.99999.weight") != nullptr);
  CHECK(seconds < 10);  // a guard at five times the 2 s that the window may take
  t.note("100,000 entries listed in " + std::to_string(seconds) + " s");
}

// B05: a name twice is refused, whatever the offsets; also a key twice inside an entry.
SLOTSCOPE_CASE(duplicate_names) {
  const std::string first = entry("F32", "[1]", 0, 4), second = entry("F32", "[1]", 4, 8);
  CHECK_ERROR(open_bytes(t, safetensors("{\"a\":" + first + ",\"a\":" + second + "}", raw<float>({1, 2}))),
              "tensor 'a' appears twice in the header");
  CHECK_ERROR(open_bytes(t, safetensors("{\"a\":" + first + ",\"a\":" + first + "}", raw<float>({1}))),
              "tensor 'a' appears twice in the header");
  CHECK_ERROR(
      open_bytes(
          t, safetensors("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                         raw<float>({1}))),
      "'dtype' appears twice", "tensor 'a'");
  // Written with an escape it is still the same name.
  CHECK_ERROR(
      open_bytes(t, safetensors("{\"a\":" + first + ",\"\\u0061\":" + second + "}", raw<float>({1, 2}))),
      "tensor 'a' appears twice in the header");
}

// B06: the __metadata__ entry in all its forms.
SLOTSCOPE_CASE(metadata) {
  const std::string w = "\"w\":" + entry("F32", "[1]", 0, 4);
  for (const std::string form : {"{}", "null", "{\"format\":\"pt\"}", "{\"format\":\"pt\",\"b\":\"\"}"}) {
    const auto checkpoint =
        open_bytes(t, safetensors("{\"__metadata__\":" + form + "," + w + "}", raw<float>({7})));
    CHECK_EQ(checkpoint->tensors().size(), size_t(1));
    CHECK_EQ(values(*checkpoint, "w"), std::vector<double>{7});
  }
  CHECK_EQ(open_bytes(t, safetensors("{" + w + "}", raw<float>({7})))->tensors().size(), size_t(1));
  const auto only = open_bytes(t, safetensors("{\"__metadata__\":{\"k\":\"v\"}}"));
  CHECK_EQ(only->tensors().size(), size_t(0));
  CHECK(only->notes().size() == 1 && only->notes()[0].find("no weights") != std::string::npos);
  CHECK_ERROR(open_bytes(t, safetensors("{\"__metadata__\":{\"n\":0}," + w + "}", raw<float>({7}))),
              "metadata value 'n' must be text");
  CHECK_ERROR(open_bytes(t, safetensors("{\"__metadata__\":{\"n\":{}}," + w + "}", raw<float>({7}))),
              "metadata value 'n' must be text");
  CHECK_ERROR(open_bytes(t, safetensors("{\"__metadata__\":[1]," + w + "}", raw<float>({7}))), "__metadata__",
              "texts");
}

// B07: the data must be covered exactly; the order of the header does not matter.
SLOTSCOPE_CASE(layout) {
  const std::string a = "{\"a\":" + entry("F32", "[2]", 0, 8);
  const auto with = [&](std::string_view rest, size_t bytes) {
    return open_bytes(t, safetensors(a + std::string(rest) + "}", std::string(bytes, '\0')));
  };
  CHECK_ERROR(with(",\"b\":" + entry("F32", "[2]", 4, 12), 12), "overlap between 'a' and 'b'");
  CHECK_ERROR(with(",\"b\":" + entry("F32", "[2]", 16, 24), 24), "8 unused bytes before 'b'");
  CHECK_ERROR(with("", 12), "4 extra bytes at end");
  CHECK_ERROR(with("", 4), "file is 4 bytes short");
  CHECK_ERROR(open_bytes(t, safetensors("{\"a\":" + entry("F32", "[2]", 8, 16) + "}", std::string(16, '\0'))),
              "8 unused bytes before 'a'");
  const auto swapped = open_bytes(
      t, safetensors("{\"b\":" + entry("F32", "[2]", 8, 16) + ",\"a\":" + entry("F32", "[2]", 0, 8) + "}",
                     raw<float>({1, 2, 3, 4})));
  CHECK_EQ(values(*swapped, "a"), (std::vector<double>{1, 2}));
  CHECK_EQ(values(*swapped, "b"), (std::vector<double>{3, 4}));
  // Empty tensors take no bytes and may share an offset.
  const auto empty = open_bytes(
      t, safetensors("{\"a\":" + entry("F32", "[0,3]", 0, 0) + ",\"b\":" + entry("F32", "[1]", 0, 4) +
                         ",\"c\":" + entry("F32", "[2,0]", 4, 4) + "}",
                     raw<float>({5})));
  CHECK_EQ(values(*empty, "b"), std::vector<double>{5});
  CHECK_EQ(values(*empty, "c"), std::vector<double>{});
}

// B08: offsets and shapes that are no sane numbers, for known and unknown dtypes.
SLOTSCOPE_CASE(offsets_and_shapes) {
  for (const std::string dtype : {"F32", "XF9"}) {
    for (const std::string offsets :
         {"[8,0]", "[-4,4]", "[0,4.5]", "[0]", "[]", "[0,4,8]", "[\"0\",\"4\"]", "null", "{}", "4", "[0,1e1]",
          "[0,18446744073709551616]", "[[0],4]", "[true,4]"}) {
      CHECK_ERROR(open_bytes(t, safetensors("{\"w\":{\"dtype\":\"" + dtype +
                                                "\",\"shape\":[1],\"data_offsets\":" + offsets + "}}",
                                            std::string(8, '\0'))),
                  "tensor 'w'", "data_offsets");
    }
    const auto shaped = [&](std::string_view shape, uint64_t end) {
      return open_bytes(t, safetensors("{\"w\":" + entry(dtype, shape, 0, end) + "}", std::string(4, '\0')));
    };
    CHECK_ERROR(shaped("[1]", UINT64_MAX), "model.safetensors", dtype == "F32" ? "tensor 'w'" : "short");
    CHECK_ERROR(shaped("[2,18446744073709551614]", 4), "tensor 'w'", "shape");
    CHECK_ERROR(shaped("[4294967296,4294967296]", 4), "tensor 'w'", "too large");
    CHECK_ERROR(shaped("[0,4294967296,4294967296]", 0), "tensor 'w'", "too large");
    CHECK_ERROR(shaped("[-1]", 4), "tensor 'w'", "shape");
    CHECK_ERROR(shaped("[1.0]", 4), "tensor 'w'", "shape");
    CHECK_ERROR(shaped("4", 4), "tensor 'w'", "shape");
  }
  CHECK_ERROR(open_bytes(t, safetensors("{\"w\":" + entry("I32", "[2,2]", 0, 4) + "}", std::string(4, '\0'))),
              "tensor 'w'", "needs 16 bytes", "give 4");
  CHECK_ERROR(open_bytes(t, safetensors("{\"w\":" + entry("F4", "[3]", 0, 1) + "}", "x")), "tensor 'w'");
  CHECK_ERROR(open_bytes(t, safetensors("{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "1234")),
              "tensor 'w'", "no dtype");
  CHECK_ERROR(open_bytes(t, safetensors("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "1234")),
              "tensor 'w'", "no shape");
  CHECK_ERROR(open_bytes(t, safetensors("{\"w\":5}")), "tensor 'w'");
  CHECK_ERROR(open_bytes(t, safetensors("[1]")), "header");
  CHECK_ERROR(open_bytes(t, safetensors("{\"w\":" + entry("F32", "[1]", 0, 4) + "} x", "1234")),
              "JSON at header byte");
  // An unknown dtype is listed, and only using it is refused, by name.
  const auto unknown = open_bytes(t, safetensors("{\"w\":" + entry("XF9", "[1]", 0, 4) + "}", "1234"));
  CHECK_EQ(unknown->tensors()[0].dtype_text, std::string("XF9"));
  CHECK_ERROR(values(*unknown, "w"), "XF9", "tensor 'w'");
}

// B11: a file that was not fully downloaded says what it promised and how much is there.
SLOTSCOPE_CASE(half_downloaded) {
  std::string good = safetensors("{\"w\":" + entry("F32", "[100]", 0, 400) + "}", std::string(400, '\0'));
  const std::string total = std::to_string(good.size());
  const size_t header = good.size() - 400;
  CHECK_ERROR(open_bytes(t, good.substr(0, 8)),
              "header needs " + std::to_string(header - 8) + " bytes, file has 0", "Incomplete");
  CHECK_ERROR(open_bytes(t, good.substr(0, header / 2 + 4)), "header needs");
  CHECK_ERROR(open_bytes(t, good.substr(0, good.size() - 1)),
              "header promises " + total + " bytes, file has " + std::to_string(good.size() - 1) + " (99%)",
              "incomplete download?", "1 bytes short");
  CHECK_ERROR(open_bytes(t, good.substr(0, header + 200)),
              "model.safetensors: header promises " + total + " bytes", "incomplete download?");
  CHECK_EQ(open_bytes(t, good)->total_bytes(), uint64_t(400));
}

// B12: offsets over 4 GiB in a sparse file; reading in slices on both sides of 2^31 and 2^32.
SLOTSCOPE_CASE(beyond_4_gib) {
  const auto path = t.temp() / "model.safetensors";
  const uint64_t large = 5ull << 30;
  const std::string head = safetensors("{\"a\":" + entry("U8", "[" + std::to_string(large) + "]", 0, large) +
                                       ",\"b\":" + entry("F32", "[1]", large, large + 4) + "}");
  const int descriptor = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  const auto put = [&](uint64_t at, std::string_view bytes) {
    return ::pwrite(descriptor, bytes.data(), bytes.size(), off_t(at)) == ssize_t(bytes.size());
  };
  bool written = descriptor >= 0 && put(0, head) && put(head.size() + large, raw<float>({3}));
  for (const uint64_t at : {uint64_t(1) << 31, uint64_t(1) << 32})
    written = written && put(head.size() + at - 1, "\x11\x22");
  ::close(descriptor);
  if (!written) t.skip("this file system cannot hold a sparse file of 5 GiB");
  const auto checkpoint = Checkpoint::open(path);
  CHECK_EQ(values(*checkpoint, "b"), std::vector<double>{3});
  for (const uint64_t at : {uint64_t(1) << 31, uint64_t(1) << 32})
    CHECK_EQ(read_values(*checkpoint, *checkpoint->find("a"), at - 2, 4),
             (std::vector<double>{0, 0x11, 0x22, 0}));
  CHECK_ERROR(read_values(*checkpoint, *checkpoint->find("a"), large - 1, 2), "range inside");
  CHECK_ERROR(read_values(*checkpoint, *checkpoint->find("a"), UINT64_MAX, 2), "range inside");
}

// A file that shrinks while it is open is an error and no crash.
SLOTSCOPE_CASE(shrinks_while_open) {
  const auto path = t.temp() / "model.safetensors";
  write_file(path, safetensors("{\"w\":" + entry("F32", "[4096]", 0, 16384) + "}", std::string(16384, '\1')));
  const auto checkpoint = Checkpoint::open(path);
  CHECK_EQ(checkpoint->data(checkpoint->tensors()[0]).bytes.size(), size_t(16384));
  std::filesystem::resize_file(path, 100);
  CHECK_ERROR(checkpoint->data(checkpoint->tensors()[0]), "shrank to 100 bytes", "model.safetensors");
}

// No mutation of a good file crashes or opens with a tensor outside the file.
SLOTSCOPE_CASE(mutations) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" + entry("F32", "[2,3]", 0, 24) +
                             ",\"b\":" + entry("BF16", "[4]", 24, 32) +
                             ",\"c.\\u00e9\":" + entry("I64", "[1]", 32, 40) + "}";
  const std::string good = safetensors(header, std::string(40, '\2'));
  const auto path = t.temp() / "model.safetensors";
  uint64_t state = 1;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  const std::string alphabet = "{}[],:\"\\0123456789-.eE ntfu\xff\xc3\x80";
  int opened = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    if (round < int(good.size())) {
      bytes.resize(size_t(round));  // every truncation
    } else {
      for (uint64_t edits = 1 + random(4); edits-- > 0;) {
        const size_t at = random(bytes.size());
        switch (random(4)) {
          case 0:
            bytes[at] = char(random(256));
            break;
          case 1:
            bytes[at] = alphabet[random(alphabet.size())];
            break;
          case 2:
            bytes.erase(at, 1 + random(8));
            break;
          default:
            bytes.insert(at, bytes.substr(random(bytes.size()), random(16)));
            break;
        }
      }
    }
    write_file(path, bytes);
    try {
      const auto checkpoint = Checkpoint::open(path);
      ++opened;
      for (const TensorInfo& tensor : checkpoint->tensors()) {
        CHECK(tensor.offset + tensor.bytes <= bytes.size());
        if (can_compute(tensor.dtype)) read_values(*checkpoint, tensor, 0, element_count(tensor));
      }
    } catch (const slotscope::Error& error) {
      ++refused;
      CHECK(std::string_view(error.what()).find("model.safetensors") != std::string_view::npos);
    }
  }
  CHECK_EQ(opened + refused, 3000);
  CHECK(opened > 50 && refused > 2000);
  t.note(std::to_string(opened) + " mutated files opened, " + std::to_string(refused) + " refused");
}
