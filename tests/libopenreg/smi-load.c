// SPDX-License-Identifier: MIT
/*
 * A known load for check-smi: makes it, prints "ready", and ends when standard input does.
 * usage: smi-load CARD VRAM SYSTEM REGISTERED IMPORTED QUEUES MODE [NAME]
 *        smi-load crowd N
 * Memory is in MiB. The card before CARD exports what CARD imports. MODE: idle; compute or
 * copy, without end; fault, once; twice, which opens the card once more, with VRAM as before,
 * and shares all with a child. crowd: N processes, each with a queue, on all cards in turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openreg.h>

#define MIB (1ull << 20)
#define SIZE (4 * MIB)

static int64_t check(int64_t ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "# smi-load: %s\n", openreg_last_error());
	exit(1);
}

static void wait_for_end(void)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void import(struct openreg_device *dev, unsigned int card, uint64_t size)
{
	struct openreg_device *owner;
	struct openreg_bo *bo, *in;
	int fd;

	check(openreg_device_open(card - 1, &owner));
	check(openreg_bo_alloc(owner, size, OPENREG_BO_VRAM, &bo));
	fd = (int)check(openreg_bo_export(bo, 0));
	check(openreg_bo_import(dev, fd, &in));
	close(fd);
}

static void hold_memory(struct openreg_device *dev, char **argv)
{
	const uint64_t vram = strtoull(argv[2], NULL, 10) * MIB;
	const uint64_t system = strtoull(argv[3], NULL, 10) * MIB;
	const uint64_t registered = strtoull(argv[4], NULL, 10) * MIB;
	const uint64_t imported = strtoull(argv[5], NULL, 10) * MIB;
	struct openreg_bo *bo;

	if (vram)
		check(openreg_bo_alloc(dev, vram, OPENREG_BO_VRAM, &bo));
	if (system)
		check(openreg_bo_alloc(dev, system, OPENREG_BO_SYSTEM, &bo));
	if (registered) {
		void *p = mmap(NULL, registered, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		check(p == MAP_FAILED ? -1 : 0);
		check(openreg_mem_register(dev, p, registered, 0, &bo));
	}
	if (imported)
		import(dev, (unsigned int)atoi(argv[1]), imported);
}

/* The sum of count exponentials of one float: long work on one line of memory. */
static int push_sum(struct openreg_queue *q, uint64_t address)
{
	static const struct openreg_instr program[] = {
		{ .op = OPENREG_V_LOAD, .aux = 1 },
		{ .op = OPENREG_V_EXP },
		{ .op = OPENREG_V_RED_SUM, .b = OPENREG_VNONE, .c = OPENREG_VNONE },
	};
	const int64_t size[] = { 1 << 24 }, still[] = { 0 };
	const struct openreg_tensor ops[] = {
		openreg_view(address, OPENREG_F32, still),
		openreg_view(address + 64, OPENREG_F32, still),
	};
	const struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.arg = { 1 },
		.ndim = 1,
		.nops = 2,
		.ninstr = 3,
		.size = size,
		.ops = ops,
		.instr = program,
	};

	return openreg_push(q, &v);
}

/* The ring always holds packets that have not begun. */
static void keep_busy(struct openreg_device *dev, struct openreg_queue *q, int copy)
{
	struct openreg_bo *bo;
	uint64_t address;

	check(openreg_bo_alloc(dev, 2 * SIZE, OPENREG_BO_VRAM, &bo));
	address = openreg_bo_address(bo);
	for (int i = 0;; i++) {
		if (copy) {
			check(openreg_copy_async(q, address, address + SIZE, SIZE));
		} else {
			check(push_sum(q, address));
			check(openreg_queue_submit(q));
		}
		if (i == 8)
			ready();
	}
}

static void fault(struct openreg_queue *q)
{
	const int64_t seq = openreg_fill_async(q, 1ull << 40, 0, 4);

	/* A fast card may fault before openreg_fill_async() returns. */
	if (seq != -EIO && openreg_queue_wait(q, (uint64_t)check(seq), -1) != -EIO)
		exit(1);
}

static void open_twice(char **argv)
{
	struct openreg_device *dev;

	check(openreg_device_open((unsigned int)atoi(argv[1]), &dev));
	hold_memory(dev, argv);
	if (!fork()) {
		wait_for_end();
		_exit(0);
	}
}

static void join_crowd(unsigned int i)
{
	struct openreg_device *dev;
	struct openreg_queue *q;

	check(openreg_device_open(i % (unsigned int)openreg_device_count(), &dev));
	check(openreg_queue_create(dev, NULL, &q));
	ready();
	wait_for_end();
	_exit(0);
}

static int crowd(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!fork())
			join_crowd(i);
	while (wait(NULL) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	struct openreg_device *dev;
	struct openreg_queue *q = NULL;

	if (argc == 3 && !strcmp(argv[1], "crowd"))
		return crowd((unsigned int)atoi(argv[2]));
	if (argc < 8)
		return 2;
	if (argc > 8)
		prctl(PR_SET_NAME, argv[8]);
	check(openreg_device_open((unsigned int)atoi(argv[1]), &dev));
	hold_memory(dev, argv);
	for (int i = atoi(argv[6]); i > 0; i--)
		check(openreg_queue_create(dev, NULL, &q));
	if (q && !strcmp(argv[7], "fault"))
		fault(q);
	else if (q && (!strcmp(argv[7], "compute") || !strcmp(argv[7], "copy")))
		keep_busy(dev, q, !strcmp(argv[7], "copy"));
	else if (!strcmp(argv[7], "twice"))
		open_twice(argv);
	ready();
	wait_for_end();
	return 0;
}
