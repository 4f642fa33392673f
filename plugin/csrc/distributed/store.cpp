// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "runtime/interrupt.h"

namespace openreg {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// After each slice the signal handlers of the program run.
constexpr milliseconds kSlice{250};

// Whether the key came in time. Stores throw the same class for a timeout and for a lost
// connection, so the time tells them apart.
bool wait_slice(c10d::Store& store, const std::string& key, milliseconds slice) {
  const auto begin = Clock::now();
  try {
    store.wait({key}, slice);
    return true;
  } catch (const std::exception&) {
    if (Clock::now() - begin < slice)
      throw;
    return false;
  }
}

bool wait_key(c10d::Store& store, const std::string& key, int64_t timeout_ns) {
  const auto end = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (wait_slice(store, key, std::clamp(left, milliseconds{1}, kSlice)))
      return true;
    if (Clock::now() >= end)
      return false;
    check_signals();
  }
}

} // namespace

openreg_comm_store StoreAdapter::callbacks() {
  return {&StoreAdapter::set, &StoreAdapter::get, this};
}

int StoreAdapter::set(void* opaque, const char* key, const void* value, size_t len) {
  auto& self = *static_cast<StoreAdapter*>(opaque);
  const auto* bytes = static_cast<const uint8_t*>(value);
  try {
    self.store_.set(key, std::vector<uint8_t>(bytes, bytes + len));
    self.keys_.emplace_back(key);
    return 0;
  } catch (...) { // C code calls this function
    self.error_ = std::current_exception();
    return -EIO;
  }
}

int64_t StoreAdapter::get(
    void* opaque,
    const char* key,
    void* value,
    size_t len,
    int64_t timeout_ns) {
  auto& self = *static_cast<StoreAdapter*>(opaque);
  try {
    if (!wait_key(self.store_, key, timeout_ns))
      return -ETIME;
    const std::vector<uint8_t> bytes = self.store_.get(key);
    if (bytes.size() > len)
      return -EMSGSIZE;
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(value));
    return static_cast<int64_t>(bytes.size());
  } catch (...) {
    self.error_ = std::current_exception();
    return -EIO;
  }
}

void StoreAdapter::rethrow() const {
  if (error_)
    std::rethrow_exception(error_);
}

void StoreAdapter::delete_keys() noexcept {
  for (const std::string& key : keys_) {
    try {
      store_.deleteKey(key);
    } catch (...) { // an old key does no harm, and not every store can delete
    }
  }
}

} // namespace openreg
