// SPDX-License-Identifier: BSD-3-Clause
// Stands in for libfmt, which libtorch does not depend on. Kineto's headers name
// fmt::format in a template that this plugin never uses.
#pragma once

#include <string>

namespace fmt {

template <typename... Args>
std::string format(const char* text, const Args&... args);

} // namespace fmt
