// SPDX-License-Identifier: BSD-3-Clause
// The iteration space of a packet: sizes, and for every operand an address, a
// dtype and strides. Row-major, strides in elements.
//
// A Space may have any number of dimensions; for_each_launchable() cuts it into
// spaces that a packet can hold.
#pragma once

#include <ATen/core/TensorBase.h>
#include <ATen/core/DimVector.h>
#include <c10/util/SmallVector.h>

#include <bitset>

#include "aten/program.h"
#include "runtime/launch.h"

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

  // Adds a tensor of at most as many dimensions as the space; sizes of 1 and
  // missing leading dimensions broadcast. Returns the operand's number. The first
  // one is written: a copy-on-write tensor gets its copy.
  uint8_t add(const at::TensorBase& t);
  // Adds a tensor with a stride given for every dimension.
  uint8_t add(const at::TensorBase& t, at::DimVector strides);
  // The same for a tensor that is not written, also where it is the first.
  uint8_t add_read(const at::TensorBase& t);

  // Adds an innermost dimension of size 1.
  void add_unit();

  // This dimension must stay as it is: a program asks for its index.
  void keep(int dim) {
    keep_.set(dim);
  }
  // Where the first (second...) such dimension is, after coalesce().
  uint8_t kept(int which = 0) const;

  // Brings the dimensions into the order of an operand's strides, so that more
  // of them merge. Not for programs that ask for an index.
  void sort_by_stride(uint8_t operand);

  // Says which dimensions a reduction folds; the others are kept.
  void reduce(Mask dims) {
    reduced_ = dims;
  }

  // Drops dimensions of size 1 and merges what is contiguous. Reduced
  // dimensions merge among themselves only; if there are any, one is left.
  void coalesce();

  // The part at one place along a dimension.
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

  // Begins a packet with this space's sizes and operands.
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

// Puts a program on the current stream of the space's device, in as many
// packets as its dimensions ask for.
void launch(
    const Space& space,
    const Program& program,
    OpId op,
    Part part = Part::FIRST);

// Adds the program to a packet that has its space.
inline void put(Packet& packet, const Program& program) {
  for (int i = 0; i < program.imms(); i++) {
    packet.imm(program.imm_data()[i]);
  }
  program.finish([&](const openreg_instr& w) {
    packet.instr(w.op, w.type, w.dst, w.a, w.b, w.c, w.aux);
  });
}

} // namespace openreg
