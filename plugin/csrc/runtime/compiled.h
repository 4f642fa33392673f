// SPDX-License-Identifier: BSD-3-Clause
// A VECTOR program that torch.compile has made. A call encodes the packet with the tensors'
// addresses, and with the numbers that were unknown at compile time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/launch.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Memory for a result, without a call of the dispatcher.
at::Tensor compiled_empty(
    c10::IntArrayRef size,
    c10::IntArrayRef stride,
    c10::ScalarType type,
    c10::DeviceIndex device);

struct CompiledOperand {
  uint8_t tensor; // position among the tensors of a call
  bool written;
  uint8_t dtype; // enum openreg_dtype
  int64_t offset; // elements from the tensor's first one
  std::vector<int64_t> stride;
};

// A call's numbers are 64-bit words: integers, or the bits of a double.
struct CompiledPatch {
  enum class Kind : uint8_t { SIZE, STRIDE, OFFSET, IMM, SCALAR };
  Kind kind;
  uint8_t operand; // of STRIDE and OFFSET
  uint8_t index; // dimension or immediate
  uint8_t value; // position among the numbers of a call; SCALAR: among the scalars
};

// A number that a call computes from its numbers, from constants and from earlier scalars,
// as the card would compute it for each point.
struct CompiledScalar {
  struct Arg {
    enum class Kind : uint8_t { CONSTANT, NUMBER, SCALAR };
    Kind kind;
    uint8_t index; // of NUMBER and SCALAR
    double constant;
  };
  uint8_t op; // OPENREG_V_
  uint8_t type; // F32 or F64
  std::vector<Arg> args;
};

struct CompiledParts {
  std::string name;
  std::vector<int64_t> size;
  uint8_t folded = 0; // mask of the dimensions that a reduction folds
  std::vector<CompiledOperand> operands;
  std::vector<uint64_t> imms;
  std::vector<openreg_instr> instrs;
  std::vector<CompiledPatch> patches;
  std::vector<CompiledScalar> scalars;
  bool counted = true; // false for all but the first program of a kernel
};

class CompiledProgram {
 public:
  explicit CompiledProgram(CompiledParts parts);

  void run(
      c10::ArrayRef<at::TensorBase> tensors,
      c10::ArrayRef<uint64_t> numbers) const;

  size_t ntensors() const {
    return ntensors_;
  }

 private:
  void launch_with(
      const CompiledParts& parts,
      c10::ArrayRef<at::TensorBase> tensors) const;

  CompiledParts parts_;
  OpId op_;
  size_t ntensors_ = 0;
  size_t nnumbers_ = 0;
};

} // namespace openreg
#pragma GCC visibility pop
