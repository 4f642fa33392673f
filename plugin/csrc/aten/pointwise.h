// SPDX-License-Identifier: BSD-3-Clause
// Turns a TensorIterator into a VECTOR packet.
//
// On devices other than the CPU, a TensorIterator neither casts its inputs nor moves CPU
// scalars. So the loads of a program cast, and CPU scalars become immediates.
#pragma once

#include <ATen/TensorIterator.h>

#include "aten/complex.h"
#include "aten/program.h"
#include "aten/space.h"

namespace openreg {

// The program that a formula builds. p.in(0) is the first input, in the type that the
// operator computes in. p(alpha) is a number of this type.
class Pointwise : public Program {
 public:
  Pointwise(const at::TensorIteratorBase& iter, c10::ScalarType compute)
      : Program(vector_type(compute)), iter_(iter), compute_(compute) {}

  Value in(int i) {
    return in_as(i, compute_);
  }
  // Like in(), but rounds a number to half precision if the operator computes in a half
  // type. For functions with jumps; other functions round only the result.
  Value in_rounded(int i);
  // The input, in another type than the operator's.
  Value in_as(int i, c10::ScalarType type);

  // The input as a complex number, also if the input is real.
  Complex in_complex(int i);
  Complex in_rounded_complex(int i);
  // A complex number of the operator's type.
  Complex complex(const c10::Scalar& s);

  // Stores to output i. If a formula does not call it, its result goes to output 0.
  void out(int i, Value v);
  void out(int i, Complex v);
  // Rounds a result like a store to a tensor of the type that the operator computes in,
  // whatever the type of output 0 is.
  Value as_computed(Value v);
  Complex as_computed(Complex v) {
    return v;
  }

  c10::ScalarType compute() const {
    return compute_;
  }

 private:
  // Rounds each part to half precision.
  Complex halved(Complex v);
  // The number of a tensor's first operand in the packet.
  uint8_t number_of(int tensor) const;

  const at::TensorIteratorBase& iter_;
  c10::ScalarType compute_;
};

inline c10::ScalarType common_type(const at::TensorIteratorBase& iter) {
  const auto common = iter.maybe_common_dtype();
  return common ? *common : iter.dtype(0);
}

// An operator computes in its inputs' common type. If the inputs have no common type, as
// in where, the shape function derives from this class: the operator then computes in the
// result's type.
struct ComputesInResultType {};

template <class Meta>
c10::ScalarType compute_type(const Meta& op) {
  if constexpr (std::is_base_of_v<ComputesInResultType, Meta>) {
    return op.dtype(0);
  }
  return common_type(op);
}

// The complex type that the operator computes in, if its result or an input is complex.
c10::ScalarType complex_type(
    const at::TensorIteratorBase& iter,
    c10::ScalarType compute);

// Runs the program over the iterator's space.
void launch(
    const at::TensorIteratorBase& iter,
    const Program& program,
    OpId op,
    Part part = Part::FIRST);

// Runs result = formula(p) over the iterator's space, computed in the given type.
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
