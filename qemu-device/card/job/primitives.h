/* SPDX-License-Identifier: MIT */
/*
 * oneDNN's primitives. Each thread has a cache of bounded size, which makes a primitive
 * at the first use of its key.
 */
#ifndef OPENREG_PRIMITIVES_H
#define OPENREG_PRIMITIVES_H

#include <oneapi/dnnl/dnnl.h>

#include "work.h"

#define OPENREG_KEY_MAX 40
#define OPENREG_PRIMITIVE_ARGS 4

/* The first word of a key. */
enum openreg_primitive_kind {
	OPENREG_PRIMITIVE_MATMUL,
	OPENREG_PRIMITIVE_CONV,
	OPENREG_PRIMITIVE_CONV_PACK,
};

struct openreg_primitive {
	int64_t key[OPENREG_KEY_MAX];
	uint64_t hash;
	uint64_t used; /* time of the last use; 0: the entry is free */
	size_t scratchpad;
	size_t packed; /* bytes of the operand in the layout that oneDNN chooses */
	dnnl_primitive_t primitive; /* NULL: oneDNN has no fast implementation */
	unsigned int args;
	int id[OPENREG_PRIMITIVE_ARGS + 1]; /* DNNL_ARG_... */
	dnnl_memory_t memory[OPENREG_PRIMITIVE_ARGS + 1];
};

/* Fills an entry for its key. Returns false if oneDNN fails or memory is short. */
typedef bool openreg_primitive_maker(struct openreg_primitive *p,
				     dnnl_engine_t engine);

enum openreg_primitive_result {
	OPENREG_PRIMITIVE_DONE,
	OPENREG_PRIMITIVE_UNSUPPORTED, /* oneDNN has no fast implementation */
	OPENREG_PRIMITIVE_FAILED, /* oneDNN failed, or memory is short */
};

/*
 * Runs the primitive of a key. data: the operands, in the order of the maker's calls of
 * openreg_primitive_arg(); NULL: make the primitive without running it. Sets *packed,
 * unless packed is NULL.
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
 * Returns the first implementation, from pd on, that is not slow. If oneDNN has none,
 * destroys pd and returns NULL. status: the result of creating pd. *failed: memory is
 * short, so a later try may succeed.
 */
dnnl_primitive_desc_t openreg_primitive_fast(dnnl_primitive_desc_t pd,
					     dnnl_status_t status, bool *failed);
/* Returns NULL if memory is short. */
dnnl_primitive_attr_t openreg_primitive_attr(bool accumulate);
bool openreg_primitive_arg(struct openreg_primitive *p, dnnl_engine_t engine,
			   int id, const_dnnl_memory_desc_t md);
/* Call after openreg_primitive_arg() for all operands. Returns false as a maker does. */
bool openreg_primitive_create(struct openreg_primitive *p, dnnl_engine_t engine,
			      dnnl_primitive_desc_t pd);
dnnl_data_type_t openreg_primitive_type(int64_t dtype);
/* Makes a primitive that copies from one layout to the other. */
bool openreg_primitive_reorder(struct openreg_primitive *p, dnnl_engine_t engine,
			       const_dnnl_memory_desc_t from,
			       const_dnnl_memory_desc_t to);

#endif
