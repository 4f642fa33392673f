// SPDX-License-Identifier: BSD-3-Clause
// Turns a call that draws random numbers into a packet.
#include "aten/random.h"

#include <ATen/ops/empty.h>

#include "aten/space.h"

namespace openreg {

namespace {

Space space_of(const DrawingCall& call) {
  const at::Tensor& first = call.outputs[0];
  Space space(first.sizes(), first.get_device());
  for (const at::Tensor& t : call.outputs) {
    t.mutable_data_ptr(); // a copy-on-write tensor gets memory of its own
    space.add(t);
  }
  for (const at::Tensor& t : call.inputs) {
    space.add(t);
  }
  if (call.flag.defined()) {
    space.add(call.flag, at::DimVector(first.dim(), 0));
    Space::Mask all;
    for (int64_t i = 0; i < first.dim(); i++) {
      all.set(i);
    }
    space.reduce(all);
  }
  // Merge only neighbouring dimensions, so that elements keep their row-major numbers.
  space.coalesce();
  return space;
}

// Draws into dense tensors, then copies. Without this, several packets would each begin
// with the random number of element 0.
void draw_dense(const DrawingCall& call, DrawingProgram program) {
  const auto sizes = call.outputs[0].sizes();
  DrawingCall dense{call.id, call.generator, call.type, {}, {}, call.flag};
  for (const at::Tensor& t : call.outputs) {
    dense.outputs.push_back(at::empty(sizes, t.options()));
  }
  for (const at::Tensor& t : call.inputs) {
    dense.inputs.push_back(t.expand(sizes).contiguous());
  }
  draw(dense, program);
  for (size_t i = 0; i < call.outputs.size(); i++) {
    call.outputs[i].copy_(dense.outputs[i]);
  }
}

} // namespace

Value draw_bit(Program& p, Draws& draws, double probability) {
  const auto times = static_cast<int64_t>(std::nearbyint(probability * 0x1p32));
  if (times == 0 || times == int64_t{1} << 32) {
    return p.imm(int64_t{times != 0}, OPENREG_VT_I32);
  }
  return draws.bits(OPENREG_VT_I32) < p.imm(times + INT32_MIN, OPENREG_VT_I32);
}

void draw(const DrawingCall& call, DrawingProgram program) {
  if (call.outputs[0].numel() == 0) {
    return;
  }
  // A generator on openreg dispatches tensors of other devices to this function too.
  const c10::DeviceType there = call.outputs[0].device().type();
  TORCH_CHECK(
      there == kDeviceType,
      "Expected a '",
      there,
      "' device type for generator but found '",
      kDeviceType,
      "'");
  const Space space = space_of(call);
  if (space.ndim() > OPENREG_DIMS_MAX) {
    draw_dense(call, program);
    return;
  }
  Program p(call.type);
  Draws draws(p, take_random_streams(call.generator, space.device()));
  program(p, draws);
  launch(space, p, call.id);
}

} // namespace openreg
