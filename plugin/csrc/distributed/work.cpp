// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/work.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <atomic>
#include <set>

#include "runtime/device_cache.h"
#include "runtime/format.h"
#include "runtime/interrupt.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

using c10::ivalue::Future;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::exception_ptr error_of(const CollectiveWork::Part& part) {
  std::lock_guard<std::mutex> lock(part.pending->mutex);
  return part.pending->error;
}

bool completed(const CollectiveWork::Part& part) {
  return part.communicator->side().done(part.pending->side_seq);
}

// Waits on the host. A collective that is late breaks its communicator.
void wait_part(const CollectiveWork::Part& part, milliseconds timeout) {
  StreamState& side = part.communicator->side();
  const auto begin = Clock::now();
  while (!query_seq(side, part.pending->side_seq)) {
    const auto waited =
        std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    if (timeout > kNoTimeout && waited >= timeout)
      part.communicator->give_up(waited);
    const int64_t left = timeout > kNoTimeout
        ? std::chrono::nanoseconds(timeout - waited).count()
        : kWaitSliceNs;
    openreg_queue_wait(side.queue, part.pending->side_seq, std::min(left, kWaitSliceNs));
    check_signals();
  }
}

// A block of another stream than the current one, which waits for the collective, also
// belongs to the side stream: no other stream gets it before the collective is done.
void keep_for(StreamState& side, const at::Tensor& tensor) {
  if (!tensor.has_storage())
    return;
  DeviceCache& cache = device_cache(side.device);
  const StreamState& now = current_stream_state(side.device);
  const auto at = reinterpret_cast<uint64_t>(real_address(tensor.storage().data()));
  if (cache.inspect(at, [&](const Block* b) { return b != nullptr && b->stream != &now; }))
    cache.record(at, &side);
}

std::vector<c10::Device> devices_of(const std::vector<CollectiveWork::Part>& parts) {
  std::set<c10::DeviceIndex> found;
  for (const auto& part : parts)
    found.insert(part.communicator->options().device);
  std::vector<c10::Device> devices;
  for (const c10::DeviceIndex index : found)
    devices.push_back(torch_device(index));
  return devices;
}

} // namespace

CollectiveWork::CollectiveWork(
    int rank,
    c10d::OpType type,
    uint64_t sequence,
    GroupName group,
    std::vector<Part> parts,
    Tensors results,
    bool is_queued)
    : Work(rank, type),
      sequence_(sequence),
      group_(std::move(group)),
      parts_(std::move(parts)),
      results_(std::move(results)),
      state_(is_queued ? State::QUEUED : State::COLLECTED) {
  if (is_queued)
    make_future();
}

void CollectiveWork::queued(Part part) {
  parts_.push_back(std::move(part));
  make_future();
  state_ = State::QUEUED;
}

void CollectiveWork::lost(const std::string& why) {
  if (state_ != State::COLLECTED)
    return;
  lost_ = std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, why));
  state_ = State::LOST;
}

void CollectiveWork::check_queued() const {
  if (state_ == State::LOST)
    std::rethrow_exception(lost_);
  TORCH_CHECK(
      state_ == State::QUEUED,
      "the group of this transfer has not ended, so it has not begun. Leave the coalescing "
      "manager before you wait for it. If an exception has left the manager, run a new "
      "group.");
}

// The future is complete at once: its events make a stream wait that uses the value. Events
// of futures are recorded on the current stream, and this must be the side stream.
void CollectiveWork::make_future() {
  future_ = c10::make_intrusive<Future>(
      c10::ListType::create(c10::TensorType::get()), devices_of(parts_));
  if (parts_.empty()) {
    future_->markCompleted(c10::IValue(results_));
    return;
  }
  const StreamScope scope(parts_.back().communicator->stream());
  for (size_t n = 0; n + 1 < parts_.size(); n++)
    parts_[n].pending->end.block(parts_.back().communicator->stream());
  future_->markCompleted(c10::IValue(results_));
}

bool CollectiveWork::isCompleted() {
  if (state_ != State::QUEUED)
    return state_ == State::LOST;
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return completed(part) || error_of(part);
  });
}

bool CollectiveWork::isSuccess() const {
  return state_ == State::QUEUED && !exception();
}

std::exception_ptr CollectiveWork::exception() const {
  if (state_ != State::QUEUED)
    return state_ == State::LOST ? lost_ : nullptr;
  for (const Part& part : parts_)
    if (const auto error = error_of(part))
      return error;
  return nullptr;
}

std::vector<at::Tensor> CollectiveWork::result() {
  return results_;
}

void CollectiveWork::synchronize() {
  check_queued();
  for (const Part& part : parts_) {
    if (const auto error = error_of(part))
      std::rethrow_exception(error);
    const auto device = torch_device(part.communicator->options().device);
    part.pending->end.block(current_stream(device.index()));
    // From here on the order of the stream protects the tensors.
    Tensors tensors;
    {
      std::lock_guard<std::mutex> lock(part.pending->mutex);
      tensors.swap(part.pending->tensors);
    }
    for (const at::Tensor& tensor : tensors)
      keep_for(part.communicator->side(), tensor);
  }
  // Core's register of works that a compiled graph may wait for.
  if (c10d::allow_inflight_collective_as_graph_input())
    c10d::unregister_work(
        c10::intrusive_ptr<CollectiveWork>::unsafe_reclaim_from_nonowning(this));
}

// Traces of torch's other backends have a record of each wait, too.
bool CollectiveWork::wait(milliseconds timeout) {
  if (C10_LIKELY(!at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)))
    return wait_unrecorded(timeout);
  RECORD_PARAM_COMMS(
      std::make_tuple(static_cast<int64_t>(sequence_), c10d::isP2POp(opType_)),
      group_,
      rank_,
      "wait",
      0,
      0,
      at::kByte,
      std::vector<int64_t>(),
      std::vector<int64_t>(),
      -1,
      -1,
      1);
  return wait_unrecorded(timeout);
}

bool CollectiveWork::wait_unrecorded(milliseconds timeout) {
  synchronize();
  if (timeout > kNoTimeout || opType_ == c10d::OpType::BARRIER)
    for (const Part& part : parts_) {
      wait_part(part, timeout);
      part.communicator->poll(); // compares what the ranks have called
      if (const auto error = error_of(part))
        std::rethrow_exception(error);
    }
  return true;
}

void CollectiveWork::blockCurrentStream() {
  synchronize();
}

void CollectiveWork::abort() {
  check_queued();
  for (const Part& part : parts_)
    part.communicator->abort("the program aborted a collective");
}

c10::intrusive_ptr<Future> CollectiveWork::getFuture() {
  check_queued();
  return future_;
}

// The watchdog completes it. Its value is a WorkResult.
c10::intrusive_ptr<Future> CollectiveWork::getFutureResult() {
  check_queued();
  struct State {
    explicit State(size_t n) : left(n) {}
    std::atomic<size_t> left;
    std::atomic<bool> failed{false};
  };
  auto future = c10::make_intrusive<Future>(c10::IntType::get());
  auto state = std::make_shared<State>(parts_.size());
  const auto complete = [future, state] {
    future->markCompleted(c10::IValue(static_cast<int64_t>(
        state->failed ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS)));
  };
  if (parts_.empty())
    complete();
  for (const Part& part : parts_) {
    const auto on_done = [state, complete](Pending& pending) {
      if (pending.error)
        state->failed = true;
      if (--state->left == 0)
        complete();
    };
    std::unique_lock<std::mutex> lock(part.pending->mutex);
    if (part.pending->done) {
      lock.unlock();
      on_done(*part.pending);
      continue;
    }
    part.pending->on_done = [earlier = std::move(part.pending->on_done),
                             on_done](Pending& pending) {
      if (earlier)
        earlier(pending);
      on_done(pending);
    };
  }
  return future;
}

float CollectiveWork::getDuration() const {
  check_queued();
  TORCH_CHECK(
      parts_.size() == 1 && parts_[0].pending->timed,
      "the collective has no duration: call enable_collectives_timing() of its process "
      "group first");
  const Pending& pending = *parts_[0].pending;
  pending.end.synchronize();
  return static_cast<float>(pending.begin.elapsedTime(pending.end));
}

uint64_t CollectiveWork::getSequencenumber() const {
  return sequence_;
}

milliseconds CollectiveWork::getTimeout() const {
  return state_ != State::QUEUED || parts_.empty() ? kNoTimeout : parts_[0].pending->timeout;
}

} // namespace openreg
