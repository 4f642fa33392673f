// SPDX-License-Identifier: BSD-3-Clause
// Copies from one card to another, through host memory that is registered with both.
#pragma once

#include "runtime/device.h"

namespace openreg {

// Copies in the order of both cards' current streams. Returns when the destination is
// written.
void cross_copy_bytes(
    uint64_t to,
    c10::DeviceIndex to_device,
    uint64_t from,
    c10::DeviceIndex from_device,
    size_t bytes);

} // namespace openreg
