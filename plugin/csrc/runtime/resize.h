// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/StorageImpl.h>

namespace openreg {

// Moves the storage to a new block of that many bytes. Copies the bytes that fit.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

} // namespace openreg
