// SPDX-License-Identifier: BSD-3-Clause
#include "python/bindings.h"
#include "runtime/trace_marker.h"

namespace openreg {

void bind_markers(pybind11::module_& m) {
  m.def("open_trace_marker", &open_trace_marker, Unlocked());
  m.def("trace_begin", &trace_begin, Unlocked());
  m.def("trace_end", &trace_end, Unlocked());
  m.def("trace_mark", &trace_mark, Unlocked());
}

} // namespace openreg
