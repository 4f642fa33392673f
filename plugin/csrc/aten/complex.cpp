// SPDX-License-Identifier: BSD-3-Clause
// complex, polar and conj_physical: operators that create complex numbers, or write
// conjugates to memory. Complex arithmetic is in the files of the real operators.
#include "aten/structured.h"

#include <ATen/ops/conj_physical.h>

namespace openreg {

namespace {

using at::Tensor;

bool is_part(c10::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf;
}

// Shape function of complex and polar, which take two tensors of parts. Core has the
// functional form.
struct parts_meta : at::TensorIteratorBase {
  void meta(const Tensor& a, const Tensor& b) {
    TORCH_CHECK(
        is_part(a.scalar_type()) && is_part(b.scalar_type()),
        "Expected both inputs to be Half, Float or Double tensors but got ",
        a.scalar_type(),
        " and ",
        b.scalar_type());
    TORCH_CHECK(
        a.scalar_type() == b.scalar_type(),
        "Expected object of scalar type ",
        a.scalar_type(),
        " but got scalar type ",
        b.scalar_type(),
        " for second argument");
    const Tensor& out = maybe_get_output(0);
    const auto type = c10::toComplexType(a.scalar_type());
    TORCH_CHECK(
        out.scalar_type() == type,
        "Expected object of scalar type ",
        type,
        " but got scalar type ",
        out.scalar_type(),
        " for argument 'out'");
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .declare_static_dtype(type)
              .add_borrowed_output(out)
              .add_borrowed_const_input(a)
              .add_borrowed_const_input(b));
  }
};

template <class Formula>
struct OfParts {
  static constexpr bool pairs = true;
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, const Tensor& b) const {
    pointwise(op, id, op.dtype(0), [&](Pointwise& p) {
      return Formula{}(
          p.in_as(0, a.scalar_type()), p.in_as(1, b.scalar_type()));
    });
  }
};

template <class Formula>
void add_of_parts(torch::Library& m, const char* name, Formula) {
  add_op<parts_meta>(m, OutName{name}, OfParts<Formula>());
}

struct unary_meta : at::TensorIteratorBase {
  void meta(const Tensor& self) {
    build_borrowing_unary_op(maybe_get_output(0), self);
  }
};

// Core's in-place form needs a kernel for each device.
Tensor& conjugate_in_place(Tensor& self) {
  return self.is_complex() ? at::conj_physical_out(self, self) : self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_of_parts(m, "complex.out", [](Value re, Value im) {
    return Complex{re, im};
  });
  add_of_parts(m, "polar.out", [](Value size, Value angle) {
    return polar(size, angle);
  });
  add_pointwise<unary_meta>(
      m,
      OutName{"conj_physical.out"},
      [](Pointwise& p, const Tensor&) { return p.in(0); },
      [](Pointwise& p, const Tensor&) {
        const Complex x = p.in_complex(0);
        return Complex{x.re, -x.im};
      });
  m.impl("conj_physical_", conjugate_in_place);
}

} // namespace openreg
