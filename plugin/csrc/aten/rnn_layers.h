// SPDX-License-Identifier: BSD-3-Clause
// One recurrent layer as a function of its sequence, states and weights.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace openreg {

enum class Cell { LSTM, GRU, TANH, RELU };

// The order of the steps. last() is the last step in this order.
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

// Returns the gradients of x, h0, c0, the weights and the biases, computed with ATen's
// cells: these can be differentiated again. grads are the gradients of y and of an LSTM's
// last cell state.
torch::autograd::variable_list differentiate_by_cells(
    Cell cell,
    const torch::autograd::variable_list& in,
    bool reverse,
    const torch::autograd::variable_list& grads);

} // namespace openreg
