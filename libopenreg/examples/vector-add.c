// SPDX-License-Identifier: MIT
/*
 * c = a + b on the card.
 *
 *   cc vector-add.c $(pkg-config --cflags --libs openreg) -o vector-add
 */
#include <stdio.h>
#include <stdlib.h>

#include <openreg.h>

#define N 1000

static void check(int64_t ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, openreg_last_error());
	exit(1);
}

/* One packet: load operand 1 and 2, add, store to operand 0. */
static void push_add(struct openreg_queue *queue, uint64_t c, uint64_t a,
		     uint64_t b)
{
	const int64_t size[] = { N };
	const struct openreg_tensor ops[] = {
		openreg_view(c, OPENREG_F32, NULL),
		openreg_view(a, OPENREG_F32, NULL),
		openreg_view(b, OPENREG_F32, NULL),
	};
	const struct openreg_instr program[] = {
		/*          operation        type            dst a  b  c  operand */
		openreg_ins(OPENREG_V_LOAD,  OPENREG_VT_F32, 0,  0, 0, 0, 1),
		openreg_ins(OPENREG_V_LOAD,  OPENREG_VT_F32, 1,  0, 0, 0, 2),
		openreg_ins(OPENREG_V_ADD,   OPENREG_VT_F32, 2,  0, 1, 0, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_F32, 0,  2, 0, 0, 0),
	};
	const struct openreg_command add = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .size = size,
		.nops = 3, .ops = ops,
		.ninstr = 4, .instr = program,
	};

	check(openreg_push(queue, &add), "add");
}

int main(void)
{
	static float a[N], b[N], c[N];
	const uint64_t bytes = sizeof(a);
	struct openreg_device *dev;
	struct openreg_queue *queue;
	struct openreg_bo *bo;
	uint64_t da, db, dc;

	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = (float)(2 * i);
	}
	check(openreg_device_open(0, &dev), "open");
	check(openreg_queue_create(dev, NULL, &queue), "queue");
	check(openreg_bo_alloc(dev, 3 * bytes, OPENREG_BO_VRAM, &bo), "memory");
	da = openreg_bo_address(bo);
	db = da + bytes;
	dc = db + bytes;

	check(openreg_copy_to_device(queue, da, a, bytes), "copy a");
	check(openreg_copy_to_device(queue, db, b, bytes), "copy b");
	push_add(queue, dc, da, db);
	check(openreg_queue_submit(queue), "submit");
	check(openreg_copy_from_device(queue, c, dc, bytes), "copy c");

	for (int i = 0; i < N; i++)
		if (c[i] != a[i] + b[i]) {
			fprintf(stderr, "c[%d] is %g\n", i, (double)c[i]);
			return 1;
		}
	printf("vector-add: %d sums are right, c[%d] = %g\n", N, N - 1,
	       (double)c[N - 1]);

	openreg_bo_free(bo);
	openreg_queue_destroy(queue);
	openreg_device_close(dev);
	return 0;
}
