// SPDX-License-Identifier: BSD-3-Clause
// Streams are queues of the card. Stream 0 is the device's default; the others
// come from a pool that fills as they are asked for and is never emptied.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace openreg {

class Staging;

struct StreamState {
  std::mutex mutex; // the queue has one user at a time
  openreg_queue* queue = nullptr;
  c10::DeviceIndex device = 0;
  c10::StreamId id = 0;
  std::atomic<uint64_t> last_seq{0}; // last packet submitted
  // The stream's clock: SIGNAL packets store rising values into a word of
  // device memory, which WAIT packets of other streams look at.
  uint64_t signal_addr = 0;
  uint64_t signal_value = 0;
  Staging* staging = nullptr; // made at the first pageable copy

  bool done(uint64_t seq) const {
    return openreg_queue_completed(queue) >= seq;
  }
};

StreamState& stream_state(const c10::Stream& stream);
// The calling thread's stream of the device.
StreamState& current_stream_state(c10::DeviceIndex index);

c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream default_stream(c10::DeviceIndex index);
// The next one of the pool. priority below 0 is high.
c10::Stream pool_stream(c10::DeviceIndex index, int priority);
// Makes it the calling thread's stream of its device; returns the one before.
c10::Stream exchange_stream(const c10::Stream& stream);

// Streams that have a queue already.
std::vector<StreamState*> open_streams(c10::DeviceIndex index);

// Sleeps until the packet has completed. Throws if the queue has faulted
// before it, or if another queue of the device has and so may never signal.
void wait_seq(StreamState& stream, uint64_t seq);
void synchronize_stream(StreamState& stream);
// Every stream of the device; nothing if it was never used.
void synchronize_device(c10::DeviceIndex index);

// Lets faulted queues go on: what was not completed is given up.
void reset_device(c10::DeviceIndex index);

// The error that a failing call on the stream's queue stands for.
[[noreturn]] void fail_stream(StreamState& stream, int error);

} // namespace openreg
