// SPDX-License-Identifier: BSD-3-Clause
// Collectives in which all ranks have tensors of one size.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "distributed/arguments.h"
#include "distributed/process_group.h"

namespace openreg {

using c10d::OpType;

auto ProcessGroupOCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts)
    -> WorkPtr {
  const CallScope scope(this);
  const at::Tensor t = checked_single("broadcast", tensors);
  const auto root = static_cast<uint32_t>(opts.rootRank + opts.rootTensor);
  check_root("broadcast", root, size_);
  return run({
      .type = OpType::BROADCAST,
      .name = "broadcast",
      .inputs = {t},
      .outputs = tensors,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [=](openreg_comm* comm) {
        return openreg_comm_broadcast(comm, address(t), bytes(t), OPENREG_U8, root);
      }},
  });
}

auto ProcessGroupOCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts)
    -> WorkPtr {
  const CallScope scope(this);
  TORCH_CHECK_VALUE(tensors.size() == 1, "all_reduce takes one tensor, not ", tensors.size());
  c10d::AllreduceCoalescedOptions same;
  static_cast<c10d::AllreduceOptions&>(same) = opts;
  return allreduce_coalesced(tensors, same);
}

auto ProcessGroupOCCL::allreduce_coalesced(
    Tensors& tensors,
    const c10d::AllreduceCoalescedOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  TORCH_CHECK_VALUE(!tensors.empty(), "all_reduce: the list of tensors is empty");
  Tensors real;
  std::vector<openreg_comm_op> ops;
  for (const at::Tensor& tensor : tensors) {
    real.push_back(checked("all_reduce", tensor));
    dtype_of(real.back());
    ops.push_back(op_of(opts.reduceOp, tensor));
  }
  return run({
      .type = tensors.size() == 1 ? OpType::ALLREDUCE : OpType::ALLREDUCE_COALESCED,
      .name = "all_reduce",
      .inputs = real,
      .outputs = tensors,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [real, ops, op = opts.reduceOp](openreg_comm* comm) {
        const int64_t error = set_factor(comm, op);
        return error ? error : queue_each(real.size(), [&](size_t n) {
          return openreg_comm_all_reduce(
              comm,
              address(real[n]),
              address(real[n]),
              static_cast<uint64_t>(real[n].numel()),
              dtype_of(real[n]),
              ops[n]);
        });
      }},
  });
}

auto ProcessGroupOCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts)
    -> WorkPtr {
  const CallScope scope(this);
  const at::Tensor t = checked_single("reduce", tensors);
  const auto root = static_cast<uint32_t>(opts.rootRank + opts.rootTensor);
  check_root("reduce", root, size_);
  const openreg_dtype dtype = dtype_of(t);
  const openreg_comm_op code = op_of(opts.reduceOp, tensors[0]);
  return run({
      .type = OpType::REDUCE,
      .name = "reduce",
      .inputs = {t},
      .outputs = tensors,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [=, op = opts.reduceOp](openreg_comm* comm) {
        const int64_t error = set_factor(comm, op);
        return error ? error
                     : openreg_comm_reduce(
                           comm,
                           address(t),
                           address(t),
                           static_cast<uint64_t>(t.numel()),
                           dtype,
                           code,
                           root);
      }},
  });
}

// The device of the barrier: that of the call or of the group, or the one in use.
std::optional<c10::DeviceIndex> ProcessGroupOCCL::barrier_device(
    const c10d::BarrierOptions& opts) {
  if (!opts.device_ids.empty())
    return static_cast<c10::DeviceIndex>(opts.device_ids[0]);
  if (opts.device && opts.device->type() == kDeviceType && opts.device->has_index())
    return opts.device->index();
  if (bound_device_id_)
    return bound_device_id_->index();
  std::lock_guard<std::mutex> lock(mutex_);
  return used_;
}

auto ProcessGroupOCCL::barrier(const c10d::BarrierOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  const std::optional<c10::DeviceIndex> named = barrier_device(opts);
  c10::DeviceIndex index = named.value_or(current_device());
  if (!named) { // the program may have changed its current card since the first guess
    std::lock_guard<std::mutex> lock(mutex_);
    if (guessed_)
      index = guessed_->options().device;
  }
  check_index(index);
  const at::Tensor where =
      at::empty({0}, at::TensorOptions().device(torch_device(index)).dtype(at::kByte));
  return run({
      .type = OpType::BARRIER,
      .name = "barrier",
      .inputs = {where},
      .outputs = {},
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = &openreg_comm_barrier},
      .guessed = !named,
  });
}

} // namespace openreg
