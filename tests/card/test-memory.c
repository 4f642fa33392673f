/* SPDX-License-Identifier: MIT */
/*
 * Failing allocations of memory, threads and locks inside the card. The tests make the
 * first, the second and each further allocation fail: while a card is made, in each admin
 * command and packet, in save and in load. Each failure must be reported as the manual
 * says and must leak nothing; the same operation must succeed afterwards.
 */
#include <errno.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "host.h"
#include "stepper.h"

/* The linker redirects the card's allocations to this file (--wrap). */
static atomic_uint allocations;
static unsigned int failing; /* number of the allocation that fails; 0: none */

static bool fails(void)
{
	return failing && atomic_fetch_add(&allocations, 1) + 1 == failing;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*run)(void *), void *opaque);
int __real_pthread_mutex_init(pthread_mutex_t *lock,
			      const pthread_mutexattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *cond,
			     const pthread_condattr_t *attr);
int __real_pthread_condattr_init(pthread_condattr_t *attr);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*run)(void *), void *opaque);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock,
			      const pthread_mutexattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *cond,
			     const pthread_condattr_t *attr);
int __wrap_pthread_condattr_init(pthread_condattr_t *attr);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __real_aligned_alloc(align, size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*run)(void *), void *opaque)
{
	return fails() ? EAGAIN
		       : __real_pthread_create(thread, attr, run, opaque);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock,
			      const pthread_mutexattr_t *attr)
{
	return fails() ? ENOMEM : __real_pthread_mutex_init(lock, attr);
}

int __wrap_pthread_cond_init(pthread_cond_t *cond,
			     const pthread_condattr_t *attr)
{
	return fails() ? ENOMEM : __real_pthread_cond_init(cond, attr);
}

int __wrap_pthread_condattr_init(pthread_condattr_t *attr)
{
	return fails() ? ENOMEM : __real_pthread_condattr_init(attr);
}

/* Calls of oneDNN, whose own allocations the linker cannot redirect. */
#define WRAP(name, parameters, arguments)                                      \
	dnnl_status_t __real_##name parameters;                                \
	dnnl_status_t __wrap_##name parameters;                                \
	dnnl_status_t __wrap_##name parameters                                 \
	{                                                                      \
		return fails() ? dnnl_out_of_memory : __real_##name arguments; \
	}

WRAP(dnnl_engine_create, (dnnl_engine_t *e, dnnl_engine_kind_t k, size_t i),
     (e, k, i))
WRAP(dnnl_stream_create, (dnnl_stream_t *s, dnnl_engine_t e, unsigned int f),
     (s, e, f))
WRAP(dnnl_primitive_attr_create, (dnnl_primitive_attr_t *a), (a))
WRAP(dnnl_post_ops_create, (dnnl_post_ops_t *p), (p))
WRAP(dnnl_post_ops_append_sum,
     (dnnl_post_ops_t p, float scale, int32_t zero, dnnl_data_type_t type),
     (p, scale, zero, type))
WRAP(dnnl_primitive_attr_set_post_ops,
     (dnnl_primitive_attr_t a, const_dnnl_post_ops_t p), (a, p))
WRAP(dnnl_memory_desc_create_with_strides,
     (dnnl_memory_desc_t *md, int n, const dnnl_dims_t dims,
      dnnl_data_type_t type, const dnnl_dims_t strides),
     (md, n, dims, type, strides))
WRAP(dnnl_matmul_primitive_desc_create,
     (dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_dnnl_memory_desc_t a,
      const_dnnl_memory_desc_t b, const_dnnl_memory_desc_t bias,
      const_dnnl_memory_desc_t d, const_dnnl_primitive_attr_t attr),
     (pd, e, a, b, bias, d, attr))
WRAP(dnnl_memory_create,
     (dnnl_memory_t *m, const_dnnl_memory_desc_t md, dnnl_engine_t e, void *p),
     (m, md, e, p))
WRAP(dnnl_primitive_create,
     (dnnl_primitive_t *p, const_dnnl_primitive_desc_t pd), (p, pd))
WRAP(dnnl_primitive_execute,
     (const_dnnl_primitive_t p, dnnl_stream_t s, int n,
      const dnnl_exec_arg_t *args),
     (p, s, n, args))
WRAP(dnnl_stream_wait, (dnnl_stream_t s), (s))

static void fail_nth(unsigned int n)
{
	atomic_store(&allocations, 0);
	failing = n;
}

/* True if the allocation that should fail was reached; ends the failing. */
static bool failed(void)
{
	bool it_was = failing && atomic_load(&allocations) >= failing;

	failing = 0;
	return it_was;
}

static void test_new(void **state)
{
	static char vram; /* never accessed */
	const struct openreg_card_config config = {
		.vram = &vram, .vram_size = 2 << 20, .workers = 3,
		.doorbells = 1, .vectors = 2,
	};
	struct openreg_card *card;
	struct bus bus = { 0 };
	const char *error;
	unsigned int n;

	(void)state;
	openreg_engine_init(); /* before the counting: runs once, and may fail */
	for (n = 1;; n++) {
		fail_nth(n);
		card = openreg_card_new(&config, &bus_ops, &bus, &error);
		if (!failed())
			break;
		assert_null(card);
		assert_non_null(error);
	}
	assert_non_null(card);
	assert_null(error);
	openreg_card_free(card);
	/* The card, its locks, memory of three workers and the copier, the threads. */
	assert_true(n > 1 + 9 + 1 + 3 * 4 + 2 + 5);
}

static void enable(struct stepper *rig)
{
	stepper_enable(rig);
	assert_int_equal(client_reg(&rig->client, OPENREG_REG_STATUS), OPENREG_STATUS_READY);
}

static uint32_t submit(struct stepper *rig, const struct openreg_admin_cmd *cmd)
{
	uint32_t index = client_submit(&rig->client, cmd);
	struct openreg_admin_cpl cpl;
	unsigned int i;

	for (i = 0; i < 8; i++)
		stepper_step(rig, 0);
	return client_completed(&rig->client, index, &cpl) ? cpl.status : UINT32_MAX;
}

static void clean_up(struct stepper *rig)
{
	stepper_free_card(rig);
	free(rig->bus.mem);
	free(rig->vram);
	free(rig);
}

/* QUEUE_CREATE reports EDMA if a ring or page cannot be mapped. */
static void expect_command(struct stepper *rig,
			   const struct openreg_admin_cmd *cmd,
			   unsigned int least)
{
	unsigned int n;
	uint32_t status;

	for (n = 1;; n++) {
		fail_nth(n);
		status = submit(rig, cmd);
		if (!failed())
			break;
		assert_true(status == OPENREG_ADMIN_ENOMEM ||
			    (status == OPENREG_ADMIN_EDMA &&
			     cmd->opcode == OPENREG_ADMIN_QUEUE_CREATE));
	}
	assert_int_equal(status, OPENREG_ADMIN_OK);
	assert_true(n > least);
}

static void test_admin(void **state)
{
	struct openreg_admin_cmd cmd = cmd_context(1, 0);
	struct stepper *rig = stepper_new();
	unsigned int i;

	(void)state;
	enable(rig);
	expect_command(rig, &cmd, 1);
	for (i = 0; i < STEPPER_PLACES; i++) {
		cmd = stepper_bind_cmd(rig, 1, &stepper_places[i]);
		expect_command(rig, &cmd,
			       cmd.seg.kind == OPENREG_SEG_VRAM ? 1 : 2);
	}
	cmd = stepper_queue_cmd(rig, 1, 0);
	expect_command(rig, &cmd, 5);
	clean_up(rig);
}

/* A FILL by the copy thread allocates twice; if the second fails, the card is FATAL. */
static void test_late(void **state)
{
	const struct openreg_admin_cmd fill = cmd_fill(0, STEPPER_VRAM, 7);
	struct stepper *rig = stepper_new();

	(void)state;
	enable(rig);
	fail_nth(1);
	assert_int_equal(submit(rig, &fill), OPENREG_ADMIN_ENOMEM);
	assert_true(failed());
	fail_nth(2);
	assert_int_equal(submit(rig, &fill), UINT32_MAX);
	assert_true(failed());
	assert_int_equal(client_reg(&rig->client, OPENREG_REG_STATUS), OPENREG_STATUS_FATAL);
	client_write(&rig->client, OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
	admin_step(rig->card);
	enable(rig);
	assert_int_equal(submit(rig, &fill), OPENREG_ADMIN_OK);
	assert_int_equal(rig->vram[STEPPER_VRAM - 1], 7);
	clean_up(rig);
}

static void operand(struct pkt *p, uint64_t off, unsigned int dtype,
		    const int64_t *stride)
{
	pkt_operand(p, VRAM(off), dtype, stride);
}

static void make_vector(struct pkt *p, unsigned int dtype)
{
	const int64_t size[2] = { 40, 50 }, dense[2] = { 50, 1 };
	const int64_t kept[2] = { 0, 1 };

	pkt_begin(p, OPENREG_OP_VECTOR, 2, size);
	pkt_arg(p, 0, 1);
	operand(p, 0, dtype, dense);
	operand(p, 16384, OPENREG_F32, kept);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	pkt_instr(p, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, OPENREG_VNONE,
		  OPENREG_VNONE, 1);
}

static void make_matmul(struct pkt *p, unsigned int dtype)
{
	const int64_t size[4] = { 2, 20, 30, 10 };
	const int64_t d[4] = { 600, 30, 1, 0 }, a[4] = { 200, 10, 0, 1 };
	const int64_t b[4] = { 300, 0, 1, 30 };

	pkt_begin(p, OPENREG_OP_MATMUL, 4, size);
	operand(p, 0, dtype, d);
	operand(p, 16384, dtype, a);
	operand(p, 20480, dtype, b);
	pkt_imm(p, 0x3ff0000000000000);
	pkt_imm(p, 0);
}

/* k is so long that the card splits it and keeps partial sums. */
static void make_long_matmul(struct pkt *p, unsigned int dtype)
{
	const int64_t size[4] = { 1, 2, 2, 1 << 20 }, none[4] = { 0 };
	const int64_t d[4] = { 0, 2, 1, 0 };

	pkt_begin(p, OPENREG_OP_MATMUL, 4, size);
	operand(p, 0, dtype, d);
	operand(p, 4096, dtype, none);
	operand(p, 4096, dtype, none);
	pkt_imm(p, 0x3ff0000000000000);
	pkt_imm(p, 0);
}

static void make_softmax(struct pkt *p, unsigned int dtype)
{
	const int64_t size[2] = { 10, 100 }, dense[2] = { 1, 10 };

	pkt_begin(p, OPENREG_OP_SOFTMAX, 2, size);
	pkt_arg(p, 0, 1);
	operand(p, 0, dtype, dense);
	operand(p, 16384, dtype, dense);
}

static void make_index(struct pkt *p, unsigned int dtype)
{
	const int64_t size[2] = { 30, 40 }, dense[2] = { 40, 1 };
	const int64_t same[2] = { 0, 0 }, none[2] = { 0, 1 };

	pkt_begin(p, OPENREG_OP_INDEX, 2, size);
	pkt_arg(p, 0, OPENREG_INDEX_ADD);
	operand(p, 0, dtype, none);
	operand(p, 4096, dtype, dense);
	operand(p, 32760, OPENREG_I64, same);
	pkt_imm(p, 4);
	pkt_imm(p, 40);
}

static void make_sort(struct pkt *p, unsigned int dtype)
{
	const int64_t size[2] = { 2, 800 }, dense[2] = { 800, 1 };

	pkt_begin(p, OPENREG_OP_SORT, 2, size);
	pkt_arg(p, 0, 1);
	operand(p, 0, dtype, dense);
	operand(p, 13000, dtype, dense);
	operand(p, 16384, OPENREG_I64, dense);
	pkt_imm(p, 0);
	pkt_imm(p, 800);
}

static void window_imms(struct pkt *p)
{
	static const uint8_t imm[15] = { 1, 3, 3, 1, 8, 8, 1, 1, 1,
					 0, 1, 1, 1, 1, 1 };
	unsigned int i;

	for (i = 0; i < 15; i++)
		pkt_imm(p, imm[i]);
}

static void make_conv(struct pkt *p, unsigned int dtype)
{
	const int64_t size[7] = { 1, 1, 4, 3, 1, 8, 8 };
	const int64_t y[7] = { 0, 0, 64, 0, 0, 8, 1 };
	const int64_t x[7] = { 0, 0, 0, 64, 0, 8, 1 };
	const int64_t w[7] = { 0, 0, 27, 9, 0, 3, 1 };

	pkt_begin(p, OPENREG_OP_CONV, 7, size);
	operand(p, 0, dtype, y);
	operand(p, 8192, dtype, x);
	operand(p, 16384, dtype, w);
	window_imms(p);
}

static void make_pool(struct pkt *p, unsigned int dtype)
{
	const int64_t size[5] = { 1, 4, 1, 8, 8 };
	const int64_t dense[5] = { 256, 64, 64, 8, 1 };

	pkt_begin(p, OPENREG_OP_POOL, 5, size);
	pkt_arg(p, 0, OPENREG_POOL_AVG);
	pkt_arg(p, 1, OPENREG_POOL_BACKWARD);
	operand(p, 0, dtype, dense);
	operand(p, 8192, dtype, dense);
	window_imms(p);
	pkt_imm(p, 0);
}

/* Runs the packet; returns its fault code, or NONE. */
static uint32_t run(struct stepper *rig, struct pkt *p)
{
	struct queue *q = rig->card->queue[0];
	uint64_t completed = q->completed;
	unsigned int step;

	stepper_push(rig, 0, p->bytes);
	for (step = 0; q->completed == completed &&
		       q->state == OPENREG_QUEUE_RUNNING; step++)
		stepper_step(rig, step & 1);
	if (q->state == OPENREG_QUEUE_RUNNING)
		return OPENREG_FAULT_NONE;
	return client_fault(&rig->queue[0]).code;
}

static void recover(struct stepper *rig)
{
	struct openreg_admin_cmd cmd = cmd_reset(1, 0, rig->queue[0].tail,
						 rig->card->queue[0]->completed + 1);

	assert_int_equal(admin_queue_reset(rig->card, &cmd, 0).status, 0);
}

/*
 * Uses a new card each time, since a worker keeps its memory. If oneDNN fails to create a
 * MATMUL, the card's own loop may run the packet without a fault.
 */
static void expect_packet(struct pkt *p)
{
	bool short_of_memory = true, faulted = false;
	unsigned int n;

	for (n = 1; short_of_memory; n++) {
		struct stepper *rig = stepper_new();
		uint32_t code;

		stepper_make_queue(rig);
		stepper_fill(rig, 3);
		fail_nth(n);
		code = run(rig, p);
		short_of_memory = failed();
		if (code) {
			assert_true(short_of_memory);
			assert_int_equal(code, OPENREG_FAULT_MEMORY);
			faulted = true;
			recover(rig);
			assert_int_equal(run(rig, p), 0);
		}
		assert_true(code || !short_of_memory ||
			    p->bytes[0] == OPENREG_OP_MATMUL);
		assert_int_equal(atomic_load(&rig->card->extra), 0);
		assert_int_equal(atomic_load(&rig->card->ctx[1]->memory), 0);
		clean_up(rig);
	}
	assert_true(faulted);
}

static void test_packets(void **state)
{
	static void (*const make[])(struct pkt *p, unsigned int dtype) = {
		make_vector, make_matmul, make_long_matmul, make_softmax,
		make_index, make_sort, make_conv, make_pool,
	};
	static const uint8_t dtypes[] = { OPENREG_F32, OPENREG_F16 };
	struct pkt p;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < sizeof(make) / sizeof(*make); i++) {
		for (k = 0; k < sizeof(dtypes); k++) {
			make[i](&p, dtypes[k]);
			expect_packet(&p);
		}
	}
}

static void *save(struct stepper *rig, size_t *len)
{
	openreg_card_pause_begin(rig->card, NULL, NULL);
	assert_true(openreg_card_is_paused(rig->card));
	return openreg_card_save(rig->card, len);
}

static void test_state(void **state)
{
	struct stepper *rig = stepper_new();
	const char *error;
	unsigned int n;
	void *blob;
	size_t len;

	(void)state;
	stepper_make_queue(rig);
	for (n = 1;; n++) {
		fail_nth(n);
		blob = save(rig, &len);
		if (!failed())
			break;
		assert_null(blob);
	}
	assert_non_null(blob);
	for (n = 1;; n++) {
		stepper_free_card(rig);
		stepper_make_card(rig);
		openreg_card_pause_begin(rig->card, NULL, NULL);
		error = NULL;
		fail_nth(n);
		if (!openreg_card_load(rig->card, blob, len, &error))
			break;
		assert_true(failed());
		assert_non_null(error);
		assert_int_equal(rig->bus.mappings, 0);
		assert_int_equal(rig->card->nruns, 0);
	}
	assert_false(failed());
	/* A context and its lock, segments, page lists, a queue and its four mappings. */
	assert_int_equal(n - 1, 2 + 9 + 4 + 1 + 4);
	free(blob);
	clean_up(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new),
		cmocka_unit_test(test_admin),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_packets),
		cmocka_unit_test(test_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
