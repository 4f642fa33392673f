// SPDX-License-Identifier: BSD-3-Clause
#include "aten/pooling.h"

#include <algorithm>

namespace openreg {

using at::IntArrayRef;
using at::Tensor;

namespace {

// The limit of work for one channel: taps of all windows, or windows visited.
constexpr double kWorkMax = 0x1p36;

// The most taps of a window of adaptive pooling: windows differ by one tap, and the start
// of a window adds one.
int64_t adaptive_taps(int64_t input, int64_t output) {
  return std::min(input, input / std::max<int64_t>(output, 1) + 2);
}

// The windows that the card visits for one element along a dimension.
int64_t visited_windows(
    bool adaptive, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation) {
  const int64_t reach = (kernel - 1) * dilation;
  const int64_t most = adaptive ? out / std::max<int64_t>(in, 1) + 3
                                : reach / std::max<int64_t>(stride, 1) + 2;
  return std::min(out, most);
}

// Puts the strides of batch, channel and space. The tensor may lack a batch dimension.
void put(Packet& packet, const Tensor& t, int64_t dims, bool written) {
  const int64_t channel = t.dim() - dims - 1;
  std::array<int64_t, 5> strides{channel > 0 ? t.stride(0) : 1, t.stride(channel)};
  put_space_strides(&strides[2], t, dims);
  packet.operand(
      written ? t.mutable_data_ptr() : t.const_data_ptr(),
      card_dtype(t.scalar_type()),
      strides.data());
}

// The work of a packet as the card counts it: the taps of all windows and, in backward,
// the windows visited.
double work(const Pooling& p, const Tensor& x, const Tensor& y) {
  const int64_t c = y.dim() - p.dims - 1;
  const auto input = Windows::sizes(x, p.dims);
  const auto output = Windows::sizes(y, p.dims);
  const bool adaptive = p.flags & OPENREG_POOL_ADAPTIVE;
  const Windows& w = p.windows;
  double taps = static_cast<double>(y.size(c)) *
      static_cast<double>(c > 0 ? y.size(0) : 1);
  double visits = p.flags & OPENREG_POOL_BACKWARD ? taps : 0;
  for (int d = 0; d < 3; d++) {
    const int64_t window =
        adaptive ? adaptive_taps(input[d], output[d]) : w.kernel[d];
    taps *= static_cast<double>(window) * static_cast<double>(output[d]);
    visits *= static_cast<double>(input[d]) *
        static_cast<double>(
            visited_windows(
                adaptive, input[d], output[d], w.kernel[d], w.stride[d], w.dilation[d]));
  }
  return std::max(taps, visits);
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
  put(packet, backward ? x : y, p.dims, true);
  put(packet, backward ? y : x, p.dims, false);
  if (index.defined()) {
    put(packet, index, p.dims, !backward);
  }
  windows.put(packet);
  packet.imm(p.divisor);
}

// Launches one packet, or several if the work exceeds a packet's limit.
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

// Returns value d of the last dims values. A single value is for all dimensions; without
// values, returns 1.
int64_t at_dim(IntArrayRef values, int64_t dims, int64_t d) {
  const int64_t skip = static_cast<int64_t>(values.size()) - dims;
  return skip >= 0 ? values[skip + d] : values.empty() ? 1 : values[0];
}

} // namespace

bool pool_fits(int64_t dims, IntArrayRef input, IntArrayRef kernel, IntArrayRef output) {
  double taps = 1, windows = 1;
  for (int64_t d = 0; d < dims; d++) {
    const int64_t in = at_dim(input, dims, d);
    taps *= static_cast<double>(
        kernel.empty() ? adaptive_taps(in, at_dim(output, dims, d)) : at_dim(kernel, dims, d));
    windows *= static_cast<double>(output.empty() ? in + 1 : at_dim(output, dims, d));
  }
  return taps <= OPENREG_WINDOW_TAPS_MAX && taps * windows <= kWorkMax;
}

bool pool_gradient_fits(
    int64_t dims,
    IntArrayRef input,
    IntArrayRef output,
    IntArrayRef kernel,
    IntArrayRef stride,
    IntArrayRef dilation) {
  double visits = 1, volume = 1;
  for (int64_t d = 0; d < dims; d++) {
    const int64_t in = at_dim(input, dims, d);
    visits *= static_cast<double>(
        visited_windows(
            kernel.empty(),
            in,
            at_dim(output, dims, d),
            at_dim(kernel, dims, d),
            at_dim(stride.empty() ? kernel : stride, dims, d),
            at_dim(dilation, dims, d)));
    volume *= static_cast<double>(in);
  }
  return visits <= OPENREG_POOL_MEET_MAX && visits * volume <= kWorkMax &&
      pool_fits(dims, input, kernel, output);
}

void pool(
    OpId id,
    const Pooling& p,
    const Tensor& x,
    const Tensor& y,
    const Tensor& index) {
  const bool adaptive = p.flags & OPENREG_POOL_ADAPTIVE;
  if (adaptive && x.numel() == 0) {
    return; // an empty input may have any type, as on other devices
  }
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
