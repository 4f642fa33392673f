// SPDX-License-Identifier: BSD-3-Clause
// Pinned host memory: SYSTEM BOs of the device that was current at allocation, mapped for
// the CPU and cached. That device's card accesses the memory directly. Copies to and from
// other cards are staged.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>

#include <optional>

#include "runtime/device.h"

namespace openreg {

struct PinnedAddress {
  c10::DeviceIndex device;
  uint64_t addr; // the card's address of the byte at ptr
};

std::optional<PinnedAddress> find_pinned(const void* ptr);

// Records that the stream uses the memory. After a free, the memory is reused only when
// the packets that were on the stream at the free have completed. Returns false if
// another allocator owns the memory: the caller must wait instead.
[[nodiscard]] bool record_pinned_use(const c10::Storage& storage, const c10::Stream& stream);

} // namespace openreg
