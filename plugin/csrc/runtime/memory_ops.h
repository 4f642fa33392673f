// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace openreg {

// Creates a tensor without a call of the dispatcher, for kernels.
at::Tensor empty(
    at::IntArrayRef sizes,
    at::IntArrayRef strides, // empty: contiguous, or as options.memory_format() says
    const at::TensorOptions& options);

// Moves the storage to a new block of that many bytes. Copies the bytes that fit.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

} // namespace openreg
