// SPDX-License-Identifier: BSD-3-Clause
// Assertions about tensors. The caller waits for the value, because a fault of the stream
// could not name the assertion that failed.
#include <ATen/ops/is_nonzero.h>
#include <torch/library.h>

namespace openreg {

namespace {

void assert_nonzero(const at::Tensor& self) {
  TORCH_CHECK(
      at::is_nonzero(self),
      "Expected Tensor with single nonzero value, but got zero");
}

void assert_nonzero_message(const at::Tensor& self, std::string_view message) {
  TORCH_CHECK(
      at::is_nonzero(self), message.empty() ? "Assertion is failed" : message);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_assert_async", assert_nonzero);
  m.impl("_assert_async.msg", assert_nonzero_message);
}

} // namespace openreg
