// SPDX-License-Identifier: BSD-3-Clause
// What the allocator of a device did, and where in the program: for
// torch.openreg.memory._record_memory_history() and the page that shows it.
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
  bool trace = false; // keep what happens, and not only what is
  RecordContext context = RecordContext::NEVER;
  bool native_frames = false; // of C++ as well
  size_t max_entries = 0;
};

// Of all devices.
void set_history(const HistoryOptions& options);
bool history_enabled();

// The stack of the calling thread if that is asked for at this level, else
// null. It may wait for the GIL: hold no lock.
Context gather_context(RecordContext level);

// A ring of the last entries. The cache that it belongs to guards it.
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
  std::vector<TraceEntry> entries() const; // the oldest first

 private:
  std::vector<TraceEntry> ring_;
  size_t next_ = 0;
};

struct MemorySnapshot {
  std::vector<SegmentInfo> segments;
  std::vector<TraceEntry> trace;
};

SegmentInfo describe(const Segment& segment);

// The time of an entry in nanoseconds since 1970.
std::function<c10::time_t(c10::approx_time_t)> to_unix_time();

} // namespace openreg
#pragma GCC visibility pop
