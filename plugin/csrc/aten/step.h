// SPDX-License-Identifier: BSD-3-Clause
// A Step is one VECTOR packet over tensors that broadcast to one shape. Each tensor
// becomes an operand when the formula first uses it.
//
//   Step s(id, x.sizes(), x.get_device(), at::kFloat);
//   s.store(out, s.load(x) * s.load(weight));
//   s.run();
//
// The first operand's strides decide the order in which the card walks memory.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "aten/space.h"

namespace openreg {

enum class Turn { FIRST_TO_LAST, LAST_TO_FIRST };

class Step {
 public:
  Step(OpId id, at::IntArrayRef sizes, c10::DeviceIndex device, c10::ScalarType compute)
      : program(vector_type(compute)), id_(id), space_(sizes, device) {}
  Step(OpId id, const at::Tensor& like, c10::ScalarType compute)
      : Step(id, like.sizes(), like.get_device(), compute) {}

  // Adds an operand for a tensor that is both read and written. Keeps a temporary tensor
  // until the packet is launched: otherwise the next temporary could get its memory.
  uint8_t add(const at::Tensor& t) {
    return space_.add(t);
  }
  uint8_t add(at::Tensor&& t) {
    kept_.push_back(std::move(t));
    return add(std::as_const(kept_.back()));
  }
  // Like add(), for a tensor of the caller that the packet writes. Refuses tensors whose
  // elements share memory.
  uint8_t add_written(const at::Tensor& t) {
    at::assert_no_internal_overlap(t);
    return add_result(t);
  }
  Value load(uint8_t operand) {
    return program.load(operand, program.type());
  }
  // Adds an operand that the packet only reads.
  uint8_t add_read(const at::Tensor& t) {
    return space_.add_read(t);
  }
  Value load(const at::Tensor& t) {
    return load(add_read(t));
  }
  Value load(at::Tensor&& t) {
    kept_.push_back(std::move(t));
    return load(std::as_const(kept_.back()));
  }
  void store(const at::Tensor& t, Value v) {
    program.store(add_result(t), v);
  }

  // The coordinate along a dimension of the space. The dimensions then do not merge.
  Value index(int dim) {
    indexed_ = true;
    return program.index(static_cast<uint8_t>(dim));
  }

  // Ends the stage with a reduction of v over dims, in which t has size 1. All reductions
  // of a program have the same dims. An undefined t stores no value. Returns the value that
  // all points of a row have in later stages.
  Value reduce(uint8_t op, const at::Tensor& t, Value v, Space::Mask dims, double scale = 1) {
    dims_ = dims;
    reduces_ = true;
    return program.reduce(
        {op, t.defined() ? add_result(t) : static_cast<uint8_t>(OPENREG_VNONE)}, v, scale);
  }
  Value sum(const at::Tensor& t, Value v, Space::Mask dims, double scale = 1) {
    return reduce(OPENREG_V_RED_SUM, t, v, dims, scale);
  }

  void run(Part part = Part::FIRST) {
    if (space_.numel() == 0) {
      return;
    }
    if (reduces_ && dims_.none()) {
      dims_.set(space_.ndim());
      space_.add_unit();
    }
    space_.reduce(dims_);
    if (!indexed_) {
      space_.sort_by_stride(0);
      space_.coalesce();
    }
    launch(space_, program, id_, part);
  }

  // Launches a packet for each index of the first dimension. Each packet may read the
  // results of the packets before it.
  void run_in_turn(Turn turn, Part part = Part::FURTHER) {
    const int64_t places = space_.sizes()[0];
    for (int64_t i = 0; i < places; i++) {
      Space one = space_.without(0, turn == Turn::FIRST_TO_LAST ? i : places - 1 - i);
      one.coalesce();
      launch(one, program, id_, part);
    }
  }

  Program program;

 private:
  uint8_t add_result(const at::Tensor& t) {
    t.mutable_data_ptr(); // a copy-on-write tensor gets memory of its own
    return add(t);
  }

  OpId id_;
  Space space_;
  std::vector<at::Tensor> kept_;
  Space::Mask dims_; // that reductions fold
  bool reduces_ = false;
  bool indexed_ = false;
};

} // namespace openreg
