// SPDX-License-Identifier: BSD-3-Clause
// The staging buffer: host memory that the card accesses, for copies from and to memory
// that the card cannot access. Each stream has one; staging_mutex guards it.
#pragma once

#include "runtime/stream.h"

namespace openreg {

class Staging {
 public:
  static constexpr size_t kPiece = size_t{512} << 10; // bytes, the most at once

  struct Piece {
    void* host;
    uint64_t addr;
    int half;
  };

  // Returns the stream's staging buffer. Allocates it at the first call.
  static Staging& of(StreamState& stream);

  // Returns a free piece. Waits until the card has finished the earlier copies through
  // it.
  Piece take(StreamState& stream, size_t bytes);
  // Call it after take(): packet seq is the last packet that uses the piece.
  void used(const Piece& piece, uint64_t seq) {
    last_use_[piece.half] = seq;
    taken_ = false;
  }

 private:
  explicit Staging(Device& dev);

  openreg_bo* bo_ = nullptr;
  char* host_ = nullptr;
  uint64_t addr_ = 0;
  size_t at_ = 0; // offset in the current half
  int half_ = 0;
  bool taken_ = false; // take() was called, and used() was not yet
  uint64_t last_use_[2] = {0, 0};
};

} // namespace openreg
