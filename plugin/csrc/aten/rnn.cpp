// SPDX-License-Identifier: BSD-3-Clause
// The cells of LSTM and GRU. ATen's recurrent layers call these operators on every device
// except the CPU. The CPU has no kernels for them, so no fallback is possible.
#include "aten/rnn.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "aten/convention.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

OpName lstm_name, lstm_backward_name, gru_name, gru_backward_name;

bool given(const OptTensor& t) {
  return t && t->defined();
}

Step step_of(OpId id, const Tensor& state) {
  return Step(id, state, at::toOpMathType(state.scalar_type()));
}

Tensor gate(const Tensor& gates, int64_t which, const Tensor& state) {
  return gates.narrow(1, which * state.size(1), state.size(1));
}

Value sigmoid_backward(Value grad, Value y) {
  return grad * y * (1.0 - y);
}

Value tanh_backward(Value grad, Value y) {
  return grad * (1.0 - y * y);
}

// Returns the sum of the terms that are defined.
Tensor sum_of(OpId id, std::initializer_list<OptTensor> terms, Part part) {
  const Tensor& first = **terms.begin();
  const Tensor out = at::empty(first.sizes(), first.options());
  Step s = step_of(id, out);
  const uint8_t to = s.add(out);
  std::optional<Value> sum;
  for (const OptTensor& t : terms) {
    if (given(t)) {
      const Value x = s.load(*t);
      sum = sum ? *sum + x : x;
    }
  }
  s.program.store(to, *sum);
  s.run(part);
  return out;
}

void refuse_complex(const OpName& name, const Tensor& state) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !state.is_complex(),
      name.name,
      " does not compute with ",
      state.scalar_type(),
      " on the card. Move the cell to the CPU.");
}

// Returns the new hidden and cell states, [batch, hidden], and for backward the four
// gates after their activations, [batch, 4 hidden].
Three lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cx,
    const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const OpId id = lstm_name.id;
  refuse_complex(lstm_name, cx);
  lstm_name.check_type(cx.scalar_type());
  const Tensor gates =
      sum_of(id, {input_gates, hidden_gates, input_bias, hidden_bias}, Part::FIRST);
  const Tensor hy = at::empty(cx.sizes(), cx.options()), cy = at::empty_like(hy);
  lstm_step(id, gates, cx, hy, cy);
  return {hy, cy, gates};
}

Three lstm_cell_backward(
    const OptTensor& grad_hy,
    const OptTensor& grad_cy,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& workspace,
    bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) {
    return {};
  }
  const Tensor grad_gates = at::empty(workspace.sizes(), workspace.options());
  const Tensor grad_cx = at::empty(cx.sizes(), cx.options());
  lstm_step_backward(
      lstm_backward_name.id,
      workspace,
      cx,
      cy,
      grad_hy.value_or(Tensor()),
      grad_cy.value_or(Tensor()),
      grad_gates,
      grad_cx,
      Part::FIRST);
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : Tensor()};
}

// Returns the new hidden state, [batch, hidden], and a workspace for backward, [batch,
// 5 hidden]: the three gates, the old state, and the part that the reset gate scales.
std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hx,
    const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const OpId id = gru_name.id;
  refuse_complex(gru_name, hx);
  gru_name.check_type(hx.scalar_type());
  const int64_t size = hx.size(1);
  const Tensor input = sum_of(id, {input_gates, input_bias}, Part::FIRST);
  const Tensor hidden = sum_of(id, {hidden_gates, hidden_bias}, Part::FURTHER);
  const Tensor hy = at::empty(hx.sizes(), hx.options());
  const Tensor workspace = at::empty({hx.size(0), 5 * size}, hx.options());
  gru_step(id, input, hidden, hx, hy, workspace);
  gate(workspace, 3, hx).copy_(hx);
  gate(workspace, 4, hx).copy_(gate(hidden, 2, hx));
  return {hy, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hy,
    const Tensor& workspace,
    bool has_bias) {
  const int64_t batch = grad_hy.size(0), size = grad_hy.size(1);
  const Tensor grad_input = at::empty({batch, 3 * size}, grad_hy.options());
  const Tensor grad_hidden = at::empty_like(grad_input);
  const Tensor grad_hx = at::empty({batch, size}, grad_hy.options());
  gru_step_backward(
      gru_backward_name.id,
      workspace,
      gate(workspace, 4, grad_hx),
      gate(workspace, 3, grad_hx),
      grad_hy,
      Tensor(),
      grad_input,
      grad_hidden,
      grad_hx,
      Part::FIRST);
  return {
      grad_input,
      grad_hidden,
      grad_hx,
      has_bias ? grad_input.sum(0) : Tensor(),
      has_bias ? grad_hidden.sum(0) : Tensor()};
}

} // namespace

void lstm_step(
    OpId id,
    const Tensor& gates,
    const Tensor& cx,
    const Tensor& hy,
    const Tensor& cy,
    Part part) {
  Step s = step_of(id, cy);
  std::array<uint8_t, 4> at;
  std::array<Value, 4> g{
      s.load(at[0] = s.add(gate(gates, 0, cy))),
      s.load(at[1] = s.add(gate(gates, 1, cy))),
      s.load(at[2] = s.add(gate(gates, 2, cy))),
      s.load(at[3] = s.add(gate(gates, 3, cy)))};
  for (int k = 0; k < 4; k++) {
    g[k] = k == 2 ? tanh(g[k]) : sigmoid(g[k]);
    s.program.store(at[k], g[k]);
  }
  const Value c = g[1] * s.load(cx) + g[0] * g[2];
  s.store(cy, c);
  s.store(hy, g[3] * tanh(c));
  s.run(part);
}

void lstm_step_backward(
    OpId id,
    const Tensor& gates,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& grad_hy,
    const Tensor& grad_cy,
    const Tensor& grad_gates,
    const Tensor& grad_cx,
    Part part) {
  Step s = step_of(id, cy);
  const auto load = [&](int64_t which) { return s.load(gate(gates, which, cy)); };
  const auto store = [&](int64_t which, Value v) { s.store(gate(grad_gates, which, cy), v); };
  const Value i = load(0), f = load(1), g = load(2), o = load(3);
  std::optional<Value> c;
  if (grad_cy.defined()) {
    c = s.load(grad_cy);
  }
  if (grad_hy.defined()) {
    const Value th = tanh(s.load(cy)), h = s.load(grad_hy);
    store(3, sigmoid_backward(h * th, o));
    const Value more = tanh_backward(h * o, th);
    c = c ? *c + more : more;
  } else {
    store(3, s.program(0.0));
  }
  store(0, sigmoid_backward(*c * g, i));
  store(1, sigmoid_backward(*c * s.load(cx), f));
  store(2, tanh_backward(*c * i, g));
  s.store(grad_cx, *c * f);
  s.run(part);
}

void gru_step(
    OpId id,
    const Tensor& input,
    const Tensor& hidden,
    const Tensor& hx,
    const Tensor& hy,
    const Tensor& kept,
    Part part) {
  Step s = step_of(id, hy);
  const auto load = [&](const Tensor& of, int64_t which) { return s.load(gate(of, which, hy)); };
  const Value r = sigmoid(load(input, 0) + load(hidden, 0));
  const Value z = sigmoid(load(input, 1) + load(hidden, 1));
  const Value n = tanh(load(input, 2) + r * load(hidden, 2));
  s.store(gate(kept, 0, hy), r);
  s.store(gate(kept, 1, hy), z);
  s.store(gate(kept, 2, hy), n);
  s.store(hy, n + z * (s.load(hx) - n));
  s.run(part);
}

void gru_step_backward(
    OpId id,
    const Tensor& kept,
    const Tensor& scaled,
    const Tensor& hx,
    const Tensor& grad_hy,
    const Tensor& more,
    const Tensor& grad_input,
    const Tensor& grad_hidden,
    const Tensor& grad_hx,
    Part part) {
  Step s = step_of(id, grad_hx);
  const auto load = [&](int64_t which) { return s.load(gate(kept, which, grad_hx)); };
  const Value h = s.load(grad_hy), r = load(0), z = load(1), n = load(2);
  const Value grad_n = tanh_backward(h * (1.0 - z), n);
  const Value grad_r = sigmoid_backward(grad_n * s.load(scaled), r);
  const Value grad_z = sigmoid_backward(h * (s.load(hx) - n), z);
  for (const Tensor& grad : {grad_input, grad_hidden}) {
    s.store(gate(grad, 0, grad_hx), grad_r);
    s.store(gate(grad, 1, grad_hx), grad_z);
  }
  s.store(gate(grad_input, 2, grad_hx), grad_n);
  s.store(gate(grad_hidden, 2, grad_hx), grad_n * r);
  const Value kept_grad = h * z;
  s.store(grad_hx, more.defined() ? kept_grad + s.load(more) : kept_grad);
  s.run(part);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  lstm_name.set("_thnn_fused_lstm_cell");
  lstm_backward_name.set("_thnn_fused_lstm_cell_backward_impl");
  gru_name.set("_thnn_fused_gru_cell");
  gru_backward_name.set("_thnn_fused_gru_cell_backward");
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

} // namespace openreg
