// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/host_allocator.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstring>
#include <map>
#include <shared_mutex>

#include "runtime/stream.h"

namespace openreg {
namespace {

struct Range {
  uintptr_t begin;
  openreg_bo* bo;
  c10::DeviceIndex device;
};

// The key is the address after the last byte.
struct Ranges {
  std::shared_mutex mutex;
  std::map<uintptr_t, Range> by_end;
};

Ranges& ranges() {
  static Ranges* ranges = new Ranges;
  return *ranges;
}

struct HostEvent {
  StreamState* stream;
  uint64_t seq;
};

class HostCache final
    : public at::CachingHostAllocatorImpl<c10::Stream, HostEvent> {
 public:
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  void allocate_host_memory(size_t size, void** ptr) override {
    check_available();
    const c10::DeviceIndex index = current_device();
    openreg_bo* bo = nullptr;
    int error =
        openreg_bo_alloc(device(index).handle, size, OPENREG_BO_SYSTEM, &bo);
    if (!error)
      error = openreg_bo_map(bo, ptr);
    if (error) {
      openreg_bo_free(bo);
      fail(
          "no pinned host memory of " + std::to_string(size) + " bytes", error);
    }
    const auto begin = reinterpret_cast<uintptr_t>(*ptr);
    std::unique_lock<std::shared_mutex> lock(ranges().mutex);
    ranges().by_end[begin + openreg_bo_size(bo)] = {begin, bo, index};
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    if (in_bad_fork())
      return;
    openreg_bo* bo = nullptr;
    {
      std::unique_lock<std::shared_mutex> lock(ranges().mutex);
      auto& by_end = ranges().by_end;
      const auto at =
          by_end.upper_bound(reinterpret_cast<uintptr_t>(block->ptr_));
      bo = at->second.bo;
      by_end.erase(at);
    }
    openreg_bo_free(bo);
  }

  void record_stream(
      std::optional<std::vector<HostEvent>>& events,
      c10::Stream stream) override {
    StreamState& s = stream_state(stream);
    events->push_back({&s, s.last_seq.load(std::memory_order_acquire)});
  }

  bool query_event(HostEvent& event) override {
    return event.stream->done(event.seq);
  }

  c10::Stream get_current_stream() const override {
    return current_stream(current_device());
  }
};

void free_pinned(void* context);

struct HostAllocator final
    : at::CachingHostAllocatorInterface<HostCache, free_pinned> {
  // Refuse a forked child: its cache is a copy of the parent's, and the parent owns the
  // memory.
  at::DataPtr allocate(size_t size) override {
    if (C10_UNLIKELY(in_bad_fork()))
      check_available();
    return CachingHostAllocatorInterface::allocate(size);
  }
};

HostAllocator& instance() {
  static auto* allocator = new HostAllocator;
  return *allocator;
}

void free_pinned(void* context) {
  // A forked child frees nothing: a thread of the parent may have held the locks.
  if (C10_LIKELY(!in_bad_fork()))
    instance().free(context);
}

const bool registered = (at::setHostAllocator(kDeviceType, &instance()), true);

} // namespace

std::optional<PinnedAddress> find_pinned(const void* ptr) {
  const auto at = reinterpret_cast<uintptr_t>(ptr);
  std::shared_lock<std::shared_mutex> lock(ranges().mutex);
  const auto found = ranges().by_end.upper_bound(at);
  if (found == ranges().by_end.end() || at < found->second.begin)
    return std::nullopt;
  const Range& range = found->second;
  return PinnedAddress{
      range.device, openreg_bo_address(range.bo) + (at - range.begin)};
}

bool record_pinned_use(const c10::Storage& storage, const c10::Stream& stream) {
  const c10::DataPtr& ptr = storage.data_ptr();
  return instance().record_event(ptr.get(), ptr.get_context(), stream);
}

} // namespace openreg
