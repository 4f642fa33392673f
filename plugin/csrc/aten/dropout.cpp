// SPDX-License-Identifier: BSD-3-Clause
// native_dropout, which F.dropout calls, and its derivative, with one packet each.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>

#include "aten/random.h"
#include "aten/structured.h"

namespace openreg {

namespace {

using at::Tensor;
using Result = std::tuple<Tensor, Tensor>;

OpName dropout_name;

Result dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (!on_card(input)) {
    return fallback<Result, const Tensor&, double, std::optional<bool>>(
        dropout_name, input, p, train);
  }
  if (!train.value_or(true)) {
    return {input.clone(), at::ones_like(input, at::kBool)};
  }
  TORCH_CHECK(
      p >= 0 && p <= 1,
      "dropout probability has to be between 0 and 1, but got ",
      p);
  TORCH_CHECK(
      input.is_floating_point(),
      "result type Float can't be cast to the desired output type ",
      input.scalar_type());
  const Tensor out = at::empty_like(input);
  const Tensor mask = at::empty_like(input, at::kBool);
  const double kept = 1 - p, scale = kept == 0 ? 0 : 1 / kept;
  const uint8_t type = vector_type(input.scalar_type());
  draw({dropout_name.id, std::nullopt, type, {out, mask}, {input}},
       [&](Program& program, Draws& draws) {
         const Value keep = draw_bit(program, draws, kept);
         const Value factor = select(
             keep, program.imm(scale, type), program.imm(0.0, type));
         program.store(0, program.load(2, type) * factor);
         program.store(1, keep);
       });
  return {out, mask};
}

// The type of the product of grad and a number with a fraction.
c10::ScalarType slope_type(const Tensor& grad) {
  return c10::isIntegralType(grad.scalar_type(), true)
      ? c10::typeMetaToScalarType(c10::get_default_dtype())
      : grad.scalar_type();
}

struct dropout_backward_meta : at::TensorIteratorBase, ComputesInResultType {
  void meta(const Tensor& grad, const Tensor& mask, double) {
    TORCH_CHECK(
        mask.scalar_type() == at::kBool,
        "Mask should be Bool Scalar Type",
        mask.scalar_type());
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .declare_static_dtype(slope_type(grad))
              .add_borrowed_output(maybe_get_output(0))
              .add_borrowed_const_input(grad)
              .add_borrowed_const_input(mask));
  }
};

struct DropoutSlope {
  Value operator()(Pointwise& p, const Tensor&, const Tensor&, double scale) const {
    const Value keep = p.in_as(1, at::kBool);
    return p.in(0) * select(keep, p(scale), p(0.0));
  }
};

using DropoutBackward = Elementwise<DropoutSlope>;

Tensor dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  using Into = FormsOf<dropout_backward_meta, DropoutBackward, 1>::OutForm;
  Tensor out = at::empty_like(
      grad, grad.options().dtype(slope_type(grad)), grad.suggest_memory_format());
  return Into::call(grad, mask, scale, out);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  dropout_name.set("native_dropout");
  m.impl("native_dropout", dropout);
  m.impl("native_dropout_backward", dropout_backward);
  add_op<dropout_backward_meta>(m, OutName{"native_dropout_backward.out"}, DropoutBackward());
}

} // namespace openreg
