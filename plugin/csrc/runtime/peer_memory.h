// SPDX-License-Identifier: BSD-3-Clause
// Memory that several processes use, outside the allocator: each process frees its BO when
// its streams have done all that they were given before.
//
// Memory of another card is a PEER segment. COPY, FILL, WAIT and SIGNAL use it like any
// other memory, and a VECTOR can read some of it. All other packets would fault, and stop
// their stream: check_peer_operands() throws before that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/device.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

class PeerMemory {
 public:
  // New memory of the card: zeroes.
  static std::shared_ptr<PeerMemory> allocate(size_t bytes, c10::DeviceIndex index);
  // The memory of a descriptor, which stays the caller's. Throws if it is smaller.
  static std::shared_ptr<PeerMemory> import(int fd, c10::DeviceIndex index, size_t bytes);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  uint64_t addr() const;
  // A new descriptor, for other processes.
  int share() const;
  // Where the host reads the memory.
  volatile uint64_t* map() const;

 private:
  PeerMemory(openreg_bo* bo, c10::DeviceIndex index);

  openreg_bo* bo_;
  const c10::DeviceIndex index_;
};

// Frees what no stream uses any more. Returns whether there was any. The caller holds no
// lock.
bool collect_peer_memory();
// The same, but waits first for the card's streams that wait for signals of symmetric
// tensors. Such a wait has a timeout.
bool finish_peer_memory(c10::DeviceIndex index);
// Drops a reference at the next collect_peer_memory(), for a caller that may hold any lock.
void drop_later(std::shared_ptr<const void> reference);

// The number of PEER segments of this process.
extern std::atomic<int> peer_segments;

// Whether the address is in a PEER segment.
bool in_peer_memory(uint64_t addr);
// Throws if the packet has an operand in a PEER segment that it cannot use.
void check_peer_operands(const void* packet);

inline void check_operands(const void* packet) {
  if (C10_UNLIKELY(peer_segments.load(std::memory_order_relaxed)))
    check_peer_operands(packet);
}

} // namespace openreg
#pragma GCC visibility pop
