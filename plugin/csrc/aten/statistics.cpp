// SPDX-License-Identifier: BSD-3-Clause
// var, std and vector norms: one or two reductions, and a last step in place.
#include "aten/reduction.h"
#include "aten/structured.h"

#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/norm_meta.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace openreg {

namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::Tensor;
using OptScalar = std::optional<Scalar>;
using OptType = std::optional<c10::ScalarType>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Halves are summed and finished in F32.
c10::ScalarType wide(c10::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

Tensor scratch(const Tensor& like, at::IntArrayRef sizes) {
  return empty(sizes, {}, like.options().dtype(wide(like.scalar_type())));
}

// out = formula(in). Both have the same shape.
template <class Formula>
void finish(OpId id, const Tensor& out, const Tensor& in, Formula&& formula) {
  Space space(out.sizes(), out.get_device());
  space.add(out);
  space.add(in);
  space.coalesce();
  Program p(vector_type(in.scalar_type()));
  p.store(0, formula(p.load(1, p.type())));
  launch(space, p, id, Part::FURTHER);
}

struct Moments {
  OpId id;
  const Tensor& self;
  Space::Mask dims;
  double correction;
  bool root;
};

Space::Mask all_or(OptionalIntArrayRef dims, const Tensor& self) {
  return mask_of(dims, self.dim());
}

void variance(const Moments& m, const Tensor& out, const Tensor& mean_out) {
  const Tensor& self = m.self;
  if (static_cast<double>(reduced_numel(self, m.dims)) <= m.correction) {
    TORCH_WARN(
        m.root ? "std" : "var",
        mean_out.defined() ? "_mean" : "",
        "(): degrees of freedom is <= 0. Correction should be strictly less than the "
        "reduction factor (input numel divided by output numel).");
  }
  if (self.numel() == 0) {
    out.fill_(kNaN);
    if (mean_out.defined()) {
      mean_out.fill_(kNaN);
    }
    return;
  }
  const auto type = wide(self.scalar_type());
  const auto n = static_cast<double>(reduced_numel(self, m.dims));
  const Tensor mean = scratch(self, kept_sizes(self, m.dims));
  const auto identity = [](Reducer& p) { return p.in(0); };
  reduce(
      {.id = m.id,
       .op = OPENREG_V_RED_SUM,
       .dims = m.dims,
       .compute = type,
       .value = mean,
       .scale = 1.0 / n},
      {self},
      identity);
  // A deviation may fit F32 though its square does not.
  const auto square = m.root ? at::kDouble : type;
  const bool in_place = out.scalar_type() == square;
  const Tensor sum = in_place ? out : empty(out.sizes(), {}, out.options().dtype(square));
  reduce(
      {.id = m.id,
       .op = OPENREG_V_RED_SUM,
       .dims = m.dims,
       .compute = square,
       .value = sum,
       .scale = 1.0 / std::max(0.0, n - m.correction),
       .part = Part::FURTHER},
      {self, mean},
      [](Reducer& p) {
        const Value d = p.in(0) - p.in(1);
        return d * d;
      });
  if (m.root || !in_place) {
    finish(m.id, out, sum, [&](Value x) { return m.root ? sqrt(x) : x; });
  }
  if (mean_out.defined()) {
    finish(m.id, mean_out, mean.view(mean_out.sizes()), [](Value x) { return x; });
  }
}

// The outputs are the variance or deviation and, for some operators, the mean.
struct moments_meta : at::impl::MetaBase {
  void meta(const Tensor& self, OptionalIntArrayRef dims, at::OptionalScalarRef, bool keepdim) {
    shape(self, dims, keepdim, 1);
  }
  void shape(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, int outputs) {
    TORCH_CHECK(
        self.is_floating_point(),
        "std and var only support floating point and complex dtypes");
    const auto mask = all_or(dims, self);
    at::DimVector sizes;
    for (int64_t i = 0; i < self.dim(); i++) {
      if (!is_in(mask, i)) {
        sizes.push_back(self.size(i));
      } else if (keepdim) {
        sizes.push_back(1);
      }
    }
    for (int i = 0; i < outputs; i++) {
      const Tensor& out = maybe_get_output(i);
      const bool other = out.defined() && c10::isFloatingType(out.scalar_type());
      set_output_raw_strided(
          i, sizes, {}, other ? self.options().dtype(out.dtype()) : self.options());
    }
  }
};
struct moments_mean_meta : moments_meta {
  void meta(const Tensor& self, OptionalIntArrayRef dims, at::OptionalScalarRef, bool keepdim) {
    shape(self, dims, keepdim, 2);
  }
};

template <bool Root, bool Mean>
struct MomentsKernel {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      OptionalIntArrayRef dims,
      const OptScalar& correction,
      bool) const {
    const double c = correction ? correction->toDouble() : 1.0;
    variance(
        {id, self, all_or(dims, self), c, Root},
        op.maybe_get_output(0),
        Mean ? op.maybe_get_output(1) : Tensor());
  }
};

// The formulas of a norm: the term, which is summed or of which the extreme is taken, and
// the last step.
struct Norm {
  double order;
  uint8_t op() const {
    return order == kInf    ? OPENREG_V_RED_MAX
        : order == -kInf    ? OPENREG_V_RED_MIN
                            : OPENREG_V_RED_SUM;
  }
  Value term(Value x) const {
    if (order == 2) {
      return x * x;
    }
    if (order == 0) {
      return x.program->convert(x != 0.0, x.type);
    }
    return order == 1 || std::isinf(order) ? abs(x) : pow(abs(x), order);
  }
  bool has_root() const {
    return order != 0 && order != 1 && !std::isinf(order);
  }
  Value root(Value x) const {
    return order == 2 ? sqrt(x) : pow(x, 1.0 / order);
  }
};

void vector_norm(
    OpId id,
    const Tensor& self,
    double order,
    Space::Mask dims,
    const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  if (self.numel() == 0) {
    out.fill_(order < 0 ? kInf : 0.0);
    return;
  }
  // The power of a single element may be out of range.
  const Norm norm{order != 0 && reduced_numel(self, dims) == 1 ? 1.0 : order};
  const auto type = wide(out.scalar_type());
  const bool in_place = !norm.has_root() || out.scalar_type() == type;
  const Tensor sum = in_place ? out : scratch(out, out.sizes());
  reduce(
      {.id = id, .op = norm.op(), .dims = dims, .compute = type, .value = sum},
      {self},
      [&](Reducer& p) { return norm.term(p.in(0)); });
  if (norm.has_root()) {
    finish(id, out, sum, [&](Value x) { return norm.root(x); });
  }
}

void add_moments(torch::Library& m) {
  add_op<moments_meta>(
      m,
      NamesWithoutInplace{"var.correction", "var.correction_out"},
      MomentsKernel<false, false>());
  add_op<moments_meta>(
      m,
      NamesWithoutInplace{"std.correction", "std.correction_out"},
      MomentsKernel<true, false>());
  add_op<moments_mean_meta, 2>(
      m, FunctionalName{"var_mean.correction"}, MomentsKernel<false, true>());
  add_op<moments_mean_meta, 2>(
      m, FunctionalName{"std_mean.correction"}, MomentsKernel<true, true>());
}

double order_of(const OptScalar& p) {
  return p ? p->toDouble() : 2.0;
}

void add_norms(torch::Library& m) {
  add_op<at::meta::structured_linalg_vector_norm>(
      m,
      NamesWithoutInplace{"linalg_vector_norm", "linalg_vector_norm.out"},
      [](OpId id, auto& op, const Tensor& self, const Scalar& order,
         OptionalIntArrayRef dims, bool, OptType) {
        vector_norm(id, self, order.toDouble(), all_or(dims, self),
                    op.maybe_get_output(0));
      });
  add_op<at::meta::structured_norm_ScalarOpt_dim>(
      m,
      NamesWithoutInplace{"norm.ScalarOpt_dim", "norm.out"},
      [](OpId id, auto& op, const Tensor& self, const OptScalar& order,
         at::IntArrayRef dims, bool) {
        vector_norm(id, self, order_of(order), all_or(dims, self),
                    op.maybe_get_output(0));
      });
  add_op<at::meta::structured_norm_ScalarOpt_dim_dtype>(
      m,
      NamesWithoutInplace{"norm.ScalarOpt_dim_dtype", "norm.dtype_out"},
      [](OpId id, auto& op, const Tensor& self, const OptScalar& order,
         at::IntArrayRef dims, bool, c10::ScalarType) {
        vector_norm(id, self, order_of(order), all_or(dims, self),
                    op.maybe_get_output(0));
      });
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_moments(m);
  add_norms(m);
}

} // namespace openreg
