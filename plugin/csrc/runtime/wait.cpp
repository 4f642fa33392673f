// SPDX-License-Identifier: BSD-3-Clause
// Waiting for packets that may never run: their own stream has faulted, or
// stands at a WAIT for one that has. The faults of streams that a packet does
// not depend on are none of its business.
#include <c10/util/Exception.h>

#include <map>
#include <optional>
#include <vector>

#include "runtime/stream.h"

namespace openreg {
namespace {

bool faulted(const StreamState& s) {
  openreg_fault_summary fault;
  return openreg_queue_fault(s.queue, &fault) == 1;
}

std::vector<PendingWait> pending_waits(StreamState& s) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  return {s.waits.begin(), s.waits.end()};
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

void forget_waits(StreamState& s, uint64_t seq) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  while (!s.waits.empty() && s.waits.front().seq <= seq)
    s.waits.pop_front();
}

// The card stores a SIGNAL before it moves its queue's counter, so who waited
// for it can be ahead of that for an instant. Nobody shall see it: a packet has
// completed once those that it waited for have. Here one of them that has not,
// although packet seq of s has.
std::optional<PendingWait> lagging(StreamState& s, uint64_t seq, Seen& seen) {
  const auto waits = pending_waits(s);
  if (waits.empty() || waits.front().seq > seq)
    return std::nullopt;
  uint64_t& looked = seen[&s];
  if (looked >= seq)
    return std::nullopt;
  looked = seq;
  for (const PendingWait& wait : waits) {
    if (wait.seq > seq)
      break;
    if (!wait.on->done(wait.signal_seq))
      return wait;
    if (auto found = lagging(*wait.on, wait.signal_seq, seen))
      return found;
  }
  forget_waits(s, seq);
  return std::nullopt;
}

std::optional<PendingWait> lagging(StreamState& s, uint64_t seq) {
  Seen seen;
  return lagging(s, seq, seen);
}

void wait_own(StreamState& s, uint64_t seq) {
  while (!s.done(seq)) {
    const int error = openreg_queue_wait(s.queue, seq, kWaitSliceNs);
    if (error == -ETIME)
      check_reachable(s, seq);
    else if (error)
      fail_stream(s, error);
  }
}

} // namespace

void add_wait_locked(StreamState& s, const PendingWait& wait) {
  lagging(s, openreg_queue_completed(s.queue)); // forgets those that are over
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  s.waits.push_back(wait);
}

void check_reachable(StreamState& s, uint64_t seq) {
  if (StreamState* stopped = blocker(s, seq))
    check_fault(*stopped);
}

bool query_seq(StreamState& s, uint64_t seq) {
  if (!s.done(seq)) {
    check_reachable(s, seq);
    return false;
  }
  const auto wait = lagging(s, seq);
  if (wait)
    check_reachable(*wait->on, wait->signal_seq);
  return !wait;
}

void wait_seq(StreamState& s, uint64_t seq) {
  wait_own(s, seq);
  while (const auto wait = lagging(s, seq))
    wait_own(*wait->on, wait->signal_seq);
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
