// Value fields as result files: all numbers come back, damaged files are refused by name.
#include "core/analysis/value_field_file.h"

#include <cmath>

#include "core/analysis/value_field_keys.h"
#include "core/error.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::analysis;

namespace {

FieldSettings small(const char* preset) {
  FieldSettings s = find_field_preset(preset)->make();
  s.grid = 6;
  return s;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

SLOTSCOPE_CASE(round_trip) {
  const auto file = t.temp() / "field.h5";
  for (const FieldPreset& preset : field_presets()) {
    const auto field = value_field(small(preset.name));
    trace::write_result(file, field_result(*field), true);
    const auto back = field_of_result(trace::read_result(file, kValueFieldKind), file.string());
    CHECK(back->settings == field->settings);
    CHECK_EQ(back->beta_star, field->beta_star);
    CHECK(back->x == field->x && back->y == field->y);
    CHECK(back->reference->value == field->reference->value);
    CHECK_EQ(back->panels.size(), field->panels.size());
    for (size_t i = 0; i < field->panels.size(); ++i) {
      const FieldResult &a = *field->panels[i], &b = *back->panels[i];
      CHECK(a.value == b.value && a.read_mass == b.read_mass && a.mass == b.mass && a.state == b.state && a.stored == b.stored);
      CHECK(same(a.rmse, b.rmse) && same(a.mean_read_mass, b.mean_read_mass) && same(a.mean_write_mass, b.mean_write_mass));
      CHECK(a.empty_cells == b.empty_cells && a.written == b.written);
    }
  }
}

SLOTSCOPE_CASE(axes_and_parameters) {
  FieldSettings s = small("paper");
  s.channels = 3, s.keys = field_keys(s.space, {.rgb = true});
  const trace::Result r = field_result(*value_field(s));
  CHECK_EQ(r.kind, std::string("ramnet-valuefield"));
  CHECK(r.at("field").shape == (std::vector<int64_t>{3, 6, 6, 6, 3}));
  CHECK_EQ(r.at("field").axes, std::string("row,column,y,x,channel"));
  CHECK(r.coordinates(r.at("field"), 0)->name == "row");
  CHECK(r.coordinates(r.at("field"), 3)->unit == "rad");
  CHECK_EQ(r.number("beta_star"), 4.0);
  CHECK(r.at("memory/0_3/mass").shape == std::vector<int64_t>{256});
  CHECK(r.find("memory/0_0/mass") == nullptr);
}

SLOTSCOPE_CASE(damaged_files) {
  const auto good = field_result(*value_field(small("figure-1-torus")));
  const auto without = [&](const std::string& name) {
    trace::Result r = good;
    std::erase_if(r.datasets, [&](const auto& d) { return d.name == name; });
    return r;
  };
  for (const char* name : {"x", "reference", "field", "read_mass", "rmse", "written_slots", "memory/0_3/mass", "memory/0_1/stored_radius"})
    CHECK_ERROR(field_of_result(without(name), "f.h5"), "f.h5", name, "missing");
  trace::Result r = good;
  r.parameters["settings"] = std::string("{");
  CHECK_ERROR(field_of_result(r, "f.h5"), "f.h5");
  r = good;
  r.kind = "ramnet-theory";
  CHECK_ERROR(field_of_result(r, "f.h5"), "kind", "ramnet-theory");
  r = good;
  for (auto& d : r.datasets)
    if (d.name == "field") d.shape.back() = 3;  // more than there are values
  CHECK_ERROR(field_of_result(r, "f.h5"), "field");
  r = good;
  for (auto& d : r.datasets)
    if (d.name == "empty_cells") d.values = std::vector<double>(12, -1);
  CHECK_ERROR(field_of_result(r, "f.h5"), "empty_cells", "a count");
}
