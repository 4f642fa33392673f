// SPDX-License-Identifier: BSD-3-Clause
// torch.autocast("openreg"): core's lists for every accelerator, and the operators that
// torchvision registers only for other accelerators.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "runtime/device.h"

namespace openreg {

// Core's lists use these names without their namespace.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

Tensor refuse_binary_cross_entropy(
    const Tensor&,
    const Tensor&,
    const std::optional<Tensor>&,
    int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Use torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss.");
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  m.impl("binary_cross_entropy", refuse_binary_cross_entropy);
#define OPENREG_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(OPENREG_LOWER)
#undef OPENREG_LOWER
#define OPENREG_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(OPENREG_FP32)
#undef OPENREG_FP32
#define OPENREG_FP32_SET(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(OPENREG_FP32_SET)
#undef OPENREG_FP32_SET
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
      KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define OPENREG_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(OPENREG_PROMOTE)
#undef OPENREG_PROMOTE
}

// Runs an operator of torchvision in float32. The results get the first tensor's type.
void run_in_float(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(
      c10::DispatchKey::AutocastPrivateUse1);
  const size_t arguments = op.schema().arguments().size();
  const auto wanted = torch::jit::peek(*stack, 0, arguments).toTensor().scalar_type();
  for (size_t i = 0; i < arguments; i++) {
    c10::IValue& value = torch::jit::peek(*stack, i, arguments);
    if (value.isTensor()) {
      value = at::autocast::cached_cast(at::kFloat, value.toTensor(), kDeviceType);
    }
  }
  op.callBoxed(stack);
  const size_t results = op.schema().returns().size();
  for (size_t i = 0; i < results; i++) {
    c10::IValue& value = torch::jit::peek(*stack, i, results);
    if (value.isTensor() && value.toTensor().is_floating_point()) {
      value = value.toTensor().to(wanted);
    }
  }
}

// The kernels become active when torchvision defines its operators.
TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  for (const char* name :
       {"nms",
        "deform_conv2d",
        "ps_roi_align",
        "ps_roi_pool",
        "roi_align",
        "roi_pool"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_in_float>());
  }
}

} // namespace openreg
