// SPDX-License-Identifier: BSD-3-Clause
// One thread of the process looks at the collectives that have not completed: whether a
// rank has ended, and whether a collective is over its time. It sleeps without any.
#include <algorithm>
#include <condition_variable>
#include <thread>
#include <vector>

#include "distributed/communicator.h"

namespace openreg {
namespace {

constexpr std::chrono::milliseconds kPeriod{10};

class Watchdog {
 public:
  void watch(const std::shared_ptr<Communicator>& communicator) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!started_) {
      std::thread([this] { run(); }).detach();
      started_ = true;
    }
    const auto found = std::find_if(
        watched_.begin(), watched_.end(), [&](const Watched& w) {
          return w.communicator == communicator;
        });
    if (found != watched_.end())
      found->fresh = true;
    else
      watched_.push_back({communicator, true});
    changed_.notify_one();
  }

 private:
  struct Watched {
    std::shared_ptr<Communicator> communicator;
    bool fresh; // a collective was queued since the last look
  };

  // Without the mutex: collectives that complete call functions of the program.
  std::vector<std::shared_ptr<Communicator>> look(std::unique_lock<std::mutex>& lock) {
    std::vector<std::shared_ptr<Communicator>> all;
    for (Watched& w : watched_) {
      w.fresh = false;
      all.push_back(w.communicator);
    }
    lock.unlock();
    std::this_thread::sleep_for(kPeriod);
    std::erase_if(all, [](const auto& c) { return c->poll(); });
    lock.lock();
    return all;
  }

  [[noreturn]] void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !watched_.empty(); });
      auto idle = look(lock);
      std::erase_if(watched_, [&](const Watched& w) {
        return !w.fresh &&
            std::find(idle.begin(), idle.end(), w.communicator) != idle.end();
      });
      lock.unlock();
      idle.clear(); // may destroy a communicator
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  bool started_ = false;
};

} // namespace

void watch(const std::shared_ptr<Communicator>& communicator) {
  static auto* watchdog = new Watchdog;
  watchdog->watch(communicator);
}

} // namespace openreg
