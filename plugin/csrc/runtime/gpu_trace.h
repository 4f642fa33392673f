// SPDX-License-Identifier: BSD-3-Clause
// Tells torch.openreg._gpu_trace, and with it the stream sanitizer, about events, streams
// and memory:
//
//   gpu_trace(&GpuTrace::trace_gpu_event_record, event, stream);
//
// The caller holds no lock: the callbacks are Python. A stream's number is the address of
// its queue.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/impl/GPUTrace.h>

namespace openreg {

using GpuTrace = c10::impl::PyInterpreterVTable;

template <class... Numbers, class... Args>
void gpu_trace(
    void (GpuTrace::*call)(c10::DeviceType, Numbers...) const,
    Args... args) {
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr))
    ((*trace).operator->()->*call)(
        c10::DeviceType::PrivateUse1, reinterpret_cast<uintptr_t>(args)...);
}

} // namespace openreg
