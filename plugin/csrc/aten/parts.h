// SPDX-License-Identifier: BSD-3-Clause
// Splits work on temporary tensors into parts, so that the data that one packet writes is
// still in the caches when the next packet reads it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace openreg {

// Calls fn(first, n) for parts of `count` rows that take `each` elements.
template <class Fn>
void in_parts(int64_t count, int64_t each, Fn&& fn) {
  constexpr int64_t kNear = 1 << 17; // elements
  const int64_t most = std::max<int64_t>(kNear / std::max<int64_t>(each, 1), 1);
  for (int64_t first = 0; first < count; first += most) {
    fn(first, std::min(most, count - first));
  }
}

} // namespace openreg
