// SPDX-License-Identifier: BSD-3-Clause
// Padding by reflection and replication, and the backward of unfold(), composed of copies
// and sums.
#include <ATen/ATen.h>
#include <ATen/native/Padding.h>
#include <ATen/native/Resize.h>
#include <c10/core/WrapDimMinimal.h>
#include <torch/library.h>

#include <array>

#include "aten/convention.h"

namespace openreg {

namespace {

using at::IntArrayRef;
using at::Tensor;

Tensor unfold_backward(
    const Tensor& grad,
    IntArrayRef sizes,
    int64_t dim,
    int64_t size,
    int64_t step) {
  Tensor out = at::zeros(sizes, grad.options());
  if (out.dim() == 0) {
    return out.copy_(grad.squeeze(0));
  }
  const int64_t d = c10::maybe_wrap_dim(dim, out.dim());
  const int64_t n = grad.size(d);
  if (step >= size) { // the windows do not overlap
    out.unfold(d, size, step).copy_(grad);
    return out;
  }
  for (int64_t i = 0; i < size && n > 0; i++) {
    out.slice(d, i, i + (n - 1) * step + 1, step).add_(grad.select(-1, i));
  }
  return out;
}

template <class Ends, int64_t Dims>
OpName backward_name;

// padding is [before, after] of the last dimension, then of the dimension before, and so
// on.

// Returns the sizes of the padded tensor.
template <class Ends, int64_t Dims>
std::vector<int64_t> padded_sizes(const Tensor& self, IntArrayRef padding) {
  at::native::padding::check_valid_input<Dims>(self, padding);
  auto sizes = self.sizes().vec();
  for (int64_t i = 0; i < Dims; i++) {
    const int64_t d = self.dim() - 1 - i;
    Ends::check(self, d, padding[2 * i], padding[2 * i + 1]);
    sizes[d] += padding[2 * i] + padding[2 * i + 1];
    TORCH_CHECK(
        sizes[d] >= 1,
        "input (size ",
        self.size(d),
        ") is too small for the padding; calculated output size ",
        sizes[d]);
  }
  return sizes;
}

// Padding of one dimension: the elements that the two ends copy.
struct Reflection {
  static void check(const Tensor& self, int64_t d, int64_t before, int64_t after) {
    TORCH_CHECK(
        before < self.size(d) && after < self.size(d),
        "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (",
        before,
        ", ",
        after,
        ") at dimension ",
        d,
        " of input ",
        self.sizes());
  }
  // Returns the elements that an end copies, in the end's order.
  static Tensor before(const Tensor& t, int64_t d, int64_t n) {
    return flipped(t.narrow(d, 1, n), d);
  }
  static Tensor after(const Tensor& t, int64_t d, int64_t n) {
    return flipped(t.narrow(d, t.size(d) - 1 - n, n), d);
  }
  // Adds the gradient of an end to the gradients of its elements.
  static void add_before(const Tensor& to, int64_t d, const Tensor& grad) {
    to.narrow(d, 1, grad.size(d)).add_(flipped(grad, d));
  }
  static void add_after(const Tensor& to, int64_t d, const Tensor& grad) {
    to.narrow(d, to.size(d) - 1 - grad.size(d), grad.size(d)).add_(flipped(grad, d));
  }
  // Do not flip a single element: flip() would copy it.
  static Tensor flipped(const Tensor& t, int64_t d) {
    return t.size(d) == 1 ? t : t.flip(d);
  }
};

struct Replication {
  static void check(const Tensor&, int64_t, int64_t, int64_t) {}
  static Tensor repeated(const Tensor& t, int64_t d, int64_t at, int64_t n) {
    auto sizes = t.sizes().vec();
    sizes[d] = n;
    return t.narrow(d, at, 1).expand(sizes);
  }
  static Tensor before(const Tensor& t, int64_t d, int64_t n) {
    return repeated(t, d, 0, n);
  }
  static Tensor after(const Tensor& t, int64_t d, int64_t n) {
    return repeated(t, d, t.size(d) - 1, n);
  }
  static void add_before(const Tensor& to, int64_t d, const Tensor& grad) {
    to.narrow(d, 0, 1).add_(summed(grad, d));
  }
  static void add_after(const Tensor& to, int64_t d, const Tensor& grad) {
    to.narrow(d, to.size(d) - 1, 1).add_(summed(grad, d));
  }
  static Tensor summed(const Tensor& grad, int64_t d) {
    return grad.size(d) == 1 ? grad : grad.sum(d, true);
  }
};

int64_t cut(int64_t padding) {
  return std::max<int64_t>(0, -padding);
}

// Pads one dimension if a padding is negative. An end may copy elements that the other,
// negative padding cuts off.
template <class Ends>
Tensor cut_dim(const Tensor& t, int64_t d, int64_t before, int64_t after) {
  std::vector<Tensor> parts;
  if (before > 0) {
    parts.push_back(Ends::before(t, d, before));
  }
  parts.push_back(t.narrow(d, cut(before), t.size(d) - cut(before) - cut(after)));
  if (after > 0) {
    parts.push_back(Ends::after(t, d, after));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, d);
}

// Copies the inside first, then the ends of each dimension, beginning with the last. The
// ends copy elements that were written before.
template <class Ends, int64_t Dims>
Tensor pad(const Tensor& self, IntArrayRef padding) {
  const auto sizes = padded_sizes<Ends, Dims>(self, padding);
  Tensor t = self;
  std::array<Tensor, Dims> parts; // padded in this and the inner dimensions
  at::DimVector ends(padding);
  for (int64_t i = 0; i < Dims; i++) {
    if (std::min(ends[2 * i], ends[2 * i + 1]) < 0) {
      t = cut_dim<Ends>(t, self.dim() - 1 - i, ends[2 * i], ends[2 * i + 1]);
      ends[2 * i] = ends[2 * i + 1] = 0;
    }
  }
  // As in core, only padding of two dimensions keeps channels_last.
  const auto format = Dims == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  const Tensor out = at::empty(sizes, self.options(), format);
  Tensor inside = out;
  for (int64_t i = Dims - 1; i >= 0; i--) {
    const int64_t d = self.dim() - 1 - i;
    parts[i] = inside;
    inside = inside.narrow(d, ends[2 * i], t.size(d));
  }
  inside.copy_(t);
  for (int64_t i = 0; i < Dims; i++) {
    const int64_t d = self.dim() - 1 - i, before = ends[2 * i], after = ends[2 * i + 1];
    const Tensor middle = parts[i].narrow(d, before, t.size(d));
    if (before > 0) {
      parts[i].narrow(d, 0, before).copy_(Ends::before(middle, d, before));
    }
    if (after > 0) {
      parts[i].narrow(d, before + t.size(d), after).copy_(Ends::after(middle, d, after));
    }
  }
  return out;
}

// Writes the gradient of the first n padded dimensions to out, which may have any
// strides.
template <class Ends>
void unpad_into(const Tensor& out, const Tensor& grad, IntArrayRef padding, int64_t n) {
  if (n == 0) {
    out.copy_(grad);
    return;
  }
  const int64_t d = grad.dim() - n, size = out.size(d);
  const int64_t before = padding[2 * n - 2], after = padding[2 * n - 1];
  const int64_t kept = size - cut(before) - cut(after);
  unpad_into<Ends>(
      out.narrow(d, cut(before), kept),
      grad.narrow(d, std::max<int64_t>(0, before), kept),
      padding,
      n - 1);
  out.narrow(d, 0, cut(before)).zero_();
  out.narrow(d, size - cut(after), cut(after)).zero_();
  const auto end = [&](int64_t at, int64_t length) {
    auto sizes = out.sizes().vec();
    sizes[d] = length;
    const Tensor sums = at::empty(sizes, out.options());
    unpad_into<Ends>(sums, grad.narrow(d, at, length), padding, n - 1);
    return sums;
  };
  if (before > 0) {
    Ends::add_before(out, d, end(0, before));
  }
  if (after > 0) {
    Ends::add_after(out, d, end(grad.size(d) - after, after));
  }
}

template <class Ends, int64_t Dims>
Tensor pad_backward(const Tensor& grad, const Tensor& self, IntArrayRef padding) {
  const auto sizes = padded_sizes<Ends, Dims>(self, padding);
  TORCH_CHECK(
      grad.sizes() == IntArrayRef(sizes),
      "grad_output has shape ",
      grad.sizes(),
      ", and padding of the input gives ",
      IntArrayRef(sizes));
  if (grad.numel() != 0) {
    backward_name<Ends, Dims>.check_type(grad.scalar_type());
  }
  const Tensor out = at::empty(self.sizes(), grad.options());
  unpad_into<Ends>(out, grad, padding, Dims);
  return out;
}

template <Tensor (*Function)(const Tensor&, IntArrayRef)>
Tensor& pad_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
  const Tensor result = Function(self, padding);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

template <Tensor (*Function)(const Tensor&, const Tensor&, IntArrayRef)>
Tensor& pad_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef padding, Tensor& out) {
  const Tensor result = Function(grad, self, padding);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

template <class Ends, int64_t Dims>
void add_padding(torch::Library& m, const std::string& name) {
  backward_name<Ends, Dims>.set((name + "_backward").c_str());
  const auto add = [&](const std::string& suffix, auto* function) {
    m.impl((name + suffix).c_str(), function);
  };
  add("", pad<Ends, Dims>);
  add(".out", pad_out<pad<Ends, Dims>>);
  add("_backward", pad_backward<Ends, Dims>);
  add("_backward.grad_input", pad_backward_out<pad_backward<Ends, Dims>>);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("unfold_backward", unfold_backward);
  add_padding<Reflection, 1>(m, "reflection_pad1d");
  add_padding<Reflection, 2>(m, "reflection_pad2d");
  add_padding<Reflection, 3>(m, "reflection_pad3d");
  add_padding<Replication, 1>(m, "replication_pad1d");
  add_padding<Replication, 2>(m, "replication_pad2d");
  add_padding<Replication, 3>(m, "replication_pad3d");
}

} // namespace openreg
