// SPDX-License-Identifier: BSD-3-Clause
// What scatter_reduce and index_reduce have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <string_view>

#include "openreg_isa.h"

namespace openreg {

// One element of a tensor's type and device, seen as a whole of that shape.
at::Tensor broadcast_scalar(
    const at::Scalar& value,
    const at::Tensor& like,
    at::IntArrayRef sizes);

// One of sum, prod, mean, amax and amin.
class Combination {
 public:
  explicit Combination(std::string_view name);

  uint8_t mode() const {
    return mode_;
  }
  bool mean() const {
    return mean_;
  }
  // What changes nothing.
  at::Scalar neutral(c10::ScalarType type) const;

  // For the mean: what counts the terms of every element, and its use.
  static at::Tensor new_count(const at::Tensor& out, bool include_self);
  static void divide(const at::Tensor& out, const at::Tensor& count);

 private:
  uint8_t mode_; // enum openreg_index
  bool mean_ = false;
};

} // namespace openreg
