// SPDX-License-Identifier: BSD-3-Clause
// Nearest and bilinear interpolation: an index along each axis says where an
// element comes from, so the forward gathers and the backward adds up.
#include "aten/index.h"
#include "aten/structured.h"

#include <ATen/OpMathType.h>
#include <ATen/native/UpSample.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_bilinear2d_backward.h>
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
#include <ATen/ops/zeros.h>

namespace openreg {

namespace {

using at::Tensor;
using Scale = std::optional<double>;

constexpr int64_t kSpatial = 2; // the first such dimension

// Elements of the large one, along one axis; and of the small one.
struct Axis {
  int64_t large, small;
  Scale scale;
};

Axis axis_of(const Tensor& large, const Tensor& small, int k, const Scale& scale) {
  return {large.size(kSpatial + k), small.size(kSpatial + k), scale};
}

// As core finds them, rounding included.
Value nearest_position(Program& p, const Axis& axis, bool exact) {
  float scale = at::native::compute_scales_value<float>(
      axis.scale, axis.small, axis.large);
  if (!exact && axis.large == axis.small) {
    scale = 1;
  } else if (!exact && axis.large == 2 * axis.small) {
    scale = 0.5;
  }
  const Value i = p.index(0);
  if (!exact) {
    return p.convert(i, OPENREG_VT_F32) * double{scale};
  }
  const Value x = p.convert(i, OPENREG_VT_F64);
  return p.convert((x + 0.5) * double{scale}, OPENREG_VT_F32);
}

Tensor nearest_index(OpId id, const Tensor& like, const Axis& axis, bool exact, Part part) {
  const Tensor index = at::empty({axis.large}, like.options().dtype(at::kLong));
  Space space({axis.large}, like.get_device());
  space.add(index, {1});
  Program p(OPENREG_VT_F32);
  const Value x = floor(nearest_position(p, axis, exact));
  p.store(0, min(x, static_cast<double>(axis.small - 1)));
  launch(space, p, id, part);
  return index;
}

at::DimVector without_space(const Tensor& t) {
  at::DimVector strides(t.strides());
  std::fill(strides.begin() + kSpatial, strides.end(), 0);
  return strides;
}

// Between the small one and the large one, whose elements index says how to
// find in the small one.
Part move(
    OpId id,
    uint8_t mode,
    const Tensor& small,
    const Tensor& large,
    at::ArrayRef<Tensor> index,
    Part part) {
  const bool get = mode == OPENREG_INDEX_GET;
  const at::DimVector own(large.strides());
  IndexSpace space(
      mode,
      Negative::BAD,
      large.sizes(),
      get ? large : small,
      get ? own : without_space(small),
      get ? small : large,
      get ? without_space(small) : own);
  for (size_t k = 0; k < index.size(); k++) {
    const auto dim = kSpatial + static_cast<int64_t>(k);
    at::DimVector strides(large.dim(), 0);
    strides[dim] = 1;
    space.choose(index[k], std::move(strides), small.size(dim), small.stride(dim));
  }
  return space.launch(id, part);
}

void nearest(
    OpId id,
    uint8_t mode,
    bool exact,
    const Tensor& small,
    const Tensor& large,
    at::ArrayRef<Scale> scales) {
  if (large.numel() == 0) {
    return;
  }
  c10::SmallVector<Tensor, 3> index;
  Part part = Part::FIRST;
  for (size_t k = 0; k < scales.size(); k++) {
    const Axis axis = axis_of(large, small, static_cast<int>(k), scales[k]);
    index.push_back(nearest_index(id, large, axis, exact, part));
    part = Part::FURTHER;
  }
  move(id, mode, small, large, index, part);
}

template <bool Exact>
struct Nearest {
  template <class Op, class... Scales>
  void operator()(OpId id, Op& op, const Tensor& self, at::IntArrayRef, const Scales&... scale) const {
    const std::array<Scale, sizeof...(scale)> scales{scale...};
    nearest(
        id, OPENREG_INDEX_GET, Exact, self, op.maybe_get_output(0), scales);
  }
};

template <bool Exact>
struct NearestBackward {
  template <class Op, class... Scales>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad,
      at::IntArrayRef,
      at::IntArrayRef,
      const Scales&... scale) const {
    const std::array<Scale, sizeof...(scale)> scales{scale...};
    Tensor out = op.maybe_get_output(0);
    out.zero_();
    nearest(id, OPENREG_INDEX_ADD, Exact, out, grad, scales);
  }
};

// Along one axis: the two neighbours of each point, and how far the second.
struct Linear {
  std::array<Tensor, 2> index;
  Tensor weight;
};

Linear linear_index(OpId id, const Tensor& like, c10::ScalarType type, const Axis& axis, bool align, Part part) {
  const auto scale = type == at::kDouble
      ? at::native::area_pixel_compute_scale<double>(
            axis.small, axis.large, align, axis.scale)
      : double{at::native::area_pixel_compute_scale<float>(
            axis.small, axis.large, align, axis.scale)};
  const auto options = like.options();
  const Tensor first = at::empty({axis.large}, options.dtype(at::kLong));
  const Tensor second = at::empty_like(first);
  const Tensor weight = at::empty({axis.large}, options.dtype(type));
  Space space({axis.large}, like.get_device());
  for (const Tensor& t : {first, second, weight}) {
    space.add(t, {1});
  }
  Program p(vector_type(type));
  const double last = static_cast<double>(axis.small - 1);
  Value x = p.convert(p.index(0), p.type());
  if (axis.large != axis.small) { // else it copies, whatever scale was given
    x = align ? x * scale : max((x + 0.5) * scale - 0.5, 0.0);
  }
  const Value i = min(floor(x), last);
  p.store(0, i);
  p.store(1, min(i + 1.0, last));
  p.store(2, min(max(x - i, 0.0), 1.0));
  launch(space, p, id, part);
  return {{first, second}, weight};
}

struct Plane {
  Plane(OpId id, const Tensor& small, const Tensor& large, bool align, const Scale& height, const Scale& width)
      : type(at::toOpMathType(large.scalar_type())),
        y(linear_index(id, large, type, axis_of(large, small, 0, height), align, Part::FIRST)),
        x(linear_index(id, large, type, axis_of(large, small, 1, width), align, Part::FURTHER)) {}

  // Of the corner's neighbours along both axes.
  std::array<Tensor, 2> corner(int c) const {
    return {y.index[c >> 1], x.index[c & 1]};
  }
  void add_weights(Space& space) const {
    space.add(y.weight, {0, 0, 1, 0});
    space.add(x.weight, {0, 0, 0, 1});
  }

  c10::ScalarType type;
  Linear y, x;
};

Value of_corner(Value weight, bool second) {
  return second ? weight : 1.0 - weight;
}

struct Bilinear {
  static bool serves(const Tensor& self, at::IntArrayRef, bool, const Scale&, const Scale&) {
    return self.is_floating_point();
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      at::IntArrayRef,
      bool align,
      const Scale& height,
      const Scale& width) const {
    const Tensor& out = op.maybe_get_output(0);
    if (out.numel() == 0) {
      return;
    }
    const Plane plane(id, self, out, align, height, width);
    Space space(out.sizes(), out.get_device());
    space.add(out);
    std::array<Tensor, 4> corners;
    for (int c = 0; c < 4; c++) {
      corners[c] = at::empty_like(out);
      move(id, OPENREG_INDEX_GET, self, corners[c], plane.corner(c), Part::FURTHER);
      space.add(corners[c]);
    }
    plane.add_weights(space);
    space.coalesce();
    Program p(vector_type(plane.type));
    const Value y = p.load(5, p.type()), x = p.load(6, p.type());
    const auto row = [&](uint8_t first) {
      return of_corner(x, false) * p.load(first, p.type()) +
          of_corner(x, true) * p.load(first + 1, p.type());
    };
    p.store(0, of_corner(y, false) * row(1) + of_corner(y, true) * row(3));
    launch(space, p, id, Part::FURTHER);
  }
};

struct BilinearBackward {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& grad,
      at::IntArrayRef,
      at::IntArrayRef,
      bool align,
      const Scale& height,
      const Scale& width) const {
    const Tensor& out = op.maybe_get_output(0);
    if (grad.numel() == 0) {
      out.zero_();
      return;
    }
    const Plane plane(id, out, grad, align, height, width);
    // Sums of halves are rounded once.
    const Tensor sum = at::zeros(out.sizes(), out.options().dtype(plane.type));
    for (int c = 0; c < 4; c++) {
      const Tensor part = at::empty(grad.sizes(), sum.options());
      Space space(grad.sizes(), grad.get_device());
      space.add(part);
      space.add(grad);
      plane.add_weights(space);
      space.coalesce();
      Program p(vector_type(plane.type));
      const Value y = of_corner(p.load(2, p.type()), c >> 1);
      const Value x = of_corner(p.load(3, p.type()), c & 1);
      p.store(0, p.load(1, p.type()) * (y * x));
      launch(space, p, id, Part::FURTHER);
      move(id, OPENREG_INDEX_ADD, sum, part, plane.corner(c), Part::FURTHER);
    }
    out.copy_(sum);
  }
};

template <class Forward, class Backward, bool Exact>
void add_nearest(torch::Library& m, const char* name, const char* out, const char* backward, const char* grad) {
  add_op<Forward>(m, NamesWithoutInplace{name, out}, Nearest<Exact>());
  add_op<Backward>(m, NamesWithoutInplace{backward, grad}, NearestBackward<Exact>());
}

// Of rows, as of images one row high.
struct Rows {
  template <class Op>
  void operator()(
      OpId, Op& op, const Tensor& self, at::IntArrayRef size, bool align, Scale scale) const {
    Tensor out = op.maybe_get_output(0).unsqueeze(2);
    at::upsample_bilinear2d_out(out, self.unsqueeze(2), {1, size[0]}, align, 1.0, scale);
  }
};

struct RowsBackward {
  template <class Op>
  void operator()(
      OpId,
      Op& op,
      const Tensor& grad,
      at::IntArrayRef size,
      at::IntArrayRef input,
      bool align,
      Scale scale) const {
    Tensor out = op.maybe_get_output(0).unsqueeze(2);
    at::upsample_bilinear2d_backward_out(
        out, grad.unsqueeze(2), {1, size[0]}, {input[0], input[1], 1, input[2]}, align, 1.0, scale);
  }
};

#define OPENREG_NEAREST(name, exact)                                          \
  add_nearest<                                                                \
      at::meta::structured_##name,                                            \
      at::meta::structured_##name##_backward,                                 \
      exact>(                                                                 \
      m, #name, #name ".out", #name "_backward", #name "_backward.grad_input")

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OPENREG_NEAREST(upsample_nearest1d, false);
  OPENREG_NEAREST(upsample_nearest2d, false);
  OPENREG_NEAREST(upsample_nearest3d, false);
  OPENREG_NEAREST(_upsample_nearest_exact1d, true);
  OPENREG_NEAREST(_upsample_nearest_exact2d, true);
  OPENREG_NEAREST(_upsample_nearest_exact3d, true);
  add_op<at::meta::structured_upsample_bilinear2d>(
      m,
      NamesWithoutInplace{"upsample_bilinear2d", "upsample_bilinear2d.out"},
      Bilinear());
  add_op<at::meta::structured_upsample_bilinear2d_backward>(
      m,
      NamesWithoutInplace{
          "upsample_bilinear2d_backward",
          "upsample_bilinear2d_backward.grad_input"},
      BilinearBackward());
  add_op<at::meta::structured_upsample_linear1d>(
      m, NamesWithoutInplace{"upsample_linear1d", "upsample_linear1d.out"}, Rows());
  add_op<at::meta::structured_upsample_linear1d_backward>(
      m,
      NamesWithoutInplace{
          "upsample_linear1d_backward", "upsample_linear1d_backward.grad_input"},
      RowsBackward());
}

} // namespace openreg
