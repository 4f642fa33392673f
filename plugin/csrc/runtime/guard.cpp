// SPDX-License-Identifier: BSD-3-Clause
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/blocking.h"
#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/event.h"
#include "runtime/gil.h"
#include "runtime/gpu_trace.h"
#include "runtime/launch.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDeviceType;
  }

  c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  c10::Device getDevice() const override {
    return torch_device(current_device());
  }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(to.type() == kDeviceType, "not an openreg device: ", to);
    const c10::DeviceIndex index = index_of(to);
    if (index != current_device())
      set_device(index);
  }
  void uncheckedSetDevice(c10::Device to) const noexcept override {
    if (to.index() >= 0)
      swap_device(to.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return device_count();
  }

  c10::Stream getStream(c10::Device of) const override {
    return current_stream(index_of(of));
  }
  c10::Stream getDefaultStream(c10::Device of) const override {
    return default_stream(index_of(of));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool high)
      const override {
    return pool_stream(index_of(of), high ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device of, int priority) const override {
    return pool_stream(index_of(of), priority);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return exchange_stream(to);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return stream_state(stream).queue;
  }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return capture_runs() && stream_state(stream).capture;
  }
  bool queryStream(const c10::Stream& stream) const override {
    StreamState& s = stream_state(stream);
    return query_seq(s, s.last());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    note_sync();
    StreamState& s = stream_state(stream);
    openreg::synchronize_stream(s);
    gpu_trace(&GpuTrace::trace_gpu_stream_synchronization, s.queue);
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    openreg::synchronize_device(index_of(torch_device(index)));
  }

  void record(
      void** event,
      const c10::Stream& stream,
      const c10::DeviceIndex,
      const c10::EventFlag flag) const override {
    if (!*event) {
      *event = new_event();
      gpu_trace(&GpuTrace::trace_gpu_event_creation, *event);
    }
    const WithoutGil unlocked; // another thread may hold the stream's mutex for long
    record_event(static_cast<Event*>(*event), stream, flag);
    gpu_trace(&GpuTrace::trace_gpu_event_record, *event, stream_state(stream).queue);
  }
  void block(void* event, const c10::Stream& stream) const override {
    const WithoutGil unlocked;
    block_event(static_cast<Event*>(event), stream);
    if (event)
      gpu_trace(&GpuTrace::trace_gpu_event_wait, event, stream_state(stream).queue);
  }
  bool queryEvent(void* event) const override {
    return query_event(static_cast<Event*>(event));
  }
  void synchronizeEvent(void* event) const override {
    synchronize_event(static_cast<Event*>(event));
    if (event)
      gpu_trace(&GpuTrace::trace_gpu_event_synchronization, event);
  }
  void destroyEvent(void* event, const c10::DeviceIndex)
      const noexcept override {
    if (event && !in_bad_fork())
      gpu_trace(&GpuTrace::trace_gpu_event_deletion, event);
    destroy_event(static_cast<Event*>(event));
  }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex)
      const override {
    return elapsed_ms(static_cast<Event*>(begin), static_cast<Event*>(end));
  }

  void recordDataPtrOnStream(
      const c10::DataPtr& ptr,
      const c10::Stream& stream) const override {
    device_allocator().recordStream(ptr, stream);
  }

  // Reports the dtypes that this card supports.
  c10::DeviceCapability getDeviceCapability(c10::Device of) const override {
    const uint64_t has = device(index_of(of)).info.dtypes;
    c10::DeviceCapability capability;
    auto& bits = capability.capability_data.capability_bits;
    bits = 0;
    for (size_t n = 0; n < c10::NUMBER_OF_DEVICE_CAPABILITIES; n++) {
      const uint8_t dtype = memory_dtype(static_cast<c10::ScalarType>(n));
      if (dtype && has >> dtype & 1)
        bits |= uint64_t{1} << n;
    }
    return capability;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

} // namespace
} // namespace openreg
