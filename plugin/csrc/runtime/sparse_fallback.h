// SPDX-License-Identifier: BSD-3-Clause
// A call with sparse tensors on the CPU: they travel part by part.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

bool takes_sparse(const torch::jit::Stack& stack, size_t arguments);

// at::native::cpu_fallback() for operators with a sparse argument, which it
// does not know. Counts nothing.
void sparse_cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace openreg
