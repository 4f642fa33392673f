// SPDX-License-Identifier: BSD-3-Clause
// Batch normalization of [N, channels, pixels]. Core computes instance norm with it.
#include "aten/normalize.h"
#include "aten/step.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <array>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Wanted = std::array<bool, 3>;

OpName forward_name, backward_name, update_name;

bool given(const OptTensor& t) {
  return t.has_value() && t->defined();
}

void check(const Tensor& input, std::initializer_list<const OptTensor*> parameters) {
  TORCH_CHECK(
      input.dim() >= 2,
      "batch_norm expects an input of at least 2 dimensions, got shape ",
      input.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(
      input.is_floating_point(), "batch_norm not implemented for '", input.scalar_type(), "'");
  for (const OptTensor* t : parameters) {
    check_device(*t, input.device());
    TORCH_CHECK(
        !given(*t) || (*t)->numel() == input.size(1),
        "batch_norm: a parameter or running statistic should contain ",
        input.size(1),
        " elements not ",
        given(*t) ? (*t)->numel() : 0);
  }
}

std::array<int64_t, 3> three_dims(const Tensor& t) {
  return {t.size(0), t.size(1), c10::multiply_integers(t.sizes().slice(2))};
}
Tensor channels(const OptTensor& t) {
  return viewed(t, {1, -1, 1});
}
Tensor new_channels(const Tensor& x) {
  return statistics_like(x, {1, x.size(1), 1});
}

// running = running * (1 - momentum) + fresh * momentum
struct Running {
  const OptTensor &mean, &var;
  double momentum;

  static void mix(Step& s, const OptTensor& running, Value fresh, double momentum) {
    if (given(running)) {
      const auto operand = s.add_written(running->view({1, -1, 1}));
      const Value old = s.load(operand);
      s.program.store(operand, old * (1.0 - momentum) + fresh * momentum);
    }
  }
};

// Returns the batch's mean, and finish() of its variance, as [1, C, 1].
template <class Finish>
Two batch_statistics(OpId id, const Tensor& x, const Running& running, Finish&& finish) {
  const Tensor mean = new_channels(x), var = new_channels(x);
  moments(id, x, mean, var);
  const double n = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  Step s(id, var, var.scalar_type());
  const auto operand = s.add(var);
  const Value v = s.load(operand);
  Running::mix(s, running.mean, s.load(mean), running.momentum);
  Running::mix(s, running.var, v * (n / (n - 1)), running.momentum);
  s.program.store(operand, finish(v));
  s.run(Part::FURTHER);
  return {mean, var};
}

// Returns the running mean and 1 / sqrt(running variance + eps), for evaluation.
Two kept_statistics(OpId id, const Tensor& x, const OptTensor& mean, const OptTensor& var,
                    double eps, Part part) {
  TORCH_CHECK(
      given(mean) && given(var),
      "batch_norm: running_mean and running_var must be given outside of training");
  const Tensor rstd = new_channels(x);
  Step s(id, rstd, rstd.scalar_type());
  s.store(rstd, rsqrt(s.load(channels(var)) + eps));
  s.run(part);
  return {channels(mean), rstd};
}

// The type of the saved statistics, as in core: half inputs have f32 statistics if their
// parameters are f32.
c10::ScalarType kept_type(const Tensor& input, const OptTensor& weight, const OptTensor& running) {
  return given(weight) ? weight->scalar_type()
                       : given(running) ? running->scalar_type() : input.scalar_type();
}

Three forward(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    bool training,
    double momentum,
    double eps) {
  check(input, {&weight, &bias, &running_mean, &running_var});
  const auto id = forward_name.id;
  const Tensor out = at::empty_like(input);
  const auto kept = kept_type(input, weight, running_mean);
  const auto options = input.options().dtype(kept);
  if (input.numel() == 0) {
    const int64_t n = training ? input.size(1) : 0;
    return {out, empty({n}, {}, options).zero_(), empty({n}, {}, options).zero_()};
  }
  const Tensor x = input.reshape(three_dims(input));
  const auto [mean, rstd] = training
      ? batch_statistics(id, x, {running_mean, running_var, momentum},
                         [&](Value v) { return rsqrt(v + eps); })
      : kept_statistics(id, x, running_mean, running_var, eps, Part::FIRST);
  fill_viewed(out, three_dims(out), [&](const Tensor& y) {
    apply(id, y, {x, mean, rstd, channels(weight)}, channels(bias));
  });
  if (!training) { // as in core, evaluation saves nothing
    return {out, empty({0}, {}, options), empty({0}, {}, options)};
  }
  return {out, mean.view({-1}).to(kept), rstd.view({-1}).to(kept)};
}

struct Sums {
  Tensor grad, dot; // the sums of grad and of grad * xhat
};

void sum_gradient(const Tensor& out, const Tensor& g) {
  if (g.numel() == 0) {
    out.zero_();
    return;
  }
  Step s(backward_name.id, g, out.scalar_type());
  const Value v = s.load(g);
  s.sum(out, v, Space::Mask(5));
  s.run();
}

// dx = rstd * weight * (g - mean of g - xhat * mean of g * xhat). The first packet
// computes the terms with one value a channel. The second packet then needs only two
// differences and two products an element.
void training_gradient(const Tensor& out, const Tensor& g, const Normalized& n, const Sums& sums) {
  const double share = static_cast<double>(n.x.size(1)) / static_cast<double>(n.x.numel());
  const Tensor mean = new_channels(n.x), slope = new_channels(n.x), curve = new_channels(n.x);
  Step first(backward_name.id, mean, mean.scalar_type());
  const Value rstd = first.load(n.rstd);
  const Value factor = n.weight.defined() ? rstd * first.load(n.weight) : rstd;
  first.store(mean, first.load(sums.grad) * share);
  first.store(slope, factor);
  first.store(curve, first.load(sums.dot) * share * rstd * factor);
  first.run(Part::FURTHER);
  Step s(backward_name.id, n.x, mean.scalar_type());
  const auto result = s.add(out);
  const Value of_grad = (s.load(g) - s.load(mean)) * s.load(slope);
  s.program.store(result, of_grad - (s.load(n.x) - s.load(n.mean)) * s.load(curve));
  s.run(Part::FURTHER);
}

// In evaluation the statistics are constants.
void evaluation_gradient(const Tensor& out, const Tensor& g, const Normalized& n) {
  Step s(backward_name.id, n.x, statistics_type(n.x.scalar_type()));
  const auto result = s.add(out);
  const Value d = s.load(g) * s.load(n.rstd);
  s.program.store(result, n.weight.defined() ? d * s.load(n.weight) : d);
  s.run(Part::FURTHER);
}

Tensor parameter_gradient(const Tensor& sum, const OptTensor& weight, const Tensor& input) {
  return sum.view({-1}).to(given(weight) ? weight->scalar_type() : input.scalar_type());
}

Three backward(
    const Tensor& grad,
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    const OptTensor& save_mean,
    const OptTensor& save_rstd,
    bool training,
    double eps,
    Wanted wanted) {
  check(input, {&weight, &running_mean, &running_var});
  check_device(grad, input.device());
  const auto id = backward_name.id;
  const Tensor x = input.reshape(three_dims(input)), g = grad.reshape(three_dims(grad));
  Normalized n{x, channels(save_mean), channels(save_rstd), channels(weight)};
  Sums sums;
  Part part = Part::FIRST;
  if (training || wanted[2]) {
    sums.grad = new_channels(x);
    sum_gradient(sums.grad, g);
    part = Part::FURTHER;
  }
  if (!training) {
    std::tie(n.mean, n.rstd) = kept_statistics(id, x, running_mean, running_var, eps, part);
  }
  if (wanted[1] || (wanted[0] && training)) {
    sums.dot = new_channels(x);
    weight_gradient(id, sums.dot, g, n);
  }
  Three result;
  auto& [dx, dw, db] = result;
  if (wanted[0]) {
    dx = at::empty_like(input);
    fill_viewed(dx, three_dims(dx), [&](const Tensor& out) {
      training ? training_gradient(out, g, n, sums) : evaluation_gradient(out, g, n);
    });
  }
  if (wanted[1]) {
    dw = parameter_gradient(sums.dot, weight, input);
  }
  if (wanted[2]) {
    db = parameter_gradient(sums.grad, weight, input);
  }
  return result;
}

// Updates the running statistics, and returns mean and variance of the batch.
Two update_statistics(
    const Tensor& input,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    double momentum) {
  check(input, {&running_mean, &running_var});
  if (input.numel() == 0) {
    const Tensor none = new_channels(input).view({-1}).zero_();
    return {none, none.clone()};
  }
  const auto [mean, var] = batch_statistics(
      update_name.id, input.reshape(three_dims(input)), {running_mean, running_var, momentum},
      [](Value v) { return v; });
  const auto kept = kept_type(input, {}, running_mean);
  return {mean.view({-1}).to(kept), var.view({-1}).to(kept)};
}

// The out= forms, and operators with other names for the same function.

std::tuple<Tensor&, Tensor&, Tensor&> put(const Three& from, Tensor& out, Tensor& mean, Tensor& rstd) {
  const auto assign = [](Tensor& to, const Tensor& value) {
    TORCH_CHECK(
        to.device() == value.device() && c10::canCast(value.scalar_type(), to.scalar_type()),
        "batch_norm: a result of type ",
        value.scalar_type(),
        " on ",
        value.device(),
        " cannot be written to an out of type ",
        to.scalar_type(),
        " on ",
        to.device());
    at::native::resize_output(to, value.sizes());
    to.copy_(value);
  };
  assign(out, std::get<0>(from));
  assign(mean, std::get<1>(from));
  assign(rstd, std::get<2>(from));
  return {out, mean, rstd};
}

std::tuple<Tensor&, Tensor&, Tensor&> forward_out(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    bool training,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& save_mean,
    Tensor& save_rstd) {
  return put(
      forward(input, weight, bias, running_mean, running_var, training, momentum, eps),
      out,
      save_mean,
      save_rstd);
}

Three legit(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    Tensor& running_mean,
    Tensor& running_var,
    bool training,
    double momentum,
    double eps) {
  return forward(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three legit_no_stats(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    bool training,
    double momentum,
    double eps) {
  return forward(input, weight, bias, {}, {}, training, momentum, eps);
}

using Refs = std::tuple<Tensor&, Tensor&, Tensor&>;

Refs legit_out(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    Tensor& running_mean,
    Tensor& running_var,
    bool training,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& save_mean,
    Tensor& save_rstd) {
  return put(
      legit(input, weight, bias, running_mean, running_var, training, momentum, eps),
      out,
      save_mean,
      save_rstd);
}

Refs legit_no_stats_out(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    bool training,
    double momentum,
    double eps,
    Tensor& out,
    Tensor& save_mean,
    Tensor& save_rstd) {
  return put(
      legit_no_stats(input, weight, bias, training, momentum, eps), out, save_mean, save_rstd);
}

Four with_update(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    Tensor& running_mean,
    Tensor& running_var,
    double momentum,
    double eps) {
  auto [out, mean, rstd] =
      forward(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {out, mean, rstd, empty({0}, {}, input.options().dtype(at::kByte))};
}

Three backward_of_update(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& weight,
    const OptTensor& running_mean,
    const OptTensor& running_var,
    const OptTensor& save_mean,
    const OptTensor& save_rstd,
    bool update,
    double eps,
    Wanted wanted,
    const Tensor&) {
  return backward(
      grad, input, weight, running_mean, running_var, save_mean, save_rstd, update, eps, wanted);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("native_batch_norm");
  backward_name.set("native_batch_norm_backward");
  update_name.set("batch_norm_update_stats");
  m.impl("native_batch_norm", forward);
  m.impl("native_batch_norm.out", forward_out);
  m.impl("native_batch_norm_backward", backward);
  m.impl("batch_norm_update_stats", update_statistics);
  m.impl("_native_batch_norm_legit", legit);
  m.impl("_native_batch_norm_legit.no_stats", legit_no_stats);
  m.impl("_native_batch_norm_legit.out", legit_out);
  m.impl("_native_batch_norm_legit.no_stats_out", legit_no_stats_out);
  m.impl("_batch_norm_with_update", with_update);
  m.impl("batch_norm_backward", backward_of_update);
}

} // namespace openreg
