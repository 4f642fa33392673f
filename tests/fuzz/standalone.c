// SPDX-License-Identifier: MIT
/*
 * A fuzzer's main() without libFuzzer: replays files, or runs random inputs.
 * usage: fuzz-NAME FILE...            text of hexadecimal lines, or any bytes
 *        fuzz-NAME --runs N [SEED]
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX 4096

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void run_random(unsigned long runs, uint64_t seed)
{
	uint64_t x = 88172645463325252ULL ^ seed * 0x9e3779b97f4a7c15;
	static uint8_t input[INPUT_MAX];
	size_t len, i;

	while (runs--) {
		len = next(&x) % (next(&x) % 8 ? 200 : INPUT_MAX);
		for (i = 0; i < len; i++)
			input[i] = (uint8_t)(next(&x) >> 32);
		LLVMFuzzerTestOneInput(input, len);
	}
}

/* "# ..." is a comment; every other line of a .hex file is an input. */
static void run_hex(char *line)
{
	static uint8_t input[INPUT_MAX];
	unsigned int byte;
	size_t len = 0;

	for (; *line && *line != '#' && len < INPUT_MAX; line++) {
		if (isspace((unsigned char)*line))
			continue;
		if (sscanf(line, "%2x", &byte) != 1)
			return;
		input[len++] = (uint8_t)byte;
		line++;
	}
	if (len)
		LLVMFuzzerTestOneInput(input, len);
}

static int run_file(const char *name)
{
	static uint8_t input[1 << 20];
	static char line[2 * INPUT_MAX + 2];
	FILE *f = fopen(name, "rb");
	size_t len;

	if (!f) {
		perror(name);
		return 1;
	}
	if (strstr(name, ".hex")) {
		while (fgets(line, sizeof(line), f))
			run_hex(line);
	} else {
		len = fread(input, 1, sizeof(input), f);
		LLVMFuzzerTestOneInput(input, len);
	}
	return fclose(f);
}

int main(int argc, char **argv)
{
	int i, status = 0;

	if (argc >= 3 && !strcmp(argv[1], "--runs")) {
		run_random(strtoul(argv[2], NULL, 0),
			   argc > 3 ? strtoull(argv[3], NULL, 0) : 1);
		return 0;
	}
	for (i = 1; i < argc; i++)
		status |= run_file(argv[i]);
	return !!status;
}
