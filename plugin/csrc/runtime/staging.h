// SPDX-License-Identifier: BSD-3-Clause
// Host memory that the card reaches, on the way of copies from and to
// memory that it does not. One for each stream; staging_mutex guards it.
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

  // The stream's own; made at the first call.
  static Staging& of(StreamState& stream);

  // Waits until the card is done with what was there before.
  Piece take(StreamState& stream, size_t bytes);
  // Packet seq is the last one that uses the piece.
  void used(const Piece& piece, uint64_t seq) {
    last_use_[piece.half] = seq;
    taken_ = false;
  }

 private:
  explicit Staging(Device& dev);

  openreg_bo* bo_ = nullptr;
  char* host_ = nullptr;
  uint64_t addr_ = 0;
  size_t at_ = 0; // in the current half
  int half_ = 0;
  bool taken_ = false; // and not used()
  uint64_t last_use_[2] = {0, 0};
};

} // namespace openreg
