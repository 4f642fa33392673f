// SPDX-License-Identifier: BSD-3-Clause
// The taps of an interpolation along one axis: elements of the source and their weights.
// Rounding follows core: T is the type in which the interpolation computes.
#pragma once

#include <ATen/native/UpSample.h>
#include <c10/util/MathConstants.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace openreg {

struct Tap {
  int64_t place; // in the source
  double weight;
};

// The taps of every element along an axis.
using Taps = std::vector<c10::SmallVector<Tap, 4>>;

// One axis of an interpolation. find() computes the taps of the large tensor's elements.
struct Axis {
  int64_t large, small;
  std::optional<double> scale;
  bool align;

  template <class T>
  T step() const {
    return at::native::area_pixel_compute_scale<T>(small, large, align, scale);
  }
};

template <class T>
T source(const Axis& axis, T step, int64_t element) {
  const auto x = static_cast<T>(element);
  return axis.align ? x * step : (x + T(0.5)) * step - T(0.5);
}

// The place at or before x, and the distance of x from the place.
template <class T>
std::pair<int64_t, T> split(T x, int64_t last) {
  const T place = std::min(std::floor(x), static_cast<T>(last));
  return {static_cast<int64_t>(place), std::clamp(x - place, T(0), T(1))};
}

template <class T>
T triangle(T x) {
  return std::max(T(1) - x, T(0));
}

// The weight of a cubic tap at distance x; a is the slope at 1.
template <class T>
T cubic(T x, T a) {
  if (x < 1) {
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : T(0);
}

// copies: an axis that keeps its size is only copied, whatever the scale is.
template <bool Exact>
struct Nearest {
  static constexpr bool copies = false;
  static constexpr bool weighs = false;
  template <class T>
  static void find(const Axis& axis, Taps& taps) {
    // Compute the places with the same rounding as core.
    float step = at::native::compute_scales_value<float>(axis.scale, axis.small, axis.large);
    if (!Exact && axis.large == axis.small) {
      step = 1;
    } else if (!Exact && axis.large == 2 * axis.small) {
      step = 0.5;
    }
    for (int64_t i = 0; i < axis.large; i++) {
      const float x = Exact ? static_cast<float>((static_cast<double>(i) + 0.5) * step)
                            : static_cast<float>(i) * step;
      taps[i] = {{std::min(static_cast<int64_t>(std::floor(x)), axis.small - 1), 1}};
    }
  }
};

struct Linear {
  static constexpr bool copies = true;
  static constexpr bool weighs = true;
  template <class T>
  static void find(const Axis& axis, Taps& taps) {
    const int64_t last = axis.small - 1;
    const T step = axis.step<T>();
    for (int64_t i = 0; i < axis.large; i++) {
      const auto [place, beyond] = split(std::max(source(axis, step, i), T(0)), last);
      taps[i] = {{place, T(1) - beyond}, {std::min(place + 1, last), beyond}};
    }
  }
};

struct Cubic {
  static constexpr bool copies = false;
  static constexpr bool weighs = true;
  template <class T>
  static void find(const Axis& axis, Taps& taps) {
    const int64_t last = axis.small - 1;
    const T step = axis.step<T>();
    for (int64_t i = 0; i < axis.large; i++) {
      const auto [place, beyond] = split(source(axis, step, i), last);
      for (int64_t k = -1; k < 3; k++) {
        taps[i].push_back(
            {std::clamp<int64_t>(place + k, 0, last),
             cubic(std::abs(beyond - static_cast<T>(k)), T(-0.75))});
      }
    }
  }
};

struct Triangle {
  static constexpr double reach = 1;
  template <class T>
  static T of(T x) {
    return triangle(x);
  }
};

struct SteeperCubic {
  static constexpr double reach = 2;
  template <class T>
  static T of(T x) {
    return cubic(x, T(-0.5));
  }
};

struct Lanczos {
  static constexpr double reach = 3;
  template <class T>
  static T of(T x) {
    const T y = x * c10::pi<T>, third = y / T(reach);
    return x == 0 ? T(1) : x < T(reach) ? std::sin(y) / y * (std::sin(third) / third) : T(0);
  }
};

// Antialiasing: the filter is as wide as the part of the source that becomes one element.
template <class Filter>
struct Widened {
  static constexpr bool copies = true;
  static constexpr bool weighs = true;
  template <class T>
  static void find(const Axis& axis, Taps& taps) {
    const T step = axis.step<T>(), widen = std::max(step, T(1));
    const T support = static_cast<T>(Filter::reach) * widen;
    for (int64_t i = 0; i < axis.large; i++) {
      const T center = (static_cast<T>(i) + T(0.5)) * step;
      const auto first = std::max(static_cast<int64_t>(center - support + T(0.5)), int64_t(0));
      const auto end = std::min(static_cast<int64_t>(center + support + T(0.5)), axis.small);
      T sum = 0;
      for (int64_t k = first; k < end; k++) {
        const T x = (static_cast<T>(k) - center + T(0.5)) * (T(1) / widen);
        const T weight = Filter::of(std::abs(x));
        taps[i].push_back({k, weight});
        sum += weight;
      }
      for (Tap& tap : taps[i]) {
        tap.weight = sum == 0 ? tap.weight : static_cast<T>(tap.weight) / sum;
      }
    }
  }
};

// Transposes the taps: for every element of the small tensor, the elements that it is a
// tap of.
inline Taps transposed(const Taps& taps, int64_t small) {
  Taps other(small);
  for (size_t i = 0; i < taps.size(); i++) {
    for (const Tap& tap : taps[i]) {
      other[tap.place].push_back({static_cast<int64_t>(i), tap.weight});
    }
  }
  return other;
}

} // namespace openreg
