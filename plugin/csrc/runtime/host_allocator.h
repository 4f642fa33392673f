// SPDX-License-Identifier: BSD-3-Clause
// Pinned host memory: SYSTEM BOs of the device that was current, mapped to the
// CPU and cached. The card of that device reaches it directly, other cards
// through staging.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>

#include <optional>

#include "runtime/device.h"

namespace openreg {

struct PinnedAddress {
  c10::DeviceIndex device;
  uint64_t addr; // of the byte that was asked for, on that device's card
};

std::optional<PinnedAddress> find_pinned(const void* ptr);

// Keeps the memory from being reused until the stream has got past what is on
// it when the memory is freed. False if that is not this allocator's to say:
// the caller waits instead.
[[nodiscard]] bool record_pinned_use(const c10::Storage& storage, const c10::Stream& stream);

} // namespace openreg
