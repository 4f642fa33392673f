// SPDX-License-Identifier: BSD-3-Clause
#include "aten/pointwise.h"

#include <c10/core/DynamicCast.h>

namespace openreg {

namespace {

// A float type of fewer bits than the card computes in.
bool is_short(c10::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 || c10::isFloat8Type(type);
}

// True if storing a `from` value as `to` needs rounding.
bool needs_rounding(c10::ScalarType from, c10::ScalarType to) {
  return is_short(to) && from != to && from != at::kBool;
}

// True if an integer of type `from` may not fit into the integer type `to`. The card does
// not narrow it by itself: it computes both types in the same 32 or 64 bits.
bool needs_narrowing(c10::ScalarType from, c10::ScalarType to) {
  if (!c10::isIntegralType(from, /*includeBool=*/false)) {
    return false;
  }
  switch (to) {
    case at::kByte:
    case at::kChar:
      return from != to;
    case at::kShort:
      return c10::elementSize(from) > 2;
    default:
      return false;
  }
}

// Keeps the low bits, as a cast does.
Value narrow(Value v, c10::ScalarType to) {
  Program& p = *v.program;
  if (to == at::kByte) {
    return v & p.imm(0xff, v.type);
  }
  const Value bits = p.imm(to == at::kChar ? 24 : 16, v.type);
  return (v << bits) >> bits;
}

// Puts a TensorIterator's space and operands into a packet. TensorIterator's first
// dimension is the innermost, and its strides are in bytes.
void put_iter(Packet& packet, const at::TensorIteratorBase& iter) {
  std::array<int64_t, OPENREG_DIMS_MAX> turned;
  const auto turn = [&](c10::IntArrayRef from, int shift) {
    const size_t ndim = from.size();
    for (size_t d = 0; d < ndim; d++) {
      turned[d] = from[ndim - 1 - d] >> shift;
    }
    return c10::IntArrayRef(turned.data(), ndim);
  };
  const auto sizes = turn(iter.shape(), 0);
  check_work(sizes, iter.device(0).index());
  packet.space(sizes);
  for (int i = 0; i < iter.ntensors(); i++) {
    if (iter.is_cpu_scalar(i)) {
      continue; // the program has it as an immediate
    }
    const bool pairs = c10::isComplexType(iter.dtype(i));
    const auto type = pairs ? c10::toRealValueType(iter.dtype(i)) : iter.dtype(i);
    const int shift = __builtin_ctz(static_cast<unsigned>(c10::elementSize(type)));
    const auto strides = turn(iter.strides(i), shift);
    const char* at = static_cast<char*>(iter.data_ptr(i));
    for (int part = 0; part <= pairs; part++) {
      packet.operand(at + (part << shift), memory_dtype(type), strides.data());
    }
  }
}

// Launches a space with more dimensions than a packet can hold: one launch for each index
// of the outermost dimension.
void launch_split(
    const at::TensorIteratorBase& iter,
    const Program& program,
    OpId op,
    Part part) {
  const int outer = iter.ndim() - 1;
  for (int64_t i = 0; i < iter.shape()[outer]; i++) {
    at::TensorIterator slice(iter);
    slice.narrow(outer, i, 1);
    launch(slice, program, op, part);
    part = Part::FURTHER;
  }
}

} // namespace

c10::ScalarType complex_type(
    const at::TensorIteratorBase& iter,
    c10::ScalarType compute) {
  for (int i = iter.noutputs(); i < iter.ntensors(); i++) {
    if (!c10::isComplexType(compute) && c10::isComplexType(iter.dtype(i))) {
      compute = iter.dtype(i);
    }
  }
  return compute;
}

uint8_t Pointwise::number_of(int tensor) const {
  uint8_t number = 0;
  for (int j = 0; j < tensor; j++) {
    if (!iter_.is_cpu_scalar(j)) {
      number += c10::isComplexType(iter_.dtype(j)) ? 2 : 1;
    }
  }
  return number;
}

Complex Pointwise::in_complex(int i) {
  const int operand = iter_.noutputs() + i;
  const auto from = iter_.tensor_base(operand).scalar_type();
  if (iter_.is_cpu_scalar(operand)) {
    const auto value = c10::fetch_and_cast<c10::complex<double>>(
        from, iter_.data_ptr(operand));
    return complex(value);
  }
  const uint8_t number = number_of(operand);
  const Value re = load(number, type());
  const bool pairs = c10::isComplexType(from);
  const Complex v{re, pairs ? load(number + 1, type()) : imm(0.0, type())};
  return compute_ == at::kComplexHalf && from != compute_ ? halved(v) : v;
}

Complex Pointwise::halved(Complex v) {
  const auto half = card_dtype(at::kHalf);
  return {round_to(v.re, half), round_to(v.im, half)};
}

Complex Pointwise::in_rounded_complex(int i) {
  const Complex v = in_complex(i);
  const bool number = iter_.is_cpu_scalar(iter_.noutputs() + i);
  return number && compute_ == at::kComplexHalf ? halved(v) : v;
}

Complex Pointwise::complex(const c10::Scalar& s) {
  const auto value = s.toComplexDouble();
  return {imm(value.real(), type()), imm(value.imag(), type())};
}

void Pointwise::out(int i, Value v) {
  const uint8_t number = number_of(i);
  store(number, v);
  if (C10_UNLIKELY(c10::isComplexType(iter_.dtype(i)))) {
    store(number + 1, imm(0, v.type));
  }
}

void Pointwise::out(int i, Complex v) {
  const uint8_t number = number_of(i);
  store(number, v.re);
  store(number + 1, v.im);
}

Value Pointwise::in_rounded(int i) {
  const Value v = in(i);
  const bool number = iter_.is_cpu_scalar(iter_.noutputs() + i);
  return number && is_short(compute_) ? round_to(v, memory_dtype(compute_)) : v;
}

Value Pointwise::as_computed(Value v) {
  const auto to = iter_.dtype(0);
  // Do not change the result of a comparison: 0 or 1, as an I32 or for a bool tensor.
  if (to == compute_ || to == at::kBool || v.type != type()) {
    return v;
  }
  if (compute_ == at::kBool) {
    return v != 0.0;
  }
  if (is_short(compute_)) {
    return round_to(v, memory_dtype(compute_));
  }
  return needs_narrowing(at::kLong, compute_) ? narrow(v, compute_) : v;
}

Value Pointwise::in_as(int i, c10::ScalarType type) {
  const int operand = iter_.noutputs() + i;
  const uint8_t vt = vector_type(type);
  if (iter_.is_cpu_scalar(operand)) {
    const auto from = iter_.tensor_base(operand).scalar_type();
    const void* at = iter_.data_ptr(operand);
    if (is_float(vt)) {
      const Value v = imm(c10::fetch_and_cast<double>(from, at), vt);
      // As on the CPU: a number becomes a float8 first, but not a half.
      return c10::isFloat8Type(type) ? round_to(v, memory_dtype(type)) : v;
    }
    // Convert the value as a store to a tensor of the computation's type would.
    const auto value = c10::fetch_and_cast<int64_t>(from, at);
    switch (type) {
      case at::kBool:
        return imm(int64_t{value != 0}, vt);
      case at::kByte:
        return imm(int64_t{static_cast<uint8_t>(value)}, vt);
      case at::kChar:
        return imm(int64_t{static_cast<int8_t>(value)}, vt);
      case at::kShort:
        return imm(int64_t{static_cast<int16_t>(value)}, vt);
      default:
        return imm(value, vt);
    }
  }
  const auto from = iter_.dtype(operand);
  Value v = load(number_of(operand), vt);
  if (needs_rounding(from, type)) {
    return round_to(v, memory_dtype(type));
  }
  return needs_narrowing(from, type) ? narrow(v, type) : v;
}

void launch(
    const at::TensorIteratorBase& iter,
    const Program& program,
    OpId op,
    Part part) {
  if (iter.ndim() > OPENREG_DIMS_MAX) {
    launch_split(iter, program, op, part);
    return;
  }
  Packet packet(OPENREG_OP_VECTOR, op);
  put_iter(packet, iter);
  program.put(packet);
  launch(packet, iter.device(0).index(), part);
}

} // namespace openreg
