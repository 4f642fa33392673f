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
 *
 * The steps are in stages. All stages but the last end with folds. A row of points has one
 * value of each result of a fold, and of what is computed from results alone. Such values
 * have slots: an array with an element for each row, and, if steps of points need it, an
 * array with an element for each point. Slot k is the result of fold k.
 */
#ifndef OPENREG_VECTOR_H
#define OPENREG_VECTOR_H

#include "job/work.h"
#include "kernels/kernels.h"
#include "vector_ops.h"

#define OPENREG_TILE 1024
#define OPENREG_LINE 64 /* bytes of the host's cache lines */
/* One more than the registers, so that no kernel needs to widen elements in place. */
#define OPENREG_TILE_BUFFERS (OPENREG_REGS + 1)
/* Numbers of buffers, until openreg_plan_buffers() gives them fewer. */
#define OPENREG_PLAN_BUFFERS 32
#define OPENREG_SLOTS (OPENREG_REDUCTIONS_MAX + OPENREG_INSTRS_MAX)
/* A step of points reads slot k as buffer OPENREG_PLAN_BUFFERS + k. */
#define OPENREG_STEP_BUFFERS (OPENREG_PLAN_BUFFERS + OPENREG_SLOTS)

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
	uint8_t dst, a, b, c; /* buffers; slots for a step of rows */
	uint8_t width; /* bytes of an element of the register read or written */
	uint8_t access; /* index of struct openreg_access */
	bool alias; /* LOAD: later steps may read the operand instead of a buffer */
	bool once; /* no other step writes the buffer, and all tiles have the same values */
	bool one; /* all elements are the same, so compute only one */
	uint8_t instr; /* its number in the packet */
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
	bool result; /* of a reduction, or a position */
	unsigned int run_dims; /* dimensions below this form one run of stride[0] */
	bool across; /* tiles have two dimensions; the second is the denser one */
	int64_t run; /* points of such a run, if run_dims <= split */
};

#define OPENREG_ACCESS_MAX (OPENREG_OPERANDS_MAX + OPENREG_DIMS_MAX + 2)

/* A reduction instruction. */
struct openreg_fold {
	uint8_t op; /* enum openreg_vop */
	uint8_t type;
	uint8_t buffer;
	uint8_t value_dtype;
	bool scaled;
	bool kept; /* a later stage may read the result */
	double scale;
	struct openreg_access *value, *index; /* or NULL */
};

struct openreg_stage {
	unsigned int row, row_end; /* its steps of rows */
	unsigned int step, end; /* its steps of points */
	unsigned int fold, fold_end;
};

/* How the outputs are cut. */
struct openreg_reduction {
	unsigned int nfolds; /* 0: no reduction */
	struct openreg_fold fold[OPENREG_REDUCTIONS_MAX];
	unsigned int nrows;
	struct openreg_step row[OPENREG_INSTRS_MAX]; /* run once for each row */
	bool whole[OPENREG_SLOTS]; /* steps of points read more than the first element */
	bool folds_inner; /* the inner group of dimensions is the folded one */
	bool empty; /* the program never runs: results are neutral elements */
	struct openreg_access *position; /* row-major in the folded dimensions, or NULL */
	int64_t units; /* groups of outputs that are folded together */
	int64_t unit_outputs; /* outputs of a unit, at most */
	int64_t unit_tiles;
	int64_t chunks; /* parts of a unit's tiles */
	int64_t chunk_tiles;
	int64_t pieces; /* phases that a chunk needs in one stage */
	int64_t group_units; /* units of a group; their chunks run in the same phases */
	int64_t slice_units; /* units of a slice that folds whole ones, or merges */
	unsigned int unit_lo, unit_hi; /* digits lo .. hi - 1 number the units */
	unsigned int tile_lo, tile_hi; /* and these the tiles of a unit */
	int64_t partials; /* [unit of a group][chunk][unit_outputs] */
	union openreg_acc *partial; /* [fold of a stage][partials] */
	int64_t *partial_index;
	union openreg_acc *results; /* [fold][unit of a group][unit_outputs] */
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
	/* Cache lines of the next tile that a step fetches of each operand, as if of F32; or 0. */
	unsigned int lines_ahead;
	unsigned int nsteps, naccess, nstages;
	struct openreg_stage stage[OPENREG_STAGES_MAX];
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

/* A worker does not stop within a tile: returns how many points it may have. */
int64_t openreg_plan_points(const struct openreg_plan *plan,
			    const struct openreg_args *args);
void openreg_plan_estimate(struct openreg_plan *plan,
			   const struct openreg_args *args);

/* Moves steps whose values are those of rows from the steps of points. */
void openreg_plan_rows(struct openreg_plan *plan);

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
	const void *reg[OPENREG_STEP_BUFFERS]; /* a buffer, or memory */
	/* Points that buffers of `once` steps hold. */
	int64_t filled[OPENREG_STAGES_MAX];
	/* Memory that the next tile accesses, if it continues where this one ends. */
	uintptr_t ahead[OPENREG_OPERANDS_MAX];
	unsigned int naheads;
};

void openreg_tile_init(struct openreg_tile_state *state, void *memory);
#define OPENREG_TILE_MEMORY ((size_t)OPENREG_TILE_BUFFERS * OPENREG_TILE * 8)
/* Elements beyond the end of a spread value that may be written. */
#define OPENREG_SPREAD_MORE 16
#define OPENREG_SPREAD_MEMORY ((OPENREG_TILE + OPENREG_SPREAD_MORE) * 8)
/*
 * For the buffers, columns of short rows, accumulators and positions of extremes, values
 * of rows, and spread values. Few programs touch much of it.
 */
#define OPENREG_VECTOR_MEMORY                                                  \
	(OPENREG_TILE_MEMORY + OPENREG_TILE * 8 +                              \
	 OPENREG_REDUCTIONS_MAX * OPENREG_TILE * 16 +                          \
	 OPENREG_INSTRS_MAX * OPENREG_TILE * 8 +                               \
	 OPENREG_SLOTS * OPENREG_SPREAD_MEMORY)
void openreg_tile_run(const struct openreg_plan *plan, unsigned int stage,
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

/* The same for a LOAD or an INDEX of a step, to dst. */
void openreg_tile_load(const struct openreg_plan *plan,
		       const struct openreg_tile *tile,
		       const struct openreg_step *step, unsigned int lo,
		       unsigned int hi, void *dst);

int64_t openreg_inner_volume(const struct openreg_plan *plan);

/* Numbers the units of a reduction. Call after openreg_plan_dims(). */
void openreg_plan_units(struct openreg_plan *plan);
bool openreg_reduce_setup(struct openreg_job *job, struct openreg_plan *plan);

/* A phase: it runs a piece of the chunks of some units, or merges their results. */
struct openreg_phase {
	int64_t first, units;
	unsigned int stage;
	int64_t piece;
	bool merges;
};

struct openreg_phase openreg_reduce_phase(const struct openreg_plan *plan,
					  unsigned int phase);
uint32_t openreg_reduce_slices(const struct openreg_plan *plan,
			       unsigned int phase);
void openreg_reduce_run(const struct openreg_plan *plan, unsigned int phase,
			uint32_t slice, void *memory);

/* A worker's part of a reduction. */
struct openreg_folder {
	const struct openreg_plan *plan;
	struct openreg_tile_state state;
	struct openreg_tile tile;
	int64_t outputs; /* of the unit */
	union openreg_acc *accs; /* [fold][OPENREG_TILE] */
	int64_t *indices; /* [fold][OPENREG_TILE] */
	uint64_t *rows; /* [step of rows][OPENREG_TILE] */
	unsigned char *spread; /* [slot][OPENREG_SPREAD_MEMORY] */
	const void *slot[OPENREG_SLOTS]; /* an element for each row */
	void *columns;
};

static inline union openreg_acc *openreg_accs(const struct openreg_folder *f,
					      unsigned int fold)
{
	return f->accs + (size_t)fold * OPENREG_TILE;
}

/* Folds the registers of a tile. */
void openreg_fold_tile(struct openreg_folder *f, unsigned int fold);
union openreg_acc openreg_fold_neutral(const struct openreg_fold *fold);
/* Merges a partial result into the accumulators. index may be NULL. */
void openreg_fold_merge(struct openreg_folder *f, unsigned int fold,
			const union openreg_acc *partial, const int64_t *index);

/* Makes the accumulators a result: converts, stores and keeps them. */
void openreg_result_finish(struct openreg_folder *f, unsigned int fold);
/* Lets steps read the result of a fold, as accumulators in the register type. */
void openreg_result_keep(struct openreg_folder *f, unsigned int fold);
/* Runs the steps of rows of a stage, with or without the STOREs. */
void openreg_rows_run(struct openreg_folder *f, unsigned int stage, bool stores);

extern const struct openreg_engine openreg_vector_engine;

#endif
