// SPDX-License-Identifier: BSD-3-Clause
// The fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer, composed of
// other operators. Core uses them in evaluation.
#include "aten/structured.h"

#include <ATen/ATen.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;

struct Projection {
  Tensor weight, bias;

  Tensor operator()(const Tensor& x) const {
    return at::linear(x, weight, bias);
  }
  Projection part(int64_t i) const {
    const int64_t n = weight.size(0) / 3;
    return {weight.narrow(0, i * n, n), bias.narrow(0, i * n, n)};
  }
};

// Returns queries, keys and values as [batch, heads, length, channels].
std::array<Tensor, 3> project(
    std::array<Tensor, 3> inputs,
    const Projection& all,
    int64_t heads) {
  std::array<Tensor, 3> out;
  if (inputs[0].is_same(inputs[1]) && inputs[1].is_same(inputs[2])) {
    const auto parts = all(inputs[0]).chunk(3, -1);
    std::copy(parts.begin(), parts.end(), out.begin());
  } else {
    for (int64_t i = 0; i < 3; i++) {
      out[i] = all.part(i)(inputs[i]);
    }
  }
  for (Tensor& t : out) {
    t = t.unflatten(-1, {heads, -1}).transpose(1, 2);
  }
  return out;
}

// Returns a mask that broadcasts with the scores. True means that the score is left out.
Tensor hidden(const Tensor& mask, std::optional<int64_t> type) {
  const Tensor m = mask.to(at::kBool);
  const bool of_keys = type == 1 || (!type && m.dim() == 2 && m.size(0) != m.size(1));
  return m.dim() == 2 && of_keys ? m.unsqueeze(1).unsqueeze(1) : m;
}

Two multi_head_attention(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    int64_t width,
    int64_t heads,
    const Tensor& qkv_weight,
    const Tensor& qkv_bias,
    const Tensor& out_weight,
    const Tensor& out_bias,
    const OptTensor& mask,
    bool need_weights,
    bool average,
    std::optional<int64_t> mask_type) {
  TORCH_CHECK(
      query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(
      query.size(2) == width && width % heads == 0,
      "expected a query of width ",
      width,
      ", a multiple of ",
      heads,
      " heads, got ",
      query.size(2));
  const auto [q, k, v] = project({query, key, value}, {qkv_weight, qkv_bias}, heads);
  const Tensor hide = mask ? hidden(*mask, mask_type) : Tensor();
  Tensor weights, out;
  if (need_weights) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads));
    Tensor scores = at::matmul(q * scale, k.transpose(-2, -1));
    if (hide.defined()) {
      scores = scores.masked_fill(hide, -std::numeric_limits<double>::infinity());
    }
    weights = scores.softmax(-1);
    out = at::matmul(weights, v);
    weights = average ? weights.mean(1) : weights;
  } else {
    out = at::scaled_dot_product_attention(
        q, k, v, hide.defined() ? OptTensor(hide.logical_not()) : std::nullopt);
  }
  out = out.transpose(1, 2).flatten(2);
  return {at::linear(out, out_weight, out_bias), weights};
}

struct Activated {
  template <class Op>
  void operator()(
      OpId,
      Op& op,
      const Tensor& self,
      const Tensor& a,
      const Tensor& b,
      const at::Scalar& beta,
      const at::Scalar& alpha,
      bool use_gelu) const {
    Tensor out = op.maybe_get_output(0);
    at::addmm_out(out, self, a, b, beta, alpha);
    use_gelu ? out.copy_(at::gelu(out)) : out.relu_();
  }
};

// Always false: openreg has no nested tensors.
bool left_aligned(const Tensor&, const Tensor&) {
  return false;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", at::native::transformer_encoder_layer_forward);
  m.impl("_nested_tensor_from_mask_left_aligned", left_aligned);
  add_op<at::meta::structured__addmm_activation>(
      m, NamesWithoutInplace{"_addmm_activation", "_addmm_activation.out"}, Activated());
}

} // namespace openreg
