// Strings that Python reads well (B37), and the whole file read by h5py with no help from us.
#include <hdf5.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/made_trace.h"

namespace fs = std::filesystem;
using namespace slotscope;
using namespace slotscope::testing;
using trace::ElementType;
using trace::Hdf5Sink;
using trace::Status;
using trace::Trace;

namespace {

// The output of the script, or a skip when there is no Python with h5py here.
nlohmann::json read_with_h5py(Context& t, const fs::path& file) {
  if (std::system("/usr/bin/python3 -c 'import h5py' >/dev/null 2>&1") != 0)
    t.skip("/usr/bin/python3 has no h5py here");
  const fs::path script = t.data("cases/trace/read_with_h5py.py"), out = t.temp() / "out.json";
  if (!fs::exists(script)) t.skip("the script lies in the source tree, which is not here");
  const std::string command =
      "/usr/bin/python3 '" + script.string() + "' '" + file.string() + "' > '" + out.string() + "' 2>&1";
  const int code = std::system(command.c_str());
  std::ifstream stream(out);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (code != 0) throw std::runtime_error("h5py: " + text);
  return nlohmann::json::parse(text);
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Tokens "", "é", "a\0b", 300 bytes, the raw byte F0; the same as prompt text.
const std::vector<std::string> kTokens{"", "é", std::string("a\0b", 3), std::string(300, 'x'), "\xf0"};

fs::path write_tokens(const fs::path& out, const std::string& text, const std::string& answer) {
  trace::RunSpec run;
  run.name = "strings ü";
  run.has_text = true;
  run.text = text;
  run.prompt_tokens = 5;
  run.char_begin = run.char_end = {0, 0, 0, 0, 0};
  run.spans = {{"needle", 0, 1}, {std::string(31, 'n') + "é", 1, 2}, {"schlüssel", 2, 3}};
  run.has_answer = true;
  run.answer = answer;
  run.datasets = {{"tokens/ids", ElementType::i32, true, {}, 5, "T", "ids"},
                  {"tokens/bytes", ElementType::u8, true, {}, 20, "N", "bytes"},
                  {"tokens/byte_offsets", ElementType::i64, true, {}, 6, "T+1", "offsets"},
                  {"output/text", ElementType::u8, true, {}, 8, "N", "text"}};
  Hdf5Sink sink(out);
  sink.begin({}, {run});
  std::string all;
  std::vector<int64_t> offsets{0};
  for (const auto& token : kTokens) {
    all += token;
    offsets.push_back(int64_t(all.size()));
  }
  sink.append(0, 0, 5, bytes_of(std::vector<int32_t>{1, 2, 3, 4, 5}));
  sink.append(0, 1, int64_t(all.size()), bytes_of(std::vector<char>(all.begin(), all.end())));
  sink.append(0, 2, 6, bytes_of(offsets));
  const std::string said = "grün";
  sink.append(0, 3, int64_t(said.size()), bytes_of(std::vector<char>(said.begin(), said.end())));
  sink.tokens_done(0, 5);
  sink.finish(Status::complete);
  return out;
}

}  // namespace

SLOTSCOPE_CASE(awkward_tokens_come_back_byte_for_byte) {
  const std::string text = "é\xf0" + std::string("\0", 1) + "ende", answer = std::string("a\0b", 3);
  const auto file = Trace::open(write_tokens(t.temp() / "trace.h5", text, answer));
  const auto& run = file->run(0);
  for (size_t i = 0; i < kTokens.size(); ++i)
    CHECK_EQ(run.token_bytes(int64_t(i)), std::string_view(kTokens[i]));
  CHECK(run.token_bytes(5).empty() && run.token_bytes(-1).empty());
  CHECK_EQ(run.text, text);
  CHECK_EQ(run.answer, answer);
  CHECK_EQ(run.output_text, std::string("grün"));
  CHECK_EQ(run.name, std::string("strings ü"));
  CHECK_EQ(run.spans[1].name, std::string(31, 'n'));  // 32 bytes, and never half a character
  CHECK_EQ(run.spans[2].name, std::string("schlüssel"));
}

SLOTSCOPE_CASE(awkward_tokens_in_h5py) {
  const std::string text = "é\xf0" + std::string("\0", 1) + "ende";
  const auto j = read_with_h5py(t, write_tokens(t.temp() / "trace.h5", text, "ok"));
  CHECK_EQ(j["token_bytes"].get<std::vector<std::string>>(), (std::vector<std::string>{"", "c3a9", "610062",
                                                                                       [] {
                                                                                         std::string s;
                                                                                         for (int i = 0;
                                                                                              i < 300; ++i)
                                                                                           s += "78";
                                                                                         return s;
                                                                                       }(),
                                                                                       "f0"}));
  CHECK_EQ(j["text"].get<std::string>(),
           std::string("é␦␀ende"));  // one code point for one: offsets stay right
  CHECK_EQ(j["datasets"]["runs/0000/prompt/text_bytes"]["shape"].get<std::vector<int>>(),
           (std::vector<int>{8}));
  CHECK_EQ(j["output_text"].get<std::string>(), std::string("grün"));
  CHECK_EQ(j["spans"][2][0].get<std::string>(), std::string("schlüssel"));
  CHECK(j["without_description"].empty());
}

SLOTSCOPE_CASE(h5py_reads_everything) {
  MadeOptions o{.weight = ElementType::f16};
  const fs::path out = t.temp() / "trace.h5";
  const std::vector<trace::RunSpec> runs{made_run(o, 0)};
  trace::MemorySink memory;
  Hdf5Sink sink(out);
  for (trace::Sink* s : {static_cast<trace::Sink*>(&memory), static_cast<trace::Sink*>(&sink)}) {
    s->begin(made_model(), runs);
    feed(*s, runs, o);
    s->finish(Status::complete);
  }
  const auto j = read_with_h5py(t, out);
  CHECK_EQ(j["root"]["format"].get<std::string>(), std::string("slotscope-trace"));
  CHECK_EQ(j["root"]["format_version"].get<int>(), 1);
  CHECK_EQ(j["root"]["status"].get<int>(), 1);
  CHECK_EQ(j["root"]["tokens_done"].get<int>(), 300);
  CHECK_EQ(j["root_types"]["format_version"].get<std::string>(), std::string("int32"));
  CHECK_EQ(j["root_types"]["status"].get<std::string>(), std::string("int32"));
  CHECK(j["root"]["created"].get<std::string>().size() == 20 && j["root"].contains("writer_version"));
  CHECK_EQ(j["run"]["prompt_tokens"].get<int>(), 290);
  CHECK_EQ(j["run"]["tokens_done"].get<int>(), 300);
  CHECK_EQ(j["run"]["name"].get<std::string>(), runs[0].name);
  CHECK_EQ(j["run"]["depth"].get<double>(), 0.5);
  CHECK_EQ(j["run"]["list"].get<std::vector<int>>(), (std::vector<int>{1, 2, 3}));
  CHECK_EQ(j["config"].get<std::string>(), made_model().config_json);
  for (const char* name :
       {"family", "flavour", "dtype", "router_dtype", "device", "checkpoint", "tensor_digest"})
    CHECK(!j["model"][name].get<std::string>().empty());
  CHECK_EQ(j["text"].get<std::string>(), runs[0].text);
  CHECK_EQ(j["answer"].get<std::string>(), runs[0].answer);
  CHECK_EQ(j["exact"][0].get<int>(), 1);
  CHECK_EQ(j["exact"][1].get<std::string>(), std::string("uint8"));
  CHECK(j["spans"] == nlohmann::json::parse(R"([["needle",10,20],["answer",290,300]])"));
  CHECK(j["span_type"] == nlohmann::json::parse(R"(["|S32","utf-8",true])"));
  for (const char* name : {"family", "route_kind", "heads", "route_heads", "slots", "top_k"})
    for (const char* layer : {"0", "1", "2"}) CHECK(j["layers"][layer].contains(name));
  CHECK_EQ(j["layers"]["1"]["slots"].get<int>(), 16);
  CHECK_EQ(j["layers"]["2"]["route_kind"].get<std::string>(), std::string("append"));
  CHECK(j["without_description"].empty());
  const char* const names[] = {"uint8", "uint16",  "uint32",  "int32",
                               "int64", "float16", "float32", "float64"};
  for (const auto& spec : runs[0].datasets) {
    const auto& d = j["datasets"]["runs/0000/" + spec.path];
    if (d.is_null()) {
      t.fail(spec.path + " is not in h5py's list", __FILE__, __LINE__);
      continue;
    }
    const auto values = memory.values(0, spec.path);
    double sum = 0;
    for (const double v : values) sum += v;
    CHECK_EQ(d["type"].get<std::string>(), std::string(names[int(spec.type)]));
    CHECK_EQ(d["axes"].get<std::string>(), spec.axes);
    CHECK_CLOSE(d["sum"].get<double>(), sum, 1e-9 * std::max(1.0, std::abs(sum)));
    if (!values.empty()) CHECK_EQ(d["last"].get<double>(), values.back());
    if (spec.growing) CHECK(d["filters"] == nlohmann::json::parse(R"([true,"gzip",1])"));
  }
}

namespace {

hid_t foreign_string(bool variable, bool utf8, size_t size, H5T_str_t padding) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, variable ? H5T_VARIABLE : size);
  H5Tset_cset(type, utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
  if (!variable) H5Tset_strpad(type, padding);
  return type;
}

void replace_text(hid_t file, const char* path, hid_t type, const void* data, hsize_t elements) {
  H5Ldelete(file, path, H5P_DEFAULT);
  const hid_t space = elements == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &elements, nullptr);
  const hid_t dataset = H5Dcreate2(file, path, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  H5Dclose(dataset);
  H5Sclose(space);
}

void replace_format(hid_t file, hid_t type, const void* data) {
  H5Adelete(file, "format");
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, "format", type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, data);
  H5Aclose(attribute);
  H5Sclose(space);
}

}  // namespace

// Other writers (h5py, MATLAB, Fortran) use fixed lengths, ASCII, paddings, one-element arrays.
SLOTSCOPE_CASE(strings_of_other_writers) {
  struct Form {
    bool variable, utf8;
    H5T_str_t padding;
    hsize_t elements;
  };
  for (const Form& form : {Form{true, false, H5T_STR_NULLTERM, 0}, Form{true, true, H5T_STR_NULLTERM, 1},
                           Form{false, false, H5T_STR_NULLPAD, 0}, Form{false, true, H5T_STR_NULLTERM, 0},
                           Form{false, false, H5T_STR_SPACEPAD, 1}, Form{false, true, H5T_STR_SPACEPAD, 0}}) {
    const fs::path out = write_tokens(t.temp() / "trace.h5", "text", "answer");
    const hid_t file = H5Fopen(out.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t type = foreign_string(form.variable, form.utf8, 24, form.padding);
    const hid_t format = foreign_string(form.variable, form.utf8, 24, form.padding);
    const char fill = form.padding == H5T_STR_SPACEPAD ? ' ' : '\0';
    std::string text = "a foreign text", name = "slotscope-trace";
    text.resize(24, fill);
    name.resize(24, fill);
    const char* text_pointer = "a foreign text";
    const char* name_pointer = "slotscope-trace";
    replace_text(file, "/runs/0000/prompt/text", type,
                 form.variable ? static_cast<const void*>(&text_pointer) : text.data(), form.elements);
    replace_format(file, format, form.variable ? static_cast<const void*>(&name_pointer) : name.data());
    H5Tclose(type);
    H5Tclose(format);
    H5Fclose(file);
    CHECK_EQ(Trace::open(out)->run(0).text, std::string("a foreign text"));
  }
}

// Spans with another name length, variable names, big-endian numbers and another order of members.
SLOTSCOPE_CASE(spans_of_other_writers) {
  for (const bool variable : {false, true}) {
    const fs::path out = write_tokens(t.temp() / "trace.h5", "text", "answer");
    const hid_t file = H5Fopen(out.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t name = foreign_string(variable, false, 10, H5T_STR_SPACEPAD);
    const size_t width = variable ? sizeof(char*) : 10;
    const hid_t type = H5Tcreate(H5T_COMPOUND, 16 + width), memory = H5Tcreate(H5T_COMPOUND, 16 + width);
    for (const hid_t id : {type, memory}) {
      H5Tinsert(id, "end", 0, id == type ? H5T_STD_I64BE : H5T_NATIVE_INT64);
      H5Tinsert(id, "begin", 8, id == type ? H5T_STD_I64BE : H5T_NATIVE_INT64);
      H5Tinsert(id, "name", 16, name);
    }
    std::vector<char> record(16 + width, ' ');
    const int64_t begin = 3, end = 4;
    std::memcpy(record.data(), &end, 8);
    std::memcpy(record.data() + 8, &begin, 8);
    const char* pointer = "query";
    if (variable)
      std::memcpy(record.data() + 16, &pointer, sizeof pointer);
    else
      std::memcpy(record.data() + 16, "query", 5);
    H5Ldelete(file, "/runs/0000/prompt/spans", H5P_DEFAULT);
    const hsize_t one = 1;
    const hid_t space = H5Screate_simple(1, &one, nullptr);
    const hid_t dataset =
        H5Dcreate2(file, "/runs/0000/prompt/spans", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, record.data()) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(memory);
    H5Tclose(name);
    H5Fclose(file);
    const auto spans = Trace::open(out)->run(0).spans;
    CHECK(spans == (std::vector<Span>{{"query", 3, 4}}));
  }
}
