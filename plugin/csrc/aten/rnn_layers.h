// SPDX-License-Identifier: BSD-3-Clause
// A recurrent layer as a function of its sequence, states and weights.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace openreg {

enum class Cell { LSTM, GRU, TANH, RELU };

// Steps in their order, of which `last` is the last one.
struct Order {
  int64_t count;
  bool reverse;

  int64_t at(int64_t i) const {
    return reverse ? count - 1 - i : i;
  }
  int64_t last() const {
    return at(count - 1);
  }
};

// The gradients of x, h0, c0, the weights and the biases by ATen's cells, of which
// there are derivatives again. grads: of y and the last state of an LSTM's cells.
torch::autograd::variable_list differentiate_by_cells(
    Cell cell,
    const torch::autograd::variable_list& in,
    bool reverse,
    const torch::autograd::variable_list& grads);

} // namespace openreg
