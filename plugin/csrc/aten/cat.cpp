// SPDX-License-Identifier: BSD-3-Clause
// cat, with one COPY packet for each tensor.
#include "aten/structured.h"

#include <ATen/ops/cat_meta.h>
#include <c10/core/WrapDimMinimal.h>

namespace openreg {

namespace {

using at::Tensor;

// cat ignores an empty one-dimensional tensor, even if the shapes do not match.
bool skipped(const Tensor& t) {
  return t.dim() == 1 && t.size(0) == 0;
}

void copy_into(OpId id, const Tensor& out, const Tensor& part, Part which) {
  Space space(part.sizes(), out.get_device());
  space.add(out);
  space.add(part);
  space.coalesce();
  space.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_COPY, id);
    s.put(packet);
    launch(packet, s.device(), which);
    which = Part::FURTHER;
  });
}

// Checks all devices before the first packet. out is on the first tensor's device.
void check_devices(const at::ITensorListRef& tensors, const Tensor& out) {
  for (const Tensor& t : tensors)
    TORCH_CHECK(
        t.device() == out.device() || (skipped(t) && out.is_privateuseone()),
        "Expected all tensors to be on the same device, but found at least two devices, ",
        out.device(),
        " and ",
        t.device(),
        "!");
}

struct Cat {
  static constexpr bool pairs = true;
  template <class Op>
  void operator()(OpId id, Op& op, const at::ITensorListRef& tensors, int64_t dim) const {
    const Tensor& out = op.maybe_get_output(0);
    int64_t at = 0;
    Part which = Part::FIRST;
    check_devices(tensors, out);
    for (const Tensor& t : tensors) {
      if (skipped(t)) {
        continue;
      }
      const int64_t d = c10::maybe_wrap_dim(dim, t.dim());
      if (t.numel() != 0) {
        const Tensor part = out.narrow(d, at, t.size(d));
        if (out.is_complex()) {
          part.copy_(t);
        } else {
          copy_into(id, part, t, which);
        }
        which = Part::FURTHER;
      }
      at += t.size(d);
    }
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_cat>(m, NamesWithoutInplace{"cat", "cat.out"}, Cat());
}

} // namespace openreg
