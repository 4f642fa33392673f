// SPDX-License-Identifier: BSD-3-Clause
// The handle of symmetric memory, and its allocator: torch knows both.
#include "distributed/symmetric_memory.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <algorithm>
#include <map>
#include <optional>

#include "distributed/process_group.h"
#include "runtime/gil.h"

namespace openreg {

SymmetricMemoryOCCL::SymmetricMemoryOCCL(std::shared_ptr<Rendezvous> ranks, size_t offset)
    : ranks_(std::move(ranks)), offset_(offset) {}

std::vector<void*> SymmetricMemoryOCCL::get_buffer_ptrs() {
  std::vector<void*> all;
  for (int r = 0; r < ranks_->size(); r++)
    all.push_back(reinterpret_cast<void*>(ranks_->buffer(r)));
  return all;
}

std::vector<void*> SymmetricMemoryOCCL::get_signal_pad_ptrs() {
  std::vector<void*> all;
  for (int r = 0; r < ranks_->size(); r++)
    all.push_back(reinterpret_cast<void*>(ranks_->signal_pad(r)));
  return all;
}

void** SymmetricMemoryOCCL::get_buffer_ptrs_dev() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "buffer_ptrs_dev: packets of openreg cannot read addresses from memory. Use buffer_ptrs");
}

void** SymmetricMemoryOCCL::get_signal_pad_ptrs_dev() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "signal_pad_ptrs_dev: packets of openreg cannot read addresses from memory. Use signal_pad_ptrs");
}

size_t SymmetricMemoryOCCL::get_buffer_size() {
  return ranks_->local().bytes();
}

size_t SymmetricMemoryOCCL::get_offset() {
  return offset_;
}

bool SymmetricMemoryOCCL::has_multicast_support() {
  return false;
}

void* SymmetricMemoryOCCL::get_multicast_ptr() {
  return nullptr;
}

void SymmetricMemoryOCCL::barrier(int channel, size_t timeout_ms) {
  const WithoutGil unlocked;
  ranks_->barrier(channel, timeout_ms);
}

void SymmetricMemoryOCCL::put_signal(int dst_rank, int channel, size_t timeout_ms) {
  const WithoutGil unlocked;
  ranks_->put_signal(dst_rank, channel, timeout_ms);
}

void SymmetricMemoryOCCL::wait_signal(int src_rank, int channel, size_t timeout_ms) {
  const WithoutGil unlocked;
  ranks_->wait_signal(src_rank, channel, timeout_ms);
}

int SymmetricMemoryOCCL::get_rank() {
  return ranks_->rank();
}

int SymmetricMemoryOCCL::get_world_size() {
  return ranks_->size();
}

c10::Device SymmetricMemoryOCCL::get_device() {
  return torch_device(ranks_->local().device());
}

const std::vector<int>& SymmetricMemoryOCCL::get_rank_to_global_rank() {
  return ranks_->global_ranks();
}

// Copies and signals reach the memory of all ranks.
bool SymmetricMemoryOCCL::world_within_direct_access() {
  return true;
}

namespace {

using c10d::symmetric_memory::SymmetricMemory;
using c10d::symmetric_memory::SymmetricMemoryAllocator;

std::shared_ptr<Communicator> communicator_of(
    const std::string& group_name,
    c10::DeviceIndex index) {
  const auto group = c10d::resolve_process_group(group_name);
  const auto types = group->getDeviceTypes();
  c10::intrusive_ptr<ProcessGroupOCCL> occl;
  if (std::find(types.begin(), types.end(), c10::Device(kDeviceType)) != types.end())
    occl = c10::dynamic_intrusive_pointer_cast<ProcessGroupOCCL>(
        group->getBackend(kDeviceType));
  TORCH_CHECK(
      occl,
      "rendezvous: symmetric memory needs a process group with the backend occl for openreg. "
      "Use init_process_group('cpu:gloo,openreg:occl')");
  return occl->communicator(index);
}

// A symmetric tensor. Groups that have met for it find their ranks again.
struct Allocation {
  std::shared_ptr<const LocalBuffer> local;
  std::optional<std::string> group_name;
  std::map<std::string, std::shared_ptr<Rendezvous>> groups;
};

class AllocatorOCCL final : public SymmetricMemoryAllocator {
 public:
  void* alloc(
      size_t size,
      int device_idx,
      const std::optional<std::string>& group_name) override {
    // -1: core passes a device without an index on.
    const int index = device_idx == -1 ? current_device() : device_idx;
    check_index(index);
    const WithoutGil unlocked; // a full card may wait for work
    auto made = std::make_shared<Allocation>();
    made->local = std::make_shared<LocalBuffer>(size, static_cast<c10::DeviceIndex>(index));
    made->group_name = group_name;
    void* address = made->local->get();
    std::lock_guard<std::mutex> lock(mutex_);
    all_[reinterpret_cast<uint64_t>(address)] = std::move(made);
    return address;
  }

  // A handle of the program keeps the memory.
  void free(void* ptr) override {
    std::shared_ptr<Allocation> freed; // without the mutex
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = all_.find(reinterpret_cast<uint64_t>(ptr));
    if (found == all_.end())
      return;
    freed = std::move(found->second);
    all_.erase(found);
  }

  size_t get_alloc_size(void* ptr) override {
    const auto found = find(ptr);
    TORCH_CHECK(found, "this address is not in symmetric memory");
    return found->local->bytes();
  }

  // Core expects no error and no handle for other tensors.
  c10::intrusive_ptr<SymmetricMemory> rendezvous(
      void* ptr,
      const std::optional<std::string>& group_name) override {
    const auto allocation = find(ptr);
    if (!allocation)
      return nullptr;
    const auto& name = group_name ? group_name : allocation->group_name;
    TORCH_CHECK_VALUE(name, "rendezvous: name the process group");
    const WithoutGil unlocked;
    return c10::make_intrusive<SymmetricMemoryOCCL>(
        meet(*allocation, *name),
        static_cast<char*>(ptr) - static_cast<char*>(allocation->local->get()));
  }

  bool has_multicast_support(int) override {
    return false;
  }
  c10::DeviceType supported_device_type() override {
    return kDeviceType;
  }
  std::string name() override {
    return "OPENREG";
  }
  bool has_allocation(void* ptr) override {
    return find(ptr) != nullptr;
  }

 private:
  std::shared_ptr<Allocation> find(void* ptr) {
    const auto address = reinterpret_cast<uint64_t>(ptr);
    std::lock_guard<std::mutex> lock(mutex_);
    const auto after = all_.upper_bound(address);
    if (after == all_.begin())
      return nullptr;
    const auto& [begin, found] = *std::prev(after);
    return address < begin + std::max<size_t>(found->local->bytes(), 1) ? found : nullptr;
  }

  // A new group may have the name of one that was destroyed.
  std::shared_ptr<Rendezvous> meet(Allocation& allocation, const std::string& name) {
    const auto communicator = communicator_of(name, allocation.local->device());
    std::vector<std::shared_ptr<Rendezvous>> over; // of destroyed groups; without the mutex
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (auto group = allocation.groups.begin(); group != allocation.groups.end();) {
        if (group->second->communicator() == communicator)
          return group->second;
        const bool ended = group->first == name || !group->second->communicator();
        if (ended)
          over.push_back(std::move(group->second));
        group = ended ? allocation.groups.erase(group) : std::next(group);
      }
    }
    auto met = std::make_shared<Rendezvous>(allocation.local, communicator);
    std::lock_guard<std::mutex> lock(mutex_);
    return allocation.groups[name] = met;
  }

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Allocation>> all_; // by address
};

const bool registered = [] {
  // Core's references end with the process, when communicators cannot be closed any more.
  static auto* allocator = new auto(c10::make_intrusive<AllocatorOCCL>());
  c10d::symmetric_memory::register_availability("OPENREG", *allocator);
  c10d::symmetric_memory::register_allocator(kDeviceType, *allocator);
  return true;
}();

} // namespace
} // namespace openreg
