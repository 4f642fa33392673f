// SPDX-License-Identifier: BSD-3-Clause
// One call of an operator on the CPU: its arguments go there, what it writes and
// returns comes back to the card. Sparse tensors travel part by part.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

// Counts nothing.
void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace openreg
