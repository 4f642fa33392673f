// SPDX-License-Identifier: BSD-3-Clause
// INDEX packets: a Space of destination, source and index operands, and for
// every index what it counts.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "aten/space.h"

namespace openreg {

// Negative indices are errors, or count from the end.
enum class Negative { BAD, WRAPS };

class IndexSpace {
 public:
  // Of a destination and a source; mode: enum openreg_index. Of the two the
  // indirect one has stride 0 where an index chooses.
  IndexSpace(
      uint8_t mode,
      Negative negative,
      c10::IntArrayRef sizes,
      const at::Tensor& dst,
      at::DimVector dst_strides,
      const at::Tensor& src,
      at::DimVector src_strides);

  // An index of the whole space chooses among `extent` places that are `step`
  // elements apart.
  void choose(
      const at::Tensor& index,
      at::DimVector index_strides,
      int64_t extent,
      int64_t step);
  // The same among the source's, in a mode other than GET.
  void choose_source(
      const at::Tensor& index,
      at::DimVector index_strides,
      int64_t extent,
      int64_t step);

  // Returns what further packets of the operator pass on.
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
  uint8_t sources_ = 0; // those of the source, by bit
  // From the last on that a packet has room for; launch() makes one of them.
  std::vector<Further> further_;
};

// With 0 dimensions as one of size 1.
at::Tensor with_dim(const at::Tensor& t);

// Every point of index, over whose shape it runs, chooses along dim of the
// indirect one: gather and scatter.
Part index_points(
    OpId op,
    uint8_t mode,
    const at::Tensor& dst,
    const at::Tensor& src,
    int64_t dim,
    const at::Tensor& index,
    Part part = Part::FIRST);

// Row to_which[i] of dst is combined with row from_which[i] of src, for each i.
Part index_rows(
    OpId op,
    uint8_t mode,
    const at::Tensor& dst,
    const at::Tensor& to_which,
    const at::Tensor& src,
    const at::Tensor& from_which,
    Part part = Part::FIRST);

// Every element of a vector chooses a slice along dim of the indirect one:
// index_select and index_add. The other one's sizes are the space.
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
