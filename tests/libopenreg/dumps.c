// SPDX-License-Identifier: MIT
#include "dumps.h"

int read_dump(const char *tool, const char *arguments, char *text, size_t size)
{
	char command[512], more[4096];
	size_t n = 0, got;
	FILE *f;

	/* No exec: the shell reports signals by its exit status. */
	snprintf(command, sizeof(command), "%s %s 2>&1; exit $?", tool,
		 arguments);
	f = popen(command, "r");
	assert_non_null(f);
	while ((got = fread(more, 1, sizeof(more), f))) {
		if (got > size - 1 - n)
			got = size - 1 - n;
		memcpy(text + n, more, got);
		n += got;
	}
	text[n] = 0;
	return WEXITSTATUS(pclose(f));
}

void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no \"%s\" in:\n%s", part, text);
}

void lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" in:\n%s", part, text);
}

int files_make(void **state)
{
	struct files *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/dumps-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->file, sizeof(f->file), "%s/dump", f->dir);
	*state = f;
	return 0;
}

int files_remove(void **state)
{
	struct files *f = *state;
	char command[64];
	int status;

	snprintf(command, sizeof(command), "rm -r %s", f->dir);
	status = system(command);
	free(f);
	return status;
}

void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

void make_dump(struct openreg_dump *d, const struct openreg_command *cmd)
{
	unsigned int slots = openreg_command_slots(cmd);

	assert_int_not_equal(slots, 0);
	memset(d, 0, sizeof(*d));
	d->magic = OPENREG_DUMP_MAGIC;
	d->version = OPENREG_DUMP_VERSION;
	d->size = sizeof(*d);
	d->ring_slots = 64;
	d->tail = slots;
	strcpy(d->reason, "a test");
	openreg_pack(d->slots, cmd);
}
