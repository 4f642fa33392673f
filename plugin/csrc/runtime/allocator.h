// SPDX-License-Identifier: BSD-3-Clause
// The caching allocator of device memory. A segment is one contiguous BO;
// blocks are cut from segments, belong to the stream that was current when
// they were taken, and are reused on it without waiting.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace openreg {

c10::DeviceAllocator& device_allocator();

// bytes 0 gives a null pointer on the device.
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);

} // namespace openreg
