// SPDX-License-Identifier: BSD-3-Clause
// The cards of this process. Each card is opened at its first use.
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

// The number of cards, or 0. Never throws and opens no card.
c10::DeviceIndex device_count() noexcept;
// Whether the first card can be opened.
bool is_available() noexcept;
// Throws if the first card cannot be opened; the error gives the reason and the remedy.
void check_available();
// Like check_available(), and marks the process as a user of cards. set_device() and
// opening a card mark it too. A child forked after that cannot use cards.
void init();
bool is_initialized() noexcept;
// Throws unless 0 <= index < device_count(). Cheap.
void check_index(int64_t index);
// The index of a device, or the current index if the device has none. Throws for other
// negative indices: core makes them from numbers that do not fit in 8 bits.
c10::DeviceIndex index_of(c10::Device device);

// Opens the card at the first call. Throws if that fails, and in a forked child.
Device& device(c10::DeviceIndex index);
// Whether device(index) has been called.
bool device_opened(c10::DeviceIndex index) noexcept;

// Returns the device of an address: the address contains the number of its card.
c10::DeviceIndex device_of_pointer(const void* ptr);

// The current device of the calling thread.
c10::DeviceIndex current_device() noexcept;
void set_device(c10::DeviceIndex index);
// Sets the device without a check, for destructors. Returns the previous device.
c10::DeviceIndex swap_device(c10::DeviceIndex index) noexcept;

// True in a child that was forked after the parent used cards. No call works there.
bool in_bad_fork() noexcept;
// Throws in such a child. Call it before locking: a thread of the parent may have held
// the mutex at the fork.
void check_fork();

// Throws after a failed call of libopenreg. The error text is what, then the library's
// own message.
[[noreturn]] void fail(const std::string& what, int error);

inline c10::Device torch_device(c10::DeviceIndex index) {
  return c10::Device(kDeviceType, index);
}

// Makes a device the current one during the scope.
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
