// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device_cache.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "runtime/checks.h"

namespace openreg {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kLargeRequest = size_t{10} << 20; // from here on, one segment a block
constexpr size_t kSegmentRound = size_t{2} << 20;
constexpr size_t kPage = 4096;

void add(StatArray& stats, const Block& b, size_t n) {
  stats[static_cast<size_t>(StatType::AGGREGATE)].increase(n);
  stats[b.small() ? 1 : 2].increase(n);
}

void sub(StatArray& stats, const Block& b, size_t n) {
  stats[static_cast<size_t>(StatType::AGGREGATE)].decrease(n);
  stats[b.small() ? 1 : 2].decrease(n);
}

} // namespace

void DeviceCache::note(
    Action action,
    const Block& block,
    size_t bytes,
    const Context& context) {
  history.add(action, index_, block.addr, bytes, block.stream, context);
}

// Tells the profiler of memory; bytes is negative if it was freed.
void DeviceCache::report(uint64_t addr, int64_t bytes) const {
  c10::reportMemoryUsageToProfiler(
      reinterpret_cast<void*>(addr),
      bytes,
      static_cast<size_t>(stats.allocated_bytes[0].current),
      static_cast<size_t>(stats.reserved_bytes[0].current),
      torch_device(index_));
}

size_t DeviceCache::limit(const Device& dev) const {
  if (fraction >= 1)
    return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(
      fraction * static_cast<double>(dev.info.vram_size));
}

BlockPool& DeviceCache::pool(StreamState* stream, PrivatePool* owner) {
  auto& pool = (owner ? owner->pools : pools_)[stream->id];
  if (C10_UNLIKELY(!pool))
    pool = std::make_unique<BlockPool>();
  return *pool;
}

Block* DeviceCache::take_cached(size_t size, StreamState* stream) {
  Block* block = pool(stream, stream->private_pool).take(size);
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
  return add_segment(bo, size, bytes, stream, dev);
}

// Makes a segment of the BO, and one block of all of it.
Block* DeviceCache::add_segment(
    openreg_bo* bo,
    size_t size,
    size_t bytes,
    StreamState* stream,
    Device& dev) {
  Block* block = new Block;
  block->addr = openreg_bo_address(bo);
  auto& segment = segments_[block->addr];
  segment.reset(new Segment{bo, block, bytes, nullptr});
  block->segment = segment.get();
  block->size = bytes;
  block->stream = stream;
  block->device = dev.index;
  block->owner = stream->private_pool;
  if (block->owner)
    block->owner->segments++;
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
  Block* block =
      with_room([&] { return new_segment(size, wanted, stream, dev); });
  return block || wanted == round ? block
                                  : new_segment(size, round, stream, dev);
}

// If the card is full, releases the cached segments and tries again.
template <class F>
Block* DeviceCache::with_room(F allocate) {
  if (Block* block = allocate())
    return block;
  stats.num_alloc_retries++;
  finish_pending(true);
  release_segments();
  return allocate();
}

// Splits the block after size bytes. Keeps it whole if the rest would be too small.
void DeviceCache::cut(Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (block->small() ? rest < kBlockRound : rest <= kSmallBlock)
    return;
  Block* tail = block->cut(size);
  add(stats.inactive_split, *tail, 1);
  add(stats.inactive_split_bytes, *tail, tail->size);
  pool(tail->stream, tail->owner).put(tail);
}

Block* DeviceCache::allocate(size_t bytes, c10::DeviceIndex index) {
  Device& dev = device(index);
  StreamState* stream = &current_stream_state(index);
  const size_t wanted = bytes + (C10_UNLIKELY(card_checks(dev)) ? kRedZone : 0);
  const size_t size = (wanted + kBlockRound - 1) / kBlockRound * kBlockRound;
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
  begin_use(block, bytes, std::move(context));
  return block;
}

Block* DeviceCache::allocate_shared(size_t bytes, c10::DeviceIndex index) {
  Device& dev = device(index);
  StreamState* stream = &current_stream_state(index);
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  Context context = gather_context(RecordContext::STATE);
  const SleepyLock lock(mutex);
  index_ = index;
  Block* block = with_room([&] { return new_segment(size, size, stream, dev); });
  if (!block)
    out_of_memory(bytes, dev);
  block->segment->context = context;
  block->segment->shared = true;
  begin_use(block, bytes, std::move(context));
  return block;
}

Block* DeviceCache::receive(openreg_bo* bo, size_t bytes, c10::DeviceIndex index) {
  Device& dev = device(index);
  StreamState* stream = &current_stream_state(index);
  Context context = gather_context(RecordContext::STATE);
  const SleepyLock lock(mutex);
  index_ = index;
  const auto known = segments_.find(openreg_bo_address(bo));
  if (known == segments_.end()) {
    const size_t size = openreg_bo_size(bo);
    Block* block = add_segment(bo, size, size, stream, dev);
    block->segment->shared = block->segment->received = true;
    begin_use(block, bytes, std::move(context));
    return block;
  }
  // The process has the BO already: its storage is just being freed in another thread, or
  // was freed while a stream still uses it.
  openreg_bo_free(bo);
  Block* block = known->second->first;
  if (stream != block->stream)
    block->uses.push_back({stream, 0});
  if (block->allocated) {
    block->segment->more_owners++;
    return block;
  }
  std::erase(pending_, block);
  sub(stats.active, *block, 1);
  sub(stats.active_bytes, *block, block->size);
  begin_use(block, bytes, std::move(context));
  return block;
}

void DeviceCache::begin_use(Block* block, size_t bytes, Context context) {
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
  report(block->addr, static_cast<int64_t>(block->size));
}

void DeviceCache::free(uint64_t addr) {
  Context context = gather_context(RecordContext::ALL);
  const SleepyLock lock(mutex);
  const auto found = allocated_.find(addr);
  Block* block = found->second;
  const bool shared = block->segment->shared;
  if (C10_UNLIKELY(shared && block->segment->more_owners > 0)) {
    block->segment->more_owners--;
    return;
  }
  allocated_.erase(found);
  if (block->size >= kLargeRequest)
    stats.oversize_allocations.decrease(1);
  note(Action::FREE_REQUESTED, *block, block->size, context);
  block->allocated = false;
  for (const auto& watch : block->watches)
    watch->lost = block->addr;
  block->watches.clear();
  sub(stats.allocation, *block, 1);
  sub(stats.allocated_bytes, *block, block->size);
  sub(stats.requested_bytes, *block, block->requested);
  report(addr, -static_cast<int64_t>(block->size));
  const bool parked = block->owner && block->owner->parks && block->owner->capturing;
  if (C10_LIKELY(block->uses.empty() && !parked && !shared)) {
    give_back(block);
    return;
  }
  if (shared) // packets of its own stream would fault without the BO
    block->uses.push_back({block->stream, 0});
  for (BlockUse& use : block->uses)
    use.seq = use.stream->last();
  pending_.push_back(block);
  if (shared)
    finish_pending(false);
}

void DeviceCache::give_back(Block* block) {
  note(Action::FREE_COMPLETED, *block, block->size, nullptr);
  block->context = nullptr;
  sub(stats.active, *block, 1);
  sub(stats.active_bytes, *block, block->size);
  block->used = false;
  if (block->segment->shared) {
    release(block);
    return;
  }
  BlockPool& home = pool(block->stream, block->owner);
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

bool DeviceCache::finished(const Block& block, bool wait) {
  // The other streams' packets may be in the capture: only its end orders them. A
  // capture may also ask that its blocks are not used again.
  bool done = !block.owner || !block.owner->capturing;
  for (const BlockUse& use : block.uses)
    done = done &&
        (wait ? settle(*use.stream, use.seq) : reached(*use.stream, use.seq));
  return done;
}

void DeviceCache::finish_pending(bool wait) {
  for (size_t n = pending_.size(); n > 0; n--) {
    Block* block = pending_.front();
    const bool done = finished(*block, wait);
    pending_.pop_front();
    if (!done) {
      pending_.push_back(block);
      continue;
    }
    block->uses.clear();
    give_back(block);
  }
}

// Releases the free segments of every stream that has drained, and of the pools whose
// graphs are gone. A stuck stream keeps its segments: its packets may run later, and would
// fault on a dead segment. It also keeps those pools: packets of any stream may read the
// results of a graph, which belong to the stream of the capture.
void DeviceCache::release_segments() {
  stats.num_sync_all_streams++;
  for (StreamState* s : open_streams(index_))
    if (auto& pool = pools_[s->id];
        pool && settle(*s, s->last()))
      release(*pool);
  bool drained = true;
  for (auto& [id, pool] : private_) {
    if (pool->graphs)
      continue;
    for (StreamState* s : open_streams(index_))
      drained = drained && settle(*s, s->last());
    if (drained)
      for (auto& of_stream : pool->pools)
        if (of_stream)
          release(*of_stream);
  }
  std::erase_if(private_, [](const auto& entry) {
    return !entry.second->graphs && !entry.second->segments;
  });
}

void DeviceCache::release(BlockPool& pool) {
  for (Block* block : pool.take_whole())
    release(block);
}

void DeviceCache::release(Block* block) {
  sub(stats.segment, *block, 1);
  sub(stats.reserved_bytes, *block, block->size);
  if (block->size >= kLargeRequest)
    stats.oversize_segments.decrease(1);
  stats.num_device_free++;
  note(Action::SEGMENT_FREE, *block, block->size, nullptr);
  openreg_bo_free(block->segment->bo);
  if (block->owner)
    block->owner->segments--;
  segments_.erase(block->addr);
  delete block;
}

void DeviceCache::collect() {
  const SleepyLock lock(mutex);
  finish_pending(false);
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

PrivatePool& DeviceCache::open_pool(c10::MempoolId_t id, c10::DeviceIndex index) {
  const SleepyLock lock(mutex);
  index_ = index;
  auto& pool = private_[id];
  if (!pool)
    pool = std::make_unique<PrivatePool>();
  pool->id = id;
  pool->graphs++;
  return *pool;
}

void DeviceCache::close_pool(PrivatePool& pool) {
  const SleepyLock lock(mutex);
  if (!--pool.graphs && !pool.segments)
    private_.erase(c10::MempoolId_t(pool.id));
}

Block* DeviceCache::find(uint64_t addr) {
  auto after = segments_.upper_bound(addr);
  if (after == segments_.begin())
    return nullptr;
  const Segment& segment = *std::prev(after)->second;
  for (Block* block = segment.first; block; block = block->next)
    if (addr < block->addr + block->size)
      return block;
  return nullptr;
}

void DeviceCache::watch(
    uint64_t addr,
    const PrivatePool& pool,
    const std::shared_ptr<Watch>& watch) {
  const SleepyLock lock(mutex);
  Block* block = find(addr);
  if (!block || block->owner == &pool)
    return;
  if (!block->allocated) {
    watch->lost = addr;
    return;
  }
  auto& all = block->watches;
  if (!all.empty() && all.back() == watch)
    return;
  std::erase_if(all, [](const auto& other) {
    return other.use_count() == 1; // its graph is gone
  });
  all.push_back(watch);
}

DeviceCache& device_cache(c10::DeviceIndex index) {
  static auto* all = new std::array<DeviceCache, kMaxDevices>;
  return (*all)[index];
}

} // namespace openreg
