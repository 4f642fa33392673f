// SPDX-License-Identifier: MIT
/*
 * Keeps a card busy until SIGTERM, while the VM migrates. Each round copies numbers from
 * system memory to VRAM and triples them there. A second queue waits for the first and
 * copies them back; then the round checks them. Every eighth round frees and allocates
 * the memory.
 *
 *   load [CARD]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <openreg.h>

#define COUNT 40000 /* a bit more than whole pages */
#define BYTES (COUNT * sizeof(int32_t))
#define KEEP_ROUNDS 8
#define REST_US 5000 /* leave time for other work on the card */

static volatile sig_atomic_t over;

struct load {
	struct openreg_device *dev;
	struct openreg_queue *first, *second;
	struct openreg_bo *system, *vram;
	int32_t *cpu; /* COUNT numbers in, COUNT out, one word */
	uint64_t in, out, word; /* addresses in system memory */
	uint64_t there, back; /* in VRAM */
};

static void on_term(int number)
{
	(void)number;
	over = 1;
}

static int64_t check(int64_t ret, const char *what)
{
	if (ret >= 0)
		return ret;
	printf("%s: %s\n", what, openreg_last_error());
	exit(1);
}

static void make_memory(struct load *l)
{
	void *cpu;

	check(openreg_bo_alloc(l->dev, 2 * BYTES + 8, OPENREG_BO_SYSTEM,
			       &l->system), "system memory");
	check(openreg_bo_alloc(l->dev, 2 * BYTES, OPENREG_BO_VRAM, &l->vram),
	      "VRAM");
	check(openreg_bo_map(l->system, &cpu), "map");
	l->cpu = cpu;
	l->in = openreg_bo_address(l->system);
	l->out = l->in + BYTES;
	l->word = l->out + BYTES;
	l->there = openreg_bo_address(l->vram);
	l->back = l->there + BYTES;
}

static void free_memory(struct load *l)
{
	openreg_bo_free(l->system);
	openreg_bo_free(l->vram);
}

/* dst = 3 * src, integers */
static void push_triple(struct openreg_queue *queue, uint64_t dst, uint64_t src)
{
	const int64_t size[] = { COUNT };
	const struct openreg_tensor ops[] = {
		openreg_view(dst, OPENREG_I32, NULL),
		openreg_view(src, OPENREG_I32, NULL),
	};
	const struct openreg_instr program[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_I32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_I32, 1, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_I32, 1, 1, 0, 0, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_I32, 0, 1, 0, 0, 0),
	};
	const struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .size = size,
		.nops = 2, .ops = ops,
		.ninstr = 4, .instr = program,
	};

	check(openreg_push(queue, &v), "triple");
}

/* The second queue waits for the SIGNAL of the first. */
static void work(struct load *l, uint64_t round)
{
	int64_t seq;

	check(openreg_push_wait(l->second, l->word, OPENREG_WAIT_GE, round),
	      "wait");
	seq = check(openreg_copy_async(l->second, l->out, l->back, BYTES),
		    "copy back");
	check(openreg_copy_async(l->first, l->there, l->in, BYTES), "copy");
	push_triple(l->first, l->back, l->there);
	check(openreg_push_signal(l->first, l->word, OPENREG_SIGNAL_SET, round),
	      "signal");
	check(openreg_queue_submit(l->first), "submit");
	check(openreg_queue_wait(l->second, (uint64_t)seq, -1), "queue wait");
}

static void one_round(struct load *l, uint64_t round)
{
	const int32_t start = (int32_t)(round % 1000000);
	int i;

	for (i = 0; i < COUNT; i++)
		l->cpu[i] = start + i;
	work(l, round);
	for (i = 0; i < COUNT; i++)
		if (l->cpu[COUNT + i] != 3 * (start + i)) {
			printf("round %llu: number %d is %d, not %d\n",
			       (unsigned long long)round, i, l->cpu[COUNT + i],
			       3 * (start + i));
			exit(1);
		}
}

int main(int argc, char **argv)
{
	struct load l = { 0 };
	uint64_t round = 0;

	signal(SIGTERM, on_term);
	check(openreg_device_open(argc > 1 ? (unsigned int)atoi(argv[1]) : 0,
				  &l.dev), "open");
	check(openreg_queue_create(l.dev, NULL, &l.first), "queue");
	check(openreg_queue_create(l.dev, NULL, &l.second), "queue");
	openreg_queue_set_spin(l.second, 0); /* only interrupts wake the wait */
	while (!over) {
		if (round % KEEP_ROUNDS == 0) {
			free_memory(&l);
			make_memory(&l);
		}
		one_round(&l, ++round);
		usleep(REST_US);
	}
	printf("%llu rounds\n", (unsigned long long)round);
	free_memory(&l);
	openreg_queue_destroy(l.first);
	openreg_queue_destroy(l.second);
	openreg_device_close(l.dev);
	return 0;
}
