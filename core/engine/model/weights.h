// Tensors of a checkpoint on the model's device: mapped bytes are converted once, no second copy of the file
// is made.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "core/engine/model/numerics.h"
#include "core/formats/checkpoint.h"
#include "core/progress.h"

namespace slotscope::engine {

class Weights {
 public:
  // Progress advances by the stored bytes of every tensor read.
  Weights(const formats::Checkpoint& checkpoint, const Numerics& numerics, Progress& progress)
      : checkpoint_(checkpoint), numerics_(numerics), progress_(progress) {}

  // In the compute dtype. Throws Error for a missing tensor, a dtype that cannot be computed with, and on
  // cancel.
  at::Tensor get(const std::string& name) const { return load(name, numerics_.compute); }
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
  at::Tensor load(const std::string& name, at::ScalarType type) const;

  const formats::Checkpoint& checkpoint_;
  Numerics numerics_;
  Progress& progress_;
};

}  // namespace slotscope::engine
