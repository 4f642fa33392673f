// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs as text. Each line has a call: its name, and its arguments, which are numbers
 * or rN, the result of call N. "race THREADS FROM ROUNDS KILL_US" adds a race.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

const struct op_desc ops[OPS] = {
	[OP_OPEN] = { "open", 3, KIND_CARD, { KIND_FEW } },
	[OP_CLOSE] = { "close", 3, 0, { KIND_FD } },
	[OP_DUP] = { "dup", 1, KIND_CARD, { KIND_CARD } },
	[OP_QUERY] = { "query", 3, 0, { KIND_CARD, KIND_FEW, KIND_NUMBER,
		KIND_POINTER } },
	[OP_BO] = { "bo", 16, KIND_HANDLE, { KIND_CARD, KIND_SIZE,
		KIND_BO_FLAGS } },
	[OP_INFO] = { "info", 3, 0, { KIND_CARD, KIND_HANDLE } },
	[OP_REGISTER] = { "register", 10, KIND_HANDLE, { KIND_CARD, KIND_MAP,
		KIND_SIZE, KIND_REG_FLAGS, KIND_NUMBER } },
	[OP_GEM_CLOSE] = { "gem_close", 8, 0, { KIND_CARD, KIND_HANDLE } },
	[OP_QUEUE] = { "queue", 10, KIND_QUEUE, { KIND_CARD, KIND_SLOTS,
		KIND_PRIORITY, KIND_ZERO } },
	[OP_DESTROY] = { "destroy", 5, 0, { KIND_CARD, KIND_QUEUE, KIND_ZERO } },
	[OP_WAIT] = { "wait", 12, 0, { KIND_CARD, KIND_QUEUE, KIND_SEQ,
		KIND_TIME, KIND_ZERO } },
	[OP_RESET] = { "reset", 6, 0, { KIND_CARD, KIND_QUEUE, KIND_SEQ,
		KIND_SEQ, KIND_ZERO } },
	[OP_TIMESTAMP] = { "timestamp", 2, 0, { KIND_CARD, KIND_ZERO,
		KIND_ZERO } },
	[OP_SIGNAL] = { "signal", 10, 0, { KIND_CARD, KIND_QUEUE, KIND_SYNCOBJ,
		KIND_SEQ, KIND_SEQ, KIND_ZERO } },
	[OP_MAP_QUEUE] = { "map_queue", 10, 0, { KIND_QUEUE } },
	[OP_PACKET] = { "packet", 25, 0, { KIND_QUEUE, KIND_FEW, KIND_ADDRESS,
		KIND_ADDRESS, KIND_SIZE } },
	[OP_TAIL] = { "tail", 2, 0, { KIND_QUEUE, KIND_NUMBER } },
	[OP_MAP] = { "map", 10, KIND_MAP, { KIND_CARD, KIND_OFFSET, KIND_SIZE,
		KIND_PROT, KIND_FEW } },
	[OP_MAP_PART] = { "map_part", 3, KIND_MAP, { KIND_CARD, KIND_QUEUE,
		KIND_FEW, KIND_SIZE, KIND_PROT } },
	[OP_MEMORY] = { "memory", 8, KIND_MAP, { KIND_SIZE, KIND_PROT,
		KIND_FEW } },
	[OP_UNMAP] = { "unmap", 5, 0, { KIND_MAP, KIND_SIZE } },
	[OP_PROTECT] = { "protect", 2, 0, { KIND_MAP, KIND_SIZE, KIND_PROT } },
	[OP_ADVISE] = { "advise", 2, 0, { KIND_MAP, KIND_SIZE, KIND_ADVICE } },
	[OP_TOUCH] = { "touch", 10, 0, { KIND_MAP, KIND_NUMBER, KIND_FEW } },
	[OP_EXPORT] = { "export", 8, KIND_BUF, { KIND_CARD, KIND_HANDLE,
		KIND_PRIME_FLAGS } },
	[OP_IMPORT] = { "import", 8, KIND_HANDLE, { KIND_CARD, KIND_BUF } },
	[OP_SYNC] = { "sync", 3, 0, { KIND_BUF, KIND_SYNC_FLAGS } },
	[OP_MAP_BUF] = { "map_buf", 4, KIND_MAP, { KIND_BUF, KIND_SIZE,
		KIND_PROT } },
	[OP_UDMABUF] = { "udmabuf", 2, KIND_BUF, { KIND_SIZE, KIND_FEW } },
	[OP_SYNCOBJ] = { "syncobj", 5, KIND_SYNCOBJ, { KIND_CARD, KIND_FEW } },
	[OP_SYNCOBJ_DESTROY] = { "syncobj_destroy", 2, 0, { KIND_CARD,
		KIND_SYNCOBJ } },
	[OP_SYNCOBJ_WAIT] = { "syncobj_wait", 3, 0, { KIND_CARD, KIND_SYNCOBJ,
		KIND_SEQ, KIND_TIME, KIND_FEW } },
	[OP_SYNCOBJ_TIMELINE] = { "syncobj_timeline", 2, 0, { KIND_CARD,
		KIND_SYNCOBJ, KIND_SEQ, KIND_FEW } },
	[OP_SYNCOBJ_EVENTFD] = { "syncobj_eventfd", 1, 0, { KIND_CARD,
		KIND_SYNCOBJ, KIND_SEQ, KIND_FEW } },
	[OP_SYNCOBJ_TO_FD] = { "syncobj_to_fd", 1, KIND_FD, { KIND_CARD,
		KIND_SYNCOBJ, KIND_FEW } },
	[OP_SYNCOBJ_FROM_FD] = { "syncobj_from_fd", 1, KIND_SYNCOBJ, { KIND_CARD,
		KIND_FD, KIND_FEW } },
	[OP_FDINFO] = { "fdinfo", 2, 0, { KIND_FD } },
	[OP_POLL] = { "poll", 1, 0, { KIND_FD } },
	[OP_READ] = { "read", 1, 0, { KIND_FD, KIND_FEW } },
	[OP_FORK] = { "fork", 3, 0, { KIND_FEW, KIND_CARD, KIND_MAP } },
	[OP_RAW] = { "raw", 3, 0, { KIND_CARD, KIND_NUMBER, KIND_NUMBER,
		KIND_NUMBER, KIND_HANDLE } },
	[OP_SLEEP] = { "sleep", 2, 0, { KIND_TIME } },
	[OP_FAIL] = { "fail", 8, 0, { KIND_NUMBER } },
	[OP_LIMIT] = { "limit", 1, 0, { KIND_SIZE } },
	[OP_STATS] = { "stats", 1, 0, { KIND_FEW } },
	[OP_FLR] = { "flr", 0, 0, { KIND_FEW } },
	[OP_FLINK] = { "flink", 1, 0, { KIND_CARD, KIND_HANDLE, KIND_CARD } },
	[OP_CHANGE_HANDLE] = { "change_handle", 1, 0, { KIND_CARD, KIND_HANDLE,
		KIND_NUMBER } },
};

bool kind_takes(enum kind wants, enum kind made)
{
	switch (wants) {
	case KIND_FD:
		return made == KIND_CARD || made == KIND_BUF || made == KIND_FD;
	case KIND_ADDRESS:
	case KIND_OFFSET:
		return made == KIND_HANDLE;
	default:
		return wants == made && made;
	}
}

static int find_op(const char *name)
{
	int op;

	for (op = 0; op < OPS; op++)
		if (!strcmp(ops[op].name, name))
			return op;
	return -1;
}

static int read_arg(struct arg *arg, const char *word, unsigned int call)
{
	char *end;

	arg->ref = *word == 'r';
	arg->value = strtoull(word + arg->ref, &end, 0);
	return *end || (arg->ref && arg->value >= call) ? -EINVAL : 0;
}

static int read_call(struct program *program, char *line)
{
	struct call *call = &program->call[program->count];
	char *word, *rest = NULL;
	unsigned int i;
	int op;

	op = find_op(strtok_r(line, " \t\n", &rest));
	if (op < 0 || program->count == CALLS_MAX)
		return -EINVAL;
	memset(call, 0, sizeof(*call));
	call->op = op;
	for (i = 0; (word = strtok_r(NULL, " \t\n", &rest)); i++)
		if (i == ARGS_MAX || !ops[op].arg[i] ||
		    read_arg(&call->arg[i], word, program->count))
			return -EINVAL;
	program->count++;
	return 0;
}

int program_read(struct program *program, FILE *file)
{
	struct race *race = &program->race;
	char line[256];
	int ret = 0;

	memset(program, 0, sizeof(*program));
	while (!ret && fgets(line, sizeof(line), file)) {
		if (*line == '#' || *line == '\n')
			continue;
		if (sscanf(line, "race %u %u %u %u", &race->threads, &race->from,
			   &race->rounds, &race->kill_us) == 4)
			continue;
		ret = read_call(program, line);
	}
	return ret;
}

void program_write(const struct program *program, FILE *file)
{
	const struct race *race = &program->race;
	unsigned int i, j;

	for (i = 0; i < program->count; i++) {
		const struct call *call = &program->call[i];
		const struct op_desc *op = &ops[call->op];

		fputs(op->name, file);
		for (j = 0; j < ARGS_MAX && op->arg[j]; j++)
			fprintf(file, call->arg[j].ref ? " r%llu" :
				call->arg[j].value > 4096 ? " 0x%llx" : " %llu",
				(unsigned long long)call->arg[j].value);
		fputc('\n', file);
	}
	if (race->threads)
		fprintf(file, "race %u %u %u %u\n", race->threads, race->from,
			race->rounds, race->kill_us);
}
