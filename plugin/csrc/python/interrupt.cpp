// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/interrupt.h"

#include <unistd.h>

#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

// Runs Python's pending signal handlers. Python runs them only in the main thread. Other
// threads return at once and do not take the GIL: its holder may be waiting for them.
void run_signal_handlers() {
  if (gettid() != getpid() || !Py_IsInitialized())
    return;
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals())
    throw py::error_already_set();
}

} // namespace

void bind_signals() {
  set_signal_check(run_signal_handlers);
}

} // namespace openreg
