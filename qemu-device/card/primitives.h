/* SPDX-License-Identifier: MIT */
/*
 * oneDNN's primitives, made once for a key in a bounded cache that belongs to one
 * thread.
 */
#ifndef OPENREG_PRIMITIVES_H
#define OPENREG_PRIMITIVES_H

#include <oneapi/dnnl/dnnl.h>

#include "engine_internal.h"

#define OPENREG_KEY_MAX 40
#define OPENREG_PRIMITIVE_ARGS 4

/* What a primitive is made for; the first word says of what kind it is. */
enum openreg_primitive_kind {
	OPENREG_PRIMITIVE_MATMUL,
	OPENREG_PRIMITIVE_CONV,
	OPENREG_PRIMITIVE_CONV_PACK,
};

struct openreg_primitive {
	int64_t key[OPENREG_KEY_MAX];
	uint64_t hash;
	uint64_t used; /* 0: the entry is free */
	size_t scratchpad;
	size_t packed; /* bytes of the operand whose order oneDNN chooses */
	dnnl_primitive_t primitive; /* NULL: oneDNN has no fast way */
	unsigned int args;
	int id[OPENREG_PRIMITIVE_ARGS + 1]; /* DNNL_ARG_... */
	dnnl_memory_t memory[OPENREG_PRIMITIVE_ARGS + 1];
};

/* Fills an entry for its key; false if the library or memory fails. */
typedef bool openreg_primitive_maker(struct openreg_primitive *p,
				     dnnl_engine_t engine);

enum openreg_primitive_result {
	OPENREG_PRIMITIVE_DONE,
	OPENREG_PRIMITIVE_UNSUPPORTED, /* oneDNN has no fast way */
	OPENREG_PRIMITIVE_FAILED, /* the library or memory failed */
};

/*
 * Runs the primitive of a key on these operands, in the order in which it was
 * made. data NULL: makes it only. packed may be NULL.
 */
enum openreg_primitive_result
openreg_primitive_run(struct openreg_primitives **cache, const int64_t *key,
		      openreg_primitive_maker *make, void *const *data,
		      size_t *packed);

/* Does this host have the instructions, and may oneDNN use them? */
static inline bool openreg_primitive_isa(dnnl_cpu_isa_t isa)
{
	return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

/* For makers. */

/*
 * The first way from pd on that is not a slow one, or NULL, and then pd is no
 * more. status is that of pd's making. *failed: memory is short, which says
 * nothing of another time.
 */
dnnl_primitive_desc_t openreg_primitive_fast(dnnl_primitive_desc_t pd,
					     dnnl_status_t status, bool *failed);
/* NULL: memory is short. */
dnnl_primitive_attr_t openreg_primitive_attr(bool accumulate);
bool openreg_primitive_arg(struct openreg_primitive *p, dnnl_engine_t engine,
			   int id, const_dnnl_memory_desc_t md);
/* After its arguments; false as a maker. */
bool openreg_primitive_create(struct openreg_primitive *p, dnnl_engine_t engine,
			      dnnl_primitive_desc_t pd);
dnnl_data_type_t openreg_primitive_type(int64_t dtype);
/* Copies from one order to the other. Takes the descriptions. */
bool openreg_primitive_reorder(struct openreg_primitive *p, dnnl_engine_t engine,
			       const_dnnl_memory_desc_t from,
			       const_dnnl_memory_desc_t to);

#endif
