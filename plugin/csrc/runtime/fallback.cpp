// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/bits.h"
#include "runtime/capture.h"
#include "runtime/cpu_call.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/package_fallback.h"

namespace openreg {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, uint64_t> by_name;
};

Counts& counts() {
  static Counts* counts = new Counts;
  return *counts;
}

FallbackMode mode_of_environment() {
  const char* text = std::getenv("TORCH_OPENREG_FALLBACK");
  if (!text || !*text || !std::strcmp(text, "count"))
    return FallbackMode::COUNT;
  if (!std::strcmp(text, "warn"))
    return FallbackMode::WARN;
  if (!std::strcmp(text, "error"))
    return FallbackMode::ERROR;
  TORCH_WARN(
      "TORCH_OPENREG_FALLBACK is '",
      text,
      "'. Valid values are count, warn and error. Using warn.");
  return FallbackMode::WARN;
}

std::atomic<FallbackMode>& mode() {
  static std::atomic<FallbackMode> mode{mode_of_environment()};
  return mode;
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  std::vector<at::Tensor> found;
  if (value.isTensor())
    found.push_back(value.toTensor());
  else if (value.isTensorList())
    found = value.toTensorVector();
  std::erase_if(found, [](const at::Tensor& t) { return !t.defined(); });
  return found;
}

std::vector<at::Tensor> tensors_of(
    const torch::jit::Stack& stack,
    size_t arguments) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& value : torch::jit::last(stack, arguments))
    for (at::Tensor& t : tensors_in(value))
      found.push_back(std::move(t));
  return found;
}

std::optional<c10::Device> device_among(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& t : tensors)
    if (t.is_privateuseone())
      return t.device();
  return std::nullopt;
}

c10::DeviceIndex device_of(const torch::jit::Stack& stack, size_t arguments) {
  const auto found = device_among(tensors_of(stack, arguments));
  return found ? found->index() : current_device();
}

// Whether an argument may stay on the CPU while others are on the card: tensors that are
// only read, and are single numbers, indices, lengths or the targets of ctc_loss.
bool may_be_elsewhere(const at::Tensor& t, const c10::Argument& argument) {
  const c10::AliasInfo* alias = argument.alias_info();
  if (!t.is_cpu() || t.layout() != at::kStrided || (alias && alias->isWrite()))
    return false;
  const std::string& name = argument.name();
  return t.dim() == 0 ||
      (c10::isIntegralType(t.scalar_type(), true) &&
       (name.ends_with("indices") || name.ends_with("lengths") ||
        name == "batch_sizes" || name == "targets"));
}

// Core's kernels for accelerators begin with the same check. Check here too: a fallback
// that copies all arguments to the CPU would hide the caller's mistake.
void check_devices(
    const c10::OperatorHandle& op,
    const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto ours = device_among(tensors_of(stack, arguments.size()));
  if (!ours)
    return;
  for (size_t i = 0; i < arguments.size(); i++)
    for (const at::Tensor& t : tensors_in(torch::jit::peek(stack, i, arguments.size())))
      TORCH_CHECK(
          t.device() == *ours || may_be_elsewhere(t, arguments[i]),
          "Expected all tensors to be on the same device, but found at least "
          "two devices, ",
          *ours,
          " and ",
          t.device(),
          "! (when checking the arguments of ",
          op.operator_name().name,
          ")");
}

// Makes the random numbers of a fallback depend on the card's generator:
//  - An operator with a generator argument gets a CPU generator seeded from the card's.
//  - For other operators, the CPU's default generator temporarily gets that state. Only
//    one operator at a time does this. Numbers that other threads draw from the default
//    generator meanwhile come from the temporary state.
class BorrowedRandomness {
 public:
  BorrowedRandomness(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    bool given = false;
    for (size_t i = 0; i < arguments.size(); i++)
      given = replace(arguments, i, stack) || given;
    if (given || !op.hasTag(at::Tag::nondeterministic_seeded))
      return;
    turn_ = std::unique_lock<std::recursive_mutex>(lending());
    default_ = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(default_.mutex());
    saved_ = default_.get_state();
    default_.set_state(
        cpu_generator(default_generator(device_of(*stack, arguments.size())))
            .get_state());
  }

  ~BorrowedRandomness() {
    if (!saved_.defined())
      return;
    std::lock_guard<std::mutex> lock(default_.mutex());
    default_.set_state(saved_);
  }

 private:
  static bool replace(
      const std::vector<c10::Argument>& arguments,
      size_t i,
      torch::jit::Stack* stack) {
    const auto& type = *arguments[i].type();
    const bool optional_generator =
        type.kind() == c10::TypeKind::OptionalType &&
        type.expectRef<c10::OptionalType>().getElementType()->kind() ==
            c10::TypeKind::GeneratorType;
    if (!optional_generator && type.kind() != c10::TypeKind::GeneratorType)
      return false;
    c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    const at::Generator from = value.isGenerator()
        ? value.toGenerator()
        : default_generator(device_of(*stack, arguments.size()));
    if (from.device().type() == kDeviceType)
      value = cpu_generator(from);
    return true;
  }

  // The mutex is recursive: an operator may call another operator.
  static std::recursive_mutex& lending() {
    static auto* mutex = new std::recursive_mutex;
    return *mutex;
  }

  std::unique_lock<std::recursive_mutex> turn_;
  at::Generator default_;
  at::Tensor saved_;
};

} // namespace

void fall_back_by(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack,
    const std::function<void()>& run) {
  check_devices(op, *stack);
  count_fallback(c10::toString(op.operator_name()));
  BorrowedRandomness randomness(op, stack);
  run();
}

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!move_as_bits(op, stack))
    fall_back_by(op, stack, [&] { call_on_cpu(op, stack); });
}

FallbackMode fallback_mode() {
  return mode();
}

void set_fallback_mode(FallbackMode to) {
  mode() = to;
}

void count_fallback(const std::string& name) {
  const FallbackMode now = mode();
  if (C10_UNLIKELY(capture_runs()))
    refuse_capture_on(
        current_device(),
        (name + ", which has no kernel for openreg and runs on the CPU,").c_str(),
        "Call it before or after the capture.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      now != FallbackMode::ERROR,
      name,
      " has no kernel for openreg, and TORCH_OPENREG_FALLBACK=error forbids running "
      "it on the CPU. Move its inputs with .cpu(), unset the variable, or call "
      "torch.openreg.set_fallback('count').");
  bool first;
  {
    std::lock_guard<std::mutex> lock(counts().mutex);
    first = counts().by_name[name]++ == 0;
  }
  if (now == FallbackMode::WARN && first)
    TORCH_WARN(
        name,
        " has no kernel for openreg. It runs on the CPU, with copies to the CPU and "
        "back. This warning appears once; torch.openreg.fallbacks() has the counts.");
}

std::vector<std::pair<std::string, uint64_t>> fallback_counts() {
  std::lock_guard<std::mutex> lock(counts().mutex);
  return {counts().by_name.begin(), counts().by_name.end()};
}

void reset_fallback_counts() {
  std::lock_guard<std::mutex> lock(counts().mutex);
  counts().by_name.clear();
}

namespace {

void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      op.operator_name().name,
      ": openreg has no quantized tensors, which PyTorch itself deprecates. Quantize a model "
      "with quantize_() of torchao, which keeps weights as plain int8 or float8 tensors; "
      "docs/quantization.md shows how. Or call dequantize() on the CPU before "
      ".to('openreg').");
}

void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      op.operator_name().name,
      ": openreg has no nested tensors of the strided layout. Create them with "
      "layout=torch.jagged, or keep them on the CPU.");
}

} // namespace

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

// Operators that create quantized tensors. On the CPU they would make one there, and fail
// only when it comes back.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"_empty_affine_quantized",
        "_empty_per_channel_affine_quantized",
        "_make_per_channel_quantized_tensor",
        "_make_per_tensor_quantized_tensor",
        "empty_quantized",
        "quantize_per_channel",
        "quantize_per_tensor",
        "quantize_per_tensor.tensor_qparams",
        "quantize_per_tensor.tensors",
        "quantize_per_tensor_dynamic"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

// Core has one function for all devices for these operators. The function reads the data
// on the host, and packs it in a form that only the CPU has.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"_saturate_weight_to_fp16",
        "fbgemm_linear_fp16_weight",
        "fbgemm_linear_fp16_weight_fp32_activation",
        "fbgemm_linear_int8_weight",
        "fbgemm_linear_int8_weight_fp32_activation",
        "fbgemm_linear_quantize_weight",
        "fbgemm_pack_gemm_matrix_fp16",
        "fbgemm_pack_quantized_matrix",
        "fbgemm_pack_quantized_matrix.KN"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
}

// Refuse the operators that create a strided nested tensor. Once such a tensor exists,
// autograd asks for its sizes in a place where an exception ends the process.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"_nested_tensor_from_tensor_list",
        "_nested_tensor_from_mask",
        "_nested_from_padded",
        "_nested_view_from_buffer",
        "_nested_view_from_buffer_copy"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

// Core's own kernel for mode accepts three types of devices, and openreg is none of them.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(
      "mode.values",
      torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
}

} // namespace openreg
