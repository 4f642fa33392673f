// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/allocator.h"

#include <c10/util/Exception.h>
#include <c10/util/flat_hash_map.h>

#include <array>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/block_pool.h"
#include "runtime/copy.h"
#include "runtime/gil.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingAllocator::format_size;
using c10::CachingDeviceAllocator::DeviceStats;
using Action = TraceEntry::Action;

constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kLargeRequest = size_t{10} << 20; // from here on, one segment a block
constexpr size_t kSegmentRound = size_t{2} << 20;

void add(StatArray& stats, const Block& b, size_t n) {
  stats[static_cast<size_t>(StatType::AGGREGATE)].increase(n);
  stats[b.small() ? 1 : 2].increase(n);
}

void sub(StatArray& stats, const Block& b, size_t n) {
  stats[static_cast<size_t>(StatType::AGGREGATE)].decrease(n);
  stats[b.small() ? 1 : 2].decrease(n);
}

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

class DeviceCache {
 public:
  Block* allocate(size_t bytes, c10::DeviceIndex index);
  void free(uint64_t addr);
  void record(uint64_t addr, StreamState* stream);
  void empty();
  MemorySnapshot snapshot(bool traces);

  std::mutex mutex; // its holder may sleep: lock it with SleepyLock
  DeviceStats stats;
  History history;
  double fraction = 1;

 private:
  Block* take_cached(size_t size, StreamState* stream);
  Block* take_segment(size_t size, StreamState* stream, Device& dev);
  Block* new_segment(size_t size, size_t bytes, StreamState* stream, Device&);
  void cut(Block* block, size_t size);
  void give_back(Block* block);
  void finish_pending(bool wait);
  void release_segments();
  void release(BlockPool& pool);
  [[noreturn]] void out_of_memory(size_t bytes, Device& dev);
  BlockPool& pool(StreamState* stream);
  size_t limit(const Device& dev) const;
  void note(Action, const Block& block, size_t bytes, const Context& context);

  std::array<std::unique_ptr<BlockPool>, kStreams> pools_; // by stream id
  ska::flat_hash_map<uint64_t, Block*> allocated_; // by address
  std::map<uint64_t, std::unique_ptr<Segment>> segments_; // by address
  std::deque<Block*> pending_; // freed, but still in use on another stream
  c10::DeviceIndex index_ = 0;
};

void DeviceCache::note(
    Action action,
    const Block& block,
    size_t bytes,
    const Context& context) {
  history.add(action, index_, block.addr, bytes, block.stream, context);
}

size_t DeviceCache::limit(const Device& dev) const {
  if (fraction >= 1)
    return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(
      fraction * static_cast<double>(dev.info.vram_size));
}

BlockPool& DeviceCache::pool(StreamState* stream) {
  auto& pool = pools_[stream->id];
  if (C10_UNLIKELY(!pool))
    pool = std::make_unique<BlockPool>();
  return *pool;
}

Block* DeviceCache::take_cached(size_t size, StreamState* stream) {
  Block* block = pool(stream).take(size);
  if (block && block->split())
    sub(stats.inactive_split, *block, 1),
        sub(stats.inactive_split_bytes, *block, block->size);
  return block;
}

Block* DeviceCache::new_segment(
    size_t size,
    size_t bytes,
    StreamState* stream,
    Device& dev) {
  const auto reserved = static_cast<size_t>(stats.reserved_bytes[0].current);
  const size_t most = limit(dev);
  if (bytes > dev.info.max_bo_size || reserved > most || bytes > most - reserved)
    return nullptr;
  openreg_bo* bo = nullptr;
  const int error = openreg_bo_alloc(dev.handle, bytes, OPENREG_BO_VRAM, &bo);
  if (error == -ENOSPC || error == -ENOMEM)
    return nullptr;
  if (error)
    fail("device memory cannot be allocated", error);
  stats.num_device_alloc++;
  Block* block = new Block;
  block->addr = openreg_bo_address(bo);
  auto& segment = segments_[block->addr];
  segment.reset(new Segment{bo, block, bytes, nullptr});
  block->segment = segment.get();
  block->size = bytes;
  block->stream = stream;
  block->device = dev.index;
  block->pool_small = size <= kSmallBlock;
  add(stats.segment, *block, 1);
  add(stats.reserved_bytes, *block, bytes);
  if (bytes >= kLargeRequest)
    stats.oversize_segments.increase(1);
  note(Action::SEGMENT_ALLOC, *block, bytes, nullptr);
  return block;
}

Block* DeviceCache::take_segment(
    size_t size,
    StreamState* stream,
    Device& dev) {
  const size_t round = (size + kSegmentRound - 1) / kSegmentRound * kSegmentRound;
  const size_t wanted = size <= kSmallBlock ? kSmallSegment
      : size < kLargeRequest               ? kLargeSegment
                                           : round;
  Block* block = new_segment(size, wanted, stream, dev);
  if (block)
    return block;
  // The card is full: release the cached segments and try again.
  stats.num_alloc_retries++;
  finish_pending(true);
  release_segments();
  block = new_segment(size, wanted, stream, dev);
  return block || wanted == round ? block
                                  : new_segment(size, round, stream, dev);
}

// Splits the block after size bytes. Keeps it whole if the rest would be too small.
void DeviceCache::cut(Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (block->small() ? rest < kBlockRound : rest <= kSmallBlock)
    return;
  Block* tail = block->cut(size);
  add(stats.inactive_split, *tail, 1);
  add(stats.inactive_split_bytes, *tail, tail->size);
  pool(tail->stream).put(tail);
}

Block* DeviceCache::allocate(size_t bytes, c10::DeviceIndex index) {
  Device& dev = device(index);
  StreamState* stream = &current_stream_state(index);
  const size_t size = (bytes + kBlockRound - 1) / kBlockRound * kBlockRound;
  Context context = gather_context(RecordContext::STATE);
  const SleepyLock lock(mutex);
  index_ = index;
  if (C10_UNLIKELY(bytes > dev.info.max_bo_size))
    out_of_memory(bytes, dev); // check first: the rounded size may have wrapped
  if (C10_UNLIKELY(!pending_.empty()))
    finish_pending(false);
  Block* block = take_cached(size, stream);
  if (C10_UNLIKELY(!block)) {
    block = take_segment(size, stream, dev);
    if (!block)
      out_of_memory(bytes, dev);
    block->segment->context = context;
  }
  cut(block, size);
  block->used = block->allocated = true;
  block->requested = bytes;
  add(stats.allocation, *block, 1);
  add(stats.allocated_bytes, *block, block->size);
  add(stats.active, *block, 1);
  add(stats.active_bytes, *block, block->size);
  add(stats.requested_bytes, *block, bytes);
  if (block->size >= kLargeRequest)
    stats.oversize_allocations.increase(1);
  note(Action::ALLOC, *block, block->size, context);
  block->context = std::move(context);
  allocated_[block->addr] = block;
  return block;
}

void DeviceCache::free(uint64_t addr) {
  Context context = gather_context(RecordContext::ALL);
  const SleepyLock lock(mutex);
  const auto found = allocated_.find(addr);
  Block* block = found->second;
  allocated_.erase(found);
  if (block->size >= kLargeRequest)
    stats.oversize_allocations.decrease(1);
  note(Action::FREE_REQUESTED, *block, block->size, context);
  block->allocated = false;
  sub(stats.allocation, *block, 1);
  sub(stats.allocated_bytes, *block, block->size);
  sub(stats.requested_bytes, *block, block->requested);
  if (C10_LIKELY(block->uses.empty())) {
    give_back(block);
    return;
  }
  for (BlockUse& use : block->uses)
    use.seq = use.stream->last();
  pending_.push_back(block);
}

void DeviceCache::give_back(Block* block) {
  note(Action::FREE_COMPLETED, *block, block->size, nullptr);
  block->context = nullptr;
  sub(stats.active, *block, 1);
  sub(stats.active_bytes, *block, block->size);
  block->used = false;
  BlockPool& home = pool(block->stream);
  for (Block* neighbour : {block->prev, block->next}) {
    if (!neighbour || neighbour->used)
      continue;
    sub(stats.inactive_split, *neighbour, 1);
    sub(stats.inactive_split_bytes, *neighbour, neighbour->size);
    home.drop(neighbour);
    block->absorb(neighbour);
  }
  if (block->split()) {
    add(stats.inactive_split, *block, 1);
    add(stats.inactive_split_bytes, *block, block->size);
  }
  home.put(block);
}

void DeviceCache::record(uint64_t addr, StreamState* stream) {
  const SleepyLock lock(mutex);
  const auto found = allocated_.find(addr);
  if (found == allocated_.end())
    return; // another library owns this memory
  Block* block = found->second;
  if (stream == block->stream)
    return;
  for (const BlockUse& use : block->uses)
    if (use.stream == stream)
      return;
  block->uses.push_back({stream, 0});
}

void DeviceCache::finish_pending(bool wait) {
  for (size_t n = pending_.size(); n > 0; n--) {
    Block* block = pending_.front();
    bool done = true;
    for (const BlockUse& use : block->uses)
      done = done &&
          (wait ? settle(*use.stream, use.seq) : reached(*use.stream, use.seq));
    pending_.pop_front();
    if (!done) {
      pending_.push_back(block);
      continue;
    }
    block->uses.clear();
    give_back(block);
  }
}

// Releases the free segments of every stream that has drained. A stuck stream keeps its
// segments: its packets may run later, and would fault on a dead segment.
void DeviceCache::release_segments() {
  stats.num_sync_all_streams++;
  for (StreamState* s : open_streams(index_))
    if (auto& pool = pools_[s->id];
        pool && settle(*s, s->last()))
      release(*pool);
}

void DeviceCache::release(BlockPool& pool) {
  for (Block* block : pool.take_whole()) {
    sub(stats.segment, *block, 1);
    sub(stats.reserved_bytes, *block, block->size);
    if (block->size >= kLargeRequest)
      stats.oversize_segments.decrease(1);
    stats.num_device_free++;
    note(Action::SEGMENT_FREE, *block, block->size, nullptr);
    openreg_bo_free(block->segment->bo);
    segments_.erase(block->addr);
    delete block;
  }
}

void DeviceCache::empty() {
  if (in_bad_fork())
    return;
  const SleepyLock lock(mutex);
  if (!device_opened(index_))
    return;
  finish_pending(true);
  release_segments();
}

MemorySnapshot DeviceCache::snapshot(bool traces) {
  const SleepyLock lock(mutex);
  MemorySnapshot found;
  for (const auto& [addr, segment] : segments_)
    found.segments.push_back(describe(*segment));
  history.add(Action::SNAPSHOT, index_, 0, 0, nullptr, nullptr);
  if (traces)
    found.trace = history.entries();
  return found;
}

void DeviceCache::out_of_memory(size_t bytes, Device& dev) {
  stats.num_ooms++;
  openreg_memory_info info{};
  openreg_device_get_memory(dev.handle, &info);
  history.add(Action::OOM, index_, info.vram_free, bytes, nullptr, nullptr);
  const auto allocated = stats.allocated_bytes[0].current;
  const auto reserved = stats.reserved_bytes[0].current;
  const std::string share = fraction < 1
      ? "; set_per_process_memory_fraction() allows it " +
          format_size(limit(dev))
      : "";
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "openreg out of memory. Tried to allocate ",
      format_size(bytes),
      ". openreg:",
      static_cast<int>(dev.index),
      " has ",
      format_size(info.vram_total),
      " of which ",
      format_size(info.vram_free),
      " are free, the largest block ",
      format_size(info.vram_largest),
      ". This process holds ",
      format_size(allocated),
      " in tensors and ",
      format_size(reserved - allocated),
      " in its cache",
      share,
      ". Free tensors, use a smaller batch, call "
      "torch.openreg.empty_cache() in processes that are done, or give the card "
      "more memory by ",
      std::string_view(dev.info.path).starts_with("sim:")
          ? "OPENREG_SIM_VRAM or scripts/sim --vram."
          : "scripts/vm --vram.");
}

DeviceCache& cache(c10::DeviceIndex index) {
  static auto* all = new std::array<DeviceCache, kMaxDevices>;
  return (*all)[index];
}

// Refuse a forked child: a thread of the parent may have held the cache's mutex.
DeviceCache& checked_cache(c10::DeviceIndex index) {
  check_fork();
  check_index(index);
  return cache(index);
}

// The context of the DataPtr is the address itself: core makes a storage copy-on-write
// only if data and context are the same pointer.
void free_block(void* address) {
  if (C10_UNLIKELY(in_bad_fork()))
    return; // the parent owns the block, and its threads may have held the mutex
  cache(device_of_pointer(address)).free(reinterpret_cast<uint64_t>(address));
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
        cache(i).empty();
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (ptr.get())
      cache(ptr.device().index())
          .record(reinterpret_cast<uint64_t>(ptr.get()), &stream_state(stream));
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

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex index) {
  const c10::Device where = torch_device(index);
  if (C10_UNLIKELY(bytes == 0)) {
    check_index(index);
    return {nullptr, where};
  }
  Block* block = cache(index).allocate(bytes, index);
  void* address = reinterpret_cast<void*>(block->addr);
  return {address, address, &free_block, where};
}

} // namespace openreg
