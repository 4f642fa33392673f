// SPDX-License-Identifier: MIT
// Lab 8: the operators lab8::roll and lab8::average, on tensors of the card.
#include "backend.hpp"

using namespace openreg;

namespace {

constexpr uint8_t kAverage = 63; // LAB8_V_AVERAGE

at::Tensor roll(const at::Tensor& x, int64_t shift) {
  static const OpId op = op_id("lab8::roll");
  const auto source = x.contiguous();
  const auto result = at::empty_like(source);
  if (source.numel() == 0) {
    return result;
  }
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const int64_t strides[] = {n, 1};
  const uint8_t dtype = memory_dtype(x.scalar_type());
  TORCH_CHECK(dtype != 0, "roll takes no ", x.scalar_type());
  Packet packet(OPENREG_OP_EXPERIMENT, op);
  packet.space({rows, n});
  packet.operand(result.mutable_data_ptr(), dtype, strides);
  packet.operand(source.const_data_ptr(), dtype, strides);
  packet.imm((shift % n + n) % n);
  launch(packet, x.device().index());
  return result;
}

at::Tensor average(const at::Tensor& a, const at::Tensor& b) {
  static const OpId op = op_id("lab8::average");
  TORCH_CHECK(a.sizes() == b.sizes(), "average takes tensors of one shape");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "average takes tensors of one type");
  const auto x = a.contiguous(), y = b.contiguous();
  const auto result = at::empty_like(x);
  const int64_t stride = 1;
  const uint8_t dtype = card_dtype(x.scalar_type());
  Program program(vector_type(x.scalar_type()));
  const Value u = program.load(1, program.type()), v = program.load(2, program.type());
  program.store(0, program.binary(kAverage, u, v));
  Packet packet(OPENREG_OP_VECTOR, op);
  packet.space({x.numel()});
  packet.operand(result.mutable_data_ptr(), dtype, &stride);
  packet.operand(x.const_data_ptr(), dtype, &stride);
  packet.operand(y.const_data_ptr(), dtype, &stride);
  program.put(packet);
  launch(packet, x.device().index());
  return result;
}

} // namespace

TORCH_LIBRARY(lab8, m) {
  m.def("roll(Tensor x, int shift) -> Tensor");
  m.def("average(Tensor a, Tensor b) -> Tensor");
}
TORCH_LIBRARY_IMPL(lab8, PrivateUse1, m) {
  m.impl("roll", &roll);
  m.impl("average", &average);
}
