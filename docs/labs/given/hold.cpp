// SPDX-License-Identifier: MIT
// Given: torch.ops.labs.hold(word). The current stream runs no further packet until word, an
// int64 tensor of the card, is 1. word.fill_(1) on another stream releases it.
#include "backend.hpp"

namespace {

void hold(const at::Tensor& word) {
  static const openreg::OpId op = openreg::op_id("labs::hold");
  openreg::Packet packet(OPENREG_OP_WAIT, op);
  packet.arg(0, OPENREG_WAIT_GE);
  packet.operand(word.const_data_ptr(), OPENREG_I64);
  packet.imm(int64_t{1});
  openreg::launch(packet, word.device().index());
}

} // namespace

TORCH_LIBRARY(labs, m) {
  m.def("hold(Tensor word) -> ()");
}
TORCH_LIBRARY_IMPL(labs, PrivateUse1, m) {
  m.impl("hold", &hold);
}
