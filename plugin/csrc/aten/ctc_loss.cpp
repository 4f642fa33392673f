// SPDX-License-Identifier: BSD-3-Clause
// ctc_loss, with one packet a time step for the whole batch and all places of a target. A
// target has a blank before, between and after its labels. alpha sums the probabilities
// of all paths to a place; beta sums those of all paths from a place to the end.
#include <ATen/NativeFunctions.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "aten/convention.h"
#include "aten/index.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::IntArrayRef;
using at::Tensor;

OpName forward_name, backward_name;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Whether the card can run the call. If not, the CPU runs it, and reports bad arguments.
bool serves(
    const Tensor& log_probs,
    const Tensor& targets,
    IntArrayRef input_lengths,
    IntArrayRef target_lengths,
    int64_t blank) {
  if (log_probs.dim() != 3 ||
      (log_probs.scalar_type() != at::kFloat && log_probs.scalar_type() != at::kDouble) ||
      (targets.scalar_type() != at::kLong && targets.scalar_type() != at::kInt) ||
      targets.dim() < 1 || targets.dim() > 2) {
    return false;
  }
  const auto batch = static_cast<size_t>(log_probs.size(1));
  if (batch == 0 || input_lengths.size() != batch || target_lengths.size() != batch ||
      blank < 0 || blank >= log_probs.size(2)) {
    return false;
  }
  const auto in = [](int64_t most) {
    return [most](int64_t length) { return length >= 0 && length <= most; };
  };
  if (!std::ranges::all_of(input_lengths, in(log_probs.size(0)))) {
    return false;
  }
  if (targets.dim() == 2) {
    return targets.size(0) == log_probs.size(1) &&
        std::ranges::all_of(target_lengths, in(targets.size(1)));
  }
  return std::ranges::all_of(target_lengths, in(targets.size(0))) &&
      std::accumulate(target_lengths.begin(), target_lengths.end(), int64_t{0}) ==
      targets.size(0);
}

Tensor to_card(const std::vector<int64_t>& values, IntArrayRef sizes, c10::Device device) {
  return at::from_blob(
             const_cast<int64_t*>(values.data()), sizes, at::TensorOptions(at::kLong))
      .to(device);
}

// The labels with their blanks, [batch, places], and values of a target, [batch, 1].
class Paths {
 public:
  Paths(
      const Tensor& log_probs,
      const Tensor& targets,
      IntArrayRef input_lengths,
      IntArrayRef target_lengths,
      int64_t blank)
      : device_(log_probs.device()),
        batch_(log_probs.size(1)),
        most_(*std::max_element(target_lengths.begin(), target_lengths.end())),
        steps(*std::max_element(input_lengths.begin(), input_lengths.end())),
        places(2 * most_ + 1),
        times(to_card(input_lengths.vec(), {batch_, 1}, device_)),
        ends(to_card(target_lengths.vec(), {batch_, 1}, device_).mul_(2)) {
    labels = at::full({batch_, places}, blank, times.options());
    if (most_ > 0) {
      const Tensor found = labels_of(targets.to(device_, at::kLong), target_lengths);
      const Tensor there = at::arange(1, 2 * most_, 2, times.options()) < ends;
      labels.slice(1, 1, {}, 2).copy_(found.where(there, labels.slice(1, 1, {}, 2)));
    }
    // A path may skip a blank between two different labels.
    skips = at::full({batch_, places + 2}, -kInf, log_probs.options());
    skips.select(1, 1).zero_();
    skips.select(1, places).zero_();
    if (most_ > 1) {
      const Tensor differ =
          labels.slice(1, 3, {}, 2).ne(labels.slice(1, 1, places - 2, 2));
      skips.slice(1, 3, places, 2).masked_fill_(differ, 0);
    }
  }

  // Returns the log probability of every place's label: [steps, batch, places].
  Tensor probabilities(OpId id, const Tensor& log_probs) const {
    const Tensor out = at::empty({steps, batch_, places}, log_probs.options());
    IndexSpace space(
        OPENREG_INDEX_GET,
        Negative::BAD,
        out.sizes(),
        out,
        at::DimVector(out.strides()),
        log_probs,
        {log_probs.stride(0), log_probs.stride(1), 0});
    space.choose(labels, {0, places, 1}, log_probs.size(2), log_probs.stride(2));
    space.launch(id);
    return out;
  }

  // Adds every place's value to the class of its label: [time, batch, classes].
  Tensor by_class(OpId id, const Tensor& of_places, int64_t classes) const {
    const Tensor out = at::zeros({of_places.size(0), batch_, classes}, of_places.options());
    IndexSpace space(
        OPENREG_INDEX_ADD,
        Negative::BAD,
        of_places.sizes(),
        out,
        {out.stride(0), out.stride(1), 0},
        of_places,
        at::DimVector(of_places.strides()));
    space.choose(labels, {0, places, 1}, classes, 1);
    space.launch(id, Part::FURTHER);
    return out;
  }

 private:
  // Returns [batch, most_]. Values after a target's end are arbitrary.
  Tensor labels_of(const Tensor& targets, IntArrayRef target_lengths) const {
    if (targets.dim() == 2) {
      return targets.narrow(1, 0, most_);
    }
    std::vector<int64_t> at;
    int64_t first = 0;
    for (const int64_t length : target_lengths) {
      for (int64_t i = 0; i < most_; i++) {
        at.push_back(std::min(first + i, targets.size(0) - 1));
      }
      first += length;
    }
    return targets.index_select(0, to_card(at, {batch_ * most_}, device_)).view({batch_, most_});
  }

  c10::Device device_;
  int64_t batch_, most_;

 public:
  int64_t steps, places; // of the longest input and of the longest target
  Tensor times, ends, labels;
  // [batch, places + 2]: 0 where a path may come from two places before, else -inf. The
  // last two columns are for the end of a path after the last label.
  Tensor skips;
};

// log(exp(a) + exp(b) + exp(c)).
Value log_sum(Value a, Value b, Value c) {
  const Value most = max(max(a, b), c);
  const Value base = select(most == -kInf, 0.0, most);
  return log(exp(a - base) + exp(b - base) + exp(c - base)) + base;
}

std::tuple<Tensor, Tensor> forward(
    const Tensor& log_probs,
    const Tensor& targets,
    IntArrayRef input_lengths,
    IntArrayRef target_lengths,
    int64_t blank,
    bool zero_infinity) {
  if (!serves(log_probs, targets, input_lengths, target_lengths, blank)) {
    return fallback<
        std::tuple<Tensor, Tensor>,
        const Tensor&,
        const Tensor&,
        IntArrayRef,
        IntArrayRef,
        int64_t,
        bool>(
        forward_name, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  }
  const OpId id = forward_name.id;
  const Paths paths(log_probs, targets, input_lengths, target_lengths, blank);
  const int64_t steps = paths.steps, batch = log_probs.size(1), n = paths.places;
  const Tensor probs = paths.probabilities(id, log_probs);
  // Two extra columns before the first place are -inf, except for the start of all paths.
  const Tensor alpha = at::empty({steps + 1, batch, n + 2}, log_probs.options());
  alpha.select(0, 0).fill_(-kInf);
  alpha.narrow(2, 0, 2).fill_(-kInf);
  alpha.select(0, 0).select(1, 1).zero_();
  if (steps > 0) {
    const Tensor before = alpha.narrow(0, 0, steps), now = alpha.narrow(0, 1, steps).narrow(2, 2, n);
    Step s(id, now, log_probs.scalar_type());
    const uint8_t to = s.add(now);
    const Value skipping = s.load(before.narrow(2, 0, n)) + s.load(paths.skips.narrow(1, 0, n));
    const Value sum =
        log_sum(s.load(before.narrow(2, 2, n)), s.load(before.narrow(2, 1, n)), skipping);
    s.program.store(to, sum + s.load(probs));
    s.run_in_turn(Turn::FIRST_TO_LAST);
  }
  const auto last = [&](int64_t back) {
    return alpha.index({paths.times.view({-1}),
                        at::arange(batch, paths.times.options()),
                        paths.ends.view({-1}).add(2 - back)});
  };
  const Tensor loss = at::logaddexp(last(0), last(1)).neg_();
  const Tensor log_alpha = at::empty({batch, log_probs.size(0), n}, log_probs.options());
  log_alpha.narrow(1, 0, steps).copy_(alpha.narrow(0, 1, steps).narrow(2, 2, n).transpose(0, 1));
  return {loss, log_alpha};
}

Tensor backward(
    const Tensor& grad,
    const Tensor& log_probs,
    const Tensor& targets,
    IntArrayRef input_lengths,
    IntArrayRef target_lengths,
    const Tensor& loss,
    const Tensor& log_alpha,
    int64_t blank,
    bool zero_infinity) {
  if (!serves(log_probs, targets, input_lengths, target_lengths, blank)) {
    return fallback<
        Tensor,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        IntArrayRef,
        IntArrayRef,
        const Tensor&,
        const Tensor&,
        int64_t,
        bool>(
        backward_name,
        grad,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        loss,
        log_alpha,
        blank,
        zero_infinity);
  }
  const OpId id = backward_name.id;
  const auto type = log_probs.scalar_type();
  const Paths paths(log_probs, targets, input_lengths, target_lengths, blank);
  const int64_t steps = paths.steps, batch = log_probs.size(1), n = paths.places;
  const Tensor probs = paths.probabilities(id, log_probs);
  const Tensor shares = at::empty_like(probs);
  // A path ends in the last label or in the blank after it.
  const Tensor place = at::arange(n, paths.ends.options());
  const Tensor ends = at::full({batch, n}, -kInf, log_probs.options())
                          .masked_fill_(place.le(paths.ends).logical_and_(place.ge(paths.ends - 1)), 0);
  const Tensor skips = paths.skips.narrow(1, 2, n), minus_log = loss.unsqueeze(1);
  const Tensor beta = at::empty({steps + 1, batch, n + 2}, log_probs.options());
  beta.select(0, steps).fill_(-kInf);
  beta.narrow(2, n, 2).fill_(-kInf);
  if (steps > 0) {
    const Tensor after = beta.narrow(0, 1, steps), now = beta.narrow(0, 0, steps).narrow(2, 0, n);
    Step s(id, now, type);
    const uint8_t to = s.add(now), share = s.add(shares);
    const Value skipping = s.load(after.narrow(2, 2, n)) + s.load(skips);
    const Value sum =
        log_sum(s.load(after.narrow(2, 0, n)), s.load(after.narrow(2, 1, n)), skipping);
    const Value time = s.load(at::arange(1, steps + 1, paths.times.options()).view({steps, 1, 1}));
    const Value onwards = select(s.load(paths.times) == time, s.load(ends), sum);
    const Value alpha = s.load(log_alpha.narrow(1, 0, steps).transpose(0, 1));
    s.program.store(to, onwards + s.load(probs));
    s.program.store(share, exp(alpha + onwards + s.load(minus_log)));
    s.run_in_turn(Turn::LAST_TO_FIRST);
  }
  const Tensor sums = paths.by_class(id, shares, log_probs.size(2));
  const Tensor all = at::empty(log_probs.sizes(), log_probs.options());
  all.narrow(0, steps, log_probs.size(0) - steps).zero_();
  const Tensor out = all.narrow(0, 0, steps);
  Step s(id, out, type);
  const uint8_t to = s.add(out);
  const Value prob = s.load(log_probs.narrow(0, 0, steps)), infinite = s.load(loss.unsqueeze(1));
  // As on the CPU, an infinite loss or log probability makes the gradient NaN.
  const Value nan = (infinite - infinite) + (prob - prob);
  const Value slope =
      (exp(prob) - s.load(sums) + nan) * s.load(grad.unsqueeze(1));
  const Value inside = s.index(0) < s.program.convert(s.load(paths.times), OPENREG_VT_I64);
  Value there = s.program.select(inside, slope, s.program(0.0));
  if (zero_infinity) {
    there = select(infinite == kInf, 0.0, there);
  }
  s.program.store(to, there);
  s.run(Part::FURTHER);
  return all;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("_ctc_loss");
  backward_name.set("_ctc_loss_backward");
  m.impl("_ctc_loss", forward);
  m.impl("_ctc_loss_backward", backward);
  m.impl("_ctc_loss.Tensor", at::native::ctc_loss_tensor);
  m.impl("_ctc_loss_backward.Tensor", at::native::ctc_loss_backward_tensor);
}

} // namespace openreg
