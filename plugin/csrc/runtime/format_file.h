// SPDX-License-Identifier: BSD-3-Clause
// The format of a tensor in files. A file has the plain values, so that any device and any
// version of torch can read them, and the format beside them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace openreg {

// Core saves only a map from string to bool with a tensor.
using FileFields = std::unordered_map<std::string, bool>;

// The rest of the only field that begins with the key, or "".
std::string field_value(const FileFields& fields, std::string_view key);

void write_format(const at::Tensor& tensor, FileFields& fields);
// Gives the tensor the format that the file has for it.
void read_format(const at::Tensor& tensor, const FileFields& fields);

} // namespace openreg
