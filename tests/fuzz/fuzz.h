/* SPDX-License-Identifier: MIT */
/* The fuzzer's entry point, called by libFuzzer or by standalone.c. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
