// Weights of a model that nobody trained: every value is a function of seed, tensor name and position, made of whole numbers and of
// single correctly rounded operations, so that they are the same on every machine, for any number of threads and any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/skeleton.h"

namespace slotscope::formats {

// normal: mean a, deviation b. uniform: from a to b. The normal numbers are sums of twelve uniform ones of 21 bits (Irwin-Hall):
// mean 0, variance 1 - 2^-42, within 6 deviations, excess kurtosis -0.1.
struct Initial {
  enum class Kind { normal, uniform } kind = Kind::normal;
  double a = 0, b = 1;
};

// What the rules need to know of the model.
struct RandomModel {
  std::string model_type;
  std::string embedding;  // name of the tensor
  int64_t layers = 1;
  bool tied = false;
};

// The rules, by the last parts of a tensor's name:
// - matrices: deviation 1/sqrt(columns), so that what they give has the size of what they get, at any width; those whose output is
//   added to the residual stream, 1/sqrt(columns) / sqrt(2 layers). Embedding: deviation 1, tied to the head: 1/sqrt(columns).
// - norms: weights about 1 (deviation 0.1). Biases: deviation 0.02.
// - memory parameters where they belong: A_log 0 to log 16, dt_bias and dt_proj.bias -6.9 to -2.25 (steps of 0.001 to 0.1), D about
//   1, forget gates of attention 1 to 5, log scales 0 to 1, gamma_proj.bias deviation 1, RAM-Net's gate bias about 3.
Initial initial_of(const RandomModel& model, const ExpectedTensor& tensor);

// The dtype that a tensor of a model in `dtype` is stored in: decay parameters (A_log, dt_bias) never in fewer bits than float32, as
// their code bases keep them.
DType stored_dtype(const ExpectedTensor& tensor, DType dtype);

class RandomTensor {
 public:
  RandomTensor(uint64_t seed, const std::string& name, const Initial& initial);
  // Values [first, first + count) to `out`.
  void fill(uint64_t first, uint64_t count, double* out) const;
  // The same in the bytes of a stored dtype (encode.h), rounded to nearest.
  void fill(DType dtype, uint64_t first, uint64_t count, std::byte* out) const;

 private:
  uint64_t base_;
  Initial initial_;
};

}  // namespace slotscope::formats
