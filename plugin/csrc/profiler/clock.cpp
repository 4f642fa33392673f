// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/clock.h"

#include <algorithm>
#include <ctime>

namespace openreg {
namespace {

constexpr int kTries = 10;

int64_t read(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Adds to a time of CLOCK_MONOTONIC what it lacks for the time since 1970, and to the error
// that of this conversion.
void add_unix_offset(Moment& moment) {
  int64_t best = INT64_MAX, offset = 0;
  for (int i = 0; i < kTries; i++) {
    const int64_t before = read(CLOCK_MONOTONIC);
    const int64_t now = read(CLOCK_REALTIME);
    const int64_t after = read(CLOCK_MONOTONIC);
    if (after - before < best) {
      best = after - before;
      offset = now - before - best / 2;
    }
  }
  moment.unix_ns += offset;
  moment.error += best / 2 + 1;
}

} // namespace

// The read with the shortest bracket has the least error.
Moment this_moment(const Device& device) {
  Moment best;
  best.error = INT64_MAX;
  for (int i = 0; i < kTries; i++) {
    openreg_timestamp t;
    const int error = openreg_device_get_timestamp(device.handle, &t);
    if (error)
      fail("the clock of openreg:" + std::to_string(device.index) + " cannot be read", error);
    const auto bracket = static_cast<int64_t>(t.cpu_after - t.cpu_before);
    if (bracket >= best.error)
      continue;
    best.error = bracket;
    best.card = static_cast<int64_t>(t.card);
    best.unix_ns = static_cast<int64_t>(t.cpu_before) + bracket / 2;
  }
  best.error = best.error / 2 + 1;
  add_unix_offset(best);
  return best;
}

CardClock::CardClock(const Moment& begin, const Moment& end)
    : begin_(begin), error_(std::max(begin.error, end.error)) {
  if (end.card > begin.card)
    rate_ = static_cast<double>(end.unix_ns - begin.unix_ns) /
        static_cast<double>(end.card - begin.card);
}

int64_t CardClock::unix_ns(uint64_t card) const {
  constexpr double kFar = 1e18; // a broken card may write any number
  const auto since = static_cast<double>(
      static_cast<int64_t>(card - static_cast<uint64_t>(begin_.card)));
  return begin_.unix_ns +
      static_cast<int64_t>(std::clamp(since * rate_, -kFar, kFar));
}

} // namespace openreg
