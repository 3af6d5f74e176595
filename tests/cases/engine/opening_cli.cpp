// slotscope-cli info on a model of 22 GB reads its headers and no more: what of the weight file is in memory after the program
// has ended.
#include "tests/cases/wide_model.h"

namespace slotscope::testing {

SLOTSCOPE_CASE(info_of_20_gb_reads_headers) {
  const auto made = wide_model(bundled(t), t.temp());
  if (!made) t.skip("this file system cannot hold a sparse file of 20 GB");
  const WideModel& folder = *made;
  CHECK(folder.size > 19'000'000'000);
  for (const Words& more : {Words{}, Words{"--json"}, Words{"--json", "--tensors"}}) {
    Words words = {"info", folder.path.string()};
    words.insert(words.end(), more.begin(), more.end());
    const Child c = run_cli(words);
    EXPECT_CODE(c, 0, "info");
    if (more.empty()) continue;
    const json d = document(c);
    CHECK_EQ(d["runnable"].get<bool>(), true);
    if (!d["runnable"].get<bool>()) t.note(d["why_not_runnable"].get<std::string>());
    CHECK_EQ(d["tensor_count"].get<size_t>(), folder.tensors);
    CHECK_EQ(d["bytes"].get<uint64_t>(), folder.size - folder.header);
  }
  const auto touched = bytes_in_memory(folder.file);
  if (!touched) t.skip("the system does not say what is in memory");
  CHECK(*touched >= folder.header);
  CHECK(*touched <= folder.header + (1 << 20));
  t.note(std::to_string(folder.size) + " bytes, header " + std::to_string(folder.header) + ": " + std::to_string(*touched) +
         " bytes of the file in memory after info, info --json and info --json --tensors");
  // The measure sees a tensor that is read: one of 134 MB of zeros.
  const Child read = run_cli({"info", folder.path.string(), "--tensor", "model.layers.11.attn.q_proj.weight", "--json"});
  EXPECT_CODE(read, 0, "info --tensor");
  CHECK_EQ(document(read)["statistics"]["zeros"].get<uint64_t>(), uint64_t(8192 * 8192));
  CHECK(bytes_in_memory(folder.file).value() >= *touched + 8192 * 8192 * 2);
}

}  // namespace slotscope::testing
