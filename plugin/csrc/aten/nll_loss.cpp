// SPDX-License-Identifier: BSD-3-Clause
// nll_loss and nll_loss2d, with their derivatives.
#include "aten/index.h"
#include "aten/reduction.h"
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

#include <limits>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The kernel for few scores: each class compares its number with the target. Scores are
// [N, C, pixels]. A target is in [0, C) or equal to ignore.
class Scores {
 public:
  Scores(const Tensor& self, const Tensor& target, const OptTensor& weight)
      : self_(of(self)), target_(of_rows(target, self_)) {
    if (weight && weight->defined()) {
      weight_ = weight->dim() == 1 ? weight->view({-1, 1}) : *weight;
    }
    space_.emplace(self_.sizes(), self.get_device());
  }

  // Views [C], [N, C] or [N, C, H, W] as [N, C, pixels].
  static Tensor of(const Tensor& t) {
    return t.dim() == 1 ? t.view({1, -1, 1})
                        : t.reshape({t.size(0), t.size(1), pixels(t)});
  }
  // Views a tensor without classes as [N, 1, pixels].
  static Tensor of_rows(const Tensor& t, const Tensor& scores) {
    return t.reshape({scores.size(0), 1, scores.size(2)});
  }

  uint8_t add(const Tensor& t) {
    return space_->add(t);
  }

  // Whether this class is the row's target.
  Value is_target(Program& p, int64_t ignore) {
    const Value t = target(p);
    return (t == number(p)) & (t != p.imm(ignore, OPENREG_VT_I64));
  }
  // True if the target is no class. Only class 0 says so, which makes the loss NaN: the
  // caller gets no other error.
  Value invalid(Program& p, int64_t ignore) {
    const Value t = target(p);
    const Value classes = p.imm(self_.size(1), OPENREG_VT_I64);
    const Value outside = (t < 0.0) | (t >= classes);
    return outside & (t != p.imm(ignore, OPENREG_VT_I64)) & (number(p) == 0.0);
  }
  Value weight(Program& p) {
    return weight_.defined() ? p.load(weight_number_, p.type())
                             : p.imm(1.0, p.type());
  }
  Value score(Program& p) {
    return p.load(self_number_, p.type());
  }

  Tensor rows(const Tensor& t) const {
    return of_rows(t, self_);
  }

  void add_inputs() {
    self_number_ = add(self_);
    target_number_ = add(target_);
    if (weight_.defined()) {
      weight_number_ = add(weight_);
    }
  }

  void reduce(bool rows_too) {
    space_->reduce(rows_too ? Space::Mask(7) : Space::Mask(2));
    finish_operands();
  }
  // Call it after all operands were added.
  void finish_operands() {
    space_->keep(1);
    space_->coalesce();
  }
  void run(const Program& p, OpId id, Part part) {
    launch(*space_, p, id, part);
  }

 private:
  static int64_t pixels(const Tensor& t) {
    return c10::multiply_integers(t.sizes().slice(2));
  }
  // The number of the class.
  Value number(Program& p) {
    return p.index(space_->kept());
  }
  Value target(Program& p) {
    return p.load(target_number_, OPENREG_VT_I64);
  }

  Tensor self_, target_, weight_;
  std::optional<Space> space_;
  uint8_t self_number_ = 0, target_number_ = 0, weight_number_ = 0;
};

// Sums formula(scores) over the classes. With rows_too, also sums over the rows.
template <class Formula>
void fold_scores(
    OpId id,
    Scores scores,
    const Tensor& out,
    bool rows_too,
    Part part,
    Formula&& formula) {
  scores.add(rows_too || out.dim() == 0 ? out : scores.rows(out));
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

// Calls fn with the output. If the output is not contiguous, passes a temporary tensor
// and copies it to the output.
template <class Fn>
void with_dense(const Tensor& out, Fn&& fn) {
  if (out.is_contiguous()) {
    fn(out);
    return;
  }
  const Tensor dense = empty(out.sizes(), {}, out.options());
  fn(dense);
  out.copy_(dense);
}

// From this number of scores on, reading only the scores of the targets' classes is
// faster than a pass over all scores.
constexpr int64_t kManyScores = int64_t{1} << 16;

bool are_many(const Tensor& scores, const Tensor& target) {
  return scores.numel() >= kManyScores && target.numel() <= INT32_MAX &&
      scores.numel() / target.numel() <= INT32_MAX;
}

// For each target, a class that is in range, and the kind of the target.
struct Classes {
  enum Kind { IGNORED = -1, GOOD = 0, INVALID = 1 };

  Classes(OpId id, const Tensor& scores, const Tensor& target, int64_t ignore)
      : id(id), wanted(Scores::of_rows(target, scores)) {
    index = empty(wanted.sizes(), {}, target.options().dtype(at::kInt));
    kind = empty(wanted.sizes(), {}, target.options().dtype(at::kChar));
    Step s(id, index, at::kLong);
    const Value t = s.load(wanted);
    const Value inside = max(min(t, static_cast<double>(scores.size(1) - 1)), 0.0);
    s.store(index, inside);
    const Value ignored = t == s.program.imm(ignore, OPENREG_VT_I64);
    s.store(kind, select(ignored, double{IGNORED}, t != inside));
    s.run();
  }

  Tensor scores_of(const Tensor& scores) const {
    const Tensor picked = empty(index.sizes(), {}, scores.options());
    index_points(id, OPENREG_INDEX_GET, picked, scores, 1, index, Part::FURTHER);
    return picked;
  }
  // The weight of each target's class. Undefined if the loss has no weights.
  Tensor weights_of(const OptTensor& weights) const {
    if (!weights || !weights->defined()) {
      return {};
    }
    const Tensor picked = empty(index.sizes(), {}, weights->options());
    const Tensor all = weights->reshape({1, -1, 1}).expand({index.size(0), -1, index.size(2)});
    index_points(id, OPENREG_INDEX_GET, picked, all, 1, index, Part::FURTHER);
    return picked;
  }
  static Value weight(Step& s, const Tensor& weights) {
    return weights.defined() ? s.load(weights) : s.program(1.0);
  }
  // Views a tensor with one element a target.
  Tensor rows(const Tensor& t) const {
    return t.view(wanted.sizes());
  }
  Value load_kind(Step& s) const {
    return s.program.load(s.add(kind), OPENREG_VT_I32);
  }

  OpId id;
  Tensor wanted, index, kind;
};

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
    with_dense(op.maybe_get_output(0), [&](const Tensor& out) {
      const Tensor& total = op.maybe_get_output(1);
      if (!are_many(self, target)) {
        run(id, out, total, self, target, weight, reduction, ignore);
        return;
      }
      run_many(id, out, total, Scores::of(self), target, weight, reduction, ignore);
    });
  }

  static void run_many(
      OpId id,
      const Tensor& out,
      const Tensor& total,
      const Tensor& all,
      const Tensor& target,
      const OptTensor& weight,
      int64_t reduction,
      int64_t ignore) {
    const Classes classes(id, all, target, ignore);
    const Tensor scores = classes.scores_of(all);
    const Tensor weights = classes.weights_of(weight);
    const auto each = [&](Step& s) {
      const Value kind = classes.load_kind(s);
      const Value loss = -s.load(scores) * Classes::weight(s, weights);
      const Value bad = select(kind == Classes::INVALID, s.program(kNaN), 0.0);
      return select(kind == Classes::GOOD, loss, bad);
    };
    const auto sum_of = [&](const Tensor& to, auto&& formula) {
      Step s(id, scores, out.scalar_type());
      s.sum(to, formula(s), Space::Mask(7));
      s.run(Part::FURTHER);
    };
    if (reduction == at::Reduction::None) {
      Step s(id, scores, out.scalar_type());
      s.store(classes.rows(out), each(s));
      s.run(Part::FURTHER);
      total.zero_();
      return;
    }
    const bool mean = reduction == at::Reduction::Mean;
    const Tensor sum = mean ? wide(out) : out, count = mean ? wide(total) : total;
    sum_of(sum, each);
    sum_of(count, [&](Step& s) {
      return select(
          classes.load_kind(s) == Classes::GOOD, Classes::weight(s, weights), 0.0);
    });
    if (mean) {
      divide(id, out, total, sum, count);
    }
  }

  static void run(
      OpId id,
      const Tensor& out,
      const Tensor& total,
      const Tensor& self,
      const Tensor& target,
      const OptTensor& weight,
      int64_t reduction,
      int64_t ignore) {
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
          const Value mine = select(s.is_target(p, ignore), loss, 0.0);
          return select(s.invalid(p, ignore), kNaN, mine);
        });
    if (!rows_too) {
      total.zero_();
      return;
    }
    fold_scores(
        id, scores, weights, true, Part::FURTHER, [&](Program& p, Scores& s) {
          return select(s.is_target(p, ignore), s.weight(p), 0.0);
        });
    if (mean) {
      divide(id, out, total, sum, weights);
    }
  }

  // Where a mean's sums go. A half type could overflow, so use F32.
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
    with_dense(op.maybe_get_output(0), [&](const Tensor& out) {
      const auto go = are_many(self, target) ? run_many : run;
      go(id, out, grad, self, target, weight, reduction, ignore, total);
    });
  }

  static bool by_row(const Tensor& grad, int64_t reduction) {
    return reduction == at::Reduction::None && grad.dim() > 0;
  }

  // Writes the slope of each target into an output of zeros.
  static void run_many(
      OpId id,
      const Tensor& out,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      const OptTensor& weight,
      int64_t reduction,
      int64_t ignore,
      const Tensor& total) {
    const Tensor all = Scores::of(out);
    const Classes classes(id, all, target, ignore);
    const Tensor weights = classes.weights_of(weight);
    const Tensor slopes = empty(classes.index.sizes(), {}, out.options());
    Step s(id, slopes, self.scalar_type());
    const Value kind = classes.load_kind(s);
    Value slope = -Classes::weight(s, weights) *
        s.load(by_row(grad, reduction) ? grad.reshape(slopes.sizes()) : grad.reshape({}));
    if (reduction == at::Reduction::Mean) {
      slope = slope / s.load(total.reshape({}));
    }
    s.store(slopes, select(kind == Classes::GOOD, slope, 0.0));
    s.run(Part::FURTHER);
    out.zero_();
    index_points(id, OPENREG_INDEX_PUT, all, slopes, 1, classes.index, Part::FURTHER);
  }

  static void run(
      OpId id,
      const Tensor& out,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      const OptTensor& weight,
      int64_t reduction,
      int64_t ignore,
      const Tensor& total) {
    if (out.numel() == 0) {
      return;
    }
    Scores s(self, target, weight);
    s.add(Scores::of(out));
    // These may be temporary copies. Keep them until the packet is launched.
    const Tensor slopes = by_row(grad, reduction) ? s.rows(grad) : grad.reshape({});
    const Tensor weights = total.reshape({});
    const uint8_t g = s.add(slopes);
    const uint8_t n = s.add(weights);
    s.add_inputs();
    s.finish_operands();
    Program p(vector_type(self.scalar_type()));
    Value slope = -s.weight(p) * p.load(g, p.type());
    if (reduction == at::Reduction::Mean) {
      slope = slope / p.load(n, p.type());
    }
    p.store(0, select(s.is_target(p, ignore), slope, 0.0));
    s.run(p, id, Part::FIRST);
  }
};

// nll_loss2d is not structured in core.
void check_image(const Tensor& self, const Tensor& target) {
  TORCH_CHECK(
      target.dim() == 3,
      "only batches of spatial targets supported (3D tensors) but got targets of dimension: ",
      target.dim());
  TORCH_CHECK(
      self.dim() == 4,
      "only batches of spatial inputs supported (4D tensors), but got input of dimension: ",
      self.dim());
  TORCH_CHECK(
      self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
          self.size(3) == target.size(2),
      "size mismatch (got input: ",
      self.sizes(),
      " , target: ",
      target.sizes());
}

struct image_meta : at::impl::MetaBase {
  void meta(
      const Tensor& self,
      const Tensor& target,
      at::OptionalTensorRef weight,
      int64_t reduction,
      int64_t) {
    check_image(self, target);
    TORCH_CHECK(
        !weight.has_value() || weight->numel() == self.size(1),
        "weight tensor should be defined either for all or no classes");
    const bool none = reduction == at::Reduction::None;
    set_output_raw_strided(
        0, none ? target.sizes() : at::IntArrayRef(), {}, self.options());
    set_output_raw_strided(1, {}, {}, self.options());
  }
};

struct image_gradient_meta : at::impl::MetaBase {
  void meta(
      const Tensor&,
      const Tensor& self,
      const Tensor& target,
      at::OptionalTensorRef,
      int64_t,
      int64_t,
      const Tensor&) {
    check_image(self, target);
    set_output_raw_strided(0, self.sizes(), {}, self.options());
  }
};

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
  add_op<image_meta, 2>(
      m,
      NamesWithoutInplace{"nll_loss2d_forward", "nll_loss2d_forward.output"},
      NllForward());
  add_op<image_gradient_meta>(
      m,
      NamesWithoutInplace{"nll_loss2d_backward", "nll_loss2d_backward.grad_input"},
      NllBackward());
}

} // namespace openreg
