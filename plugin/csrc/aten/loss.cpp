// SPDX-License-Identifier: BSD-3-Clause
// nll_loss, mse_loss, smooth_l1_loss, huber_loss, log_sigmoid, with
// their derivatives.
#include "aten/reduction.h"
#include "aten/structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

#include <limits>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// There is no gather in nll_loss: each class compares its number with the
// target. Scores are [N, C]; a target in [0, C) or equal to ignore.
class Scores {
 public:
  Scores(const Tensor& self, const Tensor& target, const OptTensor& weight)
      : self_(self.dim() == 1 ? self.unsqueeze(0) : self),
        target_(target.reshape({-1, 1})) {
    if (weight && weight->defined()) {
      weight_ = weight->unsqueeze(0);
    }
    space_.emplace(self_.sizes(), self.get_device());
  }

  uint8_t add(const Tensor& t, int64_t row_stride, int64_t col_stride) {
    return space_->add(t, {row_stride, col_stride});
  }
  uint8_t add(const Tensor& t) {
    return space_->add(t);
  }

  // Whether this class is the row's target.
  Value hit(Program& p, int64_t ignore) {
    const Value t = target(p);
    return (t == p.index(1)) &
        (t != p.imm(ignore, OPENREG_VT_I64));
  }
  // A class that there is not; nothing else tells of it.
  Value invalid(Program& p, int64_t ignore) {
    const Value t = target(p);
    const Value classes = p.imm(self_.size(1), OPENREG_VT_I64);
    const Value outside = (t < 0.0) | (t >= classes);
    return outside & (t != p.imm(ignore, OPENREG_VT_I64)) & (p.index(1) == 0.0);
  }
  Value weight(Program& p) {
    return weight_.defined() ? p.load(weight_number_, p.type())
                             : p.imm(1.0, p.type());
  }
  Value score(Program& p) {
    return p.load(self_number_, p.type());
  }

  void add_inputs() {
    self_number_ = add(self_);
    target_number_ = add(target_);
    if (weight_.defined()) {
      weight_number_ = add(weight_);
    }
  }

  void reduce(bool rows_too) {
    space_->reduce(rows_too ? Space::Mask(3) : Space::Mask(2));
  }
  void run(const Program& p, OpId id, Part part) {
    launch(*space_, p, id, part);
  }

 private:
  Value target(Program& p) {
    return p.load(target_number_, OPENREG_VT_I64);
  }

  Tensor self_, target_, weight_;
  std::optional<Space> space_;
  uint8_t self_number_ = 0, target_number_ = 0, weight_number_ = 0;
};

// Sums formula(scores) over the classes, and over the rows unless out has them.
template <class Formula>
void fold_scores(
    OpId id,
    Scores scores,
    const Tensor& out,
    bool rows_too,
    Part part,
    Formula&& formula) {
  scores.add(out, rows_too || out.dim() == 0 ? 0 : out.stride(0), 0);
  scores.add_inputs();
  scores.reduce(rows_too);
  Program p(vector_type(out.scalar_type()));
  p.reduce({OPENREG_V_RED_SUM, 0}, formula(p, scores));
  scores.run(p, id, part);
}

void check_targets(const Tensor& self, const Tensor& target) {
  TORCH_CHECK(
      target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
      "expected target of dtype Long or Byte, but got ",
      target.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(
      self.is_floating_point(), "nll_loss not implemented for '", self.scalar_type(), "'");
}

struct NllForward {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      const Tensor& target,
      const OptTensor& weight,
      int64_t reduction,
      int64_t ignore) const {
    check_targets(self, target);
    const Tensor& out = op.maybe_get_output(0);
    const Tensor& total = op.maybe_get_output(1);
    const bool rows_too = reduction != at::Reduction::None;
    const bool mean = reduction == at::Reduction::Mean;
    if (self.numel() == 0) {
      out.fill_(mean ? kNaN : 0.0);
      total.zero_();
      return;
    }
    const Tensor sum = mean ? wide(out) : out;
    const Tensor weights = mean ? wide(total) : total;
    const Scores scores(self, target, weight);
    fold_scores(
        id, scores, sum, rows_too, Part::FIRST, [&](Program& p, Scores& s) {
          const Value loss = -s.score(p) * s.weight(p);
          const Value mine = select(s.hit(p, ignore), loss, 0.0);
          return select(s.invalid(p, ignore), kNaN, mine);
        });
    if (!rows_too) {
      total.zero_();
      return;
    }
    fold_scores(
        id, scores, weights, true, Part::FURTHER, [&](Program& p, Scores& s) {
          return select(s.hit(p, ignore), s.weight(p), 0.0);
        });
    if (mean) {
      divide(id, out, total, sum, weights);
    }
  }

  // Where a mean's sums go: they may be more than a half holds.
  static Tensor wide(const Tensor& t) {
    return t.element_size() == 2 ? empty({}, {}, t.options().dtype(at::kFloat)) : t;
  }

  static void divide(
      OpId id,
      const Tensor& out,
      const Tensor& total,
      const Tensor& sum,
      const Tensor& weights) {
    Space space({}, out.get_device());
    for (const Tensor& t : {out, total, sum, weights}) {
      space.add(t);
    }
    Program p(vector_type(out.scalar_type()));
    const Value n = p.load(3, p.type());
    p.store(0, p.load(2, p.type()) / n);
    p.store(1, n);
    launch(space, p, id, Part::FURTHER);
  }
};

struct NllBackward {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      const OptTensor& weight,
      int64_t reduction,
      int64_t ignore,
      const Tensor& total) const {
    check_targets(self, target);
    const Tensor& out = op.maybe_get_output(0);
    if (out.numel() == 0) {
      return;
    }
    const bool by_row = reduction == at::Reduction::None && grad.dim() == 1;
    Scores s(self, target, weight);
    s.add(out.dim() == 1 ? out.unsqueeze(0) : out);
    const uint8_t g = s.add(grad, by_row ? grad.stride(0) : 0, 0);
    const uint8_t n = s.add(total, 0, 0);
    s.add_inputs();
    Program p(vector_type(self.scalar_type()));
    Value slope = -s.weight(p) * p.load(g, p.type());
    if (reduction == at::Reduction::Mean) {
      slope = slope / p.load(n, p.type());
    }
    p.store(0, select(s.hit(p, ignore), slope, 0.0));
    s.run(p, id, Part::FIRST);
  }
};

// A loss of two tensors, element by element: reduced in the same packet.
template <class Formula>
void pair_loss(
    OpId id,
    const Tensor& out,
    const Tensor& self,
    const Tensor& target,
    int64_t reduction,
    Formula&& formula) {
  const auto type = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isFloatingType(type), "this loss is not implemented for '", type, "'");
  const auto shape = at::infer_size_dimvector(self.sizes(), target.sizes());
  const Tensor a = self.expand(shape), b = target.expand(shape);
  if (a.numel() == 0) {
    if (out.numel() != 0) {
      out.fill_(reduction == at::Reduction::Mean ? kNaN : 0.0);
    }
    return;
  }
  if (reduction == at::Reduction::None) {
    Space space(out.sizes(), out.get_device());
    space.add(out);
    space.add(a);
    space.add(b);
    space.coalesce();
    Program p(vector_type(type));
    p.store(0, formula(p, p.load(1, p.type()), p.load(2, p.type())));
    launch(space, p, id);
    return;
  }
  const double n = reduction == at::Reduction::Mean ? a.numel() : 1;
  reduce(
      {.id = id,
       .op = OPENREG_V_RED_SUM,
       .dims = mask_of(std::nullopt, a.dim()),
       .compute = type,
       .value = out,
       .scale = 1.0 / n},
      {a, b},
      [&](Reducer& p) { return formula(p, p.in(0), p.in(1)); });
}

// Shape functions of losses; T stands for what follows the reduction.
template <class... T>
struct pair_meta : at::impl::MetaBase {
  void meta(const Tensor& self, const Tensor& target, int64_t reduction, T...) {
    const auto type = c10::promoteTypes(self.scalar_type(), target.scalar_type());
    at::DimVector shape;
    if (reduction == at::Reduction::None) {
      shape = at::infer_size_dimvector(self.sizes(), target.sizes());
    }
    set_output_raw_strided(0, shape, {}, self.options().dtype(type));
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
Value smooth_l1(Value a, Value b, double beta) {
  const Value z = abs(a - b);
  return beta > 0 ? select(z < beta, z * z * (0.5 / beta), z - 0.5 * beta) : z;
}
Value huber(Value a, Value b, double delta) {
  const Value z = abs(a - b);
  return select(z <= delta, z * z * 0.5, (z - 0.5 * delta) * delta);
}
// The derivative by a of the last two.
Value clipped(Value d, double limit, double inside, double outside) {
  const Value edge = sign(d) * outside;
  return limit > 0 ? select(abs(d) < limit, d * inside, edge) : edge;
}

using M = torch::Library;

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
        pair_loss(id, op.maybe_get_output(0), a, b, r,
                  [&](Program&, Value x, Value y) { return smooth_l1(x, y, beta); });
      });
  add_op<pair_meta<double>>(
      m,
      NamesWithoutInplace{"huber_loss", "huber_loss.out"},
      [](OpId id, auto& op, const Tensor& a, const Tensor& b, int64_t r, double delta) {
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
        return clipped(p.in(0) - p.in(1), beta, 1.0 / beta, 1.0) *
            scaled_grad(p, self, r);
      });
  add_pointwise<pair_gradient_meta<double>>(
      m,
      NamesWithoutInplace{"huber_loss_backward", "huber_loss_backward.out"},
      [](Pointwise& p, const Tensor&, const Tensor& self, const Tensor&, int64_t r,
         double delta) {
        return clipped(p.in(0) - p.in(1), delta, 1.0, delta) *
            scaled_grad(p, self, r);
      });
}

// log(sigmoid(x)); core's buffer for the derivative stays empty.
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
  add_op<at::meta::structured_nll_loss_forward, 2>(
      m,
      NamesWithoutInplace{"nll_loss_forward", "nll_loss_forward.output"},
      NllForward());
  add_op<at::meta::structured_nll_loss_backward>(
      m,
      NamesWithoutInplace{"nll_loss_backward", "nll_loss_backward.grad_input"},
      NllBackward());
  add_pairs(m);
  add_pair_gradients(m);
  add_log_sigmoid(m);
}

} // namespace openreg
