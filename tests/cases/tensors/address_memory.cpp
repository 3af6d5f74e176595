// The address operations of RAM-Net on tensors: the form with a gradient equals the kernels and its gradient the slopes of
// finite differences; the editable point of a layer's route is its write address (spec: ramnet 1.2 to 1.6).
#include "core/engine/model/address_memory.h"

#include <c10/core/GradMode.h>

#include "core/engine/model/families.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;
using namespace slotscope::engine;

namespace {

struct Variant {
  const char* name;
  AddressCode code;
  AddressRule rule;
};

std::vector<Variant> variants() {
  const auto code = [](int factors, int codes, int64_t top_k) {
    AddressCode c;
    c.factors = factors;
    c.codes = codes;
    c.slots = kernels::address_slots(codes, factors);
    c.top_k = top_k;
    return c;
  };
  std::vector<Variant> list = {{"gsu", code(2, 3, 4), {}},
                               {"gsu eps 0, mass-aware", code(3, 2, 5), {}},
                               {"cumulative, all slots", code(2, 2, 4), {}},
                               {"pdma", code(2, 3, 4), {}},
                               {"pdma mass-aware, gamma 2", code(2, 3, 3), {}},
                               {"renormalised, most significant first, minus", code(3, 3, 6), {}}};
  list[1].rule.eps = 0;
  list[1].rule.mass_aware = true;
  list[2].rule.cumulative = true;
  list[3].rule.pdma = list[4].rule.pdma = true;
  list[3].rule.pdma_gamma = 0.5;
  list[3].rule.eps = 0;
  list[4].rule.pdma_gamma = 2;
  list[4].rule.mass_aware = true;
  list[5].code.renormalize = true;
  list[5].code.order = kernels::SlotOrder::factor0_most;
  list[5].code.direction = -1;
  return list;
}

constexpr int64_t kBatch = 2, kTokens = 6, kHeads = 2, kWidth = 3;

// Everything that has a gradient, as one list: read and write logits, values, gamma, the states before.
std::vector<at::Tensor> arguments(const Variant& v, const at::TensorOptions& options) {
  const int64_t wide = int64_t(v.code.factors) * v.code.codes, slots = v.code.slots;
  std::vector<at::Tensor> list = {
      at::randn({kBatch, kTokens, kHeads, wide}, options),   at::randn({kBatch, kTokens, kHeads, wide}, options),
      at::randn({kBatch, kTokens, kHeads, kWidth}, options), at::randn({kBatch, kTokens, kHeads}, options),
      at::rand({kBatch, kHeads, slots}, options) + 0.1,      at::randn({kBatch, kHeads, slots, kWidth}, options)};
  list[3].select(1, 2).zero_();  // where the two branches of the gate meet
  return list;
}

struct Both {
  Addresses read, write;
  AddressMemoryOutput memory;
};

Both forward(const Variant& v, const std::vector<at::Tensor>& a, bool by_token) {
  const at::Tensor cape = at::tensor(std::vector<uint8_t>{1, 0}, at::kByte).to(a[0].device());
  Both out;
  out.read = decode_addresses(a[0], v.code, cape, 5);
  out.write = decode_addresses(a[1], v.code, cape, 5);
  AddressMemoryInput in;
  in.value = a[2];
  in.write_index = out.write.index;
  in.write_weight = out.write.weight;
  in.read_index = out.read.index;
  in.read_weight = out.read.weight;
  if (!v.rule.pdma && !v.rule.cumulative) in.gamma = a[3];
  in.mass = a[4];
  in.slot = a[5];
  in.written = at::ones(a[4].sizes(), a[4].options().dtype(at::kByte));
  in.written.select(2, 0).zero_();
  in.rule = v.rule;
  in.want_writes = true;
  in.read_rows = {1, 4};
  out.memory = by_token ? address_memory_by_token(in) : address_memory(in);
  return out;
}

// One number of everything that can be trained through.
at::Tensor loss(const Variant& v, const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& weights) {
  const Both f = forward(v, a, false);
  return (f.memory.output * weights[0]).sum() + (f.memory.mass * weights[1]).sum() + (f.memory.slot * weights[2]).sum() +
         (f.read.lost * weights[3]).sum();
}

double gap(const at::Tensor& given, const at::Tensor& other) {
  if (given.sizes() != other.sizes()) return NAN;
  const at::Tensor a = given.to(at::kCPU, at::kDouble), b = other.to(at::kCPU, at::kDouble);
  const at::Tensor same = (a == b) | (a.isnan() & b.isnan());
  return at::where(same, 0.0, (a - b).abs()).max().item<double>();
}

}  // namespace

// With a gradient asked for the operations take another way; forwards it must say what the kernels say.
SLOTSCOPE_CASE(differentiable_form_equals_the_kernels) {
  at::manual_seed(1);
  for (const Variant& v : variants())
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      std::vector<at::Tensor> a = arguments(v, at::TensorOptions().dtype(type).device(t.device()));
      const Both kernel = forward(v, a, false), plain = forward(v, a, true);
      for (at::Tensor& t : a) t.requires_grad_();
      const Both graded = forward(v, a, false);
      CHECK(graded.memory.output.requires_grad() && graded.write.weight.requires_grad());
      CHECK(!kernel.memory.output.requires_grad());
      const double tolerance = type == at::kDouble ? 1e-13 : 1e-5;
      double most = 0;
      for (const Both* other : {&plain, &graded}) {
        CHECK(at::equal(kernel.write.index, other->write.index) && at::equal(kernel.read.index, other->read.index));
        CHECK(at::equal(kernel.memory.written, other->memory.written));
        for (const auto& [x, y] :
             {std::pair{&kernel.write.weight, &other->write.weight}, std::pair{&kernel.read.weight, &other->read.weight},
              std::pair{&kernel.write.lost, &other->write.lost}, std::pair{&kernel.write.gap, &other->write.gap},
              std::pair{&kernel.memory.output, &other->memory.output}, std::pair{&kernel.memory.mass, &other->memory.mass},
              std::pair{&kernel.memory.slot, &other->memory.slot}, std::pair{&kernel.memory.strength, &other->memory.strength},
              std::pair{&kernel.memory.read_mass, &other->memory.read_mass},
              std::pair{&kernel.memory.read_weight, &other->memory.read_weight}}) {
          const double error = gap(x->detach(), y->detach());
          CHECK_CLOSE(error, 0, tolerance);
          most = std::max(most, error);
        }
        // Log decays by what they keep: exp(a w).
        const auto keep = [](const Both& b) { return at::exp(b.memory.log_decay.detach() * b.write.weight.detach()); };
        CHECK_CLOSE(gap(keep(kernel), keep(*other)), 0, tolerance);
      }
      t.note(std::string(v.name) + (type == at::kDouble ? " float64 " : " float32 ") + sci(most));
    }
}

SLOTSCOPE_CASE(gradient_equals_finite_differences) {
  at::manual_seed(2);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  for (const Variant& v : variants()) {
    std::vector<at::Tensor> a = arguments(v, options);
    const int64_t slots = v.code.slots;
    const std::vector<at::Tensor> weights = {
        at::randn({kBatch, kTokens, kHeads, kWidth}, options), at::randn({kBatch, kHeads, slots}, options),
        at::randn({kBatch, kHeads, slots, kWidth}, options), at::randn({kBatch, kTokens, kHeads}, options)};
    for (at::Tensor& t : a) t.requires_grad_();
    loss(v, a, weights).backward();
    double most = 0, largest = 0;
    int64_t slopes = 0;
    for (size_t n = 0; n < a.size(); ++n) {
      if (n == 3 && (v.rule.pdma || v.rule.cumulative)) continue;
      std::vector<at::Tensor> moved;
      for (const at::Tensor& t : a) moved.push_back(t.detach().clone());
      const at::Tensor gradient = a[n].grad().flatten(), values = moved[n].flatten();
      for (int64_t i = 0; i < values.numel(); ++i) {
        constexpr double h = 1e-5;
        const at::Tensor place = values.select(0, i);
        const double middle = place.item<double>();
        const auto at_step = [&](double step) {
          place.fill_(middle + step);
          return loss(v, moved, weights).item<double>();
        };
        const double slope = (8 * (at_step(h) - at_step(-h)) - (at_step(2 * h) - at_step(-2 * h))) / (12 * h);
        place.fill_(middle);
        const double error = std::abs(slope - gradient[i].item<double>());
        if (!(error <= most)) most = error;
        largest = std::max(largest, std::abs(slope));
        ++slopes;
      }
    }
    CHECK(largest > 0.1);
    // PDMA's slope is that of its stand-in, which is off by a share of eps.
    CHECK_CLOSE(most, 0, (1e-8 + (v.rule.pdma ? v.rule.eps : 0)) * std::max(1.0, largest));
    t.note(std::string(v.name) + ": " + std::to_string(slopes) + " slopes up to " + sci(largest) + ", worst " + sci(most));
  }
}

// (1-w)^gamma has an infinite slope at w = 1 where gamma < 1; what stands in for it is finite and changes no value.
SLOTSCOPE_CASE(pdma_gradient_at_full_weights) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  AddressMemoryInput in;
  in.rule.pdma = true;
  in.rule.pdma_gamma = 0.5;
  in.value = at::ones({1, 3, 1, 1}, options);
  in.write_index = in.read_index = at::zeros({1, 3, 1, 1}, options.dtype(at::kInt));
  in.write_weight = at::ones({1, 3, 1, 1}, options).requires_grad_();
  in.read_weight = at::ones({1, 3, 1, 1}, options);
  in.mass = at::full({1, 1, 2}, 0.5, options);
  in.slot = at::zeros({1, 1, 2, 1}, options);
  in.written = at::zeros({1, 1, 2}, options.dtype(at::kByte));
  const AddressMemoryOutput out = address_memory(in);
  CHECK_EQ(out.mass[0][0][0].item<double>(), 1.0);
  (out.output.sum() + out.mass.sum()).backward();
  CHECK(at::isfinite(in.write_weight.grad()).all().item<bool>());
}

// No slot (-1) is no write and no read, and does not touch slot 0.
SLOTSCOPE_CASE(no_slot) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  for (const bool by_token : {false, true}) {
    AddressMemoryInput in;
    in.value = at::ones({1, 1, 1, 2}, options);
    in.write_index = at::tensor(std::vector<int32_t>{0, -1, -1}).view({1, 1, 1, 3});
    in.write_weight = at::tensor(std::vector<double>{0.5, 0.3, 0.2}, options).view({1, 1, 1, 3});
    in.read_index = at::tensor(std::vector<int32_t>{-1, 0, 1}).view({1, 1, 1, 3});
    in.read_weight = at::tensor(std::vector<double>{0.7, 0.25, 0.05}, options).view({1, 1, 1, 3});
    in.gamma = at::zeros({1, 1, 1}, options);
    in.mass = at::zeros({1, 1, 3}, options);
    in.slot = at::zeros({1, 1, 3, 2}, options);
    in.written = at::zeros({1, 1, 3}, options.dtype(at::kByte));
    in.rule.eps = 0;
    in.want_writes = true;
    in.read_rows = {0};
    const AddressMemoryOutput out = by_token ? address_memory_by_token(in) : address_memory(in);
    CHECK(at::equal(out.mass[0][0], at::tensor(std::vector<double>{0.5, 0, 0})));
    CHECK(at::equal(out.output[0][0][0], at::tensor(std::vector<double>{0.25, 0.25})));
    CHECK(at::equal(out.strength[0][0][0], at::tensor(std::vector<double>{1, 0, 0})));
    CHECK(at::equal(out.read_weight[0][0][0], at::tensor(std::vector<double>{0.25, 0.05, 0})));
    CHECK_EQ(out.read_mass.item<double>(), 0.25);
    CHECK_EQ(out.log_decay[0][0][0][0].item<double>(), -INFINITY);
    CHECK_EQ(out.log_decay[0][0][0][1].item<double>(), 0.0);
  }
}

namespace {

// Sends every write of a layer elsewhere, and keeps what the layer tells.
class Editor final : public Observer {
 public:
  bool wants(Field, int) const override { return true; }
  void tell(Field field, int, const at::Tensor& value) override { told[field] = value; }
  Route edit_route(int, Route route) override {
    route.index = (route.index + 1).remainder(27).to(at::kInt);
    route.weight = route.weight * 0.5;
    return route;
  }
  void tell_route(int, const Route& route, const at::Tensor&) override { used = route; }
  std::map<Field, at::Tensor> told;
  Route used;
};

}  // namespace

SLOTSCOPE_CASE(edited_writes) {
  const TinyCheckpoint c = made_ramnet();
  const auto folder = t.temp();
  c.write(folder);
  const auto checkpoint = formats::Checkpoint::open(folder);
  const auto family = read_ramnet(*checkpoint, "");
  Numerics numerics;
  numerics.compute = numerics.exact = numerics.router = at::kDouble;
  Progress progress;
  const auto mixer = family->mixer(0, "model.layers.0.attn.", Weights(*checkpoint, numerics, progress));
  at::manual_seed(3);
  const at::Tensor x = at::randn({2, 12, 32}, at::TensorOptions().dtype(at::kDouble));
  MixerState state = mixer->initial_state(2), untouched = mixer->initial_state(2);
  Editor editor;
  Observer nobody;
  const at::Tensor edited = mixer->forward(x, state, editor), plain = mixer->forward(x, untouched, nobody);
  CHECK(gap(edited, plain) > 1e-3);
  // The memory that is left is that of the edited writes: mass follows from them alone.
  const RamNetTwin twin(c);
  double most = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 4; ++h) {
      RamNetTwin::Head head = twin.empty();
      for (int64_t now = 0; now < 12; ++now) {
        RamNetTwin::Step step;
        step.gamma = editor.told.at(Field::gamma)[b][now][h].item<double>();
        for (int64_t k = 0; k < 5; ++k) {
          step.write.slot.push_back(size_t(editor.used.index[b][now][h][k].item<int32_t>()));
          step.write.weight.push_back(editor.used.weight[b][now][h][k].item<double>());
          step.read.slot.push_back(size_t(editor.told.at(Field::read_index)[b][now][h][k].item<int32_t>()));
          step.read.weight.push_back(editor.told.at(Field::read_route_weight)[b][now][h][k].item<double>());
        }
        for (int64_t n = 0; n < 6; ++n) step.value.push_back(editor.told.at(Field::value)[b][now][h][n].item<double>());
        twin.write(head, step);
        twin.read(head, step);
        for (int64_t n = 0; n < 6; ++n)
          most = std::max(most, std::abs(step.out[size_t(n)] - editor.told.at(Field::read_out)[b][now][h][n].item<double>()));
      }
      for (int64_t i = 0; i < 27; ++i)
        most = std::max(most, std::abs(head.mass[size_t(i)] - state.tensors[0][b][h][i].item<double>()));
    }
  CHECK_CLOSE(most, 0, 1e-12);
}

// Through a whole layer: the slope of the output along a random direction of the input, over two segments of one prompt.
SLOTSCOPE_CASE(gradient_through_a_layer) {
  for (const MadeRamNet& m : made_ramnet_models()) {
    if (m.memory.value("update_rule", "gsu") == "pdma" && m.memory.value("state_eps", 1e-6) != 0)
      continue;  // a stand-in's slope
    const auto folder = t.temp();
    m.checkpoint().write(folder);
    const auto checkpoint = formats::Checkpoint::open(folder);
    const auto family = read_ramnet(*checkpoint, "");
    Numerics numerics;
    numerics.compute = numerics.exact = numerics.router = at::kDouble;
    Progress progress;
    const auto mixer = family->mixer(1, "model.layers.1.attn.", Weights(*checkpoint, numerics, progress));
    at::manual_seed(4);
    const auto options = at::TensorOptions().dtype(at::kDouble);
    const at::Tensor x = at::randn({1, 9, 32}, options), direction = at::randn({1, 9, 32}, options),
                     weight = at::randn({1, 9, 32}, options);
    Observer nobody;
    const auto loss = [&](const at::Tensor& input) {
      MixerState state = mixer->initial_state(1);
      const at::Tensor first = mixer->forward(input.slice(1, 0, 5), state, nobody),
                       rest = mixer->forward(input.slice(1, 5), state, nobody);
      return (at::cat({first, rest}, 1) * weight).sum();
    };
    const at::Tensor leaf = x.clone().requires_grad_();
    loss(leaf).backward();
    const double along = (leaf.grad() * direction).sum().item<double>();
    constexpr double h = 1e-5;
    const auto step = [&](double by) { return loss(x + by * direction).item<double>(); };
    const double slope = (8 * (step(h) - step(-h)) - (step(2 * h) - step(-2 * h))) / (12 * h);
    CHECK(std::abs(slope) > 1e-2);
    CHECK_CLOSE(along, slope, 1e-7 * std::max(1.0, std::abs(slope)));
    t.note(m.name + ": slope " + sci(slope) + ", off by " + sci(std::abs(along - slope)));
  }
}
