// SPDX-License-Identifier: MIT
/*
 * Writes the fuzzers' seeds: some for every opcode, and the earlier findings of
 * tests/fuzz/findings.
 * usage: fuzz-corpus NAME DIRECTORY [FINDINGS.hex]
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openreg_isa.h"

#define VARIANTS 24
#define INPUT_MAX 4096

static const char *directory;
static unsigned int files;
static uint64_t state = 88172645463325252ULL;

static uint8_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint8_t)(state >> 32);
}

static void save(const uint8_t *bytes, size_t len)
{
	char name[4096];
	FILE *f;

	snprintf(name, sizeof(name), "%s/seed-%04u", directory, files++);
	f = fopen(name, "wb");
	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f)) {
		perror(name);
		exit(1);
	}
}

/* The input of a packet in the generator's format; some inputs give a valid packet. */
static size_t packet(uint8_t *to, unsigned int opcode, unsigned int variant)
{
	size_t len = 40 + 8 * (variant % 8), i;

	to[0] = (uint8_t)opcode;
	to[1] = (uint8_t)(variant % 4 ? 0 : 200 + variant);
	for (i = 2; i < len; i++) {
		to[i] = next();
		if (variant % 3)
			to[i] %= 64;
	}
	return variant ? len : 2;
}

static void packets(bool image)
{
	uint8_t bytes[INPUT_MAX];
	unsigned int opcode, variant;

	for (opcode = 0; opcode < OPENREG_OP_END; opcode++) {
		for (variant = 0; variant < VARIANTS; variant++) {
			size_t len = 0;

			if (image)
				bytes[len++] = (uint8_t)variant;
			len += packet(bytes + len, opcode, variant);
			save(bytes, len);
		}
	}
}

/* Seeds of fuzz-card: many packets, each followed by steps of the card and other ops. */
static void cards(void)
{
	uint8_t bytes[INPUT_MAX];
	unsigned int variant, i;

	for (variant = 0; variant < 8 * VARIANTS; variant++) {
		size_t len = 0;

		bytes[len++] = (uint8_t)variant;
		for (i = 0; i <= variant % 16; i++) {
			bytes[len++] = (uint8_t)(0x1a + (i & 1) * 0x20);
			bytes[len++] = next() % 3;
			len += packet(bytes + len, (variant + i) % OPENREG_OP_END, variant);
			bytes[len++] = (uint8_t)(0x10 + next() % 10);
			bytes[len++] = next();
			bytes[len++] = next() % 64;
		}
		/* Some end in a LIST, in which the queue then stops and continues. */
		if (variant % 2) {
			bytes[len++] = 0xda;
			bytes[len++] = next() % 3;
			bytes[len++] = next() % 4;
			len += packet(bytes + len, variant % OPENREG_OP_END,
				      variant);
		}
		save(bytes, len);
	}
}

static void found(FILE *f)
{
	static char line[2 * INPUT_MAX + 2];
	uint8_t bytes[INPUT_MAX];
	unsigned int byte;
	size_t len, at;

	while (fgets(line, sizeof(line), f)) {
		for (len = 0, at = 0; isxdigit((unsigned char)line[at]) &&
				      sscanf(line + at, "%2x", &byte) == 1;
		     at += 2)
			bytes[len++] = (uint8_t)byte;
		if (len)
			save(bytes, len);
	}
}

int main(int argc, char **argv)
{
	FILE *f;

	if (argc < 3) {
		fprintf(stderr, "usage: fuzz-corpus NAME DIRECTORY [HEX]\n");
		return 2;
	}
	directory = argv[2];
	if (!strcmp(argv[1], "card"))
		cards();
	else
		packets(!strcmp(argv[1], "packets"));
	f = argc > 3 ? fopen(argv[3], "r") : NULL;
	if (f) {
		found(f);
		fclose(f);
	}
	return 0;
}
