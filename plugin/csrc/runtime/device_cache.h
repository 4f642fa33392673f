// SPDX-License-Identifier: BSD-3-Clause
// The cache of one device's memory: its segments and blocks. allocator.h has the
// functions for other files.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/flat_hash_map.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/block_pool.h"
#include "runtime/gil.h"
#include "runtime/memory_history.h"

namespace openreg {

using c10::CachingDeviceAllocator::DeviceStats;

class DeviceCache {
 public:
  Block* allocate(size_t bytes, c10::DeviceIndex index);
  // Returns a block with a BO of its own, for memory that other processes get.
  Block* allocate_shared(size_t bytes, c10::DeviceIndex index);
  // Makes a block of another process's BO. Takes the caller's reference to the BO.
  Block* receive(openreg_bo* bo, size_t bytes, c10::DeviceIndex index);
  void free(uint64_t addr);
  void record(uint64_t addr, StreamState* stream);
  void empty();
  // Makes the private pool, or finds it. close_pool() undoes one open_pool().
  PrivatePool& open_pool(c10::MempoolId_t id, c10::DeviceIndex index);
  void close_pool(PrivatePool& pool);
  // Tells the watch when the block of this address is freed. Ignores the blocks of pool,
  // and memory that the allocator does not own.
  void watch(uint64_t addr, const PrivatePool& pool, const std::shared_ptr<Watch>& watch);
  // Calls f with the allocated block of this address, or with null.
  template <class F>
  auto inspect(uint64_t addr, F f) {
    const SleepyLock lock(mutex);
    const auto found = allocated_.find(addr);
    return f(found == allocated_.end() ? nullptr : found->second);
  }
  // Gives back the freed blocks that no stream uses any more.
  void collect();
  MemorySnapshot snapshot(bool traces);

  std::mutex mutex; // its holder may sleep: lock it with SleepyLock
  DeviceStats stats;
  History history;
  double fraction = 1;

 private:
  using Action = TraceEntry::Action;

  Block* take_cached(size_t size, StreamState* stream);
  Block* take_segment(size_t size, StreamState* stream, Device& dev);
  Block* new_segment(size_t size, size_t bytes, StreamState* stream, Device&);
  Block* add_segment(openreg_bo* bo, size_t size, size_t bytes, StreamState*, Device&);
  template <class F>
  Block* with_room(F allocate);
  void begin_use(Block* block, size_t bytes, Context context);
  bool finished(const Block& block, bool wait);
  Block* find(uint64_t addr);
  void cut(Block* block, size_t size);
  void give_back(Block* block);
  void finish_pending(bool wait);
  void release_segments();
  void release(BlockPool& pool);
  void release(Block* block);
  [[noreturn]] void out_of_memory(size_t bytes, Device& dev);
  BlockPool& pool(StreamState* stream, PrivatePool* owner);
  size_t limit(const Device& dev) const;
  void note(Action, const Block& block, size_t bytes, const Context& context);
  void report(uint64_t addr, int64_t bytes) const;

  std::array<std::unique_ptr<BlockPool>, kStreams> pools_; // by stream id
  ska::flat_hash_map<uint64_t, Block*> allocated_; // by address
  std::map<uint64_t, std::unique_ptr<Segment>> segments_; // by address
  std::map<c10::MempoolId_t, std::unique_ptr<PrivatePool>> private_;
  std::deque<Block*> pending_; // freed, but still in use on another stream
  c10::DeviceIndex index_ = 0;
};

DeviceCache& device_cache(c10::DeviceIndex index);

} // namespace openreg
