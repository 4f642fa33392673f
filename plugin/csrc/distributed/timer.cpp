// SPDX-License-Identifier: BSD-3-Clause
// The times of DistributedDataParallel's log, measured on the card.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>
#include <cmath>
#include <optional>

#include "runtime/stream.h"

namespace openreg {
namespace {

constexpr double kNsPerMs = 1e6;

class DdpTimer : public c10d::Timer {
 public:
  explicit DdpTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    // The host's time is for the readers of getTimestamp().
    Timer::record(event);
    auto& mark = events_.at(static_cast<size_t>(event));
    mark.emplace(kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
    mark->record(current_stream(device_.index()));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto& from = events_.at(static_cast<size_t>(start));
    const auto& to = events_.at(static_cast<size_t>(end));
    if (!from || !to)
      return std::nullopt;
    from->synchronize(); // core computes no time of events that have not completed
    to->synchronize();
    const double ns = from->elapsedTime(*to) * kNsPerMs;
    // Parts of a step that did not happen leave the event of an earlier step.
    return ns < 0 ? std::nullopt : std::optional<int64_t>(std::llround(ns));
  }

 private:
  c10::Device device_;
  std::array<std::optional<c10::Event>, 5> events_;
};

} // namespace
} // namespace openreg

namespace c10d {
namespace {

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, openreg::DdpTimer)

} // namespace
} // namespace c10d
