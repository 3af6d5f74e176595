// Reading the file of a sweep: every size and every position is checked before it is used.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <tuple>

#include "core/trace/sweep_file.h"
#include "core/trace/trace_source.h"

namespace slotscope::trace {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMostRows = 10'000'000, kMostHeads = 1'000'000, kMostModels = 10'000, kMostValues = 200'000'000;
constexpr int64_t kMostTokens = int64_t(1) << 40;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

class SweepReader {
 public:
  explicit SweepReader(const fs::path& file) { source_.open(file); }

  Sweep read() {
    const Handle root(H5Gopen2(source_.file, "/", H5P_DEFAULT));
    if (!root) damaged(source_.name, "/", "cannot open the root group (" + hdf5_message() + ")");
    std::string format;
    int64_t version = 0, status = 0;
    if (!read_attribute(root, "format", format) || format != "slotscope-sweep")
      throw Error({.file = source_.name, .item = "format",
                   .found = format.empty() ? "an HDF5 file without this attribute" : "'" + format.substr(0, 80) + "'",
                   .expected = "'slotscope-sweep'",
                   .advice = format == "slotscope-result" ? "This is a computed result: `slotscope figure FILE --out F.pdf` draws it"
                                                          : "Give a file written by slotscope-cli sweep"});
    if (!read_attribute(root, "format_version", version) || version < 1)
      bad("format_version", version == 0 ? "missing" : std::to_string(version), "1");
    if (version > 1)
      throw Error({.file = source_.name, .item = "format_version", .found = std::to_string(version),
                   .expected = "1, the newest that this program reads", .advice = "Use a newer Slotscope"});
    if (!read_attribute(root, "status", status) || status < 0 || status > 3) bad("status", std::to_string(status), "0 to 3");
    sweep_.status = Status(status);
    read_attribute(root, "created", sweep_.created);
    read_attribute(root, "writer_version", sweep_.writer_version);
    read_settings();
    std::set<std::string> names;
    for (int64_t i = 0; i < kMostModels; ++i) {
      char name[40];
      std::snprintf(name, sizeof name, "/models/%04lld", static_cast<long long>(i));
      if (!source_.exists(name)) break;
      read_model(name);
      if (!names.insert(sweep_.models.back().name).second) bad(name, "a second model '" + sweep_.models.back().name.substr(0, 80) + "'", "");
    }
    return std::move(sweep_);
  }

 private:
  [[noreturn]] void bad(const std::string& item, const std::string& found, const std::string& expected) const {
    throw Error({.file = source_.name, .item = item, .found = "damaged: " + found, .expected = expected,
                 .advice = "Start the sweep again with another --out"});
  }

  std::string text(hid_t group, const std::string& place, const char* name) const {
    std::string value;
    if (!read_attribute(group, name, value)) bad(place + "/" + name, "missing", "a text");
    return value;
  }
  int64_t integer(hid_t group, const std::string& place, const char* name, int64_t low, int64_t high) const {
    int64_t value = 0;
    if (!read_attribute(group, name, value) || value < low || value > high)
      bad(place + "/" + name, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
    return value;
  }
  template <class T>
  T number_from(const std::string& text, const std::string& item) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) bad(item, "'" + text.substr(0, 40) + "'", "a number");
    return value;
  }

  Handle open_group(const std::string& path) const {
    if (!source_.exists(path)) bad(path, "missing", "a group");
    Handle group(H5Gopen2(source_.file, path.c_str(), H5P_DEFAULT));
    if (!group) bad(path, "cannot open the group (" + hdf5_message() + ")", "");
    return group;
  }

  // A dataset of exactly these sizes (-1: any up to `most`), as T.
  template <class T>
  std::vector<T> column(const std::string& path, std::vector<int64_t> sizes, int64_t most) const {
    if (!source_.exists(path)) bad(path, "missing", "a dataset");
    const Numbers data = source_.numbers(path);
    bool good = data.shape.size() == sizes.size();
    for (size_t i = 0; good && i < sizes.size(); ++i)
      good = sizes[i] >= 0 ? data.shape[i] == sizes[i] : data.shape[i] <= most;
    if (!good) {
      std::string shape;
      for (const int64_t n : data.shape) shape += (shape.empty() ? "" : ",") + std::to_string(n);
      bad(path, "sizes [" + shape + "]", "as many as there are prompts and heads");
    }
    return source_.column<T>(path, -1);
  }

  void read_settings() {
    const std::string place = "/settings";
    const Handle group = open_group(place);
    SweepSettings& s = sweep_.settings;
    s.task = text(group, place, "task");
    s.length_counts = text(group, place, "length_counts");
    s.haystack = text(group, place, "haystack");
    s.haystack_digest = text(group, place, "haystack_digest");
    s.device = text(group, place, "device");
    s.dtype = text(group, place, "dtype");
    s.router_dtype = text(group, place, "router_dtype");
    s.layers = text(group, place, "layers");
    s.seed = number_from<uint64_t>(text(group, place, "seed"), place + "/seed");
    s.prompts = integer(group, place, "prompts", 1, kMostRows);
    s.bos = integer(group, place, "bos", 0, 1) != 0;
    s.tf32 = integer(group, place, "tf32", 0, 1) != 0;
    for (const auto& [name, value] : read_attributes(group)) {
      const double* real = std::get_if<double>(&value);
      if (real && name == "threshold") s.threshold = *real;
      if (real && name == "tau") s.tau = *real;
    }
    s.lengths = column<int64_t>(place + "/lengths", {-1}, 10'000);
    s.depths = column<double>(place + "/depths", {-1}, 10'000);
    for (size_t i = 0; i < s.lengths.size(); ++i)
      if (s.lengths[i] < 1 || s.lengths[i] > kMostTokens || (i > 0 && s.lengths[i] <= s.lengths[i - 1]))
        bad(place + "/lengths", std::to_string(s.lengths[i]), "ascending numbers of tokens");
    for (size_t i = 0; i < s.depths.size(); ++i)
      if (!(s.depths[i] >= 0 && s.depths[i] <= 1) || (i > 0 && !(s.depths[i] > s.depths[i - 1])))
        bad(place + "/depths", std::to_string(s.depths[i]), "ascending numbers from 0 to 1");
    if (s.lengths.empty()) bad(place + "/lengths", "none", "at least one length");
    if (s.prompts > kMostRows / s.cells()) bad(place + "/prompts", std::to_string(s.prompts), "fewer prompts");
  }

  void read_model(const std::string& place) {
    const Handle group = open_group(place);
    sweep_.models.emplace_back();
    SweepModel& m = sweep_.models.back();
    m.name = text(group, place, "name");
    m.checkpoint = text(group, place, "checkpoint");
    m.model_type = text(group, place, "model_type");
    m.family = text(group, place, "family");
    m.flavour = text(group, place, "flavour");
    m.device = text(group, place, "device");
    m.config_json = text(group, place, "config");
    m.tensor_digest = text(group, place, "tensor_digest");
    m.weights_digest = text(group, place, "weights_digest");
    int64_t heads = 0;
    for (const std::string& line : split(text(group, place, "layers"), '\n')) {
      if (line.empty()) continue;
      const auto words = split(line, '\t');
      if (words.size() != 7) bad(place + "/layers", "'" + line.substr(0, 80) + "'", "index, family, route_kind, heads, slots, top_k, why");
      SweepLayer l{.family = words[1], .route_kind = words[2], .why = words[6]};
      l.index = number_from<int>(words[0], place + "/layers");
      l.route_heads = number_from<int64_t>(words[3], place + "/layers");
      l.slots = number_from<int64_t>(words[4], place + "/layers");
      l.top_k = number_from<int64_t>(words[5], place + "/layers");
      if (l.index < 0 || l.route_heads < 0 || l.route_heads > kMostHeads || l.slots < 0 || l.slots > kMostTokens || l.top_k < 0 ||
          l.top_k > kMostTokens)
        bad(place + "/layers", "'" + line.substr(0, 80) + "'", "numbers of heads and slots");
      heads += l.route_heads;
      if (heads > kMostHeads) bad(place + "/layers", std::to_string(heads) + " heads", "at most " + std::to_string(kMostHeads));
      m.layers.push_back(std::move(l));
    }
    read_rows(place, m, heads);
  }

  // UTF-8 of all prompts, cut where the offsets say.
  std::vector<std::string> texts(const std::string& path, int64_t rows) const {
    const auto offsets = column<int64_t>(path + "_offsets", {rows + 1}, 0);
    const auto bytes = column<uint8_t>(path, {-1}, int64_t(1) << 30);
    check_offsets(path, offsets, int64_t(bytes.size()));
    std::vector<std::string> list;
    for (size_t i = 0; i + 1 < offsets.size(); ++i) list.emplace_back(bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]);
    return list;
  }
  void check_offsets(const std::string& path, const std::vector<int64_t>& offsets, int64_t size) const {
    for (size_t i = 0; i < offsets.size(); ++i)
      if (offsets[i] < (i == 0 ? 0 : offsets[i - 1]) || offsets[i] > size)
        bad(path + "_offsets", std::to_string(offsets[i]), "ascending positions up to " + std::to_string(size));
  }

  void read_rows(const std::string& place, SweepModel& m, int64_t heads) {
    const std::string at = place + "/prompts/";
    const int64_t most = sweep_.settings.total();
    const auto length = column<int64_t>(at + "length", {-1}, most);
    const int64_t rows = int64_t(length.size());
    if (heads > 0 && rows > kMostValues / heads) bad(at + "length", std::to_string(rows) + " rows of " + std::to_string(heads) + " heads", "");
    m.rows.resize(length.size());
    const auto fill = [&](const char* name, int64_t SweepRow::*field, int64_t high) {
      const auto values = column<int64_t>(at + name, {rows}, 0);
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] < 0 || values[i] > high) bad(at + name, std::to_string(values[i]), "0 to " + std::to_string(high));
        m.rows[i].*field = values[i];
      }
    };
    fill("length", &SweepRow::length, int64_t(sweep_.settings.lengths.size()) - 1);
    fill("depth", &SweepRow::depth, std::max<int64_t>(int64_t(sweep_.settings.depths.size()) - 1, 0));
    fill("number", &SweepRow::number, sweep_.settings.prompts - 1);
    fill("prompt_tokens", &SweepRow::prompt_tokens, kMostTokens);
    fill("tokens", &SweepRow::tokens, kMostTokens);
    fill("answer_tokens", &SweepRow::answer_tokens, kMostTokens);
    fill("right", &SweepRow::right, kMostTokens);
    const auto seed = column<int64_t>(at + "seed", {rows}, 0);
    const auto exact = column<uint8_t>(at + "exact", {rows}, 0);
    const auto spot = column<double>(at + "place", {rows}, 0), seconds = column<double>(at + "seconds", {rows}, 0);
    const auto digest = texts(at + "digest", rows), haystack = texts(at + "haystack", rows), answer = texts(at + "answer", rows),
               output = texts(at + "output", rows);
    const auto ids = column<int32_t>(at + "output_ids", {-1}, int64_t(1) << 28);
    const auto ends = column<int64_t>(at + "output_ids_offsets", {rows + 1}, 0);
    check_offsets(at + "output_ids", ends, int64_t(ids.size()));
    std::vector<std::vector<double>> values;  // before room is made for them: their sizes are checked against the file's
    for (int q = 0; q < kSweepValues; ++q)
      values.push_back(column<double>(place + "/heads/" + sweep_value_name(SweepValue(q)), {rows, heads}, 0));
    std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
    for (size_t i = 0; i < m.rows.size(); ++i) {
      SweepRow& r = m.rows[i];
      r.seed = seed[i];
      r.exact = exact[i] != 0;
      if (exact[i] > 1 || r.exact != (r.right == r.answer_tokens && r.answer_tokens > 0))
        bad(at + "exact", "row " + std::to_string(i) + " contradicts right and answer_tokens", "exact where all of the answer is right");
      r.place = spot[i];
      r.seconds = seconds[i];
      r.digest = digest[i], r.haystack = haystack[i], r.answer = answer[i], r.output = output[i];
      r.output_ids.assign(ids.begin() + ends[i], ids.begin() + ends[i + 1]);
      r.heads.resize(size_t(heads) * size_t(kSweepValues));
      for (size_t h = 0; h < size_t(heads); ++h)
        for (size_t q = 0; q < size_t(kSweepValues); ++q) r.heads[h * size_t(kSweepValues) + q] = values[q][i * size_t(heads) + h];
      if (!seen.insert({r.length, r.depth, r.number}).second)
        bad(at + "number", "row " + std::to_string(i) + " is there twice", "each prompt once");
    }
  }

  Source source_;
  Sweep sweep_;
};

}  // namespace

const char* sweep_value_name(SweepValue value) {
  static constexpr const char* names[kSweepValues] = {"esl_mean", "esl_longest", "esl_shortest", "esl_gini", "slots_used", "head_score"};
  return names[size_t(value)];
}

std::vector<std::pair<int, int>> SweepModel::heads() const {
  std::vector<std::pair<int, int>> list;
  for (const SweepLayer& l : layers)
    for (int64_t h = 0; h < l.route_heads; ++h) list.emplace_back(l.index, int(h));
  return list;
}

std::string file_format(const fs::path& file) {
  const Hdf5Lock lock;
  Source source;
  source.open(file);
  const Handle root(H5Gopen2(source.file, "/", H5P_DEFAULT));
  std::string format;
  if (root) read_attribute(root, "format", format);
  return format;
}

Sweep read_sweep(const fs::path& file) {
  const auto too_large = [&] {
    throw Error({.file = file.string(), .found = "damaged: its sizes need more memory than there is",
                 .advice = "Start the sweep again with another --out"});
  };
  try {
    const Hdf5Lock lock;
    return SweepReader(file).read();
  } catch (const std::bad_alloc&) {
    too_large();
  } catch (const std::length_error&) {
    too_large();
  }
  return {};
}

}  // namespace slotscope::trace
