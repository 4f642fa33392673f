// SPDX-License-Identifier: BSD-3-Clause
// Weight normalization: scales every slice of v along a dimension, so that its norm is
// the slice's element of g.
#include <ATen/OpMathType.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Tensor;

OpName forward_name, backward_name;

// Whether core's CPU kernel accepts the arguments. If not, the CPU runs the call and
// reports the error.
bool serves(const Tensor& v, const Tensor& g, int64_t dim) {
  return v.is_floating_point() && v.scalar_type() == g.scalar_type() &&
      card_dtype(v.scalar_type()) != 0 && v.dim() > 0 &&
      (dim == 0 || dim == v.dim() - 1) && g.numel() == v.size(dim);
}

// The shape of a number for each slice, and the dimensions that a slice has.
struct Slices {
  Slices(const Tensor& v, int64_t dim) : sizes(v.dim(), 1) {
    sizes[dim] = v.size(dim);
    for (int64_t d = 0; d < v.dim(); d++) {
      others.set(d, d != dim);
    }
  }
  Tensor of(const Tensor& t) const {
    return t.sizes() == at::IntArrayRef(sizes) ? t : t.view(sizes);
  }

  std::vector<int64_t> sizes;
  Space::Mask others;
};

std::tuple<Tensor, Tensor> forward(const Tensor& v, const Tensor& g, int64_t dim) {
  if (!serves(v, g, dim)) {
    return fallback<std::tuple<Tensor, Tensor>, const Tensor&, const Tensor&, int64_t>(
        forward_name, v, g, dim);
  }
  check_tensor_device(g, v.device());
  const auto type = at::toOpMathType(v.scalar_type());
  const Tensor w = at::empty_like(v, at::MemoryFormat::Contiguous);
  const Tensor norm = at::empty_strided(g.sizes(), g.strides(), g.options().dtype(type));
  if (v.numel() == 0) {
    norm.zero_();
    return {w, norm};
  }
  const Slices slices(v, dim);
  const Tensor n = slices.of(norm);
  Step squares(forward_name.id, v, type);
  const Value x = squares.load(v);
  squares.sum(n, x * x, slices.others);
  squares.run();
  const Tensor factors = at::empty_like(n);
  Step root(forward_name.id, n, type);
  const uint8_t at = root.add(n);
  const Value length = sqrt(root.load(at));
  root.program.store(at, length);
  root.store(factors, root.load(slices.of(g)) / length);
  root.run(Part::FURTHER);
  Step scale(forward_name.id, v, type);
  const Value y = scale.load(v);
  scale.store(w, y * scale.load(factors));
  scale.run(Part::FURTHER);
  return {w, norm};
}

std::tuple<Tensor, Tensor> backward(
    const Tensor& grad,
    const Tensor& v,
    const Tensor& g,
    const Tensor& norm,
    int64_t dim) {
  TORCH_CHECK(v.is_contiguous(), "saved_v must be contiguous");
  TORCH_CHECK(g.is_contiguous(), "saved_g must be contiguous");
  TORCH_CHECK(norm.is_contiguous(), "saved_norm must be contiguous");
  if (!serves(v, g, dim) || grad.sizes() != v.sizes()) {
    return fallback<
        std::tuple<Tensor, Tensor>,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        int64_t>(backward_name, grad, v, g, norm, dim);
  }
  check_tensor_device(grad, v.device());
  check_tensor_device(g, v.device());
  check_tensor_device(norm, v.device());
  const auto type = at::toOpMathType(v.scalar_type());
  const Tensor grad_v = at::empty_like(v, at::MemoryFormat::Contiguous);
  const Tensor grad_g = at::empty_like(g, at::MemoryFormat::Contiguous);
  const Slices slices(v, dim);
  const Tensor n = slices.of(norm), of_g = slices.of(g);
  const Tensor products = at::empty_like(n), along = at::empty_like(n), factors = at::empty_like(n);
  if (v.numel() == 0) {
    products.zero_();
  }
  Step dot(backward_name.id, v, type);
  dot.sum(products, dot.load(v) * dot.load(grad), slices.others);
  dot.run();
  Step by_g(backward_name.id, n, type);
  const Value length = by_g.load(n), slope = by_g.load(products) / length;
  by_g.store(slices.of(grad_g), slope);
  by_g.store(along, slope / length);
  by_g.store(factors, by_g.load(of_g) / length);
  by_g.run(Part::FURTHER);
  Step by_v(backward_name.id, v, type);
  const Value x = by_v.load(v), y = by_v.load(grad);
  by_v.store(grad_v, by_v.load(factors) * (y - x * by_v.load(along)));
  by_v.run(Part::FURTHER);
  return {grad_v, grad_g};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("_weight_norm_interface");
  backward_name.set("_weight_norm_interface_backward");
  m.impl("_weight_norm_interface", forward);
  m.impl("_weight_norm_interface_backward", backward);
}

} // namespace openreg
