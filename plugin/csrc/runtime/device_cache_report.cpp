// SPDX-License-Identifier: BSD-3-Clause
// What the cache of a device reports: a snapshot, and that the card is full.
#include <c10/util/Exception.h>

#include <string_view>

#include "runtime/device_cache.h"

namespace openreg {

using c10::CachingAllocator::format_size;

MemorySnapshot DeviceCache::snapshot(bool traces) {
  const SleepyLock lock(mutex);
  MemorySnapshot found;
  for (const auto& [addr, segment] : segments_)
    found.segments.push_back(describe(*segment));
  history.add(Action::SNAPSHOT, index_, 0, 0, nullptr, nullptr);
  if (traces)
    found.trace = history.entries();
  return found;
}

void DeviceCache::out_of_memory(size_t bytes, Device& dev) {
  stats.num_ooms++;
  openreg_memory_info info{};
  openreg_device_get_memory(dev.handle, &info);
  history.add(Action::OOM, index_, info.vram_free, bytes, nullptr, nullptr);
  const auto allocated = stats.allocated_bytes[0].current;
  const auto reserved = stats.reserved_bytes[0].current;
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(bytes),
      static_cast<size_t>(allocated),
      static_cast<size_t>(reserved),
      torch_device(index_));
  const std::string share = fraction < 1
      ? "; set_per_process_memory_fraction() allows it " +
          format_size(limit(dev))
      : "";
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "openreg out of memory. Tried to allocate ",
      format_size(bytes),
      ". openreg:",
      static_cast<int>(dev.index),
      " has ",
      format_size(info.vram_total),
      " of which ",
      format_size(info.vram_free),
      " are free, the largest block ",
      format_size(info.vram_largest),
      ". This process holds ",
      format_size(allocated),
      " in tensors and ",
      format_size(reserved - allocated),
      " in its cache",
      share,
      ". Free tensors, use a smaller batch, call "
      "torch.openreg.empty_cache() in processes that are done, or give the card "
      "more memory by ",
      std::string_view(dev.info.path).starts_with("sim:")
          ? "OPENREG_SIM_VRAM or scripts/sim --vram."
          : "scripts/vm --vram.");
}

} // namespace openreg
