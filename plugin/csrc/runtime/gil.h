// SPDX-License-Identifier: BSD-3-Clause
// Parts of core call a backend with the GIL. Who may sleep there gives it away,
// so that threads of Python go on: one of them may have to end the sleep.
#pragma once

#include <Python.h>

namespace openreg {

class WithoutGil {
 public:
  WithoutGil()
      : state_(
            Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread()
                                                     : nullptr) {}
  ~WithoutGil() {
    if (state_)
      PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

} // namespace openreg
