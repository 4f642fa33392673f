// SPDX-License-Identifier: BSD-3-Clause
// Blocks of device memory, and the pool of free blocks of one stream. The pool keeps
// small blocks in bins of one exact size with a bitmap, so that the common case
// allocates no host memory. It keeps larger blocks in an ordered set.
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
  uint64_t seq; // set when the block is freed: the last packet that may use it
};

// Notes that memory was freed which a captured graph accesses.
struct Watch {
  std::atomic<uint64_t> lost{0}; // the address of a freed block
};

struct PrivatePool;

// The stack of the program at an allocation or a free.
using Context = std::shared_ptr<c10::GatheredContext>;

struct Block;

// One contiguous BO, and the list of its blocks.
struct Segment {
  openreg_bo* bo = nullptr;
  Block* first = nullptr;
  size_t size = 0;
  Context context;
  // For one block that other processes have too. The BO is freed with the block, since
  // these processes may still read and write it.
  bool shared = false;
  bool received = false; // another process has made the BO
  size_t more_owners = 0; // DataPtrs of the block, but one
};

struct Block {
  uint64_t addr = 0;
  size_t size = 0; // multiple of kBlockRound
  size_t requested = 0;
  StreamState* stream = nullptr;
  Segment* segment = nullptr;
  Context context; // of the allocation
  Block* prev = nullptr; // neighbours in the segment
  Block* next = nullptr;
  Block* free_prev = nullptr; // in a bin
  Block* free_next = nullptr;
  std::vector<BlockUse> uses; // by streams other than the block's own
  std::vector<std::shared_ptr<Watch>> watches; // of the graphs that access it
  PrivatePool* owner = nullptr; // a graph's pool, or null
  c10::DeviceIndex device = 0;
  bool pool_small = false;
  bool used = false; // not free
  bool allocated = false; // used, and not freed while other streams still use it

  bool small() const {
    return pool_small;
  }
  bool split() const {
    return prev || next;
  }

  // Shrinks this block to the first bytes. Returns the rest as a new free block.
  Block* cut(size_t bytes);
  // Merges a free neighbour into this block and deletes the neighbour.
  void absorb(Block* neighbour);
};

class BlockPool {
 public:
  // Removes and returns the smallest free block of at least size bytes, or null.
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

// The memory of captured graphs. Only captures take blocks from it, so a graph finds its
// memory unchanged at each replay.
struct PrivatePool {
  c10::MempoolId_t id;
  int graphs = 0; // those that use the pool, and the capture
  bool capturing = false;
  bool parks = false; // freed blocks are not used again in this capture
  size_t segments = 0;
  std::array<std::unique_ptr<BlockPool>, kStreams> pools; // by stream id
};

} // namespace openreg
