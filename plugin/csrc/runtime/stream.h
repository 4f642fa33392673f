// SPDX-License-Identifier: BSD-3-Clause
// Streams are queues of the card. Stream 0 is the device's default stream. The other
// streams come from a pool: each one is created at its first use and never destroyed.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

class Staging;
struct Capture;
struct LaunchLog;
struct PrivatePool;
struct StreamState;

constexpr int kPoolPerPriority = 32;
constexpr int kOwnStreams = 1 + 2 * kPoolPerPriority; // default, normal, high
constexpr int kExternalStreams = 127; // queues of the program and of process groups
constexpr int kStreams = kOwnStreams + kExternalStreams;
// The longest sleep of a wait. After each slice the wait checks for faults and signals.
constexpr int64_t kWaitSliceNs = 50'000'000;

// A word in memory that another process shares, which SIGNALs of that process raise.
class ForeignWord {
 public:
  virtual ~ForeignWord() = default;
  virtual uint64_t addr() const = 0; // on the card that waits
  virtual uint64_t value() const = 0;
  // Whether nothing waits for the word any more, as it will not rise or is late.
  virtual bool abandoned() const = 0;
  // Whether it keeps a freed tensor.
  virtual bool holds_tensor() const {
    return false;
  }
  // What a stream waits for in vain, and why, for messages.
  virtual std::string loss() const = 0;
};

// The loss() of a process that has ended.
std::string lost_work(const std::string& process);

// A WAIT packet on a stream, and the SIGNAL packet of the other stream. The packets
// behind the WAIT depend on the SIGNAL. So the entry stays listed until the other stream
// has reached the SIGNAL, even if a fault kept the WAIT itself from running.
struct PendingWait {
  uint64_t seq;
  StreamState* on; // null for a foreign word
  uint64_t signal_seq;
  uint64_t signal_value;
  uint64_t own_value; // the value of the stream's own clock at the WAIT
  std::shared_ptr<const ForeignWord> foreign{};
};

struct StreamState {
  std::mutex mutex; // only one thread may use the queue at a time
  openreg_queue* queue = nullptr;
  c10::DeviceIndex device = 0;
  c10::StreamId id = 0;
  std::atomic<uint64_t> last_seq{0}; // the last packet that was submitted
  std::atomic<uint64_t> resets{0}; // changed under mutex
  // Of the last reset: it has dropped the packets behind this one.
  std::atomic<uint64_t> completed_at_reset{0};
  // The stream's clock: a word of device memory. SIGNAL packets store rising values into
  // the word, and WAIT packets of other streams wait for a value.
  uint64_t signal_addr = 0;
  uint64_t signal_value = 0;
  LaunchLog* log = nullptr; // while a profiler runs; changed under mutex
  std::mutex staging_mutex; // lock it before mutex; its holder may sleep
  Staging* staging = nullptr; // allocated at the first pageable copy
  // While a graph is captured: the capture that takes the stream's packets, changed under
  // mutex, and the pool that the stream's memory comes from.
  std::atomic<Capture*> capture{nullptr};
  std::atomic<PrivatePool*> private_pool{nullptr};
  // Set while the stream waits for a communicator that is broken: the text of the error.
  std::atomic<const std::string*> broken{nullptr};
  std::mutex waits_mutex; // lock it last
  std::deque<PendingWait> waits; // may contain WAITs that have completed

  bool done(uint64_t seq) const {
    return openreg_queue_done(queue, seq);
  }
  // The last packet on the queue. The owner of an external queue submits packets too.
  uint64_t last() const {
    return id < kOwnStreams ? last_seq.load(std::memory_order_acquire)
                            : openreg_queue_submitted(queue);
  }
};

// A packet, and the number of its stream's resets at submission.
struct Sent {
  uint64_t seq;
  uint64_t resets;
};

StreamState& stream_state(const c10::Stream& stream);
// The calling thread's stream of the device.
StreamState& current_stream_state(c10::DeviceIndex index);

c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream default_stream(c10::DeviceIndex index);
// The next stream of the pool. A priority below 0 is high.
c10::Stream pool_stream(c10::DeviceIndex index, int priority);
// The stream of a queue that the program has created with device(index).handle. The
// program must not destroy the queue: synchronize_device() uses it. The same queue gives
// the same stream.
c10::Stream external_stream(c10::DeviceIndex index, openreg_queue* queue);
// Makes the stream the calling thread's current stream of its device. Returns the
// previous stream.
c10::Stream exchange_stream(const c10::Stream& stream);

// The memory of the clocks of the device's streams.
openreg_bo* stream_words(c10::DeviceIndex index);

// The streams that have a queue.
std::vector<StreamState*> open_streams(c10::DeviceIndex index);

// Sleeps until the packet and the packets that it waits for have completed. Throws if
// that cannot happen: its queue has faulted, or a queue that it waits for, directly or
// through other queues. Faults of unrelated queues do not matter.
void wait_seq(StreamState& stream, uint64_t seq);
// Like wait_seq(), for a caller that holds no mutex. Signal handlers run during the wait;
// an exception from a handler ends the wait.
void wait_interruptibly(StreamState& stream, uint64_t seq);
// Like wait_seq(), for a copy to the host. Throws if a reset has dropped the copy.
void wait_read(StreamState& stream, const Sent& read);
// Whether the packet has completed. Throws like wait_seq().
bool query_seq(StreamState& stream, uint64_t seq);
// Throws like wait_seq(). Returns if the packet may still complete.
void check_reachable(StreamState& stream, uint64_t seq);
// Like query_seq(), but never throws. For the allocator, which asks for old packets.
bool reached(StreamState& stream, uint64_t seq);
// Sleeps until the packets up to this one, and the packets that they wait for, cannot
// access memory any more: they have completed, or their queue has faulted. Returns false
// if they are stuck behind another queue's fault: they may still run after a reset.
bool settle(StreamState& stream, uint64_t seq);
// Makes the stream's later packets wait for a SIGNAL of another stream. The caller holds
// stream.mutex.
void submit_wait_locked(
    StreamState& stream,
    StreamState& on,
    uint64_t signal_seq,
    uint64_t signal_value);
// The same for the SIGNAL of another process that raises the word to the value.
void submit_wait_locked(
    StreamState& stream,
    std::shared_ptr<const ForeignWord> word,
    uint64_t value);
// Whether the SIGNAL of the WAIT can never come: its process has ended.
bool is_lost(const PendingWait& wait);
// The listed WAITs after packet seq.
std::vector<PendingWait> waits_behind(StreamState& stream, uint64_t seq);
void synchronize_stream(StreamState& stream);
// Waits for all streams of the device. Does nothing if the device was never opened.
void synchronize_device(c10::DeviceIndex index);

// Restarts faulted queues, and queues that wait for a process that has ended. Their
// unfinished packets are dropped, except WAITs and SIGNALs.
void reset_device(c10::DeviceIndex index);

// Throws if the stream's queue has faulted, or its communicator is broken.
void check_fault(StreamState& stream);
// Throws after a failed call of the library on the stream's queue: the queue's fault, or
// else the error.
[[noreturn]] void fail_stream(StreamState& stream, int error);

} // namespace openreg
#pragma GCC visibility pop
