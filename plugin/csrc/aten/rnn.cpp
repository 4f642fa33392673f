// SPDX-License-Identifier: BSD-3-Clause
// The cells of LSTM and GRU by composition. ATen's recurrent layers call these
// operators for every device but the CPU, which has none to fall back to.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace openreg {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool given(const OptTensor& t) {
  return t && t->defined();
}

Tensor with_bias(const Tensor& gates, const OptTensor& bias) {
  return given(bias) ? gates + *bias : gates;
}

// Returns the new hidden and cell states [batch, hidden], and the four gates
// after their activations [batch, 4 hidden] for the way back.
Three lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cx,
    const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) +
                      with_bias(hidden_gates, hidden_bias))
                         .chunk(4, 1);
  const Tensor i = gates[0].sigmoid();
  const Tensor f = gates[1].sigmoid();
  const Tensor g = gates[2].tanh();
  const Tensor o = gates[3].sigmoid();
  const Tensor cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

Three lstm_cell_backward(
    const OptTensor& grad_hy,
    const OptTensor& grad_cy,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& workspace,
    bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy))
    return {};
  const auto gates = workspace.chunk(4, 1);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const Tensor th = cy.tanh();
  Tensor grad_c, grad_o;
  if (given(grad_hy)) {
    grad_c = at::tanh_backward(*grad_hy * o, th);
    grad_o = at::sigmoid_backward(*grad_hy * th, o);
    if (given(grad_cy))
      grad_c = grad_c + *grad_cy;
  } else {
    grad_c = *grad_cy;
    grad_o = at::zeros_like(o);
  }
  const Tensor grad_gates = at::cat(
      {at::sigmoid_backward(grad_c * g, i),
       at::sigmoid_backward(grad_c * cx, f),
       at::tanh_backward(grad_c * i, g),
       grad_o},
      1);
  return {
      grad_gates,
      grad_c * f,
      has_bias ? grad_gates.sum(0) : Tensor()};
}

// Returns the new hidden state [batch, hidden], and [batch, 5 hidden] for the
// way back: the three gates, the old state, and what the reset gate scales.
std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hx,
    const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = (input[0] + hidden[0]).sigmoid();
  const Tensor z = (input[1] + hidden[1]).sigmoid();
  const Tensor n = (input[2] + r * hidden[2]).tanh();
  return {n + z * (hx - n), at::cat({r, z, n, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hy,
    const Tensor& workspace,
    bool has_bias) {
  const auto kept = workspace.chunk(5, 1);
  const Tensor &r = kept[0], &z = kept[1], &n = kept[2], &hx = kept[3];
  const Tensor grad_z = at::sigmoid_backward(grad_hy * (hx - n), z);
  const Tensor grad_n = at::tanh_backward(grad_hy * (1 - z), n);
  const Tensor grad_r = at::sigmoid_backward(grad_n * kept[4], r);
  const Tensor grad_input = at::cat({grad_r, grad_z, grad_n}, 1);
  const Tensor grad_hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
  return {
      grad_input,
      grad_hidden,
      grad_hy * z,
      has_bias ? grad_input.sum(0) : Tensor(),
      has_bias ? grad_hidden.sum(0) : Tensor()};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

} // namespace openreg
