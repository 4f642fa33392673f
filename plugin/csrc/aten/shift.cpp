// SPDX-License-Identifier: BSD-3-Clause
// a << b and a >> b of Python. They are operators of their own in core, with the results of
// bitwise_left_shift and bitwise_right_shift.
#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

// As in core: the number takes part in type promotion as a number.
Tensor wrapped(const Scalar& s) {
  return at::native::wrapped_scalar_tensor(s);
}

Tensor left(const Tensor& self, const Tensor& other) {
  return self.bitwise_left_shift(other);
}
Tensor right(const Tensor& self, const Tensor& other) {
  return self.bitwise_right_shift(other);
}
Tensor left_by(const Tensor& self, const Scalar& other) {
  return self.bitwise_left_shift(wrapped(other));
}
Tensor right_by(const Tensor& self, const Scalar& other) {
  return self.bitwise_right_shift(wrapped(other));
}
Tensor& left_(Tensor& self, const Tensor& other) {
  return self.bitwise_left_shift_(other);
}
Tensor& right_(Tensor& self, const Tensor& other) {
  return self.bitwise_right_shift_(other);
}
Tensor& left_by_(Tensor& self, const Scalar& other) {
  return self.bitwise_left_shift_(wrapped(other));
}
Tensor& right_by_(Tensor& self, const Scalar& other) {
  return self.bitwise_right_shift_(wrapped(other));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("__lshift__.Tensor", left);
  m.impl("__lshift__.Scalar", left_by);
  m.impl("__ilshift__.Tensor", left_);
  m.impl("__ilshift__.Scalar", left_by_);
  m.impl("__rshift__.Tensor", right);
  m.impl("__rshift__.Scalar", right_by);
  m.impl("__irshift__.Tensor", right_);
  m.impl("__irshift__.Scalar", right_by_);
}

} // namespace openreg
