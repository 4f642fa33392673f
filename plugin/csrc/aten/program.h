// SPDX-License-Identifier: BSD-3-Clause
// VECTOR programs, which are written as formulas.
//
//   Program p(vector_type(at::kFloat));
//   Value x = p.load(1, at::kFloat);
//   p.store(0, x * sigmoid(x));
//
// A Value is the result of one instruction and is assigned once. finish() maps values to
// the card's sixteen registers. Operands have the numbers of the packet's operands. A
// Program allocates no memory: every launch builds its program again.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "openreg_isa.h"

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
    for (int i = 0; i < nnode_ && nnode_ < OPENREG_REGS && !stores_; i++) {
      const Node& n = node_[i];
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
    int64_t bits;
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&bits, &value, sizeof(bits));
    return imm_bits(bits, type);
  }
  Value imm(int64_t value, uint8_t type) {
    return is_float(type) ? imm(static_cast<double>(value), type)
                          : imm_bits(value, type);
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

  // Adds a 64-bit immediate for instructions other than IMM. Returns its number.
  uint8_t raw(uint64_t bits) {
    return add_imm(static_cast<int64_t>(bits));
  }
  // Random bits of type I32 or I64. key and counter are numbers of immediates.
  Value random(uint8_t type, uint8_t key, uint8_t counter, uint16_t stream) {
    return emit(OPENREG_V_RANDOM, type, 0, {key, counter}, stream);
  }

  Value convert(Value v, uint8_t type) {
    return v.type == type ? v : emit(OPENREG_V_CVT, type, 1, {v.id}, v.type);
  }
  // Rounds an F32 to the precision of a half type.
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

  // Ends the program with a reduction. scale multiplies a floating-point result.
  void reduce(Reduction r, Value v, double scale = 1.0) {
    uint8_t c = OPENREG_VNONE;
    if (scale != 1.0) {
      c = add_imm_bits(scale);
    }
    next() = {r.op, v.type, 1, {v.id, r.index, c}, r.value};
  }

  int imms() const {
    return nimm_;
  }
  const int64_t* imm_data() const {
    return imm_.data();
  }

  // Assigns registers and passes each instruction to sink.
  template <class Sink>
  void finish(Sink&& sink) const {
    if (nnode_ <= OPENREG_REGS) {
      for (int i = 0; i < nnode_; i++) {
        const Node& n = node_[i];
        sink(word(n, static_cast<uint8_t>(i), n.arg[0], n.arg[1], n.arg[2]));
      }
      return;
    }
    finish_with_reuse(sink);
  }

 private:
  struct Node {
    uint8_t op;
    uint8_t type;
    uint8_t nargs; // how many of arg[] are values
    std::array<uint8_t, 3> arg;
    uint16_t aux;
  };

  Node& next() {
    TORCH_INTERNAL_ASSERT(
        nnode_ < OPENREG_INSTRS_MAX, "a VECTOR program is too long");
    return node_[nnode_++];
  }

  Value emit(
      uint8_t op,
      uint8_t type,
      uint8_t nargs,
      std::array<uint8_t, 3> arg,
      uint16_t aux = 0) {
    next() = {op, type, nargs, arg, aux};
    return {this, static_cast<uint8_t>(nnode_ - 1), type};
  }

  uint8_t add_imm_bits(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return add_imm(bits);
  }
  uint8_t add_imm(int64_t bits) {
    for (int i = 0; i < nimm_; i++) {
      if (imm_[i] == bits) {
        return static_cast<uint8_t>(i);
      }
    }
    TORCH_INTERNAL_ASSERT(
        nimm_ < OPENREG_IMMS_MAX, "a VECTOR program has too many immediates");
    imm_[nimm_] = bits;
    return static_cast<uint8_t>(nimm_++);
  }
  Value imm_bits(int64_t bits, uint8_t type) {
    return emit(OPENREG_V_IMM, type, 0, {}, add_imm(bits));
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

  static bool has_result(const Node& n) {
    return n.op != OPENREG_V_STORE && n.op < OPENREG_V_RED_SUM;
  }

  static openreg_instr
  word(const Node& n, uint8_t dst, uint8_t a, uint8_t b, uint8_t c) {
    return {n.op, n.type, has_result(n) ? dst : uint8_t(0), a, b, c, n.aux};
  }

  template <class Sink>
  void finish_with_reuse(Sink& sink) const {
    std::array<uint8_t, OPENREG_INSTRS_MAX> last{}, reg{};
    for (int i = 0; i < nnode_; i++) {
      for (int j = 0; j < node_[i].nargs; j++) {
        last[node_[i].arg[j]] = static_cast<uint8_t>(i);
      }
    }
    uint32_t free = (1u << OPENREG_REGS) - 1;
    for (int i = 0; i < nnode_; i++) {
      const Node& n = node_[i];
      std::array<uint8_t, 3> arg = n.arg;
      for (int j = 0; j < n.nargs; j++) {
        arg[j] = reg[n.arg[j]];
        if (last[n.arg[j]] == i) {
          free |= 1u << arg[j];
        }
      }
      if (has_result(n) && last[i] > i) {
        TORCH_INTERNAL_ASSERT(free != 0, "a VECTOR program needs > 16 registers");
        reg[i] = static_cast<uint8_t>(__builtin_ctz(free));
        free &= free - 1;
      } else if (has_result(n)) {
        continue; // no instruction reads the value
      }
      sink(word(n, reg[i], arg[0], arg[1], arg[2]));
    }
  }

  uint8_t type_;
  bool stores_ = false;
  int nnode_ = 0;
  int nimm_ = 0;
  std::array<Node, OPENREG_INSTRS_MAX> node_;
  std::array<int64_t, OPENREG_IMMS_MAX> imm_;
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
