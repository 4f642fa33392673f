// SPDX-License-Identifier: MIT
// test comm-iommu not sim: --cards 2 --iommu
/* The collectives of openreg-comm on 1 to 4 processes: right values, and how long they take. */
#include "values.h"

/* comm-exchange has the others. */
static const enum openreg_dtype dtypes[] = { OPENREG_F32, OPENREG_BF16, OPENREG_I32,
					     OPENREG_I64 };

static void reduce_all(void)
{
	for (size_t d = 0; d < COUNT(dtypes); d++)
		for (size_t s = 0; s < SIZES; s++)
			for (int in_place = 0; in_place < 2; in_place++) {
				const unsigned int esize = openreg_dtype_size(dtypes[d]);
				const uint64_t src = in_place ? 0 : BYTES / 2;

				memset(me.p, 0xee, BYTES);
				fill(me.p + src, dtypes[d], 0, sizes[s]);
				finish(openreg_comm_all_reduce(me.comm, me.at,
							       me.at + src, sizes[s],
							       dtypes[d],
							       OPENREG_COMM_SUM));
				check_reduced(me.p, dtypes[d], 0, sizes[s],
					      OPENREG_COMM_SUM);
				must(me.p[BYTES / 2 + sizes[s] * esize] == 0xee);
			}
}

static void test_all_reduce(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= RANKS; n++)
		run_ranks(n, reduce_all, true);
}

static void other_ops(void)
{
	must(!openreg_comm_set_factor(me.comm, (double)FACTOR(me.rank)));
	for (size_t d = 0; d < COUNT(dtypes); d++)
		for (int op = OPENREG_COMM_SUM; op <= OPENREG_COMM_XOR; op++) {
			if (op >= OPENREG_COMM_AND && dtypes[d] != OPENREG_I32 &&
			    dtypes[d] != OPENREG_I64)
				continue;
			memset(me.p, 0xee, BYTES);
			fill(me.p, dtypes[d], 0, 50000);
			finish(openreg_comm_all_reduce(me.comm, me.at, me.at, 50000,
						       dtypes[d],
						       (enum openreg_comm_op)op));
			check_reduced(me.p, dtypes[d], 0, 50000,
				      (enum openreg_comm_op)op);
		}
}

static void test_ops(void **state)
{
	(void)state;
	run_ranks(3, other_ops, true);
}

/* Floats that do not add exactly: all ranks still get the same bits. */
static void same_bits(void)
{
	for (uint64_t n = 1000; n <= 300000; n += 299000) {
		float *f = (float *)me.p, *other = (float *)(me.p + BYTES / 2);
		const uint64_t counts[RANKS] = { n, 0, 0, 0 };

		srand(me.rank + 1);
		for (uint64_t i = 0; i < n; i++)
			f[i] = (float)rand() / 1e6f;
		finish(openreg_comm_all_reduce(me.comm, me.at, me.at, n, OPENREG_F32,
					       OPENREG_COMM_SUM));
		/* What rank 0 got. */
		finish(openreg_comm_all_gather(me.comm, me.at + BYTES / 2, me.at, counts,
					       OPENREG_F32));
		must(!memcmp(f, other, n * 4));
	}
}

static void test_same_bits(void **state)
{
	(void)state;
	run_ranks(3, same_bits, true);
}

static void gather_all(void)
{
	for (size_t k = 0; k < UNEVEN; k++)
		for (int in_place = 0; in_place < 2; in_place++) {
			const uint64_t *counts = uneven[k];
			const uint64_t own = begin_of(counts, me.rank) * 4;
			const uint64_t src = in_place ? own : BYTES / 2;
			int32_t *got = (int32_t *)me.p;

			memset(me.p, 0xee, BYTES);
			fill(me.p + src, OPENREG_I32, 0, counts[me.rank]);
			finish(openreg_comm_all_gather(me.comm, me.at, me.at + src, counts,
						       OPENREG_I32));
			for (uint32_t r = 0; r < me.size; r++)
				for (uint64_t i = 0; i < counts[r]; i++)
					must(*got++ == value(r, i));
			must(*(uint8_t *)got == 0xee);
		}
}

static void scatter_sums(void)
{
	for (size_t k = 0; k < UNEVEN; k++)
		for (int in_place = 0; in_place < 2; in_place++) {
			const uint64_t *counts = uneven[k];
			const uint64_t own = begin_of(counts, me.rank);
			const uint64_t dst = in_place ? own * 4 : BYTES / 2;

			memset(me.p, 0xee, BYTES);
			fill(me.p, OPENREG_F32, 0, begin_of(counts, me.size));
			finish(openreg_comm_reduce_scatter(me.comm, me.at + dst, me.at,
							   counts, OPENREG_F32,
							   OPENREG_COMM_SUM));
			if (in_place)
				me.p[dst + counts[me.rank] * 4] = 0xee;
			check_reduced(me.p + dst, OPENREG_F32, own, counts[me.rank],
				      OPENREG_COMM_SUM);
		}
}

static void broadcast_each(void)
{
	for (uint32_t root = 0; root < me.size; root++)
		for (size_t s = 0; s < SIZES; s++) {
			memset(me.p, 0xee, BYTES);
			if (me.rank == root)
				fill(me.p, OPENREG_I32, 0, sizes[s]);
			finish(openreg_comm_broadcast(me.comm, me.at, sizes[s], OPENREG_I32,
						      root));
			for (uint64_t i = 0; i < sizes[s]; i++)
				must(((int32_t *)me.p)[i] == value(root, i));
			must(me.p[sizes[s] * 4] == 0xee);
		}
}

/* A ring: the even ranks send first. */
static void pass_on(void)
{
	const uint32_t next = (me.rank + 1) % me.size;
	const uint32_t last = (me.rank + me.size - 1) % me.size;

	for (size_t s = 0; s < SIZES; s++) {
		int64_t seq[2];

		fill(me.p, OPENREG_I32, 0, sizes[s]);
		for (uint32_t i = 0; i < 2; i++)
			seq[i] = i == me.rank % 2 ?
				openreg_comm_send(me.comm, me.at, sizes[s], OPENREG_I32,
						  next) :
				openreg_comm_recv(me.comm, me.at + BYTES / 2, sizes[s],
						  OPENREG_I32, last);
		must(seq[0] >= 0);
		finish(seq[1]);
		for (uint64_t i = 0; i < sizes[s]; i++)
			must(((int32_t *)(me.p + BYTES / 2))[i] == value(last, i));
	}
}

/* Nobody passes a barrier before the slowest has come. */
static void barriers(void)
{
	struct openreg_bo *bo = me.bo;

	for (int i = 0; i < 20; i++) {
		*(volatile uint64_t *)me.p = (uint64_t)i;
		if (me.rank == (uint32_t)i % me.size)
			usleep(2000);
		finish(openreg_comm_broadcast(me.comm, openreg_bo_address(bo), 1,
					      OPENREG_I64, (uint32_t)i % me.size));
		finish(openreg_comm_barrier(me.comm));
	}
}

static void test_others(void **state)
{
	(void)state;
	run_ranks(4, gather_all, true);
	run_ranks(4, scatter_sums, true);
	run_ranks(3, broadcast_each, true);
	run_ranks(2, pass_on, true);
	run_ranks(4, pass_on, true);
	run_ranks(4, barriers, true);
}

/* Many collectives queued at once, without a wait in between. */
static void many(void)
{
	int64_t seq = 0;

	for (uint64_t i = 0; i < 1000; i++)
		((int64_t *)me.p)[i] = 1;
	for (int i = 0; i < 20; i++) {
		seq = openreg_comm_all_reduce(me.comm, me.at, me.at, 1000, OPENREG_I64,
					      OPENREG_COMM_SUM);
		must(seq > 0);
	}
	finish(seq);
	for (uint64_t i = 0; i < 1000; i++)
		must(((int64_t *)me.p)[i] == 1ll << 20);
}

static void test_many(void **state)
{
	(void)state;
	run_ranks(2, many, true);
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(void)
{
	static const uint64_t bytes[] = { 8, 4096, 65536, 1 << 20, 4 << 20 };
	struct openreg_comm_attr attr = attributes();
	int64_t times[200];

	attr.slot_bytes = 0;
	attr.one_shot_bytes = 0;
	must(!create(&attr));
	for (size_t k = 0; k < COUNT(bytes); k++) {
		const int n = bytes[k] > 65536 ? 30 : 200;

		for (int i = 0; i < n; i++) {
			finish(openreg_comm_barrier(me.comm));
			times[i] = now();
			finish(sum(bytes[k] / 4));
			times[i] = now() - times[i];
		}
		qsort(times, (size_t)n, sizeof(times[0]), compare);
		if (!me.rank)
			printf("# all_reduce of %llu bytes on %u ranks: %.1f us least, %.1f median\n",
			       (unsigned long long)bytes[k], me.size,
			       (double)times[0] / 1000, (double)times[n / 2] / 1000);
	}
	fflush(stdout);
}

static void test_measure(void **state)
{
	(void)state;
	fflush(stdout);
	run_ranks(2, measure, false);
	run_ranks(4, measure, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_reduce), cmocka_unit_test(test_ops),
		cmocka_unit_test(test_same_bits),  cmocka_unit_test(test_others),
		cmocka_unit_test(test_many),	   cmocka_unit_test(test_measure),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
