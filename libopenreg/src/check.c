// SPDX-License-Identifier: MIT
/*
 * The library's part of a checking card (docs/sanitizers.md): tells the card which waits
 * of the program have succeeded, and prints what the card finds.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "openreg_packet.h"
#include "openreg_regs.h"

#define FINDINGS 1024 /* more are lost */
#define PAIRS (OPENREG_IMMS_MAX / 2)

struct checks {
	pthread_mutex_t lock; /* protects all fields, and the check fields of queues */
	struct openreg_queue *queues; /* queues of the device */
	uint64_t version; /* counts the waits that have succeeded; atomic */
	struct openreg_bo *bo; /* where the card writes findings */
	const volatile struct openreg_finding *findings;
	uint64_t read; /* findings that were taken or printed */
	bool taken; /* the program takes them */
};

bool openreg_checks_init(struct openreg_device *dev)
{
	if (!(dev->info.packets & 1ULL << OPENREG_OP_NOTE))
		return true;
	dev->checks = calloc(1, sizeof(*dev->checks));
	if (!dev->checks)
		return false;
	pthread_mutex_init(&dev->checks->lock, NULL);
	return true;
}

static int push_note(struct openreg_queue *q, unsigned int kind, uint32_t cookie,
		     const struct openreg_tensor *op, const uint64_t *imm,
		     unsigned int nimm)
{
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_NOTE,
		.arg = { (uint8_t)kind },
		.cookie = cookie,
		.nops = op != NULL,
		.nimm = (uint8_t)nimm,
		.ops = op,
		.imm = imm,
	};
	const int ret = openreg_push(q, &cmd);

	q->notes += !ret;
	return ret;
}

static int note_block(struct openreg_queue *q, unsigned int kind, uint64_t address,
		      uint64_t bytes, uint64_t red_zone, uint32_t cookie)
{
	const uint64_t imm[] = { bytes, red_zone };
	const struct openreg_tensor op = openreg_view(address, OPENREG_U8, NULL);

	if (!q->dev->checks)
		return 0;
	if (!*q->mine)
		return openreg_fail_forked();
	if (!bytes)
		return openreg_fail(-EINVAL, "a block of 0 bytes: leave it out");
	return push_note(q, kind, cookie, &op, imm, red_zone ? 2 : 1);
}

API int openreg_queue_note_block(struct openreg_queue *q, uint64_t address,
				 uint64_t bytes, uint32_t cookie)
{
	return note_block(q, OPENREG_NOTE_BLOCK, address, bytes, 0, cookie);
}

API int openreg_queue_note_guarded_block(struct openreg_queue *q, uint64_t address,
					 uint64_t bytes, uint64_t red_zone, uint32_t cookie)
{
	return note_block(q, OPENREG_NOTE_BLOCK, address, bytes, red_zone, cookie);
}

API int openreg_queue_note_unblock(struct openreg_queue *q, uint64_t address,
				   uint64_t bytes)
{
	return note_block(q, OPENREG_NOTE_UNBLOCK, address, bytes, 0, 0);
}

static int make_report(struct openreg_queue *q, struct checks *c)
{
	const uint64_t n = FINDINGS;
	struct openreg_tensor op;
	void *at;
	int ret;

	/* After an error the next queue tries again, with the same buffer. */
	ret = c->bo ? 0 :
		      openreg_bo_alloc(q->dev, n * sizeof(struct openreg_finding),
				       OPENREG_BO_SYSTEM, &c->bo);
	if (!ret)
		ret = openreg_bo_map(c->bo, &at);
	if (ret)
		return ret;
	op = openreg_view(openreg_bo_address(c->bo), OPENREG_I64, NULL);
	ret = push_note(q, OPENREG_NOTE_REPORT, 0, &op, &n, 1);
	if (!ret)
		c->findings = at;
	return ret;
}

/* The first packets of a queue. On an error the caller destroys the queue. */
int openreg_checks_join(struct openreg_queue *q)
{
	struct checks *c = q->dev->checks;
	const uint64_t number = q->t.number;
	int64_t seq;
	int ret;

	pthread_mutex_lock(&c->lock);
	q->check.noting = true;
	ret = push_note(q, OPENREG_NOTE_QUEUE, 0, NULL, &number, 1);
	if (!ret && !c->findings)
		ret = make_report(q, c);
	q->check.noting = false;
	q->check.next = c->queues;
	c->queues = q;
	pthread_mutex_unlock(&c->lock);
	if (ret)
		return ret;
	seq = openreg_queue_submit(q);
	return seq < 0 ? (int)seq : 0;
}

void openreg_checks_leave(struct openreg_queue *q)
{
	struct openreg_queue **link = &q->dev->checks->queues;

	pthread_mutex_lock(&q->dev->checks->lock);
	while (*link && *link != q)
		link = &(*link)->check.next;
	if (*link)
		*link = q->check.next;
	pthread_mutex_unlock(&q->dev->checks->lock);
}

/* The program knows that this packet has completed. */
void openreg_checks_seen(const struct openreg_queue *queue, uint64_t seq)
{
	struct openreg_queue *q = (struct openreg_queue *)(uintptr_t)queue;
	struct checks *c = q->dev->checks;

	if (seq <= __atomic_load_n(&q->check.seen, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&c->lock);
	if (seq > q->check.seen) {
		__atomic_store_n(&q->check.seen, seq, __ATOMIC_RELAXED);
		q->check.seen_at = ++c->version;
	}
	pthread_mutex_unlock(&c->lock);
}

/* Fills imm with what the card has not been told for q. */
static unsigned int gather(const struct openreg_queue *q, uint64_t *imm)
{
	const struct openreg_queue *of = q->dev->checks->queues;
	unsigned int n = 0;

	for (; of && n < 2 * OPENREG_MAX_QUEUES; of = of->check.next) {
		if (of == q || of->check.seen_at <= q->check.told)
			continue;
		imm[n++] = of->t.number;
		imm[n++] = of->check.seen;
	}
	return n;
}

/*
 * The queue's next packet comes after everything that the program saw completed: the
 * program may have waited for it on purpose.
 */
int openreg_checks_tell(struct openreg_queue *q)
{
	struct checks *c = q->dev->checks;
	uint64_t imm[2 * OPENREG_MAX_QUEUES], version;
	unsigned int n, i;
	int ret = 0;

	if (q->check.noting ||
	    __atomic_load_n(&c->version, __ATOMIC_ACQUIRE) == q->check.told)
		return 0;
	pthread_mutex_lock(&c->lock);
	version = c->version;
	n = gather(q, imm);
	pthread_mutex_unlock(&c->lock);
	/* The ring may be full, and a wait for room takes the lock. */
	q->check.noting = true;
	for (i = 0; i < n && !ret; i += 2 * PAIRS)
		ret = push_note(q, OPENREG_NOTE_SEEN, 0, NULL, imm + i,
				n - i < 2 * PAIRS ? n - i : 2 * PAIRS);
	q->check.noting = false;
	if (!ret)
		q->check.told = version;
	return ret;
}

/* Under the lock. */
static int64_t take(struct checks *c, struct openreg_finding *findings, size_t n)
{
	size_t got = 0;

	while (c->findings && got < n && c->read < FINDINGS) {
		const volatile struct openreg_finding *f = &c->findings[c->read];

		if (!__atomic_load_n(&f->number, __ATOMIC_ACQUIRE))
			break;
		memcpy(&findings[got++], (const void *)(uintptr_t)f, sizeof(*findings));
		c->read++;
	}
	return (int64_t)got;
}

API int64_t openreg_device_findings(struct openreg_device *dev,
				    struct openreg_finding *findings, size_t n)
{
	int64_t got;

	if (!*dev->mine)
		return openreg_fail_forked();
	if (!dev->checks)
		return 0;
	pthread_mutex_lock(&dev->checks->lock);
	dev->checks->taken = true;
	got = take(dev->checks, findings, n);
	pthread_mutex_unlock(&dev->checks->lock);
	return got;
}

static void print(const struct openreg_finding *f)
{
	const char *path = getenv("OPENREG_CHECK_LOG");
	FILE *file = path && *path ? fopen(path, "ae") : NULL;
	char text[400];

	openreg_finding_text(f, text, sizeof(text));
	fprintf(file ? file : stderr, "openreg: %s\n", text);
	if (file)
		fclose(file);
}

/* Prints new findings, unless the program takes them itself. */
void openreg_checks_print(struct openreg_device *dev)
{
	struct checks *c = dev->checks;
	struct openreg_finding f;

	pthread_mutex_lock(&c->lock);
	while (!c->taken && take(c, &f, 1))
		print(&f);
	pthread_mutex_unlock(&c->lock);
}

void openreg_checks_free(struct openreg_device *dev)
{
	if (*dev->mine)
		openreg_checks_print(dev);
	openreg_bo_free(dev->checks->bo);
	pthread_mutex_destroy(&dev->checks->lock);
	free(dev->checks);
}

static void describe(const struct openreg_finding_access *a, char *buf, size_t len)
{
	char list[40] = "";

	if (a->in_list)
		snprintf(list, sizeof(list), ", number %u of its LIST", a->in_list);
	snprintf(buf, len, "%s (queue %u, packet %" PRIu64 "%s, operand %u, cookie %#x)",
		 openreg_opcode_name(a->opcode), a->queue, (uint64_t)a->seq, list,
		 a->operand, a->cookie);
}

API int openreg_finding_text(const struct openreg_finding *f, char *buf, size_t len)
{
	const char *does = f->access.written ? "writes" : "reads";
	char access[128], other[128];

	describe(&f->access, access, sizeof(access));
	describe(&f->other, other, sizeof(other));
	switch (f->kind) {
	case OPENREG_FINDING_RACE:
		return snprintf(buf, len,
				"race: %s %s %" PRIu64 " bytes at %#" PRIx64 " that %s %s, and neither waits for the other",
				access, does, (uint64_t)f->bytes, (uint64_t)f->addr, other,
				f->other.written ? "writes" : "reads");
	case OPENREG_FINDING_INIT:
		return snprintf(buf, len,
				"uninitialised read: %s reads %" PRIu64 " bytes, from %#" PRIx64 " on, of a block of %" PRIu64 " bytes at %#" PRIx64 " that no packet has written",
				access, (uint64_t)f->bytes, (uint64_t)f->addr,
				(uint64_t)f->block_bytes, (uint64_t)f->block);
	case OPENREG_FINDING_BOUNDS:
		return snprintf(buf, len,
				"out of bounds: %s %s %" PRIu64 " bytes, from %#" PRIx64 " on, outside of its block of %" PRIu64 " bytes at %#" PRIx64,
				access, does, (uint64_t)f->bytes, (uint64_t)f->addr,
				(uint64_t)f->block_bytes, (uint64_t)f->block);
	}
	return snprintf(buf, len, "finding of unknown kind %u: %s", f->kind, access);
}
