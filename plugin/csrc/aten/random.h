// SPDX-License-Identifier: BSD-3-Clause
// Random numbers in VECTOR programs.
//
// An element's random number depends only on its row-major place in its tensor. The
// strides, and the card's division of the work, do not change the number.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cmath>
#include <optional>

#include "aten/program.h"
#include "runtime/generator.h"
#include "runtime/launch.h"

namespace openreg {

using OptGenerator = std::optional<at::Generator>;

// Draws random numbers for each point of a program. Each call uses a stream of its own.
class Draws {
 public:
  Draws(Program& p, const PhiloxState& from)
      : p_(p), key_(p.own(from.seed)), counter_(p.own(from.offset)) {}

  // Random bits of type I32 or I64.
  Value bits(uint8_t type) {
    TORCH_INTERNAL_ASSERT(used_ < kRandomStreams);
    return p_.random(type, key_, counter_, used_++);
  }

  // Uniform in [0, 1), a multiple of 2^-24 (F64: 2^-53).
  Value uniform(uint8_t type) {
    const int digits = type == OPENREG_VT_F64 ? 53 : 24;
    const uint8_t bits_type = bits_of(type);
    const Value x =
        bits(bits_type) & p_.imm((int64_t{1} << digits) - 1, bits_type);
    return p_.convert(x, type) * std::ldexp(1.0, -digits);
  }

  // Uniform in (0, 1), down to 2^-31 (F64: 2^-63).
  Value open_uniform(uint8_t type) {
    const bool wide = type == OPENREG_VT_F64;
    const uint8_t bits_type = bits_of(type);
    const int64_t most = wide ? INT64_MAX : INT32_MAX;
    const Value x =
        (bits(bits_type) & p_.imm(most, bits_type)) | p_.imm(1, bits_type);
    return min(
        p_.convert(x, type) * (wide ? 0x1p-63 : 0x1p-31),
        1 - (wide ? 0x1p-53 : 0x1p-24));
  }

  // Mean 0, variance 1, by the Box-Muller transform.
  Value normal(uint8_t type) {
    const Value radius = sqrt(log(open_uniform(type)) * -2.0);
    return radius * cos(uniform(type) * (2 * M_PI));
  }

 private:
  static uint8_t bits_of(uint8_t type) {
    return type == OPENREG_VT_F64 ? OPENREG_VT_I64 : OPENREG_VT_I32;
  }

  Program& p_;
  uint8_t key_, counter_;
  uint16_t used_ = 0;
};

// Draws one bit, as I32. The bit is 1 with the given probability, rounded to a multiple
// of 2^-32.
Value draw_bit(Program& p, Draws& draws, double probability);

// A call of an operator that draws. The operands in order: outputs; inputs, which
// broadcast to the first output; flag, a scalar for a reduction over all elements.
struct DrawingCall {
  OpId id;
  const OptGenerator& generator;
  uint8_t type; // the type in which the program computes
  c10::SmallVector<at::Tensor, 2> outputs;
  c10::SmallVector<at::Tensor, 2> inputs = {};
  at::Tensor flag = {};
};

using DrawingProgram = c10::function_ref<void(Program&, Draws&)>;

// Launches the program once, over the first output's elements.
void draw(const DrawingCall& call, DrawingProgram program);

} // namespace openreg
