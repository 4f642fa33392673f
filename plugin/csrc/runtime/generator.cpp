// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <array>
#include <cstring>
#include <mutex>

#include "runtime/capture.h"

namespace openreg {
namespace {

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  GeneratorImpl(c10::DeviceIndex index, c10::intrusive_ptr<RandomState> state)
      : c10::GeneratorImpl(
            torch_device(index),
            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  void set_current_seed(uint64_t seed) override {
    set({seed, 0});
  }
  uint64_t current_seed() const override {
    return get().seed;
  }
  uint64_t seed() override {
    const uint64_t seed = c10::detail::getNonDeterministicRandom();
    set_current_seed(seed);
    return seed;
  }
  void set_offset(uint64_t offset) override {
    check_offset(offset);
    refuse_change();
    state_->set_offset(offset);
  }
  uint64_t get_offset() const override {
    return get().offset;
  }

  void set_state(const c10::TensorImpl& from) override {
    PhiloxState state;
    at::detail::check_rng_state(from);
    TORCH_CHECK(
        from.numel() == sizeof(state),
        "the state of an openreg generator has ",
        sizeof(state),
        " bytes, but the given state has ",
        from.numel());
    std::memcpy(&state, from.data(), sizeof(state));
    check_offset(state.offset);
    set(state);
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const PhiloxState state = get();
    // Do not call the dispatcher: FakeTensorMode would make this tensor a fake one.
    at::Tensor bytes = at::detail::empty_cpu(
        {sizeof(state)}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    std::memcpy(bytes.mutable_data_ptr(), &state, sizeof(state));
    return bytes.getIntrusivePtr();
  }

  // The new generator shares the state: the two generators never draw the same numbers.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<GeneratorImpl>(device().index(), state_);
  }
  void graphsafe_set_state(
      const c10::intrusive_ptr<c10::GeneratorImpl>& from) override {
    const auto* other = dynamic_cast<const GeneratorImpl*>(from.get());
    TORCH_CHECK(
        other,
        "an openreg generator takes the state of another openreg generator, not of one of ",
        from->device().type(),
        ". Get the state with graphsafe_get_state() or clone_state().");
    state_ = other->state_;
  }

  static c10::DeviceType device_type() {
    return kDeviceType;
  }

  PhiloxState take() {
    return draw(device().index(), state_, kRandomStreams);
  }

 private:
  static void check_offset(uint64_t offset) {
    TORCH_CHECK(offset % kRandomStreams == 0, "offset must be a multiple of 4");
  }
  PhiloxState get() const {
    return state_->get();
  }
  void set(PhiloxState state) {
    refuse_change();
    state_->set(state);
  }
  // A graph takes the numbers that follow the generator's last ones at the replay.
  void refuse_change() const {
    refuse_capture_on(
        device().index(),
        "a change of a generator's seed or offset",
        "Call manual_seed() before the capture, or before replay().");
    if (capture_runs())
      refuse_captured(state_);
  }

  GeneratorImpl* clone_impl() const override {
    return new GeneratorImpl(
        device().index(), c10::make_intrusive<RandomState>(get()));
  }

  c10::intrusive_ptr<RandomState> state_;
};

// Mixes seed and offset into one seed with the finalizer of SplitMix64.
uint64_t mix(const PhiloxState& from) {
  uint64_t x = from.seed + (from.offset / kRandomStreams + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

at::Generator new_generator(c10::DeviceIndex index, uint64_t seed) {
  index = index_of(torch_device(index));
  check_index(index);
  return at::make_generator<GeneratorImpl>(
      index,
      c10::make_intrusive<RandomState>(
          PhiloxState{seed, 0}));
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* all = new std::array<at::Generator, kMaxDevices>;
  static std::mutex mutex;
  index = index_of(torch_device(index));
  check_index(index);
  std::lock_guard<std::mutex> lock(mutex);
  at::Generator& generator = (*all)[index];
  if (!generator.defined()) {
    // Do not call seed(): the first use may be in a capture, which refuses it.
    generator = new_generator(index, c10::detail::getNonDeterministicRandom());
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
