// SPDX-License-Identifier: BSD-3-Clause
// Reductions: one VECTOR packet whose program ends in a RED instruction.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include "aten/space.h"

namespace openreg {

struct ReduceTo {
  OpId id;
  uint8_t op; // OPENREG_V_RED_*
  Space::Mask dims; // of the inputs
  c10::ScalarType compute; // inputs are loaded as this type
  at::Tensor value{}; // undefined: not wanted
  at::Tensor index{}; // RED_MAX, RED_MIN: int64, undefined: not wanted
  double scale = 1.0; // of the value
  Part part = Part::FIRST;
};

// What a reduction's formula sees.
class Reducer : public Program {
 public:
  Reducer(c10::ScalarType compute, uint8_t first)
      : Program(vector_type(compute)), first_(first) {}
  Value in(int i) {
    return load(static_cast<uint8_t>(first_ + i), type());
  }

 private:
  uint8_t first_;
};

// Dimensions as a bit mask; none given means all.
Space::Mask mask_of(at::OptionalIntArrayRef dims, int64_t ndim);
// How many elements go into one result.
int64_t reduced_numel(const at::Tensor& self, Space::Mask dims);
// The tensor's sizes with those dimensions set to 1.
at::DimVector kept_sizes(const at::Tensor& self, Space::Mask dims);

// The outputs and inputs of a reduction as a space: outputs first.
Space reduction_space(const ReduceTo& to, at::ArrayRef<at::Tensor> inputs);
// to.value = reduce(formula(inputs)). The inputs have the same number of
// dimensions and broadcast; the first has the full size, at least one element.
template <class Formula>
void reduce(ReduceTo to, at::ArrayRef<at::Tensor> inputs, Formula&& formula) {
  Space space = reduction_space(to, inputs);
  uint8_t n = 0;
  const uint8_t value = to.value.defined() ? n++ : OPENREG_VNONE;
  const uint8_t index = to.index.defined() ? n++ : OPENREG_VNONE;
  Reducer p(to.compute, n);
  p.reduce({to.op, value, index}, formula(p), to.scale);
  launch(space, p, to.id, to.part);
}

} // namespace openreg
