// SPDX-License-Identifier: MIT
// Lab 11: a caching allocator. lab11.hpp describes its functions.
#include "lab11.hpp"

#include <list>
#include <map>
#include <vector>

namespace {

constexpr size_t kAlign = 512;
constexpr size_t kShared = size_t{2} << 20; // a segment of small blocks

struct Segment {
  void* base;
  size_t size;
  int used = 0; // blocks in use or in `pending`
};

struct Mark {
  StreamState* stream;
  uint64_t seq;
};

struct Block {
  void* at;
  size_t size;
  Segment* segment;
  StreamState* owner;
  std::vector<Mark> marks; // other streams
};

bool passed(const Block& block) {
  for (const Mark& mark : block.marks) {
    if (!openreg::reached(*mark.stream, mark.seq)) {
      return false;
    }
  }
  return true;
}

} // namespace

struct Cache::State {
  std::mutex mutex;
  std::list<Segment> segments;
  std::unordered_map<void*, Block> used;
  std::map<StreamState*, std::multimap<size_t, Block>> idle;
  std::list<Block> pending; // freed, but other streams have not passed their marks

  void put(Block block) {
    block.segment->used--;
    block.marks.clear();
    idle[block.owner].emplace(block.size, block);
  }

  void settle_pending() {
    for (auto it = pending.begin(); it != pending.end();) {
      const auto next = std::next(it);
      if (passed(*it)) {
        put(std::move(*it));
        pending.erase(it);
      }
      it = next;
    }
  }

  // Idle blocks that touch are not joined: a segment is cut only once.
  void* take(size_t size, StreamState& stream) {
    auto& blocks = idle[&stream];
    const auto found = blocks.lower_bound(size);
    if (found == blocks.end() || (found->first >= 2 * size && found->first > kAlign)) {
      return nullptr;
    }
    return use(blocks, found);
  }

  void* use(std::multimap<size_t, Block>& blocks, std::multimap<size_t, Block>::iterator found) {
    Block block = std::move(found->second);
    blocks.erase(found);
    block.segment->used++;
    void* at = block.at;
    used.emplace(at, std::move(block));
    return at;
  }

  // Cuts a new segment into blocks of one size.
  void grow(size_t size, StreamState& stream) {
    const size_t whole = size > kShared / 2 ? size : kShared;
    segments.push_back({take_segment(stream.device, whole), whole});
    auto* segment = &segments.back();
    for (size_t at = 0; at + size <= whole; at += size) {
      idle[&stream].emplace(
          size, Block{static_cast<char*>(segment->base) + at, size, segment, &stream, {}});
    }
  }

  // Packets that are queued may still use idle blocks: waits for them.
  void release() {
    for (auto& [stream, blocks] : idle) {
      if (!blocks.empty()) {
        openreg::settle(*stream, stream->last());
      }
    }
    for (const Block& block : pending) {
      for (const Mark& mark : block.marks) {
        openreg::settle(*mark.stream, mark.seq);
      }
      openreg::settle(*block.owner, block.owner->last());
    }
    settle_pending();
    for (auto segment = segments.begin(); segment != segments.end();) {
      const auto next = std::next(segment);
      if (segment->used == 0) {
        for (auto& [stream, blocks] : idle) {
          std::erase_if(blocks, [&](const auto& entry) {
            return entry.second.segment == &*segment;
          });
        }
        give_segment(segment->base);
        segments.erase(segment);
      }
      segment = next;
    }
  }
};

Cache::State& Cache::state() {
  static auto* found = new State;
  return *found;
}

void* Cache::alloc(size_t size, StreamState& stream) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  size = std::max(size + kAlign - 1, kAlign) / kAlign * kAlign;
  s.settle_pending();
  if (void* block = s.take(size, stream)) {
    return block;
  }
  try {
    s.grow(size, stream);
  } catch (const c10::OutOfMemoryError&) {
    s.release();
    s.grow(size, stream);
  }
  return s.take(size, stream);
}

void Cache::free(void* block) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.used.find(block);
  TORCH_INTERNAL_ASSERT(found != s.used.end());
  Block freed = std::move(found->second);
  s.used.erase(found);
  for (Mark& mark : freed.marks) {
    mark.seq = mark.stream->last();
  }
  if (passed(freed)) {
    s.put(std::move(freed));
  } else {
    s.pending.push_back(std::move(freed));
  }
}

void Cache::record(void* block, StreamState& stream) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.used.find(block);
  TORCH_INTERNAL_ASSERT(found != s.used.end());
  if (&stream != found->second.owner) {
    found->second.marks.push_back({&stream, 0});
  }
}

void Cache::empty() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.release();
}
