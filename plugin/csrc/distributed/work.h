// SPDX-License-Identifier: BSD-3-Clause
// What a collective returns to the program.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "distributed/communicator.h"

namespace openreg {

// A collective has one part; coalesced ones have one for each communicator. A transfer of
// a coalesced group has none until the group ends.
class CollectiveWork : public c10d::Work {
 public:
  struct Part {
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<Pending> pending;
  };

  using GroupName = std::tuple<std::string, std::string>; // and its description

  CollectiveWork(
      int rank,
      c10d::OpType type,
      uint64_t sequence,
      GroupName group,
      std::vector<Part> parts,
      Tensors results,
      bool is_queued = true);

  // The group of the transfer has queued it, or has failed before that.
  void queued(Part part);
  void lost(const std::string& why);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  // The calling thread's current stream waits for the collective.
  void synchronize() override;
  // Also waits on the host if there is a timeout, or for a barrier.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void blockCurrentStream() override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override;
  std::chrono::milliseconds getTimeout() const override;

  const std::vector<Part>& parts() const {
    return parts_;
  }

 private:
  enum class State { COLLECTED, QUEUED, LOST };

  void make_future();
  void check_queued() const;
  bool wait_unrecorded(std::chrono::milliseconds timeout);

  const uint64_t sequence_;
  const GroupName group_;
  std::vector<Part> parts_; // does not change after QUEUED
  const Tensors results_;
  std::exception_ptr lost_; // if LOST
  std::atomic<State> state_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace openreg
