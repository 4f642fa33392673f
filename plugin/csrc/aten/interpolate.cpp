// SPDX-License-Identifier: BSD-3-Clause
// Interpolation, one axis after the other. An element of the result is a sum of weighted
// taps (elements of the source). The host computes the taps. Result elements at a
// constant distance have taps at a constant distance: such a run is one packet over
// strided views, without an index. Backward uses the transposed taps, so the order of its
// sums is fixed.
#include "aten/structured.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "aten/interpolation.h"
#include "aten/space.h"

namespace openreg {

namespace {

using at::Tensor;
using Scale = std::optional<double>;

constexpr int64_t kSpatial = 2; // the first spatial dimension
constexpr size_t kTaps = 6; // of a packet: each has a view and may have a weight
constexpr size_t kRuns = 64; // for more runs, an index is faster

// The elements first, first + step, ... Their taps are `move` elements apart.
struct Run {
  int64_t first, count, step, move;
};

bool follows(const Taps& taps, int64_t a, int64_t b, int64_t move) {
  return std::equal(
      taps[a].begin(), taps[a].end(), taps[b].begin(), taps[b].end(),
      [&](const Tap& x, const Tap& y) { return y.place - x.place == move; });
}

std::vector<Run> find_runs(const Taps& taps, int64_t source) {
  const auto all = static_cast<int64_t>(taps.size()), common = std::gcd(all, source);
  const int64_t step = all / common, move = source / common;
  std::vector<Run> runs;
  for (int64_t phase = 0; phase < step; phase++) {
    for (int64_t i = phase; i < all; i += step) {
      if (i > phase && follows(taps, i - step, i, move)) {
        runs.back().count++;
      } else {
        runs.push_back({i, 1, step, move});
      }
    }
  }
  return runs;
}

// Views `count` elements along dim, starting at `first`, `step` apart.
Tensor view(const Tensor& t, int64_t dim, int64_t first, int64_t count, int64_t step) {
  at::DimVector sizes(t.sizes()), strides(t.strides());
  const int64_t offset = t.storage_offset() + first * strides[dim];
  sizes[dim] = count;
  strides[dim] *= step;
  return t.as_strided(sizes, strides, offset);
}

class Pass {
 public:
  Pass(OpId id, const Tensor& out, const Tensor& in, int64_t dim, const Taps& taps, bool weighs, Part& part)
      : id_(id), out_(out), in_(in), dim_(dim), taps_(taps), weighs_(weighs), part_(part) {}

  void run() {
    const std::vector<Run> runs = find_runs(taps_, in_.size(dim_));
    if (runs.size() > kRuns) {
      run_by_index();
      return;
    }
    for (const Run& r : runs) {
      const Tensor to = view(out_, dim_, r.first, r.count, r.step);
      const size_t count = taps_[r.first].size();
      size_t k = 0;
      do {
        add(to, r, k, std::min(k + kTaps, count));
        k += kTaps;
      } while (k < count);
    }
  }

 private:
  // Adds the taps from k to end of a run to the result. The first taps overwrite the
  // result.
  void add(const Tensor& to, const Run& r, size_t k, size_t end) {
    Space space(to.sizes(), to.get_device());
    Program p(vector_type(at::toOpMathType(to.scalar_type())));
    space.add(to);
    std::optional<Value> sum;
    if (k > 0) {
      sum = p.load(0, p.type());
    }
    for (; k < end; k++) {
      const Tensor from = view(in_, dim_, taps_[r.first][k].place, r.count, r.move);
      const Value x = weigh(p, space, p.load(space.add(from), p.type()), r, k);
      sum = sum ? *sum + x : x;
    }
    p.store(0, sum ? *sum : p(0.0));
    space.sort_by_stride(0);
    space.coalesce();
    launch(space, p, id_, part_);
    part_ = Part::FURTHER;
  }

  Value weigh(Program& p, Space& space, Value x, const Run& r, size_t k) {
    if (!weighs_) {
      return x;
    }
    const double weight = taps_[r.first][k].weight;
    bool same = true;
    for (int64_t i = 1; i < r.count; i++) {
      same &= taps_[r.first + i * r.step][k].weight == weight;
    }
    if (same) {
      return x * weight;
    }
    at::DimVector strides(out_.dim(), 0);
    strides[dim_] = r.step;
    const Tensor w = weights().select(0, static_cast<int64_t>(k)).slice(0, r.first);
    return x * p.load(space.add(w, std::move(strides)), p.type());
  }

  // Adds the kth tap of all elements with one index packet. If an element has fewer taps,
  // the weight is NaN.
  void run_by_index() {
    const Tensor places = table(at::kLong, 0, [](const Tap& t) { return static_cast<double>(t.place); });
    const Tensor sum = at::zeros(out_.sizes(), out_.options().dtype(weights().scalar_type()));
    for (int64_t k = 0; k < places.size(0); k++) {
      const Tensor x = in_.index_select(dim_, places.select(0, k));
      at::DimVector strides(out_.dim(), 0);
      strides[dim_] = 1;
      Space space(sum.sizes(), sum.get_device());
      Program p(vector_type(sum.scalar_type()));
      space.add(sum);
      space.add(x);
      space.add(weights().select(0, k), std::move(strides));
      space.sort_by_stride(0);
      space.coalesce();
      const Value w = p.load(2, p.type());
      const Value more = p.select(isnan(w), p(0.0), p.load(1, p.type()) * w);
      p.store(0, p.load(0, p.type()) + more);
      launch(space, p, id_, part_);
      part_ = Part::FURTHER;
    }
    out_.copy_(sum);
  }

  // The weights on the card: [taps, elements].
  const Tensor& weights() {
    if (!weights_.defined()) {
      const auto type = at::toOpMathType(out_.scalar_type());
      weights_ = table(
          at::isFloatingType(type) ? type : at::kDouble,
          std::numeric_limits<double>::quiet_NaN(),
          [](const Tap& t) { return t.weight; });
    }
    return weights_;
  }

  template <class Fn>
  Tensor table(c10::ScalarType type, double none, Fn&& of) {
    size_t most = 0;
    for (const auto& t : taps_) {
      most = std::max(most, t.size());
    }
    const size_t all = taps_.size();
    std::vector<double> host(most * all, none);
    for (size_t i = 0; i < all; i++) {
      for (size_t k = 0; k < taps_[i].size(); k++) {
        host[k * all + i] = of(taps_[i][k]);
      }
    }
    return at::from_blob(
               host.data(),
               {static_cast<int64_t>(most), static_cast<int64_t>(all)},
               at::TensorOptions(at::kDouble))
        .to(type)
        .to(out_.device());
  }

  OpId id_;
  const Tensor& out_;
  const Tensor& in_;
  int64_t dim_;
  const Taps& taps_;
  bool weighs_;
  Part& part_;
  Tensor weights_;
};

template <class Kind>
Taps find_taps(const Axis& axis, c10::ScalarType type) {
  Taps taps(axis.large);
  if (at::toOpMathType(type) == at::kDouble) {
    Kind::template find<double>(axis, taps);
  } else {
    Kind::template find<float>(axis, taps);
  }
  return taps;
}

// Chooses the cheapest order of the passes. A pass along the innermost dimension reads
// elements with a stride, and so fetches the same cache lines several times.
void choose_order(c10::SmallVector<int64_t, 3>& dims, const Tensor& out, const Tensor& in) {
  constexpr double kApart = 4;
  const auto cost = [&](const c10::SmallVector<int64_t, 3>& order) {
    double all = 0, elements = static_cast<double>(in.numel());
    for (const int64_t d : order) {
      const double after = elements * static_cast<double>(out.size(d)) / static_cast<double>(in.size(d));
      all += std::max(elements, after) * (in.stride(d) == 1 ? kApart : 1);
      elements = after;
    }
    return all;
  };
  c10::SmallVector<int64_t, 3> order = dims;
  while (std::next_permutation(order.begin(), order.end())) {
    if (cost(order) < cost(dims)) {
      dims = order;
    }
  }
}

// Interpolates from in to out. Either can be the larger tensor.
template <class Kind>
void interpolate(
    OpId id,
    const Tensor& out,
    const Tensor& in,
    bool backward,
    bool align,
    at::ArrayRef<Scale> scales) {
  const Tensor &large = backward ? in : out, &small = backward ? out : in;
  const auto between =
      Kind::weighs || backward ? at::toOpMathType(out.scalar_type()) : out.scalar_type();
  c10::SmallVector<int64_t, 3> dims;
  for (int64_t d = kSpatial; d < out.dim(); d++) {
    if (!Kind::copies || large.size(d) != small.size(d)) {
      dims.push_back(d);
    }
  }
  if (dims.empty()) {
    out.copy_(in);
    return;
  }
  choose_order(dims, out, in);
  Part part = Part::FIRST;
  Tensor x = in;
  for (size_t i = 0; i < dims.size(); i++) {
    const int64_t d = dims[i];
    const Axis axis{large.size(d), small.size(d), scales[d - kSpatial], align};
    Taps taps = find_taps<Kind>(axis, out.scalar_type());
    if (backward) {
      taps = transposed(taps, axis.small);
    }
    Tensor to = out;
    if (i + 1 < dims.size()) {
      at::DimVector sizes(x.sizes());
      sizes[d] = out.size(d);
      to = at::empty(
          sizes, x.options().dtype(between).memory_format(x.suggest_memory_format()));
    }
    Pass(id, to, x, d, taps, Kind::weighs, part).run();
    x = to;
  }
}

// Operators without weights have scales, but no align argument.
template <class Kind, bool IsBackward, class... Scales>
void call(OpId id, const Tensor& out, const Tensor& in, bool align, const Scales&... scale) {
  if (out.numel() == 0 || in.numel() == 0) {
    out.zero_();
    return;
  }
  const std::array<Scale, sizeof...(scale)> scales{Scale(scale)...};
  interpolate<Kind>(id, out, in, IsBackward, align, scales);
}

template <class Kind>
struct Forward {
  template <class... Rest>
  static bool serves(const Tensor& self, const Rest&...) {
    // Leave other types to the CPU: it has uint8, and reports types that it lacks.
    return self.is_floating_point() || (!Kind::weighs && self.scalar_type() == at::kByte);
  }
  template <class Op, class... Scales>
  void operator()(
      OpId id, Op& op, const Tensor& self, at::IntArrayRef, bool align, const Scales&... scale) const {
    call<Kind, false>(id, op.maybe_get_output(0), self, align, scale...);
  }
  template <class Op, class... Scales>
  void operator()(OpId id, Op& op, const Tensor& self, at::IntArrayRef, const Scale& first, const Scales&... scale)
      const {
    call<Kind, false>(id, op.maybe_get_output(0), self, false, first, scale...);
  }
};

template <class Kind>
struct Backward {
  template <class Op, class... Scales>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad,
      at::IntArrayRef,
      at::IntArrayRef,
      bool align,
      const Scales&... scale) const {
    call<Kind, true>(id, op.maybe_get_output(0), grad, align, scale...);
  }
  template <class Op, class... Scales>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad,
      at::IntArrayRef,
      at::IntArrayRef,
      const Scale& first,
      const Scales&... scale) const {
    call<Kind, true>(id, op.maybe_get_output(0), grad, false, first, scale...);
  }
};

#define OPENREG_INTERPOLATION(name, ...)                               \
  add_op<at::meta::structured_##name>(                                 \
      m, NamesWithoutInplace{#name, #name ".out"}, Forward<__VA_ARGS__>()); \
  add_op<at::meta::structured_##name##_backward>(                      \
      m,                                                               \
      NamesWithoutInplace{                                             \
          #name "_backward", #name "_backward.grad_input"},            \
      Backward<__VA_ARGS__>())

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OPENREG_INTERPOLATION(upsample_nearest1d, Nearest<false>);
  OPENREG_INTERPOLATION(upsample_nearest2d, Nearest<false>);
  OPENREG_INTERPOLATION(upsample_nearest3d, Nearest<false>);
  OPENREG_INTERPOLATION(_upsample_nearest_exact1d, Nearest<true>);
  OPENREG_INTERPOLATION(_upsample_nearest_exact2d, Nearest<true>);
  OPENREG_INTERPOLATION(_upsample_nearest_exact3d, Nearest<true>);
  OPENREG_INTERPOLATION(upsample_linear1d, Linear);
  OPENREG_INTERPOLATION(upsample_bilinear2d, Linear);
  OPENREG_INTERPOLATION(upsample_trilinear3d, Linear);
  OPENREG_INTERPOLATION(upsample_bicubic2d, Cubic);
  OPENREG_INTERPOLATION(_upsample_bilinear2d_aa, Widened<Triangle>);
  OPENREG_INTERPOLATION(_upsample_bicubic2d_aa, Widened<SteeperCubic>);
  OPENREG_INTERPOLATION(_upsample_lanczos2d_aa, Widened<Lanczos>);
}

} // namespace openreg
