// SPDX-License-Identifier: BSD-3-Clause
// Signals in a wait. Long waits end every kWaitSliceNs, to let signal handlers of the
// program run. Handlers may use the device, so they run where no mutex is held.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Runs handlers of signals that have come, and throws if one raises. The bindings of a
// language set it; without one no wait is interrupted.
using SignalCheck = void (*)();
void set_signal_check(SignalCheck check);
void check_signals();

// Thrown out of a restartable() in place of a wait that lasts: no mutex is held then.
struct LongWait {
  StreamState& stream;
  uint64_t seq;
};

// Throws LongWait within restartable().
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

// f waits with mutexes held, and may be called twice: if it waits for long, the wait is
// had without them, and then f goes to its end. The caller holds none.
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
