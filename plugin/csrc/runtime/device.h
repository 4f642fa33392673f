// SPDX-License-Identifier: BSD-3-Clause
// The cards of this process. Nothing is opened before it is needed.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "openreg.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

constexpr int kMaxDevices = 16;
constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

struct Device {
  openreg_device* handle;
  openreg_device_info info;
  c10::DeviceIndex index;
};

// Cards there are; 0 when there is none. Never throws, opens nothing.
c10::DeviceIndex device_count() noexcept;
// Whether the first card can be opened.
bool is_available() noexcept;
// Throws with the reason and the way out unless the first card can be opened.
void check_available();
// The same, and the process counts as one that uses cards, as after set_device()
// and when a card has been opened: a child that it forks cannot use them.
void init();
bool is_initialized() noexcept;
// Throws unless 0 <= index < device_count(). Cheap.
void check_index(int64_t index);
// That of a device, or the current one if it has none. Core makes a negative one
// of a number that 8 bits do not hold.
c10::DeviceIndex index_of(c10::Device device);

// Opened at the first call. Throws if it cannot be, and in a forked child.
Device& device(c10::DeviceIndex index);
// Whether device(index) has been called.
bool device_opened(c10::DeviceIndex index) noexcept;

// A device address says itself which card it is of.
c10::DeviceIndex device_of_pointer(const void* ptr);

// Of the calling thread.
c10::DeviceIndex current_device() noexcept;
void set_device(c10::DeviceIndex index);
// Without a check, for destructors. Returns the one before.
c10::DeviceIndex swap_device(c10::DeviceIndex index) noexcept;

// True in a child forked after that: nothing works there.
bool in_bad_fork() noexcept;
// Throws there, before a mutex that a thread of the parent may have held.
void check_fork();

// Throws for a call of libopenreg that has just failed: what, and what the
// library says to it.
[[noreturn]] void fail(const std::string& what, int error);

inline c10::Device torch_device(c10::DeviceIndex index) {
  return c10::Device(kDeviceType, index);
}

// The current device is another one while it lives.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : before_(swap_device(index)) {}
  ~DeviceScope() {
    swap_device(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex before_;
};

} // namespace openreg
#pragma GCC visibility pop
