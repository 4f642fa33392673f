// SPDX-License-Identifier: MIT
// Lab 10: the operator lab10::soft_clip(x, limit), which is x / (1 + |x| / limit).
#include "backend.hpp"

#include <algorithm>
#include <vector>

using namespace openreg;

namespace {

// In the packet's order: the innermost dimension last.
std::vector<int64_t> turned(c10::IntArrayRef from, int64_t unit) {
  std::vector<int64_t> to(from.rbegin(), from.rend());
  for (int64_t& value : to) {
    value /= unit;
  }
  return to;
}

at::Tensor soft_clip(const at::Tensor& x, const at::Tensor& limit) {
  static const OpId op = op_id("lab10::soft_clip");
  const c10::DeviceGuard guard(x.device()); // the result's card
  at::Tensor result;
  auto iter = at::TensorIteratorConfig()
                  .add_output(result)
                  .add_const_input(x)
                  .add_const_input(limit)
                  .promote_inputs_to_common_dtype(true)
                  .promote_integer_inputs_to_float(true)
                  .build();
  if (iter.numel() == 0) {
    return iter.output();
  }
  TORCH_CHECK(iter.ndim() <= OPENREG_DIMS_MAX, "soft_clip takes 8 dimensions at most");

  Program program(vector_type(iter.common_dtype()));
  const Value a = program.load(1, program.type());
  const Value b = program.load(2, program.type());
  program.store(0, a / (abs(a) / b + 1.0));

  Packet packet(OPENREG_OP_VECTOR, op);
  packet.space(turned(iter.shape(), 1));
  for (int i = 0; i < iter.ntensors(); i++) {
    const auto strides = turned(iter.strides(i), iter.element_size(i));
    packet.operand(iter.data_ptr(i), card_dtype(iter.dtype(i)), strides.data());
  }
  program.put(packet);
  launch(packet, x.device().index());
  return iter.output();
}

} // namespace

TORCH_LIBRARY(lab10, m) {
  m.def("soft_clip(Tensor x, Tensor limit) -> Tensor");
}
TORCH_LIBRARY_IMPL(lab10, PrivateUse1, m) {
  m.impl("soft_clip", &soft_clip);
}
