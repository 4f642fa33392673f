// SPDX-License-Identifier: BSD-3-Clause
// Random numbers of a device: a seed and an offset, as Philox has them.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "runtime/device.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// The card's streams of random words with this key (OPENREG_V_RANDOM), from
// number offset on.
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

// Streams that an operator takes: what its launch moves the offset on by.
constexpr uint64_t kRandomStreams = 4;

// For one operator, of the generator or else of the device's default one.
PhiloxState take_random_streams(
    const std::optional<at::Generator>& generator,
    c10::DeviceIndex index);

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

// Takes the next stretch of a device generator as a generator of the CPU.
at::Generator cpu_generator(const at::Generator& device_generator);

} // namespace openreg
#pragma GCC visibility pop
