// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/rows.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/stream.h"
#include "runtime/submit.h"

namespace openreg {

using libkineto::ActivityType;

namespace {

ActivityType type_of(const openreg_trace_record& record) {
  switch (record.opcode) {
    case OPENREG_OP_COPY:
      return ActivityType::GPU_MEMCPY;
    case OPENREG_OP_FILL:
      return ActivityType::GPU_MEMSET;
    case OPENREG_OP_WAIT:
      // Its time is no work, and torch does not count annotations.
      return ActivityType::GPU_USER_ANNOTATION;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

// Not the operator's name alone: torch's tools would take the row for an operator.
std::string name_of(const openreg_trace_record& record) {
  const std::string op = op_name(record.cookie);
  switch (record.opcode) {
    case OPENREG_OP_COPY:
      return op.starts_with("Memcpy") ? op : "Memcpy (" + op + ")";
    case OPENREG_OP_FILL:
      return "Memset (" + op + ")";
    case OPENREG_OP_WAIT:
      return op;
    default:
      return std::string(openreg_opcode_name(record.opcode)) + " kernel (" + op + ")";
  }
}

// The packets of an event's record, which are no work either.
bool is_mark(const openreg_trace_record& record) {
  return record.opcode == OPENREG_OP_SIGNAL || record.opcode == OPENREG_OP_TIMESTAMP;
}

// Moves at to the launch of packet seq. Launches and records are in the order of the
// packets. Returns false if there is none.
bool find_launch(const LaunchLog& log, size_t& at, uint64_t seq) {
  while (at < log.launches.size() && log.launches[at].seq < seq)
    at++;
  return at < log.launches.size() && log.launches[at].seq == seq;
}

} // namespace

Rows::Rows(
    const std::set<ActivityType>& types,
    libkineto::CpuTraceBuffer& buffer,
    libkineto::getLinkedActivityCallback linked,
    std::function<time_t(c10::approx_time_t)> to_unix,
    const std::unordered_map<uint64_t, uint64_t>& outer)
    : types_(types),
      buffer_(buffer),
      linked_(std::move(linked)),
      to_unix_(std::move(to_unix)),
      outer_(outer) {}

Rows::Activity* Rows::make(ActivityType type, const std::string& name, Time time) {
  if (!types_.count(type))
    return nullptr;
  buffer_.emplace_activity(buffer_.span, type, name);
  Activity& a = *buffer_.activities.back();
  a.startTime = time.begin;
  a.endTime = time.end;
  return &a;
}

// A row of a thread of the CPU.
Rows::Activity* Rows::make_on_thread(
    const char* name,
    Time time,
    int32_t thread,
    uint64_t op) {
  id_++;
  Activity* a = make(ActivityType::PRIVATEUSE1_RUNTIME, name, time);
  if (!a)
    return nullptr;
  a->id = id_;
  a->device = getpid();
  a->resource = thread;
  a->threadId = thread;
  a->linked = linked_(static_cast<int32_t>(op));
  a->addTypedMetadata("correlation", int64_t{id_});
  return a;
}

// Returns the launch's time.
Rows::Time Rows::add_launch(const Launch& launch) {
  const Time time{to_unix_(launch.begin), to_unix_(launch.end)};
  Activity* a = make_on_thread("openreg_launch", time, launch.thread, launch.op);
  if (!a)
    return time;
  a->flow.id = static_cast<uint32_t>(id_);
  a->flow.type = libkineto::kLinkAsyncCpuGpu;
  a->flow.start = 1;
  a->addTypedMetadata("operator", std::string(op_name(launch.name)));
  return time;
}

void Rows::add(const std::vector<HostWait>& waits) {
  for (const HostWait& w : waits)
    make_on_thread(
        "openreg_synchronize", {to_unix_(w.begin), to_unix_(w.end)}, w.thread, w.op);
}

Rows::Time Rows::time_of(const openreg_trace_record& record, const CardClock& clock) {
  const Time time{clock.unix_ns(record.begin), clock.unix_ns(record.end)};
  return {time.begin, std::max(time.begin, time.end)};
}

// An arrow leads from the launch with this id to the row.
void Rows::link(Activity& a, int32_t id) {
  a.id = id;
  a.addTypedMetadata("correlation", int64_t{id});
  a.flow.id = static_cast<uint32_t>(id);
  a.flow.type = libkineto::kLinkAsyncCpuGpu;
  a.flow.start = 0;
}

// launch is null for a packet that no operator launched.
void Rows::add_record(
    const LaunchLog& log,
    const openreg_trace_record& record,
    const Launch* launch,
    int32_t id,
    Time time) {
  Activity* a = make(type_of(record), name_of(record), time);
  if (!a)
    return;
  a->device = log.stream->device;
  a->resource = log.stream->id;
  a->threadId = static_cast<int32_t>(log.stream->id);
  a->addTypedMetadata("device", int64_t{log.stream->device});
  a->addTypedMetadata("stream", int64_t{log.stream->id});
  a->addTypedMetadata("operator", std::string(op_name(record.cookie)));
  a->addTypedMetadata("packet", std::string(openreg_opcode_name(record.opcode)));
  a->addTypedMetadata("sequence", int64_t(record.seq));
  a->addTypedMetadata("bytes", int64_t(record.bytes));
  a->addTypedMetadata("slices", int64_t{record.slices});
  a->addTypedMetadata("workers", int64_t{record.workers});
  a->addTypedMetadata("busy ns", int64_t(record.busy_ns));
  // The name is that of CUDA's rows, for tools. Both sides of a copy count as bytes.
  if (record.opcode == OPENREG_OP_COPY && time.end > time.begin)
    a->addTypedMetadata(
        "memory bandwidth (GB/s)",
        static_cast<double>(record.bytes) / 2 / static_cast<double>(time.end - time.begin));
  if (record.in_list)
    a->addTypedMetadata("node of graph", int64_t{record.in_list});
  if (record.stall_ns)
    a->addTypedMetadata("stall ns", int64_t(record.stall_ns));
  if (record.fault)
    a->addTypedMetadata("fault", std::string(openreg_fault_name(record.fault)));
  if (!launch)
    return;
  link(*a, id);
  if (record.opcode == OPENREG_OP_WAIT)
    return;
  a->linked = linked_(static_cast<int32_t>(launch->op));
  extend_ranges(launch->range, time);
}

// The packet is in this range, and in those around it.
void Rows::extend_ranges(uint64_t range, Time time) {
  while (range) {
    const auto found = ranges_.try_emplace(range, time).first;
    found->second.begin = std::min(found->second.begin, time.begin);
    found->second.end = std::max(found->second.end, time.end);
    const auto around = outer_.find(range);
    range = around == outer_.end() ? 0 : around->second;
  }
}

// A range of record_function() on the card: from its first packet to its last.
void Rows::add_ranges(const LaunchLog& log) {
  for (const auto& [id, time] : ranges_) {
    const auto* range = linked_(static_cast<int32_t>(id));
    if (!range)
      continue;
    Activity* a =
        make(ActivityType::GPU_USER_ANNOTATION, range->name(), time);
    if (!a)
      continue;
    a->device = log.stream->device;
    a->resource = log.stream->id;
    // Not linked: its time would count as work of the range, besides that of the packets.
  }
  ranges_.clear();
}

void Rows::add(const LaunchLog& log, const CardClock& clock) {
  const int32_t first = id_ + 1;
  std::vector<Time> launched;
  launched.reserve(log.launches.size());
  for (const Launch& launch : log.launches)
    launched.push_back(add_launch(launch));
  size_t at = 0;
  for (const openreg_trace_record& record : log.records) {
    const bool has_launch = find_launch(log, at, record.seq);
    // The library fills the end of the ring with NOPs.
    if (!has_launch && record.opcode == OPENREG_OP_NOP)
      continue;
    Time time = time_of(record, clock);
    // The errors of the clocks can move a row before its launch.
    if (has_launch && time.begin < launched[at].begin)
      time = {launched[at].begin, std::max(time.end, launched[at].begin)};
    if (!is_mark(record))
      add_record(
          log,
          record,
          has_launch ? &log.launches[at] : nullptr,
          first + static_cast<int32_t>(at),
          time);
  }
  add_ranges(log);
}

void Rows::add(const Job& job, const CardClock& clock) {
  const Time launched = add_launch(job.launch);
  if (!job.packets)
    return;
  Time time{clock.unix_ns(job.begin), clock.unix_ns(job.end)};
  time.begin = std::max(time.begin, launched.begin);
  time.end = std::max(time.begin, time.end);
  Activity* a = make(ActivityType::CONCURRENT_KERNEL, job.name, time);
  if (!a)
    return;
  a->device = job.device;
  a->resource = job.stream;
  a->threadId = static_cast<int32_t>(job.stream);
  a->addTypedMetadata("device", int64_t{job.device});
  a->addTypedMetadata("stream", int64_t{job.stream});
  a->addTypedMetadata("operator", std::string(op_name(job.launch.name)));
  a->addTypedMetadata("packets", int64_t(job.packets));
  a->addTypedMetadata("bytes", int64_t(job.bytes));
  a->addTypedMetadata("busy ns", int64_t(job.busy_ns));
  a->addTypedMetadata("stall ns", int64_t(job.stall_ns));
  for (const auto& [key, value] : job.notes)
    std::visit([&, &key = key](const auto& v) { a->addTypedMetadata(key, v); }, value);
  link(*a, id_);
  a->linked = linked_(static_cast<int32_t>(job.launch.op));
}

// The nodes of a graph have one launch.
std::unordered_map<std::string, std::string> metadata_of(
    const std::vector<LaunchLog>& logs,
    const std::map<c10::DeviceIndex, CardClock>& clocks) {
  int64_t error = 0;
  for (const auto& [index, clock] : clocks)
    error = std::max(error, clock.error());
  uint64_t lost = 0, missing = 0;
  for (const LaunchLog& log : logs) {
    lost += log.lost;
    size_t at = 0;
    uint64_t found = 0, last = 0;
    for (const openreg_trace_record& record : log.records) {
      found += find_launch(log, at, record.seq) && record.seq != last;
      last = record.seq;
    }
    missing += log.launches.size() - found;
  }
  return {
      {"openreg_clock_error_ns", std::to_string(error)},
      {"openreg_lost_records", std::to_string(lost)},
      {"openreg_launches_without_record", std::to_string(missing)}};
}

} // namespace openreg
