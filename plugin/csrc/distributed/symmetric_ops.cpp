// SPDX-License-Identifier: BSD-3-Clause
// The operators symm_mem:: on symmetric tensors. VECTOR packets read the memory of the other
// cards, COPY packets write it. All ranks sum in the order of the ranks, so that all get the
// same bits; sums of halves are computed in 32 bits and rounded once.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

#include "aten/program.h"
#include "runtime/interrupt.h"
#include "runtime/launch.h"
#include "runtime/peer_memory.h"
#include "runtime/strided_copy.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

using at::Tensor;
using c10d::symmetric_memory::SymmetricMemory;
using Memory = c10::intrusive_ptr<SymmetricMemory>;

constexpr int kMaxRanks = OPENREG_OPERANDS_MAX - 1;
constexpr size_t kLine = 64; // each operand of another card takes whole lines

// A tensor of all ranks: its handle, and where the tensor begins in the memory of each.
struct Operand {
  Memory memory;
  std::vector<uint64_t> at;
  c10::ScalarType type;
  int64_t esize;
  c10::DeviceIndex device;

  int rank() const {
    return memory->get_rank();
  }
  int size() const {
    return memory->get_world_size();
  }
};

// Throws unless the ranks can sum the tensor.
Operand operand_of(const char* name, const Tensor& tensor, const std::string& group) {
  TORCH_CHECK_VALUE(tensor.is_contiguous(), name, ": the tensor must be contiguous");
  TORCH_CHECK_VALUE(
      card_dtype(tensor.scalar_type()) && tensor.scalar_type() != at::kBool,
      name,
      ": openreg cannot sum tensors of the type ",
      tensor.scalar_type());
  Operand o{
      c10d::symmetric_memory::rendezvous(tensor, group),
      {},
      tensor.scalar_type(),
      static_cast<int64_t>(tensor.element_size()),
      static_cast<c10::DeviceIndex>(tensor.get_device())};
  TORCH_CHECK_VALUE(
      o.memory,
      name,
      ": the tensor is not in symmetric memory. Allocate it by "
      "torch.distributed._symmetric_memory.empty()");
  TORCH_CHECK_VALUE(o.size() <= kMaxRanks, name, ": at most ", kMaxRanks, " ranks");
  const auto buffers = o.memory->get_buffer_ptrs();
  const uint64_t offset = reinterpret_cast<uint64_t>(tensor.const_data_ptr()) -
      reinterpret_cast<uint64_t>(buffers[o.rank()]);
  TORCH_CHECK_VALUE(
      offset <= o.memory->get_buffer_size() &&
          tensor.nbytes() <= o.memory->get_buffer_size() - offset,
      name,
      ": the tensor is larger than its symmetric memory");
  for (void* buffer : buffers)
    o.at.push_back(reinterpret_cast<uint64_t>(buffer) + offset);
  return o;
}

void check_sum(const char* name, const std::string& reduce_op) {
  TORCH_CHECK_VALUE(
      reduce_op == "sum",
      name,
      " only sums, as in core's backends, but the reduction is ",
      reduce_op,
      ". Use torch.distributed.all_reduce()");
}

// get_buffer() of this rank gives the same memory another storage.
bool overlaps(const Tensor& out, const Tensor& input) {
  const auto begin = reinterpret_cast<uint64_t>(input.storage().data());
  const auto at = reinterpret_cast<uint64_t>(out.const_data_ptr());
  return at < begin + input.storage().nbytes() && begin < at + out.nbytes();
}

void check_output(const char* name, const Tensor& out, const Tensor& like, int64_t numel) {
  TORCH_CHECK_VALUE(
      !overlaps(out, like) &&
          !in_peer_memory(reinterpret_cast<uint64_t>(out.const_data_ptr())),
      name,
      ": the output must be a tensor of its own, on this card");
  TORCH_CHECK_VALUE(
      out.device() == like.device() && out.scalar_type() == like.scalar_type() &&
          out.is_contiguous() && out.numel() == numel,
      name,
      ": the output must be a contiguous tensor of ",
      numel,
      " elements, with the type and the device of the input");
}

// to = the sum of rows x columns elements of all ranks, from the same byte on. The rows of
// the input are stride elements apart.
void sum_once(
    const Operand& o,
    uint64_t to,
    uint64_t from,
    std::array<int64_t, 2> space,
    int64_t stride,
    int64_t to_stride,
    OpId op) {
  Program program(vector_type(o.type));
  Value sum = program.load(1, program.type());
  for (int r = 1; r < o.size(); r++)
    sum = sum + program.load(static_cast<uint8_t>(1 + r), program.type());
  program.store(0, sum);
  const uint8_t dtype = card_dtype(o.type);
  const std::array to_strides{to_stride, int64_t{1}}, strides{stride, int64_t{1}};
  Packet packet(OPENREG_OP_VECTOR, op);
  packet.space(space);
  packet.operand(reinterpret_cast<void*>(to), dtype, to_strides.data());
  for (const uint64_t at : o.at)
    packet.operand(reinterpret_cast<void*>(at + from), dtype, strides.data());
  program.put(packet);
  launch(packet, o.device, Part::FURTHER);
}

// The same for any size: a packet reads only so many bytes of other cards.
void sum_ranks(
    const Operand& o,
    uint64_t to,
    uint64_t from,
    std::array<int64_t, 2> space,
    int64_t stride,
    OpId op) {
  const auto [rows, columns] = space;
  const auto most = static_cast<int64_t>(
      (OPENREG_PEER_BYTES_MAX / o.size() - kLine) / kLine * kLine / o.esize);
  const int64_t to_stride = columns;
  const int64_t wide = std::min(columns, most);
  const int64_t high = wide < columns ? 1 : (most - columns) / std::max<int64_t>(stride, 1) + 1;
  for (int64_t row = 0; row < rows; row += high)
    for (int64_t column = 0; column < columns; column += wide)
      sum_once(
          o,
          to + (row * to_stride + column) * o.esize,
          from + (row * stride + column) * o.esize,
          {std::min(high, rows - row), std::min(wide, columns - column)},
          stride,
          to_stride,
          op);
}

void copy(const Operand& o, uint64_t to, uint64_t from, uint64_t bytes) {
  StreamState& stream = current_stream_state(o.device);
  restartable([&] {
    std::lock_guard<std::mutex> lock(stream.mutex);
    submit_copy_locked(stream, bytes_shape(CopyWay::ON_CARD, to, from, bytes));
  });
}

Tensor one_shot_all_reduce_out(
    const Tensor& input,
    std::string reduce_op,
    std::string group,
    Tensor out) {
  static const OpId op = op_id("symm_mem::one_shot_all_reduce");
  constexpr const char* name = "one_shot_all_reduce";
  check_sum(name, reduce_op);
  const Operand o = operand_of(name, input, group);
  check_output(name, out, input, input.numel());
  o.memory->barrier(0, 0);
  if (input.numel())
    sum_ranks(
        o, reinterpret_cast<uint64_t>(out.mutable_data_ptr()), 0, {1, input.numel()}, 0, op);
  o.memory->barrier(0, 0); // the others have read this rank's tensor
  return out;
}

Tensor one_shot_all_reduce(const Tensor& input, std::string reduce_op, std::string group) {
  return one_shot_all_reduce_out(input, reduce_op, group, at::empty_like(input));
}

Tensor one_shot_all_reduce_copy_out(
    const Tensor& symm_buffer,
    const Tensor& local_input,
    std::string reduce_op,
    std::string group,
    Tensor out) {
  TORCH_CHECK_VALUE(
      symm_buffer.is_contiguous() && symm_buffer.numel() >= local_input.numel() &&
          symm_buffer.scalar_type() == local_input.scalar_type(),
      "one_shot_all_reduce_copy: the buffer must be contiguous, of the input's type, and at "
      "least as large");
  const Tensor part =
      symm_buffer.view(-1).narrow(0, 0, local_input.numel()).view(local_input.sizes());
  part.copy_(local_input);
  return one_shot_all_reduce_out(part, reduce_op, group, std::move(out));
}

Tensor one_shot_all_reduce_copy(
    const Tensor& symm_buffer,
    const Tensor& local_input,
    std::string reduce_op,
    std::string group) {
  return one_shot_all_reduce_copy_out(
      symm_buffer, local_input, reduce_op, group, at::empty_like(local_input));
}

// Each rank sums its shard and writes it to all others. Only this rank uses that part of any
// rank's tensor in between.
Tensor two_shot_all_reduce_(Tensor input, std::string reduce_op, std::string group) {
  static const OpId op = op_id("symm_mem::two_shot_all_reduce_");
  constexpr const char* name = "two_shot_all_reduce_";
  check_sum(name, reduce_op);
  const Operand o = operand_of(name, input, group);
  const int64_t shard = (input.numel() + o.size() - 1) / o.size();
  const int64_t first = std::min(shard * o.rank(), input.numel());
  const int64_t n = std::min(shard, input.numel() - first);
  const uint64_t from = first * o.esize, own = o.at[o.rank()] + from;
  o.memory->barrier(0, 0);
  if (n > 0)
    sum_ranks(o, own, from, {1, n}, 0, op);
  for (int r = 0; r < o.size() && n > 0; r++)
    if (r != o.rank())
      copy(o, o.at[r] + from, own, n * o.esize);
  o.memory->barrier(0, 0);
  return input;
}

Tensor two_shot_all_reduce_out(
    Tensor input,
    std::string reduce_op,
    std::string group,
    Tensor output) {
  check_output("two_shot_all_reduce_out", output, input, input.numel());
  output.view(-1).copy_(two_shot_all_reduce_(input, reduce_op, group).view(-1));
  return output;
}

Tensor reduce_scatter_out(
    Tensor input,
    std::string group,
    bool split_last_dim,
    Tensor output) {
  static const OpId op = op_id("symm_mem::reduce_scatter_out");
  constexpr const char* name = "reduce_scatter_out";
  TORCH_CHECK_VALUE(input.dim() > 0, name, ": the input has no dimension to scatter");
  const Operand o = operand_of(name, input, group);
  const int64_t split = input.size(split_last_dim ? -1 : 0);
  TORCH_CHECK_VALUE(
      split % o.size() == 0, name, ": size ", split, " cannot be divided among ", o.size(), " ranks");
  check_output(name, output, input, input.numel() / o.size());
  const auto to = reinterpret_cast<uint64_t>(output.mutable_data_ptr());
  o.memory->barrier(0, 0);
  if (input.numel() && split_last_dim) {
    const int64_t columns = split / o.size();
    sum_ranks(
        o, to, o.rank() * columns * o.esize, {input.numel() / split, columns}, split, op);
  } else if (input.numel()) {
    const int64_t n = input.numel() / o.size();
    sum_ranks(o, to, o.rank() * n * o.esize, {1, n}, 0, op);
  }
  o.memory->barrier(0, 0);
  return output;
}

// Stores a 32-bit value in count elements from the offset on.
Tensor fill32(
    const char* name,
    const Tensor& input,
    int64_t offset,
    int64_t value,
    int64_t count) {
  static const OpId op = op_id("symm_mem::memset32_");
  TORCH_CHECK(
      input.dim() == 1 && input.is_contiguous() && input.scalar_type() == at::kUInt32,
      name,
      ": input must be a flat, contiguous uint32 tensor.");
  TORCH_CHECK(offset >= 0, name, ": offset must be greater than or equal to 0 (got ", offset, ")");
  TORCH_CHECK(count > 0, name, ": count must be a positive integer (got ", count, ")");
  TORCH_CHECK(
      value >= 0 && value <= std::numeric_limits<uint32_t>::max(),
      name,
      ": val must be in the range of uint32_t (got ",
      value,
      ")");
  TORCH_CHECK(
      offset < input.numel() && count <= input.numel() - offset,
      name,
      ": offset + count (",
      offset,
      " + ",
      count,
      ") exceeded the numel of the input (",
      input.numel(),
      ")");
  Packet packet(OPENREG_OP_FILL, op);
  packet.space(count);
  const int64_t stride = 1;
  packet.operand(static_cast<uint32_t*>(input.mutable_data_ptr()) + offset, OPENREG_I32, &stride);
  packet.imm(value);
  launch(packet, static_cast<c10::DeviceIndex>(input.get_device()));
  return input;
}

Tensor memset32_(Tensor& input, int64_t offset, int64_t value, int64_t count) {
  return fill32("memset32_", input, offset, value, count);
}

Tensor stream_write_value32_(Tensor& input, int64_t offset, int64_t value) {
  return fill32("stream_write_value32_", input, offset, value, 1);
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  const std::string& name = op.operator_name().name;
  const bool multicast = name.find("multi") != std::string::npos;
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      name,
      multicast
          ? " needs multicast, which openreg does not have. Use one_shot_all_reduce, "
            "two_shot_all_reduce_ or torch.distributed.all_gather_single()"
          : " is not implemented for openreg. Use the collectives of torch.distributed, or "
            "get_buffer(), put_signal() and wait_signal() of the handle");
}

TORCH_LIBRARY_IMPL(symm_mem, PrivateUse1, m) {
  m.impl("one_shot_all_reduce", &one_shot_all_reduce);
  m.impl("one_shot_all_reduce_out", &one_shot_all_reduce_out);
  m.impl("one_shot_all_reduce_copy", &one_shot_all_reduce_copy);
  m.impl("one_shot_all_reduce_copy_out", &one_shot_all_reduce_copy_out);
  m.impl("two_shot_all_reduce_", &two_shot_all_reduce_);
  m.impl("two_shot_all_reduce_out", &two_shot_all_reduce_out);
  m.impl("reduce_scatter_out", &reduce_scatter_out);
  m.impl("memset32_", &memset32_);
  m.impl("stream_write_value32_", &stream_write_value32_);
  for (const char* name :
       {"multimem_all_reduce_",
        "multimem_one_shot_all_reduce",
        "multimem_one_shot_all_reduce_out",
        "multimem_one_shot_reduce_out",
        "multimem_all_gather_out",
        "memcpy_to_multicast_",
        "_low_contention_all_gather_ce_multicast",
        "_low_contention_all_gather_ce_multicast_out",
        "all_to_all_vdev",
        "all_to_all_vdev_2d",
        "all_to_all_vdev_2d_offset",
        "tile_reduce",
        "multi_root_tile_reduce",
        "_async_input_mm",
        "nvshmem_put",
        "nvshmem_get",
        "nvshmem_get_out",
        "nvshmem_broadcast",
        "nvshmem_all_to_all",
        "nvshmem_put_with_signal",
        "nvshmem_wait_for_signal",
        "nccl_put",
        "nccl_get",
        "nccl_get_out",
        "nccl_put_signal",
        "nccl_put_with_signal",
        "nccl_wait_for_signal",
        "nccl_all_to_all_nd",
        "nccl_reduce_scatter_offset"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

} // namespace
} // namespace openreg
