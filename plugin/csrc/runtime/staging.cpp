// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/staging.h"

#include <c10/util/Exception.h>

namespace openreg {

Staging::Staging(Device& dev) {
  void* host = nullptr;
  int error =
      openreg_bo_alloc(dev.handle, 2 * kPiece, OPENREG_BO_SYSTEM, &bo_);
  if (!error)
    error = openreg_bo_map(bo_, &host);
  if (error) {
    openreg_bo_free(bo_);
    fail("no memory to stage copies of openreg", error);
  }
  host_ = static_cast<char*>(host);
  addr_ = openreg_bo_address(bo_);
}

Staging& Staging::of(StreamState& stream) {
  if (!stream.staging)
    stream.staging = new Staging(device(stream.device));
  return *stream.staging;
}

Staging::Piece Staging::take(StreamState& stream, size_t bytes) {
  constexpr size_t kAlign = 64;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  TORCH_INTERNAL_ASSERT(bytes <= kPiece);
  // The last caller failed between take() and used(). Assume that all its packets use the
  // piece.
  if (taken_)
    last_use_[half_] = stream.last_seq.load(std::memory_order_relaxed);
  taken_ = false;
  if (at_ + bytes > kPiece) {
    wait_seq(stream, last_use_[half_ ^ 1]);
    half_ ^= 1;
    at_ = 0;
  }
  const size_t offset = half_ * kPiece + at_;
  at_ += bytes;
  taken_ = true;
  return {host_ + offset, addr_ + offset, half_};
}

} // namespace openreg
