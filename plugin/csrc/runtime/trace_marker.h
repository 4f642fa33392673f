// SPDX-License-Identifier: BSD-3-Clause
// Ranges and marks for tracers outside of the process (torch.openreg.profiler), as lines of
// the kernel's trace_marker in the format of Android's atrace. The kernel adds the time and
// the thread. Perfetto reads the format.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// The lines go to this file from now on. Throws if it cannot be opened.
void open_trace_marker(const std::string& path);

// Without a file these do nothing. The end belongs to the last begin of the thread.
void trace_begin(std::string_view name);
void trace_end();
void trace_mark(std::string_view name);

} // namespace openreg
#pragma GCC visibility pop
