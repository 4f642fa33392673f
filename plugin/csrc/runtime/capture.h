// SPDX-License-Identifier: BSD-3-Clause
// While a graph is captured, the packets of some streams go to the graph instead of the
// card. The packets of all these streams are in one list, in the order in which the
// program launched them. That order respects the events between the streams.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/intrusive_ptr.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/block_pool.h"
#include "runtime/generator.h"
#include "runtime/launch.h"
#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

struct alignas(OPENREG_SLOT_SIZE) Slot {
  std::array<uint8_t, OPENREG_SLOT_SIZE> bytes;
};

// The packets for one LIST.
struct Run {
  size_t first; // slot
  uint32_t slots;
  uint32_t packets;
};

// A generator that captured packets draw from. Each number is the place of a word in the
// slots: the keys of RANDOM instructions are the seed, the counters the offset.
struct CapturedGenerator {
  c10::intrusive_ptr<RandomState> state;
  PhiloxState begin; // before the capture
  uint64_t increment = 0; // of the offset by one replay
  std::set<int64_t> keys;
  std::set<int64_t> counters;
};

struct Capture {
  c10::DeviceIndex device = 0;
  PrivatePool* pool = nullptr;
  std::shared_ptr<Watch> watch = std::make_shared<Watch>();
  std::mutex mutex; // guards all below; lock it after a stream's mutex
  bool ended = false;
  std::string failure; // why the graph is useless
  std::vector<StreamState*> streams;
  std::vector<Slot> slots;
  std::vector<Run> runs;
  std::vector<CapturedGenerator> generators;
  std::map<std::pair<uint64_t, uint64_t>, size_t> draws; // (seed, offset): its generator
  std::set<uint64_t> addresses; // of the operands
};

// Makes the stream's packets part of a new graph. A process captures one graph at a time.
std::shared_ptr<Capture> begin_capture(StreamState& stream, c10::MempoolId_t pool);
// The streams run their packets again. Throws if the capture has failed.
void end_capture(Capture& capture);

extern std::atomic<bool> capture_running;
// Whether this process captures a graph. One load.
inline bool capture_runs() {
  return capture_running.load(std::memory_order_relaxed);
}
// The running capture if it takes the stream's packets, else null.
std::shared_ptr<Capture> capture_of(const StreamState& stream);
// Whether the stream is captured, and neither the calling thread nor its current stream
// takes part in the capture.
bool captured_by_another_thread(const StreamState& stream);
// Makes a stream that waits for a captured stream part of the capture.
void join_capture(const std::shared_ptr<Capture>& capture, StreamState& stream);

// Returns true if the packet went to the graph. Throws if the stream's card cannot take
// part in the capture. The caller holds stream.mutex, and calls it if capture_runs().
bool capture_packet(StreamState& stream, const Packet& packet);
// Takes random streams while a graph is captured. If the current stream of the device is
// captured, notes that packets with these random streams draw from the generator. Throws
// on another stream if the capture draws from the generator: its end undoes all draws.
PhiloxState capture_draw(
    c10::DeviceIndex index,
    const c10::intrusive_ptr<RandomState>& state,
    uint64_t streams);
inline PhiloxState draw(
    c10::DeviceIndex index,
    const c10::intrusive_ptr<RandomState>& state,
    uint64_t streams) {
  return C10_UNLIKELY(capture_runs()) ? capture_draw(index, state, streams)
                                      : state->advance(streams);
}
// Throws if a running capture draws from the generator.
void refuse_captured(const c10::intrusive_ptr<RandomState>& state);

// Throws if the stream is captured: what it is asked to do cannot be part of a graph. what
// is a noun, advice a sentence.
void refuse_capture(const StreamState& stream, const char* what, const char* advice);
// The same for an operation that makes the calling thread wait for a stream.
void refuse_wait(const StreamState& stream);
// The same for the calling thread's current stream of the device.
void refuse_capture_on(c10::DeviceIndex index, const char* what, const char* advice);

c10::MempoolId_t new_pool_id();

} // namespace openreg
#pragma GCC visibility pop
