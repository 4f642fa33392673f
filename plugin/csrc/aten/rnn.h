// SPDX-License-Identifier: BSD-3-Clause
// The cells of recurrent layers, with one packet each. Gates lie side by side: [batch,
// gates * hidden].
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/launch.h"

namespace openreg {

// gates has the sums; lstm_step() replaces them by their activations.
void lstm_step(
    OpId id,
    const at::Tensor& gates,
    const at::Tensor& cx,
    const at::Tensor& hy,
    const at::Tensor& cy,
    Part part = Part::FURTHER);

// gates are after their activations. grad_hy and grad_cy may be undefined. grad_cx may be
// grad_cy.
void lstm_step_backward(
    OpId id,
    const at::Tensor& gates,
    const at::Tensor& cx,
    const at::Tensor& cy,
    const at::Tensor& grad_hy,
    const at::Tensor& grad_cy,
    const at::Tensor& grad_gates,
    const at::Tensor& grad_cx,
    Part part = Part::FURTHER);

// kept receives the gates r, z and n, and may be input's own memory.
void gru_step(
    OpId id,
    const at::Tensor& input,
    const at::Tensor& hidden,
    const at::Tensor& hx,
    const at::Tensor& hy,
    const at::Tensor& kept,
    Part part = Part::FURTHER);

// scaled is the part that the reset gate scales. grad_hx = grad_hy * z, plus more if more
// is defined.
void gru_step_backward(
    OpId id,
    const at::Tensor& kept,
    const at::Tensor& scaled,
    const at::Tensor& hx,
    const at::Tensor& grad_hy,
    const at::Tensor& more,
    const at::Tensor& grad_input,
    const at::Tensor& grad_hidden,
    const at::Tensor& grad_hx,
    Part part = Part::FURTHER);

} // namespace openreg
