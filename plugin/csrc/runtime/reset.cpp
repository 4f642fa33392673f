// SPDX-License-Identifier: BSD-3-Clause
// What a reset of a faulted queue drops counts as completed. That is true of
// what the packets would have done, but not of their order: memory is reused
// because a WAIT stands before it, and other streams stand at a WAIT for a
// SIGNAL. So both are put there again, as they followed each other: where there
// was no circle there is none.
#include "runtime/stream.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

bool faulted(const StreamState& s) {
  openreg_fault_summary fault;
  return openreg_queue_fault(s.queue, &fault) == 1;
}

// The order stays, the work is gone. The clock never goes back: what it shows
// was stored before the first of the WAITs. The ring had room for more.
void keep_order_locked(
    StreamState& s,
    const std::vector<PendingWait>& dropped) {
  static const OpId op = op_id("openreg::reset");
  uint64_t stored = 0;
  const auto store = [&](uint64_t value) {
    if (value == stored)
      return;
    Packet packet = signal_packet(op, s, value);
    submit_locked(s, packet);
    stored = value;
  };
  for (const PendingWait& wait : dropped) {
    store(wait.own_value);
    Packet packet = wait_packet(op, wait);
    submit_locked(s, packet);
  }
  store(s.signal_value);
}

void reset_locked(StreamState& s) {
  const auto dropped = waits_behind(s, openreg_queue_completed(s.queue));
  s.resets++; // before anything counts as done
  const int error = openreg_queue_reset(s.queue);
  if (error)
    fail_stream(s, error);
  keep_order_locked(s, dropped);
}

} // namespace

void reset_device(c10::DeviceIndex index) {
  device(index);
  for (StreamState* s : open_streams(index)) {
    if (!faulted(*s))
      continue; // its mutex may be held for long
    std::lock_guard<std::mutex> lock(s->mutex);
    if (faulted(*s))
      reset_locked(*s);
  }
}

} // namespace openreg
