// SPDX-License-Identifier: BSD-3-Clause
// torch_openreg._C: functions of the Python package that torch.accelerator lacks.
#include <torch/csrc/Event.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>

#include "python/bindings.h"
#include "runtime/blocking.h"
#include "runtime/capture.h"
#include "runtime/checks.h"
#include "runtime/fallback.h"
#include "runtime/generator.h"
#include "runtime/label.h"
#include "runtime/package_fallback.h"
#include "runtime/stream.h"
#include "runtime/submit.h"

namespace py = pybind11;

namespace openreg {

c10::DeviceIndex to_index(int64_t index) {
  if (index < -1 || index >= kMaxDevices)
    check_index(index);
  return static_cast<c10::DeviceIndex>(index);
}

namespace {

py::dict properties(int64_t given) {
  const c10::DeviceIndex index = to_index(given);
  check_index(index);
  const openreg_device_info& info = [&]() -> const openreg_device_info& {
    py::gil_scoped_release unlocked; // device() may open the card, which takes long
    return device(index).info;
  }();
  py::dict d;
  d["name"] = "openreg";
  d["path"] = info.path;
  d["pci"] = info.pci;
  d["driver"] = info.driver;
  d["isa_major"] = info.isa_version >> 16;
  d["isa_minor"] = info.isa_version & 0xffff;
  d["card"] = info.card;
  d["total_memory"] = info.vram_size;
  d["workers"] = info.workers;
  d["slice_us"] = info.slice_us;
  d["max_queues"] = info.max_queues;
  d["max_segments"] = info.max_segments;
  d["max_ring_slots"] = info.max_ring_slots;
  py::list packets, dtypes;
  for (unsigned n = 0; n < 64; n++) {
    if (info.packets >> n & 1)
      packets.append(openreg_opcode_name(n));
    if (info.dtypes >> n & 1)
      dtypes.append(openreg_dtype_name(n));
  }
  d["packets"] = packets;
  d["dtypes"] = dtypes;
  return d;
}

// Release the GIL before locking: another thread may hold a stream's mutex for long.
openreg_queue_stats sum_of_stats(c10::DeviceIndex index) {
  openreg_queue_stats sum{};
  if (!device_opened(index))
    return sum;
  py::gil_scoped_release unlocked;
  for (StreamState* s : open_streams(index)) {
    openreg_queue_stats one{};
    std::lock_guard<std::mutex> lock(s->mutex);
    if (openreg_queue_get_stats(s->queue, &one))
      continue;
    sum.packets += one.packets;
    sum.doorbells += one.doorbells;
    sum.sleeps += one.sleeps;
    sum.full_waits += one.full_waits;
    sum.pads += one.pads;
    sum.wakes += one.wakes;
    sum.interrupts += one.interrupts;
    sum.dma_read += one.dma_read;
    sum.dma_written += one.dma_written;
    sum.busy_ns += one.busy_ns;
    sum.notes += one.notes;
  }
  return sum;
}

py::dict queue_stats(int64_t given) {
  const c10::DeviceIndex index = to_index(given);
  check_index(index);
  check_fork();
  openreg_queue_stats sum = sum_of_stats(index);
  sum.notes += count_notes(index);
  py::dict d;
  d["packets"] = sum.packets;
  d["doorbells"] = sum.doorbells;
  d["sleeps"] = sum.sleeps;
  d["full_waits"] = sum.full_waits;
  d["pads"] = sum.pads;
  d["notes"] = sum.notes;
  d["wakes"] = sum.wakes;
  d["interrupts"] = sum.interrupts;
  d["dma_read"] = sum.dma_read;
  d["dma_written"] = sum.dma_written;
  d["busy_ns"] = sum.busy_ns;
  return d;
}

// For tests: submits the bytes of one packet unchanged. Returns its sequence number.
uint64_t launch_raw(const py::bytes& bytes, int64_t given) {
  const auto packet = static_cast<std::string_view>(bytes);
  const size_t slots =
      (packet.size() + OPENREG_SLOT_SIZE - 1) / OPENREG_SLOT_SIZE;
  TORCH_CHECK_VALUE(
      slots >= 1 && slots <= OPENREG_PACKET_SLOTS_MAX,
      "a packet has 1 to ",
      OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE,
      " bytes, not ",
      packet.size());
  const LaunchStack stack;
  py::gil_scoped_release unlocked;
  StreamState& s = current_stream_state(to_index(given));
  refuse_wait(s); // the caller waits for the number
  std::lock_guard<std::mutex> lock(s.mutex);
  uint64_t seq;
  void* slot = begin_locked(s, static_cast<unsigned>(slots), &seq);
  std::memset(slot, 0, slots * OPENREG_SLOT_SIZE);
  std::memcpy(slot, packet.data(), packet.size());
  const int64_t last = openreg_queue_submit(s.queue);
  if (last < 0)
    fail_stream(s, static_cast<int>(last));
  s.last_seq.store(seq, std::memory_order_release);
  keep_stack(s, seq);
  return seq;
}

// Replaces core's Event.elapsed_time(), which refuses subclasses of torch.Event.
double elapsed_time(const py::object& begin, const py::object& end) {
  TORCH_CHECK_TYPE(
      THPEvent_Check(begin.ptr()) && THPEvent_Check(end.ptr()),
      "elapsed_time() takes an event");
  const c10::Event& from = reinterpret_cast<THPEvent*>(begin.ptr())->event;
  const c10::Event& to = reinterpret_cast<THPEvent*>(end.ptr())->event;
  py::gil_scoped_release unlocked;
  return from.elapsedTime(to);
}

void bind_device(py::module_& m) {
  m.def("device_count", [] { return static_cast<int>(device_count()); });
  m.def("is_available", &is_available, Unlocked());
  m.def("check_available", &check_available, Unlocked());
  m.def("init", &init, Unlocked());
  m.def("is_initialized", &is_initialized);
  m.def("in_bad_fork", &in_bad_fork);
  m.def("check_index", &check_index);
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int64_t i) { set_device(to_index(i)); }, Unlocked());
  m.def("exchange_device", [](int64_t i) {
    const int before = current_device();
    if (i >= 0)
      set_device(to_index(i));
    return before;
  });
  m.def("synchronize", [](int64_t i) { synchronize_device(to_index(i)); }, Unlocked());
  m.def("reset", [](int64_t i) { reset_device(to_index(i)); }, Unlocked());
  m.def("sync_debug_mode", [] { return static_cast<int>(sync_debug_mode()); });
  m.def("set_sync_debug_mode", [](int mode) {
    set_sync_debug_mode(static_cast<SyncDebugMode>(mode));
  });
  m.def("properties", &properties);
  m.def("elapsed_time", &elapsed_time);
}

void bind_labels(py::module_& m) {
  m.def("set_label", &set_label);
  m.def("label", &label);
}

void bind_random(py::module_& m) {
  m.def("default_generator", [](int64_t i) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_Wrap(default_generator(to_index(i))));
  });
}

void bind_statistics(py::module_& m) {
  m.def("op_counts", &op_counts);
  m.def("reset_op_counts", &reset_op_counts);
  m.def("queue_stats", &queue_stats);
  m.def("fallback_counts", &fallback_counts);
  m.def("reset_fallback_counts", &reset_fallback_counts);
  m.def("fall_back", &fall_back);
  m.def("fallback_mode", [] {
    switch (fallback_mode()) {
      case FallbackMode::WARN:
        return "warn";
      case FallbackMode::ERROR:
        return "error";
      default:
        return "count";
    }
  });
  m.def("set_fallback_mode", [](const std::string& mode) {
    TORCH_CHECK_VALUE(
        mode == "count" || mode == "warn" || mode == "error",
        "fallback mode is count, warn or error, not '",
        mode,
        "'");
    set_fallback_mode(
        mode == "warn"        ? FallbackMode::WARN
            : mode == "error" ? FallbackMode::ERROR
                              : FallbackMode::COUNT);
  });
  m.def("_launch_raw", &launch_raw);
}

} // namespace
} // namespace openreg

PYBIND11_MODULE(_C, m) {
  openreg::bind_formats(m);
  openreg::bind_gil();
  openreg::bind_signals();
  openreg::bind_checks(m);
  openreg::bind_device(m);
  openreg::bind_distributed(m);
  openreg::bind_ipc(m);
  openreg::bind_markers(m);
  openreg::bind_memory(m);
  openreg::bind_programs(m);
  openreg::bind_streams(m);
  openreg::bind_labels(m);
  openreg::bind_random(m);
  openreg::bind_statistics(m);
}
