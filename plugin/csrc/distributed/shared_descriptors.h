// SPDX-License-Identifier: BSD-3-Clause
// The descriptors that the ranks of a communicator exchange.
#pragma once

#include <unistd.h>

#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "distributed/communicator.h"

namespace openreg {

// Closes at its end what the other ranks have given.
class SharedDescriptors {
 public:
  using Words = std::array<uint64_t, 3>;

  // Waits for the other ranks. The descriptors stay the caller's.
  SharedDescriptors(
      Communicator& communicator,
      std::array<int, 2> fds,
      const Words& words) {
    static_assert(sizeof(Words) <= sizeof(openreg_comm_shared::bytes));
    openreg_comm_shared mine{};
    mine.fds[0] = fds[0];
    mine.fds[1] = fds[1];
    std::memcpy(mine.bytes, words.data(), sizeof(words));
    for (auto& its : all_)
      its.fds[0] = its.fds[1] = its.process = -1;
    try {
      communicator.call([&](openreg_comm* comm) {
        return openreg_comm_share(comm, &mine, all_.data());
      });
    } catch (...) { // an abort may come after the exchange
      close_all();
      throw;
    }
  }
  ~SharedDescriptors() {
    close_all();
  }
  SharedDescriptors(const SharedDescriptors&) = delete;
  SharedDescriptors& operator=(const SharedDescriptors&) = delete;

  const openreg_comm_shared& operator[](size_t rank) const {
    return all_.at(rank);
  }
  Words words(size_t rank) const {
    Words found;
    std::memcpy(found.data(), all_.at(rank).bytes, sizeof(found));
    return found;
  }
  std::shared_ptr<const Processes> take_processes(size_t ranks) {
    auto processes = std::make_shared<Processes>(ranks);
    for (size_t r = 0; r < ranks; r++)
      processes->fds[r] = std::exchange(all_.at(r).process, -1);
    return processes;
  }

 private:
  void close_all() {
    for (const auto& its : all_)
      for (const int fd : {its.fds[0], its.fds[1], its.process})
        if (fd >= 0)
          close(fd);
  }

  std::array<openreg_comm_shared, OPENREG_COMM_RANKS_MAX> all_{};
};

// Runs f, and throws on all ranks if it throws on one, also for lack of descriptors.
template <class F>
void on_all_ranks(Communicator& communicator, const char* what, F f) {
  const int fd = spare_descriptor();
  std::exception_ptr error;
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  const SharedDescriptors all(communicator, {fd, fd}, {error != nullptr, 0, 0});
  if (error)
    std::rethrow_exception(error);
  for (uint32_t r = 0; r < communicator.options().size; r++)
    TORCH_CHECK(
        !all.words(r)[0],
        "rank ",
        communicator.options().ranks[r],
        " cannot ",
        what,
        ". Its own error says why");
}

// Closes the descriptor at its end.
struct Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  const int fd;
};

} // namespace openreg
