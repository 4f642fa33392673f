// SPDX-License-Identifier: MIT
/* Traces: the card's records of the packets of a queue. */
#include <inttypes.h>

#include "internal.h"

static int check(struct openreg_queue *q, uint64_t records)
{
	const struct openreg_device_info *info = &q->dev->info;

	if (!records || records & (records - 1) || records > OPENREG_TRACE_RECORDS_MAX)
		return openreg_fail(-EINVAL,
				    "trace of %" PRIu64 " records: the number must be a power of two up to %d",
				    records, OPENREG_TRACE_RECORDS_MAX);
	if (!(info->packets & 1ULL << OPENREG_OP_TRACE))
		return openreg_fail(-EOPNOTSUPP,
				    "%s cannot trace queues: its instruction set is %u.%u, and traces need 1.7; update the device in QEMU, or the in-process card",
				    info->path, info->isa_version >> 16,
				    info->isa_version & 0xffff);
	return 0;
}

/* Submits a TRACE packet, and returns its sequence number. */
static int64_t submit(struct openreg_queue *q, uint64_t address, uint64_t records)
{
	const struct openreg_tensor ring = openreg_view(address, OPENREG_I64, NULL);
	struct openreg_command cmd = {
		.opcode = OPENREG_OP_TRACE,
		.nops = 1,
		.nimm = 1,
		.ops = &ring,
		.imm = &records,
	};
	int ret = openreg_push(q, &cmd);

	return ret ? ret : openreg_queue_submit(q);
}

static uint64_t load(const volatile __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static void consume(struct openreg_queue *q, uint64_t head)
{
	q->trace.head = head;
	__atomic_store_n(&q->t.user->trace_head, head, __ATOMIC_RELEASE);
}

/*
 * The card may still write records of an older trace, to the older ring. Their numbers
 * have places in the new ring as well. openreg_queue_trace_read() skips these places:
 * zeros and older records there have no number above seq.
 */
int openreg_trace_start(struct openreg_queue *q, uint64_t records)
{
	struct trace new = { .mask = records - 1 };
	int64_t seq;
	void *at;
	int ret;

	ret = check(q, records);
	/* The packets before the one that began the last trace need the ring before. */
	if (!ret && q->trace.ring)
		ret = openreg_queue_wait(q, q->trace.seq, q->full_timeout_ns);
	if (ret)
		return ret;
	openreg_bo_free(q->trace.old);
	q->trace.old = NULL;
	ret = openreg_bo_alloc(q->dev, records * sizeof(*new.records),
			       OPENREG_BO_SYSTEM, &new.ring);
	if (ret)
		return ret;
	ret = openreg_bo_map(new.ring, &at);
	if (ret) {
		openreg_bo_free(new.ring);
		return ret;
	}
	new.records = at;
	new.lost = load(&q->t.card->trace_lost);
	consume(q, load(&q->t.card->trace_written));
	seq = submit(q, openreg_bo_address(new.ring), records);
	if (seq < 0) {
		openreg_bo_free(new.ring);
		return (int)seq;
	}
	new.seq = (uint64_t)seq;
	new.head = q->trace.head;
	/* Without its ring, lost records of the older trace would count for the new one. */
	new.old = q->trace.ring;
	q->trace = new;
	return 0;
}

API int openreg_queue_trace_start(struct openreg_queue *q, uint64_t records)
{
	if (!*q->mine)
		return openreg_fail_forked();
	if (q->timeline.on)
		return openreg_timeline_trace_start(q, records);
	return openreg_trace_start(q, records);
}

API int openreg_queue_trace_stop(struct openreg_queue *q)
{
	int64_t seq;

	if (!*q->mine)
		return openreg_fail_forked();
	if (!q->trace.ring)
		return 0;
	if (q->timeline.on)
		return openreg_timeline_trace_stop(q);
	seq = submit(q, 0, 0);
	return seq < 0 ? (int)seq : 0;
}

uint64_t openreg_trace_lost(const struct openreg_queue *q)
{
	return q->trace.ring ? load(&q->t.card->trace_lost) - q->trace.lost : 0;
}

uint64_t openreg_trace_unread(const struct openreg_queue *q)
{
	return q->trace.ring ? load(&q->t.card->trace_written) - q->trace.head : 0;
}

/* A card that counts more than its ring has is broken: read each place once. */
void openreg_trace_each(struct openreg_queue *q,
			bool (*take)(void *opaque, const struct openreg_trace_record *r),
			void *opaque)
{
	struct trace *t = &q->trace;
	uint64_t head = t->head, written;

	if (!t->ring)
		return;
	written = load(&q->t.card->trace_written);
	if (written - head > t->mask + 1)
		written = head + t->mask + 1;
	for (; head != written; head++) {
		const struct openreg_trace_record r = t->records[head & t->mask];

		if (r.seq > t->seq && !take(opaque, &r))
			break;
	}
	if (head != t->head)
		consume(q, head);
}

struct reading {
	struct openreg_trace_record *records;
	size_t n, got;
};

static bool read_record(void *opaque, const struct openreg_trace_record *r)
{
	struct reading *to = opaque;

	if (to->got == to->n)
		return false;
	to->records[to->got++] = *r;
	return true;
}

API int64_t openreg_queue_trace_read(struct openreg_queue *q,
				     struct openreg_trace_record *records, size_t n,
				     uint64_t *lost)
{
	struct reading to = { .records = records, .n = n };

	if (lost)
		*lost = 0;
	if (!*q->mine)
		return openreg_fail_forked();
	if (q->timeline.on)
		return openreg_timeline_trace_read(q, records, n, lost);
	openreg_trace_each(q, read_record, &to);
	if (lost)
		*lost = openreg_trace_lost(q);
	return (int64_t)to.got;
}
