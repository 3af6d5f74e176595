#include "core/engine/model/address_memory.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <vector>

#include "core/engine/cuda_stream.h"
#include "kernels/address_scan.h"

namespace slotscope::engine {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The best ranks, as many as were asked for: [B,T,H,K'] each.
struct Ranked {
  at::Tensor index, weight, score;
};

template <class Real>
Ranked rank(const at::Tensor& given, const AddressCode& code, int64_t top_k, const at::Tensor& cape, int64_t first) {
  const at::Tensor logits = given.contiguous();
  auto shape = logits.sizes().vec();
  shape.back() = top_k;
  Ranked out{at::empty(shape, logits.options().dtype(at::kInt)), at::empty(shape, logits.options()),
             at::empty(shape, logits.options())};
  kernels::AddressDecodeInput<Real> in;
  in.logit = logits.const_data_ptr<Real>();
  in.batch = shape[0];
  in.tokens = shape[1];
  in.heads = int(shape[2]);
  in.factors = code.factors;
  in.codes = code.codes;
  in.top_k = int(top_k);
  in.order = code.order;
  if (cape.defined()) in.cape = cape.const_data_ptr<uint8_t>();
  in.direction = code.direction;
  in.first_position = first;
  kernels::AddressDecodeOutput<Real> to;
  to.slot = out.index.data_ptr<int32_t>();
  to.weight = out.weight.data_ptr<Real>();
  to.score = out.score.data_ptr<Real>();
  if (logits.is_cuda()) {
    kernels::select_addresses_cuda(in, to, current_cuda_stream(logits.device().index()));
    return out;
  }
  at::parallel_for(0, shape[0] * shape[1] * shape[2], 64,
                   [&](int64_t from, int64_t until) { kernels::select_addresses_cpu(in, to, from, until); });
  return out;
}

// log of the product of the factors' probabilities at the chosen slots, with a gradient.
at::Tensor log_weight(const at::Tensor& logits, const at::Tensor& index, const AddressCode& code) {
  auto shape = logits.sizes().vec();
  shape.back() = code.factors;
  shape.push_back(code.codes);
  const at::Tensor log_p = at::log_softmax(logits.view(shape), -1);
  const at::Tensor slot = index.to(at::kLong);
  at::Tensor sum;
  int64_t step = 1;
  for (int digit = 0; digit < code.factors; ++digit, step *= code.codes) {
    const int u = code.order == kernels::SlotOrder::factor0_least ? digit : code.factors - 1 - digit;
    const at::Tensor chosen = at::floor_divide(slot, step).remainder(code.codes);
    const at::Tensor term = at::gather(log_p.select(-2, u), -1, chosen);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

at::Tensor shifted(const at::Tensor& index, const AddressCode& code, const at::Tensor& cape, int64_t first) {
  if (!cape.defined()) return index;
  const at::Tensor position = at::arange(first, first + index.size(1), index.options().dtype(at::kLong));
  const at::Tensor shift = (code.direction * position).view({-1, 1, 1}) * cape.to(at::kLong).view({1, -1, 1});
  return (index.to(at::kLong) + shift).remainder(code.slots).to(at::kInt);
}

}  // namespace

Addresses decode_addresses(const at::Tensor& logits, const AddressCode& code, const at::Tensor& cape, int64_t first_position) {
  TORCH_CHECK(logits.dim() == 4 && logits.size(3) == int64_t(code.factors) * code.codes, "logits shape");
  const bool gradient = c10::GradMode::is_enabled() && logits.requires_grad(), cut = code.top_k < code.slots;
  const at::Tensor plain = logits.detach(), none;
  const int64_t ranks = code.top_k + cut;  // one more than is kept, for the gap at the cut
  const at::Tensor& moved = gradient ? none : cape;
  const Ranked ranked = plain.scalar_type() == at::kDouble ? rank<double>(plain, code, ranks, moved, first_position)
                                                           : rank<float>(plain, code, ranks, moved, first_position);
  const auto kept = [&](const at::Tensor& t) { return t.slice(-1, 0, code.top_k).contiguous(); };
  Addresses out;
  out.index = kept(ranked.index);
  const at::Tensor last = ranked.score.select(-1, code.top_k - 1);
  out.gap = cut ? last - ranked.score.select(-1, code.top_k) : at::full_like(last, kNaN);
  out.weight = gradient ? at::exp(log_weight(logits, out.index, code)) : kept(ranked.weight);
  const at::Tensor sum = out.weight.sum(-1);
  out.lost = cut ? (1 - sum).clamp_min(0) : at::where(sum.isnan(), sum, at::zeros_like(sum));
  if (code.renormalize) out.weight = out.weight / sum.unsqueeze(-1);
  if (gradient) out.index = shifted(out.index, code, cape, first_position).contiguous();
  return out;
}

namespace {

// rho = sigmoid(logit(1 - w) - gamma) without overflow or cancellation (spec: ramnet 1.5). gamma [..., 1] may be infinite.
at::Tensor retention(const at::Tensor& w, const at::Tensor& gamma) {
  // Each branch is a constant where the other holds, so that the gradient is right at gamma = 0 too.
  const at::Tensor positive = gamma > 0, one = at::ones_like(gamma);
  const at::Tensor keep = (1 - w).clamp_min(0) * at::where(positive, at::exp(-gamma.clamp_min(0)), one);
  const at::Tensor take = w * at::where(positive, one, at::exp(gamma.clamp_max(0)));
  const at::Tensor sum = keep + take;
  return keep / at::where(sum == 0, at::ones_like(sum), sum);  // w = 1, gamma = -inf: 0
}

// The loop over the tokens of one segment. A slot more than the memory has takes what index -1 writes.
class TokenLoop {
 public:
  explicit TokenLoop(const AddressMemoryInput& in)
      : in_(in),
        rule_(in.rule),
        slots_(in.mass.size(2)),
        mass_(at::constant_pad_nd(in.mass, {0, 1}, rule_.initial_mass(slots_))),
        slot_(at::constant_pad_nd(in.slot, {0, 0, 0, 1})),
        written_(at::constant_pad_nd(in.written, {0, 1})) {}

  AddressMemoryOutput run() {
    const at::ScalarType type = in_.mass.scalar_type();
    const at::Tensor value = in_.value.to(type), w = in_.write_weight.to(type), r = in_.read_weight.to(type);
    const at::Tensor write_at = place(in_.write_index), read_at = place(in_.read_index);
    const at::Tensor none = at::zeros({}, w.options());
    for (int64_t t = 0; t < value.size(1); ++t) {
      write(value.select(1, t), write_at.select(1, t), at::where(in_.write_index.select(1, t) < 0, none, w.select(1, t)), t);
      read(read_at.select(1, t), at::where(in_.read_index.select(1, t) < 0, none, r.select(1, t)));
    }
    AddressMemoryOutput out;
    out.output = at::stack(output_, 1);
    out.read_mass = at::stack(read_mass_, 1);
    if (in_.want_writes) {
      out.strength = at::stack(strength_, 1);
      out.log_decay = at::stack(log_decay_, 1);
    }
    if (!in_.read_rows.empty()) out.read_weight = read_weight(read_at);
    out.mass = mass_.slice(2, 0, slots_).contiguous();
    out.slot = slot_.slice(2, 0, slots_).contiguous();
    out.written = written_.slice(2, 0, slots_).contiguous();
    return out;
  }

 private:
  at::Tensor place(const at::Tensor& index) const {
    const at::Tensor at = index.to(at::kLong);
    return at::where(at < 0, slots_, at);
  }
  at::Tensor wide(const at::Tensor& at) const {
    return at.unsqueeze(-1).expand({at.size(0), at.size(1), at.size(2), slot_.size(3)});
  }

  // v [B,H,d_v], at and w [B,H,K].
  void write(const at::Tensor& v, const at::Tensor& at, const at::Tensor& w, int64_t t) {
    const at::Tensor before = at::gather(mass_, 2, at), written = ~(w <= 0), zero = at::zeros_like(w), one = at::ones_like(w);
    at::Tensor keep, strength, log_keep, after;  // of the slot's value, what it takes, log keep, the mass after it
    if (rule_.pdma) {
      log_keep = rule_.pdma_gamma == 0 ? zero : rule_.pdma_gamma * at::log1p(-w.detach().clamp_max(1));
      keep = pdma_keep(w, log_keep);
      strength = w;
      after = keep * before + w;
    } else {
      const at::Tensor rho = in_.gamma.defined() ? retention(w, in_.gamma.select(1, t).to(w.scalar_type()).unsqueeze(-1)) : one;
      const at::Tensor kept = rho * before;
      after = kept + w;
      const at::Tensor divisor = at::where(written, after + rule_.eps, one);
      strength = w / divisor;
      keep = (kept + rule_.eps) / divisor;  // 1 - strength without cancellation
      log_keep = at::where(strength < 0.5, at::log1p(-strength), at::log(keep)).detach();
    }
    keep = at::where(written, keep, one);
    strength = at::where(written, strength, zero);
    mass_ = at::scatter(mass_, 2, at, at::where(written, after, before));
    const at::Tensor old = at::gather(slot_, 2, wide(at));
    slot_ = at::scatter(slot_, 2, wide(at), keep.unsqueeze(-1) * old + strength.unsqueeze(-1) * v.unsqueeze(2));
    written_ = at::scatter(written_, 2, at, at::gather(written_, 2, at) | written.to(at::kByte));
    if (!in_.want_writes) return;
    strength_.push_back(strength);
    log_decay_.push_back(at::where(written, log_keep / at::where(written, w.detach(), one), zero));
  }

  at::Tensor pdma_keep(const at::Tensor& w, const at::Tensor& log_keep) const {
    const at::Tensor keep = at::exp(log_keep);
    if (!c10::GradMode::is_enabled() || !w.requires_grad() || rule_.pdma_gamma == 0) return keep;
    // (1-w)^gamma has no gradient at w = 1: that of (eps + (1-eps)(1-w))^gamma stands in for it (spec: ramnet 1.5).
    const at::Tensor proxy = at::pow(rule_.eps + (1 - rule_.eps) * (1 - w), rule_.pdma_gamma);
    return keep + (proxy - proxy.detach());
  }

  void read(const at::Tensor& at, const at::Tensor& r) {
    const at::Tensor mass = at::gather(mass_, 2, at);
    at::Tensor p = r;
    if (rule_.mass_aware) {
      const at::Tensor met = r * mass, sum = met.sum(-1, true);
      p = met / at::where(sum == 0, at::ones_like(sum), sum);
    }
    if (rule_.pdma) p = p / (mass + rule_.eps);
    output_.push_back((p.unsqueeze(-1) * at::gather(slot_, 2, wide(at))).sum(2));
    read_mass_.push_back((r * at::gather(written_, 2, at)).sum(-1));
    read_.push_back(p);
  }

  at::Tensor read_weight(const at::Tensor& read_at) const {
    const at::Tensor rows = at::tensor(in_.read_rows, at::kLong).to(read_at.device());
    const at::Tensor p = at::stack(read_, 1).index_select(1, rows), index = read_at.index_select(1, rows);
    const at::Tensor dense = at::zeros({p.size(0), p.size(1), p.size(2), slots_ + 1}, p.options());
    return at::scatter(dense, 3, index, p).slice(3, 0, slots_).contiguous();
  }

  const AddressMemoryInput& in_;
  AddressRule rule_;
  int64_t slots_;
  at::Tensor mass_, slot_, written_;
  std::vector<at::Tensor> output_, strength_, log_decay_, read_, read_mass_;
};

void check(const AddressMemoryInput& in) {
  const auto& v = in.value.sizes();
  TORCH_CHECK(in.value.dim() == 4, "value shape");
  const at::IntArrayRef tokens = v.slice(0, 3);
  for (const at::Tensor* t : {&in.write_index, &in.write_weight, &in.read_index, &in.read_weight})
    TORCH_CHECK(t->dim() == 4 && t->sizes().slice(0, 3) == tokens && t->size(3) == in.write_index.size(3), "address shape");
  TORCH_CHECK(in.write_index.scalar_type() == at::kInt && in.read_index.scalar_type() == at::kInt, "index type");
  TORCH_CHECK(in.gamma.defined() == !(in.rule.pdma || in.rule.cumulative), "gamma is for GSU that forgets");
  TORCH_CHECK(!in.gamma.defined() || in.gamma.sizes() == tokens, "gamma shape");
  TORCH_CHECK(in.mass.dim() == 3 && in.slot.sizes() == at::IntArrayRef({v[0], v[2], in.mass.size(2), v[3]}) &&
                  in.mass.sizes() == in.written.sizes() && in.mass.scalar_type() == in.slot.scalar_type() &&
                  in.written.scalar_type() == at::kByte,
              "state");
}

bool needs_gradient(const AddressMemoryInput& in) {
  if (!c10::GradMode::is_enabled()) return false;
  for (const at::Tensor* t : {&in.value, &in.write_weight, &in.read_weight, &in.gamma, &in.mass, &in.slot})
    if (t->defined() && t->requires_grad()) return true;
  return false;
}

constexpr int64_t kWorkPerThread = 100'000;  // multiplications

template <class Real>
void scan(const AddressMemoryInput& in, AddressMemoryOutput& out) {
  const at::ScalarType type = out.mass.scalar_type();
  const auto same = [&](const at::Tensor& t) { return t.defined() ? t.to(type).contiguous() : t; };
  const at::Tensor write_index = in.write_index.contiguous(), read_index = in.read_index.contiguous();
  const at::Tensor w = same(in.write_weight), r = same(in.read_weight), value = same(in.value), gamma = same(in.gamma);
  kernels::AddressScanInput<Real> input;
  input.write_index = write_index.const_data_ptr<int32_t>();
  input.write_weight = w.const_data_ptr<Real>();
  input.read_index = read_index.const_data_ptr<int32_t>();
  input.read_weight = r.const_data_ptr<Real>();
  input.value = value.const_data_ptr<Real>();
  if (gamma.defined()) input.gamma = gamma.const_data_ptr<Real>();
  input.gamma_of_all = Real(in.rule.pdma_gamma);
  input.cumulative = in.rule.cumulative;
  input.eps = Real(in.rule.eps);
  input.update = in.rule.pdma ? kernels::AddressUpdate::pdma : kernels::AddressUpdate::gsu;
  input.readout = in.rule.mass_aware ? kernels::AddressReadout::mass_aware : kernels::AddressReadout::standard;
  at::Tensor read_row;
  if (!in.read_rows.empty()) {
    std::vector<int32_t> rows(size_t(value.size(1)), -1);
    for (size_t i = 0; i < in.read_rows.size(); ++i) rows.at(size_t(in.read_rows[i])) = int32_t(i);
    read_row = at::tensor(rows, at::kInt).to(value.device());
    input.read_row = read_row.const_data_ptr<int32_t>();
    input.read_rows = int64_t(in.read_rows.size());
  }
  input.batch = value.size(0);
  input.tokens = value.size(1);
  input.heads = int(value.size(2));
  input.slots = int(out.mass.size(2));
  input.top_k = int(write_index.size(3));
  input.d_v = int(value.size(3));
  const auto pointer = [](const at::Tensor& t) { return t.defined() ? t.data_ptr<Real>() : nullptr; };
  kernels::AddressScanOutput<Real> output;
  output.mass = pointer(out.mass);
  output.state = pointer(out.slot);
  output.written = out.written.data_ptr<uint8_t>();
  output.output = pointer(out.output);
  output.strength = pointer(out.strength);
  output.log_gate = pointer(out.log_decay);
  output.read_mass_written = pointer(out.read_mass);
  output.read_weight = pointer(out.read_weight);
  if (value.is_cuda()) {
    kernels::address_scan_cuda(input, output, current_cuda_stream(value.device().index()));
    return;
  }
  // Pairs are split between threads, never a sum: the result does not depend on the number of threads.
  const int64_t work = std::max<int64_t>(1, input.tokens * input.top_k * (input.d_v + 8) * 2);
  at::parallel_for(0, input.batch * input.heads, std::max<int64_t>(1, kWorkPerThread / work),
                   [&](int64_t first, int64_t last) { kernels::address_scan_cpu(input, output, first, last); });
}

}  // namespace

AddressMemoryOutput address_memory_by_token(const AddressMemoryInput& in) {
  check(in);
  return TokenLoop(in).run();
}

AddressMemoryOutput address_memory(const AddressMemoryInput& in) {
  check(in);
  if (needs_gradient(in)) return TokenLoop(in).run();
  AddressMemoryOutput out;
  out.mass = in.mass.contiguous().clone();
  out.slot = in.slot.contiguous().clone();
  out.written = in.written.contiguous().clone();
  const auto options = in.mass.options();
  out.output = at::empty(in.value.sizes(), options);
  out.read_mass = at::empty(in.value.sizes().slice(0, 3), options);
  if (in.want_writes) {
    out.strength = at::empty(in.write_index.sizes(), options);
    out.log_decay = at::empty(in.write_index.sizes(), options);
  }
  if (!in.read_rows.empty())
    out.read_weight = at::empty({in.value.size(0), int64_t(in.read_rows.size()), in.value.size(2), in.mass.size(2)}, options);
  if (in.mass.scalar_type() == at::kDouble)
    scan<double>(in, out);
  else
    scan<float>(in, out);
  return out;
}

}  // namespace slotscope::engine
