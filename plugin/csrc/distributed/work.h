// SPDX-License-Identifier: BSD-3-Clause
// What a collective returns to the program.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <vector>

#include "distributed/communicator.h"

namespace openreg {

// A collective has one part; coalesced ones have one for each communicator.
class CollectiveWork : public c10d::Work {
 public:
  struct Part {
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<Pending> pending;
  };

  CollectiveWork(
      int rank,
      c10d::OpType type,
      uint64_t sequence,
      std::vector<Part> parts,
      Tensors results);

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
  void make_future();

  const uint64_t sequence_;
  const std::vector<Part> parts_;
  const Tensors results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace openreg
