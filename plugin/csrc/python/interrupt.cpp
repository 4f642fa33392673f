// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/interrupt.h"

#include <unistd.h>

#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

// Python runs signal handlers in the main thread. Other threads do not wait for the GIL
// here: the thread that holds it may wait for them.
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
