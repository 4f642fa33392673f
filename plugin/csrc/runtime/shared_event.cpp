// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/shared_event.h"

#include <c10/util/Exception.h>

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>

#include "runtime/interrupt.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

constexpr size_t kRecords = 504; // that can be unfinished at one time
constexpr size_t kPageBytes = 8192;

// Identifies a process: its pid, and the namespace of the pid.
uint64_t this_process() {
  struct stat st {};
  ::stat("/proc/self/ns/pid", &st);
  return static_cast<uint64_t>(st.st_ino) << 32 | static_cast<uint32_t>(getpid());
}

} // namespace

// Other processes write it as they like.
struct SharedEvent::Page {
  std::atomic<uint64_t> begun;
  std::atomic<uint64_t> latest;
  std::array<std::atomic<uint64_t>, kRecords> done;
  std::array<std::atomic<uint64_t>, kRecords> recorders;
};

struct SharedEvent::Word final : ForeignWord {
  Word(std::shared_ptr<const SharedEvent> event, uint64_t number)
      : event(std::move(event)), number(number) {}
  uint64_t addr() const override {
    return openreg_bo_address(event->bo_) + offsetof(Page, done) +
        number % kRecords * sizeof(uint64_t);
  }
  uint64_t value() const override {
    return event->page_->done[number % kRecords];
  }
  bool abandoned() const override {
    return event->abandoned(number);
  }
  std::string loss() const override {
    return lost_work(event->recorder(number));
  }

  std::shared_ptr<const SharedEvent> event;
  uint64_t number;
};

SharedEvent::SharedEvent(c10::DeviceIndex index) {
  static_assert(sizeof(Page) <= kPageBytes);
  const int error =
      openreg_bo_alloc(device(index).handle, kPageBytes, OPENREG_BO_SYSTEM, &bo_);
  if (error)
    fail("no memory for an event that processes share", error);
  map();
}

SharedEvent::SharedEvent(int fd, c10::DeviceIndex index) {
  const int error = openreg_bo_import(device(index).handle, fd, &bo_);
  if (error)
    fail("an event of another process cannot be used", error);
  if (openreg_bo_size(bo_) < kPageBytes) {
    openreg_bo_free(bo_);
    TORCH_CHECK(false, "the descriptor is not one of an event");
  }
  map();
}

void SharedEvent::map() {
  void* page = nullptr;
  const int error = openreg_bo_map(bo_, &page);
  if (error) {
    openreg_bo_free(bo_);
    fail("an event that processes share cannot be mapped", error);
  }
  page_ = static_cast<Page*>(page);
}

SharedEvent::~SharedEvent() {
  if (!in_bad_fork())
    free_after(bo_, std::move(signals_));
}

// Frees memory after the SIGNALs, which would fault without it. Later calls free what this
// one cannot. The caller may hold a stream's mutexes.
void SharedEvent::free_after(openreg_bo* bo, std::vector<Signal> signals) {
  static auto* mutex = new std::mutex;
  static auto* left = new std::vector<std::pair<openreg_bo*, std::vector<Signal>>>;
  std::lock_guard<std::mutex> lock(*mutex);
  left->emplace_back(bo, std::move(signals));
  std::erase_if(*left, [](const auto& entry) {
    const bool done = std::all_of(
        entry.second.begin(), entry.second.end(), [](const Signal& signal) {
          return signal.stream->done(signal.seq);
        });
    if (done)
      openreg_bo_free(entry.first);
    return done;
  });
}

int SharedEvent::share() const {
  const int fd = openreg_bo_export(bo_, 0);
  if (fd < 0)
    fail("an event cannot be shared", fd);
  return fd;
}

uint64_t SharedEvent::latest() const {
  return page_->latest;
}

bool SharedEvent::done(uint64_t number) const {
  return page_->done[number % kRecords] >= number;
}

uint64_t SharedEvent::begin() {
  const uint64_t number = ++page_->begun;
  if (number > kRecords)
    wait(number - kRecords); // its word is used again
  page_->recorders[number % kRecords] = this_process();
  uint64_t before = page_->latest;
  while (before < number && !page_->latest.compare_exchange_weak(before, number))
    ;
  return number;
}

void SharedEvent::signal_locked(StreamState& s, uint64_t number) {
  static const OpId op = op_id("openreg::event_record");
  Packet packet(OPENREG_OP_SIGNAL, op);
  packet.arg(0, OPENREG_SIGNAL_SET);
  packet.operand(reinterpret_cast<void*>(word(number)->addr()), OPENREG_I64);
  packet.imm(static_cast<int64_t>(number));
  const uint64_t seq = submit_locked(s, packet);
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(signals_, [&](const Signal& old) { return old.stream == &s; });
  signals_.push_back({&s, seq});
}

void SharedEvent::cancel(uint64_t number) {
  page_->done[number % kRecords] = number;
}

void SharedEvent::wait(uint64_t number) const {
  using namespace std::chrono;
  for (auto pause = 20us; !done(number); pause = std::min(2 * pause, 1000us)) {
    std::this_thread::sleep_for(pause);
    check_signals();
    TORCH_CHECK(
        done(number) || !abandoned(number) || done(number),
        "the event waits for work of ",
        recorder(number),
        ", which has ended before the work was done");
  }
}

std::shared_ptr<const ForeignWord> SharedEvent::word(uint64_t number) {
  return std::make_shared<const Word>(shared_from_this(), number);
}

// A process of another namespace is never found to have ended.
bool SharedEvent::abandoned(uint64_t number) const {
  const uint64_t process = page_->recorders[number % kRecords];
  if (process >> 32 != this_process() >> 32)
    return false;
  const int fd =
      static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
  if (fd < 0)
    return errno == ESRCH;
  pollfd p{fd, POLLIN, 0};
  const bool ended = poll(&p, 1, 0) > 0;
  close(fd);
  return ended;
}

std::string SharedEvent::recorder(uint64_t number) const {
  return "process " +
      std::to_string(static_cast<uint32_t>(page_->recorders[number % kRecords]));
}

} // namespace openreg
