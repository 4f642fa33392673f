// SPDX-License-Identifier: BSD-3-Clause
// The common part of convolutions and pooling: windows over one to three dimensions, in
// the form of the CONV and POOL packets.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "runtime/launch.h"

namespace openreg {

// Windows always have three dimensions. Missing dimensions come first and have size 1.
struct Windows {
  using Three = std::array<int64_t, 3>;

  // Returns three values. A single value is for all dimensions; no values give
  // `otherwise`.
  static Three expand(at::IntArrayRef values, int64_t dims, int64_t filler, const Three& otherwise);
  static Three expand(at::IntArrayRef values, int64_t dims, int64_t filler);
  // Returns the last dims sizes of a tensor.
  static Three sizes(const at::Tensor& t, int64_t dims);

  int64_t largest() const;
  // Puts the immediates of a packet from kernel to dilation.
  void put(Packet& packet) const;

  Three kernel{1, 1, 1}, input{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
};

// Writes the strides of the last dims dimensions to the end of `to`, which has room for
// three.
void put_space_strides(int64_t* to, const at::Tensor& t, int64_t dims);

} // namespace openreg
