// SPDX-License-Identifier: BSD-3-Clause
// Reductions. A reduction is one VECTOR packet: its program ends with a RED instruction.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include "aten/space.h"

namespace openreg {

struct ReduceTo {
  OpId id;
  uint8_t op; // OPENREG_V_RED_*
  Space::Mask dims; // the reduced dimensions of the inputs
  c10::ScalarType compute; // inputs are loaded as this type
  at::Tensor value{}; // undefined: no value
  at::Tensor index{}; // for RED_MAX and RED_MIN, int64; undefined: no index
  double scale = 1.0; // multiplies the value
  Part part = Part::FIRST;
};

// The program that a reduction's formula builds.
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

// Returns dimensions as a bit mask. No dims means all dimensions. A mask of all
// dimensions also stands for those that a mask has no bit for.
Space::Mask mask_of(at::OptionalIntArrayRef dims, int64_t ndim);
inline bool is_in(Space::Mask dims, int64_t dim) {
  return dim >= static_cast<int64_t>(dims.size()) || dims[dim];
}
// The number of elements in one result.
int64_t reduced_numel(const at::Tensor& self, Space::Mask dims);
// The tensor's sizes, with 1 for the reduced dimensions.
at::DimVector kept_sizes(const at::Tensor& self, Space::Mask dims);

// Returns a space with the outputs and then the inputs of a reduction.
Space reduction_space(const ReduceTo& to, at::ArrayRef<at::Tensor> inputs);
// to.value = reduce(formula(inputs)). The inputs have the same number of dimensions and
// broadcast. The first input has the full size and at least one element.
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
