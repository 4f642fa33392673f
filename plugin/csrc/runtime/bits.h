// SPDX-License-Identifier: BSD-3-Clause
// Operators that only move elements, for dtypes that the card does not compute on.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

// Calls the operator again with tensors of integers that have the same bits. Returns false,
// and leaves the stack alone, if the operator does more than move elements, or if its tensors
// do not need it.
bool move_as_bits(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace openreg
