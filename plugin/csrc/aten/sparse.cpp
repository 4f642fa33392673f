// SPDX-License-Identifier: BSD-3-Clause
// Sparse tensors. Their indices and values are dense tensors on the card. Operators that
// create, read or copy sparse tensors, and sums and products with a dense tensor, run on
// the card. All other operators run on the CPU.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/DispatchStub.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/sparse.h"
#include "runtime/device.h"
#include "runtime/fallback.h"

// Declare the stub here: core installs no header with it.
namespace at::native {
using flatten_indices_fn = Tensor (*)(const Tensor&, IntArrayRef);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)
} // namespace at::native

namespace openreg {
namespace {

using at::Scalar;
using at::Tensor;

OpName add_name, mask_name;

c10::List<std::optional<Tensor>> places_of(const Tensor& sparse) {
  c10::List<std::optional<Tensor>> places;
  for (const Tensor& row : sparse._indices().unbind(0))
    places.push_back(row);
  return places;
}

// Whether a sparse tensor's indices can index a dense tensor on the same card.
bool indexes(const Tensor& sparse, const Tensor& dense) {
  return dense.layout() == at::kStrided && sparse.layout() == at::kSparse &&
      dense.device() == sparse.device() && dense.sizes() == sparse.sizes() &&
      type_on_card(dense.scalar_type()) && sparse.sparse_dim() > 0;
}

Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  const c10::ScalarType type = self.scalar_type();
  if (!indexes(other, self) || other.scalar_type() != type ||
      type == c10::ScalarType::Bool || !c10::canCast(alpha.type(), type))
    return fallback<Tensor&, Tensor&, const Tensor&, const Scalar&>(
        add_name, self, other, alpha);
  const Tensor values = other._values();
  if (values.numel() == 0)
    return self;
  return self.index_put_(
      places_of(other), alpha.equal(1) ? values : values.mul(alpha), true);
}

Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  if (!indexes(mask, self))
    return fallback<Tensor, const Tensor&, const Tensor&>(mask_name, self, mask);
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      mask.sparse_dim(), mask.dense_dim(), mask.sizes(),
      mask._indices().clone(), self.index(places_of(mask)),
      self.options().layout(at::kSparse), mask.is_coalesced());
}

// Returns the row-major place of each column of indices.
Tensor flatten_indices(const Tensor& indices, at::IntArrayRef size) {
  Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t d = 0; d < indices.size(0); d++)
    flat.mul_(size[d]).add_(indices.select(0, d));
  return flat;
}

// Calls core's kernel with the tensors' device as the current device: core's sparse
// kernels allocate on the current device.
template <auto F>
struct OnItsDevice;
template <class Result, class... Args, Result (*F)(Args...)>
struct OnItsDevice<F> {
  static Result call(Args... args) {
    std::optional<c10::Device> device;
    (note(device, args), ...);
    const c10::OptionalDeviceGuard guard(device);
    return F(std::forward<Args>(args)...);
  }

 private:
  template <class T>
  static void note(std::optional<c10::Device>& device, const T& value) {
    if constexpr (std::is_same_v<T, Tensor>) {
      if (!device && value.is_privateuseone())
        device = value.device();
    } else if constexpr (std::is_same_v<T, std::optional<c10::Device>>) {
      if (value.has_value() && value->type() == kDeviceType)
        device = value;
    }
  }
};

template <auto F>
void native(torch::Library& m, const char* name) {
  m.impl(name, &OnItsDevice<F>::call);
}

// Registers the fallback for every other operator that core has for sparse tensors of the
// CPU. A fallback for the whole dispatch key does not work, for two reasons:
//  - Core's composite kernels would run first, and treat sparse tensors as dense ones.
//  - An operator that the CPU lacks too must fail with its own name.
void fall_back(torch::Library& m, c10::DispatchKey card, c10::DispatchKey cpu) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(cpu)) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() != "aten" || !op || op->hasKernelForDispatchKey(card))
      continue;
    m.impl(
        c10::toString(name).c_str(),
        torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  }
}

} // namespace

// Operators that map 0 to 0 run on the values only.
#define OPENREG_FOR_ZERO_TO_ZERO(F)                                           \
  F(abs) F(asin) F(asinh) F(atan) F(atanh) F(ceil) F(deg2rad) F(erf) F(erfinv) \
  F(expm1) F(floor) F(frac) F(log1p) F(rad2deg) F(round) F(sgn) F(sign) F(sin) \
  F(sinh) F(sqrt) F(tan) F(tanh) F(trunc)
#define OPENREG_REGISTER(name, kind)                \
  native<&core::name##_##kind>(m, #name);           \
  native<&core::name##_##kind##_>(m, #name "_");    \
  native<&core::name##_##kind##_out>(m, #name ".out");

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  namespace core = at::native;
#define OPENREG_COORDINATES(name) OPENREG_REGISTER(name, sparse)
  OPENREG_FOR_ZERO_TO_ZERO(OPENREG_COORDINATES)
  native<&core::neg_sparse>(m, "neg");
  native<&core::neg_sparse_>(m, "neg_");
  native<&core::neg_out_sparse>(m, "neg.out");
  native<&core::isnan_sparse>(m, "isnan");
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  namespace core = at::native;
#define OPENREG_COMPRESSED(name) OPENREG_REGISTER(name, sparse_csr)
  OPENREG_FOR_ZERO_TO_ZERO(OPENREG_COMPRESSED)
  OPENREG_COMPRESSED(neg)
  native<&core::isnan_sparse_csr>(m, "isnan");
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  namespace core = at::native;
  native<&core::new_with_dims_sparse>(m, "_sparse_coo_tensor_with_dims");
  native<&core::new_with_dims_and_tensor_sparse_symint>(
      m, "_sparse_coo_tensor_with_dims_and_tensors");
  native<&core::empty_sparse>(m, "empty.memory_format");
  native<&core::empty_like_sparse_coo>(m, "empty_like");
  native<&core::sparse_dim_sparse>(m, "sparse_dim");
  native<&core::sparse_dim_sparse>(m, "_dimI");
  native<&core::dense_dim_sparse>(m, "dense_dim");
  native<&core::dense_dim_sparse>(m, "_dimV");
  native<&core::_nnz_sparse>(m, "_nnz");
  native<&core::is_coalesced_sparse>(m, "is_coalesced");
  native<&core::_coalesced_sparse_>(m, "_coalesced_");
  native<&core::_indices_sparse>(m, "_indices");
  native<&core::_values_sparse>(m, "_values");
  native<&core::indices_sparse>(m, "indices");
  native<&core::values_sparse>(m, "values");
  native<&core::sparse_resize_>(m, "sparse_resize_");
  native<&core::sparse_resize_and_clear_>(m, "sparse_resize_and_clear_");
  native<&core::resize_as_sparse_>(m, "resize_as_sparse_");
  native<&core::clone_sparse>(m, "clone");
  native<&core::copy_sparse_wrapper_>(m, "copy_");
  native<&core::copy_sparse_>(m, "copy_sparse_to_sparse_");
  native<&core::zero_sparse_>(m, "zero_");
  native<&core::zeros_sparse_out>(m, "zeros.out");
  native<&core::is_pinned_sparse_coo>(m, "is_pinned");
  native<&core::_pin_memory_sparse_coo>(m, "_pin_memory");
  // The results of these operators share memory with their arguments.
  native<&core::permute_sparse_coo>(m, "permute");
  native<&core::unsqueeze_sparse>(m, "unsqueeze");
  native<&core::sparse_broadcast_to>(m, "_sparse_broadcast_to");
  native<&core::view_as_real_sparse>(m, "view_as_real");
  native<&core::view_as_complex_sparse>(m, "view_as_complex");
  native<&core::sparse_to_dense>(m, "_to_dense");
  add_name.set("add_.Tensor");
  native<&add_>(m, "add_.Tensor");
  mask_name.set("sparse_mask");
  native<&sparse_mask>(m, "sparse_mask");
  add_sparse_products(m, true);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  namespace core = at::native;
  native<&core::empty_sparse_compressed>(m, "empty.memory_format");
  native<&core::empty_like_sparse_csr>(m, "empty_like");
  native<&core::sparse_dim_sparse_csr>(m, "sparse_dim");
  native<&core::dense_dim_sparse_csr>(m, "dense_dim");
  native<&core::_nnz_sparse_csr>(m, "_nnz");
  native<&core::values_sparse_csr>(m, "values");
  native<&core::crow_indices_sparse_csr>(m, "crow_indices");
  native<&core::col_indices_sparse_csr>(m, "col_indices");
  native<&core::ccol_indices_sparse_csr>(m, "ccol_indices");
  native<&core::row_indices_sparse_csr>(m, "row_indices");
  native<&core::resize_sparse_csr_>(m, "resize_");
  native<&core::resize_as_sparse_compressed_>(m, "resize_as_sparse_");
  native<&core::clone_sparse_compressed>(m, "clone");
  native<&core::copy_sparse_compressed_>(m, "copy_");
  native<&core::zero_sparse_csr_>(m, "zero_");
  native<&core::is_pinned_sparse_compressed>(m, "is_pinned");
  native<&core::_pin_memory_sparse_compressed>(m, "_pin_memory");
  native<&core::select_sparse_csr>(m, "select.int");
  native<&core::select_copy_sparse_csr>(m, "select_copy.int");
  add_sparse_products(m, false);
  add_sampled_products(m);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  constexpr Tensor (*with_dim)(const Tensor&, int64_t) =
      &at::native::dense_to_sparse;
  constexpr Tensor (*with_layout)(
      const Tensor&,
      std::optional<c10::Layout>,
      at::OptionalIntArrayRef,
      std::optional<int64_t>) = &at::native::dense_to_sparse;
  native<with_dim>(m, "_to_sparse.sparse_dim");
  native<with_layout>(m, "_to_sparse");
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  fall_back(m, c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  fall_back(
      m, c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::SparseCsrCPU);
}

} // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &openreg::flatten_indices)
} // namespace at::native
