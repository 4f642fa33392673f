// SPDX-License-Identifier: BSD-3-Clause
// Sends, receives, and coalesced calls.
//
// Each pair of ranks has two communicators, one for each direction. So neither collectives
// nor transfers to other ranks, or back, delay a transfer. A pair meets at its first
// transfer, and both ranks must come: a coalesced group connects its pairs in one order.
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <algorithm>

#include "distributed/arguments.h"
#include "distributed/launch_row.h"
#include "distributed/process_group.h"

namespace openreg {

using c10d::OpType;

std::shared_ptr<Communicator> ProcessGroupOCCL::pair(
    c10::DeviceIndex index,
    int from,
    int to) {
  check_fork();
  const int low = std::min(from, to), high = std::max(from, to);
  std::unique_lock<std::mutex> lock(mutex_);
  connected_.wait(lock, [this] { return !connecting_; });
  Pair& found = pairs_[{low, high}];
  if (!found.down) {
    check_open_locked();
    const std::string name = "pair." + std::to_string(low) + "." + std::to_string(high);
    const Milliseconds timeout = options_->timeout;
    Pair made = without_mutex(lock, [&] {
      if (low == high) {
        const auto own = connect(index, name, {low}, timeout);
        return Pair{own, own};
      }
      const auto up = connect(index, name + ".up", {low, high}, timeout);
      return Pair{up, connect(index, name + ".down", {low, high}, timeout)};
    });
    check_open_locked();
    found = std::move(made);
  }
  const auto& way = from < to ? found.up : found.down;
  TORCH_CHECK_VALUE(
      way->options().device == index,
      "the transfers between ranks ",
      low,
      " and ",
      high,
      " use openreg:",
      static_cast<int>(way->options().device),
      " in this rank, not openreg:",
      static_cast<int>(index));
  return way;
}

CollectiveWork::Part ProcessGroupOCCL::transfer(const Transfer& t) {
  const c10::DeviceIndex index = t.tensor.device().index();
  const int from = t.sends ? rank_ : t.peer;
  const int to = t.sends ? t.peer : rank_;
  const auto comm = pair(index, from, to);
  const uint32_t peer = t.peer > rank_ ? 1 : 0;
  const int64_t elements = t.tensor.numel();
  const LaunchRow row(t.sends ? "send" : "recv", {t.tensor});
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(
      std::make_tuple(static_cast<int64_t>(sequence_), true),
      group_name(),
      Tensors{t.tensor},
      Tensors{t.tensor},
      t.peer,
      t.sends ? "send" : "recv",
      elements,
      elements,
      t.tensor.scalar_type(),
      std::vector<int64_t>(),
      std::vector<int64_t>(),
      -1,
      -1,
      size_,
      true);
  Collective collective;
  collective.queue = [&](openreg_comm* c) {
    return t.sends
        ? openreg_comm_send(c, address(t.tensor), bytes(t.tensor), OPENREG_U8, peer)
        : openreg_comm_recv(c, address(t.tensor), bytes(t.tensor), OPENREG_U8, peer);
  };
  return {
      comm, comm->launch(collective, timeout_of(c10d::kUnsetTimeout), {t.tensor}, timing_)};
}

auto ProcessGroupOCCL::transfer_or_collect(Transfer t) -> WorkPtr {
  check_root(t.sends ? "send" : "recv", t.peer, size_);
  const bool collects = coalesces();
  TORCH_CHECK_VALUE(
      t.peer != rank_ || collects,
      t.sends ? "send" : "recv",
      ": rank ",
      rank_,
      " can only transfer to itself in a group, as of batch_isend_irecv(); or copy the "
      "tensor");
  const OpType type = t.sends ? OpType::SEND : OpType::RECV;
  std::vector<CollectiveWork::Part> parts;
  Tensors results{t.tensor};
  if (!collects)
    parts.push_back(transfer(t));
  auto work = c10::make_intrusive<CollectiveWork>(
      rank_,
      type,
      sequence_,
      group_name(),
      std::move(parts),
      std::move(results),
      !collects);
  if (collects) {
    t.work = work;
    transfers_.push_back(std::move(t));
  }
  return work;
}

auto ProcessGroupOCCL::send(Tensors& tensors, int to, int) -> WorkPtr {
  const CallScope scope(this);
  checked_single("send", tensors);
  return transfer_or_collect({true, to, checked_contiguous("send", tensors[0]), {}});
}

auto ProcessGroupOCCL::recv(Tensors& tensors, int from, int) -> WorkPtr {
  const CallScope scope(this);
  checked_single("recv", tensors);
  return transfer_or_collect({false, from, checked_contiguous("recv", tensors[0]), {}});
}

bool ProcessGroupOCCL::coalesces() const {
  return coalescing_ == std::this_thread::get_id();
}

void ProcessGroupOCCL::drop_group() {
  for (const Transfer& t : transfers_)
    t.work->lost("the group of this transfer has failed, so it has not begun");
  transfers_.clear();
  coalesced_.clear();
  coalesced_results_.clear();
  coalescing_ = std::thread::id();
}

void ProcessGroupOCCL::startCoalescing() {
  drop_group();
  coalescing_ = std::this_thread::get_id();
}

// The n-th send of the group to this rank gives its data to the n-th receive.
void ProcessGroupOCCL::transfer_to_self() {
  std::vector<const Transfer*> sends, receives;
  for (const Transfer& t : transfers_)
    if (t.peer == rank_)
      (t.sends ? sends : receives).push_back(&t);
  TORCH_CHECK_VALUE(
      sends.size() == receives.size(),
      "the group has ",
      sends.size(),
      " sends of rank ",
      rank_,
      " to itself, but ",
      receives.size(),
      " receives");
  for (size_t n = 0; n < sends.size(); n++)
    TORCH_CHECK_VALUE(
        bytes(sends[n]->tensor) == bytes(receives[n]->tensor),
        "rank ",
        rank_,
        " sends ",
        bytes(sends[n]->tensor),
        " bytes to itself, but receives ",
        bytes(receives[n]->tensor));
  for (size_t n = 0; n < sends.size(); n++) {
    const at::Tensor from = sends[n]->tensor.detach().view(-1).view(at::kByte);
    const at::Tensor to = receives[n]->tensor.detach().view(-1).view(at::kByte);
    const auto own = pair(from.device().index(), rank_, rank_);
    Collective copy;
    copy.before = [&] { to.copy_(from); };
    copy.queue = &openreg_comm_barrier; // nothing to wait for in a group of one rank
    const CollectiveWork::Part part{
        own, own->launch(copy, timeout_of(c10d::kUnsetTimeout), {from, to}, timing_)};
    coalesced_.push_back(part);
    coalesced_results_.push_back(receives[n]->tensor);
    sends[n]->work->queued(part);
    receives[n]->work->queued(part);
  }
}

// The order of the transfers between two ranks stays.
auto ProcessGroupOCCL::endCoalescing() -> WorkPtr {
  TORCH_CHECK(
      coalesces(),
      "this thread coalesces nothing: its group has failed, or another thread has begun one");
  const CallScope scope(this);
  std::stable_sort(
      transfers_.begin(), transfers_.end(), [this](const Transfer& a, const Transfer& b) {
        return std::minmax(a.peer, rank_) < std::minmax(b.peer, rank_);
      });
  transfer_to_self();
  for (const Transfer& t : transfers_) {
    if (t.peer == rank_)
      continue;
    coalesced_.push_back(transfer(t));
    coalesced_results_.push_back(t.tensor);
    t.work->queued(coalesced_.back());
  }
  transfers_.clear();
  coalescing_ = std::thread::id();
  return c10::make_intrusive<CollectiveWork>(
      rank_,
      OpType::COALESCED,
      sequence_,
      group_name(),
      std::exchange(coalesced_, {}),
      std::exchange(coalesced_results_, {}));
}

} // namespace openreg
