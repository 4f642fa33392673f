// SPDX-License-Identifier: BSD-3-Clause
// Stream functions of torch.openreg: handles, external streams, captures, and a packet that
// runs for a given time.
#include <algorithm>

#include "aten/program.h"
#include "python/bindings.h"
#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace openreg {
namespace {

// The most points of the space of one packet.
constexpr int64_t kSleepPoints = int64_t{1} << 34;

int64_t device_handle(int64_t index) {
  return reinterpret_cast<int64_t>(device(to_index(index)).handle);
}

int64_t stream_handle(int64_t id, int64_t index) {
  const c10::Stream stream(
      c10::Stream::UNSAFE, torch_device(to_index(index)), id);
  return reinterpret_cast<int64_t>(stream_state(stream).queue);
}

int64_t external(int64_t queue, int64_t index) {
  return external_stream(
             to_index(index), reinterpret_cast<openreg_queue*>(queue))
      .id();
}

// Whether queue is the handle of one of the device's streams. queue may be any number.
bool is_stream(int64_t given, int64_t queue) {
  const auto open = open_streams(to_index(given));
  return std::any_of(open.begin(), open.end(), [&](const StreamState* s) {
    return reinterpret_cast<int64_t>(s->queue) == queue;
  });
}

bool is_capturing(int64_t given) {
  return capture_runs() && current_stream_state(to_index(given)).capture;
}

// Launches one packet that adds up e that many times.
void launch_sleep(int64_t points, c10::DeviceIndex index) {
  static const OpId op = op_id("openreg::sleep");
  const c10::DataPtr word = allocate(sizeof(float), index);
  const int64_t still = 0;
  Packet packet(OPENREG_OP_VECTOR, op);
  packet.arg(0, 1);
  packet.space(points);
  packet.operand(word.get(), OPENREG_F32, &still);
  Program p(OPENREG_VT_F32);
  p.reduce({OPENREG_V_RED_SUM, 0}, exp(p(1.0)));
  p.put(packet);
  launch(packet, index);
}

void sleep(int64_t cycles, int64_t given) {
  const c10::DeviceIndex index = to_index(given);
  TORCH_CHECK_VALUE(cycles >= 0, "_sleep() takes a number of cycles, not ", cycles);
  for (; cycles > 0; cycles -= std::min(cycles, kSleepPoints))
    launch_sleep(std::min(cycles, kSleepPoints), index);
}

// Whether the device has unfinished work of this process.
bool busy(int64_t given) {
  const c10::DeviceIndex index = to_index(given);
  check_index(index);
  check_fork();
  const auto open = open_streams(index);
  return std::any_of(open.begin(), open.end(), [](const StreamState* s) {
    return !s->done(s->last());
  });
}

} // namespace

void bind_streams(py::module_& m) {
  m.def("device_handle", &device_handle, Unlocked());
  m.def("stream_handle", &stream_handle, Unlocked());
  m.def("external_stream", &external, Unlocked());
  m.def("is_stream", &is_stream, Unlocked());
  m.def("is_capturing", &is_capturing);
  m.def("graph_pool_handle", &new_pool_id);
  m.def("sleep", &sleep, Unlocked());
  m.def("busy", &busy);
}

} // namespace openreg
