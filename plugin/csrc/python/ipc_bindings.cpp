// SPDX-License-Identifier: BSD-3-Clause
// Functions of torch_openreg/_ipc.py.
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Event.h>

#include "python/bindings.h"
#include "runtime/event.h"
#include "runtime/ipc.h"

namespace py = pybind11;

namespace openreg {
namespace {

int share(const py::object& storage) {
  const c10::Storage it = torch::createStorage(storage.ptr());
  py::gil_scoped_release unlocked;
  return share_storage(it);
}

py::object receive(int fd, size_t bytes, int64_t index) {
  const c10::Storage it = [&] {
    py::gil_scoped_release unlocked;
    return receive_storage(fd, bytes, to_index(index));
  }();
  return py::reinterpret_steal<py::object>(torch::createPyObject(it));
}

// The runtime's part of an event. Core makes it at the first record.
Event* event_of(const py::object& event, c10::DeviceIndex index) {
  TORCH_CHECK_TYPE(THPEvent_Check(event.ptr()), "expected an event");
  c10::Event& it = reinterpret_cast<THPEvent*>(event.ptr())->event;
  if (!it.eventId()) {
    py::gil_scoped_release unlocked;
    it.record(current_stream(index));
    forget_records(static_cast<Event*>(it.eventId()));
  }
  return static_cast<Event*>(it.eventId());
}

int share_event_of(const py::object& event, int64_t given) {
  const c10::DeviceIndex index = to_index(given);
  Event* const it = event_of(event, index);
  py::gil_scoped_release unlocked;
  return share_event(it, index);
}

void receive_event_of(const py::object& event, int fd, int64_t given) {
  const c10::DeviceIndex index = to_index(given);
  Event* const it = event_of(event, index);
  py::gil_scoped_release unlocked;
  receive_event(it, fd, index);
}

using Clocks = std::shared_ptr<ForeignClocks>;

} // namespace

void bind_ipc(py::module_& m) {
  py::class_<ForeignClocks, Clocks>(m, "ForeignClocks")
      .def(
          py::init([](int fd, int connection, std::string process, int64_t index) {
            return std::make_shared<ForeignClocks>(
                fd, connection, std::move(process), to_index(index));
          }),
          Unlocked())
      .def_property_readonly("abandoned", &ForeignClocks::abandoned);
  m.def("share_storage", &share);
  m.def("receive_storage", &receive);
  m.def("share_event", &share_event_of);
  m.def("receive_event", &receive_event_of);
  m.def("collect_shared", &collect_shared, Unlocked());
  m.def(
      "share_clocks", [](int64_t i) { return share_clocks(to_index(i)); }, Unlocked());
  m.def(
      "share_point",
      [](int64_t i) {
        const SharedPoint point = share_point(to_index(i));
        return std::make_pair(point.offset, point.value);
      },
      Unlocked());
  m.def(
      "wait_point",
      [](const Clocks& clocks, uint64_t offset, uint64_t value, int64_t i) {
        wait_point(clocks, {offset, value}, to_index(i));
      },
      Unlocked());
}

} // namespace openreg
