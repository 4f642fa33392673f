// SPDX-License-Identifier: BSD-3-Clause
// Device times for the profiler's use_kineto=False mode. The profiler records an event on
// the current stream before and after each operator.
#include <torch/csrc/profiler/stubs/base.h>

#include <c10/util/ApproximateClock.h>

#include "runtime/event.h"
#include "runtime/stream.h"
#include "runtime/trace_marker.h"

namespace openreg {
namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : ProfilerStubs {
  void record(
      c10::DeviceIndex* device,
      ProfilerVoidEventStub* event,
      int64_t* cpu_ns) const override {
    const auto index = current_device();
    if (device)
      *device = index;
    const std::shared_ptr<void> fresh(
        new_event(), [](void* e) { destroy_event(static_cast<Event*>(e)); });
    record_event(
        static_cast<Event*>(fresh.get()),
        current_stream(index),
        c10::EventFlag::BACKEND_DEFAULT);
    if (cpu_ns)
      *cpu_ns = c10::getTime();
    *event = fresh;
  }

  // Returns microseconds.
  float elapsed(
      const ProfilerVoidEventStub* begin,
      const ProfilerVoidEventStub* end) const override {
    return static_cast<float>(
        elapsed_ms(
            static_cast<Event*>(begin->get()),
            static_cast<Event*>(end->get())) *
        1e3);
  }

  void mark(const char* name) const override {
    trace_mark(name);
  }
  void rangePush(const char* name) const override {
    trace_begin(name);
  }
  void rangePop() const override {
    trace_end();
  }

  bool enabled() const override {
    return is_available();
  }
  void onEachDevice(std::function<void(int)> op) const override {
    for (c10::DeviceIndex i = 0; i < device_count(); i++) {
      const DeviceScope scope(i);
      op(i);
    }
  }
  void synchronize() const override {
    synchronize_device(current_device());
  }
};

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  return true;
}();

} // namespace
} // namespace openreg
