// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device.h"

#include <c10/util/Exception.h>

#include <pthread.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "runtime/checks.h"
#include "runtime/timeline.h"

namespace openreg {
namespace {

constexpr const char* kForked =
    "Cannot re-initialize openreg in forked subprocess. To use openreg with "
    "multiprocessing, you must use the 'spawn' or 'forkserver' start method";

struct Table {
  std::array<std::atomic<Device*>, kMaxDevices> devices{};
  std::mutex opening;
  std::atomic<int> count{0};
  std::atomic<bool> initialized{false};
  std::atomic<bool> usable{false}; // check_available() has opened the first card once
  std::atomic<bool> forked{false};
};

// Never destroy the table: tensors may outlive every static.
Table& table() {
  static Table* table = new Table;
  return *table;
}

thread_local c10::DeviceIndex tls_device = 0;

void after_fork_in_child() {
  table().forked = true;
}

// Marks the process as a user of cards: a child forked from now on is refused.
void initialize() {
  auto& initialized = table().initialized;
  if (C10_UNLIKELY(!initialized.load(std::memory_order_relaxed)) &&
      !initialized.exchange(true))
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

Device& open_device(c10::DeviceIndex index) {
  Table& t = table();
  check_fork();
  check_index(index);
  std::lock_guard<std::mutex> lock(t.opening);
  if (Device* opened = t.devices[index].load())
    return *opened;

  auto* dev = new Device{nullptr, {}, index};
  int error = openreg_device_open(index, &dev->handle);
  if (!error)
    error = openreg_device_get_info(dev->handle, &dev->info);
  if (error) {
    openreg_device_close(dev->handle);
    delete dev;
    fail("openreg:" + std::to_string(index) + " cannot be opened", error);
  }
  initialize();
  t.devices[index] = dev;
  join_checks(*dev);
  join_timeline();
  return *dev;
}

} // namespace

c10::DeviceIndex device_count() noexcept {
  // Remember the count unless it is 0. Ask again after 0: the driver may load later.
  auto& count = table().count;
  int n = count.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(n == 0)) {
    n = std::clamp(openreg_device_count(), 0, kMaxDevices);
    count = n;
  }
  return static_cast<c10::DeviceIndex>(n);
}

bool is_available() noexcept {
  if (in_bad_fork() || device_count() == 0)
    return false;
  if (device_opened(0))
    return true;
  openreg_device* handle = nullptr;
  if (openreg_device_open(0, &handle))
    return false;
  openreg_device_close(handle);
  return true;
}

void check_available() {
  check_fork();
  if (table().usable || device_opened(0))
    return;
  openreg_device* handle = nullptr;
  const int error = openreg_device_open(0, &handle);
  openreg_device_close(handle);
  if (error)
    fail("no openreg card can be used", error);
  table().usable = true;
}

void init() {
  check_available();
  initialize();
}

bool is_initialized() noexcept {
  return table().initialized && !in_bad_fork();
}

void check_index(int64_t index) {
  const auto count = device_count();
  if (C10_LIKELY(index >= 0 && index < count))
    return;
  check_available();
  const std::string name = index < 0
      ? "A device of openreg with a negative index, or one above 127,"
      : "openreg:" + std::to_string(index);
  TORCH_CHECK(
      false,
      name,
      " does not exist: this machine has ",
      static_cast<int>(count),
      count == 1 ? " card, openreg:0" : " cards, openreg:0 to openreg:",
      count == 1 ? "" : std::to_string(count - 1),
      ". See torch.openreg.device_count().");
}

c10::DeviceIndex index_of(c10::Device device) {
  if (C10_UNLIKELY(device.index() < -1))
    check_index(device.index());
  return device.index() < 0 ? current_device() : device.index();
}

Device& device(c10::DeviceIndex index) {
  if (C10_LIKELY(index >= 0 && index < kMaxDevices)) {
    Device* dev = table().devices[index].load(std::memory_order_acquire);
    if (C10_LIKELY(dev && !table().forked.load(std::memory_order_relaxed)))
      return *dev;
  }
  return open_device(index);
}

bool device_opened(c10::DeviceIndex index) noexcept {
  return index >= 0 && index < kMaxDevices &&
      table().devices[index].load() != nullptr;
}

c10::DeviceIndex device_of_pointer(const void* ptr) {
  const auto addr = reinterpret_cast<uint64_t>(ptr);
  TORCH_CHECK(
      OPENREG_ADDR_IS_VALID(addr), ptr, " is not an address of openreg");
  for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
    if (device_opened(i) && device(i).info.card == OPENREG_ADDR_CARD(addr))
      return i;
  TORCH_CHECK(false, ptr, " belongs to a card that this process has not opened");
}

c10::DeviceIndex current_device() noexcept {
  return tls_device;
}

void set_device(c10::DeviceIndex index) {
  check_index(index);
  initialize();
  tls_device = index;
}

c10::DeviceIndex swap_device(c10::DeviceIndex index) noexcept {
  const auto before = tls_device;
  tls_device = index;
  return before;
}

bool in_bad_fork() noexcept {
  return table().forked.load(std::memory_order_relaxed);
}

void check_fork() {
  TORCH_CHECK(!in_bad_fork(), kForked);
}

void fail(const std::string& what, int error) {
  check_fork(); // throws the text for Python; the library's text is for programs in C
  const char* more = openreg_last_error();
  TORCH_CHECK(
      false,
      what,
      ": ",
      *more ? more : openreg_strerror(error));
}

} // namespace openreg
