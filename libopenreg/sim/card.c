// SPDX-License-Identifier: MIT
/*
 * The cards of this process. Environment variables configure them: OPENREG_SIM_CARDS,
 * OPENREG_SIM_VRAM, OPENREG_SIM_WORKERS, OPENREG_SIM_SLOW_US and OPENREG_CHECK
 * (openreg.7).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define MIB (1ull << 20)
#define DEFAULT_VRAM (1024 * MIB)
#define WINDOW 4 /* addresses for other processes' VRAM, in sizes of the own VRAM */
#define MAX_WORKERS 64
#define MAX_SLOW_US 100000
#define SPIN_US 100
#define PATIENCE_NS 2000000000ll

static struct {
	pthread_once_t once;
	unsigned int cards;
	unsigned int workers;
	unsigned int slow_us;
	unsigned int checks;
	uint64_t vram;
	char error[160];
} config = { .once = PTHREAD_ONCE_INIT };

/* Protects cards and their users; held to make or free a card. */
static pthread_mutex_t cards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_card *cards[OPENREG_MAX_CARDS];
static pid_t cards_pid;
static bool stopped; /* the process ends; see stop_cards() */

static uint64_t parse(const char *name, uint64_t value, uint64_t min,
		      uint64_t max, uint64_t unit)
{
	const char *text = getenv(name), *units = "KMG", *at;
	char *end;

	if (!text || !*text)
		return value;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (unit > 1 && *end && (at = strchr(units, *end))) {
		value = value > UINT64_MAX >> 30 ? UINT64_MAX :
				value << 10 * (at - units + 1);
		end++;
	}
	if (errno || end == text || *end || *text == '-' || value < min ||
	    value > max || value % unit)
		snprintf(config.error, sizeof(config.error),
			 "%s is '%s': it must be a number from %llu to %llu%s", name,
			 text, (unsigned long long)min, (unsigned long long)max,
			 unit > 1 ? ", a multiple of 2M, with suffix K, M or G" :
				    "");
	return value;
}

static void read_checks(void)
{
	const char *text = getenv("OPENREG_CHECK"), *error;

	if (text && !openreg_card_parse_checks(text, &config.checks, &error))
		snprintf(config.error, sizeof(config.error), "OPENREG_CHECK is '%.60s': %s",
			 text, error);
}

static void read_config(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		cpus = 1;
	if (cpus > MAX_WORKERS)
		cpus = MAX_WORKERS;
	config.cards = (unsigned int)parse("OPENREG_SIM_CARDS", 1, 0,
					   OPENREG_MAX_CARDS, 1);
	config.workers = (unsigned int)parse("OPENREG_SIM_WORKERS",
					     (uint64_t)cpus, 1, MAX_WORKERS, 1);
	config.slow_us = (unsigned int)parse("OPENREG_SIM_SLOW_US", 0, 0,
					     MAX_SLOW_US, 1);
	config.vram = parse("OPENREG_SIM_VRAM", DEFAULT_VRAM, 2 * MIB,
			    1ull << 38, 2 * MIB);
	read_checks();
	if (config.error[0])
		config.cards = 0;
}

const char *sim_config_error(void)
{
	pthread_once(&config.once, read_config);
	return config.error[0] ? config.error : NULL;
}

unsigned int sim_num_cards(void)
{
	pthread_once(&config.once, read_config);
	return config.cards;
}

/* In a child of fork(): drop the parent's cards, whose threads and memory are gone. */
static void forget_parents(void)
{
	if (cards_pid == getpid())
		return;
	memset(cards, 0, sizeof(cards));
	cards_pid = getpid();
}

static bool lock_cards(int64_t end)
{
	while (pthread_mutex_trylock(&cards_lock)) {
		if (sim_now() > end)
			return false;
		sim_sleep_ms(1);
	}
	return true;
}

/* Wake all waiters: the card has stopped and will not wake them. */
static void wake_all(struct sim_card *c)
{
	for (unsigned int i = 0; i < SIM_VECTORS; i++) {
		pthread_mutex_lock(&c->vectors[i].lock);
		pthread_cond_broadcast(&c->vectors[i].raised);
		pthread_mutex_unlock(&c->vectors[i].lock);
	}
	pthread_mutex_lock(&c->admin.lock);
	pthread_cond_broadcast(&c->admin.freed);
	pthread_mutex_unlock(&c->admin.lock);
}

/*
 * Pause all cards at exit(). Destructors of the card's libraries then end their static
 * objects, so no thread of a card may run any more. The threads stay paused.
 */
static void stop_cards(void)
{
	int64_t end = sim_now() + PATIENCE_NS;

	if (!lock_cards(end))
		return;
	forget_parents();
	__atomic_store_n(&stopped, true, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		if (cards[i])
			openreg_card_pause_begin(cards[i]->card, NULL, NULL);
	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		while (cards[i] && !openreg_card_is_paused(cards[i]->card) &&
		       sim_now() < end)
			sim_sleep_ms(1);
	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		if (cards[i])
			wake_all(cards[i]);
	pthread_mutex_unlock(&cards_lock);
}

bool sim_stopped(void)
{
	return __atomic_load_n(&stopped, __ATOMIC_SEQ_CST);
}

static void fill_info(struct sim_card *c)
{
	struct openreg_device_info *info = &c->info;
	struct openreg_card *card = c->card;

	snprintf(info->driver, sizeof(info->driver), "openreg sim");
	snprintf(info->pci, sizeof(info->pci), "sim:%u", c->index);
#define REG(name, size) openreg_card_reg_read(card, OPENREG_REG_##name, size)
	info->isa_version = (uint32_t)REG(VERSION, 4);
	info->card = c->index;
	info->packets = REG(PACKETS, 8);
	info->dtypes = REG(DTYPES, 8);
	info->vram_size = c->vram_size;
	info->max_bo_size = 1ull << OPENREG_ADDR_OFFSET_BITS;
	info->max_queues = (uint32_t)REG(MAX_QUEUES, 4);
	/* Segment 0 is never used. */
	info->max_segments = (uint32_t)REG(MAX_SEGMENTS, 4) - 1;
	info->max_ring_slots = (uint32_t)REG(RING_SLOTS, 4);
	info->workers = (uint32_t)REG(WORKERS, 4);
	info->slice_us = (uint32_t)REG(SLICE_US, 4);
	info->max_work = (uint32_t)REG(MAX_WORK, 4);
	info->vectors = (uint32_t)REG(VECTORS, 4);
#undef REG
}

/*
 * Block signals in the card's threads: they are for the program's threads. A crash of a
 * thread itself still runs the program's handler.
 */
static struct openreg_card *make_card(struct sim_card *c)
{
	const struct openreg_card_config card_config = {
		.vram = c->vram,
		.vram_size = c->vram_size + c->window_size,
		.workers = config.workers,
		.doorbells = OPENREG_MAX_DOORBELLS,
		.vectors = SIM_VECTORS,
		.spin_us = SPIN_US,
		.slow_us = config.slow_us,
		.checks = config.checks,
	};
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
	struct openreg_card *card;
	const char *error;
	sigset_t all, old;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&all, crashes[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	card = openreg_card_new(&card_config, &sim_host_ops, c, &error);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return card;
}

static void card_free(struct sim_card *c)
{
	sim_listen_stop(c);
	if (c->card)
		openreg_card_free(c->card);
	sim_admin_fini(c);
	sim_extents_fini(&c->free);
	sim_extents_fini(&c->window);
	free(c->shared);
	if (c->vram)
		munmap(c->vram, c->vram_size + c->window_size);
	for (unsigned int i = 0; i < SIM_VECTORS; i++) {
		pthread_cond_destroy(&c->vectors[i].raised);
		pthread_mutex_destroy(&c->vectors[i].lock);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Addresses for VRAM and window, from a multiple of 2 MiB on: for huge pages. */
static uint8_t *reserve_vram(uint64_t size)
{
	uint8_t *p = mmap(NULL, size + 2 * MIB, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (p == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)p % (2 * MIB);
	if (before)
		munmap(p, before);
	munmap(p + before + size, 2 * MIB - before);
	if (sim_reserve(p + before, size))
		return p + before;
	munmap(p + before, size);
	return NULL;
}

static int card_start(struct sim_card *c)
{
	c->vram = reserve_vram(c->vram_size + c->window_size);
	if (!c->vram || sim_extents_init(&c->free, c->vram_size) ||
	    sim_extents_init(&c->window, c->window_size))
		return -ENOMEM;
	c->card = make_card(c);
	if (!c->card)
		return -ENOMEM;
	fill_info(c);
	return sim_admin_init(c);
}

static int card_new(unsigned int index, struct sim_card **out)
{
	struct sim_card *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->index = index;
	c->vram_size = config.vram;
	c->window_size = config.vram * WINDOW;
	pthread_mutex_init(&c->lock, NULL);
	for (unsigned int i = 0; i < SIM_VECTORS; i++) {
		pthread_mutex_init(&c->vectors[i].lock, NULL);
		pthread_cond_init(&c->vectors[i].raised, NULL);
	}
	ret = card_start(c);
	if (ret)
		card_free(c);
	else
		*out = c;
	return ret;
}

/*
 * Hold the locks of all cards across fork(). Else the child could inherit a lock that
 * another thread held, and would wait for it without end.
 */
static void fork_begin(void)
{
	pthread_mutex_lock(&cards_lock);
	openreg_card_fork_begin();
	sim_files_fork_begin();
}

static void fork_end(bool child)
{
	sim_files_fork_end(child);
	openreg_card_fork_end();
	pthread_mutex_unlock(&cards_lock);
}

static void fork_parent(void)
{
	fork_end(false);
}

static void fork_child(void)
{
	fork_end(true);
}

static void __attribute__((constructor)) watch_forks(void)
{
	pthread_atfork(fork_begin, fork_parent, fork_child);
}

int sim_card_get(unsigned int index, struct sim_card **out)
{
	/*
	 * Register the handler after the first card: exit() runs handlers in reverse
	 * order, so it stops the cards before it ends their libraries.
	 */
	static bool stop_at_exit;
	int cancel = sim_cancel_off();
	int ret = 0;

	pthread_mutex_lock(&cards_lock);
	forget_parents();
	if (!cards[index])
		ret = card_new(index, &cards[index]);
	if (!ret && !stop_at_exit)
		stop_at_exit = !atexit(stop_cards);
	if (!ret) {
		*out = cards[index];
		(*out)->users++;
	}
	pthread_mutex_unlock(&cards_lock);
	sim_cancel_restore(cancel);
	return ret;
}

void sim_card_put(struct sim_card *c)
{
	int cancel = sim_cancel_off();

	pthread_mutex_lock(&cards_lock);
	if (!--c->users) {
		cards[c->index] = NULL;
		card_free(c);
	}
	pthread_mutex_unlock(&cards_lock);
	sim_cancel_restore(cancel);
}
