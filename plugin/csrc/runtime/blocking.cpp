// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/blocking.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace openreg {
namespace {

std::atomic<SyncDebugMode> mode{SyncDebugMode::DEFAULT};

} // namespace

const bool launch_blocks = [] {
  const char* value = std::getenv("OPENREG_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}();

SyncDebugMode sync_debug_mode() {
  return mode.load(std::memory_order_relaxed);
}

void set_sync_debug_mode(SyncDebugMode to) {
  mode.store(to, std::memory_order_relaxed);
}

void note_sync() {
  const SyncDebugMode now = sync_debug_mode();
  if (C10_LIKELY(now == SyncDebugMode::DEFAULT))
    return;
  constexpr auto kText =
      "this call waits for the card. torch.openreg.set_sync_debug_mode('default') allows "
      "such calls.";
  TORCH_CHECK(now != SyncDebugMode::ERROR, kText);
  TORCH_WARN(kText);
}

} // namespace openreg
