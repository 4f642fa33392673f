// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/collective_log.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace openreg {
namespace {

constexpr uint64_t kRecords = uint64_t{1} << 15;
constexpr int64_t kPatience = 5'000'000'000; // ns, for collectives that nobody waited for

// The keys are those of the CPU's row, record_param_comms.
void describe(Job& job) {
  const auto* info = static_cast<torch::ParamCommsDebugInfo*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PARAM_COMMS_INFO));
  if (!info) {
    job.name = "OCCL kernel (transfer)";
    return;
  }
  job.name = "OCCL kernel (" + info->getCollectiveName() + ")";
  job.notes = {
      {"Collective name", info->getCollectiveName()},
      {"In msg nelems", info->getInMessageNelems()},
      {"Out msg nelems", info->getOutMessageNelems()},
      {"dtype", std::string(c10::toString(info->getDType()))},
      {"Group size", int64_t{info->getWorldSize()}},
      {"Rank", int64_t{info->getRank()}},
      {"Seq", info->getSequenceNumber()},
      {"Process Group Name", info->getProcessGroupName()},
      {"Process Group Description", info->getProcessGroupDesc()},
  };
}

} // namespace

void CollectiveLog::start(openreg_queue* queue) {
  if (on_ || !queue)
    return;
  const int error = openreg_queue_trace_start(queue, kRecords);
  if (error)
    TORCH_WARN("the collectives are not profiled: ", openreg_last_error());
  on_ = !error;
}

void CollectiveLog::stop(openreg_queue* queue) {
  if (!on_)
    return;
  on_ = false;
  if (queue && !jobs_.empty()) {
    openreg_queue_wait(queue, jobs_.back().launch.seq, kPatience);
    read(queue);
  }
  if (queue)
    openreg_queue_trace_stop(queue);
  keep_jobs({std::make_move_iterator(jobs_.begin()), std::make_move_iterator(jobs_.end())});
  jobs_.clear();
  at_ = 0;
}

void CollectiveLog::begin(openreg_queue* queue) {
  const uint64_t submitted = openreg_queue_submitted(queue);
  first_ = submitted + 1;
  if (jobs_.size() > at_ && submitted - jobs_[at_].first > kRecords / 4)
    read(queue);
  begin_ = c10::getApproximateTime();
}

void CollectiveLog::end(uint64_t last) {
  static const OpId op = op_id("openreg::collective");
  if (last < first_)
    return; // nothing to do: no element, or one rank
  Job job;
  job.launch = this_launch(op, last, begin_);
  job.device = stream_.device;
  job.stream = stream_.id;
  job.first = first_;
  describe(job);
  jobs_.push_back(std::move(job));
}

void CollectiveLog::add(const openreg_trace_record& record) {
  while (at_ < jobs_.size() && jobs_[at_].launch.seq < record.seq)
    at_++;
  if (at_ == jobs_.size() || record.seq < jobs_[at_].first)
    return;
  Job& job = jobs_[at_];
  job.begin = job.packets++ ? std::min<uint64_t>(job.begin, record.begin) : record.begin;
  job.end = std::max<uint64_t>(job.end, record.end);
  job.busy_ns += record.busy_ns;
  job.stall_ns += record.stall_ns;
  job.bytes += record.bytes;
}

void CollectiveLog::read(openreg_queue* queue) {
  std::vector<openreg_trace_record> part(4096);
  int64_t got;
  do {
    uint64_t lost = 0;
    got = openreg_queue_trace_read(queue, part.data(), part.size(), &lost);
    for (int64_t i = 0; i < got; i++)
      add(part[static_cast<size_t>(i)]);
  } while (got == static_cast<int64_t>(part.size()));
}

} // namespace openreg
