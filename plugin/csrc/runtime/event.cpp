// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/event.h"

#include <c10/util/Exception.h>

#include <array>
#include <deque>
#include <utility>

#include "runtime/capture.h"
#include "runtime/shared_event.h"
#include "runtime/submit.h"

namespace openreg {

namespace {

constexpr uint64_t kSlotBytes = 64 * 1024;
constexpr int kTries = 64;

// A word of host memory that the card writes the time to. The slot is free once the last
// TIMESTAMP packet for the slot has completed.
struct TimeSlot {
  uint64_t addr = 0;
  volatile uint64_t* word = nullptr;
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
    if (!find())
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
  // Moves a free slot to the front. Slots of a stuck stream go to the back, so that they
  // do not make the list grow at every search.
  bool find() {
    for (int n = 0; n < kTries && !free_.empty(); n++) {
      if (free_.front().done())
        return true;
      free_.push_back(free_.front());
      free_.pop_front();
    }
    return false;
  }

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

namespace {

// The record of an event on a stream.
struct Mark {
  StreamState* stream = nullptr;
  uint64_t seq = 0;
  uint64_t value = 0;
  TimeSlot slot;
  std::shared_ptr<Capture> capture; // the stream was captured: there is no packet
  uint64_t number = 0; // of the record, if other processes have the event

  // Throws if the host cannot use the mark: a capture has no time, and no end.
  void check_recorded() const {
    TORCH_CHECK(
        !capture,
        "the event was recorded while a graph was captured, so only the captured streams "
        "can wait for it. Record an event after replay().");
  }
};

} // namespace

struct Event {
  std::mutex mutex; // lock it last; threads share events without the GIL
  Mark last;
  std::shared_ptr<SharedEvent> shared; // never changes to another one

  Mark mark() {
    std::lock_guard<std::mutex> lock(mutex);
    return last;
  }
  std::shared_ptr<SharedEvent> common() {
    std::lock_guard<std::mutex> lock(mutex);
    return shared;
  }
  // The number of the newest record if another process has made it, else 0.
  uint64_t foreign() {
    std::lock_guard<std::mutex> lock(mutex);
    const uint64_t newest = shared ? shared->latest() : 0;
    return newest == last.number ? 0 : newest;
  }
  Mark exchange(const Mark& mark) {
    std::lock_guard<std::mutex> lock(mutex);
    return std::exchange(last, mark);
  }
};

namespace {

void stamp_locked(StreamState& s, TimeSlot& slot) {
  static const OpId op = op_id("openreg::event_timestamp");
  Packet packet(OPENREG_OP_TIMESTAMP, op);
  packet.operand(reinterpret_cast<void*>(slot.addr), OPENREG_I64);
  *slot.word = 0;
  slot.seq = submit_locked(s, packet);
  slot.stream = &s;
}

void mark_stream(StreamState& s, Mark& mark, SharedEvent* shared) {
  std::lock_guard<std::mutex> lock(s.mutex);
  if (mark.slot.word)
    stamp_locked(s, mark.slot);
  mark.seq = signal_locked(s);
  mark.value = s.signal_value;
  if (shared)
    shared->signal_locked(s, mark.number);
}

void drop_slot(const Mark& mark) {
  if (mark.slot.word)
    time_slots(mark.stream->device).give(mark.slot);
}

uint64_t time_of(const Mark& mark) {
  const uint64_t time = *mark.slot.word;
  TORCH_CHECK(
      time,
      "the event has no time: torch.openreg.reset() dropped its packet on stream ",
      mark.stream->id,
      "; record the event again");
  return time;
}

} // namespace

Event* new_event() {
  return new Event;
}

void record_event(
    Event* event,
    const c10::Stream& stream,
    c10::EventFlag flag) {
  StreamState& s = stream_state(stream);
  const StreamState* before = event->mark().stream;
  TORCH_CHECK(
      !before || before->device == s.device,
      "this event belongs to openreg:",
      static_cast<int>(before->device),
      " and cannot be recorded on a stream of openreg:",
      static_cast<int>(s.device),
      "; create one event for each device");
  Mark mark;
  mark.stream = &s;
  mark.capture = capture_of(s);
  if (mark.capture) {
    drop_slot(event->exchange(mark));
    return;
  }
  if (flag == c10::EventFlag::BACKEND_DEFAULT)
    mark.slot = time_slots(s.device).take(device(s.device));
  const auto shared = event->common();
  try {
    if (shared)
      mark.number = shared->begin();
    mark_stream(s, mark, shared.get());
  } catch (...) {
    if (mark.number)
      shared->cancel(mark.number);
    drop_slot(mark);
    throw;
  }
  drop_slot(event->exchange(mark));
}

void destroy_event(Event* event) noexcept {
  if (!event || in_bad_fork())
    return;
  drop_slot(event->last);
  delete event;
}

bool query_event(Event* event) {
  check_fork();
  const Mark mark = event ? event->mark() : Mark{};
  mark.check_recorded();
  if (const uint64_t number = event ? event->foreign() : 0)
    return event->common()->done(number);
  return !mark.stream || query_seq(*mark.stream, mark.seq);
}

void synchronize_event(Event* event) {
  check_fork();
  const Mark mark = event ? event->mark() : Mark{};
  mark.check_recorded();
  if (const uint64_t number = event ? event->foreign() : 0)
    event->common()->wait(number);
  else if (mark.stream)
    wait_interruptibly(*mark.stream, mark.seq);
}

namespace {

// A graph runs its packets in the order of their launches, so a captured stream waits
// already. Another stream takes part in the capture from now on.
void block_in_capture(const Mark& mark, StreamState& s) {
  TORCH_CHECK(
      s.device == mark.stream->device,
      "a stream of openreg:",
      static_cast<int>(s.device),
      " cannot wait for a graph that is being captured on openreg:",
      static_cast<int>(mark.stream->device),
      ". Capture a graph for each card.");
  join_capture(mark.capture, s);
}

// The other process has recorded the event.
void block_foreign(SharedEvent& shared, uint64_t number, StreamState& s) {
  if (shared.done(number))
    return;
  refuse_capture(
      s,
      "waiting for an event of another process",
      "Let the stream wait before the capture begins, or before replay().");
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    submit_wait_locked(s, shared.word(number), number);
  }
  check_reachable(s, s.last());
}

} // namespace

void block_event(Event* event, const c10::Stream& stream) {
  check_fork();
  const Mark mark = event ? event->mark() : Mark{};
  if (const uint64_t number = event ? event->foreign() : 0) {
    block_foreign(*event->common(), number, stream_state(stream));
    return;
  }
  if (!mark.stream)
    return;
  StreamState& s = stream_state(stream);
  if (mark.capture) {
    block_in_capture(mark, s);
    return;
  }
  if (reached(*mark.stream, mark.seq))
    return;
  refuse_capture(
      s,
      "waiting for an event that was recorded outside of the capture",
      "Let the stream wait before the capture begins, or before replay().");
  if (&s == mark.stream)
    return;
  if (s.device != mark.stream->device) {
    wait_interruptibly(*mark.stream, mark.seq);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    submit_wait_locked(s, *mark.stream, mark.seq, mark.value);
  }
  // Throw only after the WAIT is submitted: a caller that catches the error may free
  // memory, and the WAIT makes that safe.
  check_reachable(*mark.stream, mark.seq);
}

double elapsed_ms(Event* begin, Event* end) {
  check_fork();
  const Mark from = begin ? begin->mark() : Mark{};
  const Mark to = end ? end->mark() : Mark{};
  from.check_recorded();
  to.check_recorded();
  TORCH_CHECK(
      from.slot.word && to.slot.word,
      "both events must be created with enable_timing=True and be recorded");
  TORCH_CHECK_VALUE(
      from.stream->device == to.stream->device,
      "the events belong to openreg:",
      static_cast<int>(from.stream->device),
      " and openreg:",
      static_cast<int>(to.stream->device),
      ", and each card has its own clock");
  wait_interruptibly(*from.stream, from.seq);
  wait_interruptibly(*to.stream, to.seq);
  const auto ns = static_cast<int64_t>(time_of(to) - time_of(from));
  return static_cast<double>(ns) * 1e-6;
}

void forget_records(Event* event) {
  drop_slot(event->exchange(Mark{}));
}

int share_event(Event* event, c10::DeviceIndex index) {
  check_fork();
  Mark mark = event->mark();
  mark.check_recorded();
  if (!event->common()) {
    auto shared = std::make_shared<SharedEvent>(index);
    if (mark.stream) {
      mark.number = shared->begin();
      std::lock_guard<std::mutex> lock(mark.stream->mutex);
      shared->signal_locked(*mark.stream, mark.number);
    }
    std::lock_guard<std::mutex> lock(event->mutex);
    event->last.number = mark.number;
    event->shared = std::move(shared);
  }
  return event->common()->share();
}

void receive_event(Event* event, int fd, c10::DeviceIndex index) {
  auto shared = std::make_shared<SharedEvent>(fd, index);
  std::lock_guard<std::mutex> lock(event->mutex);
  event->shared = std::move(shared);
}

} // namespace openreg
