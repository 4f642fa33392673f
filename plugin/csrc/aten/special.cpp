// SPDX-License-Identifier: BSD-3-Clause
// Special functions for which the card has no instruction. They compute in F64 for all
// types of tensors.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/erfinv_meta.h>
#include <ATen/ops/i0_meta.h>
#include <ATen/ops/mvlgamma.h>
#include <ATen/ops/nextafter_meta.h>
#include <ATen/ops/special_erfcx_meta.h>
#include <ATen/ops/special_i0e_meta.h>
#include <ATen/ops/special_i1_meta.h>
#include <ATen/ops/special_i1e_meta.h>
#include <ATen/ops/special_log_ndtr_meta.h>
#include <ATen/ops/special_modified_bessel_i0_meta.h>
#include <ATen/ops/special_modified_bessel_i1_meta.h>
#include <ATen/ops/special_ndtri_meta.h>
#include <ATen/ops/special_spherical_bessel_j0_meta.h>
#include <ATen/native/UnaryOps.h>
#include <c10/core/DefaultDtype.h>

#include <cmath>
#include <limits>

namespace openreg {

namespace {

using at::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity();

// Whether the result is not double. The result of integers has the default type.
bool single(const Tensor& self) {
  const bool whole = c10::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  return (whole ? c10::get_default_dtype_as_scalartype() : self.scalar_type()) != at::kDouble;
}

template <class Formula, bool EvenDoubles>
struct InDouble {
  static bool serves(const Tensor& self) {
    return EvenDoubles || single(self);
  }
  template <class Op, class... Args>
  void operator()(OpId id, Op& op, Args&...) const {
    pointwise(op, id, at::kDouble, [](Pointwise& p) {
      return Formula{}(p.in(0));
    });
  }
};

template <class Meta, bool EvenDoubles = true, class NamesT, class Formula>
void add_in_double(torch::Library& m, NamesT names, Formula) {
  add_op<Meta>(m, names, InDouble<Formula, EvenDoubles>());
}

// Returns y >= 0 with erfc(y) = c and erf(y) = x = 1 - c, by Winitzki's approximation.
// The approximation is correct to two digits, so F32 is enough.
Value near_inverse_erf(Value c, Value x) {
  Program& p = *c.program;
  const Value half_log = log(p.convert(c * (1.0 + x), OPENREG_VT_F32)) * 0.5;
  const Value t = half_log + 2 / (M_PI * 0.147);
  return p.convert(sqrt(sqrt(t * t - half_log * (2 / 0.147)) - t), c.type);
}

// One step of Halley's method; over is the error of erf(y).
Value halley(Value y, Value over) {
  const Value u = over * exp(y * y) * (std::sqrt(M_PI) / 2);
  return y - u / (u * y + 1.0);
}

// Uses c or x, whichever is smaller: the smaller of them is exact.
Value erfinv(Value value) {
  const Value x = abs(value), c = 1.0 - x, tail = c < 0.5;
  Value y = near_inverse_erf(c, x);
  for (int i = 0; i < 2; i++) {
    y = halley(y, select(tail, c - erfc(y), erf(y) - x));
  }
  return copysign(select(c == 0.0, kInf, y), value);
}

// Computes from the nearer tail. erfc is enough also near 1/2: the distances from 1/2
// that F32 can hold are large for F64. For the first step, erfc in F32 is enough.
Value ndtri(Value p) {
  const Value low = p < 0.5;
  const Value c = select(low, p, 1.0 - p) * 2.0;
  Value y = near_inverse_erf(c, 1.0 - c);
  const Value rough = erfc(p.program->convert(y, OPENREG_VT_F32));
  y = halley(y, c - p.program->convert(rough, c.type));
  y = halley(y, c - erfc(y));
  y = select(c == 0.0, kInf, y) * M_SQRT2;
  return select(low, -y, y);
}

// From 20 on uses a series: exp(x * x) * erfc(x) would multiply a huge and a tiny number.
Value erfcx(Value x) {
  const Value r = recip(x * x), one = number(x, 1.0);
  Value series = one;
  for (int i = 7; i >= 1; i--) {
    series = one - r * series * (i - 0.5);
  }
  const Value far = series / (x * std::sqrt(M_PI));
  return select(x > 20.0, far, exp(x * x) * erfc(x));
}

Value log_ndtr(Value x) {
  const Value t = x * M_SQRT1_2;
  const Value tail = log(erfcx(-t) * 0.5) - t * t;
  return select(x < -1.0, tail, log1p(erfc(t) * -0.5));
}

Value spherical_bessel_j0(Value x) {
  const Value quotient = select(isinf(x), 0.0, sin(x) / x);
  return select(x == 0.0, 1.0, quotient);
}

void add_error_functions(torch::Library& m) {
  // Not for doubles: two steps are too few near 1, and a program has no room for more.
  add_in_double<at::meta::structured_erfinv, false>(
      m, Names{"erfinv", "erfinv_", "erfinv.out"}, [](Value x) { return erfinv(x); });
  // Not for doubles: two steps are too few for probabilities that only F64 can hold.
  add_in_double<at::meta::structured_special_ndtri, false>(
      m,
      NamesWithoutInplace{"special_ndtri", "special_ndtri.out"},
      [](Value x) { return ndtri(x); });
  add_in_double<at::meta::structured_special_erfcx>(
      m,
      NamesWithoutInplace{"special_erfcx", "special_erfcx.out"},
      [](Value x) { return erfcx(x); });
  add_in_double<at::meta::structured_special_log_ndtr>(
      m,
      NamesWithoutInplace{"special_log_ndtr", "special_log_ndtr.out"},
      [](Value x) { return log_ndtr(x); });
  add_in_double<at::meta::structured_special_spherical_bessel_j0>(
      m,
      NamesWithoutInplace{
          "special_spherical_bessel_j0", "special_spherical_bessel_j0.out"},
      [](Value x) { return spherical_bessel_j0(x); });
}

// Modified Bessel functions of the first kind, times exp(-|x|): Abramowitz and Stegun
// 9.8.1 to 9.8.4, with an error of 2e-7. That is enough for F32, but not for F64.
constexpr double kI0Near[] = {1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813};
constexpr double kI0Far[] = {0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281,
                             -0.02057706, 0.02635537, -0.01647633, 0.00392377};
constexpr double kI1Near[] = {0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411};
constexpr double kI1Far[] = {0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555,
                             0.02282967, -0.02895312, 0.01787654, -0.00420059};
constexpr double kFar = 3.75;

template <size_t N>
Value polynomial(Value x, const double (&c)[N]) {
  Value y = number(x, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) {
    y = fma(y, x, number(x, c[i]));
  }
  return y;
}

template <int Order, bool Scaled>
struct BesselI {
  static bool serves(const Tensor& self) {
    return single(self);
  }

  // The coefficients are too many for one packet.
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self) const {
    const Tensor& out = op.maybe_get_output(0);
    const Tensor near = at::empty(out.sizes(), out.options());
    Step first(id, out, at::kDouble);
    const Value x = first.load(self);
    const Value t = x * (1 / kFar);
    Value y = polynomial(t * t, Order ? kI1Near : kI0Near);
    y = Order ? y * x : y;
    first.store(near, Scaled ? y * exp(-abs(x)) : y);
    first.run();

    Step second(id, out, at::kDouble);
    const Value z = second.load(self), size = abs(z);
    Value far = polynomial(kFar / size, Order ? kI1Far : kI0Far) * rsqrt(size);
    far = Scaled ? far : far * exp(size);
    far = Order ? copysign(far, z) : far;
    far = select(isinf(z), Scaled ? number(z, 0.0) : (Order ? z : size), far);
    second.store(out, select(size > kFar, far, second.load(near)));
    second.run(Part::FURTHER);
  }
};

// Core passes the tensor that receives the window.
void kaiser_window(at::TensorIteratorBase& iter, int64_t length, double beta) {
  const Tensor& out = iter.tensor(0);
  const auto type = out.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const double middle = static_cast<double>(length - 1) / 2;
  const Tensor x = at::arange(length, out.options().dtype(type)).div_(middle).sub_(1);
  const Tensor height = x.square_().neg_().add_(1).clamp_min_(0).sqrt_().mul_(beta);
  const Tensor top = at::full({}, beta, height.options());
  out.copy_(height.i0().div_(top.i0()));
}

void add_bessel_functions(torch::Library& m) {
  add_op<at::meta::structured_i0>(m, Names{"i0", "i0_", "i0.out"}, BesselI<0, false>());
  add_op<at::meta::structured_special_i0e>(
      m, NamesWithoutInplace{"special_i0e", "special_i0e.out"}, BesselI<0, true>());
  add_op<at::meta::structured_special_i1>(
      m, NamesWithoutInplace{"special_i1", "special_i1.out"}, BesselI<1, false>());
  add_op<at::meta::structured_special_i1e>(
      m, NamesWithoutInplace{"special_i1e", "special_i1e.out"}, BesselI<1, true>());
  add_op<at::meta::structured_special_modified_bessel_i0>(
      m,
      NamesWithoutInplace{"special_modified_bessel_i0", "special_modified_bessel_i0.out"},
      BesselI<0, false>());
  add_op<at::meta::structured_special_modified_bessel_i1>(
      m,
      NamesWithoutInplace{"special_modified_bessel_i1", "special_modified_bessel_i1.out"},
      BesselI<1, false>());
}

// The bits of neighbouring floating-point numbers, as integers, differ by 1.
struct NextAfter {
  static bool serves(const Tensor& self, const Tensor& other) {
    const auto type = self.scalar_type();
    return (type == at::kFloat || type == at::kDouble) && other.scalar_type() == type;
  }

  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, const Tensor& other) const {
    const Tensor& out = op.maybe_get_output(0);
    const bool wide = self.scalar_type() == at::kDouble;
    const auto bits = wide ? at::kLong : at::kInt;
    const Tensor from = self.to(out.device()), to = other.to(out.device());
    const bool narrowed = out.scalar_type() != self.scalar_type();
    const Tensor result = narrowed ? at::empty(out.sizes(), from.options()) : out;
    Step s(id, result, bits);
    Program& p = s.program;
    const uint8_t type = vector_type(self.scalar_type());
    const Value a = p.load(s.add(from), type), b = p.load(s.add(to), type);
    const Value ai = s.load(from.view(bits)), bi = s.load(to.view(bits));
    const Value outward = (b > a) == (a > 0.0);
    const Value step = ai + select(outward, 1.0, number(ai, -1.0));
    const int64_t least = wide ? INT64_MIN + 1 : INT32_MIN + 1;
    const Value tiny = select(b > 0.0, p.imm(1, ai.type), p.imm(least, ai.type));
    const Value moved = select(a == b, bi, select(a == 0.0, tiny, step));
    const int64_t nan = wide ? 0x7ff8000000000000 : 0x7fc00000;
    s.store(result.view(bits), select(isnan(a) | isnan(b), p.imm(nan, ai.type), moved));
    s.run();
    if (narrowed) {
      const_cast<Tensor&>(out).copy_(result);
    }
  }
};

struct FrexpName {
  static inline OpName name;
};

// x = mantissa * 2^exponent, with |mantissa| in [0.5, 1).
std::tuple<Tensor&, Tensor&> frexp_out(const Tensor& self, Tensor& mantissa, Tensor& exponent) {
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(
      mantissa.dtype() == self.dtype(),
      "torch.frexp() expects mantissa to have dtype ",
      self.dtype(),
      " but got ",
      mantissa.dtype());
  TORCH_CHECK(
      exponent.dtype() == at::kInt,
      "torch.frexp() expects exponent to have int dtype but got ",
      exponent.dtype());
  if (!on_card(self) || !on_card(mantissa)) {
    return fallback<std::tuple<Tensor&, Tensor&>, const Tensor&, Tensor&, Tensor&>(
        FrexpName::name, self, mantissa, exponent);
  }
  auto iter = at::TensorIteratorConfig()
                  .set_check_mem_overlap(true)
                  .check_all_same_dtype(false)
                  .add_output(mantissa)
                  .add_output(exponent)
                  .add_const_input(self)
                  .build();
  if (iter.numel() == 0) {
    return {mantissa, exponent};
  }
  Pointwise p(iter, self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Value x = p.in(0);
  const Value usual = isfinite(x) & (x != 0.0);
  Value e = floor(log2(abs(x))) + 1.0;
  e = select(usual, e, 0.0);
  // Scale in two steps, so that no power of two is out of range. Correct the exponent:
  // the logarithm may be off by one.
  const Value half = trunc(e * 0.5);
  const Value m = x * exp2(-half) * exp2(half - e);
  const Value large = usual & (abs(m) >= 1.0), small = usual & (abs(m) < 0.5);
  p.out(0, select(large, m * 0.5, select(small, m * 2.0, m)));
  p.out(1, select(large, e + 1.0, select(small, e - 1.0, e)));
  launch(iter, p, FrexpName::name.id);
  return {mantissa, exponent};
}

Tensor& mvlgamma_out(const Tensor& self, int64_t p, Tensor& out) {
  const Tensor result = at::mvlgamma(self, p);
  TORCH_CHECK(
      c10::canCast(result.scalar_type(), out.scalar_type()),
      "mvlgamma: result type ",
      result.scalar_type(),
      " can't be cast to the desired output type ",
      out.scalar_type());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_error_functions(m);
  add_bessel_functions(m);
  add_op<at::meta::structured_nextafter>(
      m, Names{"nextafter", "nextafter_", "nextafter.out"}, NextAfter());
  FrexpName::name.set("frexp.Tensor_out");
  m.impl("frexp.Tensor_out", frexp_out);
  m.impl("mvlgamma.out", mvlgamma_out);
}

} // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &openreg::kaiser_window)
} // namespace at::native
