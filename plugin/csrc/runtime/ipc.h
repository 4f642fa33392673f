// SPDX-License-Identifier: BSD-3-Clause
// Storages in memory that several processes have. torch_openreg/_ipc.py carries the
// descriptors from one process to the other.
//
// The sender's storage moves to a BO of its own at its first sending: a BO is all that
// another process gets. This BO is never used for anything else, and the last of all
// processes that have it frees it. So a process that dies leaves nothing behind.
//
// The receiver's stream waits for the sender's: on the clock of the sender's stream, in
// memory that the receiver can only read.
#pragma once

#include <c10/core/Storage.h>

#include <memory>
#include <string>

#include "runtime/stream.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Returns a file descriptor of the storage's memory. Moves the storage if its BO has other
// tensors too. Throws if the storage cannot be shared.
int share_storage(const c10::Storage& storage);
// Whether work that no stream of torch has uses the storage: then it must not move.
using UseOfStorage = bool (*)(const c10::Storage&);
void set_other_use(UseOfStorage use);
// Returns a file descriptor of a block of allocate_shared().
int share_block(const void* address, c10::DeviceIndex index);
// A storage in the memory of a descriptor.
c10::Storage receive_storage(int fd, size_t bytes, c10::DeviceIndex index);
// Frees the shared memory that no stream uses any more.
void collect_shared();

// A point in the work of a stream, for other processes.
struct SharedPoint {
  uint64_t offset; // of the stream's clock in the clocks
  uint64_t value;
};
// Returns a file descriptor of the clocks of the device's streams, for reading.
int share_clocks(c10::DeviceIndex index);
// Returns the point after the work so far of the current stream.
SharedPoint share_point(c10::DeviceIndex index);

// The clocks of another process's streams.
class ForeignClocks {
 public:
  // connection: a socket that the other process closes when it ends. Takes neither of the
  // descriptors.
  ForeignClocks(int fd, int connection, std::string process, c10::DeviceIndex index);
  ~ForeignClocks();
  ForeignClocks(const ForeignClocks&) = delete;
  ForeignClocks& operator=(const ForeignClocks&) = delete;

  bool abandoned() const;
  const std::string& process() const {
    return process_;
  }
  uint64_t value(uint64_t offset) const;
  uint64_t addr(uint64_t offset) const;
  void check(uint64_t offset) const;

 private:
  openreg_bo* bo_ = nullptr;
  const char* words_ = nullptr;
  int connection_ = -1;
  std::string process_;
};

// Makes the current stream of the device wait for a point of another process.
void wait_point(
    const std::shared_ptr<const ForeignClocks>& clocks,
    const SharedPoint& point,
    c10::DeviceIndex index);

} // namespace openreg
#pragma GCC visibility pop
