// SPDX-License-Identifier: MIT
#include "harness.h"

int64_t ok_(int64_t ret, const char *what, const char *file, int line)
{
	if (ret < 0) {
		print_error("%s: %s\n", what, openreg_last_error());
		_fail(file, line);
	}
	return ret;
}

void fails_(int64_t ret, int error, const char *part, const char *what,
	    const char *file, int line)
{
	if (ret == -error && strstr(openreg_last_error(), part))
		return;
	print_error("%s: returned %lld (want %d), text \"%s\" (want \"%s\")\n",
		    what, (long long)ret, -error, openreg_last_error(), part);
	_fail(file, line);
}

bool on_sim(void)
{
	const char *name = getenv("OPENREG_TRANSPORT");

	return name && !strcmp(name, "sim");
}

int card_open(void **state)
{
	struct card *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	ok(openreg_device_open(0, &c->dev));
	ok(openreg_queue_create(c->dev, NULL, &c->q));
	*state = c;
	return 0;
}

int card_close(void **state)
{
	struct card *c = *state;

	openreg_queue_destroy(c->q);
	openreg_device_close(c->dev);
	free(c);
	return 0;
}

struct openreg_bo *vram(struct card *c, uint64_t size)
{
	struct openreg_bo *bo;

	ok(openreg_bo_alloc(c->dev, size, OPENREG_BO_VRAM, &bo));
	return bo;
}

uint64_t address(struct openreg_bo *bo)
{
	return openreg_bo_address(bo);
}

void *mapped(struct openreg_bo *bo)
{
	void *ptr;

	ok(openreg_bo_map(bo, &ptr));
	return ptr;
}

void push_twice(struct card *c, uint64_t dst, uint64_t src, int64_t n)
{
	const struct openreg_tensor ops[] = {
		openreg_view(dst, OPENREG_I32, NULL), openreg_view(src, OPENREG_I32, NULL),
	};
	const struct openreg_instr program[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_I32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_I32, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_I32, 0, 0, 0, 0, 0),
	};
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR, .ndim = 1, .size = &n, .nops = 2, .ops = ops,
		.ninstr = 3, .instr = program,
	};

	ok(openreg_push(c->q, &cmd));
}

void run(struct card *c)
{
	int64_t seq = ok(openreg_queue_submit(c->q));

	ok(openreg_queue_wait(c->q, (uint64_t)seq, LONG));
}

struct openreg_fault_summary run_fault(struct card *c)
{
	struct openreg_fault_summary f = { 0 };
	int64_t seq = openreg_queue_submit(c->q);

	/* A fast card may fault before openreg_queue_submit() returns. */
	if (seq >= 0)
		fails(openreg_queue_wait(c->q, (uint64_t)seq, LONG), EIO,
		      "stopped");
	else
		fails(seq, EIO, "stopped");
	assert_int_equal(openreg_queue_fault(c->q, &f), 1);
	ok(openreg_queue_reset(c->q));
	assert_int_equal(openreg_queue_fault(c->q, &f), 0);
	return f;
}

void still_works(struct card *c)
{
	uint32_t in[8], out[8] = { 0 };
	struct openreg_bo *bo = vram(c, sizeof(in));

	noise(in, sizeof(in), 99);
	ok(openreg_copy_to_device(c->q, address(bo), in, sizeof(in)));
	ok(openreg_copy_from_device(c->q, out, address(bo), sizeof(out)));
	assert_memory_equal(in, out, sizeof(in));
	openreg_bo_free(bo);
}

void noise(void *buf, size_t n, unsigned int seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ULL + 1;
	uint8_t *p = buf;

	for (size_t i = 0; i < n; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		p[i] = (uint8_t)(x >> 56);
	}
}
