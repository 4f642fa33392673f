// SPDX-License-Identifier: BSD-3-Clause
// Pooling. Each call takes one POOL packet, or several if the work exceeds a packet's
// limit.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/window.h"

namespace openreg {

struct Pooling {
  uint8_t kind; // enum openreg_pool_kind
  uint8_t flags; // OPENREG_POOL_*
  int64_t dims; // the number of pooled dimensions
  Windows windows; // all except windows.input
  int64_t divisor = 0;
};

// Whether the windows are within the card's limits; if not, the CPU runs the call. The
// arguments are not checked yet. kernel is empty for adaptive pooling.
bool pool_fits(int64_t dims, at::IntArrayRef input, at::IntArrayRef kernel, at::IntArrayRef output);
// Like pool_fits(), for gradients. stride and dilation are as in pool_windows().
bool pool_gradient_fits(
    int64_t dims,
    at::IntArrayRef input,
    at::IntArrayRef output,
    at::IntArrayRef kernel = {},
    at::IntArrayRef stride = {},
    at::IntArrayRef dilation = {});

// Computes y from x, or with OPENREG_POOL_BACKWARD x's gradient from y's. index has the
// places of the maxima, and is undefined for averages.
void pool(
    OpId id,
    const Pooling& pooling,
    const at::Tensor& x,
    const at::Tensor& y,
    const at::Tensor& index);

// Converts the arguments of most pooling operators. dilation is empty for averages.
Windows pool_windows(
    int64_t dims,
    at::IntArrayRef kernel,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation);

} // namespace openreg
