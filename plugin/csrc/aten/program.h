// SPDX-License-Identifier: BSD-3-Clause
// VECTOR programs, which are written as formulas.
//
//   Program p(vector_type(at::kFloat));
//   Value x = p.load(1, p.type());
//   p.store(0, x * sigmoid(x));
//
// A Value is the result of one instruction and is assigned once. After a reduction the next
// stage begins, which may use the reductions' values but no other value. Instructions and
// immediates have the form of the packet from the start; put() only maps values to the
// card's sixteen registers if a program has more. Operands have the numbers of the packet's operands. A
// Program allocates no memory: every launch builds its program again.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>

#include "runtime/launch.h"

namespace openreg {

// The type in which the card computes on tensors of this type.
inline uint8_t vector_type(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexDouble: // as two parts
      return OPENREG_VT_F64;
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::ComplexHalf:
    case c10::ScalarType::Float:
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
    case c10::ScalarType::Float8_e4m3fnuz:
    case c10::ScalarType::Float8_e5m2fnuz:
    case c10::ScalarType::Float8_e8m0fnu:
      return OPENREG_VT_F32;
    case c10::ScalarType::Long:
      return OPENREG_VT_I64;
    default:
      return OPENREG_VT_I32;
  }
}

inline bool is_float(uint8_t type) {
  return type == OPENREG_VT_F32 || type == OPENREG_VT_F64;
}

class Program;

struct Value {
  Program* program;
  uint8_t id;
  uint8_t type; // enum openreg_vtype
};

// The results of a reduction: operand numbers, or OPENREG_VNONE for no result.
struct Reduction {
  uint8_t op; // OPENREG_V_RED_*
  uint8_t value;
  uint8_t index = OPENREG_VNONE;
};

class Program {
 public:
  explicit Program(uint8_t type) : type_(type) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The type in which a formula computes by default.
  uint8_t type() const {
    return type_;
  }

  // A formula may load an operand several times. Reuses the first load if all values so
  // far have registers of their own, and if no store can have changed the operand.
  Value load(uint8_t operand, uint8_t type) {
    for (int i = stage(); i < ninstr_ && ninstr_ < OPENREG_REGS && !stores_; i++) {
      const openreg_instr& n = instr_[i];
      if (n.op == OPENREG_V_LOAD && n.type == type && n.aux == operand) {
        return {this, static_cast<uint8_t>(i), type};
      }
    }
    return emit(OPENREG_V_LOAD, type, 0, {}, operand);
  }
  void store(uint8_t operand, Value v) {
    stores_ = true;
    emit(OPENREG_V_STORE, v.type, 1, {v.id}, operand);
  }

  Value imm(double value, uint8_t type) {
    return emit(OPENREG_V_IMM, type, 0, {}, raw(openreg_imm_f64(value)));
  }
  Value imm(int64_t value, uint8_t type) {
    return is_float(type)
        ? imm(static_cast<double>(value), type)
        : emit(OPENREG_V_IMM, type, 0, {}, raw(openreg_imm_i64(value)));
  }
  Value imm(int value, uint8_t type) {
    return imm(static_cast<int64_t>(value), type);
  }
  // A number in the program's own type.
  Value operator()(const c10::Scalar& s) {
    return is_float(type_) ? imm(s.toDouble(), type_) : imm(s.toLong(), type_);
  }
  Value operator()(double value) {
    return is_float(type_) ? imm(value, type_)
                           : imm(static_cast<int64_t>(value), type_);
  }

  Value index(uint8_t dim) {
    return emit(OPENREG_V_INDEX, OPENREG_VT_I64, 0, {}, dim);
  }

  // Adds a 64-bit immediate, unless the program already has it. Returns its number.
  uint8_t raw(uint64_t bits) {
    for (int i = 0; i < nimm_; i++) {
      if (imm_[i] == bits && !(own_ >> i & 1)) {
        return static_cast<uint8_t>(i);
      }
    }
    return add_imm(bits);
  }
  // The same for a number that a graph changes between its replays: nothing else in the
  // program shares the immediate.
  uint8_t own(uint64_t bits) {
    own_ |= 1u << nimm_;
    return add_imm(bits);
  }
  // Random bits of type I32 or I64. key and counter are numbers of immediates.
  Value random(uint8_t type, uint8_t key, uint8_t counter, uint16_t stream) {
    return emit(OPENREG_V_RANDOM, type, 0, {key, counter}, stream);
  }

  Value convert(Value v, uint8_t type) {
    return v.type == type ? v : emit(OPENREG_V_CVT, type, 1, {v.id}, v.type);
  }
  // Rounds an F32 to the precision of a half or float8 type.
  Value round_to(Value v, uint8_t dtype) {
    return emit(OPENREG_V_ROUND, OPENREG_VT_F32, 1, {v.id}, dtype);
  }

  Value unary(uint8_t op, Value a) {
    check_type(op, a.type);
    return emit(op, a.type, 1, {a.id});
  }
  Value binary(uint8_t op, Value a, Value b) {
    match(a, b);
    check_type(op, a.type);
    return emit(op, a.type, 2, {a.id, b.id});
  }
  Value predicate(uint8_t op, Value a) {
    check_type(op, a.type);
    Value v = emit(op, a.type, 1, {a.id});
    v.type = OPENREG_VT_I32;
    return v;
  }
  Value compare(uint8_t op, Value a, Value b) {
    Value v = binary(op, a, b);
    v.type = OPENREG_VT_I32;
    return v;
  }
  Value select(Value condition, Value a, Value b) {
    match(a, b);
    return emit(OPENREG_V_SELECT, a.type, 3, {condition.id, a.id, b.id});
  }
  Value fma(Value a, Value b, Value c) {
    match(a, b);
    match(a, c);
    match(a, b);
    return emit(OPENREG_V_FMA, a.type, 3, {a.id, b.id, c.id});
  }

  // Ends the stage with a reduction. scale multiplies a floating-point result. Returns the
  // value that all points of a row have in later stages.
  Value reduce(Reduction r, Value v, double scale = 1.0) {
    const uint8_t c = scale == 1.0 ? OPENREG_VNONE : raw(openreg_imm_f64(scale));
    return emit(r.op, v.type, 1, {v.id, r.index, c}, r.value);
  }

  // Adds the program to a packet that has its space and operands.
  void put(Packet& packet) const {
    packet.imms({imm_.data(), static_cast<size_t>(nimm_)});
    if (ninstr_ <= OPENREG_REGS) {
      packet.instrs({instr_.data(), static_cast<size_t>(ninstr_)});
    } else {
      put_with_reuse(packet);
    }
  }

 private:
  uint8_t add_imm(uint64_t bits) {
    TORCH_INTERNAL_ASSERT(
        nimm_ < OPENREG_IMMS_MAX, "a VECTOR program has too many immediates");
    imm_[nimm_] = bits;
    return static_cast<uint8_t>(nimm_++);
  }

  // Adds an instruction; the first nvalues of arg are values. Until put(), the numbers of
  // registers are those of values.
  Value emit(
      uint8_t op,
      uint8_t type,
      uint8_t nvalues,
      std::array<uint8_t, 3> arg,
      uint16_t aux = 0) {
    TORCH_INTERNAL_ASSERT(
        ninstr_ < OPENREG_INSTRS_MAX, "a VECTOR program is too long");
    const auto id = static_cast<uint8_t>(ninstr_);
    const uint8_t dst = has_result(op) ? id : 0;
    if (op < OPENREG_V_RED_SUM && stage() != stage_) {
      begin_stage();
    }
    for (int i = 0; i < nvalues; i++) {
      TORCH_INTERNAL_ASSERT_DEBUG_ONLY(
          arg[i] >= stage_ || instr_[arg[i]].op >= OPENREG_V_RED_SUM,
          "a VECTOR program reads a value of an earlier stage");
    }
    nvalues_[ninstr_] = nvalues;
    instr_[ninstr_++] = {op, type, dst, arg[0], arg[1], arg[2], aux};
    return {this, id, type};
  }

  static bool in(uint8_t op, uint8_t first, uint8_t last) {
    return op >= first && op <= last;
  }
  // Checks here: an instruction that the type lacks would fault the queue.
  static void check_type(uint8_t op, uint8_t type) {
    const bool integers = in(op, OPENREG_V_AND, OPENREG_V_SHR);
    const bool floats = in(op, OPENREG_V_FMIN, OPENREG_V_FMAX) ||
        in(op, OPENREG_V_ATAN2, OPENREG_V_COPYSIGN) ||
        in(op, OPENREG_V_ISNAN, OPENREG_V_ISFINITE) ||
        in(op, OPENREG_V_RECIP, OPENREG_V_SIGMOID);
    TORCH_CHECK_NOT_IMPLEMENTED(
        is_float(type) ? !integers : !floats,
        "this operator is not implemented for ",
        is_float(type) ? "floating-point" : "integer",
        " tensors");
  }

  // The order of types from narrow to wide: I32, I64, F32, F64.
  static int rank(uint8_t type) {
    return (type + 2) % 4;
  }
  void match(Value& a, Value& b) {
    if (a.type == b.type) {
      return;
    }
    if (rank(a.type) < rank(b.type)) {
      a = convert(a, b.type);
    } else {
      b = convert(b, a.type);
    }
  }

  static bool has_result(uint8_t op) {
    return op != OPENREG_V_STORE && op < OPENREG_V_RED_SUM;
  }

  // The first instruction of the stage that the next instruction belongs to.
  int stage() const {
    return ninstr_ > 0 && instr_[ninstr_ - 1].op >= OPENREG_V_RED_SUM ? ninstr_ : stage_;
  }
  // The reductions at the end so far have values: they do not end the last stage.
  void begin_stage() {
    stage_ = ninstr_;
    for (int i = ninstr_ - 1; instr_[i].op >= OPENREG_V_RED_SUM; i--) {
      instr_[i].dst = static_cast<uint8_t>(i);
    }
  }

  void put_with_reuse(Packet& packet) const {
    constexpr std::array kArgs{&openreg_instr::a, &openreg_instr::b, &openreg_instr::c};
    std::array<uint8_t, OPENREG_INSTRS_MAX> last{}, reg{};
    for (int i = 0; i < ninstr_; i++) {
      for (int j = 0; j < nvalues_[i]; j++) {
        last[instr_[i].*kArgs[j]] = static_cast<uint8_t>(i);
      }
    }
    uint32_t free = (1u << OPENREG_REGS) - 1;
    for (int i = 0; i < ninstr_; i++) {
      openreg_instr n = instr_[i];
      for (int j = 0; j < nvalues_[i]; j++) {
        uint8_t& arg = n.*kArgs[j];
        const bool read_again = last[arg] > i;
        arg = reg[arg];
        if (!read_again) {
          free |= 1u << arg;
        }
      }
      if (has_result(n.op) ? last[i] > i : n.dst != 0) {
        TORCH_INTERNAL_ASSERT(free != 0, "a VECTOR program needs > 16 registers");
        n.dst = reg[i] = static_cast<uint8_t>(__builtin_ctz(free));
        free &= free - 1;
      } else if (has_result(n.op)) {
        continue; // no instruction reads the value
      }
      packet.instrs(n);
    }
  }

  uint8_t type_;
  bool stores_ = false;
  int stage_ = 0; // the first instruction of the stage
  int ninstr_ = 0;
  int nimm_ = 0;
  unsigned own_ = 0; // bit i: immediate i is own()
  std::array<openreg_instr, OPENREG_INSTRS_MAX> instr_;
  std::array<uint8_t, OPENREG_INSTRS_MAX> nvalues_; // operands that are values
  std::array<uint64_t, OPENREG_IMMS_MAX> imm_;
};

// The functions and operators of formulas.

#define OPENREG_UNARY(name, op)                  \
  inline Value name(Value a) {                   \
    return a.program->unary(OPENREG_V_##op, a);  \
  }
OPENREG_UNARY(operator-, NEG)
OPENREG_UNARY(operator~, NOT)
OPENREG_UNARY(abs, ABS)
OPENREG_UNARY(sign, SIGN)
OPENREG_UNARY(recip, RECIP)
OPENREG_UNARY(sqrt, SQRT)
OPENREG_UNARY(rsqrt, RSQRT)
OPENREG_UNARY(floor, FLOOR)
OPENREG_UNARY(ceil, CEIL)
OPENREG_UNARY(trunc, TRUNC)
OPENREG_UNARY(rint, RINT)
OPENREG_UNARY(exp, EXP)
OPENREG_UNARY(exp2, EXP2)
OPENREG_UNARY(expm1, EXPM1)
OPENREG_UNARY(log, LOG)
OPENREG_UNARY(log2, LOG2)
OPENREG_UNARY(log10, LOG10)
OPENREG_UNARY(log1p, LOG1P)
OPENREG_UNARY(sin, SIN)
OPENREG_UNARY(cos, COS)
OPENREG_UNARY(tan, TAN)
OPENREG_UNARY(asin, ASIN)
OPENREG_UNARY(acos, ACOS)
OPENREG_UNARY(atan, ATAN)
OPENREG_UNARY(sinh, SINH)
OPENREG_UNARY(cosh, COSH)
OPENREG_UNARY(tanh, TANH)
OPENREG_UNARY(asinh, ASINH)
OPENREG_UNARY(acosh, ACOSH)
OPENREG_UNARY(atanh, ATANH)
OPENREG_UNARY(erf, ERF)
OPENREG_UNARY(erfc, ERFC)
OPENREG_UNARY(lgamma, LGAMMA)
OPENREG_UNARY(sigmoid, SIGMOID)
#undef OPENREG_UNARY

#define OPENREG_PREDICATE(name, op)                 \
  inline Value name(Value a) {                      \
    return a.program->predicate(OPENREG_V_##op, a); \
  }
OPENREG_PREDICATE(isnan, ISNAN)
OPENREG_PREDICATE(isinf, ISINF)
OPENREG_PREDICATE(isfinite, ISFINITE)
OPENREG_PREDICATE(signbit, SIGNBIT)
#undef OPENREG_PREDICATE

// Binary functions also take a plain number on either side.
#define OPENREG_BINARY_AS(how, name, op)               \
  inline Value name(Value a, Value b) {                \
    return a.program->how(OPENREG_V_##op, a, b);       \
  }                                                    \
  inline Value name(Value a, double b) {               \
    return name(a, number(a, b));                      \
  }                                                    \
  inline Value name(double a, Value b) {               \
    return name(number(b, a), b);                      \
  }
#define OPENREG_BINARY(name, op) OPENREG_BINARY_AS(binary, name, op)
#define OPENREG_COMPARE(name, op) OPENREG_BINARY_AS(compare, name, op)

inline Value number(Value like, double value) {
  return is_float(like.type)
      ? like.program->imm(value, like.type)
      : like.program->imm(static_cast<int64_t>(value), like.type);
}

OPENREG_BINARY(operator+, ADD)
OPENREG_BINARY(operator-, SUB)
OPENREG_BINARY(operator*, MUL)
OPENREG_BINARY(operator/, DIV)
OPENREG_BINARY(div_floor, DIV_FLOOR)
OPENREG_BINARY(fmod, FMOD)
OPENREG_BINARY(remainder, REMAINDER)
OPENREG_BINARY(min, MIN)
OPENREG_BINARY(max, MAX)
OPENREG_BINARY(fmin, FMIN)
OPENREG_BINARY(fmax, FMAX)
OPENREG_BINARY(pow, POW)
OPENREG_BINARY(atan2, ATAN2)
OPENREG_BINARY(hypot, HYPOT)
OPENREG_BINARY(copysign, COPYSIGN)
OPENREG_BINARY(operator&, AND)
OPENREG_BINARY(operator|, OR)
OPENREG_BINARY(operator^, XOR)
OPENREG_BINARY(operator<<, SHL)
OPENREG_BINARY(operator>>, SHR)
OPENREG_COMPARE(operator==, EQ)
OPENREG_COMPARE(operator!=, NE)
OPENREG_COMPARE(operator<, LT)
OPENREG_COMPARE(operator<=, LE)
OPENREG_COMPARE(operator>, GT)
OPENREG_COMPARE(operator>=, GE)
#undef OPENREG_COMPARE
#undef OPENREG_BINARY
#undef OPENREG_BINARY_AS

inline Value fma(Value a, Value b, Value c) {
  return a.program->fma(a, b, c);
}
inline Value select(Value condition, Value a, Value b) {
  return condition.program->select(condition, a, b);
}
inline Value select(Value condition, Value a, double b) {
  return select(condition, a, number(a, b));
}
inline Value select(Value condition, double a, Value b) {
  return select(condition, number(b, a), b);
}

} // namespace openreg
