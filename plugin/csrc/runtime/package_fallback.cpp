// SPDX-License-Identifier: BSD-3-Clause
// torch.openreg.fall_back() is for packages with one kernel of an operator for all
// devices. Such a kernel checks the device itself, so the dispatcher never calls the
// backend's fallback. fall_back() registers a kernel for the card for each operator.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/device.h"
#include "runtime/fallback.h"
#include "runtime/package_fallback.h"

namespace openreg {
namespace {

using at::Tensor;
using c10::IValue;

bool is_ours(const Tensor& t) {
  return t.defined() && t.is_privateuseone();
}

Tensor moved(const Tensor& t, c10::Device to) {
  return t.defined() ? t.to(to) : t;
}

// Moves the tensors of a value to a device; gradients flow through the copies.
IValue moved(const IValue& value, c10::Device to) {
  if (value.isTensor())
    return moved(value.toTensor(), to);
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : value.toTensorVector())
      list.push_back(moved(t, to));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
      list.push_back(t ? std::optional(moved(*t, to)) : t);
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kDeviceType)
    return to;
  return value;
}

std::optional<c10::Device> device_in(at::ArrayRef<IValue> values) {
  for (const IValue& value : values) {
    if (value.isTensor() && is_ours(value.toTensor()))
      return value.toTensor().device();
    if (value.isTensorList())
      for (const Tensor& t : value.toTensorVector())
        if (is_ours(t))
          return t.device();
    if (value.isOptionalTensorList())
      for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
        if (t && is_ours(*t))
          return t->device();
  }
  return std::nullopt;
}

void write_back(const IValue& to, const IValue& from) {
  if (to.isTensor() && is_ours(to.toTensor())) {
    const Tensor& t = to.toTensor();
    if (t.sizes() != from.toTensor().sizes())
      t.resize_(from.toTensor().sizes());
    t.copy_(from.toTensor());
  } else if (to.isTensorList()) {
    const auto all = to.toTensorVector(), written = from.toTensorVector();
    for (size_t i = 0; i < all.size(); i++)
      write_back(all[i], written[i]);
  }
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// Autograd records the copies to the CPU, the operator on the CPU, and the copies back.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto& returns = op.schema().returns();
  const auto given = torch::jit::last(*stack, arguments.size()).vec();
  const c10::Device device = device_in(given).value();
  std::vector<IValue> there;
  for (const IValue& value : given)
    there.push_back(moved(value, at::kCPU));
  torch::jit::drop(*stack, arguments.size());
  stack->insert(stack->end(), there.begin(), there.end());
  op.callBoxed(stack);

  for (size_t i = 0; i < arguments.size(); i++)
    if (is_written(arguments[i]))
      write_back(given[i], there[i]);
  for (size_t r = 0; r < returns.size(); r++) {
    IValue& result = torch::jit::peek(*stack, r, returns.size());
    size_t same = arguments.size();
    for (size_t i = 0; is_written(returns[r]) && i < arguments.size(); i++)
      if (is_written(arguments[i]) && *arguments[i].alias_info() == *returns[r].alias_info())
        same = i;
    result = same < arguments.size() ? given[same] : moved(result, device);
  }
}

void differentiable_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back_by(op, stack, [&] { run_on_cpu(op, stack); });
}

bool is_of_core(const std::string& name_space) {
  return name_space == "aten" || name_space.starts_with("prim") || name_space == "c10d";
}

torch::CppFunction without_gradients() {
  return torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>();
}
torch::CppFunction with_gradients() {
  return torch::CppFunction::makeFromBoxedFunction<&differentiable_fallback>();
}

[[noreturn]] void refuse(const std::string& name_space, const std::set<std::string>& all) {
  TORCH_CHECK_VALUE(
      !is_of_core(name_space),
      "fall_back('",
      name_space,
      "'): core's operators fall back to the CPU without fall_back()");
  std::string names;
  for (const std::string& name : all)
    if (!is_of_core(name))
      names += (names.empty() ? "" : ", ") + name;
  TORCH_CHECK_VALUE(
      false,
      "fall_back('",
      name_space,
      "'): no operator has this namespace. Import the package first. Pass the name "
      "after torch.ops. or before ::, which can differ from the package's name. "
      "Known namespaces: ",
      names);
}

} // namespace

std::vector<std::string> fall_back(const std::string& name_space) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& dispatcher = c10::Dispatcher::singleton();
  std::set<std::string> all;
  std::vector<c10::OperatorHandle> found;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op)
      continue;
    all.insert(std::string(name.getNamespace().value_or("")));
    if (name.getNamespace() == name_space)
      found.push_back(*op);
  }
  if (is_of_core(name_space) || !all.count(name_space))
    refuse(name_space, all);

  // The libraries are never freed: the kernels live as long as the process.
  using torch::Library, c10::DispatchKey;
  auto* below = new Library(
      Library::IMPL, name_space, DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto* autograd = new Library(
      Library::IMPL, name_space, DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  std::vector<std::string> changed;
  for (const c10::OperatorHandle& op : found) {
    if (op.hasKernelForDispatchKey(DispatchKey::PrivateUse1) ||
        op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1))
      continue;
    const std::string name = c10::toString(op.operator_name());
    below->impl(name.c_str(), without_gradients());
    autograd->impl(name.c_str(), with_gradients());
    changed.push_back(name);
  }
  return changed;
}

// Core has one function for all devices for these operators, and the function reads the
// data on the host.
constexpr std::array kReadOnHost{
    "_reshape_from_tensor",
    "_sobol_engine_draw",
    "_sobol_engine_ff_",
    "_sobol_engine_initialize_state_",
    "_sobol_engine_scramble_",
    "choose_qparams_optimized"};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : kReadOnHost)
    m.impl(name, without_gradients());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  for (const char* name : kReadOnHost)
    m.impl(name, with_gradients());
}

} // namespace openreg
