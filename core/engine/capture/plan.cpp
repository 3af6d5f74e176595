#include "core/engine/capture/plan.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/fields.h"

namespace slotscope::engine {
namespace {

using trace::ElementType;

int64_t covered(const Ranges& ranges, int64_t total) {
  if (ranges.empty()) return total;
  int64_t count = 0;
  for (const auto& [begin, end] : ranges) count += std::max<int64_t>(0, std::min(end, total) - begin);
  return count;
}

void add_note(std::vector<std::string>& notes, std::string text) {
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(std::move(text));
}

std::vector<int64_t> parse_positions(const std::string& text) {
  std::vector<int64_t> list;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + comma, value);
    if (error != std::errc() || end != text.data() + comma || value < 0)
      throw Error({.item = "--state-at",
                   .found = "'" + text + "'",
                   .expected = "end, none, or token positions such as 63,127"},
                  Error::Kind::usage);
    list.push_back(value);
    at = comma + 1;
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

std::vector<int64_t> columns(Columns kind, const LayerShape& shape, int64_t heads, int64_t route_heads) {
  switch (kind) {
    case Columns::head:
      return {route_heads};
    case Columns::selected:
      return {route_heads, shape.top_k};
    case Columns::slot:
      return {route_heads, shape.slots};
    case Columns::key:
      return {route_heads, shape.d_k};
    case Columns::query_head:
      return {heads};
  }
  return {};
}

const char* column_axes(Columns kind) {
  switch (kind) {
    case Columns::head:
      return "T,H_r";
    case Columns::selected:
      return "T,H_r,K";
    case Columns::slot:
      return "T,H_r,M";
    case Columns::key:
      return "T,H_r,d_k";
    case Columns::query_head:
      return "T,H";
  }
  return "";
}

// Whose decay it is: one per head, slot, ... (attribute `decay`).
const char* decay_name(Columns kind) {
  switch (kind) {
    case Columns::head:
      return "head";
    case Columns::selected:
    case Columns::slot:
      return "slot";
    case Columns::key:
      return "key channel";
    case Columns::query_head:
      return "query head";
  }
  return "";
}

// What only RAM-Net has.
bool of_addresses(Field field) { return field >= Field::read_index && field <= Field::slot_value; }

bool tells(const LayerShape& shape, Field field) {
  return std::find(shape.fields.begin(), shape.fields.end(), field) != shape.fields.end();
}

class Planner {
 public:
  Planner(const ModelShape& model, const formats::Prompt& prompt, const RunOptions& options, int64_t generate,
          std::vector<std::string>& notes)
      : model_(model), prompt_(prompt), options_(options), generate_(generate), notes_(notes) {
    const int64_t prompt_tokens = int64_t(prompt.ids.size());
    run_.planned = prompt_tokens + std::max<int64_t>(0, generate - 1);
    run_.real = model.float64 ? ElementType::f64 : ElementType::f32;
    run_.tokens = options.plan.tokens;
    read_options(prompt_tokens);
  }

  RunCapture plan() {
    describe_prompt();
    add_tokens();
    for (int i = 0; i < int(model_.layers.size()); ++i) add_layer(i);
    add_output();
    for (const std::string& name : options_.plan.fields)
      if (const auto field = field_of(name); !field || (of_no_layer(*field) && !all_addresses() && !stored_otherwise(*field)))
        add_note(notes_, name + ": not a quantity of this family");
    return std::move(run_);
  }

 private:
  void read_options(int64_t prompt_tokens) {
    const CapturePlan& plan = options_.plan;
    if (plan.read_at == "query")
      run_.read_query = true;
    else if (plan.read_at == "all")
      run_.read_all = true;
    else
      run_.read_at = parse_ranges(plan.read_at, "--read-at");
    if (plan.state_at == "end")
      run_.state_end = true;
    else if (plan.state_at != "none")
      run_.state_at = parse_positions(plan.state_at);
    for (const int64_t at : run_.state_at)
      if (at >= run_.planned)
        throw Error(
            {.item = "--state-at",
             .found = std::to_string(at),
             .expected = "positions below the " + std::to_string(run_.planned) + " tokens of this run"},
            Error::Kind::usage);
    for (const int layer : plan.layers)
      if (layer < 0 || layer >= int(model_.layers.size()))
        throw Error({.item = "--layers",
                     .found = std::to_string(layer),
                     .expected = "layers from 0 to " + std::to_string(model_.layers.size() - 1)},
                    Error::Kind::usage);
    int64_t most = 0;
    for (const LayerShape& layer : model_.layers) most = std::max({most, layer.heads, layer.route_heads});
    for (const int head : plan.heads)
      if (head < 0 || head >= most)
        throw Error({.item = "--heads",
                     .found = std::to_string(head),
                     .expected = "heads from 0 to " + std::to_string(most - 1)},
                    Error::Kind::usage);
    for (const auto& [begin, end] : plan.tokens)
      if (begin >= run_.planned)
        add_note(notes_, "--tokens " + std::to_string(begin) + ":" + std::to_string(end) +
                             " starts beyond the last token");
    // Rows outside --tokens are no rows of any layer dataset, but read_weight has its own token list: it
    // keeps its own choice.
    expected_reads_ = run_.read_all     ? run_.planned
                      : run_.read_query ? 1 + run_.planned - prompt_tokens
                                        : covered(run_.read_at, run_.planned);
  }

  int add(std::string path, ElementType type, std::vector<int64_t> shape, int64_t rows, std::string axes,
          std::string description, bool growing = true) {
    run_.spec.datasets.push_back(
        {std::move(path), type, growing, std::move(shape), rows, std::move(axes), std::move(description)});
    return int(run_.spec.datasets.size()) - 1;
  }

  void describe_prompt() {
    trace::RunSpec& spec = run_.spec;
    spec.name = prompt_.name;
    spec.has_text = prompt_.has_text;
    spec.text = prompt_.text;
    for (const auto& [begin, end] : prompt_.char_offsets) {
      spec.char_begin.push_back(begin);
      spec.char_end.push_back(end);
    }
    spec.prompt_tokens = int64_t(prompt_.ids.size());
    spec.spans = prompt_.spans;
    // The answer starts behind the prompt; its end is set when generation stops.
    if (generate_ > 0) spec.spans.push_back({"answer", spec.prompt_tokens, spec.prompt_tokens});
    spec.has_answer = prompt_.has_answer;
    spec.answer = prompt_.answer;
    for (const auto& [key, value] : prompt_.parameters) spec.attributes.emplace_back(key, value);
  }

  void add_tokens() {
    const int64_t rows = run_.planned;
    run_.ids = add("tokens/ids", ElementType::i32, {}, rows, "T", "token ids as fed to the model");
    run_.position = add("tokens/position", ElementType::i64, {}, rows, "T", "position of the token, from 0");
    run_.roles = add("tokens/roles", ElementType::u8, {}, rows, "T", "0 other, 1 retrieval");
    run_.special = add("tokens/special", ElementType::u8, {}, rows, "T", "1: special token");
    run_.bytes = add("tokens/bytes", ElementType::u8, {}, 4 * rows, "N",
                     "decoded bytes of all tokens; special tokens hold their text");
    run_.byte_offsets = add("tokens/byte_offsets", ElementType::i64, {}, rows + 1, "T+1",
                            "token t covers bytes byte_offsets[t] to byte_offsets[t+1]");
  }

  // Who asks for all that is told of addresses (`addresses`) misses none of it elsewhere.
  bool all_addresses() const {
    static const std::vector<std::string> all = expand_fields("addresses");
    return std::all_of(all.begin(), all.end(), [this](const std::string& name) { return wanted(*field_of(name)); });
  }

  // A state that every layer, or this one, stores under another name that is asked for too.
  bool stored_otherwise(Field field, const LayerShape& shape) const {
    const auto is = [&](Field f) { return std::find(kStateFields.begin(), kStateFields.end(), f) != kStateFields.end(); };
    return is(field) && std::any_of(kStateFields.begin(), kStateFields.end(),
                                    [&](Field other) { return wanted(other) && tells(shape, other); });
  }
  bool stored_otherwise(Field field) const {
    return std::all_of(model_.layers.begin(), model_.layers.end(),
                       [&](const LayerShape& shape) { return stored_otherwise(field, shape); });
  }

  bool of_no_layer(Field field) const {
    return of_addresses(field) && std::none_of(model_.layers.begin(), model_.layers.end(),
                                               [&](const LayerShape& shape) { return tells(shape, field); });
  }

  bool wanted(Field field) const {
    return std::find(options_.plan.fields.begin(), options_.plan.fields.end(), field_name(field)) !=
           options_.plan.fields.end();
  }

  void describe_layer(int i, LayerCapture& capture) {
    const LayerShape& shape = model_.layers[size_t(i)];
    trace::LayerSpec layer{
        i,           shape.family,      shape.route_kind,
        shape.heads, shape.route_heads, shape.route_kind == "append" ? run_.planned : shape.slots,
        shape.top_k, shape.attributes};
    layer.attributes.insert(layer.attributes.begin(), {{"d_k", shape.d_k}, {"d_v", shape.d_v}});
    if (tells(shape, Field::log_decay)) layer.attributes.emplace_back("decay", std::string(decay_name(shape.decay)));
    if (!shape.note.empty()) layer.attributes.emplace_back("note", shape.note);
    if (!options_.plan.heads.empty()) {
      capture.all_heads = false;
      for (const int head : options_.plan.heads) {
        if (head < shape.heads) capture.heads.push_back(head);
        if (head < shape.route_heads) capture.route_heads.push_back(head);
      }
      layer.attributes.emplace_back("captured_heads", capture.heads);
      layer.attributes.emplace_back("captured_route_heads", capture.route_heads);
    }
    run_.spec.layers.push_back(std::move(layer));
  }

  void add_layer(int i) {
    run_.layers.emplace_back();
    LayerCapture& capture = run_.layers.back();
    describe_layer(i, capture);
    const auto& chosen = options_.plan.layers;
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), i) == chosen.end()) return;
    if (options_.stop_after >= 0 && i > options_.stop_after) return;
    for (int f = 0; f < kFieldCount; ++f)
      if (wanted(Field(f))) add_field(i, Field(f), capture);
    const std::string group = "layers/" + std::to_string(i) + "/";
    if (!run_.tokens.empty() &&
        std::any_of(capture.dataset.begin(), capture.dataset.end(), [](int d) { return d >= 0; }))
      capture.token = add(group + "token", ElementType::i64, {}, covered(run_.tokens, run_.planned), "T_c",
                          "positions of the captured tokens");
    if (capture.of(Field::read_weight) >= 0)
      capture.read_token = add(group + "read_token", ElementType::i64, {}, expected_reads_, "T'",
                               "positions of the rows of read_weight");
    if (std::any_of(kStateFields.begin(), kStateFields.end(), [&](Field f) { return capture.of(f) >= 0; }))
      capture.state_token = add(group + "state_token", ElementType::i64, {}, state_rows(), "S",
                                "states are those after this token");
  }

  int64_t state_rows() const { return run_.state_end ? 1 : int64_t(run_.state_at.size()); }

  void add_field(int i, Field field, LayerCapture& capture) {
    if (field == Field::logits || field == Field::top_ids || field == Field::top_logprob) return;
    if (std::find(kStateFields.begin(), kStateFields.end(), field) != kStateFields.end() && state_rows() == 0) return;
    const LayerShape& shape = model_.layers[size_t(i)];
    const bool stream = field == Field::hidden || field == Field::mixer_in || field == Field::mixer_out;
    if (!stream && !tells(shape, field)) {
      if (stored_otherwise(field, shape)) return;
      if (of_addresses(field) && (all_addresses() || of_no_layer(field))) return;  // no note, or one for all layers
      // Fields of a few families only: who asks for all of them (`attribution`) misses none elsewhere.
      const auto few = {Field::query_rot, Field::key_rot, Field::skip, Field::state_rate};
      const bool memory = field_name(field).starts_with("memory_");
      if ((memory || std::find(few.begin(), few.end(), field) != few.end()) &&
          std::all_of(few.begin(), few.end(), [this](Field f) { return wanted(f); }))
        return;
      const bool route = field == Field::route_index || field == Field::route_weight || field == Field::esl ||
                         field == Field::selected;
      const std::string layer = "layer " + std::to_string(i) + " is " + shape.family;
      add_note(notes_, route ? layer + " (" + shape.note + "): no routes, its rule is stored"
                             : layer + ": no " + std::string(field_name(field)));
      return;
    }
    const int64_t heads = capture.all_heads ? shape.heads : int64_t(capture.heads.size());
    const int64_t route_heads = capture.all_heads ? shape.route_heads : int64_t(capture.route_heads.size());
    const int64_t slots = shape.route_kind == "append" ? run_.planned : shape.slots;
    const ElementType index = shape.wide_routes || slots > 65536 ? ElementType::u32 : ElementType::u16;
    const int64_t rows = covered(run_.tokens, run_.planned);
    ElementType type = run_.real;
    std::vector<int64_t> row;
    int64_t expected = rows;
    bool growing = true;
    switch (field) {
      case Field::route_index:
        type = index;
        row = {route_heads, shape.top_k};
        break;
      case Field::route_weight:
        if (options_.plan.store == "float16" && !shape.wide_routes) type = ElementType::f16;
        if (options_.plan.store == "float16" && shape.wide_routes)
          add_note(notes_, shape.family + ": route_weight is not stored as float16, in which small weights would vanish");
        row = {route_heads, shape.top_k};
        break;
      case Field::write_strength:
        row = columns(shape.strength, shape, heads, route_heads);
        break;
      case Field::log_decay:
        row = columns(shape.decay, shape, heads, route_heads);
        break;
      case Field::read_weight:
        row = {heads, slots};
        expected = expected_reads_;
        break;
      case Field::state_k:
        row = {route_heads, slots, shape.d_k};
        expected = state_rows();
        break;
      case Field::state_v:
        row = {route_heads, slots, shape.d_v};
        expected = state_rows();
        break;
      case Field::state:
        // A memory that is routed to has matrices of every head.
        if (shape.route_kind == "sparse")
          row = {route_heads, slots, shape.heads, shape.d_v, shape.d_k};
        else
          row = {route_heads, shape.d_v, shape.d_k};
        expected = state_rows();
        break;
      case Field::query:
      case Field::query_rot:
        row = {heads, shape.d_k};
        break;
      case Field::key:
      case Field::key_rot:
        row = {route_heads, shape.d_k};
        break;
      case Field::value:
        row = {route_heads, shape.d_v};
        break;
      case Field::read_out:
        row = {heads, shape.d_v};
        break;
      case Field::memory_query:
      case Field::memory_key:
        row = {heads, shape.top_k, shape.d_k};
        break;
      case Field::memory_value:
        row = {heads, shape.top_k, shape.d_v};
        break;
      case Field::memory_decay:
      case Field::memory_strength:
        row = {heads, shape.top_k};
        break;
      case Field::read_index:
        type = index;
        row = {heads, shape.top_k};
        break;
      case Field::read_route_weight:
        row = {heads, shape.top_k};
        break;
      case Field::gamma:
      case Field::lost_mass_write:
      case Field::lost_mass_read:
      case Field::read_mass_written:
        row = {heads};
        break;
      case Field::mass:
        row = {heads, slots};
        expected = state_rows();
        break;
      case Field::slot_value:
        row = {heads, slots, shape.d_v};
        expected = state_rows();
        break;
      case Field::skip:
        row = {route_heads, shape.d_v};
        growing = false;
        break;
      case Field::state_rate:
        row = {route_heads, slots, shape.d_k};
        growing = false;
        break;
      case Field::esl:
      case Field::selected:
        type = ElementType::u32;
        row = {route_heads, slots};
        growing = false;
        break;
      case Field::ties:
        type = ElementType::u32;
        row = {route_heads};
        growing = false;
        break;
      case Field::margin:
        row = {route_heads};
        break;
      default:
        row = {shape.hidden};
        break;  // hidden, mixer_in, mixer_out
    }
    if (std::find(row.begin(), row.end(), 0) != row.end()) return;  // no head of this layer was chosen
    const FieldInfo* info = find_field(field_name(field));
    std::string axes(info->axes);
    if (field == Field::log_decay) axes = column_axes(shape.decay);
    if (field == Field::write_strength) axes = column_axes(shape.strength);
    if (field == Field::state && shape.route_kind == "sparse") axes = "S,H_r,M,H,d_v,d_k";
    if (growing && !run_.tokens.empty() && axes.starts_with("T,")) axes = "T_c" + axes.substr(1);
    capture.dataset[size_t(field)] = add("layers/" + std::to_string(i) + "/" + std::string(info->name), type,
                                         row, expected, axes, std::string(info->description), growing);
  }

  void add_output() {
    if (wanted(Field::logits) && options_.stop_after < 0) {
      const int64_t rows = covered(run_.tokens, run_.planned);
      run_.logits = add("output/logits", run_.real, {model_.vocab}, rows,
                        run_.tokens.empty() ? "T,V" : "T_c,V", "logits of every token");
      if (!run_.tokens.empty())
        run_.logits_token =
            add("output/logits_token", ElementType::i64, {}, rows, "T_c", "positions of the rows of logits");
    }
    if (generate_ <= 0) return;
    const int64_t candidates = std::min(options_.candidates, model_.vocab);
    run_.output_ids = add("output/ids", ElementType::i32, {}, generate_, "G",
                          "generated tokens, the last sampled one included");
    run_.output_text = add("output/text", ElementType::u8, {}, 4 * generate_, "N",
                           "UTF-8 bytes of the generated tokens, special ones left out");
    if (candidates < 1) return;
    run_.top_ids = add("output/top_ids", ElementType::i32, {candidates}, generate_, "G,C",
                       std::string(find_field("top_ids")->description));
    run_.top_logprob = add("output/top_logprob", run_.real, {candidates}, generate_, "G,C",
                           std::string(find_field("top_logprob")->description));
    // So that a trace shows its candidates as text without the tokenizer.
    run_.top_bytes = add("output/top_bytes", ElementType::u8, {candidates, trace::kTopBytesWidth}, generate_, "G,C,32",
                         "decoded bytes of top_ids: their number (0 to 31), then the bytes; longer ones are cut at 31");
  }

  const ModelShape& model_;
  const formats::Prompt& prompt_;
  const RunOptions& options_;
  int64_t generate_;
  std::vector<std::string>& notes_;
  int64_t expected_reads_ = 0;
  RunCapture run_;
};

}  // namespace

RunCapture plan_run(const ModelShape& model, const formats::Prompt& prompt, const RunOptions& options,
                    int64_t generate, std::vector<std::string>& notes) {
  return Planner(model, prompt, options, generate, notes).plan();
}

int64_t planned_bytes(const trace::RunSpec& spec) {
  int64_t total = int64_t(spec.text.size()) + 16 * spec.prompt_tokens;
  for (const trace::DatasetSpec& d : spec.datasets) {
    int64_t elements = 1;
    for (const int64_t n : d.shape) elements *= n;
    total += elements * int64_t(trace::element_size(d.type)) * (d.growing ? d.expected_rows : 1);
  }
  return total;
}

}  // namespace slotscope::engine
