// SPDX-License-Identifier: BSD-3-Clause
// Convolutions and their derivatives. Each takes one CONV packet, or several if the work
// exceeds a packet's limit. ATen calls special operators for out-of-tree devices, and has
// checked the shapes. A transposed convolution is computed as the derivative of a
// convolution with respect to its input, which can be a matrix product instead.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "aten/conv_transpose.h"
#include "aten/convention.h"
#include "aten/window.h"

namespace openreg {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

OpName forward_name, backward_name, transposed_name;

// y = conv(x, w) + bias. The packet's kind decides which of y, x and w is the result.
struct Convolution {
  Tensor x, y, w;
  IntArrayRef stride, padding, dilation;
  int64_t groups;
  Tensor bias = {};

  int64_t dims() const {
    return x.dim() - 2;
  }
  Windows windows() const {
    return {
        Windows::sizes(w, dims()),
        Windows::sizes(x, dims()),
        Windows::expand(stride, dims(), 1),
        Windows::expand(padding, dims(), 0),
        Windows::expand(dilation, dims(), 1)};
  }
};

// Strides along [n, g, oc, ic, o0, o1, o2].
using Strides = std::array<int64_t, 7>;

Strides strides_of_batch(const Tensor& t, const Convolution& c, int channel, int64_t channels) {
  Strides s{};
  s[0] = t.stride(0);
  s[1] = channels * t.stride(1);
  s[channel] = t.stride(1);
  put_space_strides(&s[4], t, c.dims());
  return s;
}

Strides strides_of_weight(const Convolution& c, int64_t oc) {
  Strides s{0, oc * c.w.stride(0), c.w.stride(0), c.w.stride(1)};
  put_space_strides(&s[4], c.w, c.dims());
  return s;
}

void put(Packet& packet, uint8_t kind, const Convolution& c) {
  const int64_t oc = c.w.size(0) / c.groups, ic = c.w.size(1);
  const uint8_t dtype = card_dtype(c.w.scalar_type());
  const auto out = Windows::sizes(c.y, c.dims());
  bool first = true; // the result
  const auto operand = [&](const Tensor& t, const Strides& s) {
    packet.operand(
        std::exchange(first, false) ? t.mutable_data_ptr() : t.const_data_ptr(),
        dtype,
        s.data());
  };
  const auto x = [&] { operand(c.x, strides_of_batch(c.x, c, 3, ic)); };
  const auto y = [&] { operand(c.y, strides_of_batch(c.y, c, 2, oc)); };
  const auto w = [&] { operand(c.w, strides_of_weight(c, oc)); };

  packet.arg(0, kind);
  packet.space({c.x.size(0), c.groups, oc, ic, out[0], out[1], out[2]});
  if (kind == OPENREG_CONV_FORWARD) {
    y(), x(), w();
  } else if (kind == OPENREG_CONV_BACKWARD_DATA) {
    x(), y(), w();
  } else {
    w(), y(), x();
  }
  if (c.bias.defined()) {
    const int64_t step = c.bias.stride(0);
    const bool forward = kind == OPENREG_CONV_FORWARD;
    operand(
        c.bias,
        {0, step * (forward ? oc : ic), forward ? step : 0, forward ? 0 : step});
  }
  c.windows().put(packet);
}

// The dimension along which a convolution is cut. The sum is never cut. OUT and IN are
// channels.
enum class Cut { BATCH, GROUPS, OUT, IN };

Cut next_cut(uint8_t kind, const Convolution& c) {
  const bool weights = kind == OPENREG_CONV_BACKWARD_WEIGHTS;
  if (!weights && c.x.size(0) > 1) {
    return Cut::BATCH;
  }
  if (c.groups > 1) {
    return Cut::GROUPS;
  }
  const bool in = kind == OPENREG_CONV_BACKWARD_DATA ||
      (weights && c.w.size(1) > c.w.size(0));
  return in ? Cut::IN : Cut::OUT;
}

int64_t extent(Cut cut, const Convolution& c) {
  switch (cut) {
    case Cut::BATCH:
      return c.x.size(0);
    case Cut::GROUPS:
      return c.groups;
    case Cut::OUT:
      return c.w.size(0);
    default:
      return c.w.size(1);
  }
}

// Returns a part of the convolution. Channels are cut only if the convolution has one
// group.
Convolution narrow(const Convolution& c, uint8_t kind, Cut cut, int64_t from, int64_t count) {
  const int64_t oc = c.w.size(0) / c.groups, ic = c.w.size(1);
  const bool forward = kind == OPENREG_CONV_FORWARD;
  Convolution piece = c;
  const auto some = [&](Tensor& t, int64_t dim, int64_t each) {
    if (t.defined()) {
      t = t.narrow(dim, from * each, count * each);
    }
  };
  switch (cut) {
    case Cut::BATCH:
      some(piece.x, 0, 1);
      some(piece.y, 0, 1);
      break;
    case Cut::GROUPS:
      piece.groups = count;
      some(piece.x, 1, ic);
      some(piece.y, 1, oc);
      some(piece.w, 0, oc);
      some(piece.bias, 0, forward ? oc : ic);
      break;
    case Cut::OUT:
      some(piece.y, 1, 1);
      some(piece.w, 0, 1);
      some(piece.bias, 0, 1);
      break;
    default:
      some(piece.x, 1, 1);
      some(piece.w, 1, 1);
      some(piece.bias, 0, 1);
  }
  return piece;
}

// The number of products, counted like the card does.
double work(uint8_t kind, const Convolution& c) {
  const Windows w = c.windows();
  const auto output = Windows::sizes(c.y, c.dims());
  double products = static_cast<double>(c.x.size(0)) *
      static_cast<double>(c.w.size(0)) * static_cast<double>(c.w.size(1));
  for (int d = 0; d < 3; d++) {
    int64_t taps = w.kernel[d], places = output[d];
    if (kind == OPENREG_CONV_BACKWARD_DATA) {
      const int64_t common = std::gcd(w.stride[d], w.dilation[d]);
      const int64_t step = w.stride[d] / common;
      taps = (taps + step - 1) / step;
      places = (w.input[d] + common - 1) / common;
    }
    products *= static_cast<double>(taps) * static_cast<double>(places);
  }
  return products;
}

// The number of products in one element of the result.
double sum_of(uint8_t kind, const Convolution& c) {
  const auto space = kind == OPENREG_CONV_BACKWARD_WEIGHTS
      ? Windows::sizes(c.y, c.dims())
      : c.windows().kernel;
  const int64_t channels = kind == OPENREG_CONV_FORWARD ? c.w.size(1)
      : kind == OPENREG_CONV_BACKWARD_DATA              ? c.w.size(0) / c.groups
                                                        : c.x.size(0);
  double products = static_cast<double>(channels);
  for (const int64_t n : space) {
    products *= static_cast<double>(n);
  }
  return products;
}

// Whether all sizes fit a packet, and cuts can bring the convolution below a packet's
// limit of work.
bool fits(uint8_t kind, const Convolution& c) {
  if (c.windows().largest() > INT32_MAX) {
    return false;
  }
  const int64_t n = c.x.size(0), oc = c.w.size(0), ic = c.w.size(1);
  const int64_t pieces = kind == OPENREG_CONV_FORWARD ? n * oc
      : kind == OPENREG_CONV_BACKWARD_DATA            ? n * c.groups * ic
                                                      : oc * ic;
  const double most = max_work(c.w.get_device());
  return work(kind, c) <= most * static_cast<double>(pieces) &&
      sum_of(kind, c) <= OPENREG_CONV_SUM_MAX;
}

// Launches one packet, or several if the work exceeds a packet's limit.
void launch_parts(OpId id, uint8_t kind, const Convolution& c, Part& part) {
  if (kind == OPENREG_CONV_BACKWARD_DATA && product_is_faster(c.x, c.w, c.groups)) {
    put_product(id, c.x, c.y, c.w, c.bias, c.windows());
    part = Part::FURTHER;
    return;
  }
  const Cut cut = next_cut(kind, c);
  const int64_t all = extent(cut, c), half = all / 2;
  if (half == 0 || work(kind, c) <= max_work(c.w.get_device())) {
    Packet packet(OPENREG_OP_CONV, id);
    put(packet, kind, c);
    launch(packet, c.w.get_device(), part);
    part = Part::FURTHER;
    return;
  }
  launch_parts(id, kind, narrow(c, kind, cut, 0, half), part);
  launch_parts(id, kind, narrow(c, kind, cut, half, all - half), part);
}

at::MemoryFormat format(const Tensor& input, const Tensor& weight) {
  for (const auto wanted :
       {at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d}) {
    if (input.suggest_memory_format() == wanted ||
        weight.suggest_memory_format() == wanted) {
      return wanted;
    }
  }
  return at::MemoryFormat::Contiguous;
}

void check_types(const Tensor& input, const Tensor& other, const char* what) {
  check_tensor_device(other, input.device());
  TORCH_CHECK(
      input.options().type_equal(other.options()),
      "Input type (",
      input.toString(),
      ") and ",
      what,
      " type (",
      other.toString(),
      ") should be the same");
}

// Core accepts a dilation of 0 and an empty kernel, and checks nothing for callers of the
// special operators.
void check_windows(
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    int64_t groups) {
  const auto space = weight.sizes().slice(2);
  const auto least = [](IntArrayRef values) {
    return values.empty() ? 1 : *std::min_element(values.begin(), values.end());
  };
  TORCH_CHECK(groups > 0, "non-positive groups is not supported");
  TORCH_CHECK(least(stride) > 0, "non-positive stride is not supported");
  TORCH_CHECK(least(padding) >= 0, "negative padding is not supported");
  TORCH_CHECK(
      least(space) > 0, "kernel size should be greater than zero, but got ", space);
  TORCH_CHECK(
      least(dilation) > 0, "dilation should be greater than zero, but got ", dilation);
}

bool can_serve(const Tensor& t) {
  return on_card(t) && t.scalar_type() != at::kBool;
}

std::vector<int64_t> output_sizes(
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  const int64_t dims = input.dim() - 2;
  const auto at = [](IntArrayRef values, int64_t d) {
    return values.size() == 1 ? values[0] : values[d];
  };
  std::vector<int64_t> sizes{
      input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t d = 0; d < dims; d++) {
    const int64_t reach = at(dilation, d) * (weight.size(2 + d) - 1) + 1;
    const int64_t in = input.size(2 + d), pad = 2 * at(padding, d);
    const int64_t extra = transposed ? at(output_padding, d) : 0;
    TORCH_CHECK(
        !transposed || extra < at(stride, d) || extra < at(dilation, d),
        "output padding must be smaller than either stride or dilation, but got output_padding: ",
        output_padding,
        ", stride: ",
        stride,
        ", dilation: ",
        dilation);
    sizes.push_back(
        transposed ? (in - 1) * at(stride, d) - pad + reach + extra
                   : (in + pad - reach) / at(stride, d) + 1);
    TORCH_CHECK(
        !transposed || sizes.back() > 0,
        "Given input size ",
        input.sizes(),
        ": calculated output size ",
        sizes.back(),
        " of dimension ",
        d,
        ". Output size is too small");
  }
  return sizes;
}

Tensor on_cpu(
    const Tensor& input,
    const Tensor& weight,
    const OptTensor& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  count_fallback("aten::convolution_overrideable");
  const bool biased = bias && bias->defined();
  return at::convolution(
             input.cpu(),
             weight.cpu(),
             biased ? OptTensor(bias->cpu()) : std::nullopt,
             stride,
             padding,
             dilation,
             transposed,
             output_padding,
             groups)
      .to(input.device());
}

Tensor convolution(
    const Tensor& input,
    const Tensor& weight,
    const OptTensor& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  check_types(input, weight, "weight");
  check_windows(weight, stride, padding, dilation, groups);
  if (transposed) {
    transposed_name.check_type(input.scalar_type());
  }
  const Tensor b = bias && bias->defined() ? *bias : Tensor();
  if (b.defined()) {
    check_types(input, b, "bias");
  }
  if (can_serve(input)) {
    const Tensor out = empty(
        output_sizes(
            input, weight, stride, padding, dilation, transposed, output_padding, groups),
        {},
        input.options().memory_format(format(input, weight)));
    const Convolution c{
        transposed ? out : input,
        transposed ? input : out,
        weight,
        stride,
        padding,
        dilation,
        groups,
        b};
    const uint8_t kind =
        transposed ? OPENREG_CONV_BACKWARD_DATA : OPENREG_CONV_FORWARD;
    Part part = Part::FIRST;
    if (out.numel() == 0) {
      return out;
    }
    if (fits(kind, c)) {
      launch_parts(forward_name.id, kind, c, part);
      return out;
    }
  }
  return on_cpu(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

Gradients backward_on_cpu(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  count_fallback("aten::convolution_backward_overrideable");
  const std::array<int64_t, 1> bias_sizes = {grad_output.size(1)};
  auto grads = at::convolution_backward(
      grad_output.cpu(),
      input.cpu(),
      weight.cpu(),
      IntArrayRef(bias_sizes),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      output_mask);
  const auto back = [&](Tensor& t) {
    return t.defined() ? t.to(input.device()) : t;
  };
  return {
      back(std::get<0>(grads)),
      back(std::get<1>(grads)),
      back(std::get<2>(grads))};
}

Gradients convolution_backward(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  check_types(input, weight, "weight");
  check_types(input, grad_output, "grad_output");
  check_windows(weight, stride, padding, dilation, groups);
  Convolution c{input, grad_output, weight, stride, padding, dilation, groups};
  if (transposed) {
    std::swap(c.x, c.y);
  }
  const uint8_t to_input =
      transposed ? OPENREG_CONV_FORWARD : OPENREG_CONV_BACKWARD_DATA;
  if (!can_serve(input) || (output_mask[0] && !fits(to_input, c)) ||
      (output_mask[1] && !fits(OPENREG_CONV_BACKWARD_WEIGHTS, c))) {
    return backward_on_cpu(
        grad_output,
        input,
        weight,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask);
  }
  const auto like = [&](const Tensor& t) {
    return empty(t.sizes(), {}, t.options().memory_format(format(input, weight)));
  };
  Gradients grads;
  Part part = Part::FIRST;
  if (output_mask[0]) {
    Convolution into = c;
    std::get<0>(grads) = (transposed ? into.y : into.x) = like(input);
    if (input.numel() > 0) {
      launch_parts(backward_name.id, to_input, into, part);
    }
  }
  if (output_mask[1]) {
    Convolution into = c;
    std::get<1>(grads) = into.w = like(weight);
    launch_parts(backward_name.id, OPENREG_CONV_BACKWARD_WEIGHTS, into, part);
  }
  if (output_mask[2]) {
    std::vector<int64_t> over{0};
    for (int64_t d = 2; d < grad_output.dim(); d++) {
      over.push_back(d);
    }
    std::get<2>(grads) = grad_output.sum(IntArrayRef(over));
  }
  return grads;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("convolution_overrideable");
  transposed_name.set("conv_transpose2d.input");
  backward_name.set("convolution_backward_overrideable");
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

} // namespace openreg
