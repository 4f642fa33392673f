// SPDX-License-Identifier: BSD-3-Clause
// The plugin's part of openreg-trace: operators of torch, and the names of packets.
#pragma once

#include "runtime/launch.h"

namespace openreg {

// Records the operators of this process from now on, if openreg-trace runs it.
void join_timeline();
// A new operator has this name.
void tell_timeline(OpId op, const char* name);

} // namespace openreg
