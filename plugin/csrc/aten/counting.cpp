// SPDX-License-Identifier: BSD-3-Clause
// Operators that count: histc, bincount, isin, repeat_interleave, nonzero_static.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/isin_meta.h>

#include <cmath>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

OpName histc_name, histc_out_name, bincount_name;

struct IsIn {
  static bool serves(const Tensor& elements, const Tensor& others, bool, bool) {
    constexpr int64_t kMost = int64_t{1} << 30;
    return others.numel() == 0 || elements.numel() <= kMost / others.numel() ||
        elements.numel() + others.numel() <= OPENREG_SORT_ROW_MAX;
  }

  // From this number of comparisons on, a sort of both tensors is faster.
  static bool sorts(int64_t n, int64_t m) {
    constexpr double kFixed = 1 << 22, kPerElement = 256;
    return n + m <= OPENREG_SORT_ROW_MAX &&
        static_cast<double>(n) * static_cast<double>(m) >
        kFixed + kPerElement * static_cast<double>(n + m);
  }

  // Sorts both tensors together, the others before elements that are equal. An element is
  // among the others if its group of equal values begins with one of them. A NaN is a group
  // of its own. Each group's key is twice the place of its first value, plus 1 if this is
  // one of the others.
  static Tensor found(OpId id, const Tensor& elements, const Tensor& others) {
    const int64_t m = others.numel(), all = m + elements.numel();
    const auto [values, order] = at::cat({others, elements}).sort(true, 0, false);
    const Tensor keys = at::zeros({all}, order.options());
    const auto later = [&](const Tensor& t) { return t.narrow(0, 1, all - 1); };
    Step s(id, {all - 1}, order.get_device(), values.scalar_type());
    const Value differs = s.load(later(values)) != s.load(values.narrow(0, 0, all - 1));
    const Value from = s.program.load(s.add(later(order)), OPENREG_VT_I64);
    const Value place = s.index(0) + s.program.imm(1, OPENREG_VT_I64);
    const Value one = s.program.imm(1, OPENREG_VT_I64), none = s.program.imm(0, OPENREG_VT_I64);
    const Value other = select(from < s.program.imm(m, OPENREG_VT_I64), one, none);
    s.store(later(keys), select(differs, place + place + other, none));
    s.run();
    keys.narrow(0, 0, 1).copy_(order.narrow(0, 0, 1).lt(m));
    const Tensor result = at::empty({all}, keys.options().dtype(at::kBool));
    const Tensor group = std::get<0>(at::cummax(keys, 0));
    result.scatter_(0, order, group.bitwise_and_(1).to(at::kBool));
    return result.narrow(0, m, elements.numel());
  }

  // Compares every element with every other one. Needs one packet and no extra memory.
  static Tensor compared(OpId id, const Tensor& elements, const Tensor& others) {
    const Tensor result = at::empty({elements.numel(), 1}, elements.options().dtype(at::kBool));
    Step s(id, {elements.numel(), others.numel()}, elements.get_device(), elements.scalar_type());
    const Value a = s.load(elements.unsqueeze(1)), b = s.load(others.unsqueeze(0));
    s.reduce(OPENREG_V_RED_OR, result, a == b, Space::Mask(2));
    s.run();
    return result;
  }

  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& elements, const Tensor& others, bool, bool invert) const {
    const Tensor& out = op.maybe_get_output(0);
    if (others.numel() == 0) {
      const_cast<Tensor&>(out).fill_(invert);
      return;
    }
    const auto type = at::result_type(elements, others);
    const Tensor a = elements.to(type).reshape({-1}), b = others.to(type).reshape({-1});
    const Tensor result =
        sorts(a.numel(), b.numel()) ? found(id, a, b) : compared(id, a, b);
    if (invert) {
      at::logical_not_out(const_cast<Tensor&>(out), result.view(out.sizes()));
    } else {
      const_cast<Tensor&>(out).copy_(result.view(out.sizes()));
    }
  }
};

struct IsInNumber {
  template <class Op>
  void operator()(OpId, Op& op, const Tensor& elements, const Scalar& other, bool, bool invert) const {
    Tensor out = op.maybe_get_output(0);
    invert ? at::ne_out(out, elements, other) : at::eq_out(out, elements, other);
  }
};

// Returns each i repeats[i] times. The first place of each row gets the difference from
// the row before. The differences of empty rows add up. A cumsum then gives the result.
Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(
      repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
      "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) {
    return at::empty_like(repeats);
  }
  const Tensor ends = repeats.cumsum(0, at::kLong);
  TORCH_CHECK(repeats.ge(0).all().item<bool>(), "repeats can not be negative");
  const int64_t total = ends[-1].item<int64_t>();
  TORCH_CHECK(!output_size || *output_size == total, "allocated size does not match required size");
  const Tensor starts = ends.slice(0, 0, -1);
  Tensor steps = at::zeros({total + 1}, ends.options());
  steps.index_add_(0, starts, at::ones_like(starts));
  return steps.cumsum(0).slice(0, 0, total).to(repeats.scalar_type());
}

// The range of histc. Without a given range, the range of the elements.
std::pair<double, double> histogram_range(const Tensor& self, const Scalar& min, const Scalar& max) {
  double low = min.toDouble(), high = max.toDouble();
  if (low == high && self.numel() > 0) {
    low = self.min().item<double>();
    high = self.max().item<double>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(
      std::isfinite(low) && std::isfinite(high),
      "torch.histc: range of [",
      low,
      ", ",
      high,
      "] is not finite");
  TORCH_CHECK(low < high, "torch.histc: max must be larger than min");
  return {low, high};
}

bool histc_serves(const Tensor& self) {
  const auto type = self.scalar_type();
  return on_card(self) && type != at::kBool && type != at::kHalf && type != at::kBFloat16;
}

// Like histogram_range(), for integers: the bounds are integers.
std::pair<int64_t, int64_t> integer_range(const Tensor& self, const Scalar& min, const Scalar& max) {
  int64_t low = min.toLong(), high = max.toLong();
  if (low == high && self.numel() > 0) {
    const auto [least, greatest] = at::aminmax(self);
    low = least.item<int64_t>();
    high = greatest.item<int64_t>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(low < high, "torch.histc: max must be larger than min");
  return {low, high};
}

Tensor count_integers(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  const auto [low, high] = integer_range(self, min, max);
  const Tensor values = self.reshape({-1}).to(at::kLong);
  const Tensor inside = values.ge(low).logical_and_(values.le(high));
  const Tensor places =
      values.sub(low).mul_(bins).div_(high - low, "trunc").clamp_(0, bins - 1);
  return at::zeros({bins}, self.options())
      .index_add_(0, places, inside.to(self.scalar_type()));
}

Tensor count_bins(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  TORCH_CHECK(bins > 0, "torch.histc(): bins must be > 0");
  if (!self.is_floating_point()) {
    return count_integers(self, bins, min, max);
  }
  const auto [low, high] = histogram_range(self, min, max);
  Tensor counts = at::zeros({bins}, self.options());
  if (self.numel() == 0) {
    return counts;
  }
  // Round each step to the elements' type, as the CPU does: the rounding decides the bin
  // of a value on an edge.
  const auto rounded = [&](double x) {
    return self.scalar_type() == at::kFloat ? double{static_cast<float>(x)} : x;
  };
  const double left = rounded(low), right = rounded(high);
  const Tensor values = self.reshape({-1});
  const Tensor places = values.sub(left).mul_(bins).div_(rounded(right - left));
  const Tensor inside = values.ge(left).logical_and_(values.le(right));
  return counts.index_add_(
      0, places.to(at::kLong).clamp_(0, bins - 1), inside.to(self.scalar_type()));
}

Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  return histc_serves(self) ? count_bins(self, bins, min, max)
                            : fallback<Tensor, const Tensor&, int64_t, const Scalar&, const Scalar&>(
                                  histc_name, self, bins, min, max);
}

Tensor& histc_out(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, Tensor& out) {
  if (!histc_serves(self) || out.scalar_type() != self.scalar_type()) {
    return fallback<Tensor&, const Tensor&, int64_t, const Scalar&, const Scalar&, Tensor&>(
        histc_out_name, self, bins, min, max, out);
  }
  const Tensor counts = count_bins(self, bins, min, max);
  at::native::resize_output(out, counts.sizes());
  return out.copy_(counts);
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  if (!on_card(self) || !on_card(weights) || self.scalar_type() == at::kBool ||
      self.is_floating_point()) {
    return fallback<Tensor, const Tensor&, const std::optional<Tensor>&, int64_t>(
        bincount_name, self, weights, minlength);
  }
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const bool weighted = weights.has_value() && weights->defined();
  if (weighted) {
    check_tensor_device(*weights, self.device());
  }
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({minlength}, self.options().dtype(at::kLong));
  }
  const auto refuse = "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, refuse);
  const auto [least, greatest] = at::aminmax(self);
  TORCH_CHECK(least.item<int64_t>() >= 0, refuse);
  TORCH_CHECK(
      !weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
      "weights should be 1-d and have the same length as input");
  const int64_t most = greatest.item<int64_t>();
  TORCH_CHECK(
      most < INT64_MAX,
      "maximum value of input overflowed, it should be < ",
      INT64_MAX,
      " but got ",
      most);
  const auto type = !weighted                         ? at::kLong
      : weights->scalar_type() == at::kFloat ? at::kFloat
                                                      : at::kDouble;
  const auto options = self.options().dtype(type);
  const Tensor each =
      weighted ? weights->to(type) : at::ones({}, options).expand(self.sizes());
  return at::zeros({std::max(most + 1, minlength)}, options)
      .index_add_(0, self.to(at::kLong), each);
}

// Returns the first `size` places of nonzero. Fills missing places with fill_value.
Tensor nonzero_padded(const Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const Tensor found = at::nonzero(self);
  const int64_t n = std::min(size, found.size(0));
  Tensor out = at::full({size, self.dim()}, fill_value, found.options());
  out.narrow(0, 0, n).copy_(found.narrow(0, 0, n));
  return out;
}

Tensor& nonzero_padded_out(const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  TORCH_CHECK(
      out.scalar_type() == at::kLong,
      "nonzero_static: Expected out tensor to have scalar type ",
      at::kLong,
      " but got scalar type",
      out.scalar_type());
  const Tensor found = nonzero_padded(self, size, fill_value);
  at::native::resize_output(out, found.sizes());
  return out.copy_(found);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  histc_name.set("histc");
  histc_out_name.set("histc.out");
  bincount_name.set("bincount");
  add_op<at::meta::structured_isin_Tensor_Tensor>(
      m, NamesWithoutInplace{"isin.Tensor_Tensor", "isin.Tensor_Tensor_out"}, IsIn());
  add_op<at::meta::structured_isin_Tensor_Scalar>(
      m, NamesWithoutInplace{"isin.Tensor_Scalar", "isin.Tensor_Scalar_out"}, IsInNumber());
  m.impl("repeat_interleave.Tensor", repeat_interleave);
  m.impl("histc", histc);
  m.impl("histc.out", histc_out);
  m.impl("bincount", bincount);
  m.impl("nonzero_static", nonzero_padded);
  m.impl("nonzero_static.out", nonzero_padded_out);
}

} // namespace openreg
