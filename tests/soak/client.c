// SPDX-License-Identifier: MIT
/*
 * Runs one load on the card and checks every result.
 *
 *   soak-client FD SLOT LOAD SEED TURNS
 *
 * FD is a file with struct soak_shared. The client ends with status 0 after TURNS turns,
 * or after a turn if it got SIGTERM. After an error it prints a line and ends with 1.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <drm.h>
#include <openreg_accel.h>

#include "client.h"

#define HANDLES 4096 /* most GEM handles of known size */

static const struct load *const loads[] = {
	&load_compute, &load_copies, &load_launches, &load_churn,
	&load_userptr, &load_share, &load_foreign, &load_syncobj,
	&load_faults, &load_pair,
};

static volatile sig_atomic_t stop;
static struct soak_slot *counting;

/* What this process has on the card, counted by its successful system calls. */
static struct held {
	uint32_t queues;
	uint64_t vram; /* bytes */
	bool imports; /* or a handle above HANDLES: vram is not all */
	uint64_t sizes[HANDLES]; /* of VRAM objects, by handle */
} held;

static void count_create(const struct drm_openreg_bo_create *bo)
{
	if (bo->flags != DRM_OPENREG_BO_VRAM)
		return;
	held.vram += bo->size;
	if (bo->handle < HANDLES)
		held.sizes[bo->handle] = bo->size;
	else
		held.imports = true;
}

static void count_close(const struct drm_gem_close *bo)
{
	if (bo->handle >= HANDLES)
		return;
	held.vram -= held.sizes[bo->handle];
	held.sizes[bo->handle] = 0;
}

static void count_call(unsigned long request, const void *arg)
{
	switch (request) {
	case DRM_IOCTL_OPENREG_QUEUE_CREATE:
		held.queues++;
		break;
	case DRM_IOCTL_OPENREG_QUEUE_DESTROY:
		held.queues--;
		break;
	case DRM_IOCTL_OPENREG_BO_CREATE:
		count_create(arg);
		break;
	case DRM_IOCTL_GEM_CLOSE:
		count_close(arg);
		break;
	case DRM_IOCTL_PRIME_FD_TO_HANDLE:
		held.imports = true;
		break;
	}
}

/* Replaces libc's ioctl(), to count the libraries' calls, too. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (counting)
		__atomic_add_fetch(&counting->ioctls, 1, __ATOMIC_RELAXED);
	ret = (int)syscall(SYS_ioctl, fd, request, arg);
	if (!ret)
		count_call(request, arg);
	return ret;
}

uint64_t random64(struct client *c)
{
	uint64_t z = (c->rng += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t random_below(struct client *c, uint64_t below)
{
	return random64(c) % below;
}

int wrong(struct client *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(c->text, sizeof(c->text), format, args);
	va_end(args);
	return -EBADMSG;
}

void noise(void *memory, size_t size, uint64_t seed)
{
	unsigned char *p = memory;
	size_t i;

	seed = seed * 0x9e3779b97f4a7c15 | 1;
	for (i = 0; i < size; i++)
		p[i] = (unsigned char)((seed * (i + 1)) >> 40);
}

size_t not_noise(const void *memory, size_t size, uint64_t seed)
{
	const unsigned char *p = memory;
	size_t i;

	seed = seed * 0x9e3779b97f4a7c15 | 1;
	for (i = 0; i < size; i++)
		if (p[i] != (unsigned char)((seed * (i + 1)) >> 40))
			break;
	return i;
}

bool disturbed_since(const struct client *c, unsigned int card, uint32_t over)
{
	return __atomic_load_n(&c->shared->begun[card], __ATOMIC_SEQ_CST) !=
	       over;
}

static void count_launches(struct client *c)
{
	unsigned int i;

	for (i = 0; i < QUEUES; i++) {
		uint64_t now;

		if (!c->q[i])
			continue;
		now = openreg_queue_submitted(c->q[i]);
		__atomic_add_fetch(&c->slot->launches, now - c->counted[i],
				   __ATOMIC_RELAXED);
		c->counted[i] = now;
	}
}

int finish(struct client *c, unsigned int queue)
{
	int64_t seq = openreg_queue_submit(c->q[queue]);

	if (seq < 0)
		return (int)seq;
	openreg_queue_set_spin(c->q[queue], random_below(c, 2) ? -1 : 0);
	return openreg_queue_wait(c->q[queue], (uint64_t)seq, WAIT_NS);
}

int alloc(struct client *c, uint64_t size, uint32_t flags,
	  struct openreg_bo **bo)
{
	return openreg_bo_alloc(c->dev, size, flags, bo);
}

int alloc_mapped(struct client *c, uint64_t size, uint32_t flags,
		 struct openreg_bo **bo, void **map)
{
	int ret = alloc(c, size, flags, bo);

	return ret ? ret : openreg_bo_map(*bo, map);
}

static int session_open(struct client *c, const struct load *load)
{
	char path[32] = "/dev/openreg";
	unsigned int i;
	int ret;

	c->over = __atomic_load_n(&c->shared->over[c->card], __ATOMIC_SEQ_CST);
	c->cut = false;
	c->dev = NULL;
	memset(&held, 0, sizeof(held));
	memset(c->q, 0, sizeof(c->q));
	memset(c->counted, 0, sizeof(c->counted));
	memset(c->load, 0, load->size);
	/* Open by path: a card's index changes while another card is unplugged. */
	if (c->card)
		snprintf(path, sizeof(path), "/dev/openreg%u", c->card);
	ret = openreg_device_open_path(path, &c->dev);
	for (i = 0; i < QUEUES && !ret; i++)
		ret = openreg_queue_create(c->dev, NULL, &c->q[i]);
	return ret ? ret : load->begin(c);
}

static void session_close(struct client *c, const struct load *load)
{
	unsigned int i;

	load->end(c);
	for (i = 0; i < QUEUES; i++)
		openreg_queue_destroy(c->q[i]);
	openreg_device_close(c->dev);
}

/*
 * After a wrong result: true if the card was reset or removed, so that its memory may
 * have any contents. Then packets of this session also fail.
 */
static bool session_dies(struct client *c)
{
	int i;

	if (!disturbed_since(c, c->card, c->over))
		return false;
	for (i = 0; i < 60000; i++) {
		openreg_queue_reset(c->q[1]);
		if (openreg_push_nop(c->q[1]) || finish(c, 1))
			return true;
		usleep(1000);
	}
	return false;
}

static bool is_an_end(int error)
{
	return error == -ENODEV || error == -EIO || error == -ENOENT ||
	       error == -ENXIO;
}

static bool disturbed(const struct client *c)
{
	return c->cut || disturbed_since(c, c->card, c->over);
}

/* True if the error only follows from a reset or removal of a card. */
static bool judge(struct client *c, const struct load *load, int error)
{
	char last[512];

	snprintf(last, sizeof(last), "%s", openreg_last_error());
	if (error == -EBADMSG ? session_dies(c) :
				is_an_end(error) && disturbed(c)) {
		__atomic_add_fetch(&c->slot->ends, 1, __ATOMIC_RELAXED);
		return true;
	}
	fprintf(stderr, "soak-client %d: %s: after %llu turns: %s (%s)\n",
		getpid(), load->name, (unsigned long long)c->slot->turns,
		error == -EBADMSG ? c->text : strerror(-error),
		error == -EBADMSG ? "wrong" : last);
	return false;
}

/* Publishes the counts and waits, if soak compares counts now. */
static void pause_if_asked(struct client *c)
{
	struct soak_own *own = &c->slot->own;

	/* A peer waits for its client. A session on a card that is gone must end first. */
	if (!c->shared->pause || share_is_peer() || disturbed_since(c, c->card, c->over))
		return;
	own->card = c->card;
	own->queues = held.queues;
	own->vram = held.imports ? UINT64_MAX : held.vram;
	__atomic_store_n(&own->pid, getpid(), __ATOMIC_SEQ_CST);
	while (c->shared->pause && !stop)
		usleep(2000);
	__atomic_store_n(&own->pid, 0, __ATOMIC_SEQ_CST);
}

static int run(struct client *c, const struct load *load, long turns)
{
	bool good = true;
	int ret;

	while (turns > 0 && !stop && good) {
		ret = session_open(c, load);
		while (!ret && turns-- > 0 && !stop) {
			pause_if_asked(c);
			ret = load->turn(c);
			count_launches(c);
			if (!ret)
				__atomic_add_fetch(&c->slot->turns, 1,
						   __ATOMIC_RELAXED);
		}
		if (ret)
			good = judge(c, load, ret);
		session_close(c, load);
		if (ret)
			usleep(5000);
	}
	return good ? 0 : 1;
}

static void on_term(int number)
{
	(void)number;
	stop = 1;
}

static const struct load *find_load(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(loads); i++)
		if (!strcmp(loads[i]->name, name))
			return loads[i];
	return NULL;
}

static const struct load *become_peer(struct client *c, const struct load *load)
{
	c->rng = ~c->rng;
	if (load == &load_pair)
		c->card = !c->card;
	return &load_share_peer;
}

int main(int argc, char **argv)
{
	const struct sigaction act = { .sa_handler = on_term,
				       .sa_flags = SA_RESTART };
	const struct load *load = argc == 6 ? find_load(argv[3]) : NULL;
	struct client c = { 0 };
	int status;

	if (!load)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGTERM, &act, NULL);
	c.shared = mmap(NULL, sizeof(*c.shared), PROT_READ | PROT_WRITE,
			MAP_SHARED, atoi(argv[1]), 0);
	if (c.shared == MAP_FAILED)
		return 2;
	c.slot = &c.shared->slots[atoi(argv[2])];
	counting = c.slot;
	c.rng = strtoull(argv[4], NULL, 0);
	if (c.shared->cards > 1)
		c.card = (unsigned int)random_below(&c, c.shared->cards);
	c.other = c.card;
	if (load == &load_share || load == &load_pair) {
		if (!share_split())
			return 2;
		if (share_is_peer())
			load = become_peer(&c, load);
	}
	c.load = calloc(1, load->size);
	if (!c.load)
		return 2;
	status = run(&c, load, share_is_peer() ? INT32_MAX : atol(argv[5]));
	free(c.load);
	return status;
}
