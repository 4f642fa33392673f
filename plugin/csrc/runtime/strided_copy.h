// SPDX-License-Identifier: BSD-3-Clause
// COPY packets for any number of dimensions and elements.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "runtime/stream.h"

namespace openreg {

struct CopySide {
  uint64_t addr;
  uint8_t dtype; // enum openreg_dtype
  c10::SmallVector<int64_t, 8> strides; // elements
};

struct CopyShape {
  c10::SmallVector<int64_t, 8> sizes;
  CopySide dst;
  CopySide src;
};

// The tensor's side of a copy whose bytes begin at addr. A type that the card
// does not have is moved as integers of its size; then both sides must be of
// it, and 16-byte elements have one dimension more: see copy_shape().
CopyShape copy_shape(
    c10::IntArrayRef sizes,
    uint64_t dst_addr,
    c10::IntArrayRef dst_strides,
    c10::ScalarType dst_type,
    uint64_t src_addr,
    c10::IntArrayRef src_strides,
    c10::ScalarType src_type);

// Whether the card can copy from one type to the other.
bool card_copies(c10::ScalarType dst, c10::ScalarType src);

// Submits what it takes and returns the last packet's number, or the stream's
// last one if there is nothing to copy. The caller holds stream.mutex.
uint64_t submit_copy_locked(StreamState& stream, CopyShape shape);

} // namespace openreg
