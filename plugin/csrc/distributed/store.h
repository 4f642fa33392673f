// SPDX-License-Identifier: BSD-3-Clause
// A store of c10d as the key-value store of openreg-comm.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <string>
#include <vector>

#include "openreg_comm.h"

namespace openreg {

class StoreAdapter {
 public:
  explicit StoreAdapter(c10d::Store& store) : store_(store) {}
  openreg_comm_store callbacks();
  // Throws what the store, or a signal handler, threw during a callback.
  void rethrow() const;
  // All ranks have read the keys that this rank has set: another group may use the names.
  void delete_keys() noexcept;

 private:
  static int set(void* self, const char* key, const void* value, size_t len);
  static int64_t
  get(void* self, const char* key, void* value, size_t len, int64_t timeout_ns);

  c10d::Store& store_;
  std::vector<std::string> keys_;
  std::exception_ptr error_;
};

} // namespace openreg
