// Writing the file of a sweep.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "core/trace/file_lock.h"
#include "core/trace/hdf5_util.h"
#include "core/trace/sweep_file.h"

#ifndef SLOTSCOPE_VERSION
#define SLOTSCOPE_VERSION "0.1.0"
#endif

namespace slotscope::trace {
namespace fs = std::filesystem;
namespace {

std::string now() {
  const std::time_t t = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&t, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

class SweepWriter {
 public:
  SweepWriter(const Sweep& sweep, const fs::path& part) : sweep_(sweep), name_(part.string()) {}

  void write() {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS)), properties(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);  // headers with a checksum
    H5Pset_file_locking(access, false, true);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    const hid_t file = checked(H5Fcreate(name_.c_str(), H5F_ACC_TRUNC, properties, access), name_, "", "cannot create the sweep");
    try {
      describe(file);
    } catch (...) {
      H5Fclose(file);
      throw;
    }
    if (H5Fclose(file) < 0) fail_hdf5(name_, "", "cannot close the sweep");
  }

 private:
  using Text = std::pair<const char*, const std::string*>;

  // Every text before every number: a reader looks at the strings of the first megabytes before HDF5 does.
  void describe(hid_t file) {
    write_attribute(file, "format", std::string("slotscope-sweep"), name_);
    write_attribute_i32(file, "format_version", 1, name_);
    write_attribute(file, "writer_version", std::string("slotscope " SLOTSCOPE_VERSION), name_);
    write_attribute(file, "created", sweep_.created.empty() ? now() : sweep_.created, name_);
    write_attribute_i32(file, "status", int32_t(sweep_.status), name_);
    const Handle settings = group(file, "settings"), models = group(file, "models");
    put_settings(settings);
    std::vector<Handle> groups;
    for (size_t i = 0; i < sweep_.models.size(); ++i) {
      char name[24];
      std::snprintf(name, sizeof name, "%04zu", i);
      groups.push_back(group(models, name));
      put_model(groups.back(), sweep_.models[i]);
    }
    numbers(settings, "lengths", H5T_STD_I64LE, H5T_NATIVE_INT64, sweep_.settings.lengths, "L", "lengths in tokens");
    numbers(settings, "depths", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, sweep_.settings.depths, "D",
            "places of the needle, 0 to 1; empty: drawn uniformly for each prompt");
    for (size_t i = 0; i < sweep_.models.size(); ++i) put_rows(groups[i], sweep_.models[i]);
  }

  Handle group(hid_t parent, const char* name) {
    const Handle properties(H5Pcreate(H5P_GROUP_CREATE));
    H5Pset_attr_phase_change(properties, 4096, 0);  // attributes and links stay in the header, which has a checksum
    H5Pset_link_phase_change(properties, 60000, 0);
    return Handle(checked(H5Gcreate2(parent, name, H5P_DEFAULT, properties, H5P_DEFAULT), name_, name, "cannot create the group"));
  }

  void put_settings(hid_t group) {
    const SweepSettings& s = sweep_.settings;
    for (const auto& [name, text] : {Text{"task", &s.task}, Text{"length_counts", &s.length_counts}, Text{"haystack", &s.haystack},
                                     Text{"haystack_digest", &s.haystack_digest}, Text{"device", &s.device}, Text{"dtype", &s.dtype},
                                     Text{"router_dtype", &s.router_dtype}, Text{"layers", &s.layers}})
      write_attribute(group, name, *text, name_);
    write_attribute(group, "seed", std::to_string(s.seed), name_);  // uint64: as text, no program reads it wrong
    write_attribute(group, "prompts", s.prompts, name_);
    write_attribute(group, "bos", int64_t(s.bos), name_);
    write_attribute(group, "tf32", int64_t(s.tf32), name_);
    write_attribute(group, "threshold", s.threshold, name_);
    write_attribute(group, "tau", s.tau, name_);
  }

  void put_model(hid_t group, const SweepModel& m) {
    for (const auto& [name, text] :
         {Text{"name", &m.name}, Text{"checkpoint", &m.checkpoint}, Text{"model_type", &m.model_type}, Text{"family", &m.family},
          Text{"flavour", &m.flavour}, Text{"device", &m.device}, Text{"config", &m.config_json},
          Text{"tensor_digest", &m.tensor_digest}, Text{"weights_digest", &m.weights_digest}})
      write_attribute(group, name, *text, name_);
    std::string layers;  // one line per layer: attributes of a hundred groups would be slow to open
    for (const SweepLayer& l : m.layers) {
      for (const std::string* text : {&l.family, &l.route_kind, &l.why})
        if (text->find_first_of("\t\n") != std::string::npos)
          throw Error({.file = name_, .item = "layer " + std::to_string(l.index), .found = "a line break in '" + *text + "'"});
      layers += std::to_string(l.index) + "\t" + l.family + "\t" + l.route_kind + "\t" + std::to_string(l.route_heads) + "\t" +
                std::to_string(l.slots) + "\t" + std::to_string(l.top_k) + "\t" + l.why + "\n";
    }
    write_attribute(group, "layers", layers, name_);
  }

  template <class T, class Get>
  std::vector<T> column(const SweepModel& m, Get get) {
    std::vector<T> values;
    values.reserve(m.rows.size());
    for (const SweepRow& row : m.rows) values.push_back(T(get(row)));
    return values;
  }

  void put_rows(hid_t parent, const SweepModel& m) {
    const Handle prompts = group(parent, "prompts"), heads = group(parent, "heads");
    const auto integers = [&](const char* name, const char* description, auto get) {
      numbers(prompts, name, H5T_STD_I64LE, H5T_NATIVE_INT64, column<int64_t>(m, get), "R", description);
    };
    const auto reals = [&](const char* name, const char* description, auto get) {
      numbers(prompts, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, column<double>(m, get), "R", description);
    };
    integers("length", "position in settings/lengths", [](const SweepRow& r) { return r.length; });
    integers("depth", "position in settings/depths; 0 when depths are uniform", [](const SweepRow& r) { return r.depth; });
    integers("number", "which prompt of this length and depth", [](const SweepRow& r) { return r.number; });
    integers("seed", "seed of the prompt: run --task passkey --seed makes it again", [](const SweepRow& r) { return r.seed; });
    integers("prompt_tokens", "tokens of the prompt", [](const SweepRow& r) { return r.prompt_tokens; });
    integers("tokens", "tokens fed", [](const SweepRow& r) { return r.tokens; });
    integers("answer_tokens", "tokens of the answer and <eos>", [](const SweepRow& r) { return r.answer_tokens; });
    integers("right", "how many of them were generated before the first wrong one", [](const SweepRow& r) { return r.right; });
    numbers(prompts, "exact", H5T_STD_U8LE, H5T_NATIVE_UINT8, column<uint8_t>(m, [](const SweepRow& r) { return r.exact; }), "R",
            "1: every answer token and <eos> was the arg max");
    reals("place", "place of the needle in the haystack, 0 to 1", [](const SweepRow& r) { return r.place; });
    reals("seconds", "time of the forward passes", [](const SweepRow& r) { return r.seconds; });
    texts(prompts, "digest", "SHA-256 of the prompt's ids (little-endian int32)", m, [](const SweepRow& r) { return r.digest; });
    texts(prompts, "haystack", "what the needle lies in", m, [](const SweepRow& r) { return r.haystack; });
    texts(prompts, "answer", "expected", m, [](const SweepRow& r) { return r.answer; });
    texts(prompts, "output", "generated", m, [](const SweepRow& r) { return r.output; });
    std::vector<int32_t> ids;
    std::vector<int64_t> ends{0};
    for (const SweepRow& row : m.rows) {
      ids.insert(ids.end(), row.output_ids.begin(), row.output_ids.end());
      ends.push_back(int64_t(ids.size()));
    }
    numbers(prompts, "output_ids", H5T_STD_I32LE, H5T_NATIVE_INT32, ids, "N", "generated token ids of all prompts");
    numbers(prompts, "output_ids_offsets", H5T_STD_I64LE, H5T_NATIVE_INT64, ends, "R+1", "where each prompt's ids begin");
    put_heads(heads, m);
  }

  void put_heads(hid_t group, const SweepModel& m) {
    std::vector<int32_t> layer, head;
    for (const auto& [l, h] : m.heads()) layer.push_back(l), head.push_back(h);
    numbers(group, "layer", H5T_STD_I32LE, H5T_NATIVE_INT32, layer, "H", "layer of each entry");
    numbers(group, "head", H5T_STD_I32LE, H5T_NATIVE_INT32, head, "H", "head that owns slots, of each entry");
    for (int q = 0; q < kSweepValues; ++q) {
      std::vector<double> values;
      for (const SweepRow& row : m.rows) {
        if (row.heads.size() != layer.size() * size_t(kSweepValues))
          throw Error({.file = name_, .item = m.name, .found = "a row with " + std::to_string(row.heads.size()) + " head values"});
        for (size_t h = 0; h < layer.size(); ++h) values.push_back(row.heads[h * size_t(kSweepValues) + size_t(q)]);
      }
      numbers(group, sweep_value_name(SweepValue(q)), H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values, "R,H",
              "per prompt and head; NaN where undefined", m.rows.size(), layer.size());
    }
  }

  template <class Get>
  void texts(hid_t group, const std::string& name, const char* description, const SweepModel& m, Get get) {
    std::vector<uint8_t> bytes;
    std::vector<int64_t> offsets{0};
    for (const SweepRow& row : m.rows) {
      const std::string text = get(row);
      bytes.insert(bytes.end(), text.begin(), text.end());
      offsets.push_back(int64_t(bytes.size()));
    }
    numbers(group, name.c_str(), H5T_STD_U8LE, H5T_NATIVE_UINT8, bytes, "N", (std::string(description) + ": UTF-8 of all prompts").c_str());
    numbers(group, (name + "_offsets").c_str(), H5T_STD_I64LE, H5T_NATIVE_INT64, offsets, "R+1", "where each prompt's bytes begin");
  }

  // One axis, or rows x columns. Compressed: its checksum tells of damage.
  template <class T>
  void numbers(hid_t group, const char* name, hid_t type, hid_t memory, const std::vector<T>& values, const char* axes,
               const char* description, size_t rows = SIZE_MAX, size_t columns = 0) {
    const bool table = rows != SIZE_MAX;
    const std::vector<hsize_t> dims = table ? std::vector<hsize_t>{rows, columns} : std::vector<hsize_t>{values.size()};
    const hsize_t row = std::max<hsize_t>(table ? columns : 1, 1);
    std::vector<hsize_t> chunk{std::clamp<hsize_t>((hsize_t(1) << 17) / row, 1, std::max<hsize_t>(dims[0], 1))};
    if (table) chunk.push_back(row);
    const Handle space(H5Screate_simple(int(dims.size()), dims.data(), nullptr)), properties(H5Pcreate(H5P_DATASET_CREATE));
    if (!values.empty()) {
      H5Pset_chunk(properties, int(chunk.size()), chunk.data());
      H5Pset_shuffle(properties);
      H5Pset_deflate(properties, 1);
    }
    const Handle dataset(checked(H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT), name_, name,
                                 "cannot create the dataset"));
    if (!values.empty() && H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
      fail_hdf5(name_, name, "cannot write the dataset");
    write_attribute(dataset, "axes", std::string(axes), name_);
    write_attribute(dataset, "description", std::string(description), name_);
  }

  const Sweep& sweep_;
  std::string name_;
};

}  // namespace

void write_sweep(const Sweep& sweep, const fs::path& file) {
  const fs::path part = file.string() + ".part";
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;
  for (const fs::path& place : {file, part})  // a device or a pipe would be replaced by the rename, or written into
    if (fs::exists(place, ignored) && !fs::is_regular_file(place, ignored))
      throw Error({.file = place.string(), .item = "sweep to write", .found = "a folder, a device or a pipe", .expected = "the name of a file",
                   .advice = "Choose another --out"});
  const auto failed = [&](const char* what) {
    const int error = errno;
    ::unlink(part.c_str());
    throw Error({.file = file.string(), .found = std::string(what) + std::strerror(error),
                 .expected = "a folder and a disk that can be written", .advice = "Free some space, or choose another --out"});
  };
  try {
    const Hdf5Lock lock;
    SweepWriter(sweep, part).write();
  } catch (const Error&) {
    ::unlink(part.c_str());
    throw;
  }
  if (const int error = sync_path(part, false)) errno = error, failed("cannot store the sweep: ");
  if (std::rename(part.c_str(), file.c_str()) != 0) failed("cannot rename the new file: ");
  sync_path(folder, true);
}

}  // namespace slotscope::trace
