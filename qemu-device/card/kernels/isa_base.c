// SPDX-License-Identifier: MIT
/* Kernels for any host. */
#define VECTOR_BITS 0
#define KERNELS openreg_kernels_base
#define KERNELS_NAME "base"
#include "kernel_all.h"
