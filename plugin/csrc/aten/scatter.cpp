// SPDX-License-Identifier: BSD-3-Clause
#include "aten/scatter.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

namespace openreg {

using at::Tensor;

Tensor broadcast_scalar(
    const at::Scalar& value,
    const Tensor& like,
    at::IntArrayRef sizes) {
  return at::full({}, value, like.options()).expand(sizes);
}

namespace {

// A reduction: sum, prod, mean, amax or amin.
struct Combination {
  explicit Combination(std::string_view name);
  // The neutral element of the reduction.
  at::Scalar neutral(c10::ScalarType type) const;

  uint8_t mode; // enum openreg_index
  bool mean = false;
};

Combination::Combination(std::string_view name) {
  if (name == "sum" || name == "mean") {
    mode = OPENREG_INDEX_ADD;
    mean = name == "mean";
  } else if (name == "prod") {
    mode = OPENREG_INDEX_MUL;
  } else if (name == "amax") {
    mode = OPENREG_INDEX_MAX;
  } else if (name == "amin") {
    mode = OPENREG_INDEX_MIN;
  } else {
    TORCH_CHECK(
        false,
        "reduce argument must be either sum, prod, mean, amax or amin, got ",
        name);
  }
}

at::Scalar Combination::neutral(c10::ScalarType type) const {
  if (mode == OPENREG_INDEX_ADD || mode == OPENREG_INDEX_MUL) {
    return mode == OPENREG_INDEX_MUL ? 1 : 0;
  }
  const bool max = mode == OPENREG_INDEX_MAX;
  if (c10::isFloatingType(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return max ? -infinity : infinity;
  }
  return AT_DISPATCH_INTEGRAL_TYPES_AND(at::kBool, type, "scatter_reduce", [&] {
    using Limits = std::numeric_limits<scalar_t>;
    return at::Scalar(max ? Limits::lowest() : Limits::max());
  });
}

// Converts sums to means: count has the number of terms of each sum. An element without
// terms does not change.
void divide(const Tensor& out, const Tensor& count) {
  count.masked_fill_(count.eq(0), 1);
  if (out.is_floating_point()) {
    out.div_(count);
  } else {
    out.div_(count, "floor");
  }
}

} // namespace

void combine(
    std::string_view reduce,
    bool include_self,
    const Tensor& out,
    const Tensor& source,
    at::IntArrayRef sizes,
    PutInto put) {
  const Combination c(reduce);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !c.mean || out.scalar_type() != at::kBool,
      "scatter_reduce not implemented for 'Bool' with reduce='mean', as on the CPU. Convert "
      "the tensor first, for example with .to(torch.float32).");
  Part part = Part::FIRST;
  if (!include_self) {
    const Tensor from = broadcast_scalar(c.neutral(out.scalar_type()), out, sizes);
    part = put(OPENREG_INDEX_PUT, out, from, part);
  }
  part = put(c.mode, out, source, part);
  if (c.mean) {
    const Tensor count = include_self ? at::ones_like(out) : at::zeros_like(out);
    put(OPENREG_INDEX_ADD, count, broadcast_scalar(1, count, sizes), part);
    openreg::divide(out, count);
  }
}

} // namespace openreg
