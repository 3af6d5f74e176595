#include "core/analysis/value_field_file.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/value_field_json.h"
#include "core/error.h"

namespace slotscope::analysis {

namespace {

std::string panel_group(size_t row, size_t column) { return "memory/" + std::to_string(row) + "_" + std::to_string(column) + "/"; }

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void put_panel(trace::Result& result, const FieldResult& panel, const FieldPanel& p, const std::string& group, int64_t channels) {
  const auto add = [&](const char* name, std::vector<int64_t> shape, const char* axes, const char* description, std::vector<double> values) {
    result.datasets.push_back({.name = group + name, .shape = std::move(shape), .axes = axes, .description = description, .values = std::move(values)});
  };
  if (p.kind == FieldKind::ramnet) {
    const int64_t slots = int64_t(panel.mass.size());
    add("mass", {slots}, "slot", "retained mass of each slot; slot = code_0 + codes * code_1", panel.mass);
    add("state", {slots, channels}, "slot,channel", "value of each slot", panel.state);
  } else if (!panel.stored.empty() && p.kind == FieldKind::quantised) {
    std::vector<double> position, radius, value;
    for (const FieldKey& key : panel.stored) {
      position.insert(position.end(), {key.x, key.y});
      radius.insert(radius.end(), key.radius.begin(), key.radius.end());
      value.insert(value.end(), key.value.begin(), key.value.begin() + channels);
    }
    const int64_t n = int64_t(panel.stored.size());
    add("stored_position", {n, 2}, "key,axis", "keys as they are stored", std::move(position));
    add("stored_radius", {n, 2}, "key,axis", "lengths of their two planar blocks (torus)", std::move(radius));
    add("stored_value", {n, channels}, "key,channel", "values as they are stored", std::move(value));
  }
}

// A dataset of the file with its sizes checked.
class Reader {
 public:
  Reader(const trace::Result& result, const std::string& file) : result_(result), file_(file) {}
  std::vector<double> get(const std::string& name, const std::vector<int64_t>& shape) const {
    const trace::ResultDataset* d = result_.find(name);
    if (!d) fail(name, "missing", "a dataset of " + shape_text(shape));
    auto values = trace::as_doubles(d->values);
    if (d->shape != shape || int64_t(values.size()) != d->elements()) fail(name, shape_text(d->shape), shape_text(shape));
    return values;
  }
  [[noreturn]] void fail(const std::string& item, const std::string& found, const std::string& expected) const {
    throw Error({.file = file_, .item = item, .found = found, .expected = expected});
  }

 private:
  static std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (const int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + "]";
  }
  const trace::Result& result_;
  const std::string& file_;
};

}  // namespace

trace::Result field_result(const ValueField& f) {
  const FieldSettings& s = f.settings;
  const int64_t R = int64_t(s.rows.size()), P = int64_t(s.columns.size()), G = int64_t(f.x.size()), C = s.channels, N = int64_t(s.keys.size());
  const bool torus = s.space == FieldSpace::torus;
  trace::Result result;
  result.kind = kValueFieldKind;
  std::vector<std::string> titles;
  for (const FieldPanel& p : s.columns) titles.push_back(one_line(field_title(p, s.space)));
  result.parameters = {{"settings", field_settings_json(s)}, {"space", std::string(torus ? "torus" : "plane")}, {"factors", int64_t(field_factors(s.space))},
                       {"tau", s.tau}, {"beta_star", f.beta_star}, {"grid", int64_t(s.grid)}, {"channels", C}, {"columns", titles},
                       {"device", std::string(f.on_gpu ? "cuda" : "cpu")}};
  const auto add = [&](const char* name, std::vector<int64_t> shape, const char* axes, const char* description, std::vector<double> values, const char* unit = "") {
    result.datasets.push_back({.name = name, .shape = std::move(shape), .axes = axes, .description = description, .unit = unit, .values = std::move(values)});
  };
  const char* unit = torus ? "rad" : "";
  add("x", {G}, "x", torus ? "query angle of factor 0" : "query coordinate 0", f.x, unit);
  add("y", {G}, "y", torus ? "query angle of factor 1" : "query coordinate 1", f.y, unit);
  add("row", {R}, "row", "beta / beta* of the row", s.rows);
  std::vector<double> position, radius, value;
  for (const FieldKey& key : s.keys) {
    position.insert(position.end(), {key.x, key.y});
    radius.insert(radius.end(), key.radius.begin(), key.radius.end());
    value.insert(value.end(), key.value.begin(), key.value.begin() + C);
  }
  add("key_position", {N, 2}, "key,axis", torus ? "angles of the keys' two planar blocks" : "keys", std::move(position), unit);
  if (torus) add("key_radius", {N, 2}, "key,axis", "lengths of the keys' two planar blocks", std::move(radius));
  add("key_value", {N, C}, "key,channel", "values of the keys", std::move(value));
  if (!s.queries.empty()) {
    std::vector<double> queries;
    for (const auto& q : s.queries) queries.insert(queries.end(), q.begin(), q.end());
    add("query_position", {int64_t(s.queries.size()), 2}, "query,axis", "queries of the model that the keys came from", std::move(queries), unit);
    result.parameters["origin"] = s.origin;
  }
  add("reference", {G, G, C}, "y,x,channel", "full attention", f.reference->value);
  std::vector<double> field, read_mass, rmse, mean_read, mean_write, empty, written;
  for (const auto& panel : f.panels) {
    field.insert(field.end(), panel->value.begin(), panel->value.end());
    if (panel->read_mass.empty())
      read_mass.resize(read_mass.size() + size_t(G * G), std::numeric_limits<double>::quiet_NaN());
    else
      read_mass.insert(read_mass.end(), panel->read_mass.begin(), panel->read_mass.end());
    rmse.push_back(panel->rmse), mean_read.push_back(panel->mean_read_mass), mean_write.push_back(panel->mean_write_mass);
    empty.push_back(double(panel->empty_cells)), written.push_back(double(panel->written));
  }
  add("field", {R, P, G, G, C}, "row,column,y,x,channel", "value that each panel answers to each query", std::move(field));
  add("read_mass", {R, P, G, G}, "row,column,y,x", "sum of the kept read weights on written slots (NaN: not a RAM-Net panel)", std::move(read_mass));
  add("rmse", {R, P}, "row,column", "root mean square error to full attention, over queries and channels", std::move(rmse));
  add("mean_read_mass", {R, P}, "row,column", "mean of read_mass over queries", std::move(mean_read));
  add("mean_write_mass", {R, P}, "row,column", "mean over keys of the sum of the kept write weights", std::move(mean_write));
  add("empty_cells", {R, P}, "row,column", "queries whose readout has divisor 0: their value is set to 0", std::move(empty));
  add("written_slots", {R, P}, "row,column", "slots with mass", std::move(written));
  for (size_t row = 0; row < size_t(R); ++row)
    for (size_t column = 0; column < size_t(P); ++column) put_panel(result, f.at(row, column), s.columns[column], panel_group(row, column), C);
  return result;
}

std::shared_ptr<const ValueField> field_of_result(const trace::Result& result, const std::string& file) {
  const Reader reader(result, file);
  if (result.kind != kValueFieldKind) reader.fail("kind", "'" + result.kind + "'", kValueFieldKind);
  auto field = std::make_shared<ValueField>();
  FieldSettings& s = field->settings;
  s = parse_field_settings(result.text("settings"), file);
  field->beta_star = result.number("beta_star");
  field->on_gpu = result.parameters.count("device") && result.text("device") == "cuda";
  const int64_t R = int64_t(s.rows.size()), P = int64_t(s.columns.size()), G = s.grid, C = s.channels;
  field->x = reader.get("x", {G}), field->y = reader.get("y", {G});
  auto reference = std::make_shared<FieldResult>();
  reference->value = reader.get("reference", {G, G, C});
  field->reference = reference;
  const auto values = reader.get("field", {R, P, G, G, C}), read_mass = reader.get("read_mass", {R, P, G, G});
  const auto rmse = reader.get("rmse", {R, P}), mean_read = reader.get("mean_read_mass", {R, P}), mean_write = reader.get("mean_write_mass", {R, P}),
             empty = reader.get("empty_cells", {R, P}), written = reader.get("written_slots", {R, P});
  for (size_t at = 0; at < rmse.size(); ++at) {
    const FieldPanel& p = s.columns[at % size_t(P)];
    const std::string group = panel_group(at / size_t(P), at % size_t(P));
    auto panel = std::make_shared<FieldResult>();
    const auto part = [at](const std::vector<double>& all, int64_t n) {
      const auto from = all.begin() + std::ptrdiff_t(at) * n;
      return std::vector<double>(from, from + n);
    };
    panel->value = part(values, G * G * C);
    panel->rmse = rmse[at], panel->mean_read_mass = mean_read[at], panel->mean_write_mass = mean_write[at];
    const auto whole = [&](const char* name, double v) {
      if (!(v >= 0 && v <= 1e15)) reader.fail(name, std::to_string(v), "a count");
      return int64_t(v);
    };
    panel->empty_cells = whole("empty_cells", empty[at]), panel->written = whole("written_slots", written[at]);
    if (p.kind == FieldKind::ramnet) {
      const int64_t slots = field_slots(s.space, p.codes);
      panel->read_mass = part(read_mass, G * G);
      panel->mass = reader.get(group + "mass", {slots}), panel->state = reader.get(group + "state", {slots, C});
    } else if (p.kind == FieldKind::quantised) {
      const int64_t N = int64_t(s.keys.size());
      const auto position = reader.get(group + "stored_position", {N, 2}), radius = reader.get(group + "stored_radius", {N, 2}), value = reader.get(group + "stored_value", {N, C});
      for (size_t k = 0; k < size_t(N); ++k) {
        FieldKey key{.x = position[2 * k], .y = position[2 * k + 1], .radius = {radius[2 * k], radius[2 * k + 1]}};
        std::copy_n(value.begin() + std::ptrdiff_t(k) * C, C, key.value.begin());
        panel->stored.push_back(key);
      }
    } else if (p.kind == FieldKind::full_attention) {
      panel->stored = s.keys;
    }
    field->panels.push_back(std::move(panel));
  }
  return field;
}

}  // namespace slotscope::analysis
