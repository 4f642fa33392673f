// SPDX-License-Identifier: BSD-3-Clause
// The operators of SyncBatchNorm: batch normalization of [N, channels, pixels] whose batch is
// divided among processes.
#include "aten/normalize.h"
#include "aten/step.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <array>

namespace openreg {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

OpName stats_name, gather_name, elemt_name, reduce_name, backward_name;

constexpr Space::Mask kBatch(5); // the dimensions of one channel's elements

Tensor three_dims(const Tensor& t) {
  TORCH_CHECK(
      t.dim() >= 2,
      "batch_norm expects an input of at least 2 dimensions, got shape ",
      t.sizes());
  return t.reshape({t.size(0), t.size(1), c10::multiply_integers(t.sizes().slice(2))});
}

Tensor channels(const Tensor& t) {
  return t.view({1, -1, 1});
}

Tensor new_channels(const Tensor& x) {
  return statistics_like(x, {1, x.size(1), 1});
}

bool given(const OptTensor& t) {
  return t.has_value() && t->defined();
}

// The mean and 1 / sqrt(variance + eps) of this process's part.
Two stats(const Tensor& input, double eps) {
  const Tensor x = three_dims(input);
  const Tensor mean = new_channels(x), rstd = new_channels(x);
  const double share = static_cast<double>(x.size(1)) / static_cast<double>(x.numel());
  Step s(stats_name.id, x, mean.scalar_type());
  const auto in = s.add_read(x);
  const Value m = s.sum(mean, s.load(in), kBatch, share);
  const Value d = s.load(in) - m;
  const Value variance = s.sum({}, d * d, kBatch, share);
  s.store(rstd, rsqrt(variance + eps));
  s.run();
  return {mean.view({-1}), rstd.view({-1})};
}

// Combines the statistics of all processes; counts are the elements of each.
Two gather_stats_with_counts(
    const Tensor& input,
    const Tensor& means,
    const Tensor& rstds,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    double momentum,
    double eps,
    const Tensor& counts) {
  constexpr Space::Mask processes(1);
  const int64_t channel_count = means.size(1);
  const auto options = means.options().dtype(statistics_type(input.scalar_type()));
  const Tensor mean = empty({1, channel_count}, {}, options);
  const Tensor rstd = empty({1, channel_count}, {}, options);
  Step s(gather_name.id, means, mean.scalar_type());
  const auto part = s.add_read(means);
  const auto rstd_of_part = s.add_read(rstds);
  const auto n_of_part = s.add_read(counts.view({-1, 1}));
  const Value weighted = s.load(n_of_part) * s.load(part);
  const Value n = s.sum({}, s.load(n_of_part), processes);
  const Value sum = s.sum({}, weighted, processes);
  const Value m = sum / n;
  const Value d = s.load(part) - m;
  const Value r = s.load(rstd_of_part);
  const Value squares = s.sum(
      {}, s.load(n_of_part) * (s.program(1.0) / (r * r) - eps + d * d), processes);
  s.store(mean, sum / n);
  s.store(rstd, rsqrt(squares / n + eps));
  const auto mix = [&](const Tensor& running, Value fresh) {
    const auto operand = s.add_written(running.view({1, -1}));
    s.program.store(operand, s.load(operand) * (1.0 - momentum) + fresh * momentum);
  };
  if (given(running_mean))
    mix(*running_mean, sum / n);
  if (given(running_var))
    mix(*running_var, squares / (n - 1.0));
  s.run();
  return {mean.view({-1}), rstd.view({-1})};
}

Two gather_stats(
    const Tensor& input,
    const Tensor& means,
    const Tensor& rstds,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    double momentum,
    double eps,
    int64_t count) {
  const Tensor counts = empty({means.size(0)}, {}, means.options()).fill_(count);
  return gather_stats_with_counts(
      input, means, rstds, running_mean, running_var, momentum, eps, counts);
}

Tensor& elemt_out(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    const Tensor& mean,
    const Tensor& rstd,
    double,
    Tensor& out) {
  const Tensor x = three_dims(input);
  at::native::resize_output(out, input.sizes());
  fill_viewed(out, x.sizes(), [&](const Tensor& y) {
    apply(
        elemt_name.id,
        y,
        {x, channels(mean), channels(rstd), viewed(weight, {1, -1, 1})},
        viewed(bias, {1, -1, 1}));
  });
  return out;
}

Tensor elemt(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    const Tensor& mean,
    const Tensor& rstd,
    double eps) {
  Tensor out = at::empty_like(input);
  return elemt_out(input, weight, bias, mean, rstd, eps, out);
}

// The sums over this process's part: of the gradient, and of the gradient times the distance
// from the mean. The gradients of weight and bias follow from them.
Four backward_reduce(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& rstd,
    const OptTensor& weight,
    bool,
    bool weight_wanted,
    bool bias_wanted) {
  const Tensor x = three_dims(input), g = three_dims(grad);
  const Tensor sum = new_channels(x), product = new_channels(x);
  const auto options =
      x.options().dtype(given(weight) ? weight->scalar_type() : sum.scalar_type());
  Tensor dw, db;
  Step s(reduce_name.id, x, sum.scalar_type());
  const auto gradient = s.add_read(g);
  const Value moment = s.load(gradient) * (s.load(x) - s.load(channels(mean)));
  const Value of_grad = s.sum(sum, s.load(gradient), kBatch);
  const Value of_product = s.sum(product, moment, kBatch);
  if (weight_wanted) {
    dw = empty({1, x.size(1), 1}, {}, options);
    s.store(dw, of_product * s.load(channels(rstd)));
    dw = dw.view({-1});
  }
  if (bias_wanted) {
    db = empty({1, x.size(1), 1}, {}, options);
    s.store(db, of_grad);
    db = db.view({-1});
  }
  s.run();
  return {sum.view({-1}), product.view({-1}), dw, db};
}

// The sums are those of all processes.
Tensor backward_elemt(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& rstd,
    const OptTensor& weight,
    const Tensor& sum,
    const Tensor& product,
    const Tensor& counts) {
  const Tensor x = three_dims(input), g = three_dims(grad);
  const Tensor n = at::sum(counts, statistics_type(x.scalar_type())).view({1, 1, 1});
  Tensor out = at::empty_like(input);
  fill_viewed(out, x.sizes(), [&](const Tensor& dx) {
    Step s(backward_name.id, dx, n.scalar_type());
    const auto result = s.add(dx);
    const auto r = s.add_read(channels(rstd));
    const Value inverse = s.program(1.0) / s.load(n);
    const Value flat = s.load(g) - s.load(channels(sum)) * inverse;
    const Value curve = s.load(channels(product)) * inverse * s.load(r) * s.load(r);
    const Value d = (flat - (s.load(x) - s.load(channels(mean))) * curve) * s.load(r);
    s.program.store(result, given(weight) ? d * s.load(channels(*weight)) : d);
    s.run();
  });
  return out;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  stats_name.set("batch_norm_stats");
  gather_name.set("batch_norm_gather_stats_with_counts");
  elemt_name.set("batch_norm_elemt");
  reduce_name.set("batch_norm_backward_reduce");
  backward_name.set("batch_norm_backward_elemt");
  m.impl("batch_norm_stats", stats);
  m.impl("batch_norm_gather_stats", gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", gather_stats_with_counts);
  m.impl("batch_norm_elemt", elemt);
  m.impl("batch_norm_elemt.out", elemt_out);
  m.impl("batch_norm_backward_reduce", backward_reduce);
  m.impl("batch_norm_backward_elemt", backward_elemt);
}

} // namespace openreg
