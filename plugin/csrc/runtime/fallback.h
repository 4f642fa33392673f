// SPDX-License-Identifier: BSD-3-Clause
// Operators without a kernel for the card run on the CPU; never silently.
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

// TORCH_OPENREG_FALLBACK=error|warn|count at the start of the process.
FallbackMode fallback_mode();
void set_fallback_mode(FallbackMode mode);

// Counts, and warns or throws as the mode says.
void count_fallback(const std::string& name);
std::vector<std::pair<std::string, uint64_t>> fallback_counts();
void reset_fallback_counts();

// Runs the operator on the CPU, counted. Also for a kernel that finds that the
// card cannot serve this call.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace openreg
#pragma GCC visibility pop
