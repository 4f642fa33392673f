// SPDX-License-Identifier: BSD-3-Clause
// Pooling: a POOL packet each, or several if it is more work than a packet may
// ask for.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/window.h"

namespace openreg {

struct Pooling {
  uint8_t kind; // enum openreg_pool_kind
  uint8_t flags; // OPENREG_POOL_*
  int64_t dims; // pooled
  Windows windows; // input aside
  int64_t divisor = 0;
};

// Whether windows are what the card takes; the CPU has others. Arguments may yet
// be bad. kernel is empty for adaptive pooling.
bool pool_fits(int64_t dims, at::IntArrayRef input, at::IntArrayRef kernel, at::IntArrayRef output);
// The same for gradients; stride and dilation are as in pool_windows().
bool pool_gradient_fits(
    int64_t dims,
    at::IntArrayRef input,
    at::IntArrayRef output,
    at::IntArrayRef kernel = {},
    at::IntArrayRef stride = {},
    at::IntArrayRef dilation = {});

// y from x, or with OPENREG_POOL_BACKWARD x's gradient from y's. index: of
// maxima; undefined for averages.
void pool(
    OpId id,
    const Pooling& pooling,
    const at::Tensor& x,
    const at::Tensor& y,
    const at::Tensor& index);

// The arguments of most of these operators; dilation is empty for averages.
Windows pool_windows(
    int64_t dims,
    at::IntArrayRef kernel,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation);

} // namespace openreg
