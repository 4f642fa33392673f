// SPDX-License-Identifier: BSD-3-Clause
// scaled_dot_product_attention:
//  - MATMUL packets compute the products. VECTOR packets compute the softmax in between,
//    with scale and mask, and keep the logarithm of the softmax's sum.
//  - Backward computes the probabilities again from this logarithm.
//  - The work runs in slices of batch, heads and queries. Memory holds the scores of only
//    one slice at a time.
#include "aten/convention.h"
#include "aten/matmul.h"
#include "aten/step.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kScores = int64_t{1} << 22; // most scores in memory at a time

OpName forward_name, backward_name;

c10::ScalarType wide_type(c10::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
Tensor wide(const Tensor& t) {
  return t.to(wide_type(t.scalar_type()));
}

// A part of the scores' dimensions 0 to 3: the batch, the kv heads, the query heads of
// each kv head, and the queries.
struct Slice {
  std::array<int64_t, 4> first{}, size{};

  // Cuts the slice out of a tensor that may broadcast over some of the dimensions.
  Tensor of_queries(const Tensor& t) const {
    return cut(t, 4);
  }
  Tensor of_keys(const Tensor& t) const {
    return cut(t, 3);
  }
  // Whether an earlier slice had the same heads.
  bool has_predecessor() const {
    return first[3] > 0;
  }
  bool is_first() const {
    return first == std::array<int64_t, 4>{};
  }

 private:
  Tensor cut(Tensor t, int dims) const {
    for (int d = 0; t.defined() && d < dims; d++) {
      if (t.size(d) > 1) {
        t = t.narrow(d, first[d], size[d]);
      }
    }
    return t;
  }
};

// The part that forward and backward share. Tensors are [batch, kv heads, query heads of
// each kv head, length, channels].
struct Attention {
  Attention(
      const Tensor& query,
      const Tensor& key,
      const Tensor& value,
      const Tensor& bias,
      bool causal,
      std::optional<double> scale)
      : causal(causal),
        scale(scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))))),
        batch(query.size(0)),
        kv_heads(key.size(1)),
        group(key.size(1) == 0 ? 0 : query.size(1) / key.size(1)),
        q(queries(wide(query))),
        k(keys(wide(key))),
        v(keys(wide(value))) {
    if (bias.defined()) {
      this->bias = queries(
          bias.expand({batch, query.size(1), query.size(2), key.size(2)}));
    }
  }

  Tensor queries(const Tensor& t) const {
    return t.unflatten(1, {kv_heads, group});
  }
  Tensor keys(const Tensor& t) const {
    return t.unsqueeze(2).expand({batch, kv_heads, group, t.size(-2), t.size(-1)});
  }

  // The bias with five dimensions. Size 1 means that the bias is the same for all.
  Tensor broadcast(Tensor t) const {
    while (t.dim() < 4) {
      t = t.unsqueeze(0);
    }
    return t.size(1) == 1 ? t.unsqueeze(1) : queries(t);
  }

  // Calls fn(slice's attention, slice) for each slice. A slice has at most kScores
  // scores, or one query.
  template <class Fn>
  void for_each_slice(Fn&& fn) const {
    const auto whole = scores_shape();
    std::array<int64_t, 4> count;
    int64_t inner = whole[4];
    for (int d = 3; d >= 0; d--) {
      count[d] = std::max<int64_t>(1, std::min(kScores / std::max<int64_t>(1, inner), whole[d]));
      inner *= whole[d];
    }
    Slice s;
    const auto walk = [&](const auto& self, int d) -> void {
      if (d == 4) {
        fn(part(s), s);
        return;
      }
      for (s.first[d] = 0; s.first[d] < whole[d]; s.first[d] += count[d]) {
        s.size[d] = std::min(count[d], whole[d] - s.first[d]);
        self(self, d + 1);
      }
    };
    walk(walk, 0);
  }

  Attention part(const Slice& s) const {
    Attention part(*this);
    part.q = s.of_queries(q);
    part.k = s.of_keys(k);
    part.v = s.of_keys(v);
    part.bias = s.of_queries(bias);
    part.first_query = s.first[3];
    return part;
  }

  at::DimVector scores_shape() const {
    return {q.size(0), q.size(1), q.size(2), q.size(3), k.size(3)};
  }
  Tensor new_scores() const {
    return empty(scores_shape(), {}, q.options());
  }

  // Applies bias and causal mask to a score.
  Value masked(Step& s, Value score) const {
    if (bias.defined()) {
      score = score + s.load(bias);
    }
    if (!causal) {
      return score;
    }
    Value query = s.index(3);
    if (first_query > 0) {
      query = query + static_cast<double>(first_query);
    }
    return select(query >= s.index(4), score, -kInf);
  }

  bool causal;
  double scale;
  int64_t batch, kv_heads, group;
  int64_t first_query = 0;
  Tensor q, k, v, bias;
};

const Space::Mask kKeys(1 << 4);

// Replaces scores with exp(score - max). Writes their sum, and the logarithm of the sum
// of exp(score). The sum of a row is 0 if all its keys are masked.
void exponentials(OpId id, const Attention& a, const Tensor& scores, const Tensor& sum, const Tensor& log_sum) {
  const auto type = scores.scalar_type();
  Step top(id, scores, type);
  top.reduce(OPENREG_V_RED_MAX, log_sum, a.masked(top, top.load(scores)), kKeys);
  top.run(Part::FURTHER);
  Step s(id, scores, type);
  const auto operand = s.add(scores);
  const Value m = s.load(log_sum);
  const Value e = exp(a.masked(s, s.load(operand)) - select(m == -kInf, 0.0, m));
  s.program.store(operand, e);
  s.sum(sum, e, kKeys);
  s.run(Part::FURTHER);
  Step log_of(id, sum, type);
  const auto result = log_of.add(log_sum);
  const Value t = log_of.load(sum);
  // Use infinity if the sum is 0: backward then computes probabilities of 0.
  log_of.program.store(result, select(t == 0.0, kInf, log_of.load(result) + log(t)));
  log_of.run(Part::FURTHER);
}

void forward_slice(const Attention& a, const Tensor& out, const Tensor& log_sum, bool first) {
  const auto id = forward_name.id;
  const Tensor scores = a.new_scores();
  multiply_batches(id, scores, a.q, a.k.transpose(-2, -1), a.scale,
                   first ? Part::FIRST : Part::FURTHER);
  auto rows = a.scores_shape();
  rows.back() = 1;
  const Tensor sum = empty(rows, {}, scores.options());
  exponentials(id, a, scores, sum, log_sum);
  const bool in_place = out.scalar_type() == scores.scalar_type();
  const Tensor product = in_place ? out : empty(out.sizes(), {}, scores.options());
  multiply_batches(id, product, scores, a.v);
  Step s(id, out, scores.scalar_type());
  const auto result = s.add(out);
  const Value value = in_place ? s.load(result) : s.load(product);
  const Value total = s.load(sum);
  s.program.store(result, select(total == 0.0, 0.0, value / total));
  s.run(Part::FURTHER);
}

// Returns a dense tensor with dimensions in the query's order.
Tensor result_like(const Tensor& query, const Tensor& value) {
  if (query.size(-1) == value.size(-1)) {
    return at::empty_like(query);
  }
  auto sizes = query.sizes().vec();
  sizes.back() = value.size(-1);
  std::array<int64_t, 4> order{0, 1, 2, 3}, strides;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return query.stride(a) > query.stride(b);
  });
  int64_t stride = 1;
  for (int i = 3; i >= 0; i--) {
    strides[order[i]] = stride;
    stride *= sizes[order[i]];
  }
  return empty(sizes, strides, query.options());
}

using Result = std::tuple<
    Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Result forward(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const OptTensor& bias,
    double dropout,
    bool causal,
    bool,
    std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      dropout == 0, "openreg: fused attention has no dropout; use the math backend");
  for (const Tensor& t : {key, value}) {
    check_device(t, query.device());
  }
  check_device(bias, query.device());
  const Tensor out = result_like(query, value);
  const Tensor log_sum = empty(
      {query.size(0), query.size(1), query.size(2)},
      {},
      query.options().dtype(wide_type(query.scalar_type())));
  const Attention all(query, key, value, bias.value_or(Tensor()), causal, scale);
  const Tensor o = all.queries(out), l = all.queries(log_sum.unsqueeze(-1));
  all.for_each_slice([&](const Attention& a, const Slice& s) {
    forward_slice(a, s.of_queries(o), s.of_queries(l), s.is_first());
  });
  const Tensor seed = empty({}, {}, query.options().dtype(at::kLong)).zero_();
  return {out, log_sum, Tensor(), Tensor(), query.size(2), key.size(2), seed, seed.clone(), Tensor()};
}

struct Gradients {
  Tensor q, k, v, bias; // k and v have all query heads; bias has its original shape

  Gradients of(const Slice& s) const {
    return {s.of_queries(q), s.of_keys(k), s.of_keys(v), s.of_queries(bias)};
  }
};

struct Saved {
  Tensor grad, out, log_sum;

  Saved of(const Slice& s) const {
    return {s.of_queries(grad), s.of_queries(out), s.of_queries(log_sum)};
  }
};

// Replaces scores by probabilities P, and the probabilities' gradients dP by the
// gradients of scores: dS = P * (dP - sum of grad * out).
void score_gradients(
    OpId id,
    const Attention& a,
    const Tensor& scores,
    const Tensor& slopes,
    const Tensor& log_sum,
    const Tensor& dot) {
  Step s(id, scores, scores.scalar_type());
  const auto score = s.add(scores), slope = s.add(slopes);
  const Value raw = s.load(score), d = s.load(slope);
  const Value p = exp(a.masked(s, raw) - s.load(log_sum));
  s.program.store(score, p);
  s.program.store(slope, p * (d - s.load(dot)));
  s.run(Part::FURTHER);
}

// Computes the sums of grad * out. If out has a half type, uses the probabilities
// instead: the rounding of out would dominate a small difference.
void dots(
    OpId id,
    const Attention& a,
    const Saved& saved,
    const Tensor& scores,
    const Tensor& slopes,
    const Tensor& dot) {
  const auto type = scores.scalar_type();
  if (saved.out.scalar_type() == type) {
    Step s(id, saved.grad, type);
    const Value g = s.load(saved.grad);
    s.sum(dot, g * s.load(saved.out), kKeys);
    s.run(Part::FURTHER);
    return;
  }
  Step s(id, scores, type);
  const Value raw = s.load(scores);
  const Value p = exp(a.masked(s, raw) - s.load(saved.log_sum));
  s.sum(dot, p * s.load(slopes), kKeys);
  s.run(Part::FURTHER);
}

// to = alpha * a @ b, or to += alpha * a @ b.
void multiply_into(const Tensor& to, const Tensor& a, const Tensor& b, double alpha, bool adds) {
  const auto id = backward_name.id;
  const Tensor product = adds ? empty(to.sizes(), {}, to.options()) : to;
  multiply_batches(id, product, a, b, alpha);
  if (!adds) {
    return;
  }
  Step s(id, to, to.scalar_type());
  const auto sum = s.add(to);
  s.program.store(sum, s.load(sum) + s.load(product));
  s.run(Part::FURTHER);
}

void backward_slice(
    const Attention& a,
    const Saved& saved,
    const Gradients& to,
    const Slice& slice) {
  const auto id = backward_name.id;
  const bool adds = slice.has_predecessor();
  const Tensor scores = a.new_scores(), slopes = a.new_scores();
  multiply_batches(id, scores, a.q, a.k.transpose(-2, -1), a.scale,
                   slice.is_first() ? Part::FIRST : Part::FURTHER);
  multiply_batches(id, slopes, saved.grad, a.v.transpose(-2, -1));
  auto rows = a.scores_shape();
  rows.back() = 1;
  const Tensor dot = empty(rows, {}, scores.options());
  dots(id, a, saved, scores, slopes, dot);
  score_gradients(id, a, scores, slopes, saved.log_sum, dot);
  if (to.v.defined()) {
    multiply_into(to.v, scores.transpose(-2, -1), saved.grad, 1, adds);
  }
  if (to.q.defined()) {
    multiply_batches(id, to.q, slopes, a.k, a.scale);
  }
  if (to.k.defined()) {
    multiply_into(to.k, slopes.transpose(-2, -1), a.q, a.scale, adds);
  }
  if (to.bias.defined()) {
    to.bias.add_(at::sum_to(slopes, to.bias.sizes()));
  }
}

// Returns the gradient of keys or values in their own layout: the sum over the query
// heads that share them.
Tensor over_groups(const Tensor& t, const Tensor& like) {
  if (!t.defined()) {
    return t;
  }
  return at::empty_like(like).copy_(t.size(2) == 1 ? t.squeeze(2) : t.sum(2));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& bias,
    std::array<bool, 4> wanted,
    const Tensor& out,
    const Tensor& log_sum,
    const Tensor&,
    const Tensor&,
    c10::SymInt,
    c10::SymInt,
    double,
    bool causal,
    const Tensor&,
    const Tensor&,
    std::optional<double> scale) {
  if (!grad.defined()) {
    return {};
  }
  const Attention all(query, key, value, bias, causal, scale);
  const auto like = [&](const Tensor& t, bool want) {
    return want ? empty(t.sizes(), {}, all.q.options()) : Tensor();
  };
  Tensor dq, db;
  if (wanted[0]) {
    dq = at::empty_like(query, all.q.options());
  }
  if (bias.defined() && wanted[3]) {
    db = at::zeros_like(bias, all.q.options());
  }
  const Gradients to{
      dq.defined() ? all.queries(dq) : dq, like(all.k, wanted[1]), like(all.v, wanted[2]),
      db.defined() ? all.broadcast(db) : db};
  const Saved saved{
      all.queries(wide(grad)), all.queries(out), all.queries(log_sum.unsqueeze(-1))};
  all.for_each_slice([&](const Attention& a, const Slice& s) {
    backward_slice(a, saved.of(s), to.of(s), s);
  });
  if (dq.defined()) {
    dq = dq.to(query.scalar_type());
  }
  if (db.defined()) {
    db = db.to(bias.scalar_type());
  }
  return {dq, over_groups(to.k, key), over_groups(to.v, value), db};
}

// Chooses between the kernels above and core's composition, which handles all other calls,
// and these:
//  - A query with channels apart: core's shape function gives the result the query's
//    strides, unlike the CPU.
//  - Float64: gradcheck needs second derivatives, and only the composition has them.
int64_t choice(
    const Tensor& q,
    const Tensor& k,
    const Tensor& v,
    const OptTensor& mask,
    double dropout,
    bool causal,
    std::optional<double>,
    bool grouped) {
  const auto shaped = [&] {
    return q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(0) == k.size(0) &&
        q.size(0) == v.size(0) && k.size(1) == v.size(1) && q.size(-1) == k.size(-1) &&
        k.size(2) == v.size(2) && k.size(1) > 0 &&
        (q.size(1) == k.size(1) || (grouped && q.size(1) % k.size(1) == 0));
  };
  const bool fits = !q.is_nested() && !k.is_nested() && !v.is_nested() && dropout == 0 &&
      q.is_floating_point() && q.scalar_type() != at::kDouble && on_card(q) &&
      q.scalar_type() == k.scalar_type() &&
      q.scalar_type() == v.scalar_type() && shaped() && q.numel() != 0 && k.numel() != 0 &&
      v.numel() != 0 && !(causal && mask.has_value()) && q.stride(-1) == 1;
  const bool fused = fits && at::globalContext().userEnabledOverrideableSDP();
  TORCH_CHECK(
      fused || at::globalContext().userEnabledMathSDP(),
      "No available kernel. Aborting execution.");
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

// Core's kernels for the CPU divide by the number of heads and by the lengths, which ends
// the process if one is 0.
bool has_divisor_0(const Tensor& t) {
  return t.numel() == 0 && (t.dim() < 3 || t.size(1) == 0 || t.size(2) == 0);
}

void flash_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); i++) {
    const c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    TORCH_CHECK(
        !value.isTensor() || !value.toTensor().defined() ||
            !has_divisor_0(value.toTensor()),
        op.operator_name().name,
        " takes no empty tensors, but ",
        arguments[i].name(),
        " has the sizes ",
        value.toTensor().sizes(),
        ". Call torch.nn.functional.scaled_dot_product_attention instead.");
  }
  cpu_fallback(op, stack);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&flash_on_cpu>());
  }
  forward_name.set("_scaled_dot_product_fused_attention_overrideable");
  backward_name.set("_scaled_dot_product_fused_attention_overrideable_backward");
  m.impl("_scaled_dot_product_fused_attention_overrideable", forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", backward);
  m.impl("_fused_sdp_choice", choice);
}

} // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &openreg::choice)
} // namespace at::native
