// SPDX-License-Identifier: BSD-3-Clause
// Below launch(): for runtime code that holds a stream's mutex, or that needs
// a packet's number.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/launch.h"
#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Puts the packet on the stream and returns its sequence number. The caller
// holds stream.mutex.
uint64_t submit_locked(
    StreamState& stream,
    Packet& packet,
    bool give_up = false);
// Room for a packet of that many slots, and its number. Waits while the ring
// is full: what is in it may wait for another stream's long work. give_up: throws
// LongWait instead of a second slice.
void* begin_locked(
    StreamState& stream,
    unsigned slots,
    uint64_t* seq,
    bool give_up = false);
uint64_t submit(StreamState& stream, Packet& packet);

// Stores a value of the stream's clock.
Packet signal_packet(OpId op, const StreamState& stream, uint64_t value);
// Holds a stream back until the other one's clock has got there.
Packet wait_packet(OpId op, const PendingWait& wait);

void count_op(OpId op);
const char* op_name(OpId op);

// Operators that ran on the card since the last reset, by name.
std::vector<std::pair<std::string, uint64_t>> op_counts();
void reset_op_counts();

} // namespace openreg
#pragma GCC visibility pop
