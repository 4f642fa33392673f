// SPDX-License-Identifier: MIT
/* Copies: by one packet where the card can reach the memory, else through staging. */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* Two chunks: the CPU copies one while the card copies the other. */
#define CHUNK (1ULL << 20)
#define CHUNKS 2

/* From this size on, pinning the caller's pages costs less than copying them. */
#define REGISTER_FROM (256ULL << 10)

static uint64_t max_bytes(const struct openreg_queue *q)
{
	uint32_t log2 = q->dev->info.max_work;

	return 1ULL << (log2 < 34 ? log2 : 34);
}

static int push_bytes(struct openreg_queue *q, uint64_t dst, uint64_t src,
		      uint64_t bytes)
{
	const int64_t size = (int64_t)bytes;
	const struct openreg_tensor d = openreg_view(dst, OPENREG_U8, NULL);
	const struct openreg_tensor s = openreg_view(src, OPENREG_U8, NULL);

	return openreg_push_copy(q, 1, &size, &d, &s);
}

API int64_t openreg_copy_async(struct openreg_queue *q, uint64_t dst,
			       uint64_t src, uint64_t bytes)
{
	const uint64_t most = max_bytes(q);

	while (bytes) {
		uint64_t n = bytes < most ? bytes : most;
		int ret = push_bytes(q, dst, src, n);

		if (ret)
			return ret;
		dst += n;
		src += n;
		bytes -= n;
	}
	return openreg_queue_submit(q);
}

API int64_t openreg_fill_async(struct openreg_queue *q, uint64_t dst,
			       uint8_t byte, uint64_t bytes)
{
	const uint64_t most = max_bytes(q);

	while (bytes) {
		const int64_t n = (int64_t)(bytes < most ? bytes : most);
		const struct openreg_tensor d =
			openreg_view(dst, OPENREG_U8, NULL);
		int ret = openreg_push_fill(q, 1, &n, &d, byte);

		if (ret)
			return ret;
		dst += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return openreg_queue_submit(q);
}

API int openreg_memset(struct openreg_queue *q, uint64_t dst, uint8_t byte,
		       uint64_t bytes)
{
	int64_t seq = openreg_fill_async(q, dst, byte, bytes);

	if (seq < 0)
		return (int)seq;
	return openreg_queue_wait(q, (uint64_t)seq, -1);
}

struct staging {
	struct openreg_queue *q;
	char *cpu;
	uint64_t address;
	int64_t seq[CHUNKS]; /* packet that last used the chunk */
};

static int staging_begin(struct openreg_queue *q, struct staging *st)
{
	void *ptr;
	int ret;

	memset(st, 0, sizeof(*st));
	st->q = q;
	if (!q->staging) {
		ret = openreg_bo_alloc(q->dev, CHUNKS * CHUNK,
				       OPENREG_BO_SYSTEM, &q->staging);
		if (ret)
			return ret;
	}
	ret = openreg_bo_map(q->staging, &ptr);
	if (ret)
		return ret;
	st->cpu = ptr;
	st->address = openreg_bo_address(q->staging);
	return 0;
}

static char *staging_cpu(const struct staging *st, uint64_t i)
{
	return st->cpu + i % CHUNKS * CHUNK;
}

static uint64_t staging_address(const struct staging *st, uint64_t i)
{
	return st->address + i % CHUNKS * CHUNK;
}

static int staging_wait(struct staging *st, uint64_t i)
{
	return openreg_queue_wait(st->q, (uint64_t)st->seq[i % CHUNKS], -1);
}

static int staging_copy(struct staging *st, uint64_t i, uint64_t dst,
			uint64_t src, uint64_t bytes)
{
	int64_t seq = openreg_copy_async(st->q, dst, src, bytes);

	if (seq < 0)
		return (int)seq;
	st->seq[i % CHUNKS] = seq;
	return 0;
}

static uint64_t chunk_length(uint64_t i, uint64_t bytes)
{
	return bytes - i * CHUNK < CHUNK ? bytes - i * CHUNK : CHUNK;
}

static int staged_to_device(struct openreg_queue *q, uint64_t dst,
			    const void *src, uint64_t bytes)
{
	const uint64_t chunks = bytes / CHUNK + !!(bytes % CHUNK);
	struct staging st;
	int ret = staging_begin(q, &st);

	for (uint64_t i = 0; !ret && i < chunks; i++) {
		const uint64_t n = chunk_length(i, bytes);

		ret = staging_wait(&st, i);
		if (ret)
			return ret;
		memcpy(staging_cpu(&st, i), (const char *)src + i * CHUNK, n);
		ret = staging_copy(&st, i, dst + i * CHUNK,
				   staging_address(&st, i), n);
	}
	if (ret || !chunks)
		return ret;
	return staging_wait(&st, chunks - 1);
}

/* Submits the copy of chunk i before it copies chunk i - 1 to dst: the two overlap. */
static int staged_from_device(struct openreg_queue *q, void *dst,
			      uint64_t src, uint64_t bytes)
{
	const uint64_t chunks = bytes / CHUNK + !!(bytes % CHUNK);
	struct staging st;
	int ret = staging_begin(q, &st);

	for (uint64_t i = 0; !ret && i <= chunks; i++) {
		if (i < chunks)
			ret = staging_copy(&st, i, staging_address(&st, i),
					   src + i * CHUNK,
					   chunk_length(i, bytes));
		if (ret || i == 0)
			continue;
		ret = staging_wait(&st, i - 1);
		if (!ret)
			memcpy((char *)dst + (i - 1) * CHUNK,
			       staging_cpu(&st, i - 1),
			       chunk_length(i - 1, bytes));
	}
	return ret;
}

/*
 * Registers memory for one copy. NULL if the range is small or cannot be registered. This
 * is no error: the caller then copies through staging.
 */
static struct openreg_bo *borrow(struct openreg_queue *q, void *ptr,
				 uint64_t bytes, uint32_t flags)
{
	struct openreg_bo *bo;

	if (bytes < REGISTER_FROM || bytes > q->dev->info.max_bo_size)
		return NULL;
	if (openreg_bo_try_register(q->dev, ptr, bytes, flags, &bo))
		return NULL;
	return bo;
}

static int finish(struct openreg_queue *q, struct openreg_bo *bo, int64_t seq)
{
	int ret = seq < 0 ? (int)seq :
			    openreg_queue_wait(q, (uint64_t)seq, -1);

	openreg_bo_free(bo);
	return ret;
}

API int openreg_copy_to_device(struct openreg_queue *q, uint64_t dst,
			       const void *src, uint64_t bytes)
{
	struct openreg_bo *bo;

	if (!*q->mine)
		return openreg_fail_forked();
	bo = borrow(q, (void *)(uintptr_t)src, bytes, OPENREG_BO_READONLY);
	if (!bo)
		return staged_to_device(q, dst, src, bytes);
	return finish(q, bo, openreg_copy_async(q, dst, openreg_bo_address(bo),
						bytes));
}

API int openreg_copy_from_device(struct openreg_queue *q, void *dst,
				 uint64_t src, uint64_t bytes)
{
	struct openreg_bo *bo;

	if (!*q->mine)
		return openreg_fail_forked();
	bo = borrow(q, dst, bytes, 0);
	if (!bo)
		return staged_from_device(q, dst, src, bytes);
	return finish(q, bo, openreg_copy_async(q, openreg_bo_address(bo), src,
						bytes));
}
