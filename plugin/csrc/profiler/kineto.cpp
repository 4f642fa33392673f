// SPDX-License-Identifier: BSD-3-Clause
// torch.profiler: a row of the CPU thread for each launch, and a row of the card's stream
// for each packet that it ran. The rows are linked by arrows, and to the operator.
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <ActivityType.h>
#include <libkineto.h>
#include <output_base.h>

#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/clock.h"
#include "profiler/rows.h"
#include "runtime/gil.h"
#include "runtime/launch_log.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

using libkineto::ActivityType;

// A card that does not answer, such as one that was unplugged, adds an error instead.
std::map<c10::DeviceIndex, Moment> moments(std::vector<std::string>& errors) {
  std::map<c10::DeviceIndex, Moment> all;
  for (c10::DeviceIndex i = 0; i < device_count(); i++) {
    if (!device_opened(i))
      continue;
    try {
      all[i] = this_moment(device(i));
    } catch (const c10::Error& error) {
      errors.push_back(error.what_without_backtrace());
    }
  }
  return all;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}

  void start() override {
    const WithoutGil unlocked;
    begin_ = moments(errors_);
    begin_launch_logs();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING)
      return;
    const WithoutGil unlocked;
    logs_ = end_launch_logs();
    const auto ends = moments(errors_);
    // A card that was opened meanwhile has no moment at the start, and one that is gone has
    // none at the end. Then the clocks count as equally fast.
    for (const auto& [index, end] : ends) {
      const auto found = begin_.find(index);
      clocks_.emplace(index, CardClock(found == begin_.end() ? end : found->second, end));
    }
    for (const auto& [index, begin] : begin_)
      clocks_.emplace(index, CardClock(begin, begin));
    // Without a time no record has a row.
    std::erase_if(logs_.streams, [&](const LaunchLog& log) {
      return !clocks_.count(log.stream->device);
    });
    to_unix_ = cpu_clock_.makeConverter();
    metadata_ = metadata_of(logs_.streams, clocks_);
    metadata_["openreg_clock_failures"] = std::to_string(errors_.size());
    for (const std::string& error : errors_)
      TORCH_WARN("the profile is not complete: ", error);
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override {
    return errors_;
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }

  void processTrace(
      libkineto::ActivityLogger& logger,
      libkineto::getLinkedActivityCallback linked,
      int64_t start,
      int64_t end) override {
    if (!to_unix_)
      return;
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "openreg");
    Rows rows(types_, *buffer_, std::move(linked), to_unix_, logs_.outer);
    for (const LaunchLog& log : logs_.streams)
      rows.add(log, clocks_.at(log.stream->device));
    rows.add(logs_.waits);
    for (const Job& job : logs_.jobs)
      rows.add(job, clocks_.at(job.device));
    for (const auto& [index, clock] : clocks_)
      logger.handleDeviceInfo(device_info(index), start);
    for (const auto& activity : buffer_->activities)
      activity->log(logger);
    logs_ = {};
  }

  // Kineto adds rows of its own for 16 devices if this is null.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(device_info(0));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> all;
    for (const auto& [index, clock] : clocks_)
      for (const StreamState* s : open_streams(index))
        all.emplace_back(
            s->id, s->id, index, "stream " + std::to_string(s->id));
    return all;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override {
    enter_op(id);
  }
  void popCorrelationId() override {
    leave_op();
  }
  void pushUserCorrelationId(uint64_t id) override {
    enter_range(id);
  }
  void popUserCorrelationId() override {
    leave_range();
  }

  std::unordered_map<std::string, std::string> getMetadata() override {
    return metadata_;
  }

 private:
  static libkineto::DeviceInfo device_info(c10::DeviceIndex index) {
    const std::string name = "openreg:" + std::to_string(index);
    return {index, libkineto::kExceedMaxPid + index, name, name};
  }

  std::set<ActivityType> types_;
  c10::ApproximateClockToUnixTimeConverter cpu_clock_;
  std::function<time_t(c10::approx_time_t)> to_unix_;
  std::map<c10::DeviceIndex, Moment> begin_;
  std::map<c10::DeviceIndex, CardClock> clocks_;
  LaunchLogs logs_;
  std::vector<std::string> errors_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::unordered_map<std::string, std::string> metadata_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    return name_;
  }

  const std::set<ActivityType>& availableActivities() const override {
    return types_;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types,
      const libkineto::Config&) override {
    // A profile of the CPU has the type of the launches, too.
    if (!types.count(ActivityType::CONCURRENT_KERNEL))
      return nullptr;
    return std::make_unique<Session>(types);
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t,
      int64_t,
      const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = "openreg";
  const std::set<ActivityType> types_{
      ActivityType::CONCURRENT_KERNEL,
      ActivityType::GPU_MEMCPY,
      ActivityType::GPU_MEMSET,
      ActivityType::GPU_USER_ANNOTATION,
      ActivityType::PRIVATEUSE1_RUNTIME};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

} // namespace
} // namespace openreg
