// SPDX-License-Identifier: BSD-3-Clause
// Kineto's rows of the launches and the card's records.
#pragma once

#include <ActivityType.h>
#include <libkineto.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/clock.h"
#include "runtime/launch_log.h"

namespace openreg {

class Rows {
 public:
  Rows(
      const std::set<libkineto::ActivityType>& types,
      libkineto::CpuTraceBuffer& buffer,
      libkineto::getLinkedActivityCallback linked,
      std::function<time_t(c10::approx_time_t)> to_unix,
      const std::unordered_map<uint64_t, uint64_t>& outer);

  // Adds the rows of a stream.
  void add(const LaunchLog& log, const CardClock& clock);
  void add(const std::vector<HostWait>& waits);
  void add(const Job& job, const CardClock& clock);

 private:
  using Activity = libkineto::GenericTraceActivity;
  struct Time {
    int64_t begin, end;
  };

  Activity* make(libkineto::ActivityType type, const std::string& name, Time time);
  Activity* make_on_thread(const char* name, Time time, int32_t thread, uint64_t op);
  void link(Activity& a, int32_t id);
  void extend_ranges(uint64_t range, Time time);
  Time add_launch(const Launch& launch);
  Time time_of(const openreg_trace_record& record, const CardClock& clock);
  void add_record(
      const LaunchLog& log,
      const openreg_trace_record& record,
      const Launch* launch,
      int32_t id,
      Time time);
  void add_ranges(const LaunchLog& log);

  const std::set<libkineto::ActivityType>& types_;
  libkineto::CpuTraceBuffer& buffer_;
  libkineto::getLinkedActivityCallback linked_;
  std::function<time_t(c10::approx_time_t)> to_unix_;
  const std::unordered_map<uint64_t, uint64_t>& outer_; // see LaunchLogs
  int32_t id_ = 0; // of the last launch
  std::map<uint64_t, Time> ranges_; // of a stream, by the id of record_function()
};

// What the trace says of itself at its top level.
std::unordered_map<std::string, std::string> metadata_of(
    const std::vector<LaunchLog>& logs,
    const std::map<c10::DeviceIndex, CardClock>& clocks);

} // namespace openreg
