// SPDX-License-Identifier: BSD-3-Clause
// The common part of gather.cpp and index_select.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/FunctionRef.h>

#include <string_view>

#include "openreg_isa.h"
#include "runtime/launch.h"

namespace openreg {

// Returns one element with like's type and device, expanded to sizes.
at::Tensor broadcast_scalar(
    const at::Scalar& value,
    const at::Tensor& like,
    at::IntArrayRef sizes);

// Returns the result of a structured operator, initialized with self.
template <class Op>
const at::Tensor& started(Op& op, const at::Tensor& self) {
  const at::Tensor& out = op.maybe_get_output(0);
  if (!out.is_same(self)) {
    out.copy_(self);
  }
  return out;
}

// Puts source into out; mode is an enum openreg_index. Returns the Part for further
// packets of the operator.
using PutInto = c10::function_ref<
    Part(uint8_t mode, const at::Tensor& out, const at::Tensor& source, Part part)>;

// scatter_reduce and index_reduce: combines each element of out with the elements that
// put() brings to its place. Without include_self, ignores the old element. sizes is
// source's shape.
void combine(
    std::string_view reduce,
    bool include_self,
    const at::Tensor& out,
    const at::Tensor& source,
    at::IntArrayRef sizes,
    PutInto put);

} // namespace openreg
