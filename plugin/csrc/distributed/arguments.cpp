// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/arguments.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include <cerrno>
#include <cmath>

#include "runtime/launch.h"
#include "runtime/peer_memory.h"

namespace openreg {

at::Tensor checked(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), name, ": a tensor is missing");
  TORCH_CHECK_VALUE(
      tensor.device().type() == kDeviceType,
      name,
      ": the backend occl works on tensors of openreg, not of ",
      tensor.device(),
      ". init_process_group('cpu:gloo,openreg:occl') has a backend for both");
  TORCH_CHECK_VALUE(
      tensor.layout() == c10::kStrided,
      name,
      ": sparse tensors cannot be used; use to_dense()");
  TORCH_CHECK_VALUE(
      !in_peer_memory(reinterpret_cast<uint64_t>(tensor.const_data_ptr())),
      name,
      ": a collective cannot use the memory of another card; use a clone() of the tensor");
  TORCH_CHECK_VALUE(
      tensor.is_non_overlapping_and_dense(),
      name,
      ": the tensor of sizes ",
      tensor.sizes(),
      " and strides ",
      tensor.strides(),
      " is not dense; use a contiguous() copy");
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

at::Tensor checked_single(const char* name, const Tensors& tensors) {
  TORCH_CHECK_VALUE(
      tensors.size() == 1, name, " takes one tensor, not ", tensors.size());
  return checked(name, tensors[0]);
}

at::Tensor checked_contiguous(const char* name, const at::Tensor& tensor) {
  const at::Tensor real = checked(name, tensor);
  TORCH_CHECK_VALUE(
      tensor.is_contiguous(),
      name,
      ": the tensor of strides ",
      tensor.strides(),
      " is not contiguous; use contiguous()");
  return real;
}

void check_same(const char* name, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_VALUE(
      a.scalar_type() == b.scalar_type() && a.device() == b.device(),
      name,
      ": the tensors are ",
      a.scalar_type(),
      " on ",
      a.device(),
      " and ",
      b.scalar_type(),
      " on ",
      b.device(),
      "; all must have one dtype and one device");
}

void check_one_device(const char* name, const Tensors& tensors, const at::Tensor& like) {
  for (const at::Tensor& tensor : tensors)
    TORCH_CHECK_VALUE(
        tensor.device() == like.device(),
        name,
        ": the tensors are on ",
        like.device(),
        " and ",
        tensor.device(),
        "; all must be on one device");
}

Tensors checked_list(const char* name, const Tensors& tensors, const at::Tensor& like) {
  Tensors found;
  for (const at::Tensor& tensor : tensors) {
    found.push_back(checked_contiguous(name, tensor));
    check_same(name, tensor, like);
  }
  return found;
}

void check_root(const char* name, int64_t root, int size) {
  TORCH_CHECK_VALUE(
      root >= 0 && root < size,
      name,
      ": there is no rank ",
      root,
      " in a group of ",
      size);
}

uint64_t address(const at::Tensor& tensor) {
  return reinterpret_cast<uint64_t>(tensor.const_data_ptr());
}

uint64_t bytes(const at::Tensor& tensor) {
  return tensor.nbytes();
}

Counts counts_in_bytes(const Tensors& tensors) {
  Counts counts;
  for (const at::Tensor& tensor : tensors)
    counts.push_back(bytes(tensor));
  return counts;
}

openreg_dtype dtype_of(const at::Tensor& tensor) {
  const uint8_t dtype = card_dtype(tensor.scalar_type());
  TORCH_CHECK_VALUE(
      dtype,
      "the card cannot reduce ",
      tensor.scalar_type(),
      "; convert the tensor to another dtype");
  return static_cast<openreg_dtype>(dtype);
}

namespace {

double factor_of(const c10d::ReduceOp& op) {
  const auto* given =
      dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(given, "PREMUL_SUM needs a factor: use _make_nccl_premul_sum()");
  return given->tensor_factor.defined() ? given->tensor_factor.item<double>()
                                        : given->double_factor;
}

} // namespace

openreg_comm_op op_of(const c10d::ReduceOp& op, const at::Tensor& original) {
  using Op = c10d::ReduceOp;
  TORCH_CHECK_VALUE(
      !original.is_complex() || c10d::isComplexViewAsRealAllowed(op),
      "complex numbers can be summed and averaged, but have no order and no bits");
  // A bool is true or false: the sum is "any", the product is "all".
  const bool logical = original.scalar_type() == at::kBool;
  const bool integer = !original.is_floating_point() && !original.is_complex();
  TORCH_CHECK_VALUE(
      integer || (op.op_ != Op::BAND && op.op_ != Op::BOR && op.op_ != Op::BXOR),
      original.scalar_type(),
      " has no AND, OR or XOR: use integers or bool");
  switch (op.op_) {
    case Op::SUM:
      return logical ? OPENREG_COMM_MAX : OPENREG_COMM_SUM;
    case Op::AVG:
      TORCH_CHECK_VALUE(!logical, "a bool tensor has no average; convert it");
      return OPENREG_COMM_AVG;
    case Op::PRODUCT:
      return logical ? OPENREG_COMM_MIN : OPENREG_COMM_PROD;
    case Op::MIN:
      return OPENREG_COMM_MIN;
    case Op::MAX:
      return OPENREG_COMM_MAX;
    case Op::BAND:
      return OPENREG_COMM_AND;
    case Op::BOR:
      return OPENREG_COMM_OR;
    case Op::BXOR:
      return OPENREG_COMM_XOR;
    case Op::PREMUL_SUM:
      TORCH_CHECK_VALUE(!logical, "a bool tensor has no PREMUL_SUM; convert it");
      TORCH_CHECK_VALUE(
          !integer || factor_of(op) == std::trunc(factor_of(op)),
          "the factor ",
          factor_of(op),
          " of PREMUL_SUM is no integer, but ",
          original.scalar_type(),
          " is");
      return OPENREG_COMM_PREMUL_SUM;
    default:
      C10_THROW_ERROR(
          ValueError, c10::str("there is no reduction ", static_cast<int>(op.op_)));
  }
}

int set_factor(openreg_comm* comm, const c10d::ReduceOp& op) {
  return op.op_ == c10d::ReduceOp::PREMUL_SUM ? openreg_comm_set_factor(comm, factor_of(op))
                                              : 0;
}

int64_t queue_each(size_t n, const std::function<int64_t(size_t)>& queue) {
  int64_t seq = 0;
  for (size_t i = 0; i < n && seq >= 0; i++) {
    seq = queue(i);
    if (seq == -EINVAL && i > 0)
      return -EIO;
  }
  return seq;
}

at::Tensor flat_like(const Tensors& tensors) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors)
    total += tensor.numel();
  return at::empty({total}, tensors.at(0).options());
}

void copy_to_flat(const at::Tensor& flat, const Tensors& tensors) {
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    begin += tensor.numel();
  }
}

void copy_from_flat(const Tensors& tensors, const at::Tensor& flat) {
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

} // namespace openreg
