// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/label.h"

#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <string_view>

#include "runtime/device.h"
#include "runtime/format_file.h"

namespace openreg {
namespace {

struct Label final : c10::BackendMeta {
  explicit Label(std::string text) : text(std::move(text)) {}

  const std::string text;
};

const Label* find_label(const at::Tensor& tensor) {
  return dynamic_cast<const Label*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
}

// In a file, version and label are part of the keys.
constexpr std::string_view kVersionKey = "openreg.version=";
constexpr std::string_view kLabelKey = "openreg.label=";
constexpr int kVersion = 1;

void write_fields(const at::Tensor& tensor, FileFields& fields) {
  write_format(tensor, fields);
  const Label* found = find_label(tensor);
  if (!found)
    return;
  fields[std::string(kVersionKey) + std::to_string(kVersion)] = true;
  fields[std::string(kLabelKey) + found->text] = true;
}

void check_version(const std::string& version) {
  TORCH_CHECK(
      version == std::to_string(kVersion),
      "openreg's data of a tensor in this file has version ",
      version,
      ", but this torch_openreg reads version ",
      kVersion,
      ". Install a newer torch_openreg, or ignore the data with "
      "torch.load(..., map_location='cpu').");
}

void read_fields(const at::Tensor& tensor, FileFields& fields) {
  const std::string version = field_value(fields, kVersionKey);
  if (!version.empty())
    check_version(version);
  const std::string label = field_value(fields, kLabelKey);
  if (!label.empty())
    set_label(tensor, label);
  read_format(tensor, fields);
}

const bool registered = [] {
  torch::jit::TensorBackendMetaRegistry(
      kDeviceType, &write_fields, &read_fields);
  return true;
}();

} // namespace

void set_label(const at::Tensor& tensor, const std::string& text) {
  TORCH_CHECK_VALUE(
      tensor.is_privateuseone(),
      "only tensors on openreg can have labels; this tensor is on ",
      tensor.device());
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      text.empty() ? nullptr : c10::make_intrusive<Label>(text));
}

std::string label(const at::Tensor& tensor) {
  const Label* found = find_label(tensor);
  return found ? found->text : "";
}

} // namespace openreg
