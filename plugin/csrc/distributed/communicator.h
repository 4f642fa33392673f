// SPDX-License-Identifier: BSD-3-Clause
// A communicator of openreg-comm, and its place in torch: streams, timeouts, errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributed/collective_log.h"
#include "distributed/side_stream.h"
#include "openreg_comm.h"

namespace openreg {

using Tensors = std::vector<at::Tensor>;

// A collective that was queued. The communicator lists it until it completes.
struct Pending {
  int64_t seq = 0; // on the communicator's queue
  uint64_t side_seq = 0; // of the WAIT on the side stream
  std::chrono::steady_clock::time_point began;
  std::chrono::milliseconds timeout{};
  c10::Event begin{kDeviceType}; // recorded only if the group has timing
  c10::Event end{kDeviceType}; // after it the results may be used
  bool timed = false;
  std::mutex mutex;
  Tensors tensors; // in use until a stream waits for the collective, or it completes
  std::exception_ptr error;
  bool done = false;
  std::function<void(Pending&)> on_done; // called once, by the watchdog
};

struct Collective {
  std::function<void()> before{}; // on the side stream; may be empty
  std::function<int64_t(openreg_comm*)> queue{};
  std::function<void()> after{}; // on the side stream; may be empty
};

// A descriptor of the process of each rank, or -1. Closes them at its end.
struct Processes {
  explicit Processes(size_t ranks) : fds(ranks, -1) {}
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  std::vector<int> fds;
};

class Communicator : public std::enable_shared_from_this<Communicator>, public JobSource {
 public:
  struct Options {
    c10::DeviceIndex device;
    uint32_t rank;
    uint32_t size;
    std::string name; // unique in the store
    std::string group; // for error texts
    std::vector<int64_t> ranks; // as error texts number them
    std::chrono::milliseconds timeout;
    bool high_priority;
  };

  // Returns when all ranks have come. Throws DistBackendError if one does not.
  Communicator(Options options, c10d::Store& store);
  ~Communicator() override;

  // Queues a collective that waits for the calling thread's current stream.
  std::shared_ptr<Pending> launch(
      const Collective& collective,
      std::chrono::milliseconds timeout,
      Tensors tensors,
      bool timed);

  // Calls a function of the library that waits for the other ranks. abort() and close() end
  // it; all others wait for it.
  void call(const std::function<int64_t(openreg_comm*)>& function);

  // Returns those of the first call: the ranks' processes do not change.
  std::shared_ptr<const Processes> keep(std::shared_ptr<const Processes> processes);

  // Throws if the communicator is broken.
  void check();
  std::exception_ptr error();
  c10d::ErrorType error_type();
  // Waits until all collectives have completed, for at most that time.
  bool drain(std::chrono::milliseconds timeout);
  // Collectives that have not completed never do; a thread that waits for them gets the text.
  void abort(const std::string& text);
  // Gives the communicator up because a collective is late. Throws.
  [[noreturn]] void give_up(std::chrono::milliseconds waited);
  // Ends the communicator. Streams that wait for its collectives run on.
  void close();

  // Whether a collective that no stream waits for uses the storage.
  bool uses(const c10::Storage& storage);

  void begin_log() override;
  void end_log() override;

  // For the watchdog: looks at the oldest collectives. Returns whether some are pending.
  // Does nothing while another thread queues a collective.
  bool poll();

  StreamState& side() const {
    return side_->state();
  }
  c10::Stream stream() const {
    return side_->stream();
  }
  const Options& options() const {
    return options_;
  }

 private:
  void check_locked() const;
  bool call_reports(int error) const;
  void wait_for_call(std::unique_lock<std::mutex>& lock);
  void wait_for_locked(StreamState& stream);
  int64_t checked_locked(int64_t result);
  void break_locked(int error, const std::string& text);
  void break_late_locked(std::chrono::milliseconds waited);
  [[noreturn]] void late_locked(std::chrono::milliseconds waited);
  void finish_locked(const std::shared_ptr<Pending>& pending);
  // Calls on_done of the finished collectives, without the mutex: it may need the GIL.
  void tell_finished(std::unique_lock<std::mutex>& lock);
  std::string text(const std::string& what) const;

  const Options options_;
  std::shared_ptr<SideStream> side_;
  std::mutex mutex_; // lock it before a stream's mutex
  openreg_comm* comm_ = nullptr;
  bool calling_ = false; // a thread is in call(), without the mutex
  std::condition_variable called_; // calling_ has become false
  std::shared_ptr<const Processes> processes_; // null before keep()
  std::optional<CollectiveLog> log_; // for a profiler
  std::deque<std::shared_ptr<Pending>> pending_;
  std::vector<std::shared_ptr<Pending>> finished_;
  // Of collectives that nobody waited for. Tensors may belong to Python, so that the
  // watchdog does not free them.
  std::vector<Tensors> unused_;
  std::exception_ptr error_;
  c10d::ErrorType error_type_ = c10d::ErrorType::SUCCESS;
};

// A descriptor that any process may have, to send where one is needed. Open since the first
// communicator.
int spare_descriptor();

// Polls the communicator until its collectives have completed.
void watch(const std::shared_ptr<Communicator>& communicator);

} // namespace openreg
