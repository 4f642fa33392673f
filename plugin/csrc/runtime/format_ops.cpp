// SPDX-License-Identifier: BSD-3-Clause
// What the dispatcher calls for packed tensors, before any kernel. An operator gets plain
// copies of the tensors that it reads, and makes the tensors that it writes plain. So
// kernels know nothing of formats, except the few that are named below.
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <map>
#include <string_view>

#include "runtime/copy.h"
#include "runtime/format.h"

namespace openreg {
namespace {

constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kFormatKey);

// Converts the arguments of one call.
class Conversion {
 public:
  explicit Conversion(const c10::OperatorHandle& op) : op_(op) {}

  void write(const at::Tensor& t) {
    if (!t.defined() || !has_format(t))
      return;
    if (make_plain(t.storage().unsafeGetStorageImpl()))
      count();
    update_format_key(t);
  }

  at::Tensor read(const at::Tensor& t) {
    if (!t.defined() || !has_format(t))
      return t;
    if (!is_packed(t)) {
      update_format_key(t);
      return t;
    }
    // Arguments of one storage stay views of one storage.
    at::Tensor& plain = plain_[t.storage().unsafeGetStorageImpl()];
    if (!plain.defined()) {
      plain = unpack(t);
      count();
      return plain;
    }
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(plain.storage()), plain.key_set(), t.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(
        t.sizes(), t.strides(), t.storage_offset());
    return view;
  }

 private:
  void count() {
    count_conversion(op_.operator_name().name);
  }

  const c10::OperatorHandle& op_;
  std::map<c10::StorageImpl*, at::Tensor> plain_;
};

template <class Function>
void for_each_tensor(const c10::IValue& value, Function&& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef())
      for_each_tensor(item, function);
  }
}

bool may_have_format(const c10::IValue& value) {
  bool found = false;
  for_each_tensor(value, [&](const at::Tensor& t) { found |= t.defined() && has_format(t); });
  return found;
}

c10::IValue plain_value(const c10::IValue& value, Conversion& conversion) {
  if (value.isTensor())
    return conversion.read(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector())
      list.push_back(conversion.read(t));
    return list;
  }
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef())
    list.push_back(may_have_format(item) ? plain_value(item, conversion) : item);
  return list;
}

// The schemas of collectives do not say what they write.
bool writes(const c10::OperatorHandle& op, const c10::Argument& argument) {
  const c10::AliasInfo* alias = argument.alias_info();
  return (alias != nullptr && alias->isWrite()) ||
      op.operator_name().name.starts_with("c10d::");
}

// keep: the argument that may stay packed, or -1.
void make_arguments_plain(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack,
    int64_t keep = -1) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  Conversion conversion(op);
  for (size_t i = 0; i < arguments.size(); i++)
    if (writes(op, arguments[i]))
      for_each_tensor(
          (*stack)[first + i], [&](const at::Tensor& t) { conversion.write(t); });
  for (size_t i = 0; i < arguments.size(); i++) {
    c10::IValue& value = (*stack)[first + i];
    if (static_cast<int64_t>(i) != keep && may_have_format(value))
      value = plain_value(value, conversion);
  }
}

// Whether the results are views of the arguments. Such an operator reads no values.
bool makes_views(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    const c10::AliasInfo* alias = result.alias_info();
    if (alias != nullptr && !alias->isWrite())
      return true;
  }
  return false;
}

void convert(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  if (!makes_views(schema)) {
    make_arguments_plain(op, stack);
    op.redispatchBoxed(keys & kBelow, stack);
    return;
  }
  op.redispatchBoxed(keys & kBelow, stack);
  for (const c10::IValue& value : torch::jit::last(*stack, schema.returns().size()))
    for_each_tensor(value, [](const at::Tensor& t) {
      if (t.defined() && t.is_privateuseone() && t.has_storage())
        update_format_key(t);
    });
}

// A product whose argument `Matrix` may be packed: the transpose of a packed tensor, or
// with Whole the tensor itself.
template <int64_t Matrix, bool Whole>
void convert_product(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::Tensor& matrix = (*stack)[first + Matrix].toTensor();
  const bool direct = Whole ? whole_matrix(matrix) : transposed_matrix(matrix);
  make_arguments_plain(op, stack, direct ? Matrix : -1);
  op.redispatchBoxed(keys & kBelow, stack);
}

at::Tensor clone(const at::Tensor& self, std::optional<c10::MemoryFormat> format) {
  if (whole_matrix(self) != nullptr)
    return copy_packed(self);
  if (is_packed(self))
    count_conversion("aten::clone");
  return at::clone(is_packed(self) ? unpack(self) : (update_format_key(self), self), format);
}

// Copying to a whole packed tensor keeps its format, so that a module that loads its
// parameters keeps it.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_copy_from", "");
  Conversion conversion(op);
  const at::Tensor src = conversion.read(self);
  if (whole_matrix(dst) == nullptr) {
    conversion.write(dst);
    copy_tensor(dst, src, non_blocking);
    return dst;
  }
  const at::Tensor plain = at::empty(dst.sizes(), dst.options());
  copy_tensor(plain, src, non_blocking);
  pack_into(dst, plain);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes())
    dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Tensor format_cast(const at::Tensor& self, std::string_view name) {
  const std::string format(name);
  check_format(format);
  const at::Tensor plain = is_packed(self) ? unpack(self) : self;
  if (format == "packed")
    return pack(plain.contiguous());
  return whole_matrix(self) != nullptr
      ? plain
      : at::clone(plain, c10::MemoryFormat::Contiguous);
}

at::Tensor format_cast_meta(const at::Tensor& self, std::string_view format) {
  check_format(std::string(format));
  return at::empty_symint(self.sym_sizes(), self.options());
}

struct FormatCast : torch::autograd::Function<FormatCast> {
  static at::Tensor forward(
      torch::autograd::AutogradContext*,
      const at::Tensor& self,
      const std::string& format) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("openreg::format_cast", "")
                               .typed<at::Tensor(const at::Tensor&, std::string_view)>();
    return op.call(self, format);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext*,
      torch::autograd::variable_list grads) {
    return {grads[0], at::Tensor()};
  }
};

at::Tensor format_cast_autograd(const at::Tensor& self, std::string_view format) {
  return FormatCast::apply(self, std::string(format));
}

} // namespace

TORCH_LIBRARY_FRAGMENT(openreg, m) {
  m.def("format_cast(Tensor self, str format) -> Tensor");
}
TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  m.impl("format_cast", &format_cast);
}
TORCH_LIBRARY_IMPL(openreg, Meta, m) {
  m.impl("format_cast", &format_cast_meta);
}
TORCH_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("format_cast", &format_cast_autograd);
}

TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&convert>());
}

TORCH_LIBRARY_IMPL(openreg, CustomRNGKeyId, m) {
  m.impl("format_cast", &format_cast);
}

TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, m) {
  m.impl("clone", &clone);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  for (const char* name : {"mm", "mm.out"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&convert_product<1, false>>());
  for (const char* name : {"addmm", "addmm_", "addmm.out"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&convert_product<2, false>>());
  for (const char* name : {"addmv", "addmv_", "addmv.out"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&convert_product<1, true>>());
  // Core's function for all devices looks into the storage.
  m.impl("_lazy_clone", torch::CppFunction::makeFromBoxedFunction<&convert>());
  // These read no values. Their kernels keep the keys of a view, or update them.
  for (const char* name :
       {"as_strided",
        "view",
        "_reshape_alias",
        "unfold",
        "set_",
        "set_.source_Storage",
        "set_.source_Storage_storage_offset",
        "set_.source_Tensor",
        "is_set_to",
        "record_stream",
        "_has_compatible_shallow_copy_type"})
    m.impl(name, torch::CppFunction::makeFallthrough());
}

} // namespace openreg
