// SPDX-License-Identifier: BSD-3-Clause
// The plugin's part of a card that checks programs (OPENREG_CHECK, docs/sanitizers.md):
// tells the card the blocks of the allocator, and reports what the card finds with the
// names of operators and the stacks of their launches. Without such a card a launch loads
// one flag.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/block_pool.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

struct StreamState;

// A card of this process checks programs.
extern std::atomic<bool> checks_on;

bool card_checks(const Device& device);

// What the allocator leaves unused behind each block, at least, on a card that checks: a
// wrong access next to a tensor's memory does not meet another tensor.
constexpr size_t kRedZone = 256;

// Call it when a card has been opened.
void join_checks(const Device& device);

// The bytes are one block from the next packet of the current stream on, and nobody has
// written them. Its red zone follows. Launches a packet: the caller holds no lock.
void note_block(uint64_t addr, size_t bytes, size_t red_zone, c10::DeviceIndex device);

// From the next packet of the current stream on, the card checks no access to the storage's
// block for unwritten bytes or for its bounds any more: the plugin reads unwritten bytes, and
// does not use their values. Launches a packet.
void allow_unwritten(const c10::StorageImpl& storage);

// The number of packets that note_block() and allow_unwritten() have launched for a device.
// Those of a graph count once, at the capture.
uint64_t count_notes(c10::DeviceIndex device);

// Keeps the stack of the calling thread for the packets that it launches in this scope.
// The caller holds no lock: this may wait for the GIL.
class LaunchStack {
 public:
  LaunchStack() {
    if (C10_UNLIKELY(checks_on.load(std::memory_order_relaxed)))
      enter();
  }
  ~LaunchStack() {
    if (C10_UNLIKELY(entered_))
      leave();
  }
  LaunchStack(const LaunchStack&) = delete;
  LaunchStack& operator=(const LaunchStack&) = delete;

 private:
  void enter();
  void leave();

  bool entered_ = false;
  Context before_;
};

// Keeps the stack of this packet. The caller holds stream.mutex.
void keep_stack(StreamState& stream, uint64_t seq);

struct CheckedAccess {
  std::string op;
  c10::StreamId stream = -1; // -1: unknown
  uint64_t seq = 0;
  bool written = false;
  std::vector<std::string> stack; // innermost frame first; empty if it is not known
};

struct CheckFinding {
  std::string kind; // race, init or bounds
  std::string text; // the whole report
  c10::DeviceIndex device = 0;
  CheckedAccess access;
  CheckedAccess other; // of init and bounds: the allocation
  uint64_t addr = 0;
  uint64_t bytes = 0;
};

// Prints new findings to the file of OPENREG_CHECK_LOG, or to the standard error. The
// caller holds no lock.
void report_findings();
// Those printed so far.
std::vector<CheckFinding> findings();

} // namespace openreg
#pragma GCC visibility pop
