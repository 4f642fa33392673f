// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/block_pool.h"

#include <bit>

namespace openreg {

Block* Block::cut(size_t bytes) {
  Block* rest = new Block;
  rest->addr = addr + bytes;
  rest->size = size - bytes;
  rest->stream = stream;
  rest->segment = segment;
  rest->device = device;
  rest->owner = owner;
  rest->pool_small = pool_small;
  rest->prev = this;
  rest->next = next;
  if (next)
    next->prev = rest;
  next = rest;
  size = bytes;
  return rest;
}

void Block::absorb(Block* neighbour) {
  if (neighbour == prev) {
    addr = neighbour->addr;
    prev = neighbour->prev;
    if (prev)
      prev->next = this;
    else
      segment->first = this;
  } else {
    next = neighbour->next;
    if (next)
      next->prev = this;
  }
  size += neighbour->size;
  delete neighbour;
}

Block* BlockPool::take(size_t size) {
  return size <= kSmallBlock ? take_small(size) : take_large(size);
}

Block* BlockPool::take_small(size_t size) {
  const size_t bin = size / kBlockRound;
  size_t word = bin / 64;
  uint64_t bits = filled_[word] & (~uint64_t{0} << (bin % 64));
  while (!bits) {
    if (++word == filled_.size())
      return nullptr;
    bits = filled_[word];
  }
  Block* block = bins_[word * 64 + std::countr_zero(bits)];
  drop(block);
  return block;
}

Block* BlockPool::take_large(size_t size) {
  Block key;
  key.size = size;
  const auto found = large_.lower_bound(&key);
  if (found == large_.end())
    return nullptr;
  Block* block = *found;
  large_.erase(found);
  return block;
}

void BlockPool::put(Block* block) {
  if (!block->small()) {
    large_.insert(block);
    return;
  }
  const size_t bin = block->size / kBlockRound;
  block->free_prev = nullptr;
  block->free_next = bins_[bin];
  if (bins_[bin])
    bins_[bin]->free_prev = block;
  bins_[bin] = block;
  filled_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void BlockPool::drop(Block* block) {
  if (!block->small()) {
    large_.erase(block);
    return;
  }
  const size_t bin = block->size / kBlockRound;
  if (block->free_next)
    block->free_next->free_prev = block->free_prev;
  if (block->free_prev)
    block->free_prev->free_next = block->free_next;
  else
    bins_[bin] = block->free_next;
  if (!bins_[bin])
    filled_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

std::vector<Block*> BlockPool::take_whole() {
  std::vector<Block*> found;
  for (Block* block : bins_)
    for (; block; block = block->free_next)
      if (!block->split())
        found.push_back(block);
  for (Block* block : large_)
    if (!block->split())
      found.push_back(block);
  for (Block* block : found)
    drop(block);
  return found;
}

} // namespace openreg
