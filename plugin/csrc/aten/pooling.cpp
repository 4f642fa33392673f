// SPDX-License-Identifier: BSD-3-Clause
#include "aten/pooling.h"

#include <algorithm>

namespace openreg {

using at::IntArrayRef;
using at::Tensor;

namespace {

// Taps of all windows over one channel.
constexpr double kForwardMax = 0x1p36, kBackwardMax = 0x1p32;

// The tap that a window of adaptive pooling may have more than others, and one
// for where it begins.
int64_t adaptive_taps(int64_t input, int64_t output) {
  return std::min(input, input / std::max<int64_t>(output, 1) + 2);
}

// n, c and space; a tensor may come without its batch.
void put(Packet& packet, const Tensor& t, int64_t dims) {
  int64_t* strides =
      packet.operand(t.const_data_ptr(), card_dtype(t.scalar_type()));
  const int64_t channel = t.dim() - dims - 1;
  strides[0] = channel > 0 ? t.stride(0) : 1;
  strides[1] = t.stride(channel);
  put_space_strides(strides + 2, t, dims);
}

// Taps of all windows, as the card counts them.
double work(const Pooling& p, const Tensor& x, const Tensor& y) {
  const int64_t c = y.dim() - p.dims - 1;
  const auto input = Windows::sizes(x, p.dims);
  const auto output = Windows::sizes(y, p.dims);
  double taps = static_cast<double>(y.size(c)) *
      static_cast<double>(c > 0 ? y.size(0) : 1);
  for (int d = 0; d < 3; d++) {
    const int64_t window = p.flags & OPENREG_POOL_ADAPTIVE
        ? adaptive_taps(input[d], output[d])
        : p.windows.kernel[d];
    taps *= static_cast<double>(window) * static_cast<double>(output[d]);
  }
  return taps;
}

void put(
    Packet& packet,
    const Pooling& p,
    const Tensor& x,
    const Tensor& y,
    const Tensor& index) {
  Windows windows = p.windows;
  const auto out = Windows::sizes(y, p.dims);
  const bool backward = p.flags & OPENREG_POOL_BACKWARD;
  const int64_t n = y.dim() > p.dims + 1 ? y.size(0) : 1;

  windows.input = Windows::sizes(x, p.dims);
  packet.arg(0, p.kind);
  packet.arg(1, p.flags);
  packet.space({n, y.size(-1 - p.dims), out[0], out[1], out[2]});
  put(packet, backward ? x : y, p.dims);
  put(packet, backward ? y : x, p.dims);
  if (index.defined()) {
    put(packet, index, p.dims);
  }
  windows.put(packet);
  packet.imm(p.divisor);
}

// One packet, or several if it is more work than a packet may ask for.
void launch_parts(
    OpId id,
    const Pooling& p,
    const Tensor& x,
    const Tensor& y,
    const Tensor& index,
    Part& part) {
  const int64_t channel = y.dim() - p.dims - 1;
  const int64_t dim = channel > 0 && y.size(0) > 1 ? 0 : channel;
  const int64_t all = y.size(dim), half = all / 2;
  if (all == 1 || work(p, x, y) <= max_work(x.get_device())) {
    Packet packet(OPENREG_OP_POOL, id);
    put(packet, p, x, y, index);
    launch(packet, x.get_device(), part);
    part = Part::FURTHER;
    return;
  }
  const auto some = [&](int64_t from, int64_t count) {
    const auto narrow = [&](const Tensor& t) {
      return t.defined() ? t.narrow(dim, from, count) : t;
    };
    launch_parts(id, p, narrow(x), narrow(y), narrow(index), part);
  };
  some(0, half);
  some(half, all - half);
}

} // namespace

bool pool_fits(
    int64_t dims,
    bool backward,
    IntArrayRef input,
    IntArrayRef kernel,
    IntArrayRef output) {
  const auto at = [&](IntArrayRef sizes, int64_t d) {
    const int64_t skip = static_cast<int64_t>(sizes.size()) - dims;
    return skip >= 0 ? sizes[skip + d] : sizes.empty() ? 1 : sizes[0];
  };
  double taps = 1, windows = 1;
  for (int64_t d = 0; d < dims; d++) {
    const int64_t window = kernel.empty()
        ? adaptive_taps(at(input, d), at(output, d))
        : at(kernel, d);
    taps *= static_cast<double>(window);
    windows *= static_cast<double>(
        output.empty() ? at(input, d) + 1 : at(output, d));
  }
  return taps <= OPENREG_WINDOW_TAPS_MAX &&
      taps * windows <= (backward ? kBackwardMax : kForwardMax);
}

void pool(
    OpId id,
    const Pooling& p,
    const Tensor& x,
    const Tensor& y,
    const Tensor& index) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      x.scalar_type() != at::kBool,
      p.kind == OPENREG_POOL_MAX ? "\"max_pool" : "\"avg_pool",
      p.dims,
      "d\" not implemented for 'Bool'");
  if (x.numel() == 0) {
    return;
  }
  if (y.numel() == 0) {
    if (p.flags & OPENREG_POOL_BACKWARD) {
      x.zero_();
    }
    return;
  }
  Part part = Part::FIRST;
  launch_parts(id, p, x, y, index, part);
}

Windows pool_windows(
    int64_t dims,
    IntArrayRef kernel,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation) {
  Windows w;
  w.kernel = Windows::expand(kernel, dims, 1);
  w.stride = Windows::expand(stride, dims, 1, w.kernel);
  w.padding = Windows::expand(padding, dims, 0);
  w.dilation = Windows::expand(dilation, dims, 1, w.dilation);
  return w;
}

} // namespace openreg
