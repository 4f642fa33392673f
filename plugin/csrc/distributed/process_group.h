// SPDX-License-Identifier: BSD-3-Clause
// The backend "occl" of torch.distributed: collectives among cards, by openreg-comm.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "distributed/work.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// The pg_options of a group.
struct OptionsOCCL final : c10d::Backend::Options {
  explicit OptionsOCCL(bool high_priority = false)
      : Options("occl"), is_high_priority_stream(high_priority) {}
  c10::intrusive_ptr<Options> clone() const override;

  // The packets of collectives run before those of other streams.
  bool is_high_priority_stream;
};

class ProcessGroupOCCL final : public c10d::Backend {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using TensorLists = std::vector<Tensors>;

  ProcessGroupOCCL(
      c10::intrusive_ptr<c10d::Store> store,
      int rank,
      int size,
      c10::intrusive_ptr<OptionsOCCL> options);
  ~ProcessGroupOCCL() override;

  // lifetime.cpp
  const std::string getBackendName() const override;
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsSplitting() const override;
  bool supportsCoalescing() const override;
  void setTimeout(Milliseconds timeout) override;
  void addEphemeralTimeout(const Milliseconds& timeout) override;
  void eagerConnectSingleDevice(at::Device device) override;
  c10::intrusive_ptr<Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store,
      const std::vector<int>& ranks,
      const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> merge(
      const c10::intrusive_ptr<c10d::Store>& store,
      const c10::intrusive_ptr<Options>& options,
      const int& rank,
      const int& size) override;
  c10d::ErrorType getError() override;
  void registerAbortHook(int64_t id, c10d::AbortHook hook) override;
  void unregisterAbortHook(int64_t id) override;
  void enableCollectivesTiming() override;
  void waitForPendingWorks() override;
  uint64_t getSequenceNumberForGroup() override;
  void abort() override;
  void shutdown() override;
  uint64_t split_count() const {
    return splits_;
  }
  std::vector<std::shared_ptr<Communicator>> communicators();
  // The one of all ranks. Waits for them at the first call.
  // guessed: a barrier's, on a card that the program has not named.
  std::shared_ptr<Communicator> communicator(c10::DeviceIndex index, bool guessed = false);
  bool supportsWindow() const override;
  c10::intrusive_ptr<c10d::Window> new_window(
      const std::optional<at::Tensor>& tensor) override;
  // For windows: a new communicator of all ranks, and a call of it.
  std::shared_ptr<Communicator> window_communicator(c10::DeviceIndex index);
  WorkPtr window_work(
      const std::shared_ptr<Communicator>& communicator,
      const Collective& collective,
      Milliseconds timeout,
      const Tensors& tensors);

  // collectives.cpp
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(
      Tensors& tensors,
      const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;

  // gathers.cpp
  WorkPtr allgather(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& opts) override;
  WorkPtr all_gather_single(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::AllgatherOptions& opts) override;
  WorkPtr all_gather_single_coalesced(
      Tensors& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts)
      override;
  WorkPtr gather_single(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::GatherOptions& opts) override;

  // scatters.cpp
  WorkPtr scatter(
      Tensors& outputs,
      TensorLists& inputs,
      const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(
      Tensors& outputs,
      TensorLists& inputs,
      const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_single(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_single_coalesced(
      Tensors& outputs,
      Tensors& inputs,
      const c10d::ReduceScatterOptions& opts) override;
  WorkPtr all_to_all_single(
      at::Tensor& output,
      at::Tensor& input,
      std::vector<int64_t>& output_sizes,
      std::vector<int64_t>& input_sizes,
      const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts)
      override;

  // point_to_point.cpp
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

 private:
  // What a collective does with its tensors.
  struct Call {
    c10d::OpType type;
    const char* name; // as error texts have it
    Tensors inputs; // empty for a rank that only receives
    Tensors outputs; // the results of the Work
    Milliseconds timeout;
    bool asynchronous;
    Collective collective;
    bool guessed = false; // as of communicator()
  };
  // The communicators of a pair of ranks, one for each direction, so that a send never
  // waits for a receive behind it. The first is from the lower rank.
  struct Pair {
    std::shared_ptr<Communicator> up, down;
  };
  // Drops the thread's coalesced group if the call throws: torch's coalescing manager does
  // not call endCoalescing() then.
  class CallScope {
   public:
    explicit CallScope(ProcessGroupOCCL* group) : group_(group) {}
    ~CallScope() {
      if (std::uncaught_exceptions() > before_ && group_->coalesces())
        group_->drop_group();
    }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

   private:
    ProcessGroupOCCL* group_;
    const int before_ = std::uncaught_exceptions();
  };
  // A send or receive of a coalesced group.
  struct Transfer {
    bool sends;
    int peer;
    at::Tensor tensor;
    c10::intrusive_ptr<CollectiveWork> work; // of a coalesced one
  };

  WorkPtr run(Call call);
  CollectiveWork::GroupName group_name() const {
    return {options_->group_name, pg_desc_};
  }
  std::shared_ptr<Communicator> connect(
      c10::DeviceIndex index,
      const std::string& name,
      const std::vector<int>& ranks,
      Milliseconds timeout);
  // Calls make() without the mutex, one thread at a time: abort() of another thread does
  // not wait for a rank that does not come.
  template <class F>
  auto without_mutex(std::unique_lock<std::mutex>& lock, F make) {
    connecting_ = true;
    lock.unlock();
    const auto end = [&] {
      lock.lock();
      connecting_ = false;
      connected_.notify_all();
    };
    try {
      auto made = make();
      end();
      return made;
    } catch (...) {
      end();
      throw;
    }
  }
  void check_device_locked(c10::DeviceIndex index) const;
  void check_open_locked() const;
  std::vector<int64_t> global_ranks(const std::vector<int>& ranks) const;
  // Those of a new group: the given ones, or a copy of this group's.
  c10::intrusive_ptr<OptionsOCCL> options_for(
      const c10::intrusive_ptr<Options>& given) const;
  std::optional<c10::DeviceIndex> barrier_device(const c10d::BarrierOptions& opts);
  Milliseconds timeout_of(Milliseconds given);
  CollectiveWork::Part transfer(const Transfer& transfer);
  void transfer_to_self();
  std::shared_ptr<Communicator> pair(c10::DeviceIndex index, int from, int to);
  WorkPtr transfer_or_collect(Transfer transfer);
  // Whether the calling thread is in a coalesced group.
  bool coalesces() const;
  void drop_group();
  WorkPtr finish(c10d::OpType type, std::vector<CollectiveWork::Part> parts, Tensors results);

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<OptionsOCCL> options_;
  std::mutex mutex_; // guards what follows
  bool connecting_ = false;
  std::condition_variable connected_; // connecting_ has become false
  std::map<c10::DeviceIndex, std::shared_ptr<Communicator>> communicators_;
  // For barriers that name no card. Some ranks may guess the card of their tensors, others
  // not: a guess must not take the place of a communicator that all ranks are going to make.
  std::shared_ptr<Communicator> guessed_;
  std::map<std::pair<int, int>, Pair> pairs_;
  std::vector<std::weak_ptr<Communicator>> windows_;
  std::map<int64_t, c10d::AbortHook> abort_hooks_;
  Milliseconds ephemeral_{0};
  std::optional<c10::DeviceIndex> used_; // the device of the latest collective
  std::string closed_; // why there are no new communicators
  uint64_t created_ = 0, created_windows_ = 0;
  std::atomic<uint64_t> sequence_{0};
  uint64_t splits_ = 0;
  std::atomic<bool> timing_{false};
  // The thread in a coalesced group, and what it has collected. Only this thread uses it.
  std::atomic<std::thread::id> coalescing_{};
  std::vector<CollectiveWork::Part> coalesced_;
  std::vector<Transfer> transfers_;
  Tensors coalesced_results_;
};

// Waits until the process's collectives, and its signals of symmetric memory, have completed:
// for at most that time for each communicator.
void drain_all(std::chrono::milliseconds timeout);

} // namespace openreg
#pragma GCC visibility pop
