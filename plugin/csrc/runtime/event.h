// SPDX-License-Identifier: BSD-3-Clause
// An event is a SIGNAL packet's number and value, and, if it takes the time, a
// word of host memory that a TIMESTAMP packet writes.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace openreg {

struct Event;

Event* new_event();
// The event stays what it was if this throws.
void record_event(Event* event, const c10::Stream& stream, c10::EventFlag flag);
void destroy_event(Event* event) noexcept;
bool query_event(Event* event);
void synchronize_event(Event* event);
// The stream's later work waits on the card; between cards the caller waits.
void block_event(Event* event, const c10::Stream& stream);
// Milliseconds of the card's clock.
double elapsed_ms(Event* begin, Event* end);

} // namespace openreg
