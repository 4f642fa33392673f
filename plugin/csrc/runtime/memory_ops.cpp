// SPDX-License-Identifier: BSD-3-Clause
// Operators that create, view and copy tensors and compute nothing.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "runtime/allocator.h"
#include "runtime/checks.h"
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/format.h"
#include "runtime/launch.h"
#include "runtime/memory_ops.h"

namespace openreg {

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  TORCH_CHECK(storage->resizable(), "trying to resize storage that is not resizable");
  if (C10_UNLIKELY(is_packed(*storage)) && make_plain(storage))
    count_conversion("aten::resize_");
  const c10::DeviceIndex index = storage->device().index();
  c10::DataPtr fresh = allocate(bytes, index);
  const c10::DataPtr& old = storage->data_ptr();
  const size_t kept = std::min(bytes, storage->nbytes());
  if (old && kept) {
    allow_unwritten(*storage);
    copy_device_bytes(fresh.get(), old.get(), kept, index);
  }
  if (old && fresh)
    move_between_blocks(old.get(), fresh.get(), index);
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->clear_materializer(); // only the old memory could be copy-on-write
  storage->set_nbytes(bytes);
}

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  return device ? openreg::index_of(*device) : current_device();
}

void check_options(
    std::optional<c10::Layout> layout,
    std::optional<bool> pin_memory) {
  TORCH_CHECK(
      c10::layout_or_default(layout) == c10::Layout::Strided,
      "openreg tensors are dense; create sparse tensors on the CPU");
  TORCH_CHECK(
      !c10::pinned_memory_or_default(pin_memory),
      "only tensors of the CPU can be pinned");
}

// Deterministic mode fills new memory with NaN or the greatest number, so that a program
// that reads uninitialized memory gets the same values in every run.
bool fills_new_memory() {
  const at::Context& context = at::globalContext();
  return C10_UNLIKELY(
      context.deterministicAlgorithms() &&
      context.deterministicFillUninitializedMemory());
}

at::Tensor filled_if_asked(at::Tensor fresh) {
  if (fills_new_memory())
    at::native::fill_empty_deterministic_(fresh);
  return fresh;
}

at::Tensor empty_memory_format(
    c10::IntArrayRef size,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout> layout,
    std::optional<c10::Device> device,
    std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  const DeviceScope scope(index_of(device));
  check_index(current_device());
  return filled_if_asked(at::detail::empty_generic(
      size,
      &device_allocator(),
      kKeys,
      c10::dtype_or_default(dtype),
      memory_format));
}

at::Tensor empty_strided(
    c10::IntArrayRef size,
    c10::IntArrayRef stride,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout> layout,
    std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const DeviceScope scope(index_of(device));
  check_index(current_device());
  return filled_if_asked(at::detail::empty_strided_generic(
      size, stride, &device_allocator(), kKeys, c10::dtype_or_default(dtype)));
}

} // namespace

at::Tensor empty(
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    const at::TensorOptions& o) {
  const auto type = c10::optTypeMetaToScalarType(o.dtype_opt());
  return strides.empty()
      ? empty_memory_format(
            sizes,
            type,
            o.layout_opt(),
            o.device_opt(),
            o.pinned_memory_opt(),
            o.memory_format_opt())
      : empty_strided(
            sizes, strides, type, o.layout_opt(), o.device_opt(), o.pinned_memory_opt());
}

namespace {

// A tensor of zeros without memory. Autograd uses such tensors to save memory.
at::Tensor efficient_zero_tensor(
    c10::IntArrayRef size,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout>,
    std::optional<c10::Device> device,
    std::optional<bool>) {
  at::native::ZeroTensorAllocator allocator(torch_device(index_of(device)));
  return at::detail::empty_generic(
      size,
      &allocator,
      kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
      c10::dtype_or_default(dtype),
      std::nullopt);
}

void fit_storage(c10::TensorImpl* self) {
  if (self->numel() == 0)
    return;
  const size_t bytes = at::detail::computeStorageNbytes(
      self->sizes(),
      self->strides(),
      self->dtype().itemsize(),
      self->storage_offset());
  c10::StorageImpl* storage = self->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes())
    resize_storage(storage, bytes);
}

const at::Tensor& resize_(
    const at::Tensor& self,
    c10::IntArrayRef size,
    std::optional<c10::MemoryFormat> memory_format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    const at::Storage& storage = impl->unsafe_storage();
    const size_t before = storage ? storage.nbytes() : 0;
    impl->set_sizes_contiguous(size);
    fit_storage(impl);
    if (fills_new_memory())
      at::native::fill_resize_deterministic_(
          self, static_cast<int64_t>(before));
  }
  if (memory_format) {
    TORCH_CHECK(
        *memory_format != c10::MemoryFormat::Preserve,
        "resize_() does not know what to preserve");
    impl->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage(
    at::Tensor& self,
    at::Storage storage,
    int64_t offset,
    c10::IntArrayRef size,
    c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(storage), offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data())
    impl->set_sizes_and_strides(size, stride);
  else
    impl->set_sizes_contiguous(size);
  fit_storage(impl);
  update_format_key(self);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) {
  const auto size =
      static_cast<int64_t>(storage.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(storage), 0, {size}, {});
}

at::Tensor& set_nothing(at::Tensor& self) {
  const c10::DeviceIndex index = self.device().index();
  at::Storage storage(
      c10::Storage::use_byte_size_t(),
      0,
      allocate(0, index),
      &device_allocator(),
      true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

at::Tensor copy_from(
    const at::Tensor& self,
    const at::Tensor& dst,
    bool non_blocking) {
  copy_tensor(dst, self, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes())
    dst.resize_(self.sizes());
  copy_tensor(dst, self, false);
  return dst;
}

template <typename T>
c10::Scalar read_scalar(const at::Tensor& self) {
  T value;
  read_device_bytes(
      &value, self.const_data_ptr(), sizeof(T), self.get_device());
  return c10::Scalar(value);
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  switch (self.scalar_type()) {
#define OPENREG_CASE(type, name) \
  case c10::ScalarType::name:    \
    return read_scalar<type>(self);
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_EXCEPT_COMPLEX_HALF_F8NZ(OPENREG_CASE)
#undef OPENREG_CASE
    default:
      return self.cpu().item();
  }
}

// Whether x.data = y can keep the tensor object x. If not, Module.to() creates a new
// parameter, and tied weights would become separate.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.is_cpu() || t.is_privateuseone());
  };
  return self.key_set() == from.key_set() || (plain(self) && plain(from));
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty_memory_format);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zero_tensor);
  m.impl("resize_", &resize_);
  m.impl("set_", &set_nothing);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("view", &at::native::view);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("unfold", &at::native::unfold);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  m.impl("record_stream", &record_stream);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
}

// copy_tensor() handles the conjugate and negative bits. Core's fallback does not work, for
// two reasons:
//  - It resolves the bits with a clone, which calls _copy_from again, without end.
//  - These schemas do not mark dst as written, so core would discard the clone's result.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

} // namespace openreg
