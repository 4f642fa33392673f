// SPDX-License-Identifier: BSD-3-Clause
// Fused optimizer steps. One VECTOR packet a parameter replaces about a dozen operators.
// Adam launches a small packet before it, for the bias corrections: they depend on a step
// count that is on the card.
#include "aten/convention.h"
#include "aten/step.h"

#include <torch/library.h>

#include <cmath>
#include <functional>

namespace openreg {

namespace {

using at::Tensor;
using at::TensorList;
using OptTensor = std::optional<Tensor>;

// A learning rate: a number, or a tensor on the card or on the CPU.
struct Rate {
  double number = 0;
  Tensor tensor; // on the card, or undefined
};

Rate rate_of(const Tensor& lr) {
  return lr.is_cpu() ? Rate{lr.item<double>(), {}} : Rate{0, lr};
}

bool given(const OptTensor& t) {
  return t.has_value() && t->defined();
}

// Makes a step change nothing if the gradients have overflowed.
struct Keep {
  Keep(Step& step, const OptTensor& found_inf) : step_(step) {
    if (given(found_inf)) {
      skip_ = step.load(*found_inf) == 1.0;
    }
  }
  void store(uint8_t operand, Value old, Value fresh) {
    step_.program.store(operand, skip_ ? select(*skip_, old, fresh) : fresh);
  }

 private:
  Step& step_;
  std::optional<Value> skip_;
};

// Returns the gradient divided by the scale. Also writes it back: the caller gets
// unscaled gradients.
Value unscaled(
    Step& s,
    Keep& keep,
    const Tensor& grad,
    const OptTensor& grad_scale,
    bool maximize) {
  const bool scaled = given(grad_scale);
  const auto operand = scaled ? s.add_written(grad) : s.add(grad);
  Value g = s.load(operand);
  if (scaled) {
    const Value before = g;
    g = before / s.load(*grad_scale);
    keep.store(operand, before, g);
  }
  return maximize ? -g : g;
}

Value rate(Step& s, const Rate& lr) {
  return lr.tensor.defined() ? s.load(lr.tensor)
                             : s.program.imm(lr.number, s.program.type());
}

struct Adam {
  Rate lr;
  double beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize, decoupled;
};

// corrections[0] = lr / (1 - beta1^step), corrections[1] = sqrt(1 - beta2^step)
void bias_corrections(OpId id, const Adam& a, const Tensor& step, const Tensor& out, Part part) {
  Space space({}, out.get_device());
  const auto first = space.add(out.select(0, 0), {});
  const auto second = space.add(out.select(0, 1), {});
  const auto count = space.add(step, {});
  Program p(vector_type(out.scalar_type()));
  const Value n = p.load(count, p.type());
  const Value lr = a.lr.tensor.defined()
      ? p.load(space.add(a.lr.tensor, {}), p.type())
      : p.imm(a.lr.number, p.type());
  // Compute 1 - beta^n with expm1, which is exact for beta near 1.
  const auto rest = [&](double beta) { return -expm1(n * std::log(beta)); };
  p.store(first, lr / rest(a.beta1));
  p.store(second, sqrt(rest(a.beta2)));
  launch(space, p, id, part);
}

struct AdamState {
  const Tensor &param, &grad, &mean, &square;
  const Tensor* max_square;
};

void adam_step(
    OpId id,
    const Adam& a,
    const AdamState& t,
    const Tensor& corrections,
    const OptTensor& grad_scale,
    const OptTensor& found_inf) {
  Step s(id, t.param, t.param.scalar_type());
  const auto param = s.add_written(t.param), mean = s.add_written(t.mean),
             square = s.add_written(t.square);
  const Value old = s.load(param), m = s.load(mean), v = s.load(square);
  Keep keep(s, found_inf);
  Value g = unscaled(s, keep, t.grad, grad_scale, a.maximize);
  Value p = old;
  if (a.weight_decay != 0) {
    if (a.decoupled) {
      p = p - p * (rate(s, a.lr) * a.weight_decay);
    } else {
      g = g + p * a.weight_decay;
    }
  }
  const Value m1 = m + (g - m) * (1.0 - a.beta1);
  const Value v1 = v * a.beta2 + g * g * (1.0 - a.beta2);
  Value top = v1;
  if (a.amsgrad) {
    const auto operand = s.add_written(*t.max_square);
    const Value before = s.load(operand);
    top = max(before, v1);
    keep.store(operand, before, top);
  }
  const Value size = s.load(corrections.select(0, 0));
  const Value root = s.load(corrections.select(0, 1));
  const Value denominator = sqrt(top) / root + a.eps;
  keep.store(param, old, p - size * m1 / denominator);
  keep.store(mean, m, m1);
  keep.store(square, v, v1);
  s.run(Part::FURTHER);
}

// Whether each tensor of a list has the shape of its parameter, or is a single number.
enum class Of { ELEMENTS, NUMBERS };

void check_list(TensorList params, TensorList others, Of of) {
  TORCH_CHECK(
      others.size() == params.size(),
      "a fused optimizer needs lists of one length, got ",
      params.size(),
      " and ",
      others.size());
  for (size_t i = 0; i < others.size(); i++) {
    TORCH_CHECK(
        others[i].device() == params[i].device(),
        "a fused optimizer needs a parameter and its state on one device, found ",
        params[i].device(),
        " and ",
        others[i].device());
    TORCH_CHECK(
        of == Of::NUMBERS ? others[i].numel() == 1
                          : others[i].sizes() == params[i].sizes(),
        "a fused optimizer needs a parameter and its state of one shape, and a "
        "step count of one element, found ",
        params[i].sizes(),
        " and ",
        others[i].sizes());
  }
}

void check_numbers(TensorList params, std::initializer_list<OptTensor> numbers) {
  for (const OptTensor& t : numbers) {
    for (const Tensor& param : params) {
      check_device(t, param.device());
    }
    TORCH_CHECK(
        !given(t) || t->numel() == 1,
        "a fused optimizer needs a scale of one element, found ",
        t->sizes());
  }
}

struct AdamLists {
  TensorList params, grads, means, squares, max_squares, steps;
};

void adam(
    OpId id,
    const Adam& a,
    const AdamLists& l,
    const OptTensor& grad_scale,
    const OptTensor& found_inf) {
  for (TensorList list : {l.grads, l.means, l.squares}) {
    check_list(l.params, list, Of::ELEMENTS);
  }
  if (a.amsgrad) {
    check_list(l.params, l.max_squares, Of::ELEMENTS);
  }
  check_list(l.params, l.steps, Of::NUMBERS);
  check_numbers(l.params, {a.lr.tensor, grad_scale, found_inf});
  Part part = Part::FIRST;
  for (size_t i = 0; i < l.params.size(); i++) {
    const Tensor& param = l.params[i];
    if (param.numel() == 0) {
      continue;
    }
    const auto type = param.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const Tensor corrections = empty({2}, {}, param.options().dtype(type));
    bias_corrections(id, a, l.steps[i], corrections, part);
    part = Part::FURTHER;
    adam_step(
        id,
        a,
        {param, l.grads[i], l.means[i], l.squares[i],
         a.amsgrad ? &l.max_squares[i] : nullptr},
        corrections,
        grad_scale,
        found_inf);
  }
}

struct Sgd {
  Rate lr;
  double weight_decay, momentum, dampening;
  bool nesterov, maximize, first;
};

void sgd_step(
    OpId id,
    const Sgd& o,
    const Tensor& param,
    const Tensor& grad,
    const Tensor* buffer,
    const OptTensor& grad_scale,
    const OptTensor& found_inf,
    Part part) {
  Step s(id, param, param.scalar_type());
  const auto operand = s.add_written(param);
  const Value old = s.load(operand);
  Keep keep(s, found_inf);
  Value g = unscaled(s, keep, grad, grad_scale, o.maximize);
  if (o.weight_decay != 0) {
    g = g + old * o.weight_decay;
  }
  if (buffer != nullptr) {
    const auto b = s.add_written(*buffer);
    // In the first step nobody has written the buffer. If it is skipped, zeros are right.
    const Value before = o.first ? s.program(0.0) : s.load(b);
    const Value after =
        o.first ? g : before * o.momentum + g * (1.0 - o.dampening);
    keep.store(b, before, after);
    g = o.nesterov ? g + after * o.momentum : after;
  }
  keep.store(operand, old, old - g * rate(s, o.lr));
  s.run(part);
}

void sgd(
    OpId id,
    const Sgd& o,
    TensorList params,
    TensorList grads,
    TensorList buffers,
    const OptTensor& grad_scale,
    const OptTensor& found_inf) {
  check_list(params, grads, Of::ELEMENTS);
  if (o.momentum != 0) {
    check_list(params, buffers, Of::ELEMENTS);
  }
  check_numbers(params, {o.lr.tensor, grad_scale, found_inf});
  Part part = Part::FIRST;
  for (size_t i = 0; i < params.size(); i++) {
    if (params[i].numel() == 0) {
      continue;
    }
    const Tensor* buffer = o.momentum != 0 ? &buffers[i] : nullptr;
    sgd_step(id, o, params[i], grads[i], buffer, grad_scale, found_inf, part);
    part = Part::FURTHER;
  }
}

// The operators have two schemas: the learning rate is a number or a tensor.

OpName adam_name, adam_tensor_name, adamw_name, adamw_tensor_name, sgd_name, sgd_tensor_name;

Rate rate_of(double lr) {
  return {lr, {}};
}

template <class Lr, bool Decoupled, OpName& Name>
void fused_adam_(
    TensorList params,
    TensorList grads,
    TensorList means,
    TensorList squares,
    TensorList max_squares,
    TensorList steps,
    Lr lr,
    double beta1,
    double beta2,
    double weight_decay,
    double eps,
    bool amsgrad,
    bool maximize,
    const OptTensor& grad_scale,
    const OptTensor& found_inf) {
  adam(
      Name.id,
      {rate_of(lr), beta1, beta2, weight_decay, eps, amsgrad, maximize, Decoupled},
      {params, grads, means, squares, max_squares, steps},
      grad_scale,
      found_inf);
}

template <class Lr, OpName& Name>
void fused_sgd_(
    TensorList params,
    TensorList grads,
    TensorList buffers,
    double weight_decay,
    double momentum,
    Lr lr,
    double dampening,
    bool nesterov,
    bool maximize,
    bool first,
    const OptTensor& grad_scale,
    const OptTensor& found_inf) {
  sgd(
      Name.id,
      {rate_of(lr), weight_decay, momentum, dampening, nesterov, maximize, first},
      params,
      grads,
      buffers,
      grad_scale,
      found_inf);
}

template <class Function>
void add(torch::Library& m, OpName& name, const char* schema, Function* function) {
  name.set(schema);
  m.impl(schema, function);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using T = const Tensor&;
  add(m, adam_name, "_fused_adam_", fused_adam_<double, false, adam_name>);
  add(m, adam_tensor_name, "_fused_adam_.tensor_lr", fused_adam_<T, false, adam_tensor_name>);
  add(m, adamw_name, "_fused_adamw_", fused_adam_<double, true, adamw_name>);
  add(m, adamw_tensor_name, "_fused_adamw_.tensor_lr", fused_adam_<T, true, adamw_tensor_name>);
  add(m, sgd_name, "_fused_sgd_", fused_sgd_<double, sgd_name>);
  add(m, sgd_tensor_name, "_fused_sgd_.tensor_lr", fused_sgd_<T, sgd_tensor_name>);
}

} // namespace openreg
