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

Combination::Combination(std::string_view name) {
  if (name == "sum" || name == "mean") {
    mode_ = OPENREG_INDEX_ADD;
    mean_ = name == "mean";
  } else if (name == "prod") {
    mode_ = OPENREG_INDEX_MUL;
  } else if (name == "amax") {
    mode_ = OPENREG_INDEX_MAX;
  } else if (name == "amin") {
    mode_ = OPENREG_INDEX_MIN;
  } else {
    TORCH_CHECK(
        false,
        "reduce argument must be either sum, prod, mean, amax or amin, got ",
        name);
  }
}

at::Scalar Combination::neutral(c10::ScalarType type) const {
  if (mode_ == OPENREG_INDEX_ADD || mode_ == OPENREG_INDEX_MUL) {
    return mode_ == OPENREG_INDEX_MUL ? 1 : 0;
  }
  const bool max = mode_ == OPENREG_INDEX_MAX;
  if (c10::isFloatingType(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return max ? -infinity : infinity;
  }
  return AT_DISPATCH_INTEGRAL_TYPES_AND(at::kBool, type, "scatter_reduce", [&] {
    using Limits = std::numeric_limits<scalar_t>;
    return at::Scalar(max ? Limits::lowest() : Limits::max());
  });
}

Tensor Combination::new_count(const Tensor& out, bool include_self) {
  return include_self ? at::ones_like(out) : at::zeros_like(out);
}

void Combination::divide(const Tensor& out, const Tensor& count) {
  count.masked_fill_(count.eq(0), 1);
  if (out.is_floating_point()) {
    out.div_(count);
  } else {
    out.div_(count, "floor");
  }
}

} // namespace openreg
