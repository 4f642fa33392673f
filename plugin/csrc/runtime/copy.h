// SPDX-License-Identifier: BSD-3-Clause
// Every copy that has a card at one end.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/device.h"

namespace openreg {

// dst = src with a cast and any strides; the shapes are the same or broadcast.
void copy_tensor(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

// Within one card, on its current stream; ordered, not waited for.
void copy_device_bytes(
    void* to,
    const void* from,
    size_t bytes,
    c10::DeviceIndex index);

// Between any two cards, or within one; in the order of current streams.
void copy_bytes(void* to, const void* from, size_t bytes);

// Waits. bytes at most Staging::kPiece.
void read_device_bytes(
    void* to,
    const void* from,
    size_t bytes,
    c10::DeviceIndex index);

} // namespace openreg
