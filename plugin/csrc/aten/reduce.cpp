// SPDX-License-Identifier: BSD-3-Clause
// sum, nansum, mean, prod, amax, amin, max, min, argmax, argmin, any, all.
#include "aten/reduction.h"
#include "aten/structured.h"

#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/view_as_real.h>

#include <limits>

namespace openreg {

namespace {

using at::OptionalIntArrayRef;
using at::Tensor;
using OptType = std::optional<c10::ScalarType>;

// Loads the input in the result's type. If that is a half type, rounds the input to it.
struct AsIs {
  c10::ScalarType from, to;
  Value operator()(Reducer& p) const {
    const Value x = p.in(0);
    const bool narrows =
        from != to && (to == at::kHalf || to == at::kBFloat16);
    return narrows ? p.round_to(x, card_dtype(to)) : x;
  }
};

// RED_AND or RED_OR of x != 0.
void test(OpId id, uint8_t op, const Tensor& self, Space::Mask dims, const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  if (self.numel() == 0) {
    out.fill_(op == OPENREG_V_RED_AND);
    return;
  }
  reduce(
      {.id = id,
       .op = op,
       .dims = dims,
       .compute = self.scalar_type(),
       .value = out},
      {self},
      [](Reducer& p) { return p.in(0) != 0.0; });
}

// RED_SUM or RED_PROD. The result of no elements is neutral.
void fold(
    OpId id,
    uint8_t op,
    const Tensor& self,
    Space::Mask dims,
    const Tensor& out,
    double neutral,
    double scale = 1.0) {
  if (out.scalar_type() == at::kBool) { // fold truth values, not numbers
    test(id, op == OPENREG_V_RED_SUM ? OPENREG_V_RED_OR : OPENREG_V_RED_AND,
         self, dims, out);
    return;
  }
  if (out.numel() == 0) {
    return;
  }
  if (self.numel() == 0) {
    out.fill_(neutral);
    return;
  }
  const auto type = out.scalar_type();
  reduce(
      {.id = id, .op = op, .dims = dims, .compute = type, .value = out, .scale = scale},
      {self},
      AsIs{self.scalar_type(), type});
}

// Like fold(), for complex numbers: sums the two parts separately.
void fold_parts(
    OpId id,
    const Tensor& self,
    Space::Mask dims,
    const Tensor& out,
    double neutral,
    double scale = 1.0) {
  if (!out.is_complex()) {
    const Tensor real = self.is_complex() ? self.to(out.scalar_type()) : self;
    fold(id, OPENREG_V_RED_SUM, real, dims, out, neutral, scale);
    return;
  }
  const Tensor to = at::view_as_real(out);
  if (!self.is_complex()) {
    fold(id, OPENREG_V_RED_SUM, self, dims, to.select(-1, 0), neutral, scale);
    to.select(-1, 1).fill_(self.numel() == 0 ? neutral : 0.0);
    return;
  }
  const Tensor from = at::view_as_real(self);
  for (int part : {0, 1}) {
    fold(id, OPENREG_V_RED_SUM, from.select(-1, part), dims, to.select(-1, part),
         neutral, scale);
  }
}

// RED_MAX or RED_MIN, with or without the index of the extreme.
void pick(
    OpId id,
    uint8_t op,
    const Tensor& self,
    Space::Mask dims,
    const Tensor& value,
    const Tensor& index,
    Part part = Part::FIRST) {
  if (self.numel() == 0) {
    return; // the shape function has checked that the result is empty too
  }
  const auto type = self.scalar_type();
  reduce(
      {.id = id,
       .op = op,
       .dims = dims,
       .compute = type,
       .value = value,
       .index = index,
       .part = part},
      {self},
      AsIs{type, type});
}

Space::Mask one_dim(const Tensor& self, int64_t dim) {
  return mask_of(at::IntArrayRef(dim), self.dim());
}

Space::Mask one_or_all(const Tensor& self, std::optional<int64_t> dim) {
  return dim ? one_dim(self, *dim) : mask_of(std::nullopt, self.dim());
}

struct Sum {
  static constexpr bool pairs = true;
  // Leave the sum of complex numbers as a real type to the CPU.
  static bool serves(const Tensor& self, OptionalIntArrayRef, bool, OptType type) {
    return !self.is_complex() || !type || c10::isComplexType(*type);
  }
  template <class Op>
  void operator()(
      OpId id, Op& op, const Tensor& self, OptionalIntArrayRef dims, bool, OptType) const {
    fold_parts(id, self, mask_of(dims, self.dim()), op.maybe_get_output(0), 0);
  }
};

// Like core's, but also for all dimensions of a tensor with more than 64.
struct nansum_meta : at::meta::structured_sum_dim_IntList {
  void meta(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, OptType type) {
    at::meta::structured_sum_dim_IntList::meta(
        self, dims.value_or(at::IntArrayRef()), keepdim, type);
  }
};

// Counts NaN as 0.
struct NanSum {
  template <class Op>
  void operator()(
      OpId id, Op& op, const Tensor& self, OptionalIntArrayRef dims, bool, OptType type) const {
    const Tensor& out = op.maybe_get_output(0);
    const auto mask = mask_of(dims, self.dim());
    const auto from = self.scalar_type(), to = out.scalar_type();
    if (!c10::isFloatingType(from)) {
      fold(id, OPENREG_V_RED_SUM, self, mask, out, 0);
      return;
    }
    TORCH_CHECK(
        c10::canCast(type.value_or(from), to),
        "nansum: a result of type ",
        type.value_or(from),
        " cannot be written to an out of type ",
        to);
    if (self.numel() == 0) {
      out.fill_(0);
      return;
    }
    const bool truth = to == at::kBool;
    reduce(
        {.id = id,
         .op = static_cast<uint8_t>(truth ? OPENREG_V_RED_OR : OPENREG_V_RED_SUM),
         .dims = mask,
         .compute = c10::isFloatingType(to) ? to : from,
         .value = out},
        {self},
        [&](Reducer& p) {
          const Value x = AsIs{from, to}(p), number = select(isnan(x), 0.0, x);
          return truth ? number != 0.0 : p.convert(number, vector_type(to));
        });
  }
};

struct Mean : Sum {
  template <class Op>
  void operator()(
      OpId id, Op& op, const Tensor& self, OptionalIntArrayRef dims, bool, OptType) const {
    const auto mask = mask_of(dims, self.dim());
    fold_parts(id, self, mask, op.maybe_get_output(0),
               std::numeric_limits<double>::quiet_NaN(),
               1.0 / static_cast<double>(reduced_numel(self, mask)));
  }
};

void add_sums(torch::Library& m) {
  add_op<at::meta::structured_sum_dim_IntList>(
      m, NamesWithoutInplace{"sum.dim_IntList", "sum.IntList_out"}, Sum());
  add_op<nansum_meta>(
      m, NamesWithoutInplace{"nansum", "nansum.out"}, NanSum());
  add_op<at::meta::structured_mean_dim>(
      m, NamesWithoutInplace{"mean.dim", "mean.out"}, Mean());
  add_op<at::meta::structured_prod_dim_int>(
      m,
      NamesWithoutInplace{"prod.dim_int", "prod.int_out"},
      [](OpId id, auto& op, const Tensor& self, int64_t dim, bool, OptType) {
        fold(id, OPENREG_V_RED_PROD, self, one_dim(self, dim),
             op.maybe_get_output(0), 1);
      });
}

// name, the reduction's opcode
#define EXTREME(name, code)                                                    \
  add_op<at::meta::structured_a##name>(                                        \
      m, NamesWithoutInplace{"a" #name, "a" #name ".out"},                     \
      [](OpId id, auto& op, const Tensor& self, at::IntArrayRef dims, bool) {  \
        pick(id, code, self, mask_of(dims, self.dim()), op.maybe_get_output(0), {}); \
      });                                                                      \
  add_op<at::meta::structured_arg##name>(                                      \
      m, NamesWithoutInplace{"arg" #name, "arg" #name ".out"},                 \
      [](OpId id, auto& op, const Tensor& self, std::optional<int64_t> dim, bool) { \
        pick(id, code, self, one_or_all(self, dim), {}, op.maybe_get_output(0)); \
      });                                                                      \
  add_op<at::meta::structured_##name##_dim, 2>(                                \
      m, NamesWithoutInplace{#name ".dim", #name ".dim_" #name},               \
      [](OpId id, auto& op, const Tensor& self, int64_t dim, bool) {           \
        pick(id, code, self, one_dim(self, dim), op.maybe_get_output(0),       \
             op.maybe_get_output(1));                                          \
      });

void add_extremes(torch::Library& m) {
  EXTREME(max, OPENREG_V_RED_MAX)
  EXTREME(min, OPENREG_V_RED_MIN)
  add_op<at::meta::structured_aminmax, 2>(
      m,
      NamesWithoutInplace{"aminmax", "aminmax.out"},
      [](OpId id, auto& op, const Tensor& self, std::optional<int64_t> dim, bool) {
        const auto dims = one_or_all(self, dim);
        pick(id, OPENREG_V_RED_MIN, self, dims, op.maybe_get_output(0), {});
        pick(id, OPENREG_V_RED_MAX, self, dims, op.maybe_get_output(1), {},
             Part::FURTHER);
      });
}
#undef EXTREME

// name, the reduction's opcode
#define TEST(name, code)                                                       \
  add_op<at::meta::structured_##name>(                                         \
      m, NamesWithoutInplace{#name, #name ".all_out"},                         \
      [](OpId id, auto& op, const Tensor& self) {                              \
        test(id, code, self, mask_of(std::nullopt, self.dim()),                \
             op.maybe_get_output(0));                                          \
      });                                                                      \
  add_op<at::meta::structured_##name##_dim>(                                   \
      m, NamesWithoutInplace{#name ".dim", #name ".out"},                      \
      [](OpId id, auto& op, const Tensor& self, int64_t dim, bool) {           \
        test(id, code, self, one_dim(self, dim), op.maybe_get_output(0));      \
      });                                                                      \
  add_op<at::meta::structured_##name##_dims>(                                  \
      m, NamesWithoutInplace{#name ".dims", #name ".dims_out"},                \
      [](OpId id, auto& op, const Tensor& self, OptionalIntArrayRef dims, bool) { \
        test(id, code, self, dims && dims->empty() ? Space::Mask()             \
                                 : mask_of(dims, self.dim()),                  \
             op.maybe_get_output(0));                                          \
      });

void add_tests(torch::Library& m) {
  TEST(all, OPENREG_V_RED_AND)
  TEST(any, OPENREG_V_RED_OR)
}
#undef TEST

// Reductions over all elements that are not structured in core.

Tensor sum_all(const Tensor& self, OptType dtype) {
  return at::sum(self, at::IntArrayRef(), false, dtype);
}

Tensor prod_all(const Tensor& self, OptType dtype) {
  return at::prod(self.reshape({-1}), 0, false, dtype);
}

template <uint8_t Code>
struct extreme_meta : at::impl::MetaBase {
  void meta(const Tensor& self) {
    TORCH_CHECK(
        self.numel() > 0,
        Code == OPENREG_V_RED_MAX ? "max" : "min",
        "(): Expected reduction dim to be specified for input.numel() == 0. "
        "Specify the reduction dim with the 'dim' argument.");
    set_output_raw_strided(0, {}, {}, self.options());
  }
};

// out may have another type.
template <uint8_t Code>
Tensor& extreme_out(const Tensor& self, Tensor& out) {
  const Tensor value = Code == OPENREG_V_RED_MAX ? at::max(self) : at::min(self);
  check_tensor_device(out, self.device());
  TORCH_CHECK(
      c10::canCast(value.scalar_type(), out.scalar_type()),
      "result type ",
      value.scalar_type(),
      " can't be cast to the desired output type ",
      out.scalar_type());
  at::native::resize_output(out, {});
  return out.copy_(value);
}

template <uint8_t Code>
void add_extreme_of_all(torch::Library& m, const char* name, const char* out_name) {
  add_op<extreme_meta<Code>>(
      m, FunctionalName{name}, [](OpId id, auto& op, const Tensor& self) {
        pick(id, Code, self, mask_of(std::nullopt, self.dim()), op.maybe_get_output(0), {});
      });
  m.impl(out_name, extreme_out<Code>);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_sums(m);
  add_extremes(m);
  add_tests(m);
  m.impl("sum", sum_all);
  m.impl("prod", prod_all);
  add_extreme_of_all<OPENREG_V_RED_MAX>(m, "max", "max.unary_out");
  add_extreme_of_all<OPENREG_V_RED_MIN>(m, "min", "min.unary_out");
}

} // namespace openreg
