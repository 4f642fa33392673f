// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/timeline.h"

#include <ATen/record_function.h>
#include <openreg_timeline.h>

#include <atomic>
#include <memory>

#include "runtime/submit.h"

namespace openreg {
namespace {

std::atomic<bool> joined{false};

std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& fn) {
  openreg_timeline_begin(fn.name());
  return nullptr;
}

void end_range(const at::RecordFunction&, at::ObserverContext*) {
  openreg_timeline_end();
}

} // namespace

void join_timeline() {
  if (!openreg_timeline_on() || joined.exchange(true))
    return;
  each_op([](OpId op, const char* name) { openreg_timeline_name(op, name); });
  at::addGlobalCallback(
      at::RecordFunctionCallback(begin_range, end_range)
          .scopes({at::RecordScope::FUNCTION,
                   at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

void tell_timeline(OpId op, const char* name) {
  if (joined.load(std::memory_order_relaxed))
    openreg_timeline_name(op, name);
}

} // namespace openreg
