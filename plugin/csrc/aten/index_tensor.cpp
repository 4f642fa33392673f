// SPDX-License-Identifier: BSD-3-Clause
// x[i, :, j] and x[i, :, j] = y, with several index tensors that broadcast together.
#include "aten/index.h"
#include "aten/structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_meta.h>

#include <algorithm>

namespace openreg {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

template <>
struct Convention<at::IOptTensorListRef> {
  using type = const Indices&;
};
template <>
struct Convention<const Indices&> {
  using type = const Indices&;
  static at::IOptTensorListRef to_meta(const Indices& indices) {
    return indices;
  }
};

namespace {

OpName put_name;

// Core's shape function; it also keeps extent and step of each index.
struct index_meta : at::meta::structured_index_Tensor {
  void meta(const Tensor& self, at::IOptTensorListRef indices) {
    const auto found = at::meta::structured_index_Tensor::meta(self, indices);
    extents = found.sizes;
    steps = found.strides; // bytes
  }
  at::DimVector extents, steps;
};

// Converts strides of a TensorIterator, which are in bytes and begin with the innermost
// dimension.
at::DimVector strides_of(const at::TensorIteratorBase& iter, int operand) {
  const auto bytes = iter.strides(operand);
  const auto size = static_cast<int64_t>(iter.element_size(operand));
  at::DimVector strides(bytes.size());
  for (size_t d = 0; d < bytes.size(); d++) {
    strides[d] = bytes[bytes.size() - 1 - d] / size;
  }
  return strides;
}

struct IndexGet {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, const Indices&) const {
    std::vector<int64_t> sizes(op.ndim());
    std::reverse_copy(op.shape().begin(), op.shape().end(), sizes.begin());
    IndexSpace space(
        OPENREG_INDEX_GET,
        Negative::WRAPS,
        sizes,
        op.tensor(0),
        strides_of(op, 0),
        op.tensor(1),
        strides_of(op, 1));
    const auto esize = static_cast<int64_t>(self.element_size());
    for (int i = 2; i < op.ntensors(); i++) {
      space.choose(
          op.tensor(i), strides_of(op, i), op.extents[i - 2], op.steps[i - 2] / esize);
    }
    space.launch(id);
  }
};

// The destination of index_put_. The indexed dimensions are adjacent. sizes has the
// dimensions of the indices in their place.
struct Places {
  Places(Tensor self, std::vector<Tensor> indices);
  void launch(OpId id, uint8_t mode, const Tensor& value) const;

  Tensor self;
  std::vector<Tensor> index; // one for each indexed dimension
  int64_t before = 0; // the number of dimensions before the indexed ones
  at::DimVector sizes;
};

Places::Places(Tensor of, std::vector<Tensor> indices) : self(std::move(of)) {
  indices.resize(self.dim());
  if (!at::native::hasContiguousSubspace(indices)) {
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  }
  for (const Tensor& i : indices) {
    if (i.defined()) {
      index.push_back(i);
    } else if (index.empty()) {
      before++;
    }
  }
  const auto of_self = self.sizes();
  sizes.append(of_self.begin(), of_self.begin() + before);
  if (!index.empty()) {
    sizes.append(index[0].sizes().begin(), index[0].sizes().end());
  }
  sizes.append(of_self.begin() + before + index.size(), of_self.end());
}

void Places::launch(OpId id, uint8_t mode, const Tensor& value) const {
  const auto of_self = self.strides();
  const int64_t broadcast = index.empty() ? 0 : index[0].dim();
  at::DimVector strides(of_self.begin(), of_self.begin() + before);
  strides.append(broadcast, 0);
  strides.append(of_self.begin() + before + index.size(), of_self.end());
  const Tensor from = value.expand(sizes);
  IndexSpace space(
      mode,
      Negative::WRAPS,
      sizes,
      self,
      std::move(strides),
      from,
      at::DimVector(from.strides()));
  for (size_t k = 0; k < index.size(); k++) {
    at::DimVector along(sizes.size(), 0);
    for (int64_t d = 0; d < broadcast; d++) {
      along[before + d] = index[k].stride(d);
    }
    const int64_t dim = before + static_cast<int64_t>(k);
    space.choose(index[k], std::move(along), self.size(dim), self.stride(dim));
  }
  space.launch(id);
}

void warn_of_overlap(const Tensor& self) {
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_put_ on expanded tensors is deprecated. "
        "Please clone() the tensor before performing this operation. "
        "This also applies to advanced indexing e.g. tensor[indices] = tensor");
  }
}

void check_put(const Tensor& self, const Indices& indices, const Tensor& value) {
  warn_of_overlap(self);
  at::assert_no_overlap(self, value);
  for (const std::optional<Tensor>& index : indices) {
    if (index.has_value() && index->defined()) {
      at::assert_no_overlap(self, *index);
    }
  }
}

Places find_places(const Tensor& self, const Indices& indices) {
  at::native::checkIndexTensorTypes(indices, /*allow_int=*/true);
  auto expanded =
      at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(
      static_cast<int64_t>(expanded.size()) <= self.dim(),
      "too many indices for tensor of dimension ",
      self.dim(),
      " (got ",
      expanded.size(),
      ")");
  std::vector<Tensor> together;
  try {
    together = at::expand_outplace(expanded);
  } catch (const std::exception&) {
    TORCH_CHECK_INDEX(
        false,
        "shape mismatch: indexing tensors could not be broadcast together with shapes ",
        at::native::shapes_as_str(expanded));
  }
  return Places(self, std::move(together));
}

bool is_number(const Tensor& self, const Tensor& value) {
  return value.numel() == 1 &&
      (value.is_cpu() || value.scalar_type() == self.scalar_type());
}

Tensor& index_put_(
    Tensor& self,
    const Indices& indices,
    const Tensor& value,
    bool accumulate,
    bool unsafe) {
  TORCH_CHECK_INDEX(
      indices.size() <= static_cast<size_t>(self.dim()),
      "too many indices for tensor of dimension ",
      self.dim(),
      " (got ",
      indices.size(),
      ")");
  if (on_card<true>(self) && !accumulate && is_number(self, value)) {
    // Core needs a number on the CPU here. The card also accepts a number on the card.
    const Tensor number = value.is_cpu() ? value : at::empty({1}, at::kFloat);
    auto [masked, mask] =
        at::native::canDispatchToMaskedFill(self, indices, number);
    if (masked) {
      warn_of_overlap(self);
      return value.is_cpu() ? self.masked_fill_(mask, value.item())
                            : self.masked_fill_(mask, value.reshape({}));
    }
  }
  if (!on_card(self)) {
    return fallback<Tensor&, Tensor&, const Indices&, const Tensor&, bool, bool>(
        put_name, self, indices, value, accumulate, unsafe);
  }
  check_put(self, indices, value);
  const Places places = find_places(self, indices);
  TORCH_CHECK(
      at::is_expandable_to(value.sizes(), places.sizes),
      "shape mismatch: value tensor of shape ",
      value.sizes(),
      " cannot be broadcast to indexing result of shape ",
      at::IntArrayRef(places.sizes));
  TORCH_CHECK(
      value.scalar_type() == self.scalar_type(),
      "Index put requires the source and destination dtypes match, got ",
      self.scalar_type(),
      " for the destination and ",
      value.scalar_type(),
      " for the source.");
  const bool number = value.device() != self.device() && value.dim() == 0;
  const Tensor from = number ? value.to(self.device()) : value;
  check_tensor_device(from, self.device());
  if (places.index.empty()) {
    accumulate ? self.add_(from) : self.copy_(from);
    return self;
  }
  places.launch(
      put_name.id, accumulate ? OPENREG_INDEX_ADD : OPENREG_INDEX_PUT, from);
  return self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<index_meta>(
      m, NamesWithoutInplace{"index.Tensor", "index.Tensor_out"}, IndexGet());
  put_name.set("_index_put_impl_");
  m.impl("_index_put_impl_", index_put_);
}

} // namespace openreg
