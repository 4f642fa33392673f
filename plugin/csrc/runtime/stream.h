// SPDX-License-Identifier: BSD-3-Clause
// Streams are queues of the card. Stream 0 is the device's default; the others
// come from a pool that fills as they are asked for and is never emptied.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/device.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

class Staging;
struct StreamState;

constexpr int kPoolPerPriority = 32;
constexpr int kOwnStreams = 1 + 2 * kPoolPerPriority; // default, normal, high
constexpr int kExternalStreams = 31; // queues that others have made
constexpr int kStreams = kOwnStreams + kExternalStreams;
// How long a wait sleeps before it looks whether it can still end, and for signals.
constexpr int64_t kWaitSliceNs = 50'000'000;

// A WAIT packet on a stream, and the SIGNAL packet of the other one. Whatever
// is behind the WAIT counts on it: it stays listed until the other stream got
// there, even if a fault kept it from running.
struct PendingWait {
  uint64_t seq;
  StreamState* on;
  uint64_t signal_seq;
  uint64_t signal_value;
  uint64_t own_value; // of the stream's clock in front of the WAIT
};

struct StreamState {
  std::mutex mutex; // the queue has one user at a time
  openreg_queue* queue = nullptr;
  c10::DeviceIndex device = 0;
  c10::StreamId id = 0;
  std::atomic<uint64_t> last_seq{0}; // last packet submitted
  std::atomic<uint64_t> resets{0}; // changed under mutex
  // The stream's clock: SIGNAL packets store rising values into a word of
  // device memory, which WAIT packets of other streams look at.
  uint64_t signal_addr = 0;
  uint64_t signal_value = 0;
  std::mutex staging_mutex; // taken before mutex; one may sleep with it
  Staging* staging = nullptr; // made at the first pageable copy
  std::mutex waits_mutex; // taken last
  std::deque<PendingWait> waits; // some are over already

  bool done(uint64_t seq) const {
    return openreg_queue_completed(queue) >= seq;
  }
  // The last packet on it; others put some on a queue of theirs.
  uint64_t last() const {
    return id < kOwnStreams ? last_seq.load(std::memory_order_acquire)
                            : openreg_queue_submitted(queue);
  }
};

// A packet, and how often its stream had been reset before.
struct Sent {
  uint64_t seq;
  uint64_t resets;
};

StreamState& stream_state(const c10::Stream& stream);
// The calling thread's stream of the device.
StreamState& current_stream_state(c10::DeviceIndex index);

c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream default_stream(c10::DeviceIndex index);
// The next one of the pool. priority below 0 is high.
c10::Stream pool_stream(c10::DeviceIndex index, int priority);
// A stream of a queue that somebody else has made with device(index).handle and
// keeps: whoever waits for the device looks at it. The same queue gives the same
// stream.
c10::Stream external_stream(c10::DeviceIndex index, openreg_queue* queue);
// Makes it the calling thread's stream of its device; returns the one before.
c10::Stream exchange_stream(const c10::Stream& stream);

// Streams that have a queue already.
std::vector<StreamState*> open_streams(c10::DeviceIndex index);

// Sleeps until the packet, and what it waited for, has completed. Throws if it
// never will: its queue has faulted, or one that it waits for, at any remove.
// Others do not matter.
void wait_seq(StreamState& stream, uint64_t seq);
// The same for a caller that holds no mutex: handlers of signals run meanwhile, and what
// they raise ends the wait.
void wait_interruptibly(StreamState& stream, uint64_t seq);
// The same of a copy to the host, which a reset may have given up.
void wait_read(StreamState& stream, const Sent& read);
// Whether it has completed; throws likewise.
bool query_seq(StreamState& stream, uint64_t seq);
// Throws likewise, and returns if the packet may still complete.
void check_reachable(StreamState& stream, uint64_t seq);
// The same without a throw, of packets that nobody but the allocator asks for.
bool reached(StreamState& stream, uint64_t seq);
// Sleeps until neither the packets up to this one nor those that they wait for
// touch memory any more: they have completed, or their queue has faulted. False
// if they are stuck behind another queue's fault, and so may still run after a
// reset.
bool settle(StreamState& stream, uint64_t seq);
// Lets the stream's later packets wait for a SIGNAL of another one. The caller
// holds stream.mutex.
void submit_wait_locked(
    StreamState& stream,
    StreamState& on,
    uint64_t signal_seq,
    uint64_t signal_value);
// The WAITs behind packet seq that are listed.
std::vector<PendingWait> waits_behind(StreamState& stream, uint64_t seq);
void synchronize_stream(StreamState& stream);
// Every stream of the device; nothing if it was never used.
void synchronize_device(c10::DeviceIndex index);

// Lets faulted queues go on: what was not completed is given up, but for the
// waits among it.
void reset_device(c10::DeviceIndex index);

// Throws if the stream's queue has faulted.
void check_fault(StreamState& stream);
// The error that the library's failing call on the stream's queue stands for.
[[noreturn]] void fail_stream(StreamState& stream, int error);

} // namespace openreg
#pragma GCC visibility pop
