// SPDX-License-Identifier: BSD-3-Clause
// What a mask selects: nonzero, masked_select and masked_scatter. A scan of the
// mask numbers what it selects; the caller waits for how many there are.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/convention.h"

namespace openreg {

namespace {

using at::Tensor;

Tensor flat(const Tensor& t) {
  return t.reshape({t.numel()});
}

// How many are selected up to and with each element.
Tensor counts(const Tensor& mask) {
  return at::cumsum(mask, 0, at::kLong);
}

// Row-major places of what a flat mask selects. All elements are sorted, those
// that are not selected behind the others, so that no place is written twice.
Tensor places(const Tensor& mask) {
  const int64_t n = mask.numel();
  const auto options = mask.options().dtype(at::kLong);
  Tensor out = at::empty({n}, options);
  if (n == 0) {
    return out;
  }
  const Tensor count = counts(mask), all = count[n - 1];
  const Tensor each = at::arange(n, options);
  out.scatter_(0, at::where(mask, count - 1, each - count + all), each);
  return out.narrow(0, 0, all.item<int64_t>());
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  check_tensor_device(out, self.device());
  TORCH_CHECK(
      out.scalar_type() == at::kLong,
      "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
      out.scalar_type());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  Tensor place = places(flat(at::ne(self, 0)));
  // Each dimension's indices lie together: core's sparse kernels rely on it.
  if (at::native::resize_output(out, {place.numel(), self.dim()})) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(
        out.sizes(), {1, out.size(0)});
  }
  for (int64_t d = self.dim() - 1; d > 0; d--) {
    out.select(1, d).copy_(at::remainder(place, self.size(d)));
    place = at::div(place, self.size(d), "trunc");
  }
  if (self.dim() > 0) {
    out.select(1, 0).copy_(place);
  }
  return out;
}

Tensor nonzero(const Tensor& self) {
  Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_out(self, out);
}

Tensor select_masked(const Tensor& self, const Tensor& mask) {
  check_tensor_device(mask, self.device());
  TORCH_CHECK(
      mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto [m, s] = at::expand_outplace(mask, self, "masked_select");
  return flat(*s).index_select(0, places(flat(*m)));
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  check_tensor_device(out, self.device());
  TORCH_CHECK(
      self.scalar_type() == out.scalar_type(),
      "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const Tensor result = select_masked(self, mask);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor& masked_scatter_(Tensor& self, const Tensor& mask, const Tensor& source) {
  check_tensor_device(mask, self.device());
  check_tensor_device(source, self.device());
  TORCH_CHECK(
      self.scalar_type() == source.scalar_type(),
      "masked_scatter_: expected self and source to have same dtypes but got ",
      self.scalar_type(),
      " and ",
      source.scalar_type());
  TORCH_CHECK(
      mask.scalar_type() == at::kBool,
      "masked_scatter_ only supports boolean masks, but got mask with dtype ",
      mask.scalar_type());
  at::assert_no_internal_overlap(self);
  const auto m = at::expand_inplace(self, mask, "masked_scatter_");
  if (self.numel() == 0) {
    return self;
  }
  const Tensor count = counts(flat(*m));
  const int64_t selected = count[count.numel() - 1].item<int64_t>();
  TORCH_CHECK(
      selected <= source.numel(),
      "masked_scatter_: expected the number of elements of source to be at least the number of ones in mask, but got ",
      source.numel(),
      " and ",
      selected);
  if (selected > 0) {
    const Tensor from = flat(source).index_select(0, (count - 1).clamp_min(0));
    self.copy_(at::where(*m, from.view(self.sizes()), self));
  }
  return self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", nonzero);
  m.impl("nonzero.out", nonzero_out);
  m.impl("masked_select", select_masked);
  m.impl("masked_select.out", masked_select_out);
  m.impl("masked_scatter_", masked_scatter_);
}

} // namespace openreg
