/* SPDX-License-Identifier: MIT */
/* Common code of the tests of openreg-dump. */
#ifndef DUMPS_H
#define DUMPS_H

#include <openreg_dump.h>

#include "harness.h"

#define TOOL "\"$OPENREG_LIB/bin/openreg-dump\""
/* The same with sanitizers, which exit with status 99. */
#define CHECKED_TOOL                                                           \
	"ASAN_OPTIONS=exitcode=99:detect_leaks=0 UBSAN_OPTIONS=exitcode=99 "   \
	"\"$OPENREG_TESTS/libopenreg/helper-openreg-dump\""

/* Returns the tool's exit status; above 128 if a signal ended the tool. */
int read_dump(const char *tool, const char *arguments, char *text, size_t size);

void has(const char *text, const char *part);
void lacks(const char *text, const char *part);

/* A temporary directory, and the path of a file in it. */
struct files {
	char dir[32];
	char file[64];
};

int files_make(void **state);
int files_remove(void **state);
#define FILES_TEST(name)                                                       \
	cmocka_unit_test_setup_teardown(name, files_make, files_remove)

void write_file(const char *path, const void *bytes, size_t n);

/* Makes the dump of a queue with cmd as its only packet. */
void make_dump(struct openreg_dump *d, const struct openreg_command *cmd);

#endif
