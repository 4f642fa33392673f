// SPDX-License-Identifier: BSD-3-Clause
// embedding_bag: the sum, mean or maximum of a table's rows for every bag of indices.
#include <ATen/NativeFunctions.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "aten/convention.h"
#include "aten/index.h"
#include "aten/segments.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

enum Mode : int64_t { SUM, MEAN, MAX };

struct Forward;
struct ForwardOnly;
template <class Which>
OpName forward_name;
OpName dense_name, weights_name;

bool is_index(const Tensor& t) {
  return t.scalar_type() == at::kLong || t.scalar_type() == at::kInt;
}

bool given(const OptTensor& t) {
  return t.has_value() && t->defined();
}

// The most elements of temporary memory.
constexpr int64_t kMost = 1 << 24;

// Whether the card can run the call. If not, the CPU runs it, and reports bad arguments.
// The maximum needs memory for all rows of the bags.
bool serves(
    const Tensor& weight,
    const Tensor& indices,
    const Tensor& offsets,
    int64_t mode,
    const OptTensor& factors,
    bool include_last_offset) {
  const c10::Device device = weight.device();
  return weight.dim() == 2 && weight.is_floating_point() && card_dtype(weight.scalar_type()) != 0 &&
      indices.dim() == 1 && indices.numel() <= INT32_MAX && offsets.dim() == 1 && is_index(indices) && is_index(offsets) &&
      indices.device() == device && offsets.device() == device && mode >= SUM && mode <= MAX &&
      (mode != MAX || indices.numel() * weight.size(1) <= kMost) &&
      (!include_last_offset || offsets.size(0) > 0) &&
      (!given(factors) ||
       (mode == SUM && factors->dim() == 1 && factors->device() == device &&
        factors->scalar_type() == weight.scalar_type() && factors->numel() == indices.numel()));
}

// Returns the number of the bag of every index.
Tensor bags_of(const Tensor& offsets, int64_t count) {
  return offsets.numel() == 0 || count == 0
      ? at::zeros({count}, offsets.options().dtype(at::kLong))
      : segments_of(offsets.narrow(0, 1, offsets.numel() - 1), count);
}

// Folds each row of `rows` into the row of `to` that `which` names.
void fold(
    OpId id,
    uint8_t mode,
    const Tensor& to,
    const Tensor& rows,
    const Tensor& which,
    Part part = Part::FIRST) {
  index_slices(id, mode, Negative::BAD, to, rows, 0, which, part);
}

// For each bag's maximum, returns the place of the first index with the maximum in its row.
Tensor winners(
    OpId id,
    const Tensor& rows,
    const Tensor& greatest,
    const Tensor& indices,
    const Tensor& bags) {
  const int64_t count = indices.numel();
  const auto options = bags.options().dtype(at::kInt);
  const Tensor place = at::arange(count, options).unsqueeze(1);
  const Tensor places = at::empty(rows.sizes(), options);
  const Tensor most = greatest.index_select(0, bags);
  Step s(id, rows, rows.scalar_type());
  const Value x = s.load(rows), wins = (x == s.load(most)) | isnan(x);
  const Value here = s.program.load(s.add(place), OPENREG_VT_I32);
  s.store(places, s.program.select(wins, here, s.program.imm(count, OPENREG_VT_I32)));
  s.run(Part::FURTHER);
  const Tensor first = at::full(greatest.sizes(), count, options);
  fold(id, OPENREG_INDEX_MIN, first, places, bags, Part::FURTHER);
  const Tensor there = first.lt(count);
  return indices.index_select(0, first.clamp_max_(count - 1).view({-1}))
      .view(first.sizes())
      .masked_fill_(there.logical_not(), 0);
}

template <class Which>
Four forward(
    const Tensor& weight,
    const Tensor& indices,
    const Tensor& offsets,
    bool scale_grad_by_freq,
    int64_t mode,
    bool sparse,
    const OptTensor& factors,
    bool include_last_offset,
    int64_t padding_idx) {
  const OpName& name = forward_name<Which>;
  if (!serves(weight, indices, offsets, mode, factors, include_last_offset)) {
    return fallback<
        Four,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        bool,
        int64_t,
        bool,
        const OptTensor&,
        bool,
        int64_t>(
        name,
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        factors,
        include_last_offset,
        padding_idx);
  }
  const OpId id = name.id;
  const int64_t count = indices.numel(), width = weight.size(1);
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const Tensor where = bags_of(
      include_last_offset ? offsets.narrow(0, 0, bags) : offsets, count);
  const bool pads = padding_idx >= 0;
  // Indices of padding go to an extra bag.
  const Tensor kept = pads ? where.masked_fill(indices.eq(padding_idx), bags) : where;
  const auto type = at::toOpMathType(weight.scalar_type());
  const auto options = weight.options().dtype(type);
  const double start = mode == MAX ? -std::numeric_limits<double>::infinity() : 0;
  const Tensor all = at::full({bags + pads, width}, start, options);
  const Tensor sizes = at::zeros({bags + pads}, where.options());
  const int64_t most = std::max<int64_t>(kMost / std::max<int64_t>(width, 1), 1);
  const uint8_t combine = mode == MAX ? OPENREG_INDEX_MAX : OPENREG_INDEX_ADD;
  // A table of halves is converted as a whole, unless the indices name fewer rows.
  const bool convertible = weight.size(0) <= count && weight.numel() <= kMost;
  const bool direct =
      mode != MAX && !given(factors) && (weight.scalar_type() == type || convertible);
  if (direct && count > 0) {
    index_rows(id, combine, all, kept, weight.to(type).contiguous(), indices);
  }
  Tensor rows;
  for (int64_t i = 0; i < count && !direct; i += most) {
    const auto take = [&](const Tensor& t) { return t.narrow(0, i, std::min(most, count - i)); };
    rows = weight.index_select(0, take(indices));
    rows = given(factors) ? rows.mul(take(*factors).to(type).unsqueeze(1)) : rows.to(type);
    fold(id, combine, all, rows, take(kept),
         i == 0 ? Part::FIRST : Part::FURTHER);
  }
  if (count > 0) {
    sizes.index_add_(0, kept, at::ones({}, sizes.options()).expand({count}));
  }
  Tensor out = all.narrow(0, 0, bags), largest = at::empty({0}, indices.options());
  const Tensor size = sizes.narrow(0, 0, bags);
  if (mode == MEAN) {
    out.div_(size.clamp_min(1).unsqueeze(1));
  } else if (mode == MAX) {
    largest = count > 0
        ? winners(id, rows, all, indices, kept).narrow(0, 0, bags)
        : at::zeros({bags, width}, indices.options());
    out.masked_fill_(size.eq(0).unsqueeze(1), 0);
  }
  out = out.to(weight.scalar_type());
  // As in core's meta function, the result includes the size of the last offset's bag.
  const Tensor all_sizes = at::zeros(offsets.sizes(), indices.options());
  all_sizes.narrow(0, 0, bags).copy_(size);
  return {
      pads && out.is_alias_of(all) ? out.clone() : out,
      where.to(indices.scalar_type()),
      all_sizes,
      largest};
}

// For every index, returns how often the index occurs.
Tensor frequencies(const Tensor& indices, int64_t rows, const at::TensorOptions& options) {
  const Tensor count = at::zeros({rows}, options);
  count.index_add_(0, indices, at::ones({}, options).expand(indices.sizes()));
  return count.index_select(0, indices);
}

Tensor dense_backward(
    const Tensor& grad,
    const Tensor& indices,
    const Tensor& bags,
    const Tensor& bag_size,
    const Tensor& largest,
    int64_t rows,
    bool scale_grad_by_freq,
    int64_t mode,
    const OptTensor& factors,
    int64_t padding_idx) {
  if (!grad.is_floating_point() || card_dtype(grad.scalar_type()) == 0 || grad.dim() != 2 ||
      !is_index(indices) || mode < SUM || mode > MAX || (mode == MAX && scale_grad_by_freq)) {
    return fallback<
        Tensor,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        int64_t,
        bool,
        int64_t,
        const OptTensor&,
        int64_t>(
        dense_name,
        grad,
        indices,
        bags,
        bag_size,
        largest,
        rows,
        scale_grad_by_freq,
        mode,
        factors,
        padding_idx);
  }
  const OpId id = dense_name.id;
  const auto options = grad.options().dtype(at::toOpMathType(grad.scalar_type()));
  const Tensor out = at::zeros({rows, grad.size(1)}, options);
  const Tensor size = bag_size.slice(0, 0, grad.size(0));
  if (mode == MAX) {
    // An empty bag names row 0: its gradient must not count.
    const Tensor used = grad.to(options.dtype()).masked_fill(size.eq(0).unsqueeze(1), 0);
    out.scatter_add_(0, largest.to(at::kLong), used);
    return out.to(grad.scalar_type());
  }
  if (indices.numel() == 0) {
    return out.to(grad.scalar_type());
  }
  Tensor of_bags = grad.to(options.dtype());
  if (mode == MEAN) {
    of_bags = of_bags.div(size.clamp_min(1).unsqueeze(1));
  }
  if (scale_grad_by_freq || given(factors)) {
    Tensor each = of_bags.index_select(0, bags);
    if (scale_grad_by_freq) {
      each.div_(frequencies(indices, rows, options).unsqueeze(1));
    }
    if (given(factors)) {
      each.mul_(factors->unsqueeze(1));
    }
    fold(id, OPENREG_INDEX_ADD, out, each, indices);
  } else {
    index_rows(id, OPENREG_INDEX_ADD, out, indices, of_bags.contiguous(), bags);
  }
  if (padding_idx >= 0) {
    out.select(0, padding_idx).zero_();
  }
  return out.to(grad.scalar_type());
}

Tensor weights_backward(
    const Tensor& grad,
    const Tensor& weight,
    const Tensor& indices,
    const Tensor& offsets,
    const Tensor& bags,
    int64_t mode,
    int64_t padding_idx) {
  if (mode != SUM || grad.dim() != 2 || weight.dim() != 2 || grad.size(1) != weight.size(1) ||
      !is_index(indices) || grad.scalar_type() != weight.scalar_type() ||
      !grad.is_floating_point() || card_dtype(grad.scalar_type()) == 0) {
    return fallback<
        Tensor,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        int64_t,
        int64_t>(weights_name, grad, weight, indices, offsets, bags, mode, padding_idx);
  }
  const int64_t count = indices.numel();
  const Tensor which = bags.numel() == count ? bags : bags_of(offsets, count);
  const Tensor out = at::zeros({count}, grad.options());
  if (count == 0 || grad.size(1) == 0) {
    return out;
  }
  const Tensor a = grad.index_select(0, which), b = weight.index_select(0, indices);
  Step s(weights_name.id, a, at::toOpMathType(grad.scalar_type()));
  s.sum(out.unsqueeze(1), s.load(a) * s.load(b), Space::Mask(2));
  s.run();
  return padding_idx >= 0 ? out.masked_fill(indices.eq(padding_idx), 0) : out;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name<Forward>.set("_embedding_bag");
  forward_name<ForwardOnly>.set("_embedding_bag_forward_only");
  dense_name.set("_embedding_bag_dense_backward");
  weights_name.set("_embedding_bag_per_sample_weights_backward");
  m.impl("_embedding_bag", forward<Forward>);
  m.impl("_embedding_bag_forward_only", forward<ForwardOnly>);
  m.impl("_embedding_bag_backward", at::native::_embedding_bag_backward_symint);
  m.impl("_embedding_bag_dense_backward", dense_backward);
  m.impl("_embedding_bag_per_sample_weights_backward", weights_backward);
}

} // namespace openreg
