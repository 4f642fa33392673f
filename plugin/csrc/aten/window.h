// SPDX-License-Identifier: BSD-3-Clause
// What convolutions and pooling share: windows over one to three dimensions,
// as the CONV and POOL packets take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "runtime/launch.h"

namespace openreg {

// Always three dimensions; those that there are not come first and have size 1.
struct Windows {
  using Three = std::array<int64_t, 3>;

  // One value stands for all dimensions, none for `otherwise`.
  static Three expand(at::IntArrayRef values, int64_t dims, int64_t filler, const Three& otherwise);
  static Three expand(at::IntArrayRef values, int64_t dims, int64_t filler);
  // The last dims sizes of a tensor.
  static Three sizes(const at::Tensor& t, int64_t dims);

  // Kernel to dilation of the packet's immediates.
  void put(Packet& packet) const;

  Three kernel{1, 1, 1}, input{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
};

// Strides of the last dims dimensions, to the end of `to`, which has three.
void put_space_strides(int64_t* to, const at::Tensor& t, int64_t dims);

// A packet's limit on the elements that it visits.
double max_work(c10::DeviceIndex device);
// Throws for a space that has more: the packet would stop its stream.
void check_work(at::IntArrayRef sizes, c10::DeviceIndex device);

} // namespace openreg
