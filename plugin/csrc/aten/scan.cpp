// SPDX-License-Identifier: BSD-3-Clause
// cumsum, cumprod, logcumsumexp, cummax and cummin, with one SCAN packet each.
#include "aten/structured.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <c10/core/WrapDimMinimal.h>

namespace openreg {

namespace {

using at::Tensor;

// Whether out may share memory with self: only if each element is at the same place.
bool may_share(const Tensor& out, const Tensor& self) {
  return at::get_overlap_status(out, self) == at::MemOverlapStatus::No ||
      (out.data_ptr() == self.data_ptr() && out.strides() == self.strides() &&
       out.scalar_type() == self.scalar_type());
}

// Whether self needs a cast before the packet. The card casts only to a type of its
// registers: not to a half type or bool.
bool casts(c10::ScalarType from, c10::ScalarType to) {
  return from != to && (to == at::kHalf || to == at::kBFloat16 || to == at::kBool);
}

// indices may be undefined.
void scan(
    OpId id,
    uint8_t mode,
    const Tensor& out,
    const Tensor& indices,
    const Tensor& self,
    int64_t dim) {
  if (out.numel() == 0) {
    return;
  }
  at::assert_no_internal_overlap(out);
  Tensor source = casts(self.scalar_type(), out.scalar_type())
      ? self.to(out.scalar_type())
      : self;
  if (!may_share(out, source)) {
    source = source.clone();
  }
  Space space(out.sizes(), out.get_device());
  space.add(out);
  space.add(source);
  if (indices.defined()) {
    at::assert_no_internal_overlap(indices);
    indices.mutable_data_ptr(); // a copy-on-write tensor gets memory of its own
    space.add(indices);
  }
  if (out.dim() == 0) {
    space.add_unit();
  }
  space.keep(static_cast<int>(c10::maybe_wrap_dim(dim, out.dim())));
  space.coalesce();
  Part part = Part::FIRST;
  space.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_SCAN, id);
    packet.arg(0, s.kept());
    packet.arg(1, mode);
    s.put(packet);
    launch(packet, s.device(), part);
    part = Part::FURTHER;
  });
}

using OptType = std::optional<c10::ScalarType>;

struct logcumsumexp_meta : at::impl::MetaBase {
  void meta(const Tensor& self, int64_t dim) {
    c10::maybe_wrap_dim(dim, self.dim());
    const auto type = self.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(
        c10::isFloatingType(type) || c10::isComplexType(type),
        "\"logcumsumexp\" not implemented for '",
        type,
        "'");
    set_output_raw_strided(0, self.sizes(), {}, self.options());
  }
};

// values has the extreme so far, and indices the place of its last occurrence.
template <uint8_t Mode>
void extremes(const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  static const OpId id = op_id(
      Mode == OPENREG_SCAN_MAX ? "aten::_cummax_helper" : "aten::_cummin_helper");
  scan(id, Mode, values, indices, self, dim);
}

template <uint8_t Mode>
struct Scan {
  static bool refuses(const Tensor& out, const auto&...) {
    return out.numel() != 0;
  }

  template <class Op, class... Rest>
  void operator()(OpId id, Op& op, const Tensor& self, int64_t dim, Rest...) const {
    scan(id, Mode, op.maybe_get_output(0), Tensor(), self, dim);
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_cumsum>(
      m, Names{"cumsum", "cumsum_", "cumsum.out"}, Scan<OPENREG_SCAN_SUM>());
  add_op<at::meta::structured_cumprod>(
      m, Names{"cumprod", "cumprod_", "cumprod.out"}, Scan<OPENREG_SCAN_PROD>());
  add_op<logcumsumexp_meta>(
      m,
      NamesWithoutInplace{"_logcumsumexp", "_logcumsumexp.out"},
      Scan<OPENREG_SCAN_LOGSUMEXP>());
  m.impl("_cummax_helper", extremes<OPENREG_SCAN_MAX>);
  m.impl("_cummin_helper", extremes<OPENREG_SCAN_MIN>);
}

} // namespace openreg
