// SPDX-License-Identifier: MIT
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench-native.h"
#include "openreg_isa.h"

#define RUNS 20
#define STEPS 4

struct step {
	dnnl_primitive_t primitive;
	dnnl_exec_arg_t arg[3];
	int args;
};

struct native {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	struct step step[STEPS];
	int steps;
};

static void must(dnnl_status_t status)
{
	if (status != dnnl_success)
		abort();
}

static dnnl_data_type_t type_of(unsigned int dtype)
{
	return dtype == OPENREG_F32    ? dnnl_f32
	       : dtype == OPENREG_BF16 ? dnnl_bf16
				       : dnnl_f16;
}

static struct native native_new(int threads)
{
	struct native nat = { 0 };

	omp_set_num_threads(threads);
	must(dnnl_engine_create(&nat.engine, dnnl_cpu, 0));
	must(dnnl_stream_create(&nat.stream, nat.engine,
				dnnl_stream_default_flags));
	return nat;
}

static dnnl_memory_desc_t described(int ndim, const dnnl_dims_t size,
				    unsigned int dtype, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md;

	must(dnnl_memory_desc_create_with_tag(&md, ndim, size, type_of(dtype),
					      tag));
	return md;
}

static dnnl_memory_t filled(const struct native *nat,
			    const_dnnl_memory_desc_t md)
{
	dnnl_memory_t memory;
	void *data;

	must(dnnl_memory_create(&memory, md, nat->engine,
				DNNL_MEMORY_ALLOCATE));
	must(dnnl_memory_get_data_handle(memory, &data));
	memset(data, 0x3c, dnnl_memory_desc_get_size(md));
	return memory;
}

static struct step *add_step(struct native *nat, dnnl_primitive_desc_t pd)
{
	struct step *step = &nat->step[nat->steps++];

	must(dnnl_primitive_create(&step->primitive, pd));
	return step;
}

static void add_arg(struct step *step, int arg, dnnl_memory_t memory)
{
	step->arg[step->args++] = (dnnl_exec_arg_t){ arg, memory };
}

static void add_reorder(struct native *nat, dnnl_memory_t from,
			dnnl_memory_t to)
{
	const_dnnl_memory_desc_t source, destination;
	dnnl_primitive_desc_t pd;
	struct step *step;

	must(dnnl_memory_get_memory_desc(from, &source));
	must(dnnl_memory_get_memory_desc(to, &destination));
	must(dnnl_reorder_primitive_desc_create(&pd, source, nat->engine,
						destination, nat->engine,
						NULL));
	step = add_step(nat, pd);
	add_arg(step, DNNL_ARG_FROM, from);
	add_arg(step, DNNL_ARG_TO, to);
	dnnl_primitive_desc_destroy(pd);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double best(const struct native *nat)
{
	double least = 1e9, t;
	int run, i;

	for (run = 0; run < RUNS; run++) {
		t = seconds();
		for (i = 0; i < nat->steps; i++)
			must(dnnl_primitive_execute(nat->step[i].primitive,
						    nat->stream,
						    nat->step[i].args,
						    nat->step[i].arg));
		must(dnnl_stream_wait(nat->stream));
		t = seconds() - t;
		least = t < least ? t : least;
	}
	return least;
}

static void native_free(struct native *nat)
{
	while (nat->steps--)
		dnnl_primitive_destroy(nat->step[nat->steps].primitive);
	dnnl_stream_destroy(nat->stream);
	dnnl_engine_destroy(nat->engine);
}

double native_matmul(unsigned int dtype, int64_t n, int threads)
{
	static const int args[3] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,
				     DNNL_ARG_DST };
	const dnnl_dims_t size = { n, n };
	struct native nat = native_new(threads);
	dnnl_memory_desc_t md = described(2, size, dtype, dnnl_ab);
	dnnl_memory_t memory[3];
	dnnl_primitive_desc_t pd;
	struct step *step;
	double least;
	int i;

	must(dnnl_matmul_primitive_desc_create(&pd, nat.engine, md, md, NULL,
					       md, NULL));
	step = add_step(&nat, pd);
	for (i = 0; i < 3; i++) {
		memory[i] = filled(&nat, md);
		add_arg(step, args[i], memory[i]);
	}
	least = best(&nat);
	for (i = 0; i < 3; i++)
		dnnl_memory_destroy(memory[i]);
	dnnl_memory_desc_destroy(md);
	dnnl_primitive_desc_destroy(pd);
	native_free(&nat);
	return least;
}

double native_conv(unsigned int dtype, const int64_t size[4], int64_t taps,
		   int threads)
{
	static const int args[3] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,
				     DNNL_ARG_DST };
	static const int queries[3] = { dnnl_query_src_md,
					dnnl_query_weights_md,
					dnnl_query_dst_md };
	const dnnl_dims_t image = { size[0], size[1], size[2], size[3] };
	const dnnl_dims_t weight = { size[1], size[1], taps, taps };
	const dnnl_dim_t *shape[3] = { image, weight, image };
	const dnnl_dims_t ones = { 1, 1 }, none = { 0 };
	const dnnl_dims_t pad = { taps / 2, taps / 2 };
	struct native nat = native_new(threads);
	dnnl_memory_desc_t plain[3], any[3];
	dnnl_memory_t given[3], used[3];
	dnnl_primitive_desc_t pd;
	struct step *step;
	double least;
	int i;

	for (i = 0; i < 3; i++) {
		plain[i] = described(4, shape[i], dtype, dnnl_abcd);
		any[i] = described(4, shape[i], dtype, dnnl_format_tag_any);
	}
	must(dnnl_convolution_forward_primitive_desc_create(
		&pd, nat.engine, dnnl_forward_training, dnnl_convolution_direct,
		any[0], any[1], NULL, any[2], ones, none, pad, pad, NULL));
	for (i = 0; i < 3; i++) {
		given[i] = filled(&nat, plain[i]);
		used[i] = filled(&nat, dnnl_primitive_desc_query_md(
					       pd, queries[i], 0));
	}
	add_reorder(&nat, given[0], used[0]);
	add_reorder(&nat, given[1], used[1]);
	step = add_step(&nat, pd);
	for (i = 0; i < 3; i++)
		add_arg(step, args[i], used[i]);
	add_reorder(&nat, used[2], given[2]);
	least = best(&nat);
	for (i = 0; i < 3; i++) {
		dnnl_memory_destroy(given[i]);
		dnnl_memory_destroy(used[i]);
		dnnl_memory_desc_destroy(plain[i]);
		dnnl_memory_desc_destroy(any[i]);
	}
	dnnl_primitive_desc_destroy(pd);
	native_free(&nat);
	return least;
}
