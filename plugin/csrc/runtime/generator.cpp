// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <mutex>

namespace openreg {
namespace {

// How far an operator moves the offset on; a multiple of a Philox block.
constexpr uint64_t kStretch = 4;

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex index)
      : c10::GeneratorImpl(
            torch_device(index),
            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    state_ = {seed, 0};
  }
  uint64_t current_seed() const override {
    return state_.seed;
  }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return state_.seed;
  }
  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset % kStretch == 0, "offset must be a multiple of 4");
    state_.offset = offset;
  }
  uint64_t get_offset() const override {
    return state_.offset;
  }

  void set_state(const c10::TensorImpl& from) override {
    at::detail::check_rng_state(from);
    TORCH_CHECK(
        from.numel() == sizeof(state_),
        "the state of an openreg generator has ",
        sizeof(state_),
        " bytes, this one has ",
        from.numel());
    std::memcpy(&state_, from.data(), sizeof(state_));
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor bytes =
        at::empty({sizeof(state_)}, at::TensorOptions().dtype(at::kByte));
    std::memcpy(bytes.mutable_data_ptr(), &state_, sizeof(state_));
    return bytes.getIntrusivePtr();
  }

  static c10::DeviceType device_type() {
    return kDeviceType;
  }

  uint64_t take_stretch() {
    const uint64_t offset = state_.offset;
    state_.offset += kStretch;
    // One seed for each (seed, offset): the finalizer of SplitMix64.
    uint64_t x = state_.seed + (offset / kStretch + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

 private:
  GeneratorImpl* clone_impl() const override {
    auto* copy = new GeneratorImpl(device().index());
    copy->state_ = state_;
    return copy;
  }

  struct State {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  } state_;
};

} // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  if (index < 0)
    index = current_device();
  check_index(index);
  return at::make_generator<GeneratorImpl>(index);
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* all = new std::array<at::Generator, kMaxDevices>;
  static std::mutex mutex;
  if (index < 0)
    index = current_device();
  check_index(index);
  std::lock_guard<std::mutex> lock(mutex);
  at::Generator& generator = (*all)[index];
  if (!generator.defined()) {
    generator = new_generator(index);
    generator.seed();
  }
  return generator;
}

at::Generator cpu_generator(const at::Generator& from) {
  auto* impl = from.get<GeneratorImpl>();
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return at::make_generator<at::CPUGeneratorImpl>(impl->take_stretch());
}

} // namespace openreg
