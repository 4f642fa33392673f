// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "runtime/generator.h"
#include "runtime/host_allocator.h"
#include "runtime/memory_ops.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// Names the backend for C++ programs. The Python package sets the same name again.
[[maybe_unused]] const bool named = [] {
  c10::register_privateuse1_backend("openreg");
  return true;
}();

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return is_available();
  }
  void init() const override {
    openreg::init();
  }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return device_opened(index);
  }

  c10::DeviceIndex deviceCount() const override {
    return device_count();
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    set_device(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex to) const override {
    const auto before = current_device();
    if (to >= 0)
      set_device(to);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex to) const override {
    return exchangeDevice(to);
  }

  bool isPinnedPtr(const void* ptr) const override {
    return find_pinned(ptr).has_value();
  }
  at::Allocator* getPinnedMemoryAllocator() const override {
    return at::getHostAllocator(kDeviceType);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    return torch_device(device_of_pointer(data));
  }

  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index);
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes)
      const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

} // namespace
} // namespace openreg
