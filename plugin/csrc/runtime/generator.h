// SPDX-License-Identifier: BSD-3-Clause
// The generator of a device's random numbers: Philox with a seed and an offset.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/device.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Selects random streams of the card (OPENREG_V_RANDOM): the key is seed, and offset is
// the number of the first unused stream.
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

// The state of a generator. Several generators may share one state.
class RandomState final : public c10::intrusive_ptr_target {
 public:
  explicit RandomState(PhiloxState now) : now_(now) {}

  PhiloxState get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }
  void set(PhiloxState state) {
    std::lock_guard<std::mutex> lock(mutex_);
    now_ = state;
  }
  void set_offset(uint64_t offset) {
    std::lock_guard<std::mutex> lock(mutex_);
    now_.offset = offset;
  }
  // Takes random streams. Returns the state before.
  PhiloxState advance(uint64_t streams) {
    std::lock_guard<std::mutex> lock(mutex_);
    const PhiloxState before = now_;
    now_.offset += streams;
    return before;
  }
  // Gives back the streams that were taken since then. Returns their number.
  uint64_t rewind(const PhiloxState& then) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t taken = now_.offset - then.offset;
    now_ = then;
    return taken;
  }

 private:
  mutable std::mutex mutex_;
  PhiloxState now_;
};

// The random streams of one operator. Each launch advances the offset by this number.
constexpr uint64_t kRandomStreams = 4;

// Takes the random streams for one operator from the generator. Without a generator,
// takes them from the device's default generator.
PhiloxState take_random_streams(
    const std::optional<at::Generator>& generator,
    c10::DeviceIndex index);

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(
    c10::DeviceIndex index,
    uint64_t seed = c10::default_rng_seed_val);

// Returns a CPU generator that is seeded from the device generator's next random streams.
at::Generator cpu_generator(const at::Generator& device_generator);

} // namespace openreg
#pragma GCC visibility pop
