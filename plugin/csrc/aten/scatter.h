// SPDX-License-Identifier: BSD-3-Clause
// What gather.cpp and index_select.cpp have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/FunctionRef.h>

#include <string_view>

#include "openreg_isa.h"
#include "runtime/launch.h"

namespace openreg {

// One element of a tensor's type and device, seen as a whole of that shape.
at::Tensor broadcast_scalar(
    const at::Scalar& value,
    const at::Tensor& like,
    at::IntArrayRef sizes);

// The result of a structured operator, begun as self.
template <class Op>
const at::Tensor& started(Op& op, const at::Tensor& self) {
  const at::Tensor& out = op.maybe_get_output(0);
  if (!out.is_same(self)) {
    out.copy_(self);
  }
  return out;
}

// Puts source into out by an enum openreg_index and returns what further
// packets of the operator pass on.
using PutInto = c10::function_ref<
    Part(uint8_t mode, const at::Tensor& out, const at::Tensor& source, Part part)>;

// scatter_reduce and index_reduce: out combined with what a put of that shape
// brings to each of its elements, or without out itself.
void combine(
    std::string_view reduce,
    bool include_self,
    const at::Tensor& out,
    const at::Tensor& source,
    at::IntArrayRef sizes,
    PutInto put);

} // namespace openreg
