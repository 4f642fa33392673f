// SPDX-License-Identifier: BSD-3-Clause
// A process group may have no backend for the card. The wrapper here adds the remedy to core's
// error.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstring>

namespace openreg {
namespace {

void add_remedy(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  try {
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  } catch (c10::Error& error) {
    if (std::strstr(error.what_without_backtrace(), "No backend type associated"))
      error.add_context(
          "This process group has no backend for openreg. Use "
          "init_process_group('cpu:gloo,openreg:occl').");
    throw;
  }
}

// A torch built without torch.distributed has no c10d operators: the loop finds nothing.
const bool registered = [] {
  auto* library = new torch::Library(
      torch::Library::IMPL,
      "c10d",
      c10::DispatchKey::AutogradPrivateUse1,
      __FILE__,
      __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.name.starts_with("c10d::"))
      library->impl(
          c10::toString(name).c_str(),
          torch::CppFunction::makeFromBoxedFunction<&add_remedy>());
  return true;
}();

} // namespace
} // namespace openreg
