// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory_history.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <atomic>

namespace openreg {
namespace {

struct Settings {
  std::atomic<bool> trace{false};
  std::atomic<RecordContext> context{RecordContext::NEVER};
  std::atomic<bool> native_frames{false};
  std::atomic<size_t> max_entries{0};
};

Settings& settings() {
  static auto* settings = new Settings;
  return *settings;
}

// The converter is valid only for times after its construction.
c10::ApproximateClockToUnixTimeConverter& clock_converter() {
  static auto* converter = new c10::ApproximateClockToUnixTimeConverter;
  return *converter;
}

// Returns the stream's id as a pointer. Core's field is for the native stream's address.
void* stream_mark(const StreamState* stream) {
  return reinterpret_cast<void*>(stream ? stream->id : 0);
}

c10::CachingDeviceAllocator::BlockInfo describe(const Block& block) {
  c10::CachingDeviceAllocator::BlockInfo info;
  info.size = block.size;
  info.requested_size = block.used ? block.requested : 0;
  info.allocated = block.allocated;
  info.active = block.used;
  info.context_when_allocated = block.context;
  return info;
}

} // namespace

void set_history(const HistoryOptions& options) {
  clock_converter();
  Settings& s = settings();
  s.native_frames = options.native_frames;
  s.max_entries = std::max<size_t>(options.max_entries, 1);
  s.context = options.context;
  s.trace = options.trace;
}

std::function<c10::time_t(c10::approx_time_t)> to_unix_time() {
  return clock_converter().makeConverter();
}

bool history_enabled() {
  return settings().trace.load(std::memory_order_relaxed);
}

Context gather_context(RecordContext level) {
  const Settings& s = settings();
  if (C10_LIKELY(s.context.load(std::memory_order_relaxed) < level))
    return nullptr;
  return torch::CapturedTraceback::gather(true, true, s.native_frames);
}

void History::add(
    TraceEntry::Action action,
    c10::DeviceIndex device,
    uint64_t addr,
    size_t size,
    const StreamState* stream,
    Context context) {
  if (C10_LIKELY(!history_enabled()))
    return;
  if (settings().context.load() < RecordContext::ALLOC)
    context = nullptr;
  TraceEntry entry(
      action,
      device,
      addr,
      size,
      stream_mark(stream),
      {0, 0},
      c10::getApproximateTime(),
      std::move(context));
  const size_t most = settings().max_entries.load();
  if (ring_.size() > most) // the limit was larger before
    clear();
  if (ring_.size() < most) {
    std::rotate(ring_.begin(), ring_.begin() + next_, ring_.end());
    next_ = 0;
    ring_.push_back(std::move(entry));
  } else {
    ring_[next_] = std::move(entry);
    next_ = (next_ + 1) % most;
  }
}

void History::clear() {
  ring_.clear();
  next_ = 0;
}

std::vector<TraceEntry> History::entries() const {
  std::vector<TraceEntry> all(ring_.begin() + next_, ring_.end());
  all.insert(all.end(), ring_.begin(), ring_.begin() + next_);
  return all;
}

SegmentInfo describe(const Segment& segment) {
  const Block* first = segment.first;
  SegmentInfo info;
  info.device = first->device;
  info.address = first->addr;
  info.total_size = segment.size;
  info.stream = stream_mark(first->stream);
  info.is_large = !first->small();
  info.context_when_allocated = segment.context;
  for (const Block* block = first; block; block = block->next) {
    info.blocks.push_back(describe(*block));
    const auto& one = info.blocks.back();
    info.active_size += one.active ? one.size : 0;
    info.allocated_size += one.allocated ? one.size : 0;
    info.requested_size += one.allocated ? one.requested_size : 0;
  }
  return info;
}

} // namespace openreg
