// SPDX-License-Identifier: BSD-3-Clause
// Runs one call of an operator on the CPU: copies its arguments to the CPU, and copies
// written arguments and results back to the card. Sparse tensors are copied part by part.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

// Does not count the call as a fallback: the caller counts.
void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace openreg
