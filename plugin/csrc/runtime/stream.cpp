// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream.h"

#include <c10/util/Exception.h>

#include <array>

#include "runtime/gpu_trace.h"
#include "runtime/launch_log.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

constexpr uint32_t kRingSlots = 4096;

struct Streams {
  std::array<std::atomic<StreamState*>, kStreams> states{};
  std::mutex creating;
  openreg_bo* words = nullptr; // one cache line a stream
  std::atomic<unsigned> next[2]{};
};

Streams& streams(c10::DeviceIndex index) {
  static auto* all = new std::array<Streams, kMaxDevices>;
  return (*all)[index];
}

struct Current {
  StreamState* state;
  c10::StreamId id;
};
thread_local std::array<Current, kMaxDevices> tls_current{};

int create_queue(Device& dev, int priority, openreg_queue** queue) {
  openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
  attr.slots = std::min(kRingSlots, dev.info.max_ring_slots);
  attr.priority = priority;
  attr.full_timeout_ns = kWaitSliceNs; // begin_locked() waits again after each slice
  int error = openreg_queue_create(dev.handle, &attr, queue);
  if (error == -EACCES && priority > 0) {
    // High priority is a privilege. A stream with normal priority is still correct.
    attr.priority = 0;
    error = openreg_queue_create(dev.handle, &attr, queue);
  }
  return error;
}

// The caller holds s.creating.
StreamState* new_state(Streams& s, Device& dev, c10::StreamId id) {
  if (!s.words) {
    const int error = openreg_bo_alloc(
        dev.handle, kStreams * 64, OPENREG_BO_VRAM, &s.words);
    if (error)
      fail("no device memory for the streams of openreg", error);
  }
  auto* state = new StreamState;
  state->device = dev.index;
  state->id = id;
  state->signal_addr = openreg_bo_address(s.words) + 64 * id;
  return state;
}

StreamState* create_stream(c10::DeviceIndex index, c10::StreamId id) {
  Device& dev = device(index);
  Streams& s = streams(index);
  std::lock_guard<std::mutex> lock(s.creating);
  if (StreamState* made = s.states[id].load())
    return made;
  TORCH_CHECK_VALUE(
      id < kOwnStreams,
      "openreg has no external stream ",
      id,
      "; torch.openreg.ExternalStream() creates one from a queue");
  StreamState* state = new_state(s, dev, id);
  const int error = create_queue(dev, id > kPoolPerPriority, &state->queue);
  if (error) {
    delete state;
    // The card has no free queue: the pool stream shares the default stream's queue.
    StreamState* shared = s.states[0].load();
    if (error != -ENOSPC || !shared)
      fail("openreg:" + std::to_string(index) + " cannot create a queue", error);
    state = shared;
  }
  s.states[id].store(state, std::memory_order_release);
  join_launch_logs(*state);
  return state;
}

StreamState& state_of(c10::DeviceIndex index, c10::StreamId id) {
  check_fork();
  check_index(index);
  TORCH_CHECK(
      id >= 0 && id < kStreams,
      "openreg has no stream ",
      id,
      "; create one with torch.openreg.Stream()");
  StreamState* state =
      streams(index).states[id].load(std::memory_order_acquire);
  if (C10_LIKELY(state != nullptr))
    return *state;
  state = create_stream(index, id);
  gpu_trace(&GpuTrace::trace_gpu_stream_creation, state->queue);
  return *state;
}

} // namespace

StreamState& stream_state(const c10::Stream& stream) {
  TORCH_CHECK(
      stream.device_type() == kDeviceType,
      "expected a stream of openreg, got one of ",
      stream.device());
  return state_of(stream.device_index(), stream.id());
}

StreamState& current_stream_state(c10::DeviceIndex index) {
  if (C10_LIKELY(index >= 0 && index < kMaxDevices)) {
    Current& current = tls_current[index];
    if (C10_LIKELY(current.state != nullptr && !in_bad_fork()))
      return *current.state;
  }
  device(index);
  StreamState& state = state_of(index, 0);
  tls_current[index] = {&state, 0};
  return state;
}

c10::Stream current_stream(c10::DeviceIndex index) {
  check_index(index);
  return c10::Stream(
      c10::Stream::UNSAFE, torch_device(index), tls_current[index].id);
}

c10::Stream default_stream(c10::DeviceIndex index) {
  check_index(index);
  return c10::Stream(c10::Stream::DEFAULT, torch_device(index));
}

c10::Stream pool_stream(c10::DeviceIndex index, int priority) {
  const bool high = priority < 0;
  state_of(index, 0); // create the default stream first: the new stream may share it
  const unsigned n = streams(index).next[high].fetch_add(1);
  const c10::StreamId id =
      1 + high * kPoolPerPriority + static_cast<int>(n % kPoolPerPriority);
  state_of(index, id);
  return c10::Stream(c10::Stream::UNSAFE, torch_device(index), id);
}

c10::Stream external_stream(c10::DeviceIndex index, openreg_queue* queue) {
  check_index(index);
  Device& dev = device(index);
  TORCH_CHECK_VALUE(
      queue && openreg_queue_device(queue) == dev.handle,
      "an external stream needs a queue that was created with the same device's "
      "handle: torch.openreg.device_handle()");
  state_of(index, 0);
  Streams& s = streams(index);
  std::lock_guard<std::mutex> lock(s.creating);
  for (c10::StreamId id = 0; id < kStreams; id++) {
    StreamState* state = s.states[id].load();
    if (!state && id >= kOwnStreams) {
      state = new_state(s, dev, id);
      state->queue = queue;
      s.states[id].store(state, std::memory_order_release);
    }
    if (state && state->queue == queue)
      return c10::Stream(c10::Stream::UNSAFE, torch_device(index), state->id);
  }
  TORCH_CHECK(
      false,
      "openreg:",
      static_cast<int>(index),
      " has ",
      kExternalStreams,
      " streams of external queues, which is the limit. Reuse the queues of external streams, "
      "and give up process groups and windows that are over");
}

c10::Stream exchange_stream(const c10::Stream& stream) {
  const c10::Stream before = current_stream(stream.device_index());
  tls_current[stream.device_index()] = {&stream_state(stream), stream.id()};
  return before;
}

openreg_bo* stream_words(c10::DeviceIndex index) {
  state_of(index, 0);
  Streams& s = streams(index);
  std::lock_guard<std::mutex> lock(s.creating);
  return s.words;
}

std::vector<StreamState*> open_streams(c10::DeviceIndex index) {
  std::vector<StreamState*> found;
  for (c10::StreamId id = 0; id < kStreams; id++) {
    StreamState* s = streams(index).states[id].load();
    if (s && s->id == id)
      found.push_back(s);
  }
  return found;
}

namespace {

// The advice for an error message. A reset of the card ends all contexts and frees their
// memory, so torch.openreg.reset() cannot help after it.
const char* advice(const openreg_fault_summary& fault) {
  if (fault.code == OPENREG_FAULT_HANG)
    return "If only this stream was stopped, torch.openreg.reset() makes it usable "
           "again. If reset() raises this error too, the card was reset: this "
           "process has lost its data on the card and must be restarted.";
  return "Later packets on this stream did not run; other streams continue. "
         "torch.openreg.reset() drops those packets and makes the stream usable "
         "again.";
}

} // namespace

void check_fault(StreamState& stream) {
  if (const std::string* broken = stream.broken.load(std::memory_order_acquire))
    C10_THROW_ERROR(DistBackendError, *broken);
  openreg_fault_summary fault{};
  if (openreg_queue_fault(stream.queue, &fault) != 1)
    return;
  char text[512];
  openreg_fault_text(&fault, text, sizeof(text));
  throw c10::AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
      static_cast<int32_t>(fault.code),
      c10::str(
          "openreg:",
          static_cast<int>(stream.device),
          " stream ",
          stream.id,
          " has faulted in ",
          op_name(fault.cookie),
          ": ",
          text,
          ". ",
          advice(fault)));
}

void fail_stream(StreamState& stream, int error) {
  check_fault(stream);
  fail(
      "openreg:" + std::to_string(stream.device) + " stream " +
          std::to_string(stream.id),
      error);
}

} // namespace openreg
