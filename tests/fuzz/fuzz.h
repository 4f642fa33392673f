/* SPDX-License-Identifier: MIT */
/* What libFuzzer calls, or standalone.c where there is no libFuzzer. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
