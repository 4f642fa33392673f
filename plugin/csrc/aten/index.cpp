// SPDX-License-Identifier: BSD-3-Clause
#include "aten/index.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

namespace openreg {

using at::Tensor;

IndexSpace::IndexSpace(
    uint8_t mode,
    Negative negative,
    c10::IntArrayRef sizes,
    const Tensor& dst,
    at::DimVector dst_strides,
    const Tensor& src,
    at::DimVector src_strides)
    : mode_(mode), negative_(negative), space_(sizes, dst.get_device()) {
  space_.add(dst, std::move(dst_strides));
  space_.add(src, std::move(src_strides));
}

void IndexSpace::choose(
    const Tensor& index,
    at::DimVector index_strides,
    int64_t extent,
    int64_t step) {
  if (choices_.size() + 1 == OPENREG_INDEX_OPERANDS_MAX) {
    further_.push_back({index, std::move(index_strides), {extent, step}});
    return;
  }
  space_.add(index, std::move(index_strides));
  choices_.push_back({extent, step});
}

void IndexSpace::choose_source(
    const Tensor& index,
    at::DimVector index_strides,
    int64_t extent,
    int64_t step) {
  TORCH_INTERNAL_ASSERT(mode_ != OPENREG_INDEX_GET && further_.empty());
  sources_ |= static_cast<uint8_t>(1u << choices_.size());
  choose(index, std::move(index_strides), extent, step);
}

void IndexSpace::check_extent(const Choice& choice) {
  TORCH_CHECK_INDEX(
      choice.extent != 0, "index is out of bounds for dimension with size 0");
}

// Merges the further indices into one: an INDEX packet reads a table of the numbers 0, 1,
// 2... at the place that they name. The card checks each index in this packet.
Part IndexSpace::fold_further(OpId op, Part part) {
  if (further_.size() == 1) {
    Further& f = further_[0];
    space_.add(f.index, std::move(f.strides));
    choices_.push_back(f.choice);
    return part;
  }
  std::vector<int64_t> sizes(space_.ndim(), 1);
  int64_t places = 1;
  for (const Further& f : further_) {
    places += (f.choice.extent - 1) * f.choice.step;
    for (int d = 0; d < space_.ndim(); d++) {
      sizes[d] = f.strides[d] == 0 ? sizes[d] : space_.sizes()[d];
    }
  }
  const auto options = further_[0].index.options().dtype(at::kLong);
  const Tensor table = at::arange(places, options);
  const Tensor out = at::empty(sizes, options);
  IndexSpace fold(
      OPENREG_INDEX_GET,
      negative_,
      sizes,
      out,
      at::DimVector(out.strides()),
      table,
      at::DimVector(sizes.size(), 0));
  at::DimVector strides(out.strides());
  for (size_t d = 0; d < sizes.size(); d++) {
    strides[d] = sizes[d] == 1 ? 0 : strides[d];
  }
  for (Further& f : further_) {
    fold.choose(f.index, std::move(f.strides), f.choice.extent, f.choice.step);
  }
  space_.add(out, std::move(strides));
  choices_.push_back({places, 1});
  return fold.launch(op, part);
}

Part IndexSpace::launch(OpId op, Part part) {
  if (space_.numel() == 0) {
    return part;
  }
  for (const Choice& choice : choices_) {
    check_extent(choice);
  }
  for (const Further& f : further_) {
    check_extent(f.choice);
  }
  if (!further_.empty()) {
    part = fold_further(op, part);
  }
  space_.coalesce();
  space_.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_INDEX, op);
    packet.arg(0, mode_);
    packet.arg(1, negative_ == Negative::WRAPS ? OPENREG_INDEX_WRAP : 0);
    packet.arg(2, sources_);
    s.put(packet);
    for (const Choice& choice : choices_) {
      packet.imm(choice.extent);
      packet.imm(choice.step);
    }
    openreg::launch(packet, s.device(), part);
    part = Part::FURTHER;
  });
  return part;
}

Tensor with_dim(const Tensor& t) {
  return t.dim() == 0 ? t.unsqueeze(0) : t;
}

namespace {

at::DimVector strides_without(const Tensor& t, int64_t dim) {
  at::DimVector strides(t.strides());
  strides[dim] = 0;
  return strides;
}

} // namespace

Part index_points(
    OpId op,
    uint8_t mode,
    const Tensor& dst,
    const Tensor& src,
    int64_t dim,
    const Tensor& index,
    Part part) {
  if (index.numel() == 0) {
    return part;
  }
  const bool get = mode == OPENREG_INDEX_GET;
  const Tensor d = with_dim(dst), s = with_dim(src), i = with_dim(index);
  const Tensor& indirect = get ? s : d;
  dim = at::maybe_wrap_dim(dim, indirect.dim());
  IndexSpace space(
      mode,
      Negative::BAD,
      i.sizes(),
      d,
      get ? at::DimVector(d.strides()) : strides_without(d, dim),
      s,
      get ? strides_without(s, dim) : at::DimVector(s.strides()));
  space.choose(
      i, at::DimVector(i.strides()), indirect.size(dim), indirect.stride(dim));
  return space.launch(op, part);
}

Part index_rows(
    OpId op,
    uint8_t mode,
    const Tensor& dst,
    const Tensor& to_which,
    const Tensor& src,
    const Tensor& from_which,
    Part part) {
  IndexSpace space(
      mode,
      Negative::BAD,
      {to_which.numel(), dst.size(1)},
      dst,
      {0, dst.stride(1)},
      src,
      {0, src.stride(1)});
  space.choose(to_which, {to_which.stride(0), 0}, dst.size(0), dst.stride(0));
  space.choose_source(from_which, {from_which.stride(0), 0}, src.size(0), src.stride(0));
  return space.launch(op, part);
}

Part index_slices(
    OpId op,
    uint8_t mode,
    Negative negative,
    const Tensor& dst,
    const Tensor& src,
    int64_t dim,
    const Tensor& index,
    Part part) {
  const bool get = mode == OPENREG_INDEX_GET;
  const Tensor d = with_dim(dst), s = with_dim(src), i = with_dim(index);
  const Tensor& indirect = get ? s : d;
  const Tensor& direct = get ? d : s;
  dim = at::maybe_wrap_dim(dim, indirect.dim());
  IndexSpace space(
      mode,
      negative,
      direct.sizes(),
      d,
      get ? at::DimVector(d.strides()) : strides_without(d, dim),
      s,
      get ? strides_without(s, dim) : at::DimVector(s.strides()));
  at::DimVector strides(direct.dim(), 0);
  strides[dim] = i.stride(0);
  space.choose(i, std::move(strides), indirect.size(dim), indirect.stride(dim));
  return space.launch(op, part);
}

} // namespace openreg
