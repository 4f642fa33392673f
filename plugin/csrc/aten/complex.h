// SPDX-License-Identifier: BSD-3-Clause
// Complex numbers in VECTOR programs: pairs of Values. The card has no complex
// types; a tensor of one is two operands of a packet, its real and its
// imaginary parts, each with twice the stride.
#pragma once

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

// No square overflows in these.
inline Value abs(Complex a) {
  return hypot(a.re, a.im);
}
inline Value angle(Complex a) {
  return atan2(a.im, a.re);
}

// Smith's way: scaled by the larger part of the divisor. Nothing but zero
// divided by zero is NaN in both parts.
inline Complex operator/(Complex a, Complex b) {
  const Value wide = abs(b.re) >= abs(b.im);
  const Value p = select(wide, b.re, b.im), q = select(wide, b.im, b.re);
  const Value nothing = p == 0.0;
  const Value ratio = select(nothing, 0.0, q / p);
  const Value scale = recip(select(nothing, abs(p), p + q * ratio));
  const Value x = select(wide, a.re, a.im), y = select(wide, a.im, a.re);
  const Value im = (y - x * ratio) * scale;
  return {(x + y * ratio) * scale, select(wide, im, -im)};
}

inline Complex recip(Complex a) {
  const Value one = number(a.re, 1.0), zero = number(a.re, 0.0);
  const Complex quotient = Complex{one, zero} / a;
  return select(isinf(a.re) & isinf(a.im), Complex{zero, zero}, quotient);
}

// Towards the point, of length 1; 0 stays.
inline Complex sgn(Complex a) {
  const Value size = abs(a);
  return {
      select(size == 0.0, 0.0, a.re / size),
      select(size == 0.0, 0.0, a.im / size)};
}

inline Complex polar(Value size, Value angle) {
  return {size * cos(angle), size * sin(angle)};
}

// On the real axis there is no infinity times 0.
inline Complex exp(Complex a) {
  const Value size = exp(a.re);
  const Complex turned = polar(size, a.im);
  const Value zero = number(a.re, 0.0);
  const Complex flat = select(size == 0.0, Complex{zero, zero}, turned);
  return select(a.im == 0.0, Complex{size, a.im}, flat);
}

inline Complex log(Complex a) {
  return {log(abs(a)), angle(a)};
}

} // namespace openreg
