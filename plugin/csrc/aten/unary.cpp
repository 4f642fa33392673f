// SPDX-License-Identifier: BSD-3-Clause
// Unary operators, one line for each operator.
#include "aten/structured.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/acos_meta.h>
#include <ATen/ops/acosh_meta.h>
#include <ATen/ops/asin_meta.h>
#include <ATen/ops/asinh_meta.h>
#include <ATen/ops/atan_meta.h>
#include <ATen/ops/atanh_meta.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cosh_meta.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erfc_meta.h>
#include <ATen/ops/exp2_meta.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/expm1_meta.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/frac_meta.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/lgamma_meta.h>
#include <ATen/ops/log10_meta.h>
#include <ATen/ops/log1p_meta.h>
#include <ATen/ops/log2_meta.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/signbit_meta.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sinc_meta.h>
#include <ATen/ops/sinh_meta.h>
#include <ATen/ops/special_entr_meta.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/tan_meta.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/trunc_meta.h>

#include <cmath>
#include <limits>

namespace openreg {

namespace {

using at::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity();

// Shape functions of operators that are not structured in core.
//
// The result of complex numbers is real. out= may still be complex.
struct real_result_meta : at::TensorIteratorBase {
  void real_result(const Tensor& self) {
    const Tensor& out = maybe_get_output(0);
    const auto type = c10::toRealValueType(self.scalar_type());
    TORCH_CHECK(
        !out.defined() || c10::canCast(type, out.scalar_type()),
        "result type ",
        type,
        " can't be cast to the desired output type ",
        out.scalar_type());
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .declare_static_dtype(out.defined() ? out.scalar_type() : type)
              .add_borrowed_output(out)
              .add_borrowed_const_input(self));
  }
};

struct abs_meta : real_result_meta {
  void meta(const Tensor& self) {
    if (!self.is_complex()) {
      build_borrowing_unary_op(maybe_get_output(0), self);
      return;
    }
    real_result(self);
  }
};

struct angle_meta : real_result_meta {
  void meta(const Tensor& self) {
    if (self.is_complex()) {
      real_result(self);
    } else {
      build_borrowing_unary_float_op(maybe_get_output(0), self);
    }
  }
};

struct logical_not_meta : at::TensorIteratorBase {
  void meta(const Tensor& self) {
    const Tensor& out = maybe_get_output(0);
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .declare_static_dtype(out.defined() ? out.scalar_type() : at::kBool)
              .add_borrowed_output(out)
              .add_borrowed_const_input(self));
  }
};

struct isnan_meta : at::TensorIteratorBase {
  void meta(const Tensor& self) {
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .declare_static_dtype(at::kBool)
              .add_borrowed_output(maybe_get_output(0))
              .add_borrowed_const_input(self));
  }
};

struct logit_meta : at::TensorIteratorBase {
  void meta(const Tensor& self, std::optional<double>) {
    build_borrowing_unary_float_op(maybe_get_output(0), self);
  }
};

using OptDouble = std::optional<double>;
struct nan_to_num_meta : at::TensorIteratorBase {
  void meta(const Tensor& self, OptDouble, OptDouble, OptDouble) {
    build_borrowing_unary_op(maybe_get_output(0), self);
  }
};

Value bit_not(Pointwise& p, Value x) {
  return p.compute() == at::kBool ? x == 0.0 : ~x;
}

// Rounding does not change integers.
Value to_whole(Value (*round)(Value), Value x) {
  return is_float(x.type) ? round(x) : x;
}

// The card's sign of NaN is NaN; core's is 0.
Value sign_of(Value x) {
  return is_float(x.type) ? select(isnan(x), 0.0, sign(x)) : sign(x);
}

Value sinc(Value x) {
  const Value y = x * M_PI;
  return select(x == 0.0, 1.0, sin(y) / y);
}

// Integers are never infinite.
Value equals(Value x, double value) {
  return is_float(x.type) ? x == value : x.program->imm(0, OPENREG_VT_I32);
}

Value logit(Value x, OptDouble eps) {
  if (eps) { // clamp in core's order: it matters if eps is more than 1/2
    x = select(x < *eps, *eps, select(x > 1.0 - *eps, 1.0 - *eps, x));
  }
  return log(x / (1.0 - x));
}

Value entropy(Value x) {
  return select(x > 0.0, -x * log(x), select(x == 0.0, 0.0, min(x, -kInf)));
}

// The largest finite number of this type.
double largest(c10::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::max();
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

Value nan_to_num(Pointwise& p, OptDouble nan, OptDouble high, OptDouble low) {
  const Value x = p.in(0);
  if (!is_float(x.type)) {
    return x;
  }
  const double top = largest(p.compute());
  const Value y = high || low
      ? select(x == kInf, high.value_or(top), select(x == -kInf, low.value_or(-top), x))
      : min(max(x, -top), top);
  return select(isnan(x), nan.value_or(0), y);
}

// Rounds to a number of decimals. A negative number rounds to tens, hundreds and so on.
Value round_decimals(Value x, int64_t decimals) {
  const double tens = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  if (decimals == 0) {
    return rint(x);
  }
  return decimals < 0 ? rint(x / tens) * tens : rint(x * tens) / tens;
}

// name: of the operator and of core's shape function; formula: the result for the input x
#define UNARY(name, formula)                                   \
  add_pointwise<at::meta::structured_##name>(                  \
      m, Names{#name, #name "_", #name ".out"},                \
      [](Pointwise& p, const Tensor&) { Value x = p.in(0); return formula; });

// Like UNARY; of_pairs is the result for a complex x.
#define UNARY_OF_PAIRS(name, formula, of_pairs)                                   \
  add_pointwise<at::meta::structured_##name>(                                     \
      m, Names{#name, #name "_", #name ".out"},                                   \
      [](Pointwise& p, const Tensor&) { Value x = p.in(0); return formula; },     \
      [](Pointwise& p, const Tensor&) { Complex x = p.in_complex(0); return of_pairs; });

void add_unary(torch::Library& m) {
  UNARY(acos, acos(x))
  UNARY(acosh, acosh(x))
  UNARY(asin, asin(x))
  UNARY(asinh, asinh(x))
  UNARY(atan, atan(x))
  UNARY(atanh, atanh(x))
  UNARY(bitwise_not, bit_not(p, x))
  UNARY(ceil, to_whole(ceil, x))
  UNARY(cos, cos(x))
  UNARY(cosh, cosh(x))
  UNARY(erf, erf(x))
  UNARY(erfc, erfc(x))
  UNARY_OF_PAIRS(exp, exp(x), exp(x))
  UNARY(exp2, exp2(x))
  UNARY(expm1, expm1(x))
  UNARY(floor, to_whole(floor, x))
  UNARY(frac, x - trunc(x))
  UNARY(lgamma, lgamma(x))
  UNARY_OF_PAIRS(log, log(x), log(x))
  UNARY(log10, log10(x))
  UNARY(log1p, log1p(x))
  UNARY(log2, log2(x))
  UNARY_OF_PAIRS(neg, -x, -x)
  UNARY_OF_PAIRS(reciprocal, recip(x), recip(x))
  UNARY(round, to_whole(rint, x))
  UNARY(rsqrt, rsqrt(x))
  UNARY_OF_PAIRS(sgn, sign_of(x), sgn(x))
  UNARY(sigmoid, sigmoid(x))
  UNARY(sign, sign_of(x))
  UNARY(sin, sin(x))
  UNARY(sinc, sinc(x))
  UNARY(sinh, sinh(x))
  UNARY(sqrt, sqrt(x))
  UNARY(tan, tan(x))
  UNARY(tanh, tanh(x))
  UNARY(trunc, to_whole(trunc, x))
}
#undef UNARY_OF_PAIRS
#undef UNARY

// Like the first UNARY, without an in-place form.
#define UNARY(name, shape, formula)                \
  add_pointwise<shape>(                            \
      m, NamesWithoutInplace{#name, #name ".out"}, \
      [](Pointwise& p, const Tensor&) { Value x = p.in(0); return formula; });

void add_predicates(torch::Library& m) {
  UNARY(isneginf, at::meta::structured_isneginf, equals(x, -kInf))
  UNARY(isposinf, at::meta::structured_isposinf, equals(x, kInf))
  UNARY(signbit, at::meta::structured_signbit, signbit(x))
  UNARY(special_entr, at::meta::structured_special_entr, entropy(x))
}
#undef UNARY

void add_parametrised(torch::Library& m) {
  add_pointwise<at::meta::structured_round_decimals>(
      m,
      Names{"round.decimals", "round_.decimals", "round.decimals_out"},
      [](Pointwise& p, const Tensor&, int64_t decimals) {
        return round_decimals(p.in(0), decimals);
      });
  add_pointwise<logit_meta>(
      m,
      Names{"logit", "logit_", "logit.out"},
      [](Pointwise& p, const Tensor&, OptDouble eps) { return logit(p.in(0), eps); });
  add_pointwise<nan_to_num_meta>(
      m,
      OutName{"nan_to_num.out"},
      [](Pointwise& p, const Tensor&, OptDouble nan, OptDouble high, OptDouble low) {
        return nan_to_num(p, nan, high, low);
      });
}

void add_unstructured(torch::Library& m) {
  add_pointwise<angle_meta>(
      m,
      NamesWithoutInplace{"angle", "angle.out"},
      [](Pointwise& p, const Tensor&) {
        const Value x = p.in(0);
        return select(isnan(x), x, select(x < 0.0, M_PI, number(x, 0.0)));
      },
      [](Pointwise& p, const Tensor&) { return angle(p.in_complex(0)); });
  add_pointwise<abs_meta>(
      m,
      NamesWithoutInplace{"abs", "abs.out"},
      [](Pointwise& p, const Tensor&) { return abs(p.in(0)); },
      [](Pointwise& p, const Tensor&) { return abs(p.in_complex(0)); });
  add_pointwise<logical_not_meta>(
      m,
      Names{"logical_not", "logical_not_", "logical_not.out"},
      [](Pointwise& p, const Tensor& self) {
        return p.in_as(0, self.scalar_type()) == 0.0;
      });
  add_pointwise<isnan_meta>(
      m, FunctionalName{"isnan"}, [](Pointwise& p, const Tensor& self) {
        const Value x = p.in_as(0, self.scalar_type());
        return x != x;
      },
      [](Pointwise& p, const Tensor&) {
        const Complex x = p.in_complex(0);
        return x != x;
      });
}

Tensor& abs_inplace(Tensor& self) {
  TORCH_CHECK(
      !self.is_complex(), "In-place abs is not supported for complex tensors.");
  return at::abs_out(self, self);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("abs_", abs_inplace);
  add_unary(m);
  add_predicates(m);
  add_parametrised(m);
  add_unstructured(m);
}

} // namespace openreg
