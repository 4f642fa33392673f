// SPDX-License-Identifier: BSD-3-Clause
// torch.openreg.fall_back(): all operators of a package's namespace on the CPU.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// cpu_fallback(), counted and checked, with another way to run the operator. By
// then the generators on the stack are the CPU's.
void fall_back_by(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack,
    const std::function<void()>& run);

// All operators of a namespace without a kernel for the card run on the CPU, with
// gradients. Returns their names; throws if the namespace has no operators.
std::vector<std::string> fall_back(const std::string& name_space);

} // namespace openreg
#pragma GCC visibility pop
