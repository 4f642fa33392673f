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

enum class CopyWay { ON_CARD, FROM_HOST, TO_HOST };

struct CopyShape {
  c10::SmallVector<int64_t, 8> sizes;
  CopySide dst;
  CopySide src;
  CopyWay way = CopyWay::ON_CARD; // for the profiler's names
};

inline CopyShape on_way(CopyWay way, CopyShape shape) {
  shape.way = way;
  return shape;
}

// Describes a copy between two tensors. A type that the card lacks is copied as integers
// of its size. Both sides must then have this type, and elements of 16 bytes get one more
// dimension of two 8-byte integers.
CopyShape copy_shape(
    c10::IntArrayRef sizes,
    uint64_t dst_addr,
    c10::IntArrayRef dst_strides,
    c10::ScalarType dst_type,
    uint64_t src_addr,
    c10::IntArrayRef src_strides,
    c10::ScalarType src_type);

// Describes a copy of bytes.
CopyShape bytes_shape(CopyWay way, uint64_t to, uint64_t from, size_t bytes);

// Whether the card can copy from one type to the other.
bool card_copies(c10::ScalarType dst, c10::ScalarType src);

// Submits the packets of the copy and returns the last packet's sequence number. Returns
// the stream's last number if the copy is empty. The caller holds stream.mutex.
uint64_t submit_copy_locked(StreamState& stream, CopyShape shape);

} // namespace openreg
