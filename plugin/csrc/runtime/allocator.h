// SPDX-License-Identifier: BSD-3-Clause
// The caching allocator of device memory. A segment is one contiguous buffer object
// (BO), and the allocator cuts it into blocks. A block belongs to the stream that was
// current at allocation. The allocator reuses a block on its stream without waiting.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "runtime/memory_history.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

c10::DeviceAllocator& device_allocator();

// Returns a null pointer on the device if bytes is 0.
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);

// A block that other processes can get.
c10::DataPtr allocate_shared(size_t bytes, c10::DeviceIndex device);
// A block in another process's memory. Takes the caller's reference to the BO.
c10::DataPtr receive_block(openreg_bo* bo, size_t bytes, c10::DeviceIndex device);
// Whether the pointer is the one that the allocator has returned.
bool owns(const c10::DataPtr& ptr);

// A storage moves from one block to another: work of the current stream may read `from`,
// and the streams that may use `from` may use `to`. Call it before `from` is freed.
void move_between_blocks(const void* from, const void* to, c10::DeviceIndex device);

// The fraction limits the share of the card's memory that this process may hold: 0 to 1.
void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);

// Returns the segments that the process holds now; with traces also the recorded history.
MemorySnapshot memory_snapshot(c10::DeviceIndex device, bool traces);
void clear_history(c10::DeviceIndex device);

} // namespace openreg
#pragma GCC visibility pop
