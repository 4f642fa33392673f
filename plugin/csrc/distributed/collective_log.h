// SPDX-License-Identifier: BSD-3-Clause
// The collectives of a communicator in a profile: each is one row of the card, with what
// torch recorded of it.
#pragma once

#include <c10/util/ApproximateClock.h>

#include <deque>

#include "openreg_comm.h"
#include "runtime/launch_log.h"

namespace openreg {

// The caller serialises the calls, also with other uses of the queue.
class CollectiveLog {
 public:
  // stream: the rows are in its place.
  explicit CollectiveLog(const StreamState& stream) : stream_(stream) {}

  // The card records the packets of the queue from now on.
  void start(openreg_queue* queue);
  // queue: null if it has been destroyed.
  void stop(openreg_queue* queue);
  bool on() const {
    return on_;
  }

  // Call both if the log is on, before and after the packets of a collective are pushed.
  // All earlier packets were submitted.
  void begin(openreg_queue* queue);
  void end(uint64_t last);

 private:
  void read(openreg_queue* queue);
  void add(const openreg_trace_record& record);

  const StreamState& stream_;
  bool on_ = false;
  c10::approx_time_t begin_ = 0;
  uint64_t first_ = 0; // packet of the collective that is being pushed
  std::deque<Job> jobs_;
  size_t at_ = 0; // the job of the next record
};

} // namespace openreg
