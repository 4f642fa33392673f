// SPDX-License-Identifier: BSD-3-Clause
// The history of a device's allocator: each action with the program's stack. For
// torch.openreg.memory._record_memory_history() and pytorch.org/memory_viz.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <functional>
#include <vector>

#include "runtime/block_pool.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::SegmentInfo;
using c10::CachingDeviceAllocator::TraceEntry;

struct HistoryOptions {
  bool trace = false; // record the actions, not only the present blocks
  RecordContext context = RecordContext::NEVER;
  bool native_frames = false; // record C++ frames too
  size_t max_entries = 0;
};

// Sets the options for all devices.
void set_history(const HistoryOptions& options);
bool history_enabled();

// Returns the calling thread's stack, or null if the options do not record this level.
// The caller must hold no lock: the function may wait for the GIL.
Context gather_context(RecordContext level);

// A ring of the last entries. The mutex of the owning DeviceCache guards it.
class History {
 public:
  void add(
      TraceEntry::Action action,
      c10::DeviceIndex device,
      uint64_t addr,
      size_t size,
      const StreamState* stream,
      Context context);
  void clear();
  std::vector<TraceEntry> entries() const; // oldest first

 private:
  std::vector<TraceEntry> ring_;
  size_t next_ = 0;
};

struct MemorySnapshot {
  std::vector<SegmentInfo> segments;
  std::vector<TraceEntry> trace;
};

SegmentInfo describe(const Segment& segment);

// Returns a function that converts an entry's time to nanoseconds since 1970.
std::function<c10::time_t(c10::approx_time_t)> to_unix_time();

} // namespace openreg
#pragma GCC visibility pop
