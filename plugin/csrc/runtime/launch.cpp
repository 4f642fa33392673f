// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/launch.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "runtime/blocking.h"
#include "runtime/capture.h"
#include "runtime/checks.h"
#include "runtime/interrupt.h"
#include "runtime/launch_log.h"
#include "runtime/peer_memory.h"
#include "runtime/submit.h"
#include "runtime/timeline.h"

namespace openreg {
namespace {

constexpr OpId kMaxOps = 4096;

// Entries are never changed or removed, so readers need no lock.
struct Ops {
  std::mutex adding;
  std::atomic<OpId> used{1}; // 0 is for packets of no operator
  std::array<const char*, kMaxOps> names{};
  std::array<std::atomic<uint64_t>, kMaxOps> counts{};
};

Ops& ops() {
  static Ops* ops = new Ops;
  return *ops;
}

} // namespace

OpId op_id(const char* name) {
  Ops& o = ops();
  std::lock_guard<std::mutex> lock(o.adding);
  const OpId used = o.used.load();
  for (OpId id = 1; id < used; id++)
    if (!std::strcmp(o.names[id], name))
      return id;
  TORCH_INTERNAL_ASSERT(used < kMaxOps);
  o.names[used] = name;
  o.used.store(used + 1, std::memory_order_release);
  tell_timeline(used, name);
  return used;
}

void each_op(void (*see)(OpId op, const char* name)) {
  Ops& o = ops();
  const OpId used = o.used.load(std::memory_order_acquire);
  for (OpId id = 1; id < used; id++)
    see(id, o.names[id]);
}

const char* op_name(OpId op) {
  Ops& o = ops();
  return op > 0 && op < o.used.load(std::memory_order_acquire)
      ? o.names[op]
      : "a packet of no operator";
}

void count_op(OpId op) {
  if (C10_LIKELY(op < kMaxOps))
    ops().counts[op].fetch_add(1, std::memory_order_relaxed);
}

std::vector<std::pair<std::string, uint64_t>> op_counts() {
  Ops& o = ops();
  std::vector<std::pair<std::string, uint64_t>> found;
  const OpId used = o.used.load(std::memory_order_acquire);
  for (OpId id = 1; id < used; id++)
    if (const uint64_t n = o.counts[id].load(std::memory_order_relaxed))
      found.emplace_back(o.names[id], n);
  return found;
}

void reset_op_counts() {
  for (auto& count : ops().counts)
    count.store(0, std::memory_order_relaxed);
}

void* begin_locked(
    StreamState& stream,
    unsigned slots,
    uint64_t* seq,
    bool give_up) {
  for (;;) {
    void* slot;
    const int error = openreg_queue_begin(stream.queue, slots, &slot, seq);
    if (C10_LIKELY(error == 0))
      return slot;
    if (error != -ETIME)
      fail_stream(stream, error);
    const uint64_t last = stream.last_seq.load(std::memory_order_relaxed);
    check_reachable(stream, last);
    if (give_up)
      throw LongWait{stream, last};
    give_up_long_wait(stream, last);
  }
}

uint64_t submit_locked(StreamState& stream, const Packet& packet, bool give_up) {
  check_operands(packet.data());
  if (C10_UNLIKELY(capture_runs()) && capture_packet(stream, packet))
    return 0; // waits for the stream throw, so that nothing waits for this number
  return submit_bytes_locked(stream, packet.data(), packet.slots(), give_up);
}

uint64_t submit_bytes_locked(
    StreamState& stream,
    const void* packet,
    unsigned slots,
    bool give_up) {
  const bool logged = stream.log;
  const auto begin = C10_UNLIKELY(logged) ? launch_begins(stream, packet) : 0;
  uint64_t seq;
  void* slot = begin_locked(stream, slots, &seq, give_up);
  std::memcpy(slot, packet, size_t{slots} * OPENREG_SLOT_SIZE);
  const int64_t last = openreg_queue_submit(stream.queue);
  if (C10_UNLIKELY(last < 0))
    fail_stream(stream, static_cast<int>(last));
  stream.last_seq.store(seq, std::memory_order_release);
  if (C10_UNLIKELY(checks_on.load(std::memory_order_relaxed)))
    keep_stack(stream, seq);
  if (C10_UNLIKELY(logged))
    launch_ends(stream, static_cast<const openreg_packet*>(packet)->cookie, seq, begin);
  return seq;
}

double max_work(c10::DeviceIndex index) {
  return std::exp2(device(index).info.max_work);
}

void check_work(c10::IntArrayRef sizes, c10::DeviceIndex index) {
  double work = 1;
  for (const int64_t size : sizes) {
    work *= static_cast<double>(size);
  }
  const double most = max_work(index);
  TORCH_CHECK(
      work <= most,
      "openreg: an operator would visit ",
      sizes,
      " elements in one packet, but the limit is ",
      static_cast<uint64_t>(most),
      "; call it for parts of the tensor, for example from torch.split(), and "
      "combine the results");
}

void launch(const Packet& packet, c10::DeviceIndex device, Part part) {
  StreamState& stream = current_stream_state(device);
  const LaunchStack stack;
  uint64_t seq;
  // Does the same as restartable(), but without its thread-local flag.
  try {
    std::lock_guard<std::mutex> lock(stream.mutex);
    seq = submit_locked(stream, packet, /*give_up=*/true);
  } catch (const LongWait& wait) {
    wait_interruptibly(wait.stream, wait.seq);
    std::lock_guard<std::mutex> lock(stream.mutex);
    seq = submit_locked(stream, packet);
  }
  block_launch(stream, seq);
  if (part == Part::FIRST)
    count_op(packet.op());
}

} // namespace openreg
