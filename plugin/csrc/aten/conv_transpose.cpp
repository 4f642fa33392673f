// SPDX-License-Identifier: BSD-3-Clause
#include "aten/conv_transpose.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "aten/matmul.h"

namespace openreg {

using at::Tensor;

namespace {

int64_t volume(const Windows::Three& sizes) {
  return sizes[0] * sizes[1] * sizes[2];
}

// Views [1, channels, ...] as [channels, d, h, w].
Tensor image(const Tensor& t, const Windows::Three& sizes) {
  return t.select(0, 0).view({t.size(1), sizes[0], sizes[1], sizes[2]});
}

} // namespace

bool product_is_faster(const Tensor& x, const Tensor& w, int64_t groups) {
  constexpr int64_t kFewChannels = 16, kFewPlaces = 1024, kFewTaps = 64;
  // For each tap, the product takes a packet, and the CONV packet copies so many elements.
  constexpr int64_t kManyCopies = 1 << 17;
  const int64_t places = x.numel() / std::max<int64_t>(w.size(1), 1);
  const int64_t taps = w.numel() / std::max<int64_t>(w.size(0) * w.size(1), 1);
  return groups == 1 && x.size(0) == 1 && w.is_floating_point() && w.size(1) <= kFewChannels &&
      places <= kFewPlaces && taps <= kFewTaps && places * w.size(0) >= kManyCopies;
}

void put_product(
    OpId id,
    const Tensor& x,
    const Tensor& y,
    const Tensor& w,
    const Tensor& bias,
    const Windows& windows) {
  const int64_t channels = w.size(1), taps = volume(windows.kernel);
  const auto out = Windows::sizes(y, y.dim() - 2);
  const auto type = at::toOpMathType(w.scalar_type());
  const auto options = w.options().dtype(type);
  const Tensor columns = at::empty({channels * taps, volume(out)}, options);
  multiply(
      id,
      columns,
      w.to(type).reshape({w.size(0), channels * taps}).t(),
      y.to(type).reshape({w.size(0), volume(out)}));
  const Tensor all = columns.view({channels, taps, out[0], out[1], out[2]});

  // The sum has space for the padding, and for what no tap meets.
  Windows::Three sizes;
  for (int d = 0; d < 3; d++) {
    const int64_t reach = (out[d] - 1) * windows.stride[d] +
        (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    sizes[d] = std::max(windows.input[d] + windows.padding[d], reach);
  }
  const Tensor sum = at::zeros({channels, sizes[0], sizes[1], sizes[2]}, options);
  for (int64_t tap = 0; tap < taps; tap++) {
    Tensor part = sum;
    int64_t rest = tap;
    for (int d = 2; d >= 0; d--) {
      const int64_t first = rest % windows.kernel[d] * windows.dilation[d];
      rest /= windows.kernel[d];
      part = part.slice(1 + d, first, first + windows.stride[d] * (out[d] - 1) + 1, windows.stride[d]);
    }
    part.add_(all.select(1, tap));
  }
  Tensor result = sum;
  for (int d = 0; d < 3; d++) {
    result = result.narrow(1 + d, windows.padding[d], windows.input[d]);
  }
  if (bias.defined()) {
    result = result.add(bias.view({-1, 1, 1, 1}));
  }
  image(x, windows.input).copy_(result);
}

} // namespace openreg
