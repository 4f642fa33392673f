// SPDX-License-Identifier: BSD-3-Clause
// Parts of core call a backend with the GIL. Who may sleep there gives it away,
// so that threads of Python go on: one of them may have to end the sleep.
#pragma once

#include <Python.h>

#include <mutex>
#include <optional>

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

// Of a mutex with which one may sleep: nobody waits for it with the GIL. Nor for the
// GIL with the mutex, which goes first.
class SleepyLock {
 public:
  explicit SleepyLock(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
    if (!lock_) {
      unlocked_.emplace();
      lock_.lock();
    }
  }

 private:
  std::optional<WithoutGil> unlocked_;
  std::unique_lock<std::mutex> lock_;
};

} // namespace openreg
