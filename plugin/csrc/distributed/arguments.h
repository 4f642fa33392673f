// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tensors of a collective, and their addresses and counts for openreg-comm.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#include "distributed/communicator.h"

namespace openreg {

using Counts = std::vector<uint64_t>;

// Throws unless the tensor is on the card and dense. Returns it with real numbers.
at::Tensor checked(const char* name, const at::Tensor& tensor);
// The same for the only tensor of a list.
at::Tensor checked_single(const char* name, const Tensors& tensors);
// The same for contiguous tensors of one dtype and one card.
Tensors checked_list(const char* name, const Tensors& tensors, const at::Tensor& like);
at::Tensor checked_contiguous(const char* name, const at::Tensor& tensor);
void check_same(const char* name, const at::Tensor& a, const at::Tensor& b);
void check_one_device(const char* name, const Tensors& tensors, const at::Tensor& like);
void check_root(const char* name, int64_t root, int size);

uint64_t address(const at::Tensor& tensor);
// A collective that only moves data moves bytes.
uint64_t bytes(const at::Tensor& tensor);
Counts counts_in_bytes(const Tensors& tensors);
openreg_dtype dtype_of(const at::Tensor& tensor);
openreg_comm_op op_of(const c10d::ReduceOp& op, const at::Tensor& original);
// Prepares the communicator for the reduction.
int set_factor(openreg_comm* comm, const c10d::ReduceOp& op);

// Queues n collectives. If one after the first is refused, the first ones are queued all the
// same: returns an error that breaks the communicator.
int64_t queue_each(size_t n, const std::function<int64_t(size_t)>& queue);

// One tensor with room for all the others. Uninitialized.
at::Tensor flat_like(const Tensors& tensors);
// Copies between it and the tensors.
void copy_to_flat(const at::Tensor& flat, const Tensors& tensors);
void copy_from_flat(const Tensors& tensors, const at::Tensor& flat);

} // namespace openreg
