// SPDX-License-Identifier: BSD-3-Clause
// Calling conventions. They convert the dispatcher's arguments to the arguments of a
// shape function, and pass a call that the card cannot run to the CPU fallback.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <tuple>

#include "runtime/fallback.h"
#include "runtime/launch.h"
#include "runtime/memory_ops.h"

namespace openreg {

// An operator's name in the dispatcher ("add.Tensor", or "torchvision::nms" of another
// library), and its id in statistics and fault messages. Registration calls set() once.
struct OpName {
  void set(const char* registered_name);
  c10::OperatorHandle handle() const;
  // Throws if the operator refuses this type, as the CPU does.
  void check_type(c10::ScalarType type) const;

  std::string name;
  std::string overload;
  std::string qualified; // "aten::add.Tensor"
  OpId id = 0;
  uint64_t refused = 0; // bits of ScalarTypes
  bool takes_float8 = false;
};

// refused_types.cpp has the list.
uint64_t refused_types(const OpName& op);
// Whether the CPU computes on float8 with this pointwise operator.
bool takes_float8(const OpName& op);
[[noreturn]] void refuse_type(const OpName& op, c10::ScalarType type);
// Throws as refuse_type() does if the type is Bool.
void refuse_bool(const char* op, c10::ScalarType type);

inline void OpName::check_type(c10::ScalarType type) const {
  if (C10_UNLIKELY(refused >> static_cast<int>(type) & 1)) {
    refuse_type(*this, type);
  }
}

// Converts argument types between shape functions and the dispatcher.
template <class T>
struct Convention {
  using type = T;
  static T& to_meta(std::remove_reference_t<T>& value) {
    return value;
  }
  static const T& to_meta(const std::remove_reference_t<T>& value) {
    return value;
  }
};
template <class T>
struct Convention<const T&> {
  using type = const T&;
  static const T& to_meta(const T& value) {
    return value;
  }
};
template <>
struct Convention<at::OptionalTensorRef> {
  using type = const std::optional<at::Tensor>&;
};
template <>
struct Convention<const std::optional<at::Tensor>&> {
  using type = const std::optional<at::Tensor>&;
  static at::OptionalTensorRef to_meta(const std::optional<at::Tensor>& t) {
    return t.has_value() && t->defined() ? at::OptionalTensorRef(*t)
                                         : at::OptionalTensorRef();
  }
};
template <>
struct Convention<at::OptionalScalarRef> {
  using type = const std::optional<at::Scalar>&;
};
template <>
struct Convention<const std::optional<at::Scalar>&> {
  using type = const std::optional<at::Scalar>&;
  static at::OptionalScalarRef to_meta(const std::optional<at::Scalar>& s) {
    return s.has_value() ? at::OptionalScalarRef(*s) : at::OptionalScalarRef();
  }
};

template <class T, size_t N>
struct RepeatImpl {
  template <size_t... I>
  static std::tuple<std::enable_if_t<(I < N), T>...> make(
      std::index_sequence<I...>);
  using type = decltype(make(std::make_index_sequence<N>()));
};
template <class T, size_t N>
using Repeat = typename RepeatImpl<T, N>::type;

template <size_t N>
struct ResultOf {
  using type = Repeat<at::Tensor, N>;
  using ref = Repeat<at::Tensor&, N>;
  static type tie(std::array<at::Tensor, N>& out) {
    return std::apply([](auto&... t) { return type(std::move(t)...); }, out);
  }
};
template <>
struct ResultOf<1> {
  using type = at::Tensor;
  using ref = at::Tensor&;
};

// Whether the card has a dtype for this argument. With Pairs, also accepts complex types
// as pairs of real numbers.
template <bool Pairs = false>
bool type_on_card(c10::ScalarType type) {
  return card_dtype(type) != 0 || (Pairs && c10::isComplexType(type));
}
template <bool Pairs = false, class T>
bool on_card(const T& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return !value.defined() || type_on_card<Pairs>(value.scalar_type());
  } else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) {
    return !value.has_value() || on_card<Pairs>(*value);
  } else if constexpr (
      std::is_same_v<T, at::ITensorListRef> || std::is_same_v<T, at::TensorList>) {
    for (const at::Tensor& t : value) {
      if (!on_card<Pairs>(t)) {
        return false;
      }
    }
    return true;
  } else if constexpr (std::is_same_v<T, c10::ScalarType>) {
    return type_on_card<Pairs>(value);
  } else if constexpr (std::is_same_v<T, std::optional<c10::ScalarType>>) {
    return !value.has_value() || type_on_card<Pairs>(*value);
  } else if constexpr (std::is_same_v<T, at::Scalar>) {
    return Pairs || !value.isComplex();
  } else {
    return true;
  }
}

inline bool is_float8(const at::Tensor& t) {
  return t.defined() && c10::isFloat8Type(t.scalar_type());
}
template <class T>
bool is_float8(const T&) {
  return false;
}

void check_tensor_device(const at::Tensor& t, c10::Device device);
template <class T>
void check_device(const T& value, c10::Device device) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    check_tensor_device(value, device);
  } else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) {
    if (value.has_value()) {
      check_tensor_device(*value, device);
    }
  }
}

// Runs the operator on the CPU and counts the fallback.
template <class Result, class... Args>
Result fallback(const OpName& name, Args... args) {
  return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(
      c10::BoxedKernel::makeFromFunction<&cpu_fallback>(),
      name.handle(),
      c10::DispatchKeySet(),
      args...);
}

// Outputs.
void check_inplace(
    const at::Tensor& self,
    at::IntArrayRef sizes,
    const at::TensorOptions& options);
void resize_out(
    const at::Tensor& out,
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    const at::TensorOptions& options);

} // namespace openreg
