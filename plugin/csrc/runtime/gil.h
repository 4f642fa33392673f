// SPDX-License-Identifier: BSD-3-Clause
// Core calls a backend with the GIL held in places where the backend may sleep. The
// backend releases the GIL there: only another Python thread may be able to end the
// sleep. This library does not link Python; csrc/python/gil.cpp registers the functions.
#pragma once

#include <mutex>
#include <optional>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

struct Gil {
  void* (*release)(); // null if this thread does not hold the GIL
  void (*take)(void* released);
};

// Call it once, before any other thread uses the backend.
void register_gil(const Gil& gil);
// Both functions do nothing in a process without Python.
const Gil& registered_gil();

class WithoutGil {
 public:
  WithoutGil() : released_(registered_gil().release()) {}
  ~WithoutGil() {
    if (released_)
      registered_gil().take(released_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* released_;
};

// Locks a mutex that its holder may keep while it sleeps. Releases the GIL while waiting,
// and takes the GIL again only after the mutex: the holder may need the GIL.
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
#pragma GCC visibility pop
