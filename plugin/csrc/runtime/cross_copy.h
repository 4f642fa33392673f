// SPDX-License-Identifier: BSD-3-Clause
// From one card to another, through host memory that both have registered.
#pragma once

#include "runtime/device.h"

namespace openreg {

// In the order of both cards' current streams. Returns when the destination
// has been written.
void cross_copy_bytes(
    uint64_t to,
    c10::DeviceIndex to_device,
    uint64_t from,
    c10::DeviceIndex from_device,
    size_t bytes);

} // namespace openreg
