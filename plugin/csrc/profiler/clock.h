// SPDX-License-Identifier: BSD-3-Clause
// The card's clock as time since 1970, the time of Kineto's traces.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/device.h"

namespace openreg {

// The same moment on both clocks.
struct Moment {
  int64_t card = 0; // ns of CLOCK
  int64_t unix_ns = 0;
  int64_t error = 0; // how far the reads of both clocks lie apart, at most
};

// Throws if the card does not answer.
Moment this_moment(const Device& device);

// Between two moments the clocks run at a constant ratio, so an error there is at most
// that of the worse moment.
class CardClock {
 public:
  CardClock(const Moment& begin, const Moment& end);
  int64_t unix_ns(uint64_t card) const;
  int64_t error() const {
    return error_;
  }

 private:
  Moment begin_;
  double rate_ = 1;
  int64_t error_;
};

} // namespace openreg
