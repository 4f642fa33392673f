// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

// The segment of each of `count` elements. begins says where every segment but the first
// begins, in ascending order; count itself is that of an empty one at the end.
at::Tensor segments_of(const at::Tensor& begins, int64_t count);

} // namespace openreg
