// SPDX-License-Identifier: BSD-3-Clause
// Signals during a wait. A long wait wakes up every kWaitSliceNs, so that the program's
// signal handlers can run. No mutex is held while they run: a handler may use the device.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Runs the handlers of pending signals, and throws if one raises. The bindings of a
// language set the check. Without a check, signals do not end a wait.
using SignalCheck = void (*)();
void set_signal_check(SignalCheck check);
void check_signals();

// Thrown out of a restartable() instead of a long wait, so that all mutexes are released.
struct LongWait {
  StreamState& stream;
  uint64_t seq;
};

// Throws LongWait within restartable(). Does nothing elsewhere.
void give_up_long_wait(StreamState& stream, uint64_t seq);

class Restartable {
 public:
  Restartable();
  ~Restartable();
  Restartable(const Restartable&) = delete;
  Restartable& operator=(const Restartable&) = delete;

 private:
  bool before_;
};

// Calls f, which may wait with mutexes held. If the wait is long, f is aborted, the wait
// continues without mutexes, and f runs a second time from its start. The caller holds no
// mutex.
template <class F>
auto restartable(F f) {
  try {
    const Restartable scope;
    return f();
  } catch (const LongWait& wait) {
    wait_interruptibly(wait.stream, wait.seq);
  }
  return f();
}

} // namespace openreg
#pragma GCC visibility pop
