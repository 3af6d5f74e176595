#include "core/analysis/addresses.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/analysis/trace_access.h"
#include "core/error.h"
#include "core/trace/layer_rule.h"
#include "kernels/address_gate.h"

namespace slotscope::analysis {
namespace {

[[noreturn]] void damaged(const trace::Trace& trace, std::string item, std::string found, std::string expected) {
  throw Error({.file = trace.path().string(),
               .item = std::move(item),
               .found = std::move(found),
               .expected = std::move(expected),
               .advice = "The file may be damaged: capture again"});
}

int64_t integer(const trace::LayerSpec& layer, std::string_view name, int64_t otherwise) {
  for (const auto& [key, value] : layer.attributes)
    if (key == name) {
      if (const auto* n = std::get_if<int64_t>(&value)) return *n;
      if (const auto* x = std::get_if<double>(&value); x && std::abs(*x) < 1e15) return int64_t(*x);
    }
  return otherwise;
}

double number(const trace::LayerSpec& layer, std::string_view name, double otherwise) {
  for (const auto& [key, value] : layer.attributes)
    if (key == name) {
      if (const auto* n = std::get_if<int64_t>(&value)) return double(*n);
      if (const auto* x = std::get_if<double>(&value)) return *x;
    }
  return otherwise;
}

std::string text(const trace::LayerSpec& layer, std::string_view name) {
  for (const auto& [key, value] : layer.attributes)
    if (const auto* t = std::get_if<std::string>(&value); t && key == name) return *t;
  return {};
}

bool lists(const trace::LayerSpec& layer, std::string_view name, int64_t item) {
  for (const auto& [key, value] : layer.attributes)
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value); list && key == name)
      return std::find(list->begin(), list->end(), item) != list->end();
  return false;
}

// d_p^U, or 0 when that is not `slots`.
bool is_code_of(int64_t factors, int64_t codes, int64_t slots) {
  if (factors < 1 || factors > 64 || codes < 1) return false;
  int64_t n = 1;
  for (int64_t u = 0; u < factors; ++u) {
    if (n > slots / codes) return false;
    n *= codes;
  }
  return n == slots;
}

ProductCode code_of(const trace::Trace& trace, const trace::LayerSpec& layer, int head) {
  ProductCode code;
  const int64_t factors = integer(layer, "order", 0), codes = integer(layer, "codes_per_factor", 0);
  if (factors == 0 && codes == 0) return code;
  if (!is_code_of(factors, codes, layer.slots))
    damaged(trace, "layer " + std::to_string(layer.index) + " order and codes_per_factor",
            std::to_string(factors) + " factors of " + std::to_string(codes) + " codes",
            "a product of " + std::to_string(layer.slots) + " slots");
  code.factors = int(factors);
  code.codes = int(codes);
  code.factor0_least = text(layer, "slot_order") != "factor0_most_significant";
  if (lists(layer, "cape_heads", head)) code.shift = integer(layer, "cape_direction", 1);
  if (code.shift < -1 || code.shift > 1)
    damaged(trace, "layer " + std::to_string(layer.index) + " cape_direction", std::to_string(code.shift), "1 or -1");
  return code;
}

AddressRule rule_of(const trace::LayerSpec& layer) {
  AddressRule rule;
  const std::string update = text(layer, "update_rule");
  rule.known = update == "gsu" || update == "pdma";
  rule.pdma = update == "pdma";
  rule.cumulative = integer(layer, "cumulative", 0) != 0;
  rule.mass_aware = text(layer, "readout") == "mass_aware";
  rule.renormalised = integer(layer, "renormalize_topk", 0) != 0;
  rule.pdma_gamma = number(layer, "pdma_gamma", 0);
  rule.eps = number(layer, "state_eps", 0);
  return rule;
}

// Walks the memory's masses token by token (spec: ramnet 1.5).
class Masses {
 public:
  explicit Masses(const Addresses& a)
      : a_(a), mass_(size_t(a.slots()), a.rule.pdma && a.slots() > 0 ? 1.0 / a.slots() : 0.0) {}

  // The write of one row; its strengths and log decays per unit of weight where they are wanted.
  void write(int64_t row, double* strength, double* decay) {
    const AddressRule& rule = a_.rule;
    const double gamma = rule.pdma ? rule.pdma_gamma : rule.cumulative ? 0 : a_.gamma[size_t(row)];
    for (int k = 0; k < a_.write->top_k; ++k) {
      const uint32_t slot = a_.write->slot_at(row, k);
      const double w = a_.write->weight_at(row, k);
      double s = 0, f = 0;
      if (slot < mass_.size() && !(w <= 0)) {
        double& m = mass_[slot];
        if (rule.pdma) {
          m = kernels::pdma_retention(w, gamma) * m + w;
          s = w;
          f = kernels::pdma_log_keep_per_weight(w, gamma);
        } else {
          const double kept = kernels::gsu_retention(w, gamma, rule.cumulative) * m;
          m = kept + w;
          s = w / (kept + w + rule.eps);
          f = kernels::gsu_log_keep_per_weight(w, kept, rule.eps);
        }
      }
      if (strength) strength[k] = s, decay[k] = f;
    }
  }
  // p of one row, after its write (spec: ramnet 1.6).
  void read(int64_t row, double* p) const {
    const AddressRule& rule = a_.rule;
    double sum = 0;
    for (int k = 0; k < a_.read_k; ++k) {
      const uint32_t slot = a_.read_slot[size_t(row * a_.read_k + k)];
      const double r = a_.read_weight[size_t(row * a_.read_k + k)];
      p[k] = 0;
      if (slot >= mass_.size()) continue;
      const double m = mass_[slot], divisor = m + rule.eps, weight = rule.mass_aware ? r * m : r;
      sum += r * m;
      p[k] = !rule.pdma ? weight : divisor == 0 ? 0 : weight / divisor;
    }
    if (!rule.mass_aware) return;
    for (int k = 0; k < a_.read_k; ++k) p[k] = sum == 0 ? 0 : p[k] / sum;
  }
  std::vector<double> take() { return std::move(mass_); }

 private:
  const Addresses& a_;
  std::vector<double> mass_;
};

std::string why_no_masses(const Addresses& a) {
  if (!a.rule.known) return "this memory keeps no mass";
  if (a.rows() != a.tokens()) return "the masses need every token: run again without --tokens";
  if (!a.rule.pdma && !a.rule.cumulative && a.gamma.empty())
    return "the masses need gamma: run again with --capture addresses";
  return {};
}

bool stopped(Progress* progress) { return progress && progress->cancel_requested(); }

// Strengths, log decays and p from w and gamma. False when progress asks to stop.
bool replay(Addresses& a, bool gates, Progress* progress) {
  Masses masses(a);
  HeadRoutes routes = *a.write;
  const size_t cells = size_t(routes.rows) * size_t(routes.top_k);
  if (gates) {
    routes.per_slot_decay = true;
    routes.common_strength = false;
    routes.strength.assign(cells, 0);
    routes.log_decay.assign(cells, 0);
  }
  a.read_p.assign(a.read_slot.size(), 0);
  for (int64_t row = 0; row < routes.rows; ++row) {
    if (row % 1024 == 0 && stopped(progress)) return false;
    const size_t at = size_t(row) * size_t(routes.top_k);
    masses.write(row, gates ? routes.strength.data() + at : nullptr, gates ? routes.log_decay.data() + at : nullptr);
    masses.read(row, a.read_p.data() + size_t(row) * size_t(a.read_k));
  }
  if (gates) {
    auto made = std::make_shared<HeadRoutes>(std::move(routes));
    a.writes = std::make_shared<SlotWrites>(group_writes(*made));
    a.write = std::move(made);
  }
  return true;
}

// The read weights p and whether every row of A is known, from what was captured.
bool complete(Addresses& a, Progress* progress) {
  if (!a.own_reads || !a.rule.known) {
    if (!a.writes->has_gates && a.no_induced.empty()) a.no_induced = "log_decay was not captured: run again with log_decay";
    return true;
  }
  const bool gates = a.write->has_decay() && a.write->has_strength();
  const bool by_mass = a.rule.pdma || a.rule.mass_aware;
  if (gates && !by_mass) return true;
  a.no_induced = why_no_masses(a);
  return !a.no_induced.empty() || replay(a, !gates, progress);
}

std::vector<double> head_column(const trace::Trace& trace, int run, const trace::DatasetInfo& data, int64_t place,
                                int64_t expected, Progress* progress) {
  std::vector<double> values = trace.read_head(run, data.path, int(place), 0, -1, progress);
  if (int64_t(values.size()) != expected)
    damaged(trace, data.path, std::to_string(values.size()) + " values of a head", std::to_string(expected));
  return values;
}

void load_reads(const trace::Trace& trace, int run, const trace::LayerSpec& layer, int head, Addresses& a,
                Progress* progress) {
  const trace::RunInfo& info = trace.run(run);
  const std::string at = "layers/" + std::to_string(layer.index) + "/";
  const auto *index = info.find(at + "read_index"), *weight = info.find(at + "read_route_weight");
  if (!index || !weight) return;
  if (index->shape.size() != 3 || index->shape != weight->shape || index->shape[0] != a.rows())
    damaged(trace, index->path, "another shape than read_route_weight or route_index", "[T,H,K] both");
  const int64_t place = head_place(layer, "captured_heads", head), k = index->shape[2];
  if (place < 0 || place >= index->shape[1]) return;
  if (k < 1 || k > layer.slots || a.rows() > trace::kMostCells / k)
    damaged(trace, index->path, std::to_string(a.rows()) + " rows of " + std::to_string(k) + " slots",
            "at most " + std::to_string(trace::kMostCells) + " numbers, and no more slots than there are");
  const std::vector<double> slot = head_column(trace, run, *index, place, a.rows() * k, progress);
  a.read_weight = head_column(trace, run, *weight, place, a.rows() * k, progress);
  a.read_slot.reserve(slot.size());
  for (const double i : slot) {
    if (!(i >= 0) || i >= double(layer.slots))
      damaged(trace, index->path, "slot " + std::to_string(i), "slots 0 to " + std::to_string(layer.slots - 1));
    a.read_slot.push_back(uint32_t(i));
  }
  a.read_k = int(k);
  a.own_reads = true;
}

void load_gamma(const trace::Trace& trace, int run, const trace::LayerSpec& layer, int head, Addresses& a,
                Progress* progress) {
  const auto* gamma = trace.run(run).find("layers/" + std::to_string(layer.index) + "/gamma");
  const int64_t place = head_place(layer, "captured_route_heads", head);
  if (gamma && gamma->shape.size() == 2 && gamma->shape[0] == a.rows() && place >= 0 && place < gamma->shape[1])
    a.gamma = head_column(trace, run, *gamma, place, a.rows(), progress);
}

}  // namespace

std::vector<int> ProductCode::digits(int64_t slot) const {
  std::vector<int> out(size_t(factors), 0);
  for (int u = 0; u < factors; ++u, slot /= codes)
    out[size_t(factor0_least ? u : factors - 1 - u)] = int(slot % codes);
  return out;
}

int64_t ProductCode::moved(int64_t decoded, int64_t position, int64_t slots) const {
  if (shift == 0 || slots < 1) return decoded;
  const int64_t by = (shift % slots) * (position % slots) % slots;
  return ((decoded + by) % slots + slots) % slots;
}

int64_t ProductCode::decoded(int64_t slot, int64_t position, int64_t slots) const {
  ProductCode back = *this;
  back.shift = -shift;
  return back.moved(slot, position, slots);
}

std::string slot_name(const ProductCode& code, int64_t slot) {
  std::string name = std::to_string(slot);
  if (!code.known()) return name;
  name += " (";
  const std::vector<int> digits = code.digits(slot);
  for (size_t u = 0; u < digits.size(); ++u) name += (u ? "·" : "") + std::to_string(digits[u]);
  return name + ")";
}

std::shared_ptr<const Addresses> make_addresses(Addresses a) {
  if (!a.write) throw Error({.item = "addresses", .found = "no write addresses"});
  if (!a.writes) a.writes = std::make_shared<SlotWrites>(group_writes(*a.write));
  const size_t rows = size_t(a.rows()), cells = rows * size_t(std::max(a.read_k, 0));
  const bool fits = !a.own_reads || (a.read_k > 0 && a.read_slot.size() == cells && a.read_weight.size() == cells);
  if (!fits || (!a.gamma.empty() && a.gamma.size() != rows) || (!a.position.empty() && a.position.size() != rows))
    throw Error({.item = "addresses", .found = "arrays of other sizes than the write addresses"});
  for (const uint32_t slot : a.read_slot)
    if (slot >= uint32_t(a.slots()))
      throw Error({.item = "read address",
                   .found = "slot " + std::to_string(slot),
                   .expected = "slots 0 to " + std::to_string(a.slots() - 1)});
  if (a.position.empty())
    for (int64_t row = 0; row < a.rows(); ++row) a.position.push_back(a.write->token_of(row));
  complete(a, nullptr);
  return std::make_shared<const Addresses>(std::move(a));
}

std::shared_ptr<const Addresses> load_addresses(const trace::Trace& trace, int run, int layer, int head,
                                                Progress* progress, std::shared_ptr<const HeadData> data) {
  const trace::RunInfo& info = run_info(trace, run);
  const trace::LayerSpec& spec = layer_spec(trace, run, layer);
  auto a = std::make_shared<Addresses>();
  if (data) {
    a->write = {data, &data->routes};
    a->writes = {data, &data->writes};
  } else {
    auto routes = std::make_shared<HeadRoutes>(trace.routes(run, layer, head, progress));
    if (stopped(progress)) return nullptr;
    a->writes = std::make_shared<SlotWrites>(group_writes(*routes));
    a->write = std::move(routes);
  }
  a->code = code_of(trace, spec, head);
  a->rule = rule_of(spec);
  for (int64_t row = 0; row < a->rows(); ++row) {
    const size_t t = size_t(a->write->token_of(row));
    a->position.push_back(t < info.position.size() ? info.position[t] : int64_t(t));
  }
  load_reads(trace, run, spec, head, *a, progress);
  load_gamma(trace, run, spec, head, *a, progress);
  if (a->rule.known && !a->own_reads)
    a->no_overlap = a->no_induced =
        "read addresses were not captured: run again with --capture route,addresses";
  else if (spec.route_kind == "append")
    a->no_overlap = "every token has a slot of its own, so the routes of two tokens never meet";
  else if (!a->own_reads)
    a->no_overlap = overlap_constant(*a->write);
  if (stopped(progress) || !complete(*a, progress)) return nullptr;
  return a;
}

std::string why_not(const Addresses& a, const AddressDials& dials) {
  if (dials.captured()) return {};
  const HeadRoutes& w = *a.write;
  if (!a.own_reads) return "only read and write addresses of a product code can be dialled";
  const int kept = std::min(w.top_k, a.read_k);
  if (dials.top_k < 0 || dials.top_k > kept)
    return "Top-" + std::to_string(dials.top_k) + ": only the first " + std::to_string(kept) +
           " ranks were captured; a larger Top-K needs a run with it";
  if (!(dials.temperature > 0) || !std::isfinite(dials.temperature)) return "a temperature must be a number above 0";
  if (dials.temperature != 1 && !a.rule.renormalised) {
    if (w.top_k < w.slots || a.read_k < w.slots)
      return "temperature " + std::to_string(dials.temperature) + ": Top-" + std::to_string(kept) + " of " +
             std::to_string(w.slots) +
             " slots was captured, and the softmax over the others, which divides every weight, is not known";
    const auto zero = [](double x) { return x == 0; };
    if (dials.temperature > 1 && (std::any_of(w.weight.begin(), w.weight.end(), zero) ||
                                  std::any_of(a.read_weight.begin(), a.read_weight.end(), zero)))
      return "temperature above 1: weights that underflowed to 0 cannot be raised again";
  }
  if (dials.shift && std::abs(*dials.shift) > (int64_t(1) << 24)) return "a shift of more slots than a memory may have";
  if (dials.shift && !a.code.known()) return "the trace does not say how slots were shifted";
  return {};
}

namespace {

// One kind of address under the dials: weights of the first k ranks, to the power of 1 / temperature, divided by their sum
// where the model does so; slots moved to the new shift.
void dial(const Addresses& a, const AddressDials& dials, int width, int k, std::vector<uint32_t>& slot,
          std::vector<double>& weight) {
  const int64_t slots = a.slots();
  ProductCode to = a.code;
  to.shift = dials.shift.value_or(a.code.shift);
  for (int64_t row = 0; row < a.rows(); ++row) {
    double sum = 0;
    std::vector<double> w(size_t(width), 0);
    for (int i = 0; i < width; ++i) {
      const double x = weight[size_t(row * width + i)];
      w[size_t(i)] = dials.temperature == 1 ? x : std::pow(x, 1 / dials.temperature);
      if (i < (a.rule.renormalised ? k : width)) sum += w[size_t(i)];
    }
    const bool divide = dials.temperature != 1 || (a.rule.renormalised && k < width);
    for (int i = 0; i < k; ++i) {
      const size_t from = size_t(row * width + i), into = size_t(row * k + i);
      const int64_t position = a.position[size_t(row)];
      slot[into] = uint32_t(to.moved(a.code.decoded(slot[from], position, slots), position, slots));
      weight[into] = divide && sum > 0 ? w[size_t(i)] / sum : w[size_t(i)];
    }
  }
  slot.resize(size_t(a.rows() * k));
  weight.resize(size_t(a.rows() * k));
}

}  // namespace

std::shared_ptr<const Addresses> with_dials(std::shared_ptr<const Addresses> captured, const AddressDials& dials,
                                            Progress* progress) {
  if (dials.captured()) return captured;
  if (const std::string why = why_not(*captured, dials); !why.empty())
    throw Error({.item = "dials", .found = why}, Error::Kind::usage);
  auto a = std::make_shared<Addresses>(*captured);
  auto routes = std::make_shared<HeadRoutes>(*captured->write);
  const int write_k = dials.top_k ? dials.top_k : routes->top_k, read_k = dials.top_k ? dials.top_k : a->read_k;
  dial(*captured, dials, routes->top_k, write_k, routes->index, routes->weight);
  dial(*captured, dials, a->read_k, read_k, a->read_slot, a->read_weight);
  routes->top_k = write_k;
  a->read_k = read_k;
  routes->strength.clear();
  routes->log_decay.clear();
  routes->per_slot_decay = false;
  a->code.shift = dials.shift.value_or(a->code.shift);
  a->write = routes;
  a->read_p.clear();
  a->no_induced = why_no_masses(*a);
  if (stopped(progress)) return nullptr;
  if (a->no_induced.empty()) return replay(*a, true, progress) ? a : nullptr;
  a->writes = std::make_shared<SlotWrites>(group_writes(*routes));
  return a;
}

std::vector<double> mass_after(const Addresses& a, int64_t t, std::string& why) {
  why = why_no_masses(a);
  if (why.empty() && (t < 0 || t >= a.tokens())) why = "token " + std::to_string(t) + " is not there";
  if (!why.empty()) return {};
  Masses masses(a);
  for (int64_t row = 0; row <= t; ++row) masses.write(row, nullptr, nullptr);
  return masses.take();
}

}  // namespace slotscope::analysis
