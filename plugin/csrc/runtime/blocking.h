// SPDX-License-Identifier: BSD-3-Clause
// Help for finding what blocks, and where an error comes from.
#pragma once

#include <cstdint>

#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// OPENREG_LAUNCH_BLOCKING=1: each launch waits for its packet, so that the error of a packet
// is raised by the call that launched it.
extern const bool launch_blocks;
// Call it after a launch that takes part in no capture. Throws like wait_seq().
inline void block_launch(StreamState& stream, uint64_t seq) {
  if (C10_UNLIKELY(launch_blocks) && seq)
    wait_seq(stream, seq);
}

// What happens when an operator makes the thread wait for the card.
enum class SyncDebugMode { DEFAULT = 0, WARN = 1, ERROR = 2 };
SyncDebugMode sync_debug_mode();
void set_sync_debug_mode(SyncDebugMode mode);
// Call it before such a wait. Warns or throws as the mode says.
void note_sync();

} // namespace openreg
#pragma GCC visibility pop
