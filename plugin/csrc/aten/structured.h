// SPDX-License-Identifier: BSD-3-Clause
// Builds the functional, in-place and out= forms of an operator from a shape function and
// a kernel.
//
// Core has the shape and type rules of structured operators in classes
// at::meta::structured_*. Operators that are not structured in core get a class of the
// same form in the backend. For each form of the operator, a subclass allocates, checks
// or resizes the outputs as core's own backends do, and then calls the kernel:
//
//   struct Kernel {
//     void operator()(OpId, Meta& op, schema arguments...);
//     static bool serves(schema arguments...); // optional: false: the CPU runs the call
//     static constexpr bool pairs; // optional: the kernel runs complex tensors too
//   };
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

#include "aten/convention.h"
#include "aten/pointwise.h"

namespace openreg {

template <class Meta>
constexpr bool kIterates = std::is_base_of_v<at::TensorIteratorBase, Meta>;

// The outputs of all forms. Derived::place() allocates or checks an output.
template <class Meta, class Derived>
struct Outputs : Meta {
  void set_output_strided(
      int64_t i,
      at::IntArrayRef sizes,
      at::IntArrayRef strides,
      at::TensorOptions options) override {
    set_output_raw_strided(i, sizes, strides, options);
  }

  // The card writes any strides, so no output needs a temporary tensor.
  void set_output_raw_strided(
      int64_t i,
      at::IntArrayRef sizes,
      at::IntArrayRef strides,
      at::TensorOptions options) override {
    static_cast<Derived*>(this)->place(i, sizes, strides, options);
    if constexpr (kIterates<Meta>) {
      at::TensorIteratorBase::set_output_raw_strided(
          i, sizes, strides, options);
    }
  }
};

template <class Meta, size_t N>
struct Functional final : Outputs<Meta, Functional<Meta, N>> {
  const at::Tensor& maybe_get_output(int64_t i) override {
    return out[i];
  }
  void place(
      int64_t i,
      at::IntArrayRef sizes,
      at::IntArrayRef strides,
      const at::TensorOptions& options) {
    out[i] = empty(sizes, strides, options);
  }
  std::array<at::Tensor, N> out;
};

template <class Meta>
struct Inplace final : Outputs<Meta, Inplace<Meta>> {
  explicit Inplace(at::Tensor& self) : self(self) {}
  const at::Tensor& maybe_get_output(int64_t) override {
    return self;
  }
  void place(
      int64_t,
      at::IntArrayRef sizes,
      at::IntArrayRef,
      const at::TensorOptions& options) {
    check_inplace(self, sizes, options);
  }
  at::Tensor& self;
};

template <class Meta, size_t N>
struct Out final : Outputs<Meta, Out<Meta, N>> {
  explicit Out(std::array<at::Tensor*, N> out) : out(out) {}
  const at::Tensor& maybe_get_output(int64_t i) override {
    return *out[i];
  }
  void place(
      int64_t i,
      at::IntArrayRef sizes,
      at::IntArrayRef strides,
      const at::TensorOptions& options) {
    resize_out(*out[i], sizes, strides, options);
  }
  std::array<at::Tensor*, N> out;
};

template <class Member>
struct MetaOf;
template <class Class, class R, class... Args>
struct MetaOf<R (Class::*)(Args...)> {
  using args = std::tuple<typename Convention<Args>::type...>;
};

// The forms of an operator. Kernel is stateless. N is the number of outputs.
template <class Meta, class Kernel, size_t N, class Args>
struct Forms;

template <class Meta, class Kernel, size_t N, class... Args>
struct Forms<Meta, Kernel, N, std::tuple<Args...>> {
  static constexpr bool kPairs = requires { Kernel::pairs; };

  template <class Op>
  static void run(const OpName& name, Op& op, Args... args) {
    op.meta(Convention<Args>::to_meta(args)...);
    if constexpr (kIterates<Meta>) { // a TensorIterator checks the devices itself
      name.check_type(compute_type(op));
    } else {
      const at::Tensor& out = op.maybe_get_output(0);
      (check_device(args, out.device()), ...);
      if (refuses(out, args...)) {
        name.check_type(out.scalar_type());
      }
    }
    Kernel{}(name.id, op, args...);
  }

  // Kernel::refuses() is optional: whether this call refuses the operator's refused types.
  static bool refuses(const at::Tensor& out, const Args&... args) {
    if constexpr (requires { Kernel::refuses(out, args...); }) {
      return Kernel::refuses(out, args...);
    }
    return true;
  }

  template <class T>
  static bool takes(const OpName& name, const T& value) {
    return on_card<kPairs>(value) || (name.takes_float8 && is_float8(value));
  }

  // Kernel::serves() is optional and checks more than types.
  static bool serves(const OpName& name, const Args&... args) {
    if (!(takes(name, args) && ...)) {
      return false;
    }
    if constexpr (requires { Kernel::serves(args...); }) {
      return Kernel::serves(args...);
    }
    return true;
  }

  using Result = typename ResultOf<N>::type;
  using ResultRef = typename ResultOf<N>::ref;

  struct FunctionalForm {
    static inline OpName name;
    static Result call(Args... args) {
      if (!serves(name, args...)) {
        return fallback<Result, Args...>(name, args...);
      }
      Functional<Meta, N> op;
      run(name, op, args...);
      if constexpr (N == 1) {
        return std::move(op.out[0]);
      } else {
        return ResultOf<N>::tie(op.out);
      }
    }
  };

  struct InplaceForm {
    static inline OpName name;
    template <class Self, class... Rest>
    struct For {
      static at::Tensor& call(at::Tensor& self, Rest... rest) {
        if (!serves(name, self, rest...)) {
          return fallback<at::Tensor&, at::Tensor&, Rest...>(name, self, rest...);
        }
        Inplace<Meta> op(self);
        run(name, op, self, rest...);
        return self;
      }
    };
    static constexpr auto call = &For<Args...>::call;
  };

  struct OutForm {
    static inline OpName name;
    template <class... Outs>
    static ResultRef call_with(Args... args, Outs&... outs) {
      if (!serves(name, args...) || !(takes(name, outs) && ...)) {
        return fallback<ResultRef, Args..., Outs&...>(name, args..., outs...);
      }
      Out<Meta, N> op({&outs...});
      run(name, op, args...);
      return ResultRef(outs...);
    }
    template <size_t... I>
    static constexpr auto pointer(std::index_sequence<I...>) {
      return &call_with<std::tuple_element_t<I, Repeat<at::Tensor, N>>...>;
    }
    static constexpr auto call = pointer(std::make_index_sequence<N>());
  };
};

// The names of an operator's forms in the aten namespace. Each set of forms has its own
// struct.
struct Names {
  const char* functional;
  const char* inplace;
  const char* out;
};
struct NamesWithoutInplace {
  const char* functional;
  const char* out;
};
struct NamesWithoutOut {
  const char* functional;
  const char* inplace;
};
struct FunctionalName {
  const char* functional;
};
struct OutName {
  const char* out;
};

template <class Form>
void add_form(torch::Library& m, const char* name) {
  Form::name.set(name);
  m.impl(name, torch::CppFunction(Form::call));
}

template <class Meta, class Kernel, size_t N>
using FormsOf =
    Forms<Meta, Kernel, N, typename MetaOf<decltype(&Meta::meta)>::args>;

// Registers an operator's forms. N is the number of outputs.
template <class Meta, size_t N = 1, class NamesT, class Kernel>
void add_op(torch::Library& m, NamesT names, Kernel) {
  using F = FormsOf<Meta, Kernel, N>;
  if constexpr (requires { names.functional; }) {
    add_form<typename F::FunctionalForm>(m, names.functional);
  }
  if constexpr (requires { names.inplace; }) {
    add_form<typename F::InplaceForm>(m, names.inplace);
  }
  if constexpr (requires { names.out; }) {
    add_form<typename F::OutForm>(m, names.out);
  }
}

// The kernel of a pointwise operator. Formula is stateless: Value(Pointwise&, schema
// arguments...).
template <class Formula>
struct Elementwise {
  template <class Meta, class... Args>
  void operator()(OpId id, Meta& op, Args&... args) const {
    pointwise(op, id, compute_type(op), [&](Pointwise& p) {
      return Formula{}(p, args...);
    });
  }
};

template <class Meta, class NamesT, class Formula>
void add_pointwise(torch::Library& m, NamesT names, Formula) {
  add_op<Meta>(m, names, Elementwise<Formula>());
}

// Like Elementwise, with a second formula for complex numbers.
template <class Formula, class OfPairs>
struct ElementwiseOfPairs {
  static constexpr bool pairs = true;
  template <class Meta, class... Args>
  void operator()(OpId id, Meta& op, Args&... args) const {
    const auto compute = complex_type(op, compute_type(op));
    if (c10::isComplexType(compute)) {
      pointwise(op, id, compute, [&](Pointwise& p) {
        return OfPairs{}(p, args...);
      });
    } else {
      pointwise(op, id, compute, [&](Pointwise& p) {
        return Formula{}(p, args...);
      });
    }
  }
};

template <class Meta, class NamesT, class Formula, class OfPairs>
void add_pointwise(torch::Library& m, NamesT names, Formula, OfPairs) {
  add_op<Meta>(m, names, ElementwiseOfPairs<Formula, OfPairs>());
}

} // namespace openreg
