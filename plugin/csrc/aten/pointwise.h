// SPDX-License-Identifier: BSD-3-Clause
// From a TensorIterator to a VECTOR packet.
//
// Off the CPU a TensorIterator neither casts its inputs nor moves CPU scalars:
// loads cast, and CPU scalars become immediates.
#pragma once

#include <ATen/TensorIterator.h>

#include "aten/complex.h"
#include "aten/program.h"
#include "aten/space.h"
#include "runtime/launch.h"

namespace openreg {

// What a formula sees: p.in(0) is the first input in the type that the
// operator computes in, p(alpha) a number of that type.
class Pointwise : public Program {
 public:
  Pointwise(const at::TensorIteratorBase& iter, c10::ScalarType compute)
      : Program(vector_type(compute)), iter_(iter), compute_(compute) {}

  Value in(int i) {
    return in_as(i, compute_);
  }
  // The same, and a number is rounded to half precision if the operator
  // computes in it: for functions with jumps. Others round the result once.
  Value in_rounded(int i);
  // The input in another type than the operator's.
  Value in_as(int i, c10::ScalarType type);

  // The same, and integers are refused: for formulas with fractions in them.
  Value in_float(int i);

  // The input as a complex number, whether it is one or not.
  Complex in_complex(int i);
  Complex in_rounded_complex(int i);
  // A complex number of the operator's type.
  Complex complex(const c10::Scalar& s);

  // Without it the operator's result goes to output 0.
  void out(int i, Value v);
  void out(int i, Complex v);
  // A result as a tensor of the type that the operator computes in holds it,
  // whatever the type of output 0.
  Value as_computed(Value v);
  Complex as_computed(Complex v) {
    return v;
  }

  c10::ScalarType compute() const {
    return compute_;
  }

 private:
  // Each part as a half holds it.
  Complex halved(Complex v);
  // The number in the packet of a tensor's operand, or of its first one.
  uint8_t number_of(int tensor) const;

  const at::TensorIteratorBase& iter_;
  c10::ScalarType compute_;
};

inline c10::ScalarType common_type(const at::TensorIteratorBase& iter) {
  const auto common = iter.maybe_common_dtype();
  return common ? *common : iter.dtype(0);
}

// An operator computes in its inputs' common type. Shape functions of operators
// whose inputs have none, as where's, derive from this; they do in the result's.
struct ComputesInResultType {};

template <class Meta>
c10::ScalarType compute_type(const Meta& op) {
  if constexpr (std::is_base_of_v<ComputesInResultType, Meta>) {
    return op.dtype(0);
  }
  return common_type(op);
}

// The complex type that the operator computes in, if it or an input has one.
c10::ScalarType complex_type(
    const at::TensorIteratorBase& iter,
    c10::ScalarType compute);

// Runs the program over the iterator's space.
void launch(
    const at::TensorIteratorBase& iter,
    const Program& program,
    OpId op,
    Part part = Part::FIRST);

// Runs result = formula(p), in the given type, over the iterator's space.
template <class Formula>
void pointwise(
    const at::TensorIteratorBase& iter,
    OpId op,
    c10::ScalarType compute,
    Formula&& formula) {
  if (iter.numel() == 0) {
    return;
  }
  Pointwise p(iter, compute);
  p.out(0, p.as_computed(formula(p)));
  launch(iter, p, op);
}

} // namespace openreg
