// SPDX-License-Identifier: BSD-3-Clause
// Binary operators and comparisons, one line for each operator.
#include "aten/structured.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/copysign_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/fmax_meta.h>
#include <ATen/ops/fmin_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/heaviside_meta.h>
#include <ATen/ops/hypot_meta.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/logaddexp2_meta.h>
#include <ATen/ops/logaddexp_meta.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/xlogy_meta.h>

#include <cmath>
#include <string_view>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

struct logical_meta : at::TensorIteratorBase {
  void meta(const Tensor& self, const Tensor& other) {
    const Tensor& out = maybe_get_output(0);
    build(at::TensorIteratorConfig()
              .set_check_mem_overlap(true)
              .allow_cpu_scalars(true)
              .promote_inputs_to_common_dtype(true)
              .declare_static_dtype(out.defined() ? out.scalar_type() : at::kBool)
              .add_borrowed_output(out)
              .add_borrowed_const_input(self)
              .add_borrowed_const_input(other));
  }
};

struct floor_divide_meta : at::TensorIteratorBase {
  void meta(const Tensor& self, const Tensor& other) {
    build_borrowing_binary_op(maybe_get_output(0), self, other);
  }
};

// a + alpha * b. The usual alpha of 1 needs no extra instruction.
Value add_scaled(Pointwise& p, Value a, Value b, const Scalar& alpha) {
  return alpha.equal(1) ? a + b : fma(b, p(alpha), a);
}

Value sub_scaled(Pointwise& p, Value a, Value b, const Scalar& alpha) {
  return alpha.equal(1) ? a - b : fma(-b, p(alpha), a);
}

Complex scaled(Pointwise& p, Complex x, const Scalar& alpha) {
  return alpha.equal(1) ? x : x * p.complex(alpha);
}

// Rounds a quotient of halves before the caller truncates or floors it, as other devices
// do.
Value half_quotient(Pointwise& p, Value q) {
  const bool half = p.compute() == at::kHalf || p.compute() == at::kBFloat16;
  return half ? p.round_to(q, card_dtype(p.compute())) : q;
}

Value divide(
    Pointwise& p,
    Value a,
    Value b,
    std::optional<std::string_view> mode) {
  if (!mode.has_value()) {
    return a / b;
  }
  if (*mode == "floor") {
    return div_floor(a, b);
  }
  return is_float(a.type) ? trunc(half_quotient(p, a / b)) : a / b;
}

Value power(Pointwise& p, Value x, const Scalar& exponent) {
  const double e = exponent.toDouble();
  if (e == 1) {
    return x;
  }
  if (e == 2) {
    return x * x;
  }
  if (e == 3) {
    return x * x * x;
  }
  if (is_float(x.type)) {
    if (e == 0.5) {
      return sqrt(x);
    }
    if (e == -0.5) {
      return rsqrt(x);
    }
    if (e == -1) {
      return recip(x);
    }
    if (e == -2) {
      return recip(x * x);
    }
  }
  return pow(x, p(exponent));
}

// a * logarithm. The result is 0 where a is 0, but NaN where b is NaN.
Value xlogy(Value a, Value b, Value logarithm) {
  const Value product = select(a == 0.0, a * 0.0, a * logarithm);
  return select(isnan(b), b, product);
}

// log(exp(a) + exp(b)): the larger number plus more(smaller - larger). If both are the
// same infinity, the difference is NaN, and the result is the infinity.
template <class Formula>
Value log_add(Value a, Value b, Formula&& more) {
  const Value top = max(a, b);
  return top + fmax(more(min(a, b) - top), 0.0);
}

// names: of the operator's forms; shape: core's shape function; formula: the result for
// the inputs a and b
#define BINARY(names, shape, formula)                      \
  add_pointwise<at::meta::structured_##shape>(             \
      m, names, [](Pointwise& p, const Tensor&, const Tensor&) { \
        Value a = p.in(0), b = p.in(1); return formula; });
#define BINARY_ROUNDED(names, shape, formula)              \
  add_pointwise<at::meta::structured_##shape>(             \
      m, names, [](Pointwise& p, const Tensor&, const Tensor&) { \
        Value a = p.in_rounded(0), b = p.in_rounded(1); return formula; });
// Like BINARY; the formula also computes the result for complex a and b.
#define BINARY_OF_PAIRS(names, shape, input, formula)                     \
  add_pointwise<at::meta::structured_##shape>(                            \
      m, names, [](Pointwise& p, const Tensor&, const Tensor&) {          \
        Value a = p.input(0), b = p.input(1); return formula; },          \
      [](Pointwise& p, const Tensor&, const Tensor&) {                    \
        Complex a = p.input##_complex(0), b = p.input##_complex(1); return formula; });
#define PLAIN(op) \
  (Names{#op, #op "_", #op ".out"})
#define FUNCTION(op) \
  (NamesWithoutInplace{#op, #op ".out"})
#define TENSOR(op) \
  (Names{#op ".Tensor", #op "_.Tensor", #op ".Tensor_out"})
#define TENSOR_OUT(op) \
  (Names{#op ".Tensor", #op "_.Tensor", #op ".out"})

void add_arithmetic(torch::Library& m) {
  BINARY(PLAIN(atan2), atan2, atan2(a, b))
  BINARY(TENSOR_OUT(copysign), copysign_Tensor, copysign(a, b))
  BINARY_OF_PAIRS(TENSOR_OUT(div), div_Tensor, in, a / b)
  BINARY(FUNCTION(fmax), fmax, is_float(a.type) ? fmax(a, b) : max(a, b))
  BINARY(FUNCTION(fmin), fmin, is_float(a.type) ? fmin(a, b) : min(a, b))
  BINARY_ROUNDED(TENSOR(fmod), fmod_Tensor, fmod(a, b))
  BINARY(PLAIN(heaviside), heaviside, select(a == 0.0, b, p.convert(a > 0.0, a.type)))
  BINARY(PLAIN(hypot), hypot, hypot(a, b))
  BINARY(FUNCTION(logaddexp), logaddexp, log_add(a, b, [](Value d) { return log1p(exp(d)); }))
  BINARY(FUNCTION(logaddexp2), logaddexp2,
         log_add(a, b, [](Value d) { return log1p(exp2(d)) * M_LOG2E; }))
  BINARY(FUNCTION(maximum), maximum, max(a, b))
  BINARY(FUNCTION(minimum), minimum, min(a, b))
  BINARY_OF_PAIRS(TENSOR_OUT(mul), mul_Tensor, in, a * b)
  BINARY((Names{"pow.Tensor_Tensor", "pow_.Tensor", "pow.Tensor_Tensor_out"}),
         pow_Tensor_Tensor, pow(a, b))
  BINARY_ROUNDED(TENSOR(remainder), remainder_Tensor, remainder(a, b))
  BINARY((Names{"xlogy.Tensor", "xlogy_.Tensor", "xlogy.OutTensor"}),
         xlogy_Tensor, xlogy(a, b, log(b)))
  BINARY(FUNCTION(special_xlog1py), special_xlog1py, xlogy(a, b, log1p(b)))
}

void add_bits(torch::Library& m) {
  BINARY(TENSOR(bitwise_and), bitwise_and_Tensor, a & b)
  BINARY(TENSOR(bitwise_left_shift), bitwise_left_shift_Tensor, a << b)
  BINARY(TENSOR(bitwise_or), bitwise_or_Tensor, a | b)
  BINARY(TENSOR(bitwise_right_shift), bitwise_right_shift_Tensor, a >> b)
  BINARY(TENSOR(bitwise_xor), bitwise_xor_Tensor, a ^ b)
}

void add_comparisons(torch::Library& m) {
  BINARY_OF_PAIRS(TENSOR(eq), eq_Tensor, in_rounded, a == b)
  BINARY_ROUNDED(TENSOR(ge), ge_Tensor, a >= b)
  BINARY_ROUNDED(TENSOR(gt), gt_Tensor, a > b)
  BINARY_ROUNDED(TENSOR(le), le_Tensor, a <= b)
  BINARY_ROUNDED(TENSOR(lt), lt_Tensor, a < b)
  BINARY_OF_PAIRS(TENSOR(ne), ne_Tensor, in_rounded, a != b)
}

// Operators with a number on the right. Core passes the number as a tensor.
#define SCALAR(op, formula)                                                 \
  add_pointwise<at::meta::structured_##op##_Scalar>(                        \
      m, Names{#op ".Scalar", #op "_.Scalar", #op ".Scalar_out"},           \
      [](Pointwise& p, const Tensor&, const Scalar&) {                      \
        Value a = p.in_rounded(0), b = p.in_rounded(1); return formula; });

#define SCALAR_OF_PAIRS(op, formula)                                        \
  add_pointwise<at::meta::structured_##op##_Scalar>(                        \
      m, Names{#op ".Scalar", #op "_.Scalar", #op ".Scalar_out"},           \
      [](Pointwise& p, const Tensor&, const Scalar&) {                      \
        Value a = p.in_rounded(0), b = p.in_rounded(1); return formula; },  \
      [](Pointwise& p, const Tensor&, const Scalar&) {                      \
        Complex a = p.in_rounded_complex(0), b = p.in_rounded_complex(1); return formula; });

void add_scalar_comparisons(torch::Library& m) {
  SCALAR_OF_PAIRS(eq, a == b)
  SCALAR(ge, a >= b)
  SCALAR(gt, a > b)
  SCALAR(le, a <= b)
  SCALAR(lt, a < b)
  SCALAR_OF_PAIRS(ne, a != b)
}
#undef SCALAR_OF_PAIRS
#undef SCALAR

// a and b are tested against zero in their common type.
#define LOGICAL(op, formula)                                        \
  add_pointwise<logical_meta>(                                      \
      m, PLAIN(op), [](Pointwise& p, const Tensor&, const Tensor&) { \
        Value a = p.in_rounded(0) != 0.0, b = p.in_rounded(1) != 0.0;     \
        return formula; });

void add_logical(torch::Library& m) {
  LOGICAL(logical_and, a & b)
  LOGICAL(logical_or, a | b)
  LOGICAL(logical_xor, a ^ b)
}
#undef LOGICAL

// Operators with further arguments.
void add_special(torch::Library& m) {
  add_pointwise<at::meta::structured_add_Tensor>(
      m, TENSOR_OUT(add),
      [](Pointwise& p, const Tensor&, const Tensor&, const Scalar& alpha) {
        return add_scaled(p, p.in(0), p.in(1), alpha);
      },
      [](Pointwise& p, const Tensor&, const Tensor&, const Scalar& alpha) {
        return p.in_complex(0) + scaled(p, p.in_complex(1), alpha);
      });
  add_pointwise<at::meta::structured_sub_Tensor>(
      m, TENSOR_OUT(sub),
      [](Pointwise& p, const Tensor&, const Tensor&, const Scalar& alpha) {
        return sub_scaled(p, p.in(0), p.in(1), alpha);
      },
      [](Pointwise& p, const Tensor&, const Tensor&, const Scalar& alpha) {
        return p.in_complex(0) - scaled(p, p.in_complex(1), alpha);
      });
  add_pointwise<at::meta::structured_div_Tensor_mode>(
      m, (Names{"div.Tensor_mode", "div_.Tensor_mode", "div.out_mode"}),
      [](Pointwise& p, const Tensor&, const Tensor&,
         std::optional<std::string_view> mode) {
        return divide(p, p.in(0), p.in(1), mode);
      });
  add_pointwise<floor_divide_meta>(
      m, (Names{"floor_divide", "floor_divide_.Tensor", "floor_divide.out"}),
      [](Pointwise& p, const Tensor&, const Tensor&) {
        return div_floor(p.in(0), p.in(1));
      });
  add_pointwise<at::meta::structured_pow_Tensor_Scalar>(
      m, (Names{"pow.Tensor_Scalar", "pow_.Scalar", "pow.Tensor_Scalar_out"}),
      [](Pointwise& p, const Tensor&, const Scalar& exponent) {
        return power(p, p.in(0), exponent);
      });
}

Tensor pow_scalar(const Scalar& self, const Tensor& exponent) {
  return at::pow(at::native::wrapped_scalar_tensor(self), exponent);
}

Tensor& pow_scalar_out(const Scalar& self, const Tensor& exponent, Tensor& out) {
  return at::pow_out(out, at::native::wrapped_scalar_tensor(self), exponent);
}

Tensor remainder_scalar(const Scalar& self, const Tensor& other) {
  return at::remainder(at::native::wrapped_scalar_tensor(self), other);
}

Tensor sub_reversed(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return at::sub(other, self, alpha);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_arithmetic(m);
  add_bits(m);
  add_comparisons(m);
  add_scalar_comparisons(m);
  add_logical(m);
  add_special(m);
  m.impl("pow.Scalar", pow_scalar);
  m.impl("pow.Scalar_out", pow_scalar_out);
  m.impl("remainder.Scalar_Tensor", remainder_scalar);
  m.impl("rsub.Tensor", sub_reversed);
}

} // namespace openreg
