// SPDX-License-Identifier: BSD-3-Clause
// What a profiler sees of the streams: the packets that threads launch, and the card's
// records of when it ran them. Without a profiler a launch loads one pointer.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/launch.h"

namespace openreg {

struct StreamState;

struct Launch {
  uint64_t seq;
  c10::approx_time_t begin; // before the packet is visible to the card
  c10::approx_time_t end;
  uint64_t op; // the profiler's id of the operator, or 0
  uint64_t range; // the profiler's id of the innermost record_function(), or 0
  OpId name;
  int32_t thread;
};

struct UnreadLaunch {
  uint64_t seq;
  uint64_t records;
};

// The launches of one stream, in order, and the records of their packets.
struct LaunchLog {
  StreamState* stream = nullptr;
  std::vector<Launch> launches;
  std::vector<openreg_trace_record> records;
  uint64_t lost = 0; // records that the card could not write
  // The launches that may have had no record yet at the last read.
  std::deque<UnreadLaunch> unread;
  uint64_t unread_records = 0; // their records, and those of the launch that has begun
  uint64_t begun_records = 0; // of the launch that has begun
  size_t stuck_at = SIZE_MAX; // records at which waiting for the card was in vain
};

// A thread waited for the card.
struct HostWait {
  c10::approx_time_t begin;
  c10::approx_time_t end;
  uint64_t op; // as in Launch
  int32_t thread;
};

// Packets that a library has put into a queue of its own.
struct Job {
  using Note = std::variant<int64_t, std::string>;

  Launch launch; // seq: of the last packet
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0; // the row is in its place
  uint64_t first = 0; // the number of the first packet
  uint64_t packets = 0; // with a record
  uint64_t begin = 0; // on the card's clock, if there are packets
  uint64_t end = 0;
  uint64_t busy_ns = 0;
  uint64_t stall_ns = 0;
  uint64_t bytes = 0;
  std::string name;
  std::vector<std::pair<std::string, Note>> notes;
};

struct LaunchLogs {
  std::vector<LaunchLog> streams;
  std::vector<HostWait> waits;
  std::vector<Job> jobs;
  std::unordered_map<uint64_t, uint64_t> outer; // the id of the range around a range
};

// What has jobs to log.
class JobSource {
 public:
  virtual ~JobSource() = default;
  virtual void begin_log() = 0;
  // Calls keep_jobs().
  virtual void end_log() = 0;
};

// The source takes part in all profiles from now on. The caller holds no lock.
void add_job_source(const std::shared_ptr<JobSource>& source);
// Adds them to the profile that runs or is being ended.
void keep_jobs(std::vector<Job> jobs);
// A launch of the calling thread that ends now.
Launch this_launch(OpId name, uint64_t seq, c10::approx_time_t begin);

// Begins a log of each stream of the process, also of those created later. Streams of
// queues that the program has created have none.
void begin_launch_logs();
// Waits for the packets that were launched, ends all logs and returns them.
LaunchLogs end_launch_logs();
// Begins a log of a new stream if other streams have logs.
void join_launch_logs(StreamState& stream);

// The calling thread is in this operator or range from now on.
void enter_op(uint64_t id);
void leave_op();
void enter_range(uint64_t id);
void leave_range();

// For submit_locked(): call both if stream.log is not null, before and after the packet is
// visible to the card. The caller holds stream.mutex.
c10::approx_time_t launch_begins(StreamState& stream, const void* packet);
void launch_ends(
    StreamState& stream,
    OpId name,
    uint64_t seq,
    c10::approx_time_t begin);

extern std::atomic<bool> launch_logs_on;

// Logs a wait of the calling thread, from here to the end of the scope.
class LoggedWait {
 public:
  explicit LoggedWait(bool waits = true)
      : begin_(
            waits && launch_logs_on.load(std::memory_order_relaxed)
                ? c10::getApproximateTime()
                : 0) {}
  ~LoggedWait() {
    if (C10_UNLIKELY(begin_ != 0))
      note();
  }
  LoggedWait(const LoggedWait&) = delete;
  LoggedWait& operator=(const LoggedWait&) = delete;

 private:
  void note() const;

  c10::approx_time_t begin_;
};

} // namespace openreg
