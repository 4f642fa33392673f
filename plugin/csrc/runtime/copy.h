// SPDX-License-Identifier: BSD-3-Clause
// All copies with a card as source or destination.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/device.h"

namespace openreg {

// dst = src, with a cast, any strides, and src broadcast to dst's shape.
void copy_tensor(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

// Copies within one card. Submits to the card's current stream and does not wait.
void copy_device_bytes(
    void* to,
    const void* from,
    size_t bytes,
    c10::DeviceIndex index);

// Copies between two cards or within one, in the order of their current streams.
void copy_bytes(void* to, const void* from, size_t bytes);

// Copies to host memory and waits for the result. At most Staging::kPiece bytes.
void read_device_bytes(
    void* to,
    const void* from,
    size_t bytes,
    c10::DeviceIndex index);

} // namespace openreg
