// SPDX-License-Identifier: BSD-3-Clause
// torch.openreg.fall_back(): runs all operators of a package's namespace on the CPU.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Like cpu_fallback(), with its checks and its count, but run() runs the operator. The
// generators on the stack are generators of the CPU when run() is called.
void fall_back_by(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack,
    const std::function<void()>& run);

// Makes all operators of a namespace that lack a kernel for the card run on the CPU, with
// gradients. Returns their names. Throws if the namespace has no operators.
std::vector<std::string> fall_back(const std::string& name_space);

} // namespace openreg
#pragma GCC visibility pop
