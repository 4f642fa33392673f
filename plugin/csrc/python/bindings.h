// SPDX-License-Identifier: BSD-3-Clause
// The parts of torch_openreg._C.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>

#include "runtime/device.h"

namespace openreg {

using Unlocked = pybind11::call_guard<pybind11::gil_scoped_release>;

// Throws if the number cannot be a device index. -1 is valid: the current device.
c10::DeviceIndex to_index(int64_t index);

void bind_checks(pybind11::module_& m);
void bind_distributed(pybind11::module_& m);
void bind_formats(pybind11::module_& m);
void bind_gil();
void bind_ipc(pybind11::module_& m);
void bind_signals();
void bind_markers(pybind11::module_& m);
void bind_memory(pybind11::module_& m);
void bind_programs(pybind11::module_& m);
void bind_streams(pybind11::module_& m);

} // namespace openreg
