// SPDX-License-Identifier: BSD-3-Clause
#include "aten/index.h"

#include <ATen/WrapDimUtils.h>

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
  space_.add(index, std::move(index_strides));
  choices_.push_back({extent, step});
}

Part IndexSpace::launch(OpId op, Part part) {
  if (space_.numel() == 0) {
    return part;
  }
  for (const Choice& choice : choices_) {
    TORCH_CHECK_INDEX(
        choice.extent != 0, "index is out of bounds for dimension with size 0");
  }
  space_.coalesce();
  space_.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_INDEX, op);
    packet.arg(0, mode_);
    packet.arg(1, negative_ == Negative::WRAPS ? OPENREG_INDEX_WRAP : 0);
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
