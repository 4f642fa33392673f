// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/event.h"

#include <c10/util/Exception.h>

#include <array>
#include <deque>

#include "runtime/submit.h"

namespace openreg {

namespace {

constexpr uint64_t kSlotBytes = 64 * 1024;

// A word of host memory that the card writes the time to, free once the
// packet that writes it last is done.
struct TimeSlot {
  uint64_t addr = 0;
  const volatile uint64_t* word = nullptr;
  StreamState* stream = nullptr;
  uint64_t seq = 0;

  bool done() const {
    return !stream || stream->done(seq);
  }
};

class TimeSlots {
 public:
  TimeSlot take(Device& dev) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty() || !free_.front().done())
      grow(dev);
    TimeSlot slot = free_.front();
    free_.pop_front();
    return slot;
  }

  void give(const TimeSlot& slot) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(slot);
  }

 private:
  void grow(Device& dev) {
    openreg_bo* bo = nullptr;
    void* words = nullptr;
    int error =
        openreg_bo_alloc(dev.handle, kSlotBytes, OPENREG_BO_SYSTEM, &bo);
    if (!error)
      error = openreg_bo_map(bo, &words);
    if (error) {
      openreg_bo_free(bo);
      fail("no memory for the time stamps of openreg events", error);
    }
    const uint64_t addr = openreg_bo_address(bo);
    for (uint64_t at = 0; at < kSlotBytes; at += sizeof(uint64_t))
      free_.push_front(
          {addr + at, static_cast<uint64_t*>(words) + at / sizeof(uint64_t)});
  }

  std::mutex mutex_;
  std::deque<TimeSlot> free_;
};

TimeSlots& time_slots(c10::DeviceIndex index) {
  static auto* all = new std::array<TimeSlots, kMaxDevices>;
  return (*all)[index];
}

} // namespace

struct Event {
  StreamState* stream = nullptr;
  uint64_t seq = 0;
  uint64_t value = 0;
  TimeSlot slot;
};

namespace {

uint64_t stamp_locked(StreamState& s, const TimeSlot& slot) {
  static const OpId op = op_id("openreg::event_timestamp");
  Packet packet(OPENREG_OP_TIMESTAMP, op);
  packet.operand(reinterpret_cast<void*>(slot.addr), OPENREG_I64);
  return submit_locked(s, packet);
}

uint64_t signal_locked(StreamState& s) {
  static const OpId op = op_id("openreg::event_record");
  Packet packet = signal_packet(op, s, s.signal_value + 1);
  const uint64_t seq = submit_locked(s, packet);
  s.signal_value++;
  return seq;
}

bool finished(const Event& e) {
  return !e.stream || e.stream->done(e.seq);
}

void drop_slot(Event& e) {
  if (e.slot.word)
    time_slots(e.stream->device).give(e.slot);
  e.slot = {};
}

} // namespace

void record_event(
    Event** event,
    const c10::Stream& stream,
    c10::EventFlag flag) {
  StreamState& s = stream_state(stream);
  Event& e = *(*event ? *event : (*event = new Event));
  TORCH_CHECK(
      !e.stream || e.stream->device == s.device,
      "this event belongs to openreg:",
      static_cast<int>(e.stream->device),
      " and cannot be recorded on a stream of openreg:",
      static_cast<int>(s.device),
      "; make one event for each device");
  if (!finished(e))
    drop_slot(e);
  if (flag == c10::EventFlag::BACKEND_DEFAULT && !e.slot.word)
    e.slot = time_slots(s.device).take(device(s.device));

  std::lock_guard<std::mutex> lock(s.mutex);
  e.stream = &s;
  if (e.slot.word) {
    e.slot.seq = stamp_locked(s, e.slot);
    e.slot.stream = &s;
  }
  e.seq = signal_locked(s);
  e.value = s.signal_value;
}

void destroy_event(Event* event) noexcept {
  if (!event)
    return;
  drop_slot(*event);
  delete event;
}

bool query_event(Event* event) {
  return !event || !event->stream || query_seq(*event->stream, event->seq);
}

void synchronize_event(Event* event) {
  if (event && event->stream)
    wait_seq(*event->stream, event->seq);
}

void block_event(Event* event, const c10::Stream& stream) {
  if (query_event(event))
    return;
  StreamState& s = stream_state(stream);
  if (&s == event->stream)
    return;
  if (s.device != event->stream->device) {
    wait_seq(*event->stream, event->seq);
    return;
  }
  std::lock_guard<std::mutex> lock(s.mutex);
  submit_wait_locked(s, *event->stream, event->seq, event->value);
}

double elapsed_ms(Event* begin, Event* end) {
  TORCH_CHECK(
      begin && end && begin->slot.word && end->slot.word,
      "both events must be made with enable_timing=True and be recorded");
  TORCH_CHECK_VALUE(
      begin->stream->device == end->stream->device,
      "the events are of openreg:",
      static_cast<int>(begin->stream->device),
      " and openreg:",
      static_cast<int>(end->stream->device),
      ", and each card has its own clock");
  synchronize_event(begin);
  synchronize_event(end);
  const auto ns = static_cast<int64_t>(*end->slot.word - *begin->slot.word);
  return static_cast<double>(ns) * 1e-6;
}

} // namespace openreg
