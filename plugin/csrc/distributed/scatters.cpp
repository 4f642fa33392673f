// SPDX-License-Identifier: BSD-3-Clause
// Collectives that give each rank a part.
#include <numeric>

#include "distributed/arguments.h"
#include "distributed/process_group.h"

namespace openreg {
namespace {

using c10d::OpType;

// A tensor for each rank, this rank's of the size of its output.
Tensors checked_parts(
    const char* name,
    const std::vector<Tensors>& lists,
    const at::Tensor& own,
    int rank,
    int size) {
  TORCH_CHECK_VALUE(
      lists.size() == 1 && lists[0].size() == static_cast<size_t>(size),
      name,
      ": the list must have a tensor for each of the ",
      size,
      " ranks");
  Tensors parts = checked_list(name, lists[0], own);
  TORCH_CHECK_VALUE(
      parts[rank].numel() == own.numel(),
      name,
      ": tensor ",
      rank,
      " of the list must have the size of this rank's output: ",
      own.numel(),
      " elements, not ",
      parts[rank].numel());
  return parts;
}

Counts counts_of(const Tensors& tensors) {
  Counts counts;
  for (const at::Tensor& tensor : tensors)
    counts.push_back(static_cast<uint64_t>(tensor.numel()));
  return counts;
}

// The bytes that each rank gets from, or gives to, the first dimension of a tensor.
Counts splits(
    const char* what,
    const at::Tensor& tensor,
    const std::vector<int64_t>& sizes,
    int size) {
  const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
  const uint64_t row = rows ? bytes(tensor) / static_cast<uint64_t>(rows) : 0;
  if (sizes.empty()) {
    TORCH_CHECK_VALUE(
        rows % size == 0,
        "all_to_all_single: dimension 0 of the ",
        what,
        " has ",
        rows,
        " rows, which ",
        size,
        " ranks cannot divide evenly; pass split sizes");
    return Counts(size, static_cast<uint64_t>(rows / size) * row);
  }
  TORCH_CHECK_VALUE(
      sizes.size() == static_cast<size_t>(size) &&
          std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == rows,
      "all_to_all_single: the split sizes of the ",
      what,
      " must be ",
      size,
      " numbers that sum up to ",
      rows);
  Counts counts;
  for (const int64_t n : sizes) {
    TORCH_CHECK_VALUE(n >= 0, "all_to_all_single: a split size is negative: ", n);
    counts.push_back(static_cast<uint64_t>(n) * row);
  }
  return counts;
}

} // namespace

auto ProcessGroupOCCL::scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ScatterOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  checked_single("scatter", outputs);
  const at::Tensor own = checked_contiguous("scatter", outputs[0]);
  check_root("scatter", opts.rootRank, size_);
  const bool is_root = opts.rootRank == rank_;
  TORCH_CHECK_VALUE(
      is_root || inputs.empty(), "scatter: only the source rank takes a list of inputs");
  const Tensors parts = is_root
      ? checked_parts("scatter", inputs, outputs[0], rank_, size_)
      : Tensors(size_, own);
  auto flat = std::make_shared<at::Tensor>();
  Collective collective;
  if (is_root)
    collective.before = [=] {
      *flat = flat_like(parts);
      copy_to_flat(*flat, parts);
    };
  collective.queue = [=, root = static_cast<uint32_t>(opts.rootRank)](openreg_comm* comm) {
    const Counts counts = counts_in_bytes(parts);
    const uint64_t from = flat->defined() ? address(*flat) : 0;
    return openreg_comm_scatter(
        comm, address(own), from, counts.data(), OPENREG_U8, root);
  };
  return run({
      .type = OpType::SCATTER,
      .name = "scatter",
      .inputs = is_root ? parts : Tensors{},
      .outputs = outputs,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = std::move(collective),
  });
}

auto ProcessGroupOCCL::reduce_scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ReduceScatterOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  checked_single("reduce_scatter", outputs);
  const at::Tensor own = checked_contiguous("reduce_scatter", outputs[0]);
  const Tensors parts =
      checked_parts("reduce_scatter", inputs, outputs[0], rank_, size_);
  const openreg_dtype dtype = dtype_of(own);
  const openreg_comm_op code = op_of(opts.reduceOp, outputs[0]);
  auto flat = std::make_shared<at::Tensor>();
  return run({
      .type = OpType::REDUCE_SCATTER,
      .name = "reduce_scatter",
      .inputs = parts,
      .outputs = outputs,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective =
          {.before =
               [=] {
                 *flat = flat_like(parts);
                 copy_to_flat(*flat, parts);
               },
           .queue = [=, op = opts.reduceOp](openreg_comm* comm) -> int64_t {
             const Counts counts = counts_of(parts);
             const int error = set_factor(comm, op);
             return error ? error
                          : openreg_comm_reduce_scatter(
                                comm,
                                address(own),
                                address(*flat),
                                counts.data(),
                                dtype,
                                code);
           }},
  });
}

auto ProcessGroupOCCL::reduce_scatter_single(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::ReduceScatterOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_single_coalesced(outputs, inputs, opts);
}

auto ProcessGroupOCCL::reduce_scatter_single_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::ReduceScatterOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  const char* name = "reduce_scatter_tensor";
  TORCH_CHECK_VALUE(
      !outputs.empty() && outputs.size() == inputs.size(),
      name,
      ": the lists must have equal lengths, not ",
      outputs.size(),
      " and ",
      inputs.size());
  Tensors parts, wholes;
  std::vector<openreg_comm_op> ops;
  for (size_t n = 0; n < outputs.size(); n++) {
    check_same(name, outputs[n], inputs[n]);
    TORCH_CHECK_VALUE(
        inputs[n].numel() == outputs[n].numel() * size_,
        name,
        ": the input must have ",
        size_,
        " times the elements of the output: ",
        outputs[n].numel() * size_,
        ", not ",
        inputs[n].numel());
    parts.push_back(checked_contiguous(name, outputs[n]));
    wholes.push_back(checked_contiguous(name, inputs[n]));
    ops.push_back(op_of(opts.reduceOp, outputs[n]));
    dtype_of(parts.back());
  }
  return run({
      .type = outputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE
                                  : OpType::REDUCE_SCATTER_TENSOR_COALESCED,
      .name = name,
      .inputs = wholes,
      .outputs = outputs,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [=, size = size_, op = opts.reduceOp](openreg_comm* comm) {
        const int64_t error = set_factor(comm, op);
        return error ? error : queue_each(parts.size(), [&](size_t n) {
          const Counts counts(size, static_cast<uint64_t>(parts[n].numel()));
          return openreg_comm_reduce_scatter(
              comm,
              address(parts[n]),
              address(wholes[n]),
              counts.data(),
              dtype_of(parts[n]),
              ops[n]);
        });
      }},
  });
}

auto ProcessGroupOCCL::all_to_all_single(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<int64_t>& output_sizes,
    std::vector<int64_t>& input_sizes,
    const c10d::AllToAllOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  const char* name = "all_to_all_single";
  check_same(name, output, input);
  const at::Tensor to = checked_contiguous(name, output);
  const at::Tensor from = checked_contiguous(name, input);
  const Counts receives = splits("output", output, output_sizes, size_);
  const Counts sends = splits("input", input, input_sizes, size_);
  return run({
      .type = OpType::ALLTOALL_BASE,
      .name = "all_to_all",
      .inputs = {from},
      .outputs = {output},
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective = {.queue = [=](openreg_comm* comm) {
        return openreg_comm_all_to_all(
            comm, address(to), address(from), receives.data(), sends.data(), OPENREG_U8);
      }},
  });
}

auto ProcessGroupOCCL::alltoall(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::AllToAllOptions& opts) -> WorkPtr {
  const CallScope scope(this);
  const char* name = "all_to_all";
  const auto size = static_cast<size_t>(size_);
  TORCH_CHECK_VALUE(
      outputs.size() == size && inputs.size() == size,
      name,
      ": each list must have a tensor for each of the ",
      size_,
      " ranks, not ",
      outputs.size(),
      " and ",
      inputs.size());
  const Tensors to = checked_list(name, outputs, inputs[0]);
  const Tensors from = checked_list(name, inputs, inputs[0]);
  auto sent = std::make_shared<at::Tensor>();
  auto received = std::make_shared<at::Tensor>();
  return run({
      .type = OpType::ALLTOALL,
      .name = name,
      .inputs = from,
      .outputs = outputs,
      .timeout = opts.timeout,
      .asynchronous = opts.asyncOp,
      .collective =
          {.before =
               [=] {
                 *sent = flat_like(from);
                 copy_to_flat(*sent, from);
                 *received = flat_like(to);
               },
           .queue =
               [=](openreg_comm* comm) {
                 const Counts receives = counts_in_bytes(to);
                 const Counts sends = counts_in_bytes(from);
                 return openreg_comm_all_to_all(
                     comm,
                     address(*received),
                     address(*sent),
                     receives.data(),
                     sends.data(),
                     OPENREG_U8);
               },
           .after = [=] { copy_from_flat(to, *received); }},
  });
}

} // namespace openreg
