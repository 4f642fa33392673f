// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/allocator.h"

#include <c10/util/Exception.h>

#include <vector>

#include "runtime/checks.h"
#include "runtime/copy.h"
#include "runtime/device_cache.h"
#include "runtime/format.h"
#include "runtime/gil.h"
#include "runtime/gpu_trace.h"
#include "runtime/peer_memory.h"

namespace openreg {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

template <typename F>
void for_each_array(DeviceStats& s, F f) {
  for (StatArray* a :
       {&s.allocation,
        &s.segment,
        &s.active,
        &s.inactive_split,
        &s.allocated_bytes,
        &s.reserved_bytes,
        &s.active_bytes,
        &s.inactive_split_bytes,
        &s.requested_bytes})
    for (Stat& stat : *a)
      f(stat);
}

// Refuse a forked child: a thread of the parent may have held the cache's mutex.
DeviceCache& checked_cache(c10::DeviceIndex index) {
  check_fork();
  check_index(index);
  return device_cache(index);
}

// The context of the DataPtr is the address itself: core makes a storage copy-on-write
// only if data and context are the same pointer.
void free_block(void* address) {
  if (C10_UNLIKELY(in_bad_fork()))
    return; // the parent owns the block, and its threads may have held the mutex
  gpu_trace(&GpuTrace::trace_gpu_memory_deallocation, address);
  device_cache(device_of_pointer(address)).free(reinterpret_cast<uint64_t>(address));
}

c10::DataPtr pointer(const Block* block) {
  void* address = reinterpret_cast<void*>(block->addr);
  return {address, address, &free_block, torch_device(block->device)};
}

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return openreg::allocate(bytes, current_device());
  }

  // Copies the memory of a copy-on-write storage before its first write.
  void copy_data(void* to, const void* from, size_t bytes) const override {
    if (bytes > 0)
      copy_bytes(to, from, bytes);
  }

  bool initialized() override {
    for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
      if (device_opened(i))
        return true;
    return false;
  }

  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
      if (device_opened(i))
        device_cache(i).empty();
    collect_peer_memory();
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (ptr.get())
      device_cache(ptr.device().index())
          .record(reinterpret_cast<uint64_t>(real_address(ptr.get())), &stream_state(stream));
  }

  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    DeviceCache& c = checked_cache(index);
    const SleepyLock lock(c.mutex);
    return c.stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex index) override {
    DeviceCache& c = checked_cache(index);
    const SleepyLock lock(c.mutex);
    for_each_array(c.stats, [](Stat& s) { s.reset_accumulated(); });
    c.stats.num_alloc_retries = 0;
    c.stats.num_ooms = 0;
    c.stats.num_sync_all_streams = 0;
    c.stats.num_device_alloc = 0;
    c.stats.num_device_free = 0;
    c.stats.oversize_segments.reset_accumulated();
    c.stats.oversize_allocations.reset_accumulated();
  }

  void resetPeakStats(c10::DeviceIndex index) override {
    DeviceCache& c = checked_cache(index);
    const SleepyLock lock(c.mutex);
    for_each_array(c.stats, [](Stat& s) { s.reset_peak(); });
    c.stats.oversize_segments.reset_peak();
    c.stats.oversize_allocations.reset_peak();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    checked_cache(index);
    openreg_memory_info info;
    const int error = openreg_device_get_memory(device(index).handle, &info);
    if (error)
      fail("the card's memory cannot be queried", error);
    return {info.vram_free, info.vram_total};
  }

};

DeviceAllocator& instance() {
  static auto* allocator = new DeviceAllocator;
  return *allocator;
}

const bool registered =
    (c10::SetAllocator(kDeviceType, &instance()), true);

} // namespace

c10::DeviceAllocator& device_allocator() {
  return instance();
}

void set_memory_fraction(c10::DeviceIndex index, double fraction) {
  DeviceCache& c = checked_cache(index);
  TORCH_CHECK_VALUE(
      fraction >= 0 && fraction <= 1,
      "the fraction of memory is between 0 and 1, not ",
      fraction);
  const SleepyLock lock(c.mutex);
  c.fraction = fraction;
}

double memory_fraction(c10::DeviceIndex index) {
  DeviceCache& c = checked_cache(index);
  const SleepyLock lock(c.mutex);
  return c.fraction;
}

MemorySnapshot memory_snapshot(c10::DeviceIndex index, bool traces) {
  return checked_cache(index).snapshot(traces);
}

void clear_history(c10::DeviceIndex index) {
  DeviceCache& c = checked_cache(index);
  const SleepyLock lock(c.mutex);
  c.history.clear();
}

namespace {

// A stream that waits for a signal of a freed symmetric tensor keeps its memory.
template <class F>
Block* collecting(c10::DeviceIndex index, F allocate) {
  try {
    return allocate();
  } catch (const c10::OutOfMemoryError&) {
    if (!finish_peer_memory(index))
      throw;
  }
  return allocate();
}

} // namespace

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex index) {
  const c10::Device where = torch_device(index);
  if (C10_UNLIKELY(bytes == 0)) {
    check_index(index);
    return {nullptr, where};
  }
  Block* block = collecting(
      index, [&] { return device_cache(index).allocate(bytes, index); });
  if (C10_UNLIKELY(checks_on.load(std::memory_order_relaxed)))
    note_block(block->addr, bytes, block->size - bytes, index);
  gpu_trace(&GpuTrace::trace_gpu_memory_allocation, reinterpret_cast<void*>(block->addr));
  return pointer(block);
}

c10::DataPtr allocate_shared(size_t bytes, c10::DeviceIndex index) {
  return pointer(
      collecting(index, [&] { return device_cache(index).allocate_shared(bytes, index); }));
}

c10::DataPtr receive_block(openreg_bo* bo, size_t bytes, c10::DeviceIndex index) {
  return pointer(device_cache(index).receive(bo, bytes, index));
}

bool owns(const c10::DataPtr& ptr) {
  return ptr.get_deleter() == &free_block && ptr.get_context() == ptr.get();
}

void move_between_blocks(const void* from, const void* to, c10::DeviceIndex index) {
  const auto old = reinterpret_cast<uint64_t>(from), fresh = reinterpret_cast<uint64_t>(to);
  DeviceCache& cache = device_cache(index);
  std::vector<StreamState*> users;
  cache.inspect(old, [&](const Block* block) {
    if (block == nullptr)
      return;
    users.push_back(block->stream);
    for (const BlockUse& use : block->uses)
      users.push_back(use.stream);
  });
  cache.record(old, &current_stream_state(index));
  for (StreamState* user : users)
    cache.record(fresh, user);
}

} // namespace openreg
