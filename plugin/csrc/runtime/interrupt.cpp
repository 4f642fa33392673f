// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/interrupt.h"

#include <atomic>

namespace openreg {
namespace {

std::atomic<SignalCheck> signal_check{nullptr};
thread_local bool in_restartable = false;

} // namespace

void set_signal_check(SignalCheck check) {
  signal_check.store(check);
}

void check_signals() {
  if (const SignalCheck check = signal_check.load(std::memory_order_relaxed))
    check();
}

void give_up_long_wait(StreamState& stream, uint64_t seq) {
  if (in_restartable)
    throw LongWait{stream, seq};
}

Restartable::Restartable() : before_(std::exchange(in_restartable, true)) {}

Restartable::~Restartable() {
  in_restartable = before_;
}

} // namespace openreg
