// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/bits.h"

#include <ATen/Tensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <optional>
#include <string>
#include <unordered_set>

#include "runtime/device.h"
#include "runtime/launch.h"

namespace openreg {

namespace {

using at::Tensor;
using OptType = std::optional<c10::ScalarType>;

bool moves(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  static const std::unordered_set<std::string> names{
      "aten::_index_put_impl_", "aten::cat",           "aten::embedding",
      "aten::flip",             "aten::gather",        "aten::index.Tensor",
      "aten::index_copy",       "aten::index_copy_",   "aten::index_put_",
      "aten::index_select",     "aten::masked_scatter_", "aten::masked_select",
      "aten::put_",             "aten::roll",          "aten::scatter.src",
      "aten::scatter_.src",     "aten::take",          "aten::tril",
      "aten::tril_",            "aten::triu",          "aten::triu_",
      "aten::where.self"};
  if (names.count(c10::toString(op.operator_name())) == 0)
    return false;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); i++)
    if (arguments[i].name() == "accumulate" &&
        torch::jit::peek(stack, i, arguments.size()).toBool())
      return false;
  return true;
}

OptType bits_type(const Tensor& t) {
  const auto type = t.scalar_type();
  if (card_dtype(type) != 0 || c10::isComplexType(type) || c10::isQIntType(type) ||
      !t.is_privateuseone() || t.layout() != at::kStrided)
    return std::nullopt;
  switch (c10::elementSize(type)) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      return std::nullopt;
  }
}

// Arguments that say which elements move.
bool selects(const std::string& argument) {
  return argument == "index" || argument == "indices" || argument == "condition" ||
      argument == "mask";
}

// The dtype that all moved tensors share.
class OneType {
 public:
  // Returns false if the tensor has another dtype, or cannot be viewed.
  bool add(const Tensor& t) {
    if (!t.defined())
      return true;
    if (!bits_type(t) || t.is_neg() || (type_ && *type_ != t.scalar_type()))
      return false;
    type_ = t.scalar_type();
    return true;
  }
  bool add(const c10::IValue& value) {
    if (value.isTensor())
      return add(value.toTensor());
    if (!value.isTensorList())
      return true;
    for (const Tensor& t : value.toTensorVector())
      if (!add(t))
        return false;
    return true;
  }
  OptType type() const {
    return type_;
  }

 private:
  OptType type_;
};

Tensor as_bits(const Tensor& t, c10::ScalarType from) {
  return t.defined() && t.scalar_type() == from ? t.view(*bits_type(t)) : t;
}

c10::IValue as_bits(const c10::IValue& value, c10::ScalarType from) {
  if (value.isTensor())
    return as_bits(value.toTensor(), from);
  if (!value.isTensorList())
    return value;
  std::vector<Tensor> list = value.toTensorVector();
  for (Tensor& t : list)
    t = as_bits(t, from);
  return list;
}

} // namespace

bool move_as_bits(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  if (!moves(op, *stack))
    return false;
  OneType found;
  for (size_t i = 0; i < arguments.size(); i++)
    if (!selects(arguments[i].name()) &&
        !found.add(torch::jit::peek(*stack, i, arguments.size())))
      return false;
  if (!found.type())
    return false;
  const auto type = *found.type();
  const c10::IValue first = torch::jit::peek(*stack, 0, arguments.size());
  for (size_t i = 0; i < arguments.size(); i++) {
    c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    value = as_bits(value, type);
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.callBoxed(stack);
  // An operator in place returns its first argument.
  c10::IValue& result = stack->back();
  result = op.schema().is_mutable() ? first : c10::IValue(result.toTensor().view(type));
  return true;
}

} // namespace openreg
