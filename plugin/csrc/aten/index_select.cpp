// SPDX-License-Identifier: BSD-3-Clause
// Operators on whole slices, chosen by a vector of indices: index_select, index_add,
// index_copy, index_fill, index_reduce, and the gradient of embedding.
#include "aten/index.h"
#include "aten/scatter.h"
#include "aten/structured.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/zeros.h>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

OpName select_name, select_out_name, fill_scalar_name, fill_tensor_name,
    embedding_name;

void check_select(const Tensor& self, const Tensor& index, const Tensor& out) {
  TORCH_CHECK_INDEX(
      index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK_INDEX(
      self.dim() > 0 || index.numel() == 1,
      "index_select(): Index to scalar can have only 1 value, got ",
      index.numel(),
      " value(s)");
  TORCH_CHECK(
      index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
      "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(
      self.scalar_type() == out.scalar_type(),
      "index_select(): self and result must have the same scalar type");
  check_tensor_device(index, self.device());
  check_tensor_device(out, self.device());
}

at::DimVector selected_sizes(const Tensor& self, int64_t dim, const Tensor& index) {
  at::DimVector sizes(self.sizes());
  if (self.dim() > 0) {
    sizes[dim] = index.numel();
  }
  return sizes;
}

Tensor& index_select_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  if (!on_card(self) || !on_card(out)) {
    return fallback<Tensor&, const Tensor&, int64_t, const Tensor&, Tensor&>(
        select_out_name, self, dim, index, out);
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_select(self, index, out);
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  at::native::resize_output(out, selected_sizes(self, dim, index));
  index_slices(
      select_out_name.id, OPENREG_INDEX_GET, Negative::BAD, out, self, dim, index);
  return out;
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  if (!on_card(self)) {
    return fallback<Tensor, const Tensor&, int64_t, const Tensor&>(
        select_name, self, dim, index);
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_select(self, index, self);
  const Tensor out = at::empty(selected_sizes(self, dim, index), self.options());
  index_slices(
      select_name.id, OPENREG_INDEX_GET, Negative::BAD, out, self, dim, index);
  return out;
}

// Converts a number like a cast to the tensor's type.
Scalar cast_number(const Scalar& value, const Tensor& t) {
  if (c10::isIntegralType(t.scalar_type(), /*includeBool=*/true)) {
    return value.isFloatingPoint() ? Scalar(static_cast<int64_t>(value.toDouble()))
                                   : value;
  }
  return value;
}

struct IndexAdd {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& source,
      const Scalar& alpha) const {
    const Scalar factor = cast_number(alpha, source);
    const Tensor from = factor.equal(1)
        ? source
        : source.mul(factor).to(source.scalar_type());
    index_slices(
        id, OPENREG_INDEX_ADD, Negative::BAD, started(op, self), from, dim, index);
  }
};

struct IndexCopy {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& source) const {
    index_slices(
        id, OPENREG_INDEX_PUT, Negative::BAD, started(op, self), source, dim, index);
  }
};

// The sizes of the part of self that an index writes.
at::DimVector put_sizes(const Tensor& self, int64_t dim, const Tensor& index) {
  at::DimVector sizes(with_dim(self).sizes());
  sizes[at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()))] = index.numel();
  return sizes;
}

struct IndexReduce {
  static bool refuses(
      const Tensor& out,
      const Tensor&,
      int64_t,
      const Tensor&,
      const Tensor&,
      std::string_view reduce,
      bool include_self) {
    return out.dim() < 2 || reduce == "mean" || !include_self;
  }

  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& source,
      std::string_view reduce,
      bool include_self) const {
    const Tensor& out = started(op, self);
    const auto put = [&](uint8_t mode, const Tensor& to, const Tensor& from, Part part) {
      return index_slices(id, mode, Negative::BAD, to, from, dim, index, part);
    };
    combine(reduce, include_self, out, source, put_sizes(out, dim, index), put);
  }
};

void check_fill(const Tensor& self, const Tensor& index) {
  TORCH_CHECK_INDEX(
      index.scalar_type() == at::kLong,
      "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  check_tensor_device(index, self.device());
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_fill_ on expanded tensors is deprecated. "
        "Please clone() the tensor before performing this operation. "
        "This also applies to advanced indexing e.g. tensor[mask] = scalar");
  }
  at::assert_no_overlap(self, index);
}

void fill_slices(OpId id, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  index_slices(
      id,
      OPENREG_INDEX_PUT,
      Negative::WRAPS,
      self,
      value.expand(put_sizes(self, dim, index)),
      dim,
      index);
}

Tensor& index_fill_scalar_(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  if (!on_card(self)) {
    return fallback<Tensor&, Tensor&, int64_t, const Tensor&, const Scalar&>(
        fill_scalar_name, self, dim, index, value);
  }
  TORCH_CHECK(
      !value.isComplex(),
      "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  check_fill(self, index);
  fill_slices(
      fill_scalar_name.id, self, dim, index, broadcast_scalar(value, self, {}));
  return self;
}

Tensor& index_fill_tensor_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TORCH_CHECK(
      value.dim() == 0,
      "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
      value.dim(),
      " dimension(s).");
  if (!on_card(self) || !on_card(value)) {
    return fallback<Tensor&, Tensor&, int64_t, const Tensor&, const Tensor&>(
        fill_tensor_name, self, dim, index, value);
  }
  check_fill(self, index);
  Tensor from = value.to(self.options());
  if (from.is_alias_of(self)) {
    from = from.clone();
  }
  fill_slices(fill_tensor_name.id, self, dim, index, from);
  return self;
}

// For every index in rows, returns how often the index occurs.
Tensor frequencies(const Tensor& rows, int64_t num_weights, const Tensor& grad) {
  const Tensor count = at::zeros({num_weights}, grad.options());
  count.index_add_(0, rows, broadcast_scalar(1, count, rows.sizes()));
  return count.index_select(0, rows);
}

Tensor embedding_dense_backward(
    const Tensor& grad_output,
    const Tensor& indices,
    int64_t num_weights,
    int64_t padding_idx,
    bool scale_grad_by_freq) {
  if (!on_card(grad_output)) {
    return fallback<Tensor, const Tensor&, const Tensor&, int64_t, int64_t, bool>(
        embedding_name,
        grad_output,
        indices,
        num_weights,
        padding_idx,
        scale_grad_by_freq);
  }
  TORCH_CHECK(
      indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
      "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got ",
      indices.scalar_type(),
      " instead (while checking arguments for embedding_backward)");
  check_tensor_device(indices, grad_output.device());
  const Tensor rows = indices.reshape({-1});
  Tensor grad = grad_output.reshape({rows.numel(), grad_output.size(-1)});
  if (scale_grad_by_freq) {
    grad = grad.div(frequencies(rows, num_weights, grad).unsqueeze(1));
  }
  const Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
  index_slices(
      embedding_name.id, OPENREG_INDEX_ADD, Negative::BAD, out, grad, 0, rows);
  if (padding_idx >= 0 && padding_idx < num_weights) {
    out.select(0, padding_idx).zero_();
  }
  return out;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  select_name.set("index_select");
  select_out_name.set("index_select.out");
  fill_scalar_name.set("index_fill_.int_Scalar");
  fill_tensor_name.set("index_fill_.int_Tensor");
  embedding_name.set("embedding_dense_backward");
  m.impl("index_select", index_select);
  m.impl("index_select.out", index_select_out);
  m.impl("index_fill_.int_Scalar", index_fill_scalar_);
  m.impl("index_fill_.int_Tensor", index_fill_tensor_);
  m.impl("embedding_dense_backward", embedding_dense_backward);
  add_op<at::meta::structured_index_add>(
      m, Names{"index_add", "index_add_", "index_add.out"}, IndexAdd());
  add_op<at::meta::structured_index_copy>(
      m, Names{"index_copy", "index_copy_", "index_copy.out"}, IndexCopy());
  add_op<at::meta::structured_index_reduce>(
      m, Names{"index_reduce", "index_reduce_", "index_reduce.out"}, IndexReduce());
}

} // namespace openreg
