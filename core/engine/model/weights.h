// Tensors of a checkpoint on the model's device, one copy of them: mapped bytes go there in pieces and are converted there, and
// the pages of each piece are given back to the system, so that loading needs no more host memory than a piece beside the
// weights themselves.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>

#include "core/engine/model/numerics.h"
#include "core/formats/checkpoint.h"
#include "core/progress.h"

namespace slotscope::engine {

class Weights {
 public:
  // Progress advances by the stored bytes of every piece read.
  Weights(const formats::Checkpoint& checkpoint, const Numerics& numerics, Progress& progress)
      : checkpoint_(checkpoint), numerics_(numerics), progress_(progress) {}

  // In the compute dtype. Throws Error for a missing tensor, a dtype that cannot be computed with, and on
  // cancel.
  at::Tensor get(const std::string& name) const { return load(name, numerics_.compute); }
  // The view of the stored tensor that `choose` makes, as a contiguous tensor in the compute dtype: a part of a fused tensor
  // without a copy of the whole.
  using Choose = std::function<at::Tensor(const at::Tensor& stored)>;
  at::Tensor part(const std::string& name, const Choose& choose) const {
    return load(name, numerics_.compute, choose);
  }
  // In the exact dtype, not rounded to the compute dtype: decay parameters, biases, norm weights.
  at::Tensor exact(const std::string& name) const { return load(name, numerics_.exact); }
  // Rounded to the compute dtype like every weight, then held in the router's dtype (spec: architecture
  // "Numerics").
  at::Tensor router(const std::string& name) const {
    return load(name, numerics_.compute).to(numerics_.router);
  }
  at::Tensor if_present(bool present, const std::string& name) const {
    return present ? get(name) : at::Tensor();
  }
  at::Tensor exact_if(bool present, const std::string& name) const {
    return present ? exact(name) : at::Tensor();
  }

  const Numerics& numerics() const { return numerics_; }
  const formats::Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  at::Tensor load(const std::string& name, at::ScalarType type, const Choose& choose = {}) const;
  at::Tensor stored(const formats::TensorInfo& info, at::ScalarType type, formats::TensorData& data) const;
  void copy_piece(const at::Tensor& from, at::Tensor to) const;
  void require_go_on() const;

  const formats::Checkpoint& checkpoint_;
  Numerics numerics_;
  Progress& progress_;
};

}  // namespace slotscope::engine
