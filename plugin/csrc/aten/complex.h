// SPDX-License-Identifier: BSD-3-Clause
// Complex numbers in VECTOR programs are pairs of Values. The card has no complex types:
// a complex tensor becomes two operands of a packet, the real and the imaginary parts.
// Each operand has twice the tensor's strides.
#pragma once

#include <cmath>

#include "aten/program.h"

namespace openreg {

struct Complex {
  Value re, im;
};

inline Complex operator-(Complex a) {
  return {-a.re, -a.im};
}
inline Complex operator+(Complex a, Complex b) {
  return {a.re + b.re, a.im + b.im};
}
inline Complex operator-(Complex a, Complex b) {
  return {a.re - b.re, a.im - b.im};
}
inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
inline Complex operator*(Complex a, Value b) {
  return {a.re * b, a.im * b};
}
inline Value operator==(Complex a, Complex b) {
  return (a.re == b.re) & (a.im == b.im);
}
inline Value operator!=(Complex a, Complex b) {
  return (a.re != b.re) | (a.im != b.im);
}
inline Complex select(Value condition, Complex a, Complex b) {
  return {select(condition, a.re, b.re), select(condition, a.im, b.im)};
}

// abs() does not overflow: hypot() does not square large numbers.
inline Value abs(Complex a) {
  return hypot(a.re, a.im);
}
inline Value angle(Complex a) {
  return atan2(a.im, a.re);
}

// Smith's algorithm: scales by the larger part of the divisor. If the divisor is zero,
// each part of a is divided by zero separately.
inline Complex operator/(Complex a, Complex b) {
  const Value wide = abs(b.re) >= abs(b.im);
  const Value p = select(wide, b.re, b.im), q = select(wide, b.im, b.re);
  const Value nothing = wide & (p == 0.0);
  const Value ratio = select(nothing, 0.0, q / p);
  const Value scale = recip(select(nothing, abs(p), p + q * ratio));
  const Value x = select(wide, a.re, a.im), y = select(wide, a.im, a.re);
  const Value re = select(nothing, x, x + y * ratio) * scale;
  const Value im = select(nothing, y, y - x * ratio) * scale;
  return {re, select(wide, im, -im)};
}

inline Complex recip(Complex a) {
  const Value one = number(a.re, 1.0), zero = number(a.re, 0.0);
  const Complex quotient = Complex{one, zero} / a;
  return select(isinf(a.re) & isinf(a.im), Complex{zero, zero}, quotient);
}

// a / |a|, or 0 if a is 0.
inline Complex sgn(Complex a) {
  const Value size = abs(a);
  return {
      select(size == 0.0, 0.0, a.re / size),
      select(size == 0.0, 0.0, a.im / size)};
}

inline Complex polar(Value size, Value angle) {
  return {size * cos(angle), size * sin(angle)};
}

// Avoids infinity times 0 on the real axis. If the real part is infinite, the imaginary
// part need not be finite. A part may be finite even if the absolute value is not.
inline Complex exp(Complex a) {
  const Value size = exp(a.re), root = exp(a.re * 0.5);
  const Complex turned = select(isinf(size), polar(root, a.im) * root, polar(size, a.im));
  const Value lost = isinf(a.re) & (isfinite(a.im) == 0.0);
  const Value im = select(a.re < 0.0, 0.0, turned.im);
  const Complex far = select(lost, Complex{size, im}, turned);
  return select(a.im == 0.0, Complex{size, a.im}, far);
}

// Computes in F64, so that the squares of numbers near 1 keep all digits of F32. Scales
// large F64 numbers down.
inline Value log_abs(Complex a) {
  Program& p = *a.re.program;
  const Value re = p.convert(abs(a.re), OPENREG_VT_F64);
  const Value im = p.convert(abs(a.im), OPENREG_VT_F64);
  const Value most = max(re, im), least = min(re, im);
  const Value square = fma(least, least, (most - 1.0) * (most + 1.0));
  const Value huge = most > 1e300;
  const Value scale = select(huge, 0.25, number(re, 1.0));
  const Value size = hypot(re * scale, im * scale);
  const Value usual = log(size) + select(huge, 2 * M_LN2, number(re, 0.0));
  const Value near = (most > 0.5) & (most < 2.0);
  return p.convert(select(near, log1p(square) * 0.5, usual), a.re.type);
}

inline Complex log(Complex a) {
  return {log_abs(a), angle(a)};
}

} // namespace openreg
