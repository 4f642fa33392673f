// SPDX-License-Identifier: BSD-3-Clause
#include <torch/extension.h>

#include "python/bindings.h"
#include "runtime/format.h"

namespace openreg {

void bind_formats(pybind11::module_& m) {
  m.def("format_of", &format_of);
  m.def("check_format", &check_format);
  m.def("conversion_counts", &conversion_counts);
  m.def("reset_conversion_counts", &reset_conversion_counts);
  // For code that hands out the memory itself.
  m.def(
      "make_plain",
      [](const at::Tensor& t, const std::string& op) {
        if (!has_format(t))
          return;
        if (make_plain(t.storage().unsafeGetStorageImpl()))
          count_conversion(op);
        update_format_key(t);
      },
      Unlocked());
}

} // namespace openreg
