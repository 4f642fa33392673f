// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation by VECTOR packets: mean, variance, and one pass over the
// rows; backward two sums a row, one pass, and two sums a column.
#include "aten/convention.h"
#include "aten/reduction.h"

#include <ATen/native/layer_norm.h>
#include <ATen/ops/native_group_norm_native.h>
#include <torch/library.h>

#include <array>
#include <tuple>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

const Space::Mask kRow(2); // [rows, width]: over the width
const Space::Mask kColumn(1);

c10::ScalarType wide(c10::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

struct Rows {
  Rows(
      const Tensor& input,
      at::IntArrayRef normalized,
      const OptTensor& weight,
      const OptTensor& bias) {
    std::tie(rows, width) = at::native::_check_layer_norm_inputs(
        input, normalized, weight.value_or(Tensor()), bias.value_or(Tensor()));
    outer = input.sizes().slice(0, input.dim() - normalized.size()).vec();
    // Statistics keep the input's dimensions, with 1 for what they fold.
    statistics = outer;
    statistics.resize(input.dim(), 1);
  }
  int64_t rows, width;
  std::vector<int64_t> outer, statistics;
};

// [rows, width] from what the caller has.
Tensor flat(const Tensor& t, const Rows& r) {
  return t.reshape({r.rows, r.width});
}
Tensor column(const Tensor& t, const Rows& r) {
  return t.reshape({r.rows, 1});
}
Tensor row(const OptTensor& t) {
  return t && t->defined() ? t->reshape({1, -1}) : Tensor();
}

template <class Formula>
void map(
    OpId id,
    const Tensor& out,
    at::ArrayRef<Tensor> inputs,
    c10::ScalarType type,
    Part part,
    Formula&& formula) {
  Space space(out.sizes(), out.get_device());
  space.add(out);
  for (const Tensor& t : inputs) {
    if (t.defined()) {
      space.add(t);
    }
  }
  space.coalesce();
  Reducer p(type, 1);
  p.store(0, formula(p));
  launch(space, p, id, part);
}

void statistics(OpId id, const Tensor& x, const Tensor& mean, const Tensor& rstd, double eps) {
  const auto type = wide(x.scalar_type());
  const double scale = 1.0 / static_cast<double>(x.size(1));
  reduce(
      {.id = id,
       .op = OPENREG_V_RED_SUM,
       .dims = kRow,
       .compute = type,
       .value = mean,
       .scale = scale},
      {x},
      [](Reducer& p) { return p.in(0); });
  reduce(
      {.id = id,
       .op = OPENREG_V_RED_SUM,
       .dims = kRow,
       .compute = type,
       .value = rstd,
       .scale = scale,
       .part = Part::FURTHER},
      {x, mean},
      [](Reducer& p) {
        const Value d = p.in(0) - p.in(1);
        return d * d;
      });
  map(id, rstd, {rstd}, type, Part::FURTHER, [&](Reducer& p) {
    return rsqrt(p.in(0) + eps);
  });
}

OpName forward_name, backward_name;

Three forward(
    const Tensor& input,
    at::IntArrayRef normalized,
    const OptTensor& weight,
    const OptTensor& bias,
    double eps) {
  if (!on_card(input)) {
    return fallback<Three, const Tensor&, at::IntArrayRef, const OptTensor&, const OptTensor&, double>(
        forward_name, input, normalized, weight, bias, eps);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      input.is_floating_point(), "layer_norm not implemented for '", input.scalar_type(), "'");
  check_device(weight, input.device());
  check_device(bias, input.device());
  const Rows r(input, normalized, weight, bias);
  const auto type = wide(input.scalar_type());
  const auto options = input.options();
  const Tensor out = empty(input.sizes(), {}, options);
  // As core's: half inputs with f32 weights have f32 statistics.
  const auto kept = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  const Tensor mean = empty({r.rows, 1}, {}, options.dtype(type));
  const Tensor rstd = empty({r.rows, 1}, {}, options.dtype(type));
  if (out.numel() != 0) {
    const Tensor x = flat(input, r), w = row(weight), b = row(bias);
    statistics(forward_name.id, x, mean, rstd, eps);
    map(forward_name.id, flat(out, r), {x, mean, rstd, w, b}, type, Part::FURTHER,
        [&](Reducer& p) {
          Value y = (p.in(0) - p.in(1)) * p.in(2);
          y = w.defined() ? y * p.in(3) : y;
          return b.defined() ? y + p.in(w.defined() ? 4 : 3) : y;
        });
  }
  return {out, mean.view(r.statistics).to(kept), rstd.view(r.statistics).to(kept)};
}

// The sums over columns: dweight = sum g * xhat, dbias = sum g.
Tensor column_sum(
    const Tensor& like,
    at::ArrayRef<Tensor> inputs,
    bool with_xhat) {
  const Tensor out = empty(like.sizes(), {}, like.options());
  if (inputs[0].size(0) == 0) {
    return out.zero_();
  }
  reduce(
      {.id = backward_name.id,
       .op = OPENREG_V_RED_SUM,
       .dims = kColumn,
       .compute = wide(inputs[0].scalar_type()),
       .value = out.view({-1}),
       .part = Part::FURTHER},
      inputs,
      [&](Reducer& p) {
        const Value g = p.in(0);
        return with_xhat ? g * ((p.in(1) - p.in(2)) * p.in(3)) : g;
      });
  return out;
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), g being grad * weight.
Tensor input_gradient(
    const Tensor& g,
    const Tensor& x,
    const Tensor& mean,
    const Tensor& rstd,
    const Tensor& w) {
  const auto type = wide(x.scalar_type());
  const auto options = x.options();
  const double scale = 1.0 / static_cast<double>(x.size(1));
  const Tensor sum = empty({x.size(0), 1}, {}, options.dtype(type));
  const Tensor dot = empty({x.size(0), 1}, {}, options.dtype(type));
  const auto weighted = [&](Reducer& p, int at) {
    return w.defined() ? p.in(0) * p.in(at) : p.in(0);
  };
  c10::SmallVector<Tensor, 6> in{g};
  if (w.defined()) {
    in.push_back(w);
  }
  ReduceTo to{
      .id = backward_name.id,
      .op = OPENREG_V_RED_SUM,
      .dims = kRow,
      .compute = type,
      .value = sum,
      .scale = scale};
  reduce(to, in, [&](Reducer& p) { return weighted(p, 1); });
  in = {g, x, mean, rstd};
  if (w.defined()) {
    in.push_back(w);
  }
  to.value = dot;
  to.part = Part::FURTHER;
  reduce(to, in, [&](Reducer& p) {
    return weighted(p, 4) * ((p.in(1) - p.in(2)) * p.in(3));
  });
  const Tensor out = empty(x.sizes(), {}, options);
  map(backward_name.id, out, {g, x, mean, rstd, sum, dot, w}, type, Part::FURTHER,
      [&](Reducer& p) {
        const Value xhat = (p.in(1) - p.in(2)) * p.in(3);
        return p.in(3) * (weighted(p, 6) - p.in(4) - xhat * p.in(5));
      });
  return out;
}

Three backward(
    const Tensor& grad,
    const Tensor& input,
    at::IntArrayRef normalized,
    const Tensor& mean,
    const Tensor& rstd,
    const OptTensor& weight,
    const OptTensor& bias,
    std::array<bool, 3> wanted) {
  for (const Tensor& t : {grad, mean, rstd}) {
    check_device(t, input.device());
  }
  check_device(weight, input.device());
  const Rows r(input, normalized, weight, bias);
  const Tensor g = flat(grad, r), x = flat(input, r);
  const Tensor m = column(mean, r), s = column(rstd, r), w = row(weight);
  Three result;
  auto& [dx, dw, db] = result;
  if (wanted[0]) {
    dx = (x.numel() != 0 ? input_gradient(g, x, m, s, w) : empty(x.sizes(), {}, x.options()))
             .view(input.sizes());
  }
  if (wanted[1] && w.defined()) {
    dw = column_sum(*weight, {g, x, m, s}, true);
  }
  if (wanted[2] && bias && bias->defined()) {
    db = column_sum(*bias, {g}, false);
  }
  return result;
}

// Core's, in terms of other operators, takes its input as it lies in memory.
Three group_norm(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    int64_t n,
    int64_t channels,
    int64_t pixels,
    int64_t groups,
    double eps) {
  return at::native::math_group_norm(
      input.contiguous(), weight, bias, n, channels, pixels, groups, eps);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("native_layer_norm");
  backward_name.set("native_layer_norm_backward");
  m.impl("native_layer_norm", forward);
  m.impl("native_layer_norm_backward", backward);
  m.impl("native_group_norm", group_norm);
}

} // namespace openreg
