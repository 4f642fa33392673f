// SPDX-License-Identifier: BSD-3-Clause
// A reset of a faulted queue drops its packets, and they count as completed. The dropped
// work is not needed, but the order between streams still is:
//  - The allocator reuses memory because a dropped WAIT came before the reuse.
//  - Other streams wait for a dropped SIGNAL.
// So the reset submits the dropped WAITs and SIGNALs again in their old order. The old
// order had no cycle, so the new one has none.
#include <algorithm>

#include "runtime/stream.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

bool faulted(const StreamState& s) {
  openreg_fault_summary fault;
  return openreg_queue_fault(s.queue, &fault) == 1;
}

// Submits the dropped WAITs again, and the SIGNALs between them. The stream's clock never
// goes back: the clock's present value was stored before the first dropped WAIT. The ring
// has room: it held more packets before the reset.
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
    if (is_lost(wait))
      continue;
    store(wait.own_value);
    Packet packet = wait_packet(op, wait);
    submit_locked(s, packet);
  }
  store(s.signal_value);
}

// Whether the stream waits for a foreign word that is abandoned.
bool abandoned(StreamState& s) {
  const auto waits = waits_behind(s, openreg_queue_completed(s.queue));
  return std::any_of(waits.begin(), waits.end(), is_lost);
}

void reset_locked(StreamState& s) {
  s.completed_at_reset = openreg_queue_completed(s.queue);
  const auto dropped = waits_behind(s, s.completed_at_reset);
  s.resets++; // first: after the reset, the dropped packets count as completed
  const int error = openreg_queue_reset(s.queue);
  if (error)
    fail_stream(s, error);
  keep_order_locked(s, dropped);
}

} // namespace

void reset_device(c10::DeviceIndex index) {
  device(index);
  for (StreamState* s : open_streams(index)) {
    if (!faulted(*s) && !abandoned(*s))
      continue; // do not lock: another thread may hold the mutex for long
    std::lock_guard<std::mutex> lock(s->mutex);
    if (faulted(*s) || abandoned(*s))
      reset_locked(*s);
  }
}

} // namespace openreg
