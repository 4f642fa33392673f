// SPDX-License-Identifier: BSD-3-Clause
// The dtypes that operators refuse because the CPU refuses them. The card could run them.
#include <c10/util/Exception.h>

#include <string_view>

#include "aten/convention.h"

namespace openreg {

namespace {

using Types = uint64_t;

constexpr Types types(std::initializer_list<c10::ScalarType> list) {
  Types bits = 0;
  for (c10::ScalarType t : list) {
    bits |= Types{1} << static_cast<int>(t);
  }
  return bits;
}

constexpr Types kBool = types({at::kBool});
constexpr Types kInts = types({at::kByte, at::kChar, at::kShort, at::kInt, at::kLong});
constexpr Types kWhole = kBool | kInts;
constexpr Types kFloats = types({at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
constexpr Types kUnsigned = types({at::kUInt16, at::kUInt32, at::kUInt64});
constexpr Types kFloat8 = types(
    {at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat8_e4m3fnuz, at::kFloat8_e5m2fnuz,
     at::kFloat8_e8m0fnu});
constexpr Types kComplex = types({at::kComplexHalf, at::kComplexFloat, at::kComplexDouble});
constexpr Types kNotFloats = kWhole | kUnsigned | kFloat8 | kComplex;

// An entry holds for all forms of the operator; "div.mode" for the overloads with "mode" in
// their names; "clamp." for the forms of the overload without a name; "pow_.Tensor" for one
// form.
struct Refused {
  std::string_view name;
  Types types;
};
constexpr Refused kRefused[] = {
    {"_cdist_backward", kWhole},
    {"_prelu_kernel", kWhole},
    {"_prelu_kernel_backward", kWhole},
    {"_thnn_fused_gru_cell", kWhole},
    {"_thnn_fused_lstm_cell", kWhole},
    {"abs", kBool},
    {"addcmul", kBool},
    {"arange", kBool},
    {"binary_cross_entropy_backward", kWhole},
    {"bitwise_and", kFloats},
    {"bitwise_left_shift", kBool | kFloats},
    {"bitwise_not", kFloats},
    {"bitwise_or", kFloats},
    {"bitwise_right_shift", kBool | kFloats},
    {"bitwise_xor", kFloats},
    {"ceil", kBool},
    {"clamp.", kBool},
    {"conv_transpose2d", kInts & ~types({at::kLong})},
    {"cumprod", kBool},
    {"cumsum", kBool},
    {"div.mode", kBool},
    {"elu", kWhole},
    {"elu_backward", kWhole},
    {"floor", kBool},
    {"floor_divide", kBool},
    {"fmod", kBool},
    {"frac", kWhole},
    {"gelu", kWhole},
    {"gelu_backward", kWhole},
    {"glu", kWhole},
    {"glu_backward", kWhole},
    {"hardshrink", kWhole},
    {"hardshrink_backward", kWhole},
    {"hardsigmoid", kWhole},
    {"hardsigmoid_backward", kWhole},
    {"hardswish", kWhole},
    {"hardswish_backward", kWhole},
    {"hardtanh", kBool},
    {"hardtanh_backward", kWhole},
    {"huber_loss_backward", kWhole},
    {"hypot", kWhole},
    {"im2col", kInts | kUnsigned | kFloat8 | types({at::kComplexHalf})},
    {"index_reduce", kBool},
    {"leaky_relu", kWhole},
    {"leaky_relu_backward", kWhole},
    {"lerp", kWhole},
    {"linalg_cross", kBool},
    {"linspace", kBool},
    {"log_sigmoid_backward", kWhole},
    {"log_sigmoid_forward", kWhole},
    {"logaddexp", kWhole},
    {"logaddexp2", kWhole},
    {"logit_backward", kWhole},
    {"max_pool2d_with_indices_backward", kWhole},
    {"max_pool3d_with_indices_backward", kWhole},
    {"max_unpool2d", kNotFloats},
    {"max_unpool3d", kNotFloats},
    {"mish", kWhole},
    {"mish_backward", kWhole},
    {"mse_loss_backward", kBool},
    {"pow.Tensor_Tensor", kBool},
    {"pow_.Tensor", kBool},
    {"randperm", kBool},
    {"reflection_pad1d_backward", kWhole},
    {"reflection_pad2d_backward", kWhole},
    {"reflection_pad3d_backward", kWhole},
    {"relu", kBool},
    {"remainder", kBool},
    {"replication_pad1d_backward", kWhole},
    {"replication_pad2d_backward", kWhole},
    {"replication_pad3d_backward", kWhole},
    {"round", kBool},
    {"round.decimals", kWhole},
    {"searchsorted", kBool},
    {"sigmoid_backward", kWhole},
    {"silu", kWhole},
    {"silu_backward", kWhole},
    {"smooth_l1_loss_backward", kBool},
    {"softplus", kWhole},
    {"softplus_backward", kWhole},
    {"softshrink", kWhole},
    {"softshrink_backward", kWhole},
    {"tanh_backward", kWhole},
    {"threshold", kBool},
    {"threshold_backward", kBool},
    {"trace", kUnsigned},
    {"trunc", kBool},
};

bool matches(std::string_view entry, const OpName& op) {
  const std::string_view overload = op.overload;
  std::string_view base = op.name;
  base.remove_prefix(base.find("::") + 2);
  if (base.ends_with('_')) {
    base.remove_suffix(1);
  }
  const auto dot = entry.find('.');
  if (entry.substr(0, dot) != base) {
    return op.qualified == "aten::" + std::string(entry);
  }
  if (entry.ends_with('.')) {
    return overload.empty() || overload == "out";
  }
  return dot == entry.npos || overload.find(entry.substr(dot + 1)) != overload.npos;
}

constexpr std::string_view kTakeFloat8[] = {"abs", "eq", "isnan", "ne"};

} // namespace

bool takes_float8(const OpName& op) {
  for (std::string_view entry : kTakeFloat8) {
    if (matches(entry, op)) {
      return true;
    }
  }
  return false;
}

uint64_t refused_types(const OpName& op) {
  Types refused = 0;
  for (const Refused& entry : kRefused) {
    if (matches(entry.name, op)) {
      refused |= entry.types;
    }
  }
  return refused;
}

void refuse_type(const OpName& op, c10::ScalarType type) {
  const char* instead = (op.refused & kFloats) ? "int64" : (op.refused & kInts) ? "float32" : "int32";
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "\"",
      op.name.substr(op.name.find("::") + 2),
      "\" not implemented for '",
      type,
      "', as on the CPU. Convert the tensor first, for example with .to(torch.",
      instead,
      ").");
}

void refuse_bool(const char* op, c10::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      type != at::kBool,
      "\"",
      op,
      "\" not implemented for 'Bool', as on the CPU. Convert the tensor first, for example "
      "with .to(torch.int32).");
}

} // namespace openreg
