// What a trace says about one run: loaded when it opens.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "core/fields.h"
#include "core/score.h"
#include "core/trace/trace_source.h"

namespace slotscope::trace {
namespace {

constexpr int kMostGroups = 20'000;  // of a run; a model has at most 16,384 layers

struct Listing {
  std::vector<std::string> groups, datasets;
  std::vector<haddr_t> places;  // of the groups in the file
};

Listing list_group(const Source& source, const std::string& path) {
  Listing list;
  const Handle group(H5Gopen2(source.file, path.c_str(), H5P_DEFAULT));
  if (!group) return list;
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5L_info_t* info, void* out) -> herr_t {
    // Hard links only: a trace never needs another file.
    if (info->type == H5L_TYPE_HARD) static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  hsize_t at = 0;
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, visit, &names) < 0)
    damaged(source.name, path, "cannot list the group (" + hdf5_message() + ")");
  for (const std::string& name : names) {
    H5O_info_t info;
    if (H5Oget_info_by_name2(group, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      damaged(source.name, path + "/" + name, "cannot read it (" + hdf5_message() + ")");
    if (info.type == H5O_TYPE_GROUP) {
      list.groups.push_back(name);
      list.places.push_back(info.addr);
    }
    if (info.type == H5O_TYPE_DATASET) list.datasets.push_back(name);
  }
  return list;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string first_axis(const std::string& axes) { return axes.substr(0, axes.find(',')); }

// Numeric names of the sub-groups, sorted by number.
std::vector<std::pair<int, std::string>> numbered(const std::vector<std::string>& names) {
  std::vector<std::pair<int, std::string>> list;
  for (const std::string& name : names) {
    int index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (error == std::errc() && end == name.data() + name.size() && index >= 0)
      list.emplace_back(index, name);
  }
  std::sort(list.begin(), list.end());
  return list;
}

class Loader {
 public:
  Loader(const Source& source, std::string group, const FileState& file)
      : source_(source), group_(std::move(group)), state_(file) {}
  RunInfo load();

 private:
  void tokens();
  void prompt();
  void output();
  void score();
  void top_bytes(const std::string& at, int64_t steps);
  void layers();
  void datasets(const std::string& relative, int depth);
  void add_dataset(const std::string& relative);
  int64_t limit(const std::string& relative, const std::string& axis, int64_t rows);
  int64_t done_of(const std::string& path);

  const Source& source_;
  std::string group_;
  const FileState& state_;
  RunInfo run_;
  // Hard links may lead round in circles (a group is not entered from within itself) and multiply the ways to one group.
  std::vector<haddr_t> above_;
  int groups_ = 0;
};

RunInfo Loader::load() {
  const Handle group(H5Gopen2(source_.file, group_.c_str(), H5P_DEFAULT));
  if (!group) damaged(source_.name, group_, "cannot open the run (" + hdf5_message() + ")");
  run_.attributes = read_attributes(group);
  read_attribute(group, "name", run_.name);
  read_attribute(group, "prompt_tokens", run_.prompt_tokens);
  if (!read_attribute(group, "tokens_done", run_.tokens)) run_.tokens = state_.only_run ? state_.tokens : -1;
  if (run_.tokens < 0)
    damaged(source_.name, group_, "tokens_done is " + std::to_string(run_.tokens), "a number of tokens");
  if (run_.prompt_tokens < 0)
    damaged(source_.name, group_, "prompt_tokens is " + std::to_string(run_.prompt_tokens));
  read_attribute(group, "planned_tokens", run_.planned_tokens);
  run_.planned_tokens = std::max(run_.planned_tokens, run_.tokens);
  tokens();
  prompt();
  output();
  layers();
  datasets("", 0);
  return std::move(run_);
}

void Loader::tokens() {
  const std::string at = group_ + "/tokens/";
  const int64_t t = run_.tokens;
  const auto whole = [&](const char* name, size_t got, int64_t expected) {
    if (got != 0 && int64_t(got) != expected)
      damaged(source_.name, at + name, std::to_string(got) + " rows",
              std::to_string(expected) + " rows for tokens_done = " + std::to_string(t));
  };
  run_.ids = source_.column<int32_t>(at + "ids", t);
  run_.position = source_.column<int64_t>(at + "position", t);
  run_.roles = source_.column<uint8_t>(at + "roles", t);
  run_.special = source_.column<uint8_t>(at + "special", t);
  whole("ids", run_.ids.size(), t);
  if (t > 0 && run_.ids.empty())
    damaged(source_.name, at + "ids", "no tokens", std::to_string(t) + " tokens");
  whole("position", run_.position.size(), t);
  whole("roles", run_.roles.size(), t);
  whole("special", run_.special.size(), t);
  if (t == 0) return;
  run_.byte_offsets = source_.column<int64_t>(at + "byte_offsets", t + 1);
  if (run_.byte_offsets.empty()) return;
  whole("byte_offsets", run_.byte_offsets.size(), t + 1);
  if (run_.byte_offsets.front() != 0 || !std::is_sorted(run_.byte_offsets.begin(), run_.byte_offsets.end()))
    damaged(source_.name, at + "byte_offsets", "offsets that do not rise from 0");
  run_.bytes = source_.column<uint8_t>(at + "bytes", run_.byte_offsets.back());
  if (int64_t(run_.bytes.size()) != run_.byte_offsets.back())
    damaged(source_.name, at + "bytes", std::to_string(run_.bytes.size()) + " bytes",
            std::to_string(run_.byte_offsets.back()) + " as byte_offsets says");
}

void Loader::prompt() {
  const std::string at = group_ + "/prompt/";
  run_.has_text = source_.text(at + "text", run_.text);
  run_.char_begin = source_.column<int64_t>(at + "char_begin", -1);
  run_.char_end = source_.column<int64_t>(at + "char_end", -1);
  if (run_.char_begin.size() != run_.char_end.size())
    damaged(source_.name, at + "char_end", std::to_string(run_.char_end.size()) + " rows",
            std::to_string(run_.char_begin.size()) + " as char_begin has");
  run_.spans = source_.spans(at + "spans");
  run_.has_answer = source_.text(at + "answer", run_.answer);
  if (!run_.has_answer) return;
  const Handle dataset(H5Dopen2(source_.file, (at + "answer").c_str(), H5P_DEFAULT));
  int64_t exact = 255;
  if (dataset && read_attribute(dataset, "exact", exact) && (exact == 0 || exact == 1))
    run_.exact = exact == 1;
}

// What an imported prompt says about its references (attributes references: a JSON list of texts; metric). Another program's
// attribute of that name that is something else is no error: there is no score then.
void Loader::score() {
  const auto text = [&](const char* name) {
    for (const auto& [key, value] : run_.attributes)
      if (key == name && std::holds_alternative<std::string>(value)) return std::get<std::string>(value);
    return std::string();
  };
  const auto list = nlohmann::json::parse(text("references"), nullptr, false);
  if (!list.is_array()) return;
  for (const auto& item : list) {
    if (!item.is_string()) return run_.references.clear();
    run_.references.push_back(item.get<std::string>());
  }
  if (run_.exact && !run_.references.empty())
    run_.score = reference_score(run_.references, run_.output_text, metric_from(text("metric")));
}

void Loader::output() {
  const std::string at = group_ + "/output/";
  run_.output_ids = source_.column<int32_t>(at + "ids", -1);
  const auto bytes = source_.column<uint8_t>(at + "text", -1);
  run_.output_text.assign(bytes.begin(), bytes.end());
  score();
  const int64_t steps = int64_t(run_.output_ids.size());
  if (!source_.exists(at + "top_ids")) return;
  const Numbers top = source_.numbers(at + "top_ids");
  if (top.shape.size() != 2)
    damaged(source_.name, at + "top_ids", std::to_string(top.shape.size()) + " axes", "G,C");
  run_.candidates = top.shape[1];
  run_.top_ids = source_.column<int32_t>(at + "top_ids", steps);
  run_.top_logprob = source_.column<double>(at + "top_logprob", steps);
  // A dead writer may have stored more of one than of the other.
  const size_t common = std::min(run_.top_ids.size(), run_.top_logprob.size());
  run_.top_ids.resize(common);
  run_.top_logprob.resize(common);
  top_bytes(at, steps);
}

// Absent in traces of other writers and of versions before it was added.
void Loader::top_bytes(const std::string& at, int64_t steps) {
  if (!source_.exists(at + "top_bytes")) return;
  const Numbers shape = source_.numbers(at + "top_bytes");
  if (shape.shape.size() != 3 || shape.shape[1] != run_.candidates || shape.shape[2] < 1) return;
  const auto bytes = source_.column<uint8_t>(at + "top_bytes", steps);
  const auto width = size_t(shape.shape[2]);
  for (size_t row = 0; (row + 1) * width <= bytes.size(); ++row) {
    const size_t length = std::min<size_t>(bytes[row * width], width - 1);
    const auto* first = bytes.data() + row * width + 1;
    run_.top_bytes.emplace_back(first, first + length);
  }
}

void Loader::layers() {
  const std::string at = group_ + "/layers";
  if (!source_.exists(at)) return;
  for (const auto& [index, name] : numbered(list_group(source_, at).groups)) {
    if (name != std::to_string(index)) continue;  // "00" beside "0": one number, one layer
    const Handle group(H5Gopen2(source_.file, (at + "/" + name).c_str(), H5P_DEFAULT));
    if (!group) damaged(source_.name, at + "/" + name, "cannot open the group (" + hdf5_message() + ")");
    LayerSpec layer;
    layer.index = index;
    read_attribute(group, "family", layer.family);
    read_attribute(group, "route_kind", layer.route_kind);
    read_attribute(group, "heads", layer.heads);
    read_attribute(group, "route_heads", layer.route_heads);
    read_attribute(group, "slots", layer.slots);
    read_attribute(group, "top_k", layer.top_k);
    for (auto& item : read_attributes(group))
      if (item.first != "family" && item.first != "route_kind" && item.first != "heads" &&
          item.first != "route_heads" && item.first != "slots" && item.first != "top_k")
        layer.attributes.push_back(std::move(item));
    run_.layers.push_back(std::move(layer));
  }
}

void Loader::datasets(const std::string& relative, int depth) {
  if (depth > 4) return;
  const Listing list = list_group(source_, relative.empty() ? group_ : group_ + "/" + relative);
  const std::string prefix = relative.empty() ? "" : relative + "/";
  for (const std::string& name : list.datasets) add_dataset(prefix + name);
  for (size_t i = 0; i < list.groups.size(); ++i) {
    if (std::find(above_.begin(), above_.end(), list.places[i]) != above_.end()) continue;
    if (++groups_ > kMostGroups)
      damaged(source_.name, group_, "more than " + std::to_string(kMostGroups) + " groups, or links that multiply them");
    above_.push_back(list.places[i]);
    datasets(prefix + list.groups[i], depth + 1);
    above_.pop_back();
  }
}

void Loader::add_dataset(const std::string& relative) {
  DatasetInfo info;
  info.path = relative;
  const std::string whole = group_ + "/" + relative;
  {
    const Handle dataset(H5Dopen2(source_.file, whole.c_str(), H5P_DEFAULT));
    if (!dataset) damaged(source_.name, whole, "cannot open the dataset (" + hdf5_message() + ")");
    const Handle type(H5Dget_type(dataset));
    const H5T_class_t kind = H5Tget_class(type);
    if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM)
      return;  // texts and spans are loaded above
    read_attribute(dataset, "axes", info.axes);
    read_attribute(dataset, "description", info.description);
    int64_t covered = 0;
    // A fixed dataset (counters) that its writer did not live to store holds zeros, or counts other tokens
    // than the file holds: neither may pass for numbers.
    if (read_attribute(dataset, "tokens_covered", covered) &&
        (covered < 0 || (state_.status != Status::complete && covered != run_.tokens)))
      return;
  }
  const Numbers data = source_.numbers(whole);
  info.type = data.type;
  info.shape = data.shape;
  info.chunk = data.chunk;
  if (!info.shape.empty()) {
    const FieldInfo* known = find_field(last_part(relative));
    const std::string axis = first_axis(!info.axes.empty() || !known ? info.axes : std::string(known->axes));
    info.shape[0] = limit(relative, axis, info.shape[0]);
  }
  run_.datasets.push_back(std::move(info));
}

// How many entries of a token list (layers/i/token, read_token, state_token) are tokens that the file holds.
int64_t Loader::done_of(const std::string& path) {
  const auto list = source_.column<int64_t>(path, -1);
  return std::count_if(list.begin(), list.end(), [&](int64_t t) { return t < run_.tokens; });
}

// Rows that belong to tokens < tokens_done: nothing past it is ever read.
int64_t Loader::limit(const std::string& relative, const std::string& axis, int64_t rows) {
  const std::string folder = group_ + "/" + relative.substr(0, relative.rfind('/') + 1);
  const auto by = [&](const char* list) {
    return source_.exists(folder + list) ? std::min(rows, done_of(folder + list)) : rows;
  };
  const std::string name = last_part(relative);
  if (name == "token" || name.ends_with("_token")) return std::min(rows, done_of(group_ + "/" + relative));
  if (axis == "T_c" && source_.exists(folder + name + "_token")) return by((name + "_token").c_str());
  if (axis == "T" || axis == "T_c")
    return std::min(rows, source_.exists(folder + "token") ? done_of(folder + "token") : run_.tokens);
  if (axis == "T+1") return std::min(rows, run_.tokens + 1);
  if (axis == "T'") return by("read_token");
  if (axis == "S") return by("state_token");
  return rows;
}

}  // namespace

RunInfo load_run(const Source& source, const std::string& group, const FileState& file) {
  return Loader(source, group, file).load();
}

std::vector<std::string> run_groups(const Source& source) {
  std::vector<std::string> names;
  if (!source.exists("/runs"))
    damaged(source.name, "/runs", "there is no such group", "the runs of the trace");
  for (const auto& item : numbered(list_group(source, "/runs").groups))
    names.push_back("/runs/" + item.second);
  return names;
}

}  // namespace slotscope::trace
