// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/gil.h"

namespace openreg {
namespace {

Gil gil{[]() -> void* { return nullptr; }, [](void*) {}};

} // namespace

void register_gil(const Gil& given) {
  gil = given;
}

const Gil& registered_gil() {
  return gil;
}

} // namespace openreg
