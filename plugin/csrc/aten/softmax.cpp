// SPDX-License-Identifier: BSD-3-Clause
// softmax, log_softmax and their derivatives, with one SOFTMAX packet each.
#include "aten/structured.h"

#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <c10/core/WrapDimMinimal.h>

namespace openreg {

namespace {

using at::Tensor;

// tensors are the result and then the inputs, all of one shape.
void softmax(
    OpId id,
    uint8_t flags,
    int64_t dim,
    std::initializer_list<std::reference_wrapper<const Tensor>> tensors) {
  const Tensor& out = *tensors.begin();
  if (out.numel() == 0) {
    return;
  }
  for (const Tensor& t : tensors) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        t.is_floating_point(), "softmax not implemented for '", t.scalar_type(), "'");
  }
  Space space(out.sizes(), out.get_device());
  for (const Tensor& t : tensors) {
    space.add(t);
  }
  if (out.dim() == 0) {
    space.add_unit();
  }
  space.keep(static_cast<int>(c10::maybe_wrap_dim(dim, out.dim())));
  space.coalesce();
  Part part = Part::FIRST;
  space.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_SOFTMAX, id);
    packet.arg(0, s.kept());
    packet.arg(1, flags);
    s.put(packet);
    launch(packet, s.device(), part);
    part = Part::FURTHER;
  });
}

template <uint8_t Flags>
struct Forward {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, int64_t dim, bool) const {
    softmax(id, Flags, dim, {op.maybe_get_output(0), self});
  }
};

template <uint8_t Flags>
struct Backward {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad,
      const Tensor& output,
      int64_t dim,
      c10::ScalarType) const {
    softmax(
        id,
        Flags | OPENREG_SOFTMAX_BACKWARD,
        dim,
        {op.maybe_get_output(0), grad, output});
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured__softmax>(
      m, NamesWithoutInplace{"_softmax", "_softmax.out"}, Forward<0>());
  add_op<at::meta::structured__log_softmax>(
      m,
      NamesWithoutInplace{"_log_softmax", "_log_softmax.out"},
      Forward<OPENREG_SOFTMAX_LOG>());
  add_op<at::meta::structured__softmax_backward_data>(
      m,
      NamesWithoutInplace{"_softmax_backward_data", "_softmax_backward_data.out"},
      Backward<0>());
  add_op<at::meta::structured__log_softmax_backward_data>(
      m,
      NamesWithoutInplace{
          "_log_softmax_backward_data", "_log_softmax_backward_data.out"},
      Backward<OPENREG_SOFTMAX_LOG>());
}

} // namespace openreg
