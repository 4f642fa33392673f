// SPDX-License-Identifier: BSD-3-Clause
// avg_pool and adaptive_avg_pool in one to three dimensions. Core's composites turn
// pooling in one dimension into pooling in two, and adaptive pooling to one element into
// mean.
#include "aten/pooling.h"
#include "aten/structured.h"

#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>

namespace openreg {
namespace {

using at::IntArrayRef;
using at::Tensor;

uint8_t flags(bool count_include_pad) {
  return count_include_pad ? OPENREG_POOL_COUNT_PADDING : 0;
}

// Of integers, the CPU averages only int64, and reports an error for the others.
bool averages(const Tensor& self) {
  return self.is_floating_point() || self.scalar_type() == at::kLong;
}

template <int D>
struct Forward {
  template <class... Rest>
  static bool serves(const Tensor& self, IntArrayRef kernel, const Rest&...) {
    return averages(self) && pool_fits(D, self.sizes(), kernel, {});
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      IntArrayRef kernel,
      IntArrayRef stride,
      IntArrayRef padding,
      bool,
      bool count_include_pad,
      std::optional<int64_t> divisor) const {
    pool(
        id,
        {OPENREG_POOL_AVG,
         flags(count_include_pad),
         D,
         pool_windows(D, kernel, stride, padding, {}),
         divisor.value_or(0)},
        self,
        op.maybe_get_output(0),
        Tensor());
  }
};

void check_types(const Tensor& grad_output, const Tensor& self) {
  TORCH_CHECK(
      grad_output.scalar_type() == self.scalar_type(),
      "expected dtype ",
      self.scalar_type(),
      " for `grad_output` but got dtype ",
      grad_output.scalar_type());
}

template <int D>
struct Backward {
  template <class... Rest>
  static bool serves(
      const Tensor& grad_output,
      const Tensor& self,
      IntArrayRef kernel,
      IntArrayRef stride,
      const Rest&...) {
    return averages(self) &&
        pool_gradient_fits(D, self.sizes(), grad_output.sizes(), kernel, stride);
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
      bool,
      bool count_include_pad,
      std::optional<int64_t> divisor) const {
    check_types(grad_output, self);
    pool(
        id,
        {OPENREG_POOL_AVG,
         static_cast<uint8_t>(OPENREG_POOL_BACKWARD | flags(count_include_pad)),
         D,
         pool_windows(D, kernel, stride, padding, {}),
         divisor.value_or(0)},
        op.maybe_get_output(0),
        grad_output,
        Tensor());
  }
};

// Adaptive average pooling is not structured in core.
template <int D>
struct adaptive_base : at::impl::MetaBase {
  static at::MemoryFormat format(const Tensor& self) {
    return D == 2 && self.dim() == D + 2 ? self.suggest_memory_format()
                                         : at::MemoryFormat::Contiguous;
  }
  // No dimension from first on may be empty.
  void check(const Tensor& t, int64_t first, const char* name, const char* what) {
    TORCH_CHECK(
        t.dim() == D + 1 || t.dim() == D + 2,
        "adaptive_avg_pool", D, "d", name, "(): Expected ", D + 1, "D or ", D + 2,
        "D tensor, but got ", t.sizes());
    for (int64_t d = first; d < t.dim(); d++) {
      TORCH_CHECK(
          t.size(d) > 0,
          "adaptive_avg_pool", D, "d", name, "(): Expected ", what,
          " to have non-zero size for non-batch dimensions, but ", what,
          " has sizes ", t.sizes(), " with dimension ", d, " being empty");
    }
  }
};

template <int D>
struct adaptive_meta : adaptive_base<D> {
  void meta(const Tensor& self, IntArrayRef output_size) {
    TORCH_CHECK(
        output_size.size() == D,
        "adaptive_avg_pool", D, "d: output_size must be ", D);
    this->check(self, D == 2 ? self.dim() - D : 1, "", "input");
    c10::SmallVector<int64_t, 5> sizes(self.sizes().begin(), self.sizes().end());
    for (int d = 0; d < D; d++) {
      TORCH_CHECK(
          output_size[d] >= 0,
          "adaptive_avg_pool", D, "d: elements of output_size must be greater than or equal to 0 ",
          "but received ", output_size);
      sizes.end()[d - D] = output_size[d];
    }
    this->set_output_raw_strided(
        0, sizes, {}, self.options().memory_format(this->format(self)));
  }
};

template <int D>
struct adaptive_backward_meta : adaptive_base<D> {
  void meta(const Tensor& grad_output, const Tensor& self) {
    this->check(grad_output, 1, "_backward", "grad_output");
    TORCH_CHECK(
        grad_output.dim() == self.dim(),
        "adaptive_avg_pool", D, "d_backward(): Expected dimensions ", self.dim(),
        " for `grad_output` but got dimensions ", grad_output.dim());
    this->set_output_raw_strided(
        0, self.sizes(), {}, self.options().memory_format(this->format(self)));
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
        {OPENREG_POOL_AVG, OPENREG_POOL_ADAPTIVE, D, Windows()},
        self,
        op.maybe_get_output(0),
        Tensor());
  }
};

template <int D>
struct AdaptiveBackward {
  template <class... Rest>
  static bool serves(const Tensor& grad_output, const Tensor& self, const Rest&...) {
    return pool_gradient_fits(D, self.sizes(), grad_output.sizes());
  }
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& grad_output, const Tensor& self) const {
    check_types(grad_output, self);
    pool(
        id,
        {OPENREG_POOL_AVG, OPENREG_POOL_BACKWARD | OPENREG_POOL_ADAPTIVE, D, Windows()},
        op.maybe_get_output(0),
        grad_output,
        Tensor());
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_avg_pool2d>(
      m, NamesWithoutInplace{"avg_pool2d", "avg_pool2d.out"}, Forward<2>());
  add_op<at::meta::structured_avg_pool2d_backward>(
      m,
      NamesWithoutInplace{"avg_pool2d_backward", "avg_pool2d_backward.grad_input"},
      Backward<2>());
  add_op<at::meta::structured_avg_pool3d>(
      m, NamesWithoutInplace{"avg_pool3d", "avg_pool3d.out"}, Forward<3>());
  add_op<at::meta::structured_avg_pool3d_backward>(
      m,
      NamesWithoutInplace{"avg_pool3d_backward", "avg_pool3d_backward.grad_input"},
      Backward<3>());
  add_op<adaptive_meta<2>>(
      m,
      NamesWithoutInplace{"_adaptive_avg_pool2d", "adaptive_avg_pool2d.out"},
      AdaptiveForward<2>());
  add_op<adaptive_backward_meta<2>>(
      m, FunctionalName{"_adaptive_avg_pool2d_backward"}, AdaptiveBackward<2>());
  add_op<adaptive_meta<3>>(
      m,
      NamesWithoutInplace{"_adaptive_avg_pool3d", "adaptive_avg_pool3d.out"},
      AdaptiveForward<3>());
  add_op<adaptive_backward_meta<3>>(
      m,
      NamesWithoutInplace{
          "_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward.grad_input"},
      AdaptiveBackward<3>());
}

} // namespace openreg
