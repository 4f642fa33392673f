// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <array>
#include <cstring>
#include <mutex>

namespace openreg {
namespace {

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
    TORCH_CHECK(offset % kRandomStreams == 0, "offset must be a multiple of 4");
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
    PhiloxState state;
    std::memcpy(&state, from.data(), sizeof(state));
    set_offset(state.offset);
    state_ = state;
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    // Not by the dispatcher: a mode that fakes tensors would fake this one.
    at::Tensor bytes = at::detail::empty_cpu(
        {sizeof(state_)}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    std::memcpy(bytes.mutable_data_ptr(), &state_, sizeof(state_));
    return bytes.getIntrusivePtr();
  }

  static c10::DeviceType device_type() {
    return kDeviceType;
  }

  PhiloxState take() {
    std::lock_guard<std::mutex> lock(mutex_);
    const PhiloxState now = state_;
    state_.offset += kRandomStreams;
    return now;
  }

 private:
  GeneratorImpl* clone_impl() const override {
    auto* copy = new GeneratorImpl(device().index());
    copy->state_ = state_;
    return copy;
  }

  PhiloxState state_ = {c10::default_rng_seed_val, 0};
};

// One seed for each (seed, offset): the finalizer of SplitMix64.
uint64_t mix(const PhiloxState& from) {
  uint64_t x = from.seed + (from.offset / kRandomStreams + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  index = index_of(torch_device(index));
  check_index(index);
  return at::make_generator<GeneratorImpl>(index);
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* all = new std::array<at::Generator, kMaxDevices>;
  static std::mutex mutex;
  index = index_of(torch_device(index));
  check_index(index);
  std::lock_guard<std::mutex> lock(mutex);
  at::Generator& generator = (*all)[index];
  if (!generator.defined()) {
    generator = new_generator(index);
    generator.seed();
  }
  return generator;
}

PhiloxState take_random_streams(
    const std::optional<at::Generator>& generator,
    c10::DeviceIndex index) {
  if (generator.has_value() && generator->defined())
    return at::check_generator<GeneratorImpl>(generator)->take();
  return default_generator(index).get<GeneratorImpl>()->take();
}

at::Generator cpu_generator(const at::Generator& from) {
  const PhiloxState state = from.get<GeneratorImpl>()->take();
  return at::make_generator<at::CPUGeneratorImpl>(mix(state));
}

} // namespace openreg
