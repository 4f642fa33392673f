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

constexpr Space::Mask kBatch(5); // the dimensions of one channel's elements

double share(const Tensor& x) {
  return static_cast<double>(x.size(1)) / static_cast<double>(x.numel());
}

// Two stages compute the batch's mean and variance. They are also stored in tensors that are
// defined.
struct Moments {
  Moments(Step& s, uint8_t x, double share, const Tensor& mean_to, const Tensor& variance_to)
      : mean(s.sum(mean_to, s.load(x), kBatch, share)),
        variance(square(s, s.load(x) - mean, share, variance_to)) {}

  static Value square(Step& s, Value d, double share, const Tensor& to) {
    return s.sum(to, d * d, kBatch, share);
  }
  Value mean, variance;
};

// running = running * (1 - momentum) + fresh * momentum
struct Running {
  const OptTensor &mean, &var;
  double momentum;

  void update(Step& s, const Moments& fresh, double n) const {
    if (given(mean)) {
      mix(s, *mean, fresh.mean);
    }
    if (given(var)) {
      mix(s, *var, fresh.variance * (n / (n - 1)));
    }
  }

 private:
  void mix(Step& s, const Tensor& running, Value fresh) const {
    const auto operand = s.add_written(running.view({1, -1, 1}));
    const Value old = s.load(operand);
    s.program.store(operand, old * (1.0 - momentum) + fresh * momentum);
  }
};

struct Saved {
  Tensor mean, rstd;
};

// out = (x - mean) * rstd * weight + bias in one packet, which also updates and saves the
// statistics.
void train(
    const Tensor& out,
    const Tensor& x,
    const Tensor& weight,
    const Tensor& bias,
    const Running& running,
    const Saved& saved,
    double eps) {
  Step s(forward_name.id, x, saved.mean.scalar_type());
  const auto result = s.add(out);
  const auto input = s.add_read(x);
  const Moments m(s, input, share(x), saved.mean, {});
  running.update(s, m, 1 / share(x));
  const Value rstd = rsqrt(m.variance + eps);
  s.store(saved.rstd, rstd);
  const Value slope = weight.defined() ? rstd * s.load(weight) : rstd;
  const Value y = (s.load(input) - m.mean) * slope;
  s.program.store(result, bias.defined() ? y + s.load(bias) : y);
  s.run();
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
  if (!training) { // as in core, evaluation saves nothing
    const auto [mean, rstd] =
        kept_statistics(id, x, running_mean, running_var, eps, Part::FIRST);
    fill_viewed(out, three_dims(out), [&](const Tensor& y) {
      apply(id, y, {x, mean, rstd, channels(weight)}, channels(bias));
    });
    return {out, empty({0}, {}, options), empty({0}, {}, options)};
  }
  const Saved saved{new_channels(x), new_channels(x)};
  fill_viewed(out, three_dims(out), [&](const Tensor& y) {
    train(
        y,
        x,
        channels(weight),
        channels(bias),
        {running_mean, running_var, momentum},
        saved,
        eps);
  });
  return {out, saved.mean.view({-1}).to(kept), saved.rstd.view({-1}).to(kept)};
}

struct Gradients {
  Tensor x, weight, bias; // undefined: not wanted
};

// In training dx = rstd * weight * (g - mean of g - xhat * mean of g * xhat): a stage takes
// the sums, which are also the gradients of bias and weight, and a second stage writes dx. In
// evaluation the statistics are constants.
void gradients(
    const Gradients& to, const Tensor& grad, const Normalized& n, bool training, Part part) {
  const bool needs_sums = training && to.x.defined();
  Step s(backward_name.id, n.x, statistics_type(n.x.scalar_type()));
  const auto result = to.x.defined() ? s.add(to.x) : uint8_t{OPENREG_VNONE};
  const auto g = s.add_read(grad), x = s.add_read(n.x);
  const auto mean = s.add_read(n.mean), rstd = s.add_read(n.rstd);
  const auto weight = n.weight.defined() ? s.add_read(n.weight) : uint8_t{OPENREG_VNONE};
  const auto slope = [&] {
    const Value v = s.load(rstd);
    return n.weight.defined() ? v * s.load(weight) : v;
  };
  if (to.x.defined() && !training) {
    s.program.store(result, s.load(g) * slope());
  }
  std::optional<Value> product, sum, dot;
  if (to.weight.defined() || needs_sums) {
    product = s.load(g) * ((s.load(x) - s.load(mean)) * s.load(rstd));
  }
  if (to.bias.defined() || needs_sums) {
    sum = s.sum(to.bias, s.load(g), kBatch);
  }
  if (product) {
    dot = s.sum(to.weight, *product, kBatch);
  }
  if (needs_sums) {
    const Value factor = slope();
    const Value curve = *dot * share(n.x) * s.load(rstd) * factor;
    const Value of_grad = (s.load(g) - *sum * share(n.x)) * factor;
    s.program.store(result, of_grad - (s.load(x) - s.load(mean)) * curve);
  }
  s.run(part);
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
  const Tensor x = input.reshape(three_dims(input)), g = grad.reshape(three_dims(grad));
  Normalized n{x, channels(save_mean), channels(save_rstd), channels(weight)};
  Part part = Part::FIRST;
  if (!training) {
    std::tie(n.mean, n.rstd) =
        kept_statistics(backward_name.id, x, running_mean, running_var, eps, part);
    part = Part::FURTHER;
  }
  const auto parameter = [&](bool wants) {
    const auto type = given(weight) ? weight->scalar_type() : input.scalar_type();
    return wants ? empty({1, x.size(1), 1}, {}, x.options().dtype(type)) : Tensor();
  };
  Gradients to{{}, parameter(wanted[1]), parameter(wanted[2])};
  Three result;
  auto& [dx, dw, db] = result;
  if (x.numel() == 0) {
    dx = wanted[0] ? at::empty_like(input) : Tensor();
    for (const Tensor& t : {to.weight, to.bias}) {
      if (t.defined()) {
        t.zero_();
      }
    }
  } else if (wanted[0]) {
    dx = at::empty_like(input);
    fill_viewed(dx, three_dims(dx), [&](const Tensor& out) {
      to.x = out;
      gradients(to, g, n, training, part);
    });
  } else if (wanted[1] || wanted[2]) {
    gradients(to, g, n, training, part);
  }
  if (wanted[1]) {
    dw = to.weight.view({-1});
  }
  if (wanted[2]) {
    db = to.bias.view({-1});
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
  const Tensor x = input.reshape(three_dims(input));
  const Tensor mean = new_channels(x), var = new_channels(x);
  Step s(update_name.id, x, var.scalar_type());
  const Moments m(s, s.add_read(x), share(x), mean, var);
  Running{running_mean, running_var, momentum}.update(s, m, 1 / share(x));
  s.run();
  const auto kept = kept_type(input, {}, running_mean);
  return {mean.view({-1}).to(kept), var.view({-1}).to(kept)};
}

// The out= forms, and operators with other names for the same function.

std::tuple<Tensor&, Tensor&, Tensor&> put(const Three& from, Tensor& out, Tensor& mean, Tensor& rstd) {
  const auto assign = [](Tensor& to, const Tensor& value) {
    TORCH_CHECK(
        to.device() == value.device() && value.scalar_type() == to.scalar_type(),
        "batch_norm: a result of type ",
        value.scalar_type(),
        " on ",
        value.device(),
        " needs an out of the same type there, but got ",
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
