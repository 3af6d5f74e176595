// The first half of TraceFile: everything that must exist before the file switches to SWMR write.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "core/trace/chunk_layout.h"
#include "core/trace/file_lock.h"
#include "core/trace/trace_file.h"

namespace slotscope::trace {
namespace {

#ifndef SLOTSCOPE_VERSION
#define SLOTSCOPE_VERSION "0.1.0"
#endif

std::string now() {
  const std::time_t t = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&t, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// Links and attributes stay inside the object header (no dense storage). Attributes are rewritten while
// readers look on; and HDF5 1.10 runs into freed memory when it meets a damaged dense group, while a header
// has a checksum.
void keep_compact(hid_t properties, bool group) {
  H5Pset_attr_phase_change(properties, 4096, 0);
  if (group) H5Pset_link_phase_change(properties, 60000, 0);
}

Handle make_group(hid_t parent, const std::string& name, const std::string& file) {
  const Handle properties(H5Pcreate(H5P_GROUP_CREATE));
  keep_compact(properties, true);
  return Handle(checked(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), file, name,
                        "cannot create the group"));
}

void add_attributes(hid_t object, const Attributes& list, const std::string& file) {
  for (const auto& [name, value] : list)
    if (!has_attribute(object, name.c_str()))
      write_attribute(object, name, value, file);  // the format's own names win
}

void describe(hid_t dataset, const std::string& axes, const std::string& description,
              const std::string& file) {
  write_attribute(dataset, "axes", axes, file);
  write_attribute(dataset, "description", description, file);
}

void write_array(hid_t group, const char* name, hid_t type, hid_t memory, hsize_t n, const void* data,
                 const char* axes, const char* description, const std::string& file) {
  const Handle space(H5Screate_simple(1, &n, nullptr));
  const Handle dataset(checked(H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                               file, name, "cannot create the dataset"));
  if (n > 0 && H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    fail_hdf5(file, name, "cannot write the dataset");
  describe(dataset, axes, description, file);
}

// Text, and its exact bytes beside it when a string cannot hold them (NUL, bytes that are no UTF-8).
void write_exact_text(hid_t group, const char* name, const std::string& text, const char* description,
                      const std::string& file) {
  write_text(group, name, text, description, file);
  int64_t changed = 0;
  storable_text(text, changed);
  if (changed > 0)
    write_array(group, (std::string(name) + "_bytes").c_str(), H5T_STD_U8LE, H5T_NATIVE_UINT8, text.size(),
                text.data(), "N", "exact bytes of the text beside it, which cannot hold them", file);
}

}  // namespace

void TraceFile::create(const ModelSpec& model, const std::vector<RunSpec>& runs) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  if (swmr_) {
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  } else {
    // The oldest superblock has no "open for writing" mark: a file whose writer died opens without a repair.
    H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
  }
  H5Pset_file_locking(access, false,
                      true);  // FileLock holds the claim; HDF5_USE_FILE_LOCKING overrides this inside HDF5
  const Handle properties(H5Pcreate(H5P_FILE_CREATE));
  keep_compact(properties, true);
  file_ = checked(H5Fcreate(name_.c_str(), H5F_ACC_TRUNC, properties, access), name_, "",
                  "cannot create the trace");
  create_root(model);
  const Handle group = make_group(file_, "runs", name_);
  for (size_t i = 0; i < runs.size(); ++i) create_run(group, int(i), runs[i]);
  flush("file");
  if (swmr_) start_swmr();
}

void TraceFile::start_swmr() {
  if (H5Fstart_swmr_write(file_) < 0) fail_hdf5(name_, "", "cannot switch to SWMR write");
  remember_superblock();
}

void TraceFile::create_root(const ModelSpec& model) {
  write_attribute(file_, "format", std::string("slotscope-trace"), name_);
  write_attribute_i32(file_, "format_version", 1, name_);
  write_attribute(file_, "writer_version", std::string("slotscope " SLOTSCOPE_VERSION), name_);
  write_attribute(file_, "created", options_.created.empty() ? now() : options_.created, name_);
  write_attribute_i32(file_, "status", int32_t(Status::partial), name_);
  write_attribute(file_, "tokens_done", int64_t(0), name_);
  add_attributes(file_, options_.attributes, name_);
  const Handle group = make_group(file_, "model", name_);
  write_text(group, "config", model.config_json, "config.json of the checkpoint", name_);
  write_text(group, "family", model.family, "model family", name_);
  write_text(group, "flavour", model.flavour, "which public implementation the arithmetic follows", name_);
  write_text(group, "dtype", model.dtype, "compute dtype of the run", name_);
  write_text(group, "router_dtype", model.router_dtype, "dtype of router logits and selection", name_);
  write_text(group, "device", model.device, "device of the run", name_);
  write_text(group, "checkpoint", model.checkpoint, "checkpoint folder as given", name_);
  write_text(group, "tensor_digest", model.tensor_digest, "SHA-256 of the sorted lines 'name dtype shape'",
             name_);
  add_attributes(group, model.attributes, name_);
}

void TraceFile::create_run(hid_t runs_group, int index, const RunSpec& spec) {
  char name[16];
  std::snprintf(name, sizeof name, "%04d", index);
  const Handle run = make_group(runs_group, name, name_);
  runs_.push_back({});
  Run& r = runs_.back();
  r.path = std::string("/runs/") + name;
  int64_t planned = 0;
  for (const DatasetSpec& d : spec.datasets)
    if (d.path == "tokens/ids") planned = d.expected_rows;
  write_attribute(run, "name", spec.name, name_);
  write_attribute(run, "prompt_tokens", spec.prompt_tokens, name_);
  write_attribute(run, "planned_tokens", planned, name_);
  write_attribute(run, "tokens_done", int64_t(0), name_);
  add_attributes(run, spec.attributes, name_);
  create_prompt(run, spec);
  for (const char* group : {"tokens", "layers", "output"}) make_group(run, group, name_);
  for (const LayerSpec& layer : spec.layers) {
    const Handle group = make_group(run, "layers/" + std::to_string(layer.index), name_);
    write_attribute(group, "family", layer.family, name_);
    write_attribute(group, "route_kind", layer.route_kind, name_);
    write_attribute(group, "heads", layer.heads, name_);
    write_attribute(group, "route_heads", layer.route_heads, name_);
    write_attribute(group, "slots", layer.slots, name_);
    write_attribute(group, "top_k", layer.top_k, name_);
    add_attributes(group, layer.attributes, name_);
  }
  r.columns.resize(spec.datasets.size());
  for (size_t i = 0; i < spec.datasets.size(); ++i) {
    r.columns[i].spec = spec.datasets[i];
    create_column(run, spec, r.columns[i]);
  }
}

void TraceFile::create_prompt(hid_t run, const RunSpec& spec) {
  const Handle group = make_group(run, "prompt", name_);
  if (spec.has_text) {
    write_exact_text(group, "text", spec.text, "prompt text", name_);
    write_array(group, "char_begin", H5T_STD_I64LE, H5T_NATIVE_INT64, spec.char_begin.size(),
                spec.char_begin.data(), "P", "first code point of the text that each prompt token covers",
                name_);
    write_array(group, "char_end", H5T_STD_I64LE, H5T_NATIVE_INT64, spec.char_end.size(),
                spec.char_end.data(), "P",
                "one past the last code point of the text that each prompt token covers", name_);
  }
  if (spec.has_answer) {
    write_exact_text(group, "answer", spec.answer, "expected answer", name_);
    const Handle dataset(
        checked(H5Dopen2(group, "answer", H5P_DEFAULT), name_, "answer", "cannot open the dataset"));
    write_attribute_u8(dataset, "exact", 255, name_);  // 255: not known (yet)
  }
  const hsize_t n = spec.spans.size(), unlimited = H5S_UNLIMITED, chunk = 16;
  const Handle space(H5Screate_simple(1, &n, &unlimited)), type = span_type(),
                                                           properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties, 1, &chunk);  // never compressed: its end is rewritten in place
  const Handle dataset(checked(H5Dcreate2(group, "spans", type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                               name_, "spans", "cannot create the dataset"));
  std::vector<SpanRecord> records;
  for (const Span& span : spec.spans) records.push_back(span_record(span));
  if (n > 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, records.data()) < 0)
    fail_hdf5(name_, "spans", "cannot write the spans");
  describe(dataset, "spans", "named half-open ranges [begin, end) on the token axis", name_);
}

void TraceFile::create_column(hid_t run, const RunSpec&, Column& c) {
  c.path = runs_.back().path + "/" + c.spec.path;
  c.row_bytes = int64_t(element_size(c.spec.type));
  std::vector<hsize_t> dims, limits, chunk;
  if (c.spec.growing) {
    dims.push_back(0);
    limits.push_back(H5S_UNLIMITED);
  }
  for (int64_t n : c.spec.shape) {
    if (n < 0)
      throw Error(
          {.file = name_, .item = c.path, .found = "a negative size", .expected = "sizes of 0 or more"});
    dims.push_back(hsize_t(n));
    limits.push_back(hsize_t(n));
    c.row_bytes *= n;
  }
  const Handle space(dims.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(int(dims.size()), dims.data(), limits.data()));
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE)), links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links, 1);
  keep_compact(properties, false);
  if (c.spec.growing) {
    c.chunk = choose_chunk(c.spec);
    for (int64_t n : c.chunk) chunk.push_back(hsize_t(n));
    H5Pset_chunk(properties, int(chunk.size()), chunk.data());
    H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
    if (options_.compress == WriterOptions::Compress::deflate) {
      H5Pset_shuffle(properties);
      H5Pset_deflate(properties, 1);
    }
  } else if (c.row_bytes > 0) {
    H5Pset_alloc_time(
        properties, H5D_ALLOC_TIME_EARLY);  // its place is fixed before SWMR starts: later only bytes change
  }
  const Handle type = element_type(c.spec.type);
  const Handle dataset(
      checked(H5Dcreate2(run, c.spec.path.c_str(), type, space, links, properties, H5P_DEFAULT), name_,
              c.path, "cannot create the dataset"));
  describe(dataset, c.spec.axes, c.spec.description, name_);
  if (c.spec.path == "output/text") write_attribute(dataset, "encoding", std::string("utf-8"), name_);
  if (!c.spec.growing) write_attribute(dataset, "tokens_covered", int64_t(-1), name_);
}

}  // namespace slotscope::trace
