// SPDX-License-Identifier: BSD-3-Clause
// A label is a text that the user attaches to a tensor. The label is the backend's own
// data of the tensor (BackendMeta): torch.save() writes it and torch.load() restores it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

void set_label(const at::Tensor& tensor, const std::string& text);
std::string label(const at::Tensor& tensor); // "" if the tensor has no label

} // namespace openreg
#pragma GCC visibility pop
