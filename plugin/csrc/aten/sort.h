// SPDX-License-Identifier: BSD-3-Clause
// SORT packets.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/launch.h"

namespace openreg {

// What is wanted of each sorted row: count elements from place first on.
struct Places {
  int64_t first, count;
  bool descending = false;
};

// Whether the card takes rows of this length.
bool row_fits(const at::Tensor& self, int64_t dim);

// Sorts along dim. values and indices are as large as self, but for dim along
// which they have what is wanted; both may overlap it.
void sort_rows(
    OpId op,
    const at::Tensor& values,
    const at::Tensor& indices,
    const at::Tensor& self,
    int64_t dim,
    Places places,
    Part part = Part::FIRST);

} // namespace openreg
