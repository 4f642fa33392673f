// SPDX-License-Identifier: BSD-3-Clause
// Waiting for packets that may never run: their own stream has faulted, or
// stands at a WAIT for one that has. The faults of streams that a packet does
// not depend on are none of its business.
#include <c10/util/Exception.h>

#include <map>

#include "runtime/stream.h"

namespace openreg {
namespace {

bool faulted(const StreamState& s) {
  openreg_fault_summary fault;
  return openreg_queue_fault(s.queue, &fault) == 1;
}

std::deque<PendingWait> pending_waits(StreamState& s) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  return s.waits;
}

// How far each stream has been looked at already.
using Seen = std::map<const StreamState*, uint64_t>;

// The stream whose fault keeps s from reaching packet seq, or null. Latest
// first, so that few are looked at twice.
StreamState* blocker(StreamState& s, uint64_t seq, Seen& seen) {
  if (s.done(seq))
    return nullptr;
  if (faulted(s))
    return s.done(seq) ? nullptr : &s;
  uint64_t& looked = seen[&s];
  if (looked >= seq)
    return nullptr;
  looked = seq;
  const auto waits = pending_waits(s);
  for (auto wait = waits.rbegin(); wait != waits.rend(); ++wait) {
    if (wait->seq > seq || s.done(wait->seq))
      continue;
    if (StreamState* found = blocker(*wait->on, wait->signal_seq, seen))
      return found;
  }
  return nullptr;
}

StreamState* blocker(StreamState& s, uint64_t seq) {
  Seen seen;
  return blocker(s, seq, seen);
}

} // namespace

void add_wait_locked(StreamState& s, const PendingWait& wait) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  while (!s.waits.empty() && s.done(s.waits.front().seq))
    s.waits.pop_front();
  s.waits.push_back(wait);
}

void check_reachable(StreamState& s, uint64_t seq) {
  if (StreamState* stopped = blocker(s, seq))
    check_fault(*stopped);
}

bool query_seq(StreamState& s, uint64_t seq) {
  if (s.done(seq))
    return true;
  check_reachable(s, seq);
  return false;
}

void wait_seq(StreamState& s, uint64_t seq) {
  while (!s.done(seq)) {
    const int error = openreg_queue_wait(s.queue, seq, kWaitSliceNs);
    if (error == -ETIME)
      check_reachable(s, seq);
    else if (error)
      fail_stream(s, error);
  }
}

bool settle(StreamState& s, uint64_t seq) {
  while (!s.done(seq)) {
    const int error = openreg_queue_wait(s.queue, seq, kWaitSliceNs);
    if (error && faulted(s))
      return true;
    if (error == -ETIME && blocker(s, seq))
      return false;
    if (error && error != -ETIME)
      fail_stream(s, error);
  }
  return true;
}

void synchronize_stream(StreamState& s) {
  wait_seq(s, s.last());
  check_fault(s);
}

void synchronize_device(c10::DeviceIndex index) {
  check_index(index);
  if (!device_opened(index))
    return;
  device(index);
  for (StreamState* s : open_streams(index))
    synchronize_stream(*s);
}

} // namespace openreg
