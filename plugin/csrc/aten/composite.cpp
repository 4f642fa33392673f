// SPDX-License-Identifier: BSD-3-Clause
// Operators that core has for each device, in terms of others.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "aten/convention.h"

namespace openreg {

namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::Tensor;
using OptType = std::optional<c10::ScalarType>;

bool equal(const Tensor& self, const Tensor& other) {
  check_tensor_device(other, self.device());
  TORCH_CHECK(
      self.scalar_type() == other.scalar_type(),
      "Expected all tensors to have the same dtype, but found ",
      self.scalar_type(),
      " and ",
      other.scalar_type());
  return self.sizes() == other.sizes() &&
      (self.numel() == 0 || at::eq(self, other).all().item<bool>());
}

Tensor count_nonzero(const Tensor& self, IntArrayRef dims) {
  return at::ne(self, 0).sum(dims);
}

Tensor nansum(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, OptType dtype) {
  if (c10::isIntegralType(self.scalar_type(), true)) {
    return at::sum(self, dims, keepdim, dtype);
  }
  return at::sum(self.masked_fill(self.isnan(), 0), dims, keepdim, dtype);
}

Tensor& nansum_out(
    const Tensor& self,
    OptionalIntArrayRef dims,
    bool keepdim,
    OptType dtype,
    Tensor& out) {
  return at::sum_out(
      out, self.masked_fill(self.isnan(), 0), dims, keepdim, dtype ? dtype : out.scalar_type());
}

Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

// The sum over a batch of products is one product of longer rows.
Tensor& addbmm_out(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  TORCH_CHECK(a.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(b.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(
      a.size(0) == b.size(0),
      "batch1 and batch2 must have same number of batches, got ",
      a.size(0),
      " and ",
      b.size(0));
  TORCH_CHECK(
      a.size(2) == b.size(1),
      "Incompatible matrix sizes for bmm (",
      a.size(1),
      "x",
      a.size(2),
      " and ",
      b.size(1),
      "x",
      b.size(2),
      ")");
  const int64_t inner = a.size(0) * a.size(2);
  return at::addmm_out(
      out,
      self,
      a.transpose(0, 1).reshape({a.size(1), inner}),
      b.reshape({inner, b.size(2)}),
      beta,
      alpha);
}

Tensor addbmm(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  Tensor out = empty({0}, {}, self.options());
  return addbmm_out(self, a, b, beta, alpha, out);
}

Tensor& addbmm_(
    Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  return addbmm_out(self, a, b, beta, alpha, self);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("equal", equal);
  m.impl("count_nonzero.dim_IntList", count_nonzero);
  m.impl("nansum", nansum);
  m.impl("nansum.out", nansum_out);
  m.impl("trace", trace);
  m.impl("addbmm", addbmm);
  m.impl("addbmm_", addbmm_);
  m.impl("addbmm.out", addbmm_out);
}

} // namespace openreg
