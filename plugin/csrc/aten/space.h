// SPDX-License-Identifier: BSD-3-Clause
// The iteration space of a packet: sizes, and an address, a dtype and strides for every
// operand. The order is row-major; strides are in elements.
//
// A Space may have any number of dimensions; for_each_launchable() cuts it into
// spaces that a packet can hold.
#pragma once

#include <ATen/core/TensorBase.h>
#include <ATen/core/DimVector.h>
#include <c10/util/SmallVector.h>

#include <bitset>

#include "aten/program.h"

namespace openreg {

struct Operand {
  char* addr;
  uint8_t dtype; // enum openreg_dtype
  uint8_t size; // bytes of an element
  at::DimVector stride;
};

class Space {
 public:
  using Mask = std::bitset<64>;

  Space(c10::IntArrayRef sizes, c10::DeviceIndex device)
      : device_(device), size_(sizes.begin(), sizes.end()) {}

  // Adds a tensor with at most as many dimensions as the space. Sizes of 1 and missing
  // leading dimensions broadcast. Returns the operand's number. The packet writes the
  // first operand: a copy-on-write tensor gets memory of its own.
  uint8_t add(const at::TensorBase& t);
  // Adds a tensor with a stride given for every dimension.
  uint8_t add(const at::TensorBase& t, at::DimVector strides);
  // Like add(), for a tensor that the packet only reads, even as the first operand.
  uint8_t add_read(const at::TensorBase& t);

  // Adds an innermost dimension of size 1.
  void add_unit();

  // Excludes a dimension from merging: the program uses its index.
  void keep(int dim) {
    keep_.set(dim);
  }
  // The position of the first (second...) dimension of keep(), after coalesce().
  uint8_t kept(int which = 0) const;

  // Sorts the dimensions by an operand's strides, so that more of them merge. Do not call
  // it for programs that use an index.
  void sort_by_stride(uint8_t operand);

  // Sets the dimensions that a reduction folds; the result keeps the others.
  void reduce(Mask dims) {
    reduced_ = dims;
  }

  // Drops dimensions of size 1 and merges contiguous dimensions. Reduced dimensions merge
  // only with each other; at least one reduced dimension remains.
  void coalesce();

  // Returns the part at one index of a dimension.
  Space without(int dim, int64_t index) const;

  int ndim() const {
    return static_cast<int>(size_.size());
  }
  int64_t numel() const {
    return c10::multiply_integers(size_);
  }
  c10::DeviceIndex device() const {
    return device_;
  }
  const at::DimVector& sizes() const {
    return size_;
  }
  const c10::SmallVector<Operand, 6>& operands() const {
    return operand_;
  }
  Mask reduced() const {
    return reduced_;
  }

  // Puts this space's sizes and operands into an empty packet.
  void put(Packet& packet) const;

  // Calls fn(space) for parts with at most OPENREG_DIMS_MAX dimensions. The
  // outermost dimensions that are not reduced are unrolled.
  template <class Fn>
  void for_each_launchable(Fn&& fn) const {
    if (ndim() <= OPENREG_DIMS_MAX) {
      fn(*this);
      return;
    }
    const int dim = dim_to_unroll();
    for (int64_t i = 0; i < size_[dim]; i++) {
      without(dim, i).for_each_launchable(fn);
    }
  }

 private:
  at::DimVector broadcast(const at::TensorBase& t) const;
  uint8_t add_read(const at::TensorBase& t, at::DimVector strides);
  int dim_to_unroll() const;
  bool can_merge(int outer, int inner) const;
  void merge(int outer, int inner);
  void move(int from, int to);
  void swap(int a, int b);

  c10::DeviceIndex device_;
  at::DimVector size_;
  c10::SmallVector<Operand, 6> operand_;
  Mask keep_, reduced_;
};

// Launches a program on the current stream of the space's device, in as many packets as
// the space's dimensions need.
void launch(
    const Space& space,
    const Program& program,
    OpId op,
    Part part = Part::FIRST);
} // namespace openreg
