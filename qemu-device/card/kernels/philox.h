/* SPDX-License-Identifier: MIT */
/*
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy
 * as 1, 2, 3), one block: 128 bits of a counter under a key of 64.
 */
#ifndef OPENREG_PHILOX_H
#define OPENREG_PHILOX_H

#include <stdint.h>

#define OPENREG_PHILOX_ROUNDS 10
#define OPENREG_PHILOX_M0 0xd2511f53u
#define OPENREG_PHILOX_M1 0xcd9e8d57u
#define OPENREG_PHILOX_W0 0x9e3779b9u
#define OPENREG_PHILOX_W1 0xbb67ae85u

/* low and high are the halves of the counter. Stores the four words of the block. */
static inline void openreg_philox(uint32_t word[4], uint64_t key, uint64_t low,
				  uint64_t high)
{
	uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32);
	uint32_t c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	int round;

	for (round = 0; round < OPENREG_PHILOX_ROUNDS; round++) {
		uint64_t p0 = (uint64_t)OPENREG_PHILOX_M0 * c0;
		uint64_t p1 = (uint64_t)OPENREG_PHILOX_M1 * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += OPENREG_PHILOX_W0;
		k1 += OPENREG_PHILOX_W1;
	}
	word[0] = c0;
	word[1] = c1;
	word[2] = c2;
	word[3] = c3;
}

#endif
