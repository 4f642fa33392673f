// SPDX-License-Identifier: BSD-3-Clause
// SORT packets.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/launch.h"

namespace openreg {

// The part of each sorted row that the caller wants: count elements, beginning at first.
struct Places {
  int64_t first, count;
  bool descending = false;
};

// Whether the card takes rows of this length.
bool row_fits(const at::Tensor& self, int64_t dim);

// Whether a tensor has more dimensions than a Space can keep apart. At most 64 of them have
// more than one element.
bool has_many_dims(const at::Tensor& self);
// A view without the dimensions of size 1. dim becomes the first dimension.
at::Tensor with_few_dims(const at::Tensor& t, int64_t dim);

// Sorts along dim. values and indices have self's sizes, except along dim, where they
// have the count of places. Both may overlap self.
void sort_rows(
    OpId op,
    const at::Tensor& values,
    const at::Tensor& indices,
    const at::Tensor& self,
    int64_t dim,
    Places places,
    Part part = Part::FIRST);

} // namespace openreg
