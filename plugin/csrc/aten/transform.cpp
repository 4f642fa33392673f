// SPDX-License-Identifier: BSD-3-Clause
// flip and roll, with COPY packets, for any type.
#include "aten/convention.h"
#include "runtime/strided_copy.h"
#include "runtime/submit.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace openreg {

namespace {

using at::Tensor;

OpName flip_name, roll_name;

// Copies from a view of self that starts at the last element and has negative strides in
// the flipped dimensions.
Tensor flip(const Tensor& self, at::IntArrayRef dims) {
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  Tensor out = at::empty_like(self, at::MemoryFormat::Preserve);
  if (self.numel() == 0) {
    return out;
  }
  at::DimVector strides(self.strides());
  auto from = reinterpret_cast<int64_t>(self.const_data_ptr());
  for (int64_t d = 0; d < self.dim(); d++) {
    if (flipped[d]) {
      from += (self.size(d) - 1) * strides[d] * static_cast<int64_t>(self.element_size());
      strides[d] = -strides[d];
    }
  }
  const CopyShape shape = copy_shape(
      self.sizes(),
      reinterpret_cast<uint64_t>(out.data_ptr()),
      out.strides(),
      out.scalar_type(),
      static_cast<uint64_t>(from),
      strides,
      self.scalar_type());
  StreamState& stream = current_stream_state(self.get_device());
  {
    std::lock_guard<std::mutex> lock(stream.mutex);
    submit_copy_locked(stream, shape);
  }
  count_op(flip_name.id);
  return out;
}

// Copies the two parts before and after each dimension's wrap, starting at dimension d.
// The part after the wrap has shifts[d] elements.
void roll_into(const Tensor& out, const Tensor& self, at::IntArrayRef shifts, int64_t d) {
  while (d < self.dim() && shifts[d] == 0) {
    d++;
  }
  if (d == self.dim()) {
    out.copy_(self);
    return;
  }
  const int64_t behind = shifts[d], before = self.size(d) - behind;
  roll_into(out.narrow(d, behind, before), self.narrow(d, 0, before), shifts, d + 1);
  roll_into(out.narrow(d, 0, behind), self.narrow(d, before, behind), shifts, d + 1);
}

Tensor roll(const Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const Tensor flat = self.contiguous().view(self.numel());
    return openreg::roll(flat, shifts, at::IntArrayRef({0})).view(self.sizes());
  }
  TORCH_CHECK(
      shifts.size() == dims.size(),
      "shifts and dimensions must align. shifts: ",
      shifts.size(),
      ", dims:",
      dims.size());
  if (self.numel() == 0) {
    return self.clone(at::MemoryFormat::Preserve);
  }
  at::DimVector by(self.dim(), 0);
  for (size_t i = 0; i < shifts.size(); i++) {
    const int64_t d = at::maybe_wrap_dim(dims[i], self.dim()), size = self.size(d);
    by[d] = ((by[d] + shifts[i] % size) % size + size) % size;
  }
  Tensor out = at::empty_like(self, self.suggest_memory_format());
  roll_into(out, self, by, 0);
  count_op(roll_name.id);
  return out;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  flip_name.set("flip");
  roll_name.set("roll");
  m.impl("flip", flip);
  m.impl("roll", roll);
}

} // namespace openreg
