// SPDX-License-Identifier: BSD-3-Clause
// cumsum, cumprod, logcumsumexp, cummax and cummin, in place in the result: for
// 1, 2, 4... elements, each second half of a block takes in the last element of
// the first. That is half the elements in each of log2(n) packets, two where n
// is no multiple of the blocks.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/WrapDimMinimal.h>

#include <limits>

namespace openreg {

namespace {

using at::Tensor;

// Halves are folded in f32.
c10::ScalarType wide(c10::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

// Calls fn(later, earlier) for views of t: blocks of earlier elements, each one
// to be taken into a run of later ones. The scanned dimension is t's last.
template <class Fn>
void for_each_fold(const Tensor& t, Fn&& fn) {
  const int64_t n = t.size(-1), stride = t.stride(-1);
  const auto part = [&](int64_t blocks, int64_t length, int64_t first, int64_t step, int64_t inner) {
    auto sizes = t.sizes().vec(), strides = t.strides().vec();
    sizes.back() = blocks;
    strides.back() = step * stride;
    sizes.push_back(length);
    strides.push_back(inner * stride);
    return t.as_strided(sizes, strides, t.storage_offset() + first * stride);
  };
  for (int64_t half = 1; half < n; half *= 2) {
    const int64_t block = 2 * half, blocks = n / block, rest = n % block;
    if (blocks > 0) {
      fn(part(blocks, half, half, block, 1), part(blocks, 1, half - 1, block, 1));
    }
    if (rest > half) {
      const int64_t at = blocks * block + half;
      fn(part(1, rest - half, at, block, 1), part(1, 1, at - 1, block, 1));
    }
  }
}

// out = the scan of self by fold(earlier, later) along a dimension.
template <class Fold>
void scan(OpId id, const Tensor& out, const Tensor& self, int64_t dim, Fold&& fold) {
  if (out.numel() == 0) {
    return;
  }
  const auto type = wide(out.scalar_type());
  const bool in_place = out.scalar_type() == type;
  const Tensor work = in_place ? out : empty(out.sizes(), {}, out.options().dtype(type));
  if (!work.is_same(self)) {
    work.copy_(self);
  }
  if (work.dim() != 0) {
    const int64_t d = c10::maybe_wrap_dim(dim, work.dim());
    Part part = Part::FIRST;
    for_each_fold(work.movedim(d, -1), [&](const Tensor& later, const Tensor& earlier) {
      Step s(id, later, type);
      const auto operand = s.add(later);
      const Value y = s.load(operand);
      s.program.store(operand, fold(s.load(earlier), y));
      s.run(part);
      part = Part::FURTHER;
    });
  }
  if (!in_place) {
    out.copy_(work);
  }
}

using OptType = std::optional<c10::ScalarType>;

struct logcumsumexp_meta : at::impl::MetaBase {
  void meta(const Tensor& self, int64_t dim) {
    c10::maybe_wrap_dim(dim, self.dim());
    set_output_raw_strided(0, self.sizes(), {}, self.options());
  }
};

Value log_add(Value a, Value b) {
  const Value top = max(a, b), low = min(a, b);
  // Equal infinities have no difference.
  return select(isinf(top) & (top == low), top, top + log1p(exp(low - top)));
}

// values, indices: the extreme so far and where it was last met.
template <bool Max>
void extremes(const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  static const OpId id = op_id(Max ? "aten::_cummax_helper" : "aten::_cummin_helper");
  if (self.numel() == 0) {
    return;
  }
  values.copy_(self);
  if (self.dim() == 0) {
    indices.zero_();
    return;
  }
  const int64_t d = c10::maybe_wrap_dim(dim, self.dim());
  const Tensor v = values.movedim(d, -1), i = indices.movedim(d, -1);
  i.copy_(at::arange(v.size(-1), indices.options()).expand(v.sizes()));
  std::vector<std::pair<Tensor, Tensor>> places;
  for_each_fold(i, [&](const Tensor& later, const Tensor& earlier) {
    places.emplace_back(later, earlier);
  });
  size_t at = 0;
  for_each_fold(v, [&](const Tensor& later, const Tensor& earlier) {
    const auto& [later_index, earlier_index] = places[at];
    Step s(id, later, self.scalar_type());
    const auto value = s.add(later), index = s.add(later_index);
    const Value y = s.load(value), x = s.load(earlier);
    Value wins = Max ? y >= x : y <= x;
    wins = is_float(y.type) ? wins | isnan(y) : wins;
    const Value old = s.program.load(index, OPENREG_VT_I64);
    const Value before = s.program.load(s.add(earlier_index), OPENREG_VT_I64);
    s.program.store(value, select(wins, y, x));
    s.program.store(index, select(wins, old, before));
    s.run(at++ == 0 ? Part::FIRST : Part::FURTHER);
  });
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_cumsum>(
      m,
      Names{"cumsum", "cumsum_", "cumsum.out"},
      [](OpId id, auto& op, const Tensor& self, int64_t dim, OptType) {
        scan(id, op.maybe_get_output(0), self, dim, [](Value x, Value y) { return x + y; });
      });
  add_op<at::meta::structured_cumprod>(
      m,
      Names{"cumprod", "cumprod_", "cumprod.out"},
      [](OpId id, auto& op, const Tensor& self, int64_t dim, OptType) {
        scan(id, op.maybe_get_output(0), self, dim, [](Value x, Value y) { return x * y; });
      });
  add_op<logcumsumexp_meta>(
      m,
      NamesWithoutInplace{"_logcumsumexp", "_logcumsumexp.out"},
      [](OpId id, auto& op, const Tensor& self, int64_t dim) {
        scan(id, op.maybe_get_output(0), self, dim, log_add);
      });
  m.impl("_cummax_helper", extremes<true>);
  m.impl("_cummin_helper", extremes<false>);
}

} // namespace openreg
