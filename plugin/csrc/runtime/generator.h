// SPDX-License-Identifier: BSD-3-Clause
// Random numbers of a device: a seed and an offset, as Philox has them.
#pragma once

#include <ATen/core/Generator.h>

#include "runtime/device.h"

namespace openreg {

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

// Takes the next stretch of a device generator as a generator of the CPU.
at::Generator cpu_generator(const at::Generator& device_generator);

} // namespace openreg
