// SPDX-License-Identifier: BSD-3-Clause
// Collectives that bring the tensors of all ranks together.
#include "distributed/arguments.h"
#include "distributed/process_group.h"

namespace openreg {
namespace {

using c10d::OpType;

// The output must have room for an equal part of each rank.
void check_whole(
    const char* name,
    const at::Tensor& whole,
    const at::Tensor& part,
    int size) {
  check_same(name, whole, part);
  TORCH_CHECK_VALUE(
      whole.numel() == part.numel() * size,
      name,
      ": the large tensor must have ",
      size,
      " times the elements of the small one: ",
      part.numel() * size,
      ", not ",
      whole.numel());
}

// A tensor for each rank, this rank's of the size of its own.
Tensors checked_parts(
    const char* name,
    const std::vector<Tensors>& lists,
    const at::Tensor& own,
    int rank,
    int size) {
  TORCH_CHECK_VALUE(lists.size() == 1, name, " takes one list of tensors");
  TORCH_CHECK_VALUE(
      lists[0].size() == static_cast<size_t>(size),
      name,
      ": the list must have a tensor for each of the ",
      size,
      " ranks, not ",
      lists[0].size());
  Tensors parts = checked_list(name, lists[0], own);
  TORCH_CHECK_VALUE(
      parts[rank].numel() == own.numel(),
      name,
      ": tensor ",
      rank,
      " of the list must have the size of this rank's tensor: ",
      own.numel(),
      " elements, not ",
      parts[rank].numel());
  return parts;
}

} // namespace

auto ProcessGroupOCCL::allgather(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  checked_single("all_gather", inputs);
  const at::Tensor own = checked_contiguous("all_gather", inputs[0]);
  const Tensors parts = checked_parts("all_gather", outputs, inputs[0], rank_, size_);
  auto flat = std::make_shared<at::Tensor>();
  return run({
      .type = OpType::ALLGATHER,
      .name = "all_gather",
      .inputs = {own},
      .outputs = outputs[0],
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective =
          {.before = [=] { *flat = flat_like(parts); },
           .queue =
               [=](openreg_comm* comm) {
                 const Counts counts = counts_in_bytes(parts);
                 return openreg_comm_all_gather(
                     comm, address(*flat), address(own), counts.data(), OPENREG_U8);
               },
           .after = [=] { copy_from_flat(parts, *flat); }},
  });
}

auto ProcessGroupOCCL::all_gather_single(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::AllgatherOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  Tensors outputs{output}, inputs{input};
  return all_gather_single_coalesced(outputs, inputs, opts);
}

auto ProcessGroupOCCL::all_gather_single_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  const char* name = "all_gather_into_tensor";
  TORCH_CHECK_VALUE(
      !outputs.empty() && outputs.size() == inputs.size(),
      name,
      ": the lists must have equal lengths, not ",
      outputs.size(),
      " and ",
      inputs.size());
  Tensors parts, wholes;
  for (size_t n = 0; n < inputs.size(); n++) {
    parts.push_back(checked_contiguous(name, inputs[n]));
    wholes.push_back(checked_contiguous(name, outputs[n]));
    check_whole(name, outputs[n], inputs[n], size_);
  }
  return run({
      .type = inputs.size() == 1 ? OpType::_ALLGATHER_BASE
                                 : OpType::ALLGATHER_INTO_TENSOR_COALESCED,
      .name = name,
      .inputs = parts,
      .outputs = wholes,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [=, size = size_](openreg_comm* comm) {
        return queue_each(parts.size(), [&](size_t n) {
          const Counts counts(size, bytes(parts[n]));
          return openreg_comm_all_gather(
              comm, address(wholes[n]), address(parts[n]), counts.data(), OPENREG_U8);
        });
      }},
  });
}

auto ProcessGroupOCCL::allgather_coalesced(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  TORCH_CHECK_VALUE(
      outputs.size() == static_cast<size_t>(size_),
      "all_gather_coalesced: there must be a list for each of the ",
      size_,
      " ranks, not ",
      outputs.size());
  std::vector<CollectiveWork::Part> parts;
  Tensors results;
  for (size_t n = 0; n < inputs.size(); n++) {
    TensorLists one(1);
    for (const Tensors& of_rank : outputs)
      one[0].push_back(of_rank.at(n));
    Tensors input{inputs[n]};
    const WorkPtr work = allgather(one, input, opts);
    const auto& more = static_cast<CollectiveWork&>(*work).parts();
    parts.insert(parts.end(), more.begin(), more.end());
    results.insert(results.end(), one[0].begin(), one[0].end());
  }
  return finish(OpType::ALLGATHER_COALESCED, std::move(parts), std::move(results));
}

auto ProcessGroupOCCL::gather(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::GatherOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  checked_single("gather", inputs);
  const at::Tensor own = checked_contiguous("gather", inputs[0]);
  check_root("gather", opts.rootRank, size_);
  const bool is_root = opts.rootRank == rank_;
  TORCH_CHECK_VALUE(
      is_root || outputs.empty(), "gather: only the destination rank takes a list of outputs");
  const Tensors parts = is_root
      ? checked_parts("gather", outputs, inputs[0], rank_, size_)
      : Tensors(size_, own);
  auto flat = std::make_shared<at::Tensor>();
  Collective collective;
  if (is_root) {
    collective.before = [=] { *flat = flat_like(parts); };
    collective.after = [=] { copy_from_flat(parts, *flat); };
  }
  collective.queue = [=, root = static_cast<uint32_t>(opts.rootRank)](openreg_comm* comm) {
    const Counts counts = counts_in_bytes(parts);
    const uint64_t to = flat->defined() ? address(*flat) : 0;
    return openreg_comm_gather(comm, to, address(own), counts.data(), OPENREG_U8, root);
  };
  return run({
      .type = OpType::GATHER,
      .name = "gather",
      .inputs = {own},
      .outputs = is_root ? outputs[0] : Tensors{},
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = std::move(collective),
  });
}

auto ProcessGroupOCCL::gather_single(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::GatherOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  const char* name = "gather_into_tensor";
  const at::Tensor own = checked_contiguous(name, input);
  check_root(name, opts.rootRank, size_);
  const bool is_root = opts.rootRank == rank_;
  at::Tensor whole;
  if (is_root) {
    whole = checked_contiguous(name, output);
    check_whole(name, output, input, size_);
  }
  return run({
      .type = OpType::GATHER,
      .name = name,
      .inputs = {own},
      .outputs = is_root ? Tensors{output} : Tensors{},
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [=, size = size_,
                               root = static_cast<uint32_t>(opts.rootRank)](
                                  openreg_comm* comm) {
        const Counts counts(size, bytes(own));
        const uint64_t to = whole.defined() ? address(whole) : 0;
        return openreg_comm_gather(
            comm, to, address(own), counts.data(), OPENREG_U8, root);
      }},
  });
}

} // namespace openreg
