// SPDX-License-Identifier: MIT
/*
 * usage: trace-load steps N | full N | list N | fault | reset | killed | forks
 *
 * For check-trace, which knows the packets that each of these runs.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openreg.h>
#include <openreg_packet.h>
#include <openreg_timeline.h>

#define SIZE (32 << 20)
#define COOKIE 0x51

static const int64_t elements[1] = { SIZE / 4 };

struct card {
	struct openreg_device *dev;
	struct openreg_queue *q;
	struct openreg_bo *bo, *word;
	struct openreg_tensor all;
};

static int64_t check(int64_t ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "trace-load: %s\n", openreg_last_error());
	exit(1);
}

static void open_card(struct card *c, unsigned int index, void *host)
{
	static const int64_t step[1] = { 1 };
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;

	attr.slots = OPENREG_RING_SLOTS_MIN;
	check(openreg_device_open(index, &c->dev));
	check(openreg_queue_create(c->dev, &attr, &c->q));
	check(openreg_bo_alloc(c->dev, SIZE, OPENREG_BO_VRAM, &c->bo));
	check(openreg_mem_register(c->dev, host, 4096, 0, &c->word));
	c->all = openreg_view(openreg_bo_address(c->bo), OPENREG_F32, step);
}

static void fill(struct card *c, uint64_t value)
{
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_FILL,
		.cookie = COOKIE,
		.ndim = 1,
		.size = elements,
		.nops = 1,
		.ops = &c->all,
		.nimm = 1,
		.imm = &value,
	};

	check(openreg_push(c->q, &cmd));
}

static void finish(struct card *c)
{
	check(openreg_queue_wait(c->q, (uint64_t)check(openreg_queue_submit(c->q)), -1));
}

/* In each step card 1 fills after card 0, by a word that both can reach. */
static void run_steps(struct card *cards, int count, uint64_t n)
{
	struct card *last = &cards[count - 1];

	for (uint64_t i = 1; i <= n; i++) {
		openreg_timeline_begin("step");
		usleep(1000);
		fill(&cards[0], i);
		if (count > 1) {
			check(openreg_push_wait(last->q, openreg_bo_address(last->word),
						OPENREG_WAIT_GE, i));
			fill(last, i);
			check(openreg_queue_submit(last->q));
			check(openreg_push_signal(cards[0].q, openreg_bo_address(cards[0].word),
						  OPENREG_SIGNAL_SET, i));
		}
		check(openreg_queue_submit(cards[0].q));
		finish(last);
		openreg_timeline_end();
	}
}

static void run_fault(struct card *c)
{
	c->all.address += SIZE;
	fill(c, 1);
	if (openreg_queue_wait(c->q, (uint64_t)check(openreg_queue_submit(c->q)), -1) != -EIO)
		exit(1);
	check(openreg_queue_reset(c->q));
	c->all.address -= SIZE;
	fill(c, 2);
	finish(c);
}

static void run_reset(struct card *c, void *host)
{
	int fd = open("/sys/class/misc/openreg/device/reset", O_WRONLY | O_CLOEXEC);

	fill(c, 1);
	finish(c);
	if (fd < 0 || write(fd, "1", 1) != 1)
		exit(1);
	close(fd);
	open_card(c, 0, host);
	fill(c, 2);
	finish(c);
}

/* More packets than the ring has room for. */
static void run_full(struct card *c, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		fill(c, i);
		check(openreg_queue_submit(c->q));
	}
	finish(c);
}

/* A LIST of so many NOPs that the ring of records cannot hold theirs. */
static void run_list(struct card *c, uint64_t n)
{
	struct openreg_bo *list;
	void *at;

	check(openreg_bo_alloc(c->dev, n * OPENREG_SLOT_SIZE, OPENREG_BO_SYSTEM, &list));
	check(openreg_bo_map(list, &at));
	for (uint64_t i = 0; i < n; i++)
		openreg_encode_nop((char *)at + i * OPENREG_SLOT_SIZE, 1);
	check(openreg_push_list(c->q, openreg_bo_address(list), n, n));
	finish(c);
}

static void run(const char *what, uint64_t n)
{
	void *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct card cards[2];
	int count = openreg_device_count() > 1 ? 2 : 1;

	for (int i = 0; i < count; i++)
		open_card(&cards[i], (unsigned int)i, host);
	openreg_timeline_name(COOKIE, "the fill");
	openreg_queue_set_spin(cards[count - 1].q, 0);
	if (!strcmp(what, "fault"))
		run_fault(&cards[0]);
	else if (!strcmp(what, "reset"))
		run_reset(&cards[0], host);
	else if (!strcmp(what, "full"))
		run_full(&cards[0], n);
	else if (!strcmp(what, "list"))
		run_list(&cards[0], n);
	else
		run_steps(cards, count, n);
	if (!strcmp(what, "killed")) {
		openreg_timeline_begin("never ends");
		raise(SIGKILL);
	}
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "forks")) {
		for (int i = 0; i < 2; i++)
			if (!fork()) {
				run("steps", 2);
				exit(0);
			}
		while (wait(&status) > 0)
			if (status)
				return 1;
	}
	run(argv[1], argc > 2 ? strtoull(argv[2], NULL, 10) : 3);
	return 0;
}
