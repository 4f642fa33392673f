/* SPDX-License-Identifier: MIT */
/* Making, resetting and freeing a card and its threads. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check/check.h"
#include "core.h"
#include "queue.h"

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

void card_guest_error(struct openreg_card *card, const char *format, ...)
{
	char message[160];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	card->ops->guest_error(card->host, message);
}

void card_raise(struct openreg_card *card, unsigned int vector)
{
	atomic_fetch_add(&card->stats.interrupts, 1);
	card->ops->raise(card->host, vector);
}

bool worker_init(struct openreg_card *card, struct worker *w, bool compute)
{
	w->card = card;
	atomic_init(&w->cpu, CPU_ASLEEP);
	w->stage[0] = malloc(OPENREG_STAGE_SIZE);
	w->stage[1] = malloc(OPENREG_STAGE_SIZE);
	if (!w->stage[0] || !w->stage[1])
		return false;
	if (!compute)
		return true;
	w->scratch = openreg_scratch_new(&card->extra);
	return w->scratch;
}

void worker_fini(struct worker *w)
{
	free(w->stage[0]);
	free(w->stage[1]);
	if (w->scratch)
		openreg_scratch_free(w->scratch);
}

bool openreg_card_parse_checks(const char *text, unsigned int *checks,
			       const char **error)
{
	static const struct {
		const char *name;
		unsigned int check;
	} words[] = {
		{ "race", OPENREG_CHECK_RACE },
		{ "init", OPENREG_CHECK_INIT },
		{ "bounds", OPENREG_CHECK_BOUNDS },
	};
	unsigned int i;

	*checks = 0;
	while (*text) {
		const size_t len = strcspn(text, ",+");

		for (i = 0; i < 3; i++)
			if (len == strlen(words[i].name) && !memcmp(text, words[i].name, len))
				break;
		if (i == 3) {
			*error = "the words are race, init and bounds, with commas between them";
			return false;
		}
		*checks |= words[i].check;
		text += len + !!text[len];
	}
	return true;
}

static const char *config_error(const struct openreg_card_config *config)
{
	if (!config->vram || !config->vram_size ||
	    config->vram_size % (2u << 20))
		return "VRAM must exist and be a multiple of 2 MiB";
	if (config->vram_size > 1ULL << 46)
		return "at most 64 TiB of VRAM";
	if (config->workers < 1 || config->workers > 64)
		return "workers must be 1 to 64";
	if (config->doorbells < 1 || config->doorbells > OPENREG_MAX_DOORBELLS)
		return "doorbells must be 1 to 256";
	if (config->vectors < 2 || config->vectors > OPENREG_MAX_VECTORS)
		return "vectors must be 2 to 64";
	if (config->spin_us > 1000000)
		return "spin_us must be at most 1000000";
	if (config->slow_us > 100000)
		return "slow_us must be at most 100000";
	if (config->checks & ~(unsigned int)OPENREG_CHECK_ALL)
		return "checks must be race, init or bounds";
	return NULL;
}

/* top and the benchmarks of an idle card show the name. */
static bool start_thread(pthread_t *thread, bool *started, const char *name,
			 void *(*run)(void *opaque), void *opaque)
{
	if (pthread_create(thread, NULL, run, opaque))
		return false;
	*started = true;
#ifdef __linux__
	pthread_setname_np(*thread, name);
#endif
	return true;
}

static bool start_threads(struct openreg_card *card)
{
	char name[16];
	unsigned int i;

	for (i = 0; i < card->config.workers; i++) {
		struct worker *w = &card->workers[i];

		snprintf(name, sizeof(name), "openreg-w%u", i & 63);
		if (!start_thread(&w->thread, &w->started, name, worker_main,
				  w))
			return false;
	}
	return start_thread(&card->copier.thread, &card->copier.started,
			    "openreg-copy", copier_main, &card->copier) &&
	       start_thread(&card->admin.thread, &card->admin.started,
			    "openreg-admin", admin_main, card);
}

static bool make_workers(struct openreg_card *card)
{
	unsigned int i;

	card->workers = calloc(card->config.workers, sizeof(*card->workers));
	if (!card->workers)
		return false;
	for (i = 0; i < card->config.workers; i++)
		if (!worker_init(card, &card->workers[i], true))
			return false;
	return worker_init(card, &card->copier, false) &&
	       worker_init(card, &card->lent, true);
}

struct openreg_card *card_make(const struct openreg_card_config *config,
			       const struct openreg_host_ops *ops, void *host,
			       const char **error)
{
	struct openreg_card *card;

	*error = config_error(config);
	if (*error)
		return NULL;
	*error = "out of memory or threads";
	openreg_engine_init();
	card = calloc(1, sizeof(*card));
	if (!card)
		return NULL;
	card->config = *config;
	card->ops = ops;
	card->host = host;
	atomic_init(&card->caller_cpu, CPU_ASLEEP);
	if (config->checks)
		card->check = openreg_check_new(config->checks);
	if ((config->checks && !card->check) || !gate_init(&card->gate) ||
	    pthread_mutex_init(&card->sched.lock, NULL) ||
	    pthread_mutex_init(&card->faults.lock, NULL) ||
	    pthread_mutex_init(&card->signal_lock, NULL) ||
	    pthread_mutex_init(&card->lending, NULL) ||
	    !make_workers(card)) {
		openreg_card_free(card);
		return NULL;
	}
	return card;
}

struct openreg_card *openreg_card_new(const struct openreg_card_config *config,
				      const struct openreg_host_ops *ops,
				      void *host, const char **error)
{
	struct openreg_card *card = card_make(config, ops, host, error);

	if (!card)
		return NULL;
	if (!start_threads(card)) {
		openreg_card_free(card);
		return NULL;
	}
	*error = NULL;
	return card;
}

void openreg_card_fork_begin(void)
{
	openreg_job_fork_begin();
}

void openreg_card_fork_end(void)
{
	openreg_job_fork_end();
}

static void stop_threads(struct openreg_card *card)
{
	unsigned int i;

	gate_exit(card);
	for (i = 0; card->workers && i < card->config.workers; i++)
		if (card->workers[i].started)
			pthread_join(card->workers[i].thread, NULL);
	if (card->copier.started)
		pthread_join(card->copier.thread, NULL);
	if (card->admin.started)
		pthread_join(card->admin.thread, NULL);
}

void openreg_card_free(struct openreg_card *card)
{
	unsigned int i;

	if (!card)
		return;
	stop_threads(card);
	card_drop_state(card);
	for (i = 0; card->workers && i < card->config.workers; i++)
		worker_fini(&card->workers[i]);
	worker_fini(&card->copier);
	worker_fini(&card->lent);
	openreg_check_free(card->check);
	free(card->workers);
	gate_fini(&card->gate);
	pthread_mutex_destroy(&card->sched.lock);
	pthread_mutex_destroy(&card->faults.lock);
	pthread_mutex_destroy(&card->signal_lock);
	pthread_mutex_destroy(&card->lending);
	free(card);
}

static void drop_queues(struct openreg_card *card)
{
	unsigned int i;

	for (i = 0; i < OPENREG_MAX_QUEUES; i++) {
		struct queue *q = card->queue[i];

		if (!q)
			continue;
		pthread_mutex_lock(&card->sched.lock);
		queue_drop_work(q);
		sched_queue_remove(q);
		queue_unlink(q);
		pthread_mutex_unlock(&card->sched.lock);
		queue_free(q);
	}
}

/*
 * Drops contexts, segments, queues, pending commands, mapped rings and doorbells. No
 * thread of the card but the caller's may be active.
 */
void card_drop_state(struct openreg_card *card)
{
	unsigned int i;

	drop_queues(card);
	for (i = 0; i < OPENREG_MAX_CONTEXTS; i++) {
		if (card->ctx[i])
			context_free(card, card->ctx[i]);
		card->ctx[i] = NULL;
	}
	admin_drop_state(card);
	for (i = 0; i < OPENREG_MAX_DOORBELLS / 64; i++)
		atomic_store(&card->doors[i], 0);
}

/* Does card_drop_state(), and clears registers and statistics. */
void card_clear(struct openreg_card *card)
{
	card_drop_state(card);
	pthread_mutex_lock(&card->gate.lock);
	regs_clear(card);
	pthread_mutex_unlock(&card->gate.lock);
	card->sched.min_vruntime = 0;
	card->loaded = false;
}

void openreg_card_reset(struct openreg_card *card)
{
	card_clear(card);
	openreg_card_resume(card);
}
