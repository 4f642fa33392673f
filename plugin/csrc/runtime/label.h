// SPDX-License-Identifier: BSD-3-Clause
// A word that the user sticks on a tensor: the backend's own data of it, which
// torch.save() writes and torch.load() brings back.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

void set_label(const at::Tensor& tensor, const std::string& text);
std::string label(const at::Tensor& tensor); // "" without one

} // namespace openreg
#pragma GCC visibility pop
