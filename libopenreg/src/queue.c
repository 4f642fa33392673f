// SPDX-License-Identifier: MIT
/* Queues, and the launch path: openreg_queue_begin() and openreg_queue_submit(). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "openreg_regs.h"

#define DEFAULT_SLOTS 1024
#define DEFAULT_FULL_TIMEOUT_NS (60 * 1000000000LL)

/*
 * Use mfence, not a locked instruction. TCG with one vCPU compiles locked instructions to
 * plain ones, but the card is another thread of the host and needs the barrier.
 */
static inline void full_barrier(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("mfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline uint64_t load64(const volatile __u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

struct condition {
	uint32_t asleep;
	uint32_t state;
};

/* One load for both words: asleep and state are neighbours in the card page. */
static inline struct condition
load_condition(const volatile struct openreg_card_page *card)
{
	typedef uint64_t __attribute__((may_alias)) both_t;
	uint64_t both = __atomic_load_n((const volatile both_t *)&card->asleep,
					__ATOMIC_ACQUIRE);

	return (struct condition){ (uint32_t)both, (uint32_t)(both >> 32) };
}

static int check_attr(struct openreg_device *dev,
		      const struct openreg_queue_attr *attr, uint32_t slots)
{
	if (slots & (slots - 1) || slots < OPENREG_RING_SLOTS_MIN ||
	    slots > dev->info.max_ring_slots)
		return openreg_fail(-EINVAL,
				    "ring of %u slots: the size must be a power of two from %u to %u",
				    slots, OPENREG_RING_SLOTS_MIN,
				    dev->info.max_ring_slots);
	if (attr->priority < -1 || attr->priority > 1)
		return openreg_fail(-EINVAL,
				    "queue priority %d: it must be -1, 0 or 1",
				    attr->priority);
	for (size_t i = 0; i < 4; i++)
		if (attr->reserved[i])
			return openreg_fail(-EINVAL,
					    "queue attribute reserved[%zu] is not 0: begin with OPENREG_QUEUE_ATTR_DEFAULT",
					    i);
	return 0;
}

static int fail_create(struct openreg_device *dev, int error)
{
	if (error == -ENOSPC)
		return openreg_fail(error,
				    "%s has no free queue, or no free doorbell or context for a newly opened device: all processes together can have %u queues; destroy some, or close other open devices",
				    dev->info.path, dev->info.max_queues);
	if (error == -EACCES)
		return openreg_fail(error,
				    "a queue above normal priority needs CAP_SYS_NICE: use priority 0 or run as root");
	return openreg_fail(error, "cannot create a queue on %s: %s",
			    dev->info.path, openreg_card_strerror(error));
}

static void init_queue(struct openreg_queue *q, struct openreg_device *dev,
		       const struct openreg_queue_attr *attr, uint32_t slots)
{
	q->dev = dev;
	q->mine = dev->mine;
	q->mask = slots - 1;
	q->rung = UINT64_MAX;
	q->full_timeout_ns = attr->full_timeout_ns ? attr->full_timeout_ns :
						     DEFAULT_FULL_TIMEOUT_NS;
	openreg_queue_set_spin(q, attr->spin_ns);
}

API int openreg_queue_create(struct openreg_device *dev,
			     const struct openreg_queue_attr *attr,
			     struct openreg_queue **out)
{
	static const struct openreg_queue_attr def = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_queue *q;
	uint32_t slots;
	int ret;

	*out = NULL;
	if (!*dev->mine)
		return openreg_fail_forked();
	if (!attr)
		attr = &def;
	slots = attr->slots ? attr->slots : DEFAULT_SLOTS;
	ret = check_attr(dev, attr, slots);
	if (ret)
		return ret;
	q = calloc(1, sizeof(*q));
	if (q)
		q->slot_seq = calloc(slots, sizeof(*q->slot_seq));
	if (!q || !q->slot_seq) {
		free(q);
		return openreg_fail(-ENOMEM, "out of memory");
	}
	ret = dev->ops->queue_create(dev->t, slots,
				     (uint32_t)(OPENREG_PRIORITY_NORMAL +
						attr->priority),
				     &q->t);
	if (ret) {
		free(q->slot_seq);
		free(q);
		return fail_create(dev, ret);
	}
	init_queue(q, dev, attr, slots);
	if (dev->checks) {
		ret = openreg_checks_join(q);
		if (ret) {
			openreg_queue_destroy(q);
			return ret;
		}
	}
	if (dev->timeline.on) {
		ret = openreg_timeline_queue_created(q);
		if (ret) {
			openreg_queue_destroy(q);
			return ret;
		}
	}
	*out = q;
	return 0;
}

API void openreg_queue_destroy(struct openreg_queue *q)
{
	if (!q)
		return;
	if (q->dev->checks)
		openreg_checks_leave(q);
	if (q->timeline.on)
		openreg_timeline_queue_ends(q);
	if (*q->mine)
		q->dev->ops->queue_destroy(q->dev->t, &q->t);
	openreg_bo_free(q->staging);
	openreg_bo_free(q->trace.ring);
	openreg_bo_free(q->trace.old);
	free(q->slot_seq);
	free(q);
}

API uint32_t openreg_queue_number(const struct openreg_queue *q)
{
	return q->t.number;
}

API struct openreg_device *openreg_queue_device(const struct openreg_queue *q)
{
	return q->dev;
}

/*
 * Ring the doorbell at most once for each sleep of the card. While wakes has the value of
 * the last doorbell write, the card has not woken yet; it reads the tail when it wakes.
 *
 * Load wakes after the barrier and before asleep. Loaded after asleep, wakes could belong
 * to a later sleep than asleep does, and that sleep would get no doorbell.
 */
static inline void ring_if_asleep(struct openreg_queue *q)
{
	const uint64_t wakes = load64(&q->t.card->wakes);
	int64_t begin = 0;

	if (!load_condition(q->t.card).asleep || wakes == q->rung)
		return;
	q->rung = wakes;
	q->doorbells++;
	if (unlikely(q->timeline.on))
		begin = openreg_now_ns();
	if (q->t.doorbell)
		*q->t.doorbell = 1;
	else
		q->dev->ops->ring(q->dev->t, &q->t);
	if (unlikely(q->timeline.on))
		openreg_timeline_span(q, TIMELINE_DOORBELL, 0, begin);
}

/* Mappings of VRAM are write-combining: a fence orders their stores before the tail. */
static inline void write_barrier(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Inline: only a timeline adds to openreg_queue_submit(). */
static inline __attribute__((always_inline)) int64_t submit(struct openreg_queue *q)
{
	struct condition now;

	if (q->published != q->tail) {
		write_barrier();
		__atomic_store_n(&q->t.user->tail, q->tail, __ATOMIC_RELEASE);
		q->published = q->tail;
		q->submitted = q->seq;
		full_barrier();
	}
	now = load_condition(q->t.card);
	if (now.asleep)
		ring_if_asleep(q);
	if (unlikely(now.state != OPENREG_QUEUE_RUNNING))
		return openreg_queue_fail(q, now.state);
	return (int64_t)q->submitted;
}

static __attribute__((noinline)) int64_t submit_on_timeline(struct openreg_queue *q)
{
	const int64_t begin = openreg_now_ns();
	const uint64_t before = q->submitted, rung = q->doorbells;
	const int64_t ret = submit(q);

	if (q->submitted != before || q->doorbells != rung)
		openreg_timeline_submitted(q, begin);
	return ret;
}

API int64_t openreg_queue_submit(struct openreg_queue *q)
{
	if (unlikely(!*q->mine))
		return openreg_fail_forked();
	if (unlikely(q->timeline.on))
		return submit_on_timeline(q);
	return submit(q);
}

/*
 * The packet to wait for: when it has completed, half of the ring is free, or need slots
 * if they are more.
 */
static uint64_t room_seq(const struct openreg_queue *q, uint64_t need)
{
	uint64_t slots = q->mask + 1;
	uint64_t least = q->tail + need - slots;
	uint64_t slot = q->head + slots / 2;

	if (slot < least)
		slot = least;
	if (slot > q->tail)
		slot = q->tail;
	return q->slot_seq[(slot - 1) & q->mask];
}

static int64_t full_deadline(const struct openreg_queue *q)
{
	const int64_t now = openreg_now_ns();

	if (q->full_timeout_ns < 0 || q->full_timeout_ns > INT64_MAX - now)
		return INT64_MAX;
	return now + q->full_timeout_ns;
}

static bool has_room(struct openreg_queue *q, uint64_t need)
{
	q->head = load64(&q->t.card->head);
	return q->tail + need - q->head <= q->mask + 1;
}

/*
 * Publishes all packets and waits until need slots are free. Each wait is for more room
 * than that (room_seq()). So a wait that times out fails only if no packet completed.
 */
static int wait_for_room(struct openreg_queue *q, uint64_t need)
{
	int64_t submitted, deadline = 0;
	uint64_t completed = 0;
	int ret;

	while (!has_room(q, need)) {
		submitted = openreg_queue_submit(q);
		if (submitted < 0)
			return (int)submitted;
		if (!deadline) {
			completed = openreg_queue_progress(q);
			deadline = full_deadline(q);
			q->full_waits++;
		}
		ret = openreg_queue_wait_until(q, room_seq(q, need), deadline);
		if (ret == -ETIME && openreg_queue_progress(q) != completed) {
			completed = openreg_queue_progress(q);
			deadline = full_deadline(q);
			continue;
		}
		if (ret == -ETIME)
			return openreg_fail(ret,
					    "the ring stayed full for %" PRId64 " ms: packet %" PRIu64 " does not complete; it may be a WAIT for a word that no packet signals",
					    q->full_timeout_ns / 1000000,
					    openreg_queue_progress(q) + 1);
		if (ret)
			return ret;
	}
	return 0;
}

static int make_room(struct openreg_queue *q, uint64_t need)
{
	int ret;

	if (likely(!q->timeline.on) || has_room(q, need))
		return wait_for_room(q, need);
	openreg_timeline_begin_call(q, TIMELINE_FULL_BEGIN, q->seq + 1);
	ret = wait_for_room(q, need);
	openreg_timeline_end_call(q, ret);
	return ret;
}

static void pad(struct openreg_queue *q, uint64_t slots)
{
	uint64_t first = q->tail & q->mask;

	q->seq++;
	q->pads++;
	for (uint64_t i = 0; i < slots; i++)
		q->slot_seq[first + i] = q->seq;
	openreg_encode_nop((char *)q->t.ring + first * OPENREG_SLOT_SIZE,
			   (unsigned int)slots);
	q->tail += slots;
}

API int openreg_queue_begin(struct openreg_queue *q, unsigned int slots,
			    void **packet, uint64_t *seq)
{
	uint64_t first = q->tail & q->mask;
	uint64_t to_end = q->mask + 1 - first;
	uint64_t need = slots;
	int ret;

	*packet = NULL;
	if (unlikely(!*q->mine))
		return openreg_fail_forked();
	if (unlikely(slots - 1 >= OPENREG_PACKET_SLOTS_MAX))
		return openreg_fail(-EINVAL,
				    "packet of %u slots: a packet has 1 to %d; keep its dimensions, operands and instructions within the limits of openreg_isa.h",
				    slots, OPENREG_PACKET_SLOTS_MAX);
	if (unlikely(q->dev->checks)) {
		ret = openreg_checks_tell(q);
		if (ret)
			return ret;
		first = q->tail & q->mask;
		to_end = q->mask + 1 - first;
	}
	if (to_end < slots)
		need += to_end;
	if (unlikely(q->tail + need - q->head > q->mask + 1)) {
		ret = make_room(q, need);
		if (ret)
			return ret;
	}
	if (to_end < slots) {
		pad(q, to_end);
		first = 0;
	}
	q->seq++;
	for (unsigned int i = 0; i < slots; i++)
		q->slot_seq[first + i] = q->seq;
	q->tail += slots;
	*packet = (char *)q->t.ring + first * OPENREG_SLOT_SIZE;
	if (seq)
		*seq = q->seq;
	return 0;
}

API uint64_t openreg_queue_submitted(const struct openreg_queue *q)
{
	return q->submitted;
}

API int openreg_queue_reset(struct openreg_queue *q)
{
	int ret;

	if (!*q->mine)
		return openreg_fail_forked();
	ret = q->dev->ops->queue_reset(q->dev->t, &q->t, q->published,
				       q->submitted);
	if (ret)
		return openreg_fail(ret, "cannot reset this process's queue %u of %s: %s",
				    q->t.number, q->dev->info.path,
				    openreg_strerror(ret));
	if (q->timeline.on)
		openreg_timeline_reset(q);
	q->tail = q->published;
	q->head = q->published;
	q->seq = q->submitted;
	q->rung = UINT64_MAX;
	return 0;
}

API int openreg_queue_get_stats(const struct openreg_queue *q,
				struct openreg_queue_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (!*q->mine)
		return openreg_fail_forked();
	stats->packets = q->submitted;
	stats->doorbells = q->doorbells;
	stats->sleeps = __atomic_load_n(&q->sleeps, __ATOMIC_RELAXED);
	stats->full_waits = q->full_waits;
	stats->pads = q->pads;
	stats->notes = q->notes;
	stats->wakes = load64(&q->t.card->wakes);
	stats->interrupts = load64(&q->t.card->interrupts);
	stats->dma_read = load64(&q->t.card->dma_read);
	stats->dma_written = load64(&q->t.card->dma_written);
	stats->busy_ns = load64(&q->t.card->busy_ns);
	return 0;
}
