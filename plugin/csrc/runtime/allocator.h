// SPDX-License-Identifier: BSD-3-Clause
// The caching allocator of device memory. A segment is one contiguous BO;
// blocks are cut from segments, belong to the stream that was current when
// they were taken, and are reused on it without waiting.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "runtime/memory_history.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

c10::DeviceAllocator& device_allocator();

// bytes 0 gives a null pointer on the device.
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);

// The share of the card's memory that this process may hold, 0 to 1.
void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);

// What is held now, and what was recorded if that is wanted.
MemorySnapshot memory_snapshot(c10::DeviceIndex device, bool traces);
void clear_history(c10::DeviceIndex device);

} // namespace openreg
#pragma GCC visibility pop
