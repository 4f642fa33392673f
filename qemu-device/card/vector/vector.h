/* SPDX-License-Identifier: MIT */
/*
 * VECTOR: the engine turns a checked program into a plan and runs it tile by tile.
 *
 * The plan's dimensions are those of the packet without the ones of size 1, sorted and
 * merged. Dimension 0 is the innermost. A tile is a block of at most `points` points,
 * which is OPENREG_TILE, or less where a point takes long. It has the whole dimensions
 * below `split` and up to `chunk` coordinates of dimension `split`.
 *
 * With a reduction the dimensions are in two groups: the first `inner_dims` are either
 * all folded or all kept, the others the opposite.
 */
#ifndef OPENREG_VECTOR_H
#define OPENREG_VECTOR_H

#include "job/work.h"
#include "kernels/kernels.h"
#include "vector_ops.h"

#define OPENREG_TILE 1024
/* One more than the registers, so that no kernel needs to widen elements in place. */
#define OPENREG_TILE_BUFFERS (OPENREG_REGS + 1)

enum openreg_step_kind {
	OPENREG_STEP_LOAD,
	OPENREG_STEP_STORE,
	OPENREG_STEP_IMM,
	OPENREG_STEP_INDEX,
	OPENREG_STEP_RANDOM,
	OPENREG_STEP_KERNEL,
};

struct openreg_step {
	uint8_t kind; /* enum openreg_step_kind */
	uint8_t dst, a, b, c; /* buffers */
	uint8_t width; /* bytes of an element of the register read or written */
	uint8_t access; /* index of struct openreg_access */
	bool alias; /* LOAD: later steps may read the operand instead of a buffer */
	bool once; /* IMM: no other step writes the buffer */
	bool one; /* all elements are the same, so compute only one */
	union {
		openreg_kernel *kernel;
		openreg_load_fn *load;
		openreg_store_fn *store;
		openreg_random_fn *random;
	};
	union {
		uint64_t imm; /* bit pattern */
		struct openreg_philox philox;
	};
};

/* An operand in the plan's dimensions, or a linear function of the coordinates. */
struct openreg_access {
	uintptr_t base; /* address, or value, where all coordinates are 0 */
	int64_t stride[OPENREG_DIMS_MAX]; /* elements, in the plan's order */
	int64_t esize; /* bytes of an element; 1 for a function */
	bool stored; /* a STORE writes it */
	unsigned int run_dims; /* dimensions below this form one run of stride[0] */
	bool across; /* tiles have two dimensions; the second is the denser one */
	int64_t run; /* points of such a run, if run_dims <= split */
};

#define OPENREG_ACCESS_MAX (OPENREG_OPERANDS_MAX + OPENREG_DIMS_MAX + 2)

struct openreg_reduction {
	uint8_t op; /* enum openreg_vop, 0: no reduction */
	uint8_t type;
	uint8_t buffer;
	bool folds_inner; /* the inner group of dimensions is the folded one */
	bool empty; /* the program never runs: results are neutral elements */
	bool scaled;
	double scale;
	struct openreg_access *value, *index; /* or NULL */
	struct openreg_access *position; /* row-major in the folded dimensions */
	uint8_t value_dtype;
	int64_t units; /* groups of outputs that are folded together */
	int64_t unit_outputs; /* outputs of a unit, at most */
	int64_t unit_tiles;
	int64_t chunks; /* parts of a unit's tiles */
	int64_t chunk_tiles;
	int64_t pieces; /* phases that a chunk needs */
	int64_t group_units; /* units of a group; their chunks run in the same phases */
	int64_t slice_units; /* units of a slice that folds whole ones, or merges */
	unsigned int unit_lo, unit_hi; /* digits lo .. hi - 1 number the units */
	unsigned int tile_lo, tile_hi; /* and these the tiles of a unit */
	union openreg_acc *partial; /* [unit of a group][chunk][unit_outputs] */
	int64_t *partial_index;
};

struct openreg_plan {
	const struct openreg_kernels *kernels;
	unsigned int ndim;
	unsigned int inner_dims; /* ndim without a reduction */
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int split;
	int64_t chunk;
	int64_t digits[OPENREG_DIMS_MAX]; /* tiles along a dimension, from split up */
	int64_t volume; /* product of the sizes below split */
	int64_t points; /* points of a tile, at most */
	int64_t tiles;
	int64_t slice_tiles;
	double tile_ns; /* estimate */
	unsigned int nsteps, naccess;
	struct openreg_step step[OPENREG_INSTRS_MAX];
	struct openreg_access access[OPENREG_ACCESS_MAX];
	struct openreg_reduction red;
};

/* The position of a tile. */
struct openreg_tile {
	int64_t at[OPENREG_DIMS_MAX]; /* its digits, from split up */
	int64_t chunk; /* its coordinates along dimension split */
	int64_t n; /* points */
};

struct openreg_verdict openreg_vector_check(struct openreg_args *args);
unsigned int openreg_vector_form(unsigned int op);

/* Fills a plan. Returns false if the packet has no work. */
bool openreg_plan_make(struct openreg_plan *plan,
		       const struct openreg_args *args);
void openreg_plan_dims(struct openreg_plan *plan,
		       const struct openreg_args *args);
void openreg_plan_steps(struct openreg_plan *plan,
			const struct openreg_args *args);
/* Call after openreg_plan_steps() and openreg_plan_dims(). */
void openreg_plan_shortcuts(struct openreg_plan *plan,
			    const struct openreg_args *args);

/* Renumbers the buffers, so that the steps use as few as possible. */
void openreg_plan_buffers(struct openreg_plan *plan);

/* Moves to tile number i of those that the digits lo .. hi - 1 number. */
void openreg_tile_seek(const struct openreg_plan *plan,
		       struct openreg_tile *tile, unsigned int lo,
		       unsigned int hi, int64_t i);
/* Moves to the next of these tiles; wraps around after the last. */
void openreg_tile_next(const struct openreg_plan *plan,
		       struct openreg_tile *tile, unsigned int lo,
		       unsigned int hi);
uintptr_t openreg_tile_address(const struct openreg_plan *plan,
			       const struct openreg_tile *tile,
			       const struct openreg_access *access);

/* The buffers of a worker while it runs a slice. */
struct openreg_tile_state {
	unsigned char *buffer[OPENREG_TILE_BUFFERS];
	const void *reg[OPENREG_TILE_BUFFERS]; /* a buffer, or memory */
	int64_t filled; /* points that buffers of `once` steps hold */
};

void openreg_tile_init(struct openreg_tile_state *state, void *memory);
#define OPENREG_TILE_MEMORY ((size_t)OPENREG_TILE_BUFFERS * OPENREG_TILE * 8)
/* Holds the buffers, accumulators, positions of extremes, and columns of short rows. */
#define OPENREG_VECTOR_MEMORY (OPENREG_TILE_MEMORY + OPENREG_TILE * 24)
void openreg_tile_run(const struct openreg_plan *plan,
		      const struct openreg_tile *tile,
		      struct openreg_tile_state *state);

/* Transposes: the columns of dst become the lines of src, n numbers of 4 bytes each. */
void openreg_transpose(uintptr_t dst, uintptr_t dst_step, uintptr_t src,
		       uintptr_t src_step, int64_t lines, int64_t n);

/* Stores a register to memory along the dimensions lo .. hi of a tile. */
void openreg_tile_store(const struct openreg_plan *plan,
			const struct openreg_tile *tile,
			const struct openreg_access *access, unsigned int lo,
			unsigned int hi, openreg_store_fn *fn, const void *reg,
			unsigned int width);

int64_t openreg_inner_volume(const struct openreg_plan *plan);

/* A phase: it runs a piece of the chunks of some units, or merges their results. */
struct openreg_stage {
	int64_t first, units;
	int64_t piece;
	bool merges;
};

struct openreg_stage openreg_reduce_stage(const struct openreg_reduction *red,
					  unsigned int phase);
bool openreg_reduce_setup(struct openreg_job *job, struct openreg_plan *plan);
uint32_t openreg_reduce_slices(const struct openreg_plan *plan,
			       unsigned int phase);
void openreg_reduce_run(const struct openreg_plan *plan, unsigned int phase,
			uint32_t slice, void *memory);

extern const struct openreg_engine openreg_vector_engine;

#endif
