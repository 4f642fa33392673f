// SPDX-License-Identifier: BSD-3-Clause
// mse_loss, smooth_l1_loss, huber_loss, binary_cross_entropy and log_sigmoid, with their
// derivatives.
#include "aten/reduction.h"
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>

#include <limits>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Expands t to shape. A reduction does not depend on the shape: if a packet cannot hold all
// dimensions, they become one.
Tensor expanded(const Tensor& t, at::IntArrayRef shape, bool reduces) {
  const Tensor full = t.expand(shape);
  const bool fits = !reduces || shape.size() <= OPENREG_DIMS_MAX;
  return fits ? full : full.reshape({-1});
}

// Computes a loss of two tensors element by element, with an optional weight, and reduces
// it in the same packet.
template <class Formula>
void pair_loss(
    OpId id,
    const Tensor& out,
    const Tensor& self,
    const Tensor& target,
    int64_t reduction,
    Formula&& formula,
    const Tensor& weight = {}) {
  const auto type = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isFloatingType(type), "this loss is not implemented for '", type, "'");
  const auto shape = at::infer_size_dimvector(self.sizes(), target.sizes());
  const bool reduces = reduction != at::Reduction::None;
  const Tensor a = expanded(self, shape, reduces);
  const Tensor b = expanded(target, shape, reduces);
  if (a.numel() == 0) {
    if (out.numel() != 0) {
      out.fill_(reduction == at::Reduction::Mean ? kNaN : 0.0);
    }
    return;
  }
  Step s(id, a, type);
  const Value x = s.load(a);
  Value loss = formula(s.program, x, s.load(b));
  loss = weight.defined() ? loss * s.load(expanded(weight, shape, reduces)) : loss;
  if (!reduces) {
    s.store(out, loss);
  } else {
    const double n = reduction == at::Reduction::Mean ? a.numel() : 1;
    s.sum(out, loss, mask_of(std::nullopt, a.dim()), 1.0 / n);
  }
  s.run();
}

// The shape of a loss without reduction: strides as those of any other elementwise result.
struct PairShape final : at::TensorIteratorBase {
  PairShape(const Tensor& self, const Tensor& target, c10::ScalarType type) {
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .declare_static_dtype(type)
              .add_owned_output(Tensor())
              .add_borrowed_const_input(self)
              .add_borrowed_const_input(target));
  }
  const Tensor& maybe_get_output(int64_t) override {
    return out;
  }
  void set_output_raw_strided(
      int64_t i,
      at::IntArrayRef sizes,
      at::IntArrayRef strides,
      at::TensorOptions options) override {
    out = empty(sizes, strides, options.device(at::kMeta));
    at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options);
  }

  Tensor out;
};

// Shape function of the losses. T are the arguments after the reduction.
template <class... T>
struct pair_meta : at::impl::MetaBase {
  void meta(const Tensor& self, const Tensor& target, int64_t reduction, T...) {
    const auto type = c10::promoteTypes(self.scalar_type(), target.scalar_type());
    const auto options = self.options().dtype(type);
    if (reduction == at::Reduction::None) {
      const PairShape shape(self, target, type);
      set_output_raw_strided(0, shape.out.sizes(), shape.out.strides(), options);
    } else {
      set_output_raw_strided(0, {}, {}, options);
    }
  }
};

template <class... T>
struct pair_gradient_meta : at::TensorIteratorBase {
  void meta(
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      int64_t,
      T...) {
    build(at::TensorIteratorConfig()
              .allow_cpu_scalars(true)
              .promote_inputs_to_common_dtype(true)
              .cast_common_dtype_to_outputs(true)
              .enforce_safe_casting_to_output(true)
              .add_borrowed_output(maybe_get_output(0))
              .add_borrowed_const_input(self)
              .add_borrowed_const_input(target)
              .add_borrowed_const_input(grad));
  }
};

Value scaled_grad(Pointwise& p, const Tensor& self, int64_t reduction) {
  const Value g = p.in(2);
  return reduction == at::Reduction::Mean
      ? g * (1.0 / static_cast<double>(self.numel()))
      : g;
}

Value mse(Value a, Value b) {
  const Value d = a - b;
  return d * d;
}
// m is min(z, delta). Where z < delta, the result is z * z / 2.
Value huber(Value a, Value b, double delta) {
  const Value z = abs(a - b), m = min(z, delta);
  return m * fma(m, number(m, -0.5), z);
}
Value smooth_l1(Value a, Value b, double beta) {
  if (beta == 1) {
    return huber(a, b, 1);
  }
  const Value z = abs(a - b);
  return beta > 0 ? select(z < beta, z * z * (0.5 / beta), z - 0.5 * beta) : z;
}
// The derivative of huber() and smooth_l1() with respect to a.
Value clipped(Value d, double outside) {
  return min(max(d, -outside), outside);
}

// As in core, no logarithm is less than -100.
Value cross_entropy(Value x, Value target) {
  return (target - 1.0) * max(log1p(-x), -100.0) - target * max(log(x), -100.0);
}

struct cross_entropy_meta : pair_meta<> {
  void meta(const Tensor& self, const Tensor& target, at::OptionalTensorRef, int64_t reduction) {
    TORCH_CHECK(
        self.sizes() == target.sizes(),
        "Using a target size (",
        target.sizes(),
        ") that is different to the input size (",
        self.sizes(),
        ") is deprecated. Please ensure they have the same size.");
    pair_meta<>::meta(self, target, reduction);
  }
};

struct cross_entropy_gradient_meta : pair_gradient_meta<> {
  void meta(
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      at::OptionalTensorRef weight,
      int64_t) {
    at::TensorIteratorConfig config;
    config.allow_cpu_scalars(true)
        .promote_inputs_to_common_dtype(true)
        .cast_common_dtype_to_outputs(true)
        .enforce_safe_casting_to_output(true)
        .add_borrowed_output(maybe_get_output(0))
        .add_borrowed_const_input(self)
        .add_borrowed_const_input(target)
        .add_borrowed_const_input(grad);
    if (weight.has_value()) {
      config.add_borrowed_const_input(*weight);
    }
    build(config);
  }
};

using M = torch::Library;

void add_cross_entropy(M& m) {
  add_op<cross_entropy_meta>(
      m,
      NamesWithoutInplace{"binary_cross_entropy", "binary_cross_entropy.out"},
      [](OpId id, auto& op, const Tensor& a, const Tensor& b, const OptTensor& weight,
         int64_t r) {
        pair_loss(id, op.maybe_get_output(0), a, b, r,
                  [](Program&, Value x, Value y) { return cross_entropy(x, y); },
                  weight.value_or(Tensor()));
      });
  add_pointwise<cross_entropy_gradient_meta>(
      m,
      NamesWithoutInplace{
          "binary_cross_entropy_backward", "binary_cross_entropy_backward.grad_input"},
      [](Pointwise& p, const Tensor&, const Tensor& self, const Tensor&,
         const OptTensor& weight, int64_t r) {
        const Value x = p.in(0);
        const Value slope = (x - p.in(1)) / max((1.0 - x) * x, 1e-12);
        const Value g = slope * scaled_grad(p, self, r);
        return weight && weight->defined() ? g * p.in(3) : g;
      });
}

void add_pairs(M& m) {
  add_op<pair_meta<>>(
      m,
      NamesWithoutInplace{"mse_loss", "mse_loss.out"},
      [](OpId id, auto& op, const Tensor& a, const Tensor& b, int64_t r) {
        pair_loss(id, op.maybe_get_output(0), a, b, r,
                  [](Program&, Value x, Value y) { return mse(x, y); });
      });
  add_op<pair_meta<double>>(
      m,
      NamesWithoutInplace{"smooth_l1_loss", "smooth_l1_loss.out"},
      [](OpId id, auto& op, const Tensor& a, const Tensor& b, int64_t r, double beta) {
        TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
        pair_loss(id, op.maybe_get_output(0), a, b, r,
                  [&](Program&, Value x, Value y) { return smooth_l1(x, y, beta); });
      });
  add_op<pair_meta<double>>(
      m,
      NamesWithoutInplace{"huber_loss", "huber_loss.out"},
      [](OpId id, auto& op, const Tensor& a, const Tensor& b, int64_t r, double delta) {
        TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
        pair_loss(id, op.maybe_get_output(0), a, b, r,
                  [&](Program&, Value x, Value y) { return huber(x, y, delta); });
      });
}

void add_pair_gradients(M& m) {
  add_pointwise<pair_gradient_meta<>>(
      m,
      NamesWithoutInplace{"mse_loss_backward", "mse_loss_backward.grad_input"},
      [](Pointwise& p, const Tensor&, const Tensor& self, const Tensor&, int64_t r) {
        return (p.in(0) - p.in(1)) * 2.0 * scaled_grad(p, self, r);
      });
  add_pointwise<pair_gradient_meta<double>>(
      m,
      NamesWithoutInplace{
          "smooth_l1_loss_backward", "smooth_l1_loss_backward.grad_input"},
      [](Pointwise& p, const Tensor&, const Tensor& self, const Tensor&, int64_t r,
         double beta) {
        const Value d = p.in(0) - p.in(1);
        const Value slope = beta > 0 ? clipped(beta == 1 ? d : d / beta, 1.0) : sign(d);
        return slope * scaled_grad(p, self, r);
      });
  add_pointwise<pair_gradient_meta<double>>(
      m,
      NamesWithoutInplace{"huber_loss_backward", "huber_loss_backward.out"},
      [](Pointwise& p, const Tensor&, const Tensor& self, const Tensor&, int64_t r,
         double delta) {
        return clipped(p.in(0) - p.in(1), delta) * scaled_grad(p, self, r);
      });
}

// log(sigmoid(x)). Core's buffer for the derivative stays empty.
struct log_sigmoid_meta : at::impl::MetaBase {
  void meta(const Tensor& self) {
    set_output_raw_strided(0, self.sizes(), {}, self.options());
    set_output_raw_strided(1, {0}, {}, self.options());
  }
};

struct log_sigmoid_gradient_meta : at::TensorIteratorBase {
  void meta(const Tensor& grad, const Tensor& self, const Tensor&) {
    build_borrowing_binary_op(maybe_get_output(0), grad, self);
  }
};

void add_log_sigmoid(M& m) {
  add_op<log_sigmoid_meta, 2>(
      m,
      NamesWithoutInplace{"log_sigmoid_forward", "log_sigmoid_forward.output"},
      [](OpId id, auto& op, const Tensor& self) {
        const Tensor& out = op.maybe_get_output(0);
        if (out.numel() == 0) {
          return;
        }
        Space space(out.sizes(), out.get_device());
        space.add(out);
        space.add(self);
        space.coalesce();
        Program p(vector_type(out.scalar_type()));
        const Value x = p.load(1, p.type());
        p.store(0, min(x, 0.0) - log1p(exp(-abs(x))));
        launch(space, p, id);
      });
  add_pointwise<log_sigmoid_gradient_meta>(
      m,
      NamesWithoutInplace{"log_sigmoid_backward", "log_sigmoid_backward.grad_input"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&) {
        return p.in(0) * sigmoid(-p.in(1));
      });
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_pairs(m);
  add_cross_entropy(m);
  add_pair_gradients(m);
  add_log_sigmoid(m);
}

} // namespace openreg
