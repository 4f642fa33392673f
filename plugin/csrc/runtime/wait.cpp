// SPDX-License-Identifier: BSD-3-Clause
// Waits for packets that may never run, because their own stream has faulted, or because
// it waits for a stream that has faulted. A wait ignores the faults of streams that the
// packet does not depend on.
#include <c10/util/Exception.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/capture.h"
#include "runtime/checks.h"
#include "runtime/gpu_trace.h"
#include "runtime/interrupt.h"
#include "runtime/launch_log.h"
#include "runtime/peer_memory.h"
#include "runtime/stream.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

bool faulted(const StreamState& s) {
  openreg_fault_summary fault;
  return openreg_queue_fault(s.queue, &fault) == 1;
}

// Whether packets of the stream cannot run before the program does something about it.
bool stopped(const StreamState& s) {
  return s.broken.load(std::memory_order_relaxed) || faulted(s);
}

std::vector<PendingWait> waits_until(StreamState& s, uint64_t seq) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  std::vector<PendingWait> found;
  for (const PendingWait& wait : s.waits) {
    if (wait.seq > seq)
      break;
    found.push_back(wait);
  }
  return found;
}

// The last packet of each stream that a search has visited.
using Visited = std::map<const StreamState*, uint64_t>;

// False if the search has visited packet seq, or a later packet, of the stream before.
bool first_visit(StreamState& s, uint64_t seq, Visited& visited) {
  uint64_t& last_visited = visited[&s];
  if (last_visited >= seq)
    return false;
  last_visited = seq;
  return true;
}

// What keeps a stream from reaching a packet: a stream's fault, or a foreign word
// that is abandoned.
struct Blocker {
  StreamState* stream = nullptr;
  std::shared_ptr<const ForeignWord> abandoned{};

  explicit operator bool() const {
    return stream || abandoned;
  }
};

// Returns what keeps s from reaching packet seq. Visits the latest WAIT first, so that the
// search visits few packets twice.
Blocker blocker(StreamState& s, uint64_t seq, Visited& visited) {
  if (!s.done(seq) && stopped(s) && !s.done(seq))
    return {&s};
  if (!first_visit(s, seq, visited))
    return {};
  const auto waits = waits_until(s, seq);
  for (auto wait = waits.rbegin(); wait != waits.rend(); ++wait) {
    if (wait->foreign && !s.done(wait->seq) && is_lost(*wait))
      return {&s, wait->foreign};
    if (wait->foreign)
      continue;
    if (Blocker found = blocker(*wait->on, wait->signal_seq, visited))
      return found;
  }
  return {};
}

Blocker blocker(StreamState& s, uint64_t seq) {
  Visited visited;
  return blocker(s, seq, visited);
}

// Whether another process has raised the word.
bool arrived(const PendingWait& wait) {
  return wait.foreign->value() >= wait.signal_value;
}

void forget_waits(StreamState& s, uint64_t seq) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  while (!s.waits.empty() && s.waits.front().seq <= seq)
    s.waits.pop_front();
}

// Returns a WAIT of s, or of a stream that s waits for, whose SIGNAL has not completed
// yet although packet seq of s counts as completed. A packet is complete only when the
// packets that it waits for are. The card's counter can be ahead of that in two cases:
//  - The card stores a SIGNAL's value before it moves the counter of the SIGNAL's queue.
//    The waiting queue can complete in between.
//  - A reset counts dropped packets as completed, even behind a WAIT.
std::optional<PendingWait> lagging(StreamState& s, uint64_t seq, Visited& visited) {
  const auto waits = waits_until(s, seq);
  if (waits.empty() || !first_visit(s, seq, visited))
    return std::nullopt;
  for (const PendingWait& wait : waits) {
    if (wait.foreign && !arrived(wait) && !is_lost(wait))
      return wait;
    if (wait.foreign)
      continue;
    if (!wait.on->done(wait.signal_seq))
      return wait;
    if (auto found = lagging(*wait.on, wait.signal_seq, visited))
      return found;
  }
  forget_waits(s, waits.back().seq);
  return std::nullopt;
}

std::optional<PendingWait> lagging(StreamState& s, uint64_t seq) {
  Visited visited;
  return lagging(s, seq, visited);
}

// Waits for packet seq of s. Calls long_wait(s, seq) after each slice. One error without
// a fault is ignored: a reset in another thread has just cleared the fault, and the
// packets count as completed after it.
template <class F>
void wait_own(StreamState& s, uint64_t seq, F long_wait) {
  bool again = false;
  while (!s.done(seq)) {
    const int error = openreg_queue_wait(s.queue, seq, kWaitSliceNs);
    if (error == -ETIME) {
      check_reachable(s, seq);
      long_wait(s, seq);
    } else if (error && (faulted(s) || std::exchange(again, true))) {
      fail_stream(s, error);
    }
  }
}

// Waits for a SIGNAL of another process. Only a wait after a reset has to: the WAIT packet
// was dropped.
template <class F>
void wait_foreign(const PendingWait& wait, F long_wait) {
  for (int n = 1; !arrived(wait) && !is_lost(wait); n++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (n % 50 == 0)
      long_wait();
  }
}

template <class F>
void wait_all(StreamState& s, uint64_t seq, F long_wait) {
  check_fork();
  wait_own(s, seq, long_wait);
  while (const auto wait = lagging(s, seq))
    if (wait->foreign)
      wait_foreign(*wait, [&] { long_wait(s, seq); });
    else
      wait_own(*wait->on, wait->signal_seq, long_wait);
}

void wait_signals(StreamState& s, uint64_t seq) {
  wait_all(s, seq, [](StreamState&, uint64_t) { check_signals(); });
}

// Waits like settle(), but only for the packets of s itself.
bool settle_own(StreamState& s, uint64_t seq) {
  bool again = false;
  while (!s.done(seq)) {
    const int error = openreg_queue_wait(s.queue, seq, kWaitSliceNs);
    if (error && faulted(s))
      return true;
    if (error == -ETIME && blocker(s, seq))
      return false;
    if (error && error != -ETIME && std::exchange(again, true))
      fail_stream(s, error);
  }
  return true;
}

bool settle(StreamState& s, uint64_t seq, Visited& visited) {
  if (!first_visit(s, seq, visited))
    return true;
  if (!settle_own(s, seq))
    return false;
  for (const PendingWait& wait : waits_until(s, seq))
    if (wait.foreign)
      wait_foreign(wait, [] {});
    else if (!settle(*wait.on, wait.signal_seq, visited))
      return false;
  return true;
}

void list_wait(StreamState& s, const PendingWait& wait) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  s.waits.push_back(wait);
}

} // namespace

Packet signal_packet(OpId op, const StreamState& s, uint64_t value) {
  Packet packet(OPENREG_OP_SIGNAL, op);
  packet.arg(0, OPENREG_SIGNAL_SET);
  packet.operand(reinterpret_cast<void*>(s.signal_addr), OPENREG_I64);
  packet.imm(static_cast<int64_t>(value));
  return packet;
}

uint64_t signal_locked(StreamState& s) {
  static const OpId op = op_id("openreg::event_record");
  Packet packet = signal_packet(op, s, s.signal_value + 1);
  const uint64_t seq = submit_locked(s, packet);
  s.signal_value++;
  return seq;
}

Packet wait_packet(OpId op, const PendingWait& wait) {
  const uint64_t word = wait.foreign ? wait.foreign->addr() : wait.on->signal_addr;
  Packet packet(OPENREG_OP_WAIT, op);
  packet.arg(0, OPENREG_WAIT_GE);
  packet.operand(reinterpret_cast<void*>(word), OPENREG_I64);
  packet.imm(static_cast<int64_t>(wait.signal_value));
  return packet;
}

namespace {

// List the WAIT before the packet becomes visible to the card. List it also if the queue
// has faulted: packets that are launched after a reset may use memory that is freed now.
void submit_wait_locked(StreamState& s, PendingWait wait) {
  static const OpId op = op_id("openreg::event_wait");
  wait.own_value = s.signal_value;
  const Packet packet = wait_packet(op, wait);
  const auto begin = s.log ? launch_begins(s, packet.data()) : 0;
  lagging(s, openreg_queue_completed(s.queue)); // removes the WAITs that have completed
  void* slot = begin_locked(s, packet.slots(), &wait.seq);
  list_wait(s, wait);
  std::memcpy(slot, packet.data(), size_t{packet.slots()} * OPENREG_SLOT_SIZE);
  const int64_t last = openreg_queue_submit(s.queue);
  s.last_seq.store(wait.seq, std::memory_order_release);
  if (last < 0)
    fail_stream(s, static_cast<int>(last));
  if (s.log)
    launch_ends(s, op, wait.seq, begin);
}

} // namespace

void submit_wait_locked(
    StreamState& s,
    StreamState& on,
    uint64_t signal_seq,
    uint64_t signal_value) {
  submit_wait_locked(s, {0, &on, signal_seq, signal_value, 0});
}

void submit_wait_locked(
    StreamState& s,
    std::shared_ptr<const ForeignWord> word,
    uint64_t value) {
  submit_wait_locked(s, {0, nullptr, 0, value, 0, std::move(word)});
}

std::string lost_work(const std::string& process) {
  return "work of " + process +
      ", which has ended before the work was done. What it has sent has undefined contents.";
}

bool is_lost(const PendingWait& wait) {
  return wait.foreign && !arrived(wait) && wait.foreign->abandoned() && !arrived(wait);
}

std::vector<PendingWait> waits_behind(StreamState& s, uint64_t seq) {
  std::lock_guard<std::mutex> lock(s.waits_mutex);
  std::vector<PendingWait> found;
  for (const PendingWait& wait : s.waits)
    if (wait.seq > seq)
      found.push_back(wait);
  return found;
}

void check_reachable(StreamState& s, uint64_t seq) {
  const Blocker found = blocker(s, seq);
  TORCH_CHECK(
      !found.abandoned,
      "openreg:",
      static_cast<int>(found.stream->device),
      " stream ",
      found.stream->id,
      " waits for ",
      found.abandoned->loss(),
      " torch.openreg.reset() drops the work that waits, and makes the stream usable "
      "again.");
  if (found)
    check_fault(*found.stream);
}

bool query_seq(StreamState& s, uint64_t seq) {
  check_fork();
  refuse_wait(s);
  if (!s.done(seq)) {
    check_reachable(s, seq);
    return false;
  }
  const auto wait = lagging(s, seq);
  if (wait && wait->on)
    check_reachable(*wait->on, wait->signal_seq);
  return !wait;
}

void wait_seq(StreamState& s, uint64_t seq) {
  const LoggedWait logged(!s.done(seq));
  refuse_wait(s);
  wait_all(s, seq, give_up_long_wait);
}

void wait_interruptibly(StreamState& s, uint64_t seq) {
  const LoggedWait logged;
  refuse_wait(s);
  wait_signals(s, seq);
}

void wait_read(StreamState& s, const Sent& read) {
  wait_seq(s, read.seq);
  TORCH_CHECK(
      s.resets == read.resets,
      "torch.openreg.reset() in another thread has dropped a read from openreg:",
      static_cast<int>(s.device),
      "; read again");
  gpu_trace(&GpuTrace::trace_gpu_stream_synchronization, s.queue);
}

bool reached(StreamState& s, uint64_t seq) {
  return s.done(seq) && !lagging(s, seq);
}

bool settle(StreamState& s, uint64_t seq) {
  Visited visited;
  return settle(s, seq, visited);
}

void synchronize_stream(StreamState& s) {
  wait_interruptibly(s, s.last());
  if (C10_UNLIKELY(checks_on.load(std::memory_order_relaxed)))
    report_findings();
  check_fault(s);
}

namespace {

void wait_for_device(c10::DeviceIndex index) {
  device(index);
  for (StreamState* s : open_streams(index)) {
    // The packets from before the capture are not part of it.
    if (!captured_by_another_thread(*s))
      refuse_wait(*s);
    wait_signals(*s, s->last());
    check_fault(*s);
  }
}

} // namespace

void synchronize_device(c10::DeviceIndex index) {
  const LoggedWait logged;
  check_index(index);
  if (device_opened(index))
    wait_for_device(index);
  collect_peer_memory();
  gpu_trace(&GpuTrace::trace_gpu_device_synchronization);
  if (C10_UNLIKELY(checks_on.load(std::memory_order_relaxed)))
    report_findings();
}

} // namespace openreg
