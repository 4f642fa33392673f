// SPDX-License-Identifier: BSD-3-Clause
// Interpolation one axis after the other: bicubic, trilinear, and those that
// widen their filter to shrink. An element is a sum of weighted taps, so the
// forward selects and the backward adds up.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/OpMathType.h>
#include <ATen/native/UpSample.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>
#include <ATen/ops/zeros.h>
#include <c10/util/MathConstants.h>

#include <cmath>

namespace openreg {

namespace {

using at::Tensor;
using Scale = std::optional<double>;

constexpr int64_t kSpatial = 2; // the first such dimension

struct Axis {
  int64_t large, small; // elements
  double scale; // elements of the small one to one of the large one
  bool align;
};

// As core finds it, rounding included.
Axis axis_of(int64_t large, int64_t small, c10::ScalarType type, bool align, const Scale& scale) {
  const double step = type == at::kDouble
      ? at::native::area_pixel_compute_scale<double>(small, large, align, scale)
      : double{at::native::area_pixel_compute_scale<float>(small, large, align, scale)};
  return {large, small, step, align};
}

// What elements of the large one are made of: [taps, elements]. outside, if there
// is one: taps that some elements have less of.
struct Taps {
  Tensor index, weight, outside;
};

// A place, how far it is from there to the element, and whether that tap is none.
struct Found {
  Value place, distance;
  std::optional<Value> outside;
};

// find(tap, element) says what is Found; of(distance) is the weight.
template <class Find, class Filter>
Taps make_taps(
    OpId id,
    const Tensor& like,
    c10::ScalarType type,
    at::IntArrayRef sizes,
    Part part,
    Find&& find,
    Filter&& of) {
  Taps taps{
      at::empty(sizes, like.options().dtype(at::kLong)),
      at::empty(sizes, like.options().dtype(type)),
      Tensor()};
  Step places(id, taps.index, type);
  const auto coordinate = [&](int dim) {
    return places.program.convert(places.index(dim), places.program.type());
  };
  const Value tap = coordinate(0), element = coordinate(1);
  const Found found = find(tap, element);
  places.store(taps.index, found.place);
  places.store(taps.weight, found.distance);
  if (found.outside) {
    taps.outside = at::empty(sizes, like.options().dtype(at::kBool));
    places.store(taps.outside, *found.outside);
  }
  places.run(part);
  Step weights(id, taps.weight, type);
  const uint8_t weight = weights.add(taps.weight);
  weights.program.store(weight, of(weights.load(weight)));
  weights.run(Part::FURTHER);
  return taps;
}

Value source(const Axis& axis, Value element) {
  return axis.align ? element * axis.scale : (element + 0.5) * axis.scale - 0.5;
}

// The place before x, and how far x is beyond it.
std::pair<Value, Value> split(Value x, double last) {
  const Value place = min(floor(x), last);
  return {place, min(max(x - place, 0.0), 1.0)};
}

Value triangle(Value x) {
  return max(1.0 - x, 0.0);
}

// Of the distance; a is the slope at 1.
Value cubic(Value x, double a) {
  const Value near = ((a + 2) * x - (a + 3)) * x * x + 1.0;
  const Value far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return select(x < 1.0, near, select(x < 2.0, far, 0.0));
}

// copies: an axis that keeps its size stays as it is, whatever scale is given.
struct Linear {
  static constexpr bool copies = true;
  static Taps taps(OpId id, const Tensor& like, c10::ScalarType type, const Axis& axis, Part part) {
    const double last = static_cast<double>(axis.small - 1);
    const auto find = [&](Value tap, Value element) {
      const auto [place, beyond] = split(max(source(axis, element), 0.0), last);
      return Found{min(place + tap, last), abs(beyond - tap), {}};
    };
    return make_taps(id, like, type, {2, axis.large}, part, find, triangle);
  }
};

struct Cubic {
  static constexpr bool copies = false;
  static Taps taps(OpId id, const Tensor& like, c10::ScalarType type, const Axis& axis, Part part) {
    const double last = static_cast<double>(axis.small - 1);
    const auto find = [&](Value tap, Value element) {
      const auto [place, beyond] = split(source(axis, element), last);
      const Value from_place = tap - 1.0;
      return Found{min(max(place + from_place, 0.0), last), abs(beyond - from_place), {}};
    };
    const auto of = [](Value x) { return cubic(x, -0.75); };
    return make_taps(id, like, type, {4, axis.large}, part, find, of);
  }
};

struct Triangle {
  static constexpr double reach = 1;
  static Value of(Value x) {
    return triangle(x);
  }
};

struct SteeperCubic {
  static constexpr double reach = 2;
  static Value of(Value x) {
    return cubic(x, -0.5);
  }
};

struct Lanczos {
  static constexpr double reach = 3;
  static Value of(Value x) {
    const Value y = x * c10::pi<double>, third = y / reach;
    return select(x == 0.0, 1.0, select(x < reach, sin(y) / y * (sin(third) / third), 0.0));
  }
};

// The filter covers all that becomes one element.
template <class Filter>
struct Widened {
  static constexpr bool copies = true;
  static Taps taps(OpId id, const Tensor& like, c10::ScalarType type, const Axis& axis, Part part) {
    const double widen = std::max(axis.scale, 1.0), support = Filter::reach * widen;
    const int64_t count = 2 * static_cast<int64_t>(std::ceil(support)) + 1;
    const auto find = [&](Value tap, Value element) {
      const Value center = (element + 0.5) * axis.scale;
      const Value first = max(trunc(center - support + 0.5), 0.0);
      const Value end = min(trunc(center + support + 0.5), static_cast<double>(axis.small));
      const Value place = first + tap, outside = place >= end;
      const Value distance = abs(place - center + 0.5) * (1 / widen);
      return Found{
          select(outside, 0.0, place), select(outside, Filter::reach, distance), outside};
    };
    const Taps taps =
        make_taps(id, like, type, {count, axis.large}, part, find, Filter::of);
    const Tensor sum = taps.weight.sum(0);
    taps.weight.div_(sum.masked_fill_(sum.eq(0), 1));
    return taps;
  }
};

// What a tap has for each element, along a dimension of x.
Tensor along(const Tensor& of_taps, int64_t tap, const Tensor& x, int64_t dim) {
  at::DimVector shape(x.dim(), 1);
  shape[dim] = of_taps.size(1);
  return of_taps.select(0, tap).view(shape);
}

// Nothing times infinity would not be nothing.
Tensor& clear_outside(Tensor& x, const Taps& taps, int64_t tap, int64_t dim) {
  return taps.outside.defined() ? x.masked_fill_(along(taps.outside, tap, x, dim), 0) : x;
}

Tensor with_size(const Tensor& x, int64_t dim, int64_t size) {
  at::DimVector sizes(x.sizes());
  sizes[dim] = size;
  return at::zeros(sizes, x.options());
}

Tensor make_large(const Tensor& small, int64_t dim, const Taps& taps) {
  const Tensor large = with_size(small, dim, taps.index.size(1));
  for (int64_t tap = 0; tap < taps.index.size(0); tap++) {
    Tensor x = small.index_select(dim, taps.index.select(0, tap));
    large.addcmul_(clear_outside(x, taps, tap, dim), along(taps.weight, tap, small, dim));
  }
  return large;
}

Tensor make_small(const Tensor& large, int64_t dim, const Taps& taps, int64_t size) {
  const Tensor small = with_size(large, dim, size);
  for (int64_t tap = 0; tap < taps.index.size(0); tap++) {
    Tensor x = large.mul(along(taps.weight, tap, large, dim));
    small.index_add_(dim, taps.index.select(0, tap), clear_outside(x, taps, tap, dim));
  }
  return small;
}

// Calls fn(dimension, taps) for each axis, the last one first.
template <class Kind, class Fn>
void for_each_axis(
    OpId id, const Tensor& large, const Tensor& small, bool align, at::ArrayRef<Scale> scales, Fn&& fn) {
  const auto type = at::toOpMathType(large.scalar_type());
  Part part = Part::FIRST;
  for (int64_t k = static_cast<int64_t>(scales.size()) - 1; k >= 0; k--) {
    const int64_t dim = kSpatial + k;
    if (Kind::copies && large.size(dim) == small.size(dim)) {
      continue;
    }
    const Axis axis = axis_of(large.size(dim), small.size(dim), type, align, scales[k]);
    fn(dim, Kind::taps(id, large, type, axis, part));
    part = Part::FURTHER;
  }
}

template <class Kind>
struct Forward {
  template <class... Rest>
  static bool serves(const Tensor& self, const Rest&...) {
    return self.is_floating_point();
  }
  template <class Op, class... Scales>
  void operator()(
      OpId id, Op& op, const Tensor& self, at::IntArrayRef, bool align, const Scales&... scale) const {
    const Tensor& out = op.maybe_get_output(0);
    if (out.numel() == 0) {
      return;
    }
    Tensor x = self.to(at::toOpMathType(self.scalar_type()));
    for_each_axis<Kind>(id, out, self, align, {{Scale(scale)...}}, [&](int64_t dim, const Taps& taps) {
      x = make_large(x, dim, taps);
    });
    out.copy_(x);
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
    const Tensor& out = op.maybe_get_output(0);
    if (grad.numel() == 0) {
      out.zero_();
      return;
    }
    Tensor x = grad.to(at::toOpMathType(grad.scalar_type()));
    for_each_axis<Kind>(id, grad, out, align, {{Scale(scale)...}}, [&](int64_t dim, const Taps& taps) {
      x = make_small(x, dim, taps, out.size(dim));
    });
    out.copy_(x);
  }
};

#define OPENREG_INTERPOLATION(name, kind)                              \
  add_op<at::meta::structured_##name>(                                 \
      m, NamesWithoutInplace{#name, #name ".out"}, Forward<kind>());   \
  add_op<at::meta::structured_##name##_backward>(                      \
      m,                                                               \
      NamesWithoutInplace{                                             \
          #name "_backward", #name "_backward.grad_input"},            \
      Backward<kind>())

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OPENREG_INTERPOLATION(upsample_bicubic2d, Cubic);
  OPENREG_INTERPOLATION(upsample_trilinear3d, Linear);
  OPENREG_INTERPOLATION(_upsample_bilinear2d_aa, Widened<Triangle>);
  OPENREG_INTERPOLATION(_upsample_bicubic2d_aa, Widened<SteeperCubic>);
  OPENREG_INTERPOLATION(_upsample_lanczos2d_aa, Widened<Lanczos>);
}

} // namespace openreg
