// --ids-file: one prompt or several, and where something is wrong.
#include "core/error.h"
#include "core/formats/prompt.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

SLOTSCOPE_CASE(ids_files) {
  const auto path = t.temp() / "ids.json";
  const auto read = [&](std::string_view text) {
    write_file(path, text);
    return prompts_from_ids_file(path.string());
  };
  const auto one = read(" [1, 2,\n3]");
  CHECK_EQ(one.size(), size_t(1));
  CHECK_EQ(one[0].ids, (std::vector<int32_t>{1, 2, 3}));
  CHECK_EQ(one[0].roles.size(), size_t(3));
  CHECK_EQ(one[0].name, std::string("ids.json"));
  CHECK(!one[0].has_text);
  const auto two = read("[[5],[6,2147483647]]");
  CHECK_EQ(two.size(), size_t(2));
  CHECK_EQ(two[1].ids, (std::vector<int32_t>{6, 2147483647}));
  CHECK_ERROR(read("[1,2.5]"), "ids.json", "[1]", "2.5");
  CHECK_ERROR(read("[1,-1]"), "[1]", "-1");
  CHECK_ERROR(read("[1,2147483648]"), "[1]", "2147483648");
  CHECK_ERROR(read("[1,\"2\"]"), "[1]");
  CHECK_ERROR(read("[true]"), "[0]", "true");
  CHECK_ERROR(read("[[1],[2,null]]"), "[1][1]", "null");
  CHECK_ERROR(read("[[1],2]"), "[1]", "array");
  CHECK_ERROR(read("[1,[2]]"), "[1]", "array");
  CHECK_ERROR(read("[]"), "empty");
  CHECK_ERROR(read("[[1],[]]"), "[1]", "empty");
  CHECK_ERROR(read("{\"ids\":[1]}"), "object", "JSON array");
  CHECK_ERROR(read("[1,"), "not valid JSON at byte");
  CHECK_ERROR(read(""), "not valid JSON");
  CHECK_ERROR(prompts_from_ids_file((path.parent_path() / "none.json").string()), "none.json");
  CHECK_ERROR(prompt_from_ids({1, -3}, "ids"), "ids[1]", "-3");
}
