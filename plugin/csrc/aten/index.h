// SPDX-License-Identifier: BSD-3-Clause
// INDEX packets. An INDEX packet has a Space with destination, source and index operands,
// and an extent and a step for every index.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "aten/space.h"

namespace openreg {

// BAD: negative indices are errors. WRAPS: they count from the end.
enum class Negative { BAD, WRAPS };

class IndexSpace {
 public:
  // mode is an enum openreg_index. Either dst or src is indirect: an index chooses its
  // elements, and its stride is 0 in the dimensions where an index chooses.
  IndexSpace(
      uint8_t mode,
      Negative negative,
      c10::IntArrayRef sizes,
      const at::Tensor& dst,
      at::DimVector dst_strides,
      const at::Tensor& src,
      at::DimVector src_strides);

  // Adds an index operand over the whole space. The index chooses among `extent` places,
  // which are `step` elements apart.
  void choose(
      const at::Tensor& index,
      at::DimVector index_strides,
      int64_t extent,
      int64_t step);
  // Like choose(), but chooses places of the source, in a mode other than GET.
  void choose_source(
      const at::Tensor& index,
      at::DimVector index_strides,
      int64_t extent,
      int64_t step);

  // Launches the packets. Returns the Part for further packets of the operator.
  Part launch(OpId op, Part part = Part::FIRST);

 private:
  struct Choice {
    int64_t extent, step;
  };
  struct Further {
    at::Tensor index;
    at::DimVector strides;
    Choice choice;
  };

  static void check_extent(const Choice& choice);
  Part fold_further(OpId op, Part part);

  uint8_t mode_;
  Negative negative_;
  Space space_;
  c10::SmallVector<Choice, 4> choices_;
  uint8_t sources_ = 0; // bit n: index n chooses places of the source
  // The last index that fits into the packet, and all after it; launch() merges them.
  std::vector<Further> further_;
};

// Views a tensor of 0 dimensions as one dimension of size 1.
at::Tensor with_dim(const at::Tensor& t);

// gather and scatter. The packet runs over the shape of index, and each element of index
// chooses a place along dim of the indirect tensor.
Part index_points(
    OpId op,
    uint8_t mode,
    const at::Tensor& dst,
    const at::Tensor& src,
    int64_t dim,
    const at::Tensor& index,
    Part part = Part::FIRST);

// For each i, combines row to_which[i] of dst with row from_which[i] of src.
Part index_rows(
    OpId op,
    uint8_t mode,
    const at::Tensor& dst,
    const at::Tensor& to_which,
    const at::Tensor& src,
    const at::Tensor& from_which,
    Part part = Part::FIRST);

// index_select and index_add. Every element of the vector index chooses a slice along dim
// of the indirect tensor. The sizes of the other tensor are the packet's space.
Part index_slices(
    OpId op,
    uint8_t mode,
    Negative negative,
    const at::Tensor& dst,
    const at::Tensor& src,
    int64_t dim,
    const at::Tensor& index,
    Part part = Part::FIRST);

} // namespace openreg
