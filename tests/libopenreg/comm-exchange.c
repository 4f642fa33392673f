// SPDX-License-Identifier: MIT
/* reduce, gather, scatter, all_to_all and groups of openreg-comm on 1 to 4 processes. */
#include "values.h"

static const enum openreg_comm_op ops[] = { OPENREG_COMM_SUM, OPENREG_COMM_AVG,
					    OPENREG_COMM_PREMUL_SUM };

/* To each root, in place and not; the memory of the others is untouched. */
static void reduce_to(void)
{
	for (uint32_t root = 0; root < me.size; root++)
		for (size_t s = 0; s < SIZES; s++)
			for (int in_place = 0; in_place < 2; in_place++) {
				const uint64_t src = in_place ? 0 : BYTES / 2;
				const enum openreg_comm_op op = ops[s % COUNT(ops)];

				memset(me.p, 0xee, BYTES);
				fill(me.p + src, OPENREG_F32, 0, sizes[s]);
				must(!openreg_comm_set_factor(me.comm,
							      (double)FACTOR(me.rank)));
				finish(openreg_comm_reduce(me.comm, me.at, me.at + src,
							   sizes[s], OPENREG_F32, op,
							   root));
				if (me.rank == root)
					check_reduced(me.p, OPENREG_F32, 0, sizes[s], op);
				else if (in_place)
					check_values(me.p, OPENREG_F32, me.rank, 0,
						     sizes[s]);
				else
					must(me.p[0] == 0xee && me.p[sizes[s] * 4] == 0xee);
			}
}

/* Each reduction of each dtype, in one step and in two. */
static void reductions(void)
{
	static const enum openreg_dtype dtypes[] = {
		OPENREG_F32, OPENREG_F64, OPENREG_F16, OPENREG_BF16, OPENREG_I8,
		OPENREG_U8,  OPENREG_I16, OPENREG_I32, OPENREG_I64,
	};
	static const uint64_t counts[] = { 100, 200001 };

	must(!openreg_comm_set_factor(me.comm, (double)FACTOR(me.rank)));
	for (size_t d = 0; d < COUNT(dtypes); d++)
		for (size_t k = 0; k < COUNT(ops) * COUNT(counts); k++) {
			const enum openreg_comm_op op = ops[k % COUNT(ops)];
			const uint64_t n = counts[k / COUNT(ops)];

			/* The sum of u8 wraps: it is not the sum of negative values. */
			if (dtypes[d] == OPENREG_U8 && op == OPENREG_COMM_AVG)
				continue;
			memset(me.p, 0xee, BYTES);
			fill(me.p, dtypes[d], 0, n);
			finish(openreg_comm_all_reduce(me.comm, me.at, me.at, n, dtypes[d],
						       op));
			check_reduced(me.p, dtypes[d], 0, n, op);
		}
}

/* bool: the sum is any, the product all. */
static void bools(void)
{
	static const enum openreg_comm_op of[] = {
		OPENREG_COMM_SUM, OPENREG_COMM_MAX, OPENREG_COMM_OR,
		OPENREG_COMM_PROD, OPENREG_COMM_MIN, OPENREG_COMM_AND,
	};

	for (size_t k = 0; k < COUNT(of); k++) {
		me.p[0] = me.rank == 1;
		me.p[1] = me.rank != 1;
		me.p[2] = 1;
		me.p[3] = 0;
		finish(openreg_comm_all_reduce(me.comm, me.at, me.at, 4, OPENREG_BOOL, of[k]));
		must(me.p[0] == (k < 3) && me.p[1] == (k < 3) && me.p[2] == 1 && !me.p[3]);
	}
}

static void test_reduce(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= RANKS; n++)
		run_ranks(n, reduce_to, true);
	run_ranks(1, reductions, true);
	run_ranks(3, reductions, true);
	run_ranks(3, bools, true);
}

static void gather_to(void)
{
	for (uint32_t root = 0; root < me.size; root++)
		for (size_t k = 0; k < UNEVEN; k++)
			for (int in_place = 0; in_place < 2; in_place++) {
				const uint64_t *counts = uneven[k];
				const uint64_t own = begin_of(counts, me.rank) * 4;
				const uint64_t src = in_place ? own : BYTES / 2;
				uint8_t *p = me.p;

				memset(me.p, 0xee, BYTES);
				fill(me.p + src, OPENREG_I32, 0, counts[me.rank]);
				finish(openreg_comm_gather(me.comm, me.at, me.at + src,
							   counts, OPENREG_I32, root));
				for (uint32_t r = 0; r < me.size && me.rank == root; r++)
					p = check_values(p, OPENREG_I32, r, 0, counts[r]);
				must(*p == 0xee || (in_place && me.rank != root));
			}
}

static void scatter_from(void)
{
	for (uint32_t root = 0; root < me.size; root++)
		for (size_t k = 0; k < UNEVEN; k++)
			for (int in_place = 0; in_place < 2; in_place++) {
				const uint64_t *counts = uneven[k];
				const uint64_t own = begin_of(counts, me.rank);
				const uint64_t dst = in_place && me.rank == root ?
							     own * 4 : BYTES / 2;

				memset(me.p, 0xee, BYTES);
				if (me.rank == root)
					fill(me.p, OPENREG_I32, 0,
					     begin_of(counts, me.size));
				finish(openreg_comm_scatter(me.comm, me.at + dst, me.at,
							    counts, OPENREG_I32, root));
				check_values(me.p + dst, OPENREG_I32, root, own,
					     counts[me.rank]);
				must(me.rank == root || me.p[0] == 0xee);
			}
}

/* Elements that rank a sends to rank b. */
static uint64_t between(uint32_t a, uint32_t b, unsigned int k)
{
	return k ? uneven[1 + (a + b) % 3][(a * 3 + b + k) % RANKS] : 500;
}

static void transpose(void)
{
	for (unsigned int k = 0; k < 4; k++) {
		uint64_t sends[RANKS], receives[RANKS];
		uint8_t *p = me.p + BYTES / 2;

		for (uint32_t r = 0; r < me.size; r++) {
			sends[r] = between(me.rank, r, k);
			receives[r] = between(r, me.rank, k);
		}
		memset(me.p, 0xee, BYTES);
		fill(me.p, OPENREG_I64, 0, begin_of(sends, me.size));
		finish(openreg_comm_all_to_all(me.comm, me.at + BYTES / 2, me.at, receives,
					       sends, OPENREG_I64));
		for (uint32_t r = 0; r < me.size; r++) {
			uint64_t first = 0;

			for (uint32_t b = 0; b < me.rank; b++)
				first += between(r, b, k);
			p = check_values(p, OPENREG_I64, r, first, receives[r]);
		}
		must(*p == 0xee);
	}
}

static void test_exchange(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= RANKS; n++) {
		run_ranks(n, gather_to, true);
		run_ranks(n, scatter_from, true);
		run_ranks(n, transpose, true);
	}
}

#define MANY 400000

/* All ranks send to the next one before they receive, more than the slots hold. */
static void shift(void)
{
	const uint32_t next = (me.rank + 1) % me.size;
	const uint32_t last = (me.rank + me.size - 1) % me.size;

	for (int i = 0; i < 3; i++) {
		memset(me.p, 0xee, BYTES);
		fill(me.p, OPENREG_I32, 0, MANY);
		must(!openreg_comm_group_begin(me.comm));
		must(!openreg_comm_send(me.comm, me.at, MANY, OPENREG_I32, next));
		must(!openreg_comm_recv(me.comm, me.at + BYTES / 2, MANY, OPENREG_I32, last));
		finish(openreg_comm_group_end(me.comm));
		must(*check_values(me.p + BYTES / 2, OPENREG_I32, last, 0, MANY) == 0xee);
	}
}

/* Several messages between each two ranks, also to itself, between two reductions. */
static void several(void)
{
	static const uint64_t lengths[] = { 3, 70000, 0, 16384 };
	uint64_t first = 0, at = BYTES / 2;
	int32_t *sums = (int32_t *)(me.p + BYTES - 4096);

	memset(me.p, 0xee, BYTES);
	fill(me.p, OPENREG_I32, 0, 100000);
	sums[0] = 1;
	must(!openreg_comm_group_begin(me.comm));
	must(openreg_comm_all_reduce(me.comm, me.at + BYTES - 4096, me.at + BYTES - 4096, 1,
				     OPENREG_I32, OPENREG_COMM_SUM) >= 0);
	must(!openreg_comm_group_begin(me.comm));
	for (size_t i = 0; i < COUNT(lengths); i++) {
		for (uint32_t r = 0; r < me.size; r++)
			must(!openreg_comm_send(me.comm, me.at + first * 4, lengths[i],
						OPENREG_I32, r));
		first += lengths[i];
	}
	must(openreg_comm_group_end(me.comm) >= 0);
	for (size_t i = 0; i < COUNT(lengths); i++)
		for (uint32_t r = 0; r < me.size; r++) {
			must(!openreg_comm_recv(me.comm, me.at + at, lengths[i], OPENREG_I32,
						r));
			at += lengths[i] * 4;
		}
	must(openreg_comm_all_reduce(me.comm, me.at + BYTES - 4096, me.at + BYTES - 4096, 1,
				     OPENREG_I32, OPENREG_COMM_SUM) >= 0);
	finish(openreg_comm_group_end(me.comm));
	must(sums[0] == (int32_t)(me.size * me.size));
	at = BYTES / 2;
	first = 0;
	for (size_t i = 0; i < COUNT(lengths); i++) {
		for (uint32_t r = 0; r < me.size; r++) {
			check_values(me.p + at, OPENREG_I32, r, first, lengths[i]);
			at += lengths[i] * 4;
		}
		first += lengths[i];
	}
}

static void bad_groups(void)
{
	must(openreg_comm_group_end(me.comm) == -EINVAL);
	must(!openreg_comm_group_begin(me.comm));
	must(!openreg_comm_send(me.comm, me.at, 4, OPENREG_I32, me.rank));
	must(openreg_comm_send(me.comm, me.at, 4, OPENREG_I32, 7) == -EINVAL);
	must(openreg_comm_group_end(me.comm) == -EINVAL);
	must(!openreg_comm_group_begin(me.comm));
	must(openreg_comm_group_end(me.comm) >= 0);
	finish(sum(100));
}

static void test_groups(void **state)
{
	(void)state;
	run_ranks(1, several, true);
	for (uint32_t n = 2; n <= RANKS; n++) {
		run_ranks(n, shift, true);
		run_ranks(n, several, true);
	}
	run_ranks(2, bad_groups, true);
}

static void add_ranks(struct openreg_comm *comm, uint32_t size, int64_t want)
{
	int64_t *word = (int64_t *)me.p;

	must(openreg_comm_size(comm) == size);
	*word = me.rank + 1;
	must(!openreg_comm_wait(comm, openreg_comm_all_reduce(comm, me.at, me.at, 1,
							      OPENREG_I64,
							      OPENREG_COMM_SUM)));
	must(*word == want);
}

/* Halves, then all but one in the opposite order, then the half of a half. */
static void split(void)
{
	struct openreg_comm *half, *most, *one;

	must(!openreg_comm_split(me.comm, (int32_t)me.rank % 2, 0, &half));
	must(openreg_comm_rank(half) == me.rank / 2);
	add_ranks(half, 2, me.rank % 2 ? 2 + 4 : 1 + 3);
	must(!openreg_comm_split(me.comm, me.rank == 1 ? -1 : 5, -(int32_t)me.rank, &most));
	must((me.rank == 1) == !most);
	if (most) {
		must(openreg_comm_rank(most) == (me.rank ? 3 - me.rank : 2));
		add_ranks(most, 3, 1 + 3 + 4);
	}
	must(!openreg_comm_split(half, (int32_t)me.rank, 0, &one));
	add_ranks(one, 1, me.rank + 1);
	openreg_comm_destroy(half);
	add_ranks(me.comm, 4, 1 + 2 + 3 + 4);
	openreg_comm_destroy(one);
	openreg_comm_destroy(most);
}

static void test_split(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		run_ranks(4, split, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reduce),	 cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_groups),	 cmocka_unit_test(test_split),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
