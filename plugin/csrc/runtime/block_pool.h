// SPDX-License-Identifier: BSD-3-Clause
// Blocks of device memory and the free ones of a stream: small sizes in exact
// bins with a bitmap, so that the common case allocates nothing, larger ones
// in an ordered set.
#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "runtime/stream.h"

namespace openreg {

constexpr size_t kBlockRound = 512; // bytes; also the alignment
constexpr size_t kSmallBlock = size_t{1} << 20; // the largest small block

struct BlockUse {
  StreamState* stream;
  uint64_t seq; // what to wait for, once the block is freed
};

// Where in the program something was asked for.
using Context = std::shared_ptr<c10::GatheredContext>;

struct Block;

// One contiguous BO; the blocks that it is cut into are a list.
struct Segment {
  openreg_bo* bo = nullptr;
  Block* first = nullptr;
  size_t size = 0;
  Context context;
};

struct Block {
  uint64_t addr = 0;
  size_t size = 0; // multiple of kBlockRound
  size_t requested = 0;
  StreamState* stream = nullptr;
  Segment* segment = nullptr;
  Context context; // of whom it was given to
  Block* prev = nullptr; // neighbours in the segment
  Block* next = nullptr;
  Block* free_prev = nullptr; // in a bin
  Block* free_next = nullptr;
  std::vector<BlockUse> uses; // streams other than its own
  c10::DeviceIndex device = 0;
  bool pool_small = false;
  bool used = false; // not free
  bool allocated = false; // and not waiting for other streams to be done

  bool small() const {
    return pool_small;
  }
  bool split() const {
    return prev || next;
  }

  // Keeps the first bytes; returns the rest, a free block.
  Block* cut(size_t bytes);
  // Takes a free neighbour in and deletes it.
  void absorb(Block* neighbour);
};

class BlockPool {
 public:
  // The smallest free block of at least size bytes, or null.
  Block* take(size_t size);
  void put(Block* block);
  void drop(Block* block);
  // Removes and returns the blocks that are whole segments.
  std::vector<Block*> take_whole();

 private:
  static constexpr size_t kBins = (size_t{2} << 20) / kBlockRound + 1;

  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->addr < b->addr;
    }
  };

  Block* take_small(size_t size);
  Block* take_large(size_t size);

  std::array<Block*, kBins> bins_{}; // by size / kBlockRound
  std::array<uint64_t, (kBins + 63) / 64> filled_{};
  std::set<Block*, BySize> large_;
};

} // namespace openreg
