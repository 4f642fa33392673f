// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/gil.h"

#include "python/bindings.h"

namespace openreg {

void bind_gil() {
  register_gil(
      {[]() -> void* {
         return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread()
                                                         : nullptr;
       },
       [](void* released) {
         PyEval_RestoreThread(static_cast<PyThreadState*>(released));
       }});
}

} // namespace openreg
