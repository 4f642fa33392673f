// SPDX-License-Identifier: BSD-3-Clause
// Layers of LSTM, GRU and RNN over a whole sequence. ATen computes them step by step.
// Here:
//  - One product computes the input's gates for all steps.
//  - Each step is one product and one cell.
//  - Backward collects all steps' gradients, and computes each result with one product.
// All other cases (projections, autocast, other kinds of derivatives) use ATen's code.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <ATen/OpMathType.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <vector>

#include "aten/convention.h"
#include "aten/rnn.h"
#include "aten/rnn_layers.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::array<OpName, 4> names;

int64_t gates_of(Cell cell) {
  return cell == Cell::LSTM ? 4 : cell == Cell::GRU ? 3 : 1;
}

// The weights of one layer and direction. Biases may be undefined.
struct Weights {
  Tensor input, hidden, input_bias, hidden_bias;
};

// The data that a layer saves for backward, [time, batch, ...]. gates are after their
// activations. kept has the cell states of an LSTM, or the hidden state's gates of a GRU.
struct Trace {
  Tensor y, gates, kept;
};

// x @ w^T + bias
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  return bias.defined() ? at::addmm(bias, x, w.t()) : at::mm(x, w.t());
}

void activate(OpId id, Cell cell, const Tensor& gates, const Tensor& y) {
  Step s(id, y, at::toOpMathType(y.scalar_type()));
  const Value x = s.load(gates);
  s.store(y, cell == Cell::TANH ? tanh(x) : s.program.select(x <= 0.0, s.program(0.0), x));
  s.run(Part::FURTHER);
}

void activate_backward(OpId id, Cell cell, const Tensor& y, const Tensor& grad, const Tensor& to) {
  Step s(id, y, at::toOpMathType(y.scalar_type()));
  const Value out = s.load(y), g = s.load(grad);
  s.store(
      to,
      cell == Cell::TANH ? g * (1.0 - out * out) : s.program.select(out <= 0.0, s.program(0.0), g));
  s.run(Part::FURTHER);
}

// Runs all steps. With reverse, begins with the last step.
Trace run_steps(
    Cell cell,
    const Tensor& x,
    Tensor h,
    Tensor c,
    const Weights& w,
    bool reverse) {
  const OpId id = names[static_cast<int>(cell)].id;
  const Order order{x.size(0), reverse};
  const int64_t batch = x.size(1), size = w.hidden.size(1), gates = gates_of(cell) * size;
  Tensor bias = w.input_bias;
  if (bias.defined() && cell != Cell::GRU) {
    bias = bias + w.hidden_bias;
  }
  Trace trace;
  trace.gates =
      linear(x.reshape({-1, x.size(2)}), w.input, bias).view({order.count, batch, gates});
  trace.y = at::empty({order.count, batch, size}, x.options());
  if (cell == Cell::LSTM) {
    trace.kept = at::empty_like(trace.y);
  } else if (cell == Cell::GRU) {
    trace.kept = at::empty_like(trace.gates);
  }
  const auto all_gates = trace.gates.unbind(0), ys = trace.y.unbind(0);
  const auto kept = trace.kept.defined() ? trace.kept.unbind(0) : std::vector<Tensor>();
  const Tensor transposed = w.hidden.t();
  for (int64_t i = 0; i < order.count; i++) {
    const int64_t t = order.at(i);
    Tensor step = all_gates[t];
    if (cell == Cell::GRU) {
      Tensor hidden = kept[t];
      if (w.hidden_bias.defined()) {
        at::addmm_out(hidden, w.hidden_bias, h, transposed);
      } else {
        at::mm_out(hidden, h, transposed);
      }
      gru_step(id, step, hidden, h, ys[t], step);
    } else {
      step.addmm_(h, transposed);
      if (cell == Cell::LSTM) {
        lstm_step(id, step, c, ys[t], kept[t]);
        c = kept[t];
      } else {
        activate(id, cell, step, ys[t]);
      }
    }
    h = ys[t];
  }
  return trace;
}

struct Gradients {
  Tensor x, h, c;
  Weights w;
};

// Returns the state before each step.
Tensor states_before(const Tensor& states, const Tensor& first, bool reverse) {
  const int64_t n = states.size(0);
  const Tensor one = first.unsqueeze(0);
  return reverse ? at::cat({states.narrow(0, 1, n - 1), one})
                 : at::cat({one, states.narrow(0, 0, n - 1)});
}

Gradients run_steps_backward(
    Cell cell,
    const Trace& trace,
    const Tensor& x,
    const Tensor& h0,
    const Tensor& c0,
    const Weights& w,
    bool reverse,
    const Tensor& grad_y,
    const Tensor& grad_c) {
  const OpId id = names[static_cast<int>(cell)].id;
  const Order order{x.size(0), reverse};
  const Tensor grad_gates = at::empty_like(trace.gates);
  const bool gru = cell == Cell::GRU;
  const Tensor grad_hidden = gru ? at::empty_like(trace.gates) : grad_gates;
  const auto ys = trace.y.unbind(0), all_gates = trace.gates.unbind(0);
  const auto kept = trace.kept.defined() ? trace.kept.unbind(0) : std::vector<Tensor>();
  const auto to = grad_gates.unbind(0), to_hidden = grad_hidden.unbind(0);
  const Tensor none = at::zeros_like(h0);
  const auto grads = grad_y.defined() ? grad_y.unbind(0)
                                      : std::vector<Tensor>(order.count, none);
  const int64_t size = h0.size(1);
  Tensor grad_h = grads[order.last()], c = grad_c;
  if (cell == Cell::LSTM) {
    c = grad_c.defined() ? grad_c.clone() : at::zeros_like(c0);
  }
  for (int64_t i = order.count - 1; i >= 0; i--) {
    const int64_t t = order.at(i);
    const int64_t before = i > 0 ? order.at(i - 1) : t;
    const Tensor& more = i > 0 ? grads[before] : none;
    if (gru) {
      const Tensor next = at::empty_like(h0);
      gru_step_backward(
          id, all_gates[t], kept[t].narrow(1, 2 * size, size), i > 0 ? ys[before] : h0,
          grad_h, more, to[t], to_hidden[t], next);
      grad_h = next.addmm_(to_hidden[t], w.hidden);
      continue;
    }
    if (cell == Cell::LSTM) {
      lstm_step_backward(
          id, all_gates[t], i > 0 ? kept[before] : c0, kept[t], grad_h, c, to[t], c);
    } else {
      activate_backward(id, cell, ys[t], grad_h, to[t]);
    }
    grad_h = at::addmm(more, to[t], w.hidden);
  }
  const Tensor flat = grad_gates.flatten(0, 1), flat_hidden = grad_hidden.flatten(0, 1);
  const Tensor before = states_before(trace.y, h0, reverse).flatten(0, 1);
  Gradients g;
  g.x = at::mm(flat, w.input).view_as(x);
  g.h = grad_h;
  g.c = c;
  g.w.input = at::mm(flat.t(), x.reshape({-1, x.size(2)}));
  g.w.hidden = at::mm(flat_hidden.t(), before);
  if (w.input_bias.defined()) {
    g.w.input_bias = flat.sum(0);
    g.w.hidden_bias = gru ? flat_hidden.sum(0) : g.w.input_bias;
  }
  return g;
}

using OptTensor = std::optional<Tensor>;

OptTensor if_defined(const Tensor& t) {
  return t.defined() ? OptTensor(t) : std::nullopt;
}

// Whether a tensor is batched by vmap.
bool any_batched(const variable_list& tensors) {
  const c10::DispatchKeySet keys(
      {c10::DispatchKey::Batched, c10::DispatchKey::FuncTorchBatched});
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) {
    return t.defined() && t.key_set().has_any(keys);
  });
}

// A layer as an autograd function of x, h0, c0 and the weights.
struct Layer : torch::autograd::Function<Layer> {
  static variable_list forward(
      AutogradContext* ctx,
      int64_t cell,
      bool reverse,
      const Tensor& x,
      const Tensor& h0,
      const OptTensor& c0,
      const Tensor& w_input,
      const Tensor& w_hidden,
      const OptTensor& input_bias,
      const OptTensor& hidden_bias) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Weights w{
        w_input, w_hidden, input_bias.value_or(Tensor()), hidden_bias.value_or(Tensor())};
    const Tensor c = c0.value_or(Tensor());
    const Trace trace = run_steps(static_cast<Cell>(cell), x, h0, c, w, reverse);
    ctx->save_for_backward(
        {x, h0, c, w.input, w.hidden, w.input_bias, w.hidden_bias, trace.y, trace.gates, trace.kept});
    ctx->saved_data["cell"] = cell;
    ctx->saved_data["reverse"] = reverse;
    variable_list out;
    out.reserve(2);
    out.push_back(trace.y);
    if (static_cast<Cell>(cell) == Cell::LSTM) {
      out.push_back(trace.kept.select(0, Order{x.size(0), reverse}.last()).clone());
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto cell = static_cast<Cell>(ctx->saved_data["cell"].toInt());
    const bool reverse = ctx->saved_data["reverse"].toBool();
    const variable_list saved = ctx->get_saved_variables();
    const variable_list in(saved.begin(), saved.begin() + 7);
    variable_list out(2); // the gradients of cell and reverse: undefined
    if (at::GradMode::is_enabled() || any_batched(grads)) {
      const variable_list found = differentiate_by_cells(cell, in, reverse, grads);
      out.insert(out.end(), found.begin(), found.end());
      return out;
    }
    at::AutoDispatchBelowADInplaceOrView below;
    const Gradients g = run_steps_backward(
        cell,
        {saved[7], saved[8], saved[9]},
        in[0],
        in[1],
        in[2],
        {in[3], in[4], in[5], in[6]},
        reverse,
        grads[0],
        grads.size() > 1 ? grads[1] : Tensor());
    for (const Tensor& t :
         {g.x, g.h, g.c, g.w.input, g.w.hidden, g.w.input_bias, g.w.hidden_bias}) {
      out.push_back(t);
    }
    return out;
  }
};

// Returns y and, for an LSTM, the last cell state.
std::pair<Tensor, Tensor> run_layer(
    Cell cell,
    const Tensor& x,
    const Tensor& h,
    const Tensor& c,
    const Weights& w,
    bool reverse) {
  const bool differentiates = at::GradMode::is_enabled() &&
      (x.requires_grad() || h.requires_grad() || (c.defined() && c.requires_grad()) ||
       w.input.requires_grad() || w.hidden.requires_grad() ||
       (w.input_bias.defined() &&
        (w.input_bias.requires_grad() || w.hidden_bias.requires_grad())));
  if (differentiates) {
    const variable_list out = Layer::apply(
        static_cast<int64_t>(cell),
        reverse,
        x,
        h,
        if_defined(c),
        w.input,
        w.hidden,
        if_defined(w.input_bias),
        if_defined(w.hidden_bias));
    return {out[0], out.size() > 1 ? out[1] : Tensor()};
  }
  at::AutoDispatchBelowADInplaceOrView below;
  const Trace trace = run_steps(cell, x, h, c, w, reverse);
  const int64_t last = Order{x.size(0), reverse}.last();
  return {trace.y, cell == Cell::LSTM ? trace.kept.select(0, last).clone() : Tensor()};
}

bool is_plain(const Tensor& t, const Tensor& like) {
  return t.defined() && t.device() == like.device() && t.scalar_type() == like.scalar_type() &&
      t.layout() == at::kStrided && !t._fw_grad(0).defined();
}

// Whether a function transform of functorch is active.
bool is_transformed() {
  const auto keys = c10::impl::tls_local_dispatch_key_set().included_;
  return keys.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) ||
      keys.has(c10::DispatchKey::FuncTorchDynamicLayerBackMode);
}

bool can_serve(
    Cell cell,
    const Tensor& input,
    TensorList states,
    TensorList params,
    bool biases,
    int64_t layers,
    bool bidirectional,
    bool batch_first) {
  const int64_t each = biases ? 4 : 2, runs = layers * (bidirectional ? 2 : 1);
  if (input.device().type() != c10::DeviceType::PrivateUse1 || input.dim() != 3 ||
      input.numel() == 0 || !input.is_floating_point() || card_dtype(input.scalar_type()) == 0 ||
      static_cast<int64_t>(params.size()) != each * runs || is_transformed() ||
      at::autocast::is_autocast_enabled(c10::DeviceType::PrivateUse1) ||
      states.size() != (cell == Cell::LSTM ? 2 : 1) || !is_plain(input, input)) {
    return false;
  }
  const int64_t size = params[1].size(-1), batch = input.size(batch_first ? 0 : 1);
  if (params[0].size(-1) != input.size(2)) {
    return false;
  }
  for (const Tensor& t : params) {
    if (!is_plain(t, input) || t.size(0) != gates_of(cell) * size) {
      return false;
    }
  }
  for (const Tensor& t : states) {
    if (!is_plain(t, input) || t.dim() != 3 || t.size(0) != runs || t.size(1) != batch ||
        t.size(2) != size) {
      return false;
    }
  }
  return true;
}

// Runs all layers. Returns y, and the last states of each layer.
variable_list run_layers(
    Cell cell,
    const Tensor& input,
    TensorList states,
    TensorList params,
    bool biases,
    int64_t layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1, each = biases ? 4 : 2;
  Tensor x = batch_first ? input.transpose(0, 1) : input;
  std::vector<Tensor> hs, cs;
  for (int64_t layer = 0; layer < layers; layer++) {
    std::vector<Tensor> ys;
    for (int64_t d = 0; d < directions; d++) {
      const int64_t run = layer * directions + d, at = run * each;
      const Weights w{
          params[at],
          params[at + 1],
          biases ? params[at + 2] : Tensor(),
          biases ? params[at + 3] : Tensor()};
      const auto [y, c] = run_layer(
          cell,
          x,
          states[0].select(0, run),
          states.size() > 1 ? states[1].select(0, run) : Tensor(),
          w,
          d == 1);
      ys.push_back(y);
      hs.push_back(y.select(0, d == 1 ? 0 : y.size(0) - 1));
      cs.push_back(c);
    }
    x = directions == 1 ? ys[0] : at::cat(ys, 2);
    if (dropout != 0 && train && layer + 1 < layers) {
      x = at::dropout(x, dropout, true);
    }
  }
  variable_list out{batch_first ? x.transpose(0, 1) : x, at::stack(hs)};
  if (cell == Cell::LSTM) {
    out.push_back(at::stack(cs));
  }
  return out;
}

std::tuple<Tensor, Tensor, Tensor> lstm(
    const Tensor& input,
    TensorList hx,
    TensorList params,
    bool biases,
    int64_t layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  if (!can_serve(Cell::LSTM, input, hx, params, biases, layers, bidirectional, batch_first)) {
    return at::native::lstm(
        input, hx, params, biases, layers, dropout, train, bidirectional, batch_first);
  }
  const variable_list out = run_layers(
      Cell::LSTM, input, hx, params, biases, layers, dropout, train, bidirectional, batch_first);
  return {out[0], out[1], out[2]};
}

template <Cell cell, auto otherwise>
std::tuple<Tensor, Tensor> recurrent(
    const Tensor& input,
    const Tensor& hx,
    TensorList params,
    bool biases,
    int64_t layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  if (!can_serve(cell, input, hx, params, biases, layers, bidirectional, batch_first)) {
    return otherwise(
        input, hx, params, biases, layers, dropout, train, bidirectional, batch_first);
  }
  const variable_list out = run_layers(
      cell, input, hx, params, biases, layers, dropout, train, bidirectional, batch_first);
  return {out[0], out[1]};
}

using Single = std::tuple<Tensor, Tensor>(
    const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);

void add_layers(torch::Library& m) {
  m.impl("lstm.input", lstm);
  m.impl("gru.input", recurrent<Cell::GRU, static_cast<Single*>(at::native::gru)>);
  m.impl("rnn_tanh.input", recurrent<Cell::TANH, static_cast<Single*>(at::native::rnn_tanh)>);
  m.impl("rnn_relu.input", recurrent<Cell::RELU, static_cast<Single*>(at::native::rnn_relu)>);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  names[0].set("lstm.input");
  names[1].set("gru.input");
  names[2].set("rnn_tanh.input");
  names[3].set("rnn_relu.input");
  add_layers(m);
}

// Register for autograd: otherwise core would choose its own step-by-step code, because
// that has derivatives.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  add_layers(m);
}

} // namespace openreg
