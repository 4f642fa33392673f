// SPDX-License-Identifier: BSD-3-Clause
// The level below launch(): for runtime code that holds a stream's mutex or needs a
// packet's sequence number.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/launch.h"
#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Submits the packet to the stream and returns its sequence number. The caller holds
// stream.mutex.
uint64_t submit_locked(
    StreamState& stream,
    const Packet& packet,
    bool give_up = false);
// The same for the bytes of a packet. A captured stream does not take it.
uint64_t submit_bytes_locked(
    StreamState& stream,
    const void* packet,
    unsigned slots,
    bool give_up = false);
// Returns ring slots for one packet, and its sequence number in seq. Waits while the ring
// is full: its packets may wait for another stream's long work. If give_up is set, throws
// LongWait after the first slice of the wait.
void* begin_locked(
    StreamState& stream,
    unsigned slots,
    uint64_t* seq,
    bool give_up = false);

// A SIGNAL packet that sets the stream's clock to a value.
Packet signal_packet(OpId op, const StreamState& stream, uint64_t value);
// Submits a SIGNAL that raises the stream's clock by one. Returns its sequence number;
// stream.signal_value is the value. The caller holds stream.mutex.
uint64_t signal_locked(StreamState& stream);
// A WAIT packet that stops a stream until the other stream's clock has reached the value.
Packet wait_packet(OpId op, const PendingWait& wait);

void count_op(OpId op);
const char* op_name(OpId op);
// Calls see() for each number that op_id() has given.
void each_op(void (*see)(OpId op, const char* name));

// The operators that ran on the card since reset_op_counts(), by name.
std::vector<std::pair<std::string, uint64_t>> op_counts();
void reset_op_counts();

} // namespace openreg
#pragma GCC visibility pop
