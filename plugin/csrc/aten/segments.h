// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

// Returns the segment of each of `count` elements. begins has the start of every segment
// except the first, in ascending order. A start of `count` is an empty segment at the
// end.
at::Tensor segments_of(const at::Tensor& begins, int64_t count);

} // namespace openreg
