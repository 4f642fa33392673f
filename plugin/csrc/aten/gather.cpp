// SPDX-License-Identifier: BSD-3-Clause
// gather, the scatter operators, take and put_.
#include "aten/index.h"
#include "aten/scatter.h"
#include "aten/structured.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>

namespace openreg {

using at::Scalar;
using at::Tensor;

namespace {

OpName take_name, take_out_name, put_name;

struct Gather {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, int64_t dim, const Tensor& index, bool) const {
    index_points(
        id, OPENREG_INDEX_GET, op.maybe_get_output(0), self, dim, index);
  }
};

template <uint8_t Mode>
struct ScatterSource {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) const {
    index_points(id, Mode, started(op, self), src, dim, index);
  }
};

struct ScatterValue {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) const {
    const Tensor& out = started(op, self);
    index_points(
        id,
        OPENREG_INDEX_PUT,
        out,
        broadcast_scalar(value, out, with_dim(index).sizes()),
        dim,
        index);
  }
};

// Converts the names of reductions of the older scatter.reduce.
uint8_t old_mode(std::string_view reduce) {
  TORCH_CHECK(
      reduce == "add" || reduce == "multiply",
      "reduce argument must be either add or multiply.");
  return reduce == "add" ? OPENREG_INDEX_ADD : OPENREG_INDEX_MUL;
}

struct ScatterReduceOld {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& src,
      std::string_view reduce) const {
    index_points(id, old_mode(reduce), started(op, self), src, dim, index);
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Scalar& value,
      std::string_view reduce) const {
    const Tensor& out = started(op, self);
    index_points(
        id,
        old_mode(reduce),
        out,
        broadcast_scalar(value, out, with_dim(index).sizes()),
        dim,
        index);
  }
};

struct ScatterReduce {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& src,
      std::string_view reduce,
      bool include_self) const {
    const Tensor& out = started(op, self);
    if (index.numel() == 0) {
      return;
    }
    const auto put = [&](uint8_t mode, const Tensor& to, const Tensor& from, Part part) {
      return index_points(id, mode, to, from, dim, index, part);
    };
    combine(reduce, include_self, out, src, with_dim(index).sizes(), put);
  }
};

void check_take(const Tensor& self, const Tensor& index, const Tensor& out) {
  TORCH_CHECK(
      index.scalar_type() == at::kLong,
      "take(): Expected a long tensor for index, but got ",
      index.scalar_type());
  TORCH_CHECK(
      self.scalar_type() == out.scalar_type(),
      "take(): self and out expected to have the same dtype, but got self.dtype = ",
      self.scalar_type(),
      " and out.dtype = ",
      out.scalar_type());
  TORCH_CHECK(
      self.device() == out.device() && self.device() == index.device(),
      "take(): self, index and out expected to be in the same device, but got self.device = ",
      self.device(),
      ", index.device = ",
      index.device(),
      ", and out.device = ",
      out.device());
  TORCH_CHECK_INDEX(
      self.numel() != 0 || index.numel() == 0,
      "take(): tried to take from an empty tensor");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, index);
  at::assert_no_overlap(out, self);
}

void take_into(OpId id, const Tensor& self, const Tensor& index, const Tensor& out) {
  const Tensor flat = self.contiguous();
  IndexSpace space(
      OPENREG_INDEX_GET,
      Negative::WRAPS,
      index.sizes(),
      out,
      at::DimVector(out.strides()),
      flat,
      at::DimVector(index.dim(), 0));
  space.choose(index, at::DimVector(index.strides()), flat.numel(), 1);
  space.launch(id);
}

Tensor& take_out(const Tensor& self, const Tensor& index, Tensor& out) {
  if (!on_card(self) || !on_card(out)) {
    return fallback<Tensor&, const Tensor&, const Tensor&, Tensor&>(
        take_out_name, self, index, out);
  }
  check_take(self, index, out);
  at::native::resize_output(out, index.sizes());
  take_into(take_out_name.id, self, index, out);
  return out;
}

Tensor take(const Tensor& self, const Tensor& index) {
  if (!on_card(self)) {
    return fallback<Tensor, const Tensor&, const Tensor&>(take_name, self, index);
  }
  const Tensor out = at::empty(index.sizes(), self.options());
  check_take(self, index, out);
  take_into(take_name.id, self, index, out);
  return out;
}

void check_put(const Tensor& self, const Tensor& index, const Tensor& source) {
  TORCH_CHECK(
      index.scalar_type() == at::kLong,
      "put_(): Expected a long tensor for index, but got ",
      index.scalar_type());
  TORCH_CHECK(
      self.scalar_type() == source.scalar_type(),
      "put_(): self and source expected to have the same dtype, but got self.dtype = ",
      self.scalar_type(),
      " and source.dtype = ",
      source.scalar_type());
  TORCH_CHECK(
      self.device() == source.device() && self.device() == index.device(),
      "put_(): self, index and source expected to be in the same device, but got self.device = ",
      self.device(),
      ", index.device = ",
      index.device(),
      ", and source.device = ",
      source.device());
  TORCH_CHECK_INDEX(
      source.numel() == index.numel(),
      "put_(): Expected source and index to have the same number of elements, but got source.numel() = ",
      source.numel(),
      ", index.numel() = ",
      index.numel());
  TORCH_CHECK_INDEX(
      self.numel() != 0 || index.numel() == 0,
      "put_(): Tried to put elements into an empty tensor");
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
}

Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  if (!on_card(self) || !on_card(source)) {
    return fallback<Tensor&, Tensor&, const Tensor&, const Tensor&, bool>(
        put_name, self, index, source, accumulate);
  }
  check_put(self, index, source);
  if (index.numel() == 0) {
    return self;
  }
  const Tensor flat = self.contiguous();
  const Tensor at = index.reshape(source.sizes());
  IndexSpace space(
      accumulate ? OPENREG_INDEX_ADD : OPENREG_INDEX_PUT,
      Negative::WRAPS,
      source.sizes(),
      flat,
      at::DimVector(source.dim(), 0),
      source,
      at::DimVector(source.strides()));
  space.choose(at, at::DimVector(at.strides()), flat.numel(), 1);
  space.launch(put_name.id);
  if (!flat.is_same(self)) {
    self.copy_(flat);
  }
  return self;
}

void add_scatters(torch::Library& m) {
  add_op<at::meta::structured_scatter_src>(
      m,
      Names{"scatter.src", "scatter_.src", "scatter.src_out"},
      ScatterSource<OPENREG_INDEX_PUT>());
  add_op<at::meta::structured_scatter_value>(
      m,
      Names{"scatter.value", "scatter_.value", "scatter.value_out"},
      ScatterValue());
  add_op<at::meta::structured_scatter_reduce>(
      m,
      Names{"scatter.reduce", "scatter_.reduce", "scatter.reduce_out"},
      ScatterReduceOld());
  add_op<at::meta::structured_scatter_value_reduce>(
      m,
      Names{
          "scatter.value_reduce",
          "scatter_.value_reduce",
          "scatter.value_reduce_out"},
      ScatterReduceOld());
  add_op<at::meta::structured_scatter_add>(
      m,
      Names{"scatter_add", "scatter_add_", "scatter_add.out"},
      ScatterSource<OPENREG_INDEX_ADD>());
  add_op<at::meta::structured_scatter_reduce_two>(
      m,
      Names{
          "scatter_reduce.two", "scatter_reduce_.two", "scatter_reduce.two_out"},
      ScatterReduce());
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_gather>(
      m, NamesWithoutInplace{"gather", "gather.out"}, Gather());
  add_scatters(m);
  take_name.set("take");
  take_out_name.set("take.out");
  put_name.set("put_");
  m.impl("take", take);
  m.impl("take.out", take_out);
  m.impl("put_", put_);
}

} // namespace openreg
