// SPDX-License-Identifier: BSD-3-Clause
// nonzero, masked_select and masked_scatter: operators on the elements that a mask
// selects. The caller waits for the count of the elements. A PLACES packet finds them.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/convention.h"
#include "aten/reduction.h"

namespace openreg {

namespace {

using at::Tensor;

Tensor flat(const Tensor& t) {
  return t.reshape({t.numel()});
}

int64_t count_nonzero(OpId id, const Tensor& self) {
  if (self.numel() == 0 || self.dim() == 0 || self.numel() > INT32_MAX) {
    return at::count_nonzero(self).item<int64_t>();
  }
  const Tensor out = at::empty({}, self.options().dtype(at::kLong));
  reduce(
      {.id = id,
       .op = OPENREG_V_RED_SUM,
       .dims = mask_of(std::nullopt, self.dim()),
       .compute = self.scalar_type(),
       .value = out},
      {self},
      [](Reducer& p) { return p.in(0) != 0.0; });
  return out.item<int64_t>();
}

// Returns the coordinates of the elements that are not 0, [count, dimensions], in
// row-major order. Each column is dense, as in core.
Tensor coordinates(const Tensor& self) {
  static const OpId id = op_id("aten::nonzero");
  const int64_t n = self.dim(), count = count_nonzero(id, self);
  const Tensor out =
      at::empty_strided({count, n}, {1, count}, self.options().dtype(at::kLong));
  if (out.numel() == 0) {
    return out;
  }
  Packet packet(OPENREG_OP_PLACES, id);
  packet.space(self.sizes());
  at::DimVector strides(n, 0);
  strides[n - 1] = out.stride(0);
  for (int64_t d = 0; d < n; d++) {
    packet.operand(
        out.select(1, d).const_data_ptr(), OPENREG_I64, strides.data());
  }
  packet.operand(
      self.const_data_ptr(), card_dtype(self.scalar_type()), self.strides().data());
  packet.imm(count);
  launch(packet, self.get_device());
  return out;
}

// Returns the row-major places of the elements that a flat mask selects.
Tensor places(const Tensor& mask) {
  return coordinates(mask).select(1, 0);
}

// Makes each column dense: core's sparse kernels rely on that.
void resize_columns(const Tensor& out, int64_t rows, int64_t columns) {
  if (at::native::resize_output(out, {rows, columns})) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(out.sizes(), {1, rows});
  }
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  check_tensor_device(out, self.device());
  TORCH_CHECK(
      out.scalar_type() == at::kLong,
      "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
      out.scalar_type());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const Tensor known = card_dtype(self.scalar_type()) ? self : at::ne(self, 0);
  if (self.dim() <= OPENREG_DIMS_MAX) {
    const Tensor found = coordinates(known);
    resize_columns(out, found.size(0), found.size(1));
    return out.copy_(found);
  }
  Tensor place = places(flat(known));
  resize_columns(out, place.numel(), self.dim());
  for (int64_t d = self.dim() - 1; d > 0; d--) {
    out.select(1, d).copy_(at::remainder(place, self.size(d)));
    place = at::div(place, self.size(d), "trunc");
  }
  out.select(1, 0).copy_(place);
  return out;
}

Tensor nonzero(const Tensor& self) {
  if (card_dtype(self.scalar_type()) && self.dim() <= OPENREG_DIMS_MAX) {
    return coordinates(self);
  }
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
  const auto apart = [&](const Tensor& t) {
    return flat(t.is_alias_of(self) ? t.clone() : t);
  };
  const Tensor elements = flat(self), values = apart(source), place = places(apart(*m));
  TORCH_CHECK(
      place.numel() <= values.numel(),
      "masked_scatter_: expected the number of elements of source to be at least the number of ones in mask, but got ",
      source.numel(),
      " and ",
      place.numel());
  elements.index_copy_(0, place, values.narrow(0, 0, place.numel()));
  if (!elements.is_alias_of(self)) {
    self.copy_(elements.view(self.sizes()));
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
