// SPDX-License-Identifier: BSD-3-Clause
// An event is the number and the value of a SIGNAL packet. An event with timing also has
// a word of host memory that a TIMESTAMP packet writes.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

struct Event;

Event* new_event();
// If record_event() throws, the event keeps its earlier record.
void record_event(Event* event, const c10::Stream& stream, c10::EventFlag flag);
void destroy_event(Event* event) noexcept;
bool query_event(Event* event);
void synchronize_event(Event* event);
// Makes the stream's later packets wait for the event on the card. If the event is on
// another card, the caller waits instead.
void block_event(Event* event, const c10::Stream& stream);
// Milliseconds of the card's clock.
double elapsed_ms(Event* begin, Event* end);

// Undoes all records: the event is as new_event() made it.
void forget_records(Event* event);
// Lets other processes have the event. Returns a file descriptor for them.
int share_event(Event* event, c10::DeviceIndex index);
// Makes a new event the one of another process's descriptor.
void receive_event(Event* event, int fd, c10::DeviceIndex index);

} // namespace openreg
#pragma GCC visibility pop
