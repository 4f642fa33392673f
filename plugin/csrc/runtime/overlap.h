// SPDX-License-Identifier: BSD-3-Clause
// Expanded tensors: several elements share memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

// Returns a view with each element of an expanded tensor once: dimensions with stride 0
// get size 1.
inline at::Tensor without_repeats(const at::Tensor& t) {
  at::DimVector sizes(t.sizes());
  for (int64_t i = 0; i < t.dim(); i++) {
    if (t.stride(i) == 0 && sizes[i] > 1) {
      sizes[i] = 1;
    }
  }
  return t.sizes().equals(sizes) ? t : t.as_strided(sizes, t.strides());
}

} // namespace openreg
