// SPDX-License-Identifier: BSD-3-Clause
// max_pool and adaptive_max_pool in one to three dimensions. Core's composites turn
// pooling in one dimension into pooling in two.
#include "aten/pooling.h"
#include "aten/structured.h"

#include <ATen/native/Pool.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>

namespace openreg {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Three = Windows::Three;

// Checks an argument with core's error text, which differs between the arguments.
Three three(IntArrayRef values, const char* what) {
  TORCH_CHECK(
      values.size() == 1 || values.size() == 3,
      "max_pool3d: ",
      what,
      " a single int, or a tuple of three ints");
  return Windows::expand(values, 3, 1);
}

// max_pool3d is not structured in core.
struct max_pool3d_base : at::impl::MetaBase {
  // Checks the arguments and returns the output's sizes.
  c10::SmallVector<int64_t, 5> check(
      const Tensor& self,
      IntArrayRef kernel_size,
      IntArrayRef strides,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode,
      const char* name) {
    const Three k = three(kernel_size, "kernel_size must either be");
    TORCH_CHECK(
        strides.empty() || strides.size() == 1 || strides.size() == 3,
        "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
    const Three s = Windows::expand(strides, 3, 1, k);
    const Three p = three(padding, "padding must either be");
    const Three d = three(dilation, "dilation must be either");
    TORCH_CHECK(
        self.dim() == 4 || self.dim() == 5,
        "non-empty 4D or 5D (batch mode) tensor expected for input");
    const Three in = Windows::sizes(self, 3);
    c10::SmallVector<int64_t, 5> out(self.sizes().begin(), self.sizes().end());
    int64_t* o = out.end() - 3;
    for (int i = 0; i < 3; i++) {
      o[i] = at::native::pooling_output_shape<int64_t>(
          in[i], k[i], p[i], s[i], d[i], ceil_mode);
    }
    at::native::pool3d_shape_check(
        self, self.size(-4), k[0], k[1], k[2], s[0], s[1], s[2], p[0], p[1], p[2],
        d[0], d[1], d[2], in[0], in[1], in[2], o[0], o[1], o[2], name);
    return out;
  }
  static at::MemoryFormat format(const Tensor& self) {
    return self.dim() == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  }
};

struct max_pool3d_meta : max_pool3d_base {
  void meta(
      const Tensor& self,
      IntArrayRef kernel_size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode) {
    const auto sizes = check(
        self, kernel_size, stride, padding, dilation, ceil_mode, "max_pool3d_with_indices()");
    const auto options = self.options().memory_format(format(self));
    set_output_raw_strided(0, sizes, {}, options);
    set_output_raw_strided(1, sizes, {}, options.dtype(at::kLong));
  }
};

struct max_pool3d_backward_meta : max_pool3d_base {
  void meta(
      const Tensor& grad_output,
      const Tensor& self,
      IntArrayRef kernel_size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode,
      const Tensor& indices) {
    const auto sizes = check(
        self, kernel_size, stride, padding, dilation, ceil_mode,
        "max_pool3d_with_indices_backward()");
    for (const Tensor* t : {&grad_output, &indices}) {
      TORCH_CHECK(
          t->sizes() == IntArrayRef(sizes),
          "max_pool3d_with_indices_backward(): expected sizes ",
          IntArrayRef(sizes),
          ", but got ",
          t->sizes());
    }
    set_output_raw_strided(
        0, self.sizes(), {}, self.options().memory_format(format(self)));
  }
};

void check_backward(const Tensor& grad_output, const Tensor& self, const Tensor& indices) {
  TORCH_CHECK(
      grad_output.scalar_type() == self.scalar_type(),
      "expected dtype ",
      self.scalar_type(),
      " for `grad_output` but got dtype ",
      grad_output.scalar_type());
  TORCH_CHECK(
      indices.scalar_type() == at::kLong && indices.sizes() == grad_output.sizes(),
      "expected indices of scalar type Long and sizes ",
      grad_output.sizes(),
      ", but found ",
      indices.scalar_type(),
      " and ",
      indices.sizes());
}

template <int D>
struct Forward {
  template <class... Rest>
  static bool serves(const Tensor& self, IntArrayRef kernel, const Rest&...) {
    return pool_fits(D, self.sizes(), kernel, {});
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      IntArrayRef kernel,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool) const {
    pool(
        id,
        {OPENREG_POOL_MAX, 0, D, pool_windows(D, kernel, stride, padding, dilation)},
        self,
        op.maybe_get_output(0),
        op.maybe_get_output(1));
  }
};

template <int D>
struct Backward {
  template <class... Rest>
  static bool serves(
      const Tensor& grad_output,
      const Tensor& self,
      IntArrayRef kernel,
      IntArrayRef stride,
      IntArrayRef,
      IntArrayRef dilation,
      const Rest&...) {
    return pool_gradient_fits(D, self.sizes(), grad_output.sizes(), kernel, stride, dilation);
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad_output,
      const Tensor& self,
      IntArrayRef kernel,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool,
      const Tensor& indices) const {
    check_backward(grad_output, self, indices);
    pool(
        id,
        {OPENREG_POOL_MAX,
         OPENREG_POOL_BACKWARD,
         D,
         pool_windows(D, kernel, stride, padding, dilation)},
        op.maybe_get_output(0),
        grad_output,
        indices);
  }
};

template <int D>
struct AdaptiveForward {
  static bool serves(const Tensor& self, IntArrayRef output_size) {
    return self.is_floating_point() && pool_fits(D, self.sizes(), {}, output_size);
  }
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, IntArrayRef) const {
    pool(
        id,
        {OPENREG_POOL_MAX, OPENREG_POOL_ADAPTIVE, D, Windows()},
        self,
        op.maybe_get_output(0),
        op.maybe_get_output(1));
  }
};

template <int D>
struct AdaptiveBackward {
  template <class... Rest>
  static bool serves(const Tensor& grad_output, const Tensor& self, const Rest&...) {
    return pool_gradient_fits(D, self.sizes(), grad_output.sizes());
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad_output,
      const Tensor& self,
      const Tensor& indices) const {
    check_backward(grad_output, self, indices);
    pool(
        id,
        {OPENREG_POOL_MAX, OPENREG_POOL_BACKWARD | OPENREG_POOL_ADAPTIVE, D, Windows()},
        op.maybe_get_output(0),
        grad_output,
        indices);
  }
};

// Core composes max_pool1d of max_pool2d, which takes integers. The CPU's own kernel for
// one dimension refuses them.
at::Tensor max_pool1d(
    const Tensor& self,
    IntArrayRef kernel_size,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool ceil_mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      self.is_floating_point(), "\"max_pool1d\" not implemented for '", self.scalar_type(), "'");
  return at::native::max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("max_pool1d", max_pool1d);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_pool1d", max_pool1d);
  add_op<at::meta::structured_max_pool2d_with_indices, 2>(
      m,
      NamesWithoutInplace{"max_pool2d_with_indices", "max_pool2d_with_indices.out"},
      Forward<2>());
  add_op<at::meta::structured_max_pool2d_with_indices_backward>(
      m,
      NamesWithoutInplace{
          "max_pool2d_with_indices_backward",
          "max_pool2d_with_indices_backward.grad_input"},
      Backward<2>());
  add_op<max_pool3d_meta, 2>(
      m,
      NamesWithoutInplace{"max_pool3d_with_indices", "max_pool3d_with_indices.out"},
      Forward<3>());
  add_op<max_pool3d_backward_meta>(
      m,
      NamesWithoutInplace{
          "max_pool3d_with_indices_backward",
          "max_pool3d_with_indices_backward.grad_input"},
      Backward<3>());
  add_op<at::meta::structured_adaptive_max_pool2d, 2>(
      m,
      NamesWithoutInplace{"adaptive_max_pool2d", "adaptive_max_pool2d.out"},
      AdaptiveForward<2>());
  add_op<at::meta::structured_adaptive_max_pool2d_backward>(
      m,
      NamesWithoutInplace{
          "adaptive_max_pool2d_backward", "adaptive_max_pool2d_backward.grad_input"},
      AdaptiveBackward<2>());
  add_op<at::meta::structured_adaptive_max_pool3d, 2>(
      m,
      NamesWithoutInplace{"adaptive_max_pool3d", "adaptive_max_pool3d.out"},
      AdaptiveForward<3>());
  add_op<at::meta::structured_adaptive_max_pool3d_backward>(
      m,
      NamesWithoutInplace{
          "adaptive_max_pool3d_backward", "adaptive_max_pool3d_backward.grad_input"},
      AdaptiveBackward<3>());
}

} // namespace openreg
