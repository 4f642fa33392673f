// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers step by step, for second and for batched derivatives.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "aten/rnn_layers.h"

namespace openreg {

namespace {

using at::Tensor;
using torch::autograd::variable_list;

// Returns y and, for an LSTM, the last cell state.
variable_list by_cells(Cell cell, const variable_list& in, bool reverse) {
  const Tensor &x = in[0], &w_input = in[3], &w_hidden = in[4];
  const Order order{x.size(0), reverse};
  std::vector<Tensor> ys(order.count);
  Tensor h = in[1], c = in[2];
  for (int64_t i = 0; i < order.count; i++) {
    const int64_t t = order.at(i);
    const Tensor step = x.select(0, t);
    if (cell == Cell::LSTM) {
      std::tie(h, c) = at::lstm_cell(step, {h, c}, w_input, w_hidden, in[5], in[6]);
    } else if (cell == Cell::GRU) {
      h = at::gru_cell(step, h, w_input, w_hidden, in[5], in[6]);
    } else if (cell == Cell::TANH) {
      h = at::rnn_tanh_cell(step, h, w_input, w_hidden, in[5], in[6]);
    } else {
      h = at::rnn_relu_cell(step, h, w_input, w_hidden, in[5], in[6]);
    }
    ys[t] = h;
  }
  variable_list out{at::stack(ys)};
  if (cell == Cell::LSTM) {
    out.push_back(c);
  }
  return out;
}

} // namespace

variable_list differentiate_by_cells(
    Cell cell,
    const variable_list& in,
    bool reverse,
    const variable_list& grads) {
  variable_list wanted, out, weights;
  std::vector<size_t> which;
  for (size_t i = 0; i < in.size(); i++) {
    if (in[i].defined() && in[i].requires_grad()) {
      wanted.push_back(in[i]);
      which.push_back(i);
    }
  }
  // Batched gradients come here with recording off.
  const bool create_graph = at::GradMode::is_enabled();
  const at::AutoGradMode record(true);
  const variable_list made = by_cells(cell, in, reverse);
  for (size_t i = 0; i < made.size(); i++) {
    if (grads[i].defined()) {
      out.push_back(made[i]);
      weights.push_back(grads[i]);
    }
  }
  const variable_list found =
      torch::autograd::grad(out, wanted, weights, true, create_graph, true);
  variable_list all(in.size());
  for (size_t i = 0; i < which.size(); i++) {
    all[which[i]] = found[i];
  }
  return all;
}

} // namespace openreg
