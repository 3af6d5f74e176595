// What a listing adds up to: files, dtypes, tensors on the same memory.
#include "core/formats/checkpoint_summary.h"

#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/listed_checkpoint.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

SLOTSCOPE_CASE(counts_per_file_and_dtype) {
  const auto folder = t.temp();
  write_file(folder / "a.bin", std::string(1000, 'x'));
  ListedCheckpoint c;
  c.file_list = {folder / "a.bin", folder / "gone.bin"};
  c.add("w", {3, 5}, DType::bf16);
  c.add("x", {7}, DType::f32);
  c.add("y", {2, 2}, DType::bf16).file = 1;
  c.add("z", {}, DType::i64);
  const CheckpointSummary s = summarise_listing(c);
  CHECK_EQ(s.files.size(), size_t(2));
  CHECK(s.files[0].bytes == uint64_t(1000));
  CHECK(!s.files[1].bytes);  // gone since it was opened
  CHECK_EQ(s.files[0].tensors, uint64_t(3));
  CHECK_EQ(s.files[0].tensor_bytes, uint64_t(30 + 28 + 8));
  CHECK_EQ(s.files[1].tensors, uint64_t(1));
  CHECK_EQ(s.files[1].tensor_bytes, uint64_t(8));
  CHECK_EQ(s.dtypes.size(), size_t(3));
  CHECK_EQ(s.dtypes[0].dtype, std::string("BF16"));  // 38 bytes, F32 28, I64 8
  CHECK_EQ(s.dtypes[0].tensors, uint64_t(2));
  CHECK_EQ(s.dtypes[0].elements, uint64_t(19));
  CHECK_EQ(s.dtypes[0].bytes, uint64_t(38));
  CHECK_EQ(s.dtypes[1].dtype, std::string("F32"));
  CHECK_EQ(s.dtypes[2].elements, uint64_t(1));
  CHECK_EQ(s.elements, uint64_t(15 + 7 + 4 + 1));
  CHECK(s.shared.empty());
}

// Embedding and head on one storage count once; another view of the same storage is shared but not tied.
SLOTSCOPE_CASE(tied_tensors_count_once) {
  ListedCheckpoint c;
  c.add("embed", {10, 4});
  c.tie("head", "embed");
  TensorInfo& part = c.tie("part", "embed");
  part.shape = {2, 4};
  part.bytes = 32;
  TensorInfo& turned = c.tie("turned", "embed");
  turned.shape = {4, 10};
  turned.strides = {1, 4};
  c.sort();
  const CheckpointSummary s = summarise_listing(c);
  CHECK_EQ(s.shared.size(), size_t(3));
  for (const SharedTensor& shared : s.shared) {
    CHECK_EQ(c.tensors()[shared.with].name, std::string("embed"));
    CHECK_EQ(shared.tied, c.tensors()[shared.tensor].name == "head");
  }
  CHECK_EQ(s.dtypes.size(), size_t(1));
  CHECK_EQ(s.dtypes[0].tensors, uint64_t(4));
  CHECK_EQ(s.dtypes[0].elements, uint64_t(40 + 8 + 40));  // the head is the embedding
  CHECK_EQ(s.files[0].tensors, uint64_t(4));
  CHECK_EQ(s.files[0].tensor_bytes, uint64_t(160 + 32 + 160));
}

// A name that a reader got wrong is no crash, and a tensor never shares with itself.
SLOTSCOPE_CASE(names_that_are_not_there_share_nothing) {
  ListedCheckpoint c;
  c.add("a", {4}).shares_with = "b";
  c.add("c", {4}).shares_with = "c";
  c.add("odd", {3}, DType::unknown).dtype_text = "F3";
  c.tensor_list.back().bytes = 2;
  const CheckpointSummary s = summarise_listing(c);
  CHECK(s.shared.empty());
  CHECK_EQ(s.elements, uint64_t(8));
  CHECK_EQ(s.dtypes.back().dtype, std::string("F3"));
  CHECK_EQ(s.dtypes.back().elements, uint64_t(0));
  CHECK_EQ(s.dtypes.back().bytes, uint64_t(2));
}
