// SPDX-License-Identifier: BSD-3-Clause
#include "aten/reduction.h"

#include <ATen/WrapDimUtilsMulti.h>

#include <algorithm>

namespace openreg {

Space::Mask mask_of(at::OptionalIntArrayRef dims, int64_t ndim) {
  constexpr auto most = static_cast<int64_t>(at::dim_bitset_size);
  Space::Mask mask;
  if (!dims.has_value() || dims->empty()) {
    for (int64_t i = 0; i < std::min(ndim, most); i++) {
      mask.set(i);
    }
    return mask;
  }
  TORCH_CHECK(ndim <= most, "only tensors with up to ", most, " dims are supported");
  for (int64_t dim : *dims) {
    const int64_t d = c10::maybe_wrap_dim(dim, ndim);
    TORCH_CHECK(!mask[d], "dim ", d, " appears multiple times in the list of dims");
    mask.set(d);
  }
  return mask;
}

int64_t reduced_numel(const at::Tensor& self, Space::Mask dims) {
  int64_t n = 1;
  for (int64_t i = 0; i < self.dim(); i++) {
    n *= is_in(dims, i) ? self.size(i) : 1;
  }
  return n;
}

at::DimVector kept_sizes(const at::Tensor& self, Space::Mask dims) {
  at::DimVector sizes(self.sizes());
  for (int64_t i = 0; i < self.dim(); i++) {
    if (is_in(dims, i)) {
      sizes[i] = 1;
    }
  }
  return sizes;
}

namespace {

// Returns the strides of a result over the input's dimensions, with or without keepdim.
at::DimVector
result_strides(const at::Tensor& out, int64_t ndim, Space::Mask dims) {
  at::DimVector strides(ndim, 0);
  const bool keepdim = out.dim() == ndim;
  int64_t next = 0;
  for (int64_t i = 0; i < ndim; i++) {
    if (!dims[i]) {
      strides[i] = out.stride(keepdim ? i : next++);
    }
  }
  return strides;
}

// Copies t to dense memory with the reduced dimensions last. All dimensions then merge
// into two, so that a packet can hold them.
at::Tensor dense(const at::Tensor& t, const at::Tensor& like, Space::Mask dims) {
  at::DimVector order;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t i = 0; i < like.dim(); i++) {
      if (dims[i] == (pass == 1)) {
        order.push_back(i);
      }
    }
  }
  at::DimVector back(order.size());
  for (size_t i = 0; i < order.size(); i++) {
    back[order[i]] = static_cast<int64_t>(i);
  }
  return t.expand(like.sizes()).permute(order).contiguous().permute(back);
}

Space make_space(const ReduceTo& to, at::ArrayRef<at::Tensor> inputs) {
  const at::Tensor& full = inputs[0];
  const int64_t ndim = full.dim();
  Space space(full.sizes(), full.get_device());
  for (const at::Tensor& out : {to.value, to.index}) {
    if (out.defined()) {
      out.mutable_data_ptr(); // a copy-on-write tensor gets memory of its own
      space.add(out, result_strides(out, ndim, to.dims));
    }
  }
  const auto first = static_cast<uint8_t>(space.operands().size());
  for (const at::Tensor& t : inputs) {
    space.add(t);
  }
  if (ndim == 0 || to.dims.none()) { // each result folds a single element
    space.add_unit();
    space.reduce(Space::Mask(1) << ndim);
  } else {
    space.reduce(to.dims);
  }
  if (!to.index.defined()) {
    space.sort_by_stride(first);
  }
  space.coalesce();
  return space;
}

} // namespace

Space reduction_space(const ReduceTo& to, at::ArrayRef<at::Tensor> inputs) {
  if (inputs[0].dim() > static_cast<int64_t>(at::dim_bitset_size)) { // reduces all
    ReduceTo flat_to = to;
    flat_to.dims = Space::Mask(1);
    std::vector<at::Tensor> flat;
    for (const at::Tensor& t : inputs) {
      flat.push_back(t.reshape({-1}));
    }
    return make_space(flat_to, flat);
  }
  Space space = make_space(to, inputs);
  if (space.ndim() <= OPENREG_DIMS_MAX) {
    return space;
  }
  std::vector<at::Tensor> packed;
  for (const at::Tensor& t : inputs) {
    packed.push_back(dense(t, inputs[0], to.dims));
  }
  return make_space(to, packed);
}

} // namespace openreg
