// SPDX-License-Identifier: BSD-3-Clause
#include "python/bindings.h"
#include "runtime/checks.h"

namespace py = pybind11;

namespace openreg {
namespace {

py::dict to_dict(const CheckedAccess& a) {
  py::dict d;
  d["op"] = a.op;
  d["stream"] = a.stream;
  d["packet"] = a.seq;
  d["written"] = a.written;
  d["stack"] = a.stack;
  return d;
}

py::list check_findings() {
  py::list all;
  for (const CheckFinding& f : findings()) {
    py::dict d;
    d["kind"] = f.kind;
    d["text"] = f.text;
    d["device"] = static_cast<int>(f.device);
    d["access"] = to_dict(f.access);
    d["other"] = to_dict(f.other);
    d["address"] = f.addr;
    d["bytes"] = f.bytes;
    all.append(std::move(d));
  }
  return all;
}

} // namespace

void bind_checks(py::module_& m) {
  m.def("check_findings", &check_findings);
  m.def("report_findings", &report_findings, Unlocked());
}

} // namespace openreg
