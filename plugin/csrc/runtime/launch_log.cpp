// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/launch_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/capture.h"
#include "runtime/stream.h"

namespace openreg {

std::atomic<bool> launch_logs_on{false};

namespace {

// More than twice the packets of a ring. A launch waits if it could make the card write
// more.
constexpr uint64_t kRecords = uint64_t{1} << 15;
constexpr int64_t kPatienceNs = 1'000'000'000;

struct Logs {
  std::mutex mutex; // lock it before a stream's mutex
  std::atomic<uint64_t> run{0}; // counts the calls of begin_launch_logs()
  std::vector<std::unique_ptr<LaunchLog>> all;
  std::mutex waits_mutex; // lock it last
  std::vector<HostWait> waits;
  std::vector<Job> jobs; // under waits_mutex
  std::unordered_map<uint64_t, uint64_t> outer; // under waits_mutex
  std::mutex sources_mutex;
  std::vector<std::weak_ptr<JobSource>> sources;
};

Logs& logs() {
  static auto* logs = new Logs;
  return *logs;
}

// The ids of a thread. Those of an earlier run are void: their ends did not arrive here.
struct Ids {
  uint64_t run = 0;
  std::vector<uint64_t> ops;
  std::vector<uint64_t> ranges;
};

Ids& ids() {
  thread_local Ids ids;
  const uint64_t run = logs().run.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(ids.run != run)) {
    ids.ops.clear();
    ids.ranges.clear();
    ids.run = run;
  }
  return ids;
}

uint64_t last(const std::vector<uint64_t>& ids) {
  return ids.empty() ? 0 : ids.back();
}

void leave(std::vector<uint64_t>& ids) {
  if (!ids.empty())
    ids.pop_back();
}

int32_t this_thread() {
  thread_local const auto id = static_cast<int32_t>(syscall(SYS_gettid));
  return id;
}

// Moves the card's records to the log. The caller holds the stream's mutex.
void read_records(LaunchLog& log) {
  constexpr size_t kPart = 4096;
  for (;;) {
    const size_t have = log.records.size();
    if (log.records.capacity() < have + kPart)
      log.records.reserve(2 * have + 2 * kPart);
    log.records.resize(have + kPart);
    const int64_t got = openreg_queue_trace_read(
        log.stream->queue, log.records.data() + have, kPart, &log.lost);
    log.records.resize(have + static_cast<size_t>(std::max<int64_t>(got, 0)));
    if (got < static_cast<int64_t>(kPart))
      return;
  }
}

// Reads the records, and forgets the launches of which no record can come any more.
void drop_read_launches(LaunchLog& log) {
  const uint64_t completed = openreg_queue_completed(log.stream->queue);
  read_records(log);
  for (; !log.unread.empty() && log.unread.front().seq <= completed; log.unread.pop_front())
    log.unread_records -= log.unread.front().records;
}

// Waits until the ring has room for the records of the launch that has begun, as a launch
// waits for room in a full queue. A stream that makes no progress may wait for this very
// thread: then the launch goes on, and the card counts the records that it loses.
void make_room(LaunchLog& log) {
  drop_read_launches(log);
  while (!log.unread.empty() && log.unread_records + log.begun_records > kRecords &&
         log.records.size() != log.stuck_at) {
    const size_t before = log.records.size();
    const int error =
        openreg_queue_wait(log.stream->queue, log.unread.front().seq, kPatienceNs);
    drop_read_launches(log);
    if (error && log.records.size() == before)
      log.stuck_at = before;
  }
}

// How many records the packet causes.
uint64_t records_of(const void* packet) {
  uint64_t packets = 1;
  if (*static_cast<const uint8_t*>(packet) == OPENREG_OP_LIST)
    std::memcpy(
        &packets,
        static_cast<const char*>(packet) + sizeof(openreg_packet) +
            sizeof(openreg_op) + sizeof(openreg_operand) + sizeof(uint64_t),
        sizeof(packets));
  return packets;
}

// The caller holds the logs' mutex.
void begin_log(StreamState& s) {
  if (s.id >= kOwnStreams)
    return;
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.log)
    return;
  int error;
  do
    error = openreg_queue_trace_start(s.queue, kRecords);
  while (error == -ETIME);
  s.last_seq.store(openreg_queue_submitted(s.queue), std::memory_order_release);
  if (error) {
    TORCH_WARN(
        "openreg:",
        static_cast<int>(s.device),
        " stream ",
        s.id,
        " is not profiled: ",
        openreg_last_error());
    return;
  }
  logs().all.push_back(std::make_unique<LaunchLog>());
  s.log = logs().all.back().get();
  s.log->stream = &s;
}

void end_log(LaunchLog& log) {
  StreamState& s = *log.stream;
  // A stream that has faulted, or waits for one that has, keeps its packets.
  if (!captured_by_another_thread(s))
    settle(s, s.last());
  const std::lock_guard<std::mutex> lock(s.mutex);
  read_records(log);
  s.log = nullptr;
  openreg_queue_trace_stop(s.queue);
  s.last_seq.store(openreg_queue_submitted(s.queue), std::memory_order_release);
}

// Without a lock, so that they may use locks of their own.
std::vector<std::shared_ptr<JobSource>> job_sources() {
  Logs& l = logs();
  const std::lock_guard<std::mutex> lock(l.sources_mutex);
  std::erase_if(l.sources, [](const auto& source) { return source.expired(); });
  std::vector<std::shared_ptr<JobSource>> all;
  for (const auto& source : l.sources)
    if (auto alive = source.lock())
      all.push_back(std::move(alive));
  return all;
}

} // namespace

void add_job_source(const std::shared_ptr<JobSource>& source) {
  Logs& l = logs();
  {
    const std::lock_guard<std::mutex> lock(l.sources_mutex);
    l.sources.push_back(source);
  }
  if (launch_logs_on)
    source->begin_log();
}

void keep_jobs(std::vector<Job> jobs) {
  Logs& l = logs();
  const std::lock_guard<std::mutex> lock(l.waits_mutex);
  std::move(jobs.begin(), jobs.end(), std::back_inserter(l.jobs));
}

void begin_launch_logs() {
  for (const auto& source : job_sources())
    source->begin_log();
  Logs& l = logs();
  const std::lock_guard<std::mutex> lock(l.mutex);
  l.run++;
  launch_logs_on = true;
  for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
    if (device_opened(i))
      for (StreamState* s : open_streams(i))
        begin_log(*s);
}

LaunchLogs end_launch_logs() {
  Logs& l = logs();
  launch_logs_on = false;
  for (const auto& source : job_sources())
    source->end_log();
  const std::lock_guard<std::mutex> lock(l.mutex);
  LaunchLogs ended;
  l.run++;
  for (const auto& log : l.all) {
    end_log(*log);
    ended.streams.push_back(std::move(*log));
  }
  l.all.clear();
  const std::lock_guard<std::mutex> waits_lock(l.waits_mutex);
  ended.waits = std::exchange(l.waits, {});
  ended.jobs = std::exchange(l.jobs, {});
  ended.outer = std::exchange(l.outer, {});
  return ended;
}

void join_launch_logs(StreamState& stream) {
  Logs& l = logs();
  if (!launch_logs_on)
    return;
  const std::lock_guard<std::mutex> lock(l.mutex);
  if (launch_logs_on)
    begin_log(stream);
}

void enter_op(uint64_t id) {
  ids().ops.push_back(id);
}

void leave_op() {
  leave(ids().ops);
}

void enter_range(uint64_t id) {
  std::vector<uint64_t>& ranges = ids().ranges;
  if (!ranges.empty()) {
    Logs& l = logs();
    const std::lock_guard<std::mutex> lock(l.waits_mutex);
    l.outer.emplace(id, ranges.back());
  }
  ranges.push_back(id);
}

void leave_range() {
  leave(ids().ranges);
}

void LoggedWait::note() const {
  const HostWait wait{
      begin_, c10::getApproximateTime(), last(ids().ops), this_thread()};
  Logs& l = logs();
  const std::lock_guard<std::mutex> lock(l.waits_mutex);
  if (launch_logs_on)
    l.waits.push_back(wait);
}

c10::approx_time_t launch_begins(StreamState& stream, const void* packet) {
  LaunchLog& log = *stream.log;
  log.begun_records = records_of(packet);
  if (C10_UNLIKELY(log.unread_records + log.begun_records > kRecords / 2))
    make_room(log);
  log.unread_records += log.begun_records;
  return c10::getApproximateTime();
}

void launch_ends(
    StreamState& stream,
    OpId name,
    uint64_t seq,
    c10::approx_time_t begin) {
  stream.log->unread.push_back({seq, stream.log->begun_records});
  stream.log->launches.push_back(this_launch(name, seq, begin));
}

Launch this_launch(OpId name, uint64_t seq, c10::approx_time_t begin) {
  const Ids& mine = ids();
  return {
      seq,
      begin,
      c10::getApproximateTime(),
      last(mine.ops),
      last(mine.ranges),
      name,
      this_thread()};
}

} // namespace openreg
