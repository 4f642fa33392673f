// SPDX-License-Identifier: BSD-3-Clause
#include "aten/convention.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>

namespace openreg {

void OpName::set(const char* registered_name) {
  TORCH_INTERNAL_ASSERT(
      qualified.empty(), registered_name, " has the name of ", qualified);
  qualified = std::string(registered_name);
  if (qualified.find("::") == std::string::npos) {
    qualified.insert(0, "aten::");
  }
  const auto dot = qualified.find('.');
  name = qualified.substr(0, dot);
  overload = dot == std::string::npos ? "" : qualified.substr(dot + 1);
  id = op_id(qualified.c_str());
  refused = refused_types(*this);
  takes_float8 = openreg::takes_float8(*this);
}

c10::OperatorHandle OpName::handle() const {
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      name.c_str(), overload.c_str());
}

void check_tensor_device(const at::Tensor& t, c10::Device device) {
  TORCH_CHECK(
      !t.defined() || t.device() == device,
      "Expected all tensors to be on the same device, but found at least two devices, ",
      device,
      " and ",
      t.device(),
      "!");
}

void check_inplace(
    const at::Tensor& self,
    at::IntArrayRef sizes,
    const at::TensorOptions& options) {
  TORCH_CHECK(
      options.dtype() == self.dtype(),
      "Bad in-place call: input tensor dtype ",
      self.dtype(),
      " and output tensor dtype ",
      options.dtype(),
      " should match");
  TORCH_CHECK(
      options.device() == self.device(),
      "Bad in-place call: input tensor device ",
      self.device(),
      " and output tensor device ",
      options.device(),
      " should match");
  TORCH_CHECK(
      sizes == self.sizes(),
      "Bad in-place call: input tensor size ",
      self.sizes(),
      " and output tensor size ",
      sizes,
      " should match");
  at::assert_no_internal_overlap(self);
}

void resize_out(
    const at::Tensor& out,
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    const at::TensorOptions& options) {
  TORCH_CHECK(
      options.dtype() == out.dtype(),
      "Expected out tensor to have dtype ",
      options.dtype(),
      ", but got ",
      out.dtype(),
      " instead");
  TORCH_CHECK(
      options.device() == out.device(),
      "Expected out tensor to have device ",
      options.device(),
      ", but got ",
      out.device(),
      " instead");
  if (!at::native::resize_output(out, sizes)) {
    at::assert_no_internal_overlap(out);
    return;
  }
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(
        *options.memory_format_opt());
  }
}

} // namespace openreg
