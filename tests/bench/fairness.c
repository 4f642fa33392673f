// SPDX-License-Identifier: MIT
/*
 * (i) The cost of one process to another: launches of 16 sums with a wait after each,
 * alone and beside a process that keeps its queues full of large packets.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "card.h"

#define LAUNCHES 3000
#define QUEUES_MAX 4
#define AHEAD 32 /* least number of packets in each queue */
#define SIDE 1024
#define LENGTH (1 << 22)

struct flood {
	struct card c;
	struct openreg_queue *q[QUEUES_MAX];
	unsigned int queues;
	int matmul;
	uint64_t at; /* address of the three operands */
};

static int64_t push_add(struct openreg_queue *q, uint64_t at, int64_t n)
{
	const struct openreg_tensor ops[] = {
		openreg_view(at, OPENREG_F32, NULL),
		openreg_view(at + 4 * (uint64_t)n, OPENREG_F32, NULL),
		openreg_view(at + 8 * (uint64_t)n, OPENREG_F32, NULL),
	};
	const struct openreg_instr program[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_F32, 2, 0, 1, 0, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0, 0),
	};
	const struct openreg_command add = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .size = &n, .nops = 3, .ops = ops,
		.ninstr = 4, .instr = program,
	};

	check(openreg_push(q, &add));
	return check(openreg_queue_submit(q));
}

static int64_t push_matmul(struct openreg_queue *q, uint64_t at)
{
	static const int64_t size[] = { 1, SIDE, SIDE, SIDE };
	static const int64_t sd[] = { 0, SIDE, 1, 0 }, sa[] = { 0, SIDE, 0, 1 };
	static const int64_t sb[] = { 0, 0, 1, SIDE };
	const uint64_t part = 4 * SIDE * SIDE;
	const struct openreg_tensor d = openreg_view(at, OPENREG_F32, sd);
	const struct openreg_tensor a =
		openreg_view(at + part, OPENREG_F32, sa);
	const struct openreg_tensor b =
		openreg_view(at + 2 * part, OPENREG_F32, sb);

	check(openreg_push_matmul(q, size, &d, &a, &b, NULL, 1, 0));
	return check(openreg_queue_submit(q));
}

static int64_t push_large(struct flood *f, unsigned int i)
{
	return f->matmul ? push_matmul(f->q[i], f->at) :
			   push_add(f->q[i], f->at, LENGTH);
}

/* Runs until it is killed. Writes one byte to ready_fd once all of its queues are busy. */
static void flood(unsigned int queues, int matmul, int ready_fd)
{
	struct flood f = { .queues = queues, .matmul = matmul };
	int64_t seq[QUEUES_MAX];
	char byte = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	f.c = open_card(0);
	f.at = openreg_bo_address(make_bo(&f.c, 12 * LENGTH, OPENREG_BO_VRAM));
	for (unsigned int i = 0; i < queues; i++) {
		check(openreg_queue_create(f.c.dev, NULL, &f.q[i]));
		openreg_queue_set_spin(f.q[i], 0);
		seq[i] = push_large(&f, i);
	}
	for (;;) {
		for (unsigned int i = 0; i < queues; i++) {
			int64_t last = seq[i];

			for (unsigned int k = 0; k < AHEAD; k++)
				seq[i] = push_large(&f, i);
			check(openreg_queue_wait(f.q[i], (uint64_t)last, -1));
		}
		if (byte && write(ready_fd, &byte, 1) != 1)
			exit(1);
		byte = 0;
	}
}

static void measure(double *times)
{
	struct card c = open_card(0);
	const uint64_t at =
		openreg_bo_address(make_bo(&c, 4096, OPENREG_BO_VRAM));

	for (int i = -100; i < LAUNCHES; i++) {
		const double begin = seconds();

		finish(&c, push_add(c.q, at, 16));
		if (i >= 0)
			times[i] = seconds() - begin;
	}
	close_card(&c);
}

static void report(const char *beside)
{
	static double times[LAUNCHES];
	char what[128];

	measure(times);
	snprintf(what, sizeof(what), "launch and wait %s", beside);
	figure("i", what, 1e6 * median(times, LAUNCHES), "us");
	snprintf(what, sizeof(what), "launch and wait %s, 99 %%", beside);
	figure("i", what, 1e6 * times[LAUNCHES * 99 / 100], "us");
}

static void report_beside(unsigned int queues, int matmul)
{
	char beside[64], byte;
	int line[2], status;
	pid_t pid;

	if (pipe(line))
		exit(1);
	pid = fork();
	if (pid < 0)
		exit(1);
	if (!pid)
		flood(queues, matmul, line[1]);
	close(line[1]);
	if (read(line[0], &byte, 1) != 1)
		exit(1);
	snprintf(beside, sizeof(beside), "beside %u queue%s of %s", queues,
		 queues > 1 ? "s" : "", matmul ? "MATMUL" : "VECTOR");
	report(beside);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		exit(1);
	close(line[0]);
}

int main(void)
{
	report("alone");
	for (unsigned int queues = 1; queues <= QUEUES_MAX; queues *= 2) {
		report_beside(queues, 1);
		report_beside(queues, 0);
	}
	return 0;
}
