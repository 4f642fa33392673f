// SPDX-License-Identifier: BSD-3-Clause
// Operators without a kernel for the card run on the CPU. Every such call is counted.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

enum class FallbackMode { COUNT, WARN, ERROR };

// Initially TORCH_OPENREG_FALLBACK (error, warn or count), read at the first use.
FallbackMode fallback_mode();
void set_fallback_mode(FallbackMode mode);

// Counts a fallback, and warns or throws according to the mode.
void count_fallback(const std::string& name);
std::vector<std::pair<std::string, uint64_t>> fallback_counts();
void reset_fallback_counts();

// Runs the operator on the CPU and counts the fallback. A kernel also calls this function
// if the card cannot do one particular call.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace openreg
#pragma GCC visibility pop
