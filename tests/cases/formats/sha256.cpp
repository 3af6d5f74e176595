// SHA-256 on the vectors of FIPS 180-4 and NIST's examples; the tensor digest against Python's hashlib.
#include "core/formats/sha256.h"

#include "core/formats/checkpoint.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

SLOTSCOPE_CASE(standard_vectors) {
  CHECK_EQ(sha256_hex(""), std::string("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
  CHECK_EQ(sha256_hex("abc"),
           std::string("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  CHECK_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           std::string("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
  CHECK_EQ(sha256_hex(std::string(1'000'000, 'a')),
           std::string("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
}

// Lengths around the block size, added in pieces.
SLOTSCOPE_CASE(pieces) {
  for (size_t n = 50; n < 140; ++n) {
    std::string text(n, 'x');
    for (size_t i = 0; i < n; ++i) text[i] = char(i * 7);
    Sha256 hash;
    for (size_t at = 0; at < n; at += 13) hash.add(std::string_view(text).substr(at, 13));
    CHECK_EQ(hash.hex(), sha256_hex(text));
  }
}

SLOTSCOPE_CASE(digest_of_tensors) {
  const auto path = t.temp() / "model.safetensors";
  // "a b" sorts before "a" once the line goes on: lines are sorted, not names.
  write_file(path, zeros_file({{"b", {2, 3}}, {"a", {}}, {"a !", {4}, "BF16"}}));
  CHECK_EQ(tensor_digest(*Checkpoint::open(path)), sha256_hex("a ! BF16 [4]\na F32 []\nb F32 [2,3]\n"));
}
