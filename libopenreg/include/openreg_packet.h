/* SPDX-License-Identifier: MIT */
/*
 * Packet builders. A program may include this header or openreg.h first: each includes
 * the other. All builders are inline, and only store the packet's words.
 *
 * - openreg_push_*() encodes one packet in the ring. It returns 0 or an error of
 *   openreg_queue_begin(). openreg_queue_submit() then starts the packet.
 * - openreg_pack() encodes a packet in other memory. It is aligned to 64 bytes and has
 *   room for openreg_command_slots() slots.
 *
 * The card checks every packet, so the builders check only the limits of the format.
 */
#ifndef OPENREG_PACKET_H
#define OPENREG_PACKET_H

#include "openreg.h"
#include "openreg_encode.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* One operand of a packet: a strided view of device memory. */
struct openreg_tensor {
	uint64_t address; /* of the element at index 0 in every dimension */
	const int64_t *stride; /* ndim strides in elements; NULL: dense, row-major */
	uint32_t dtype; /* enum openreg_dtype */
	uint32_t reserved; /* 0 */
};

/* The fields of any packet but NOP, as openreg_isa.h describes them. */
struct openreg_command {
	uint8_t opcode; /* enum openreg_opcode */
	uint8_t ndim; /* 0..OPENREG_DIMS_MAX */
	uint8_t nops; /* 0..OPENREG_OPERANDS_MAX */
	uint8_t nimm; /* 0..OPENREG_IMMS_MAX */
	uint8_t ninstr; /* 0..OPENREG_INSTRS_MAX */
	uint8_t reserved[3]; /* 0 */
	uint8_t arg[4]; /* meaning depends on the opcode */
	uint32_t cookie; /* any value; a fault reports it */
	const int64_t *size; /* iteration space, ndim sizes */
	const struct openreg_tensor *ops; /* nops operands */
	const uint64_t *imm; /* nimm immediates: openreg_imm_f64(), openreg_imm_i64() */
	const struct openreg_instr *instr; /* ninstr instructions */
};

static inline uint64_t openreg_imm_f64(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline uint64_t openreg_imm_i64(int64_t value)
{
	return OPENREG_CAST_(uint64_t, value);
}

static inline struct openreg_tensor
openreg_view(uint64_t address, uint32_t dtype, const int64_t *stride)
{
	struct openreg_tensor t;

	t.address = address;
	t.stride = stride;
	t.dtype = dtype;
	t.reserved = 0;
	return t;
}

/*
 * One VECTOR instruction. Unused fields are 0. A reduction sets the operands that it
 * leaves out to OPENREG_VNONE; dst is the register that has its value in later stages.
 */
static inline struct openreg_instr
openreg_ins(unsigned int op, unsigned int type, unsigned int dst,
	    unsigned int a, unsigned int b, unsigned int c, unsigned int aux)
{
	struct openreg_instr i;

	i.op = OPENREG_CAST_(uint8_t, op);
	i.type = OPENREG_CAST_(uint8_t, type);
	i.dst = OPENREG_CAST_(uint8_t, dst);
	i.a = OPENREG_CAST_(uint8_t, a);
	i.b = OPENREG_CAST_(uint8_t, b);
	i.c = OPENREG_CAST_(uint8_t, c);
	i.aux = OPENREG_CAST_(uint16_t, aux);
	return i;
}

/* Bytes of one element; 0 for an unknown dtype. */
static inline unsigned int openreg_dtype_size(unsigned int dtype)
{
	switch (dtype) {
	case OPENREG_F64:
	case OPENREG_I64:
		return 8;
	case OPENREG_F32:
	case OPENREG_I32:
		return 4;
	case OPENREG_F16:
	case OPENREG_BF16:
	case OPENREG_I16:
		return 2;
	case OPENREG_I8:
	case OPENREG_U8:
	case OPENREG_BOOL:
	case OPENREG_F8E4M3FN:
	case OPENREG_F8E5M2:
	case OPENREG_F8E4M3FNUZ:
	case OPENREG_F8E5M2FNUZ:
	case OPENREG_F8E8M0FNU:
		return 1;
	default:
		return 0;
	}
}

/* Length of cmd in slots; 0 if cmd is beyond a limit of the format. */
static inline unsigned int
openreg_command_slots(const struct openreg_command *cmd)
{
	if (cmd->ndim > OPENREG_DIMS_MAX || cmd->nops > OPENREG_OPERANDS_MAX ||
	    cmd->nimm > OPENREG_IMMS_MAX || cmd->ninstr > OPENREG_INSTRS_MAX)
		return 0;
	return openreg_packet_slots(cmd->ndim, cmd->nops, cmd->nimm, cmd->ninstr);
}

/*
 * Encode any command within the limits: openreg_command_slots(cmd) is not 0. Returns the
 * packet's length in slots.
 */
static inline unsigned int openreg_pack(void *slot, const struct openreg_command *cmd)
{
	openreg_encode(slot, cmd->opcode, cmd->cookie);
	for (unsigned int i = 0; i < 4; i++)
		openreg_encode_arg(slot, i, cmd->arg[i]);
	openreg_encode_space(slot, cmd->ndim, cmd->size);
	for (unsigned int i = 0; i < cmd->nops; i++)
		openreg_encode_operand(slot, cmd->ops[i].address,
				       cmd->ops[i].dtype, cmd->ops[i].stride);
	openreg_encode_imm(slot, cmd->imm, cmd->nimm);
	openreg_encode_instr(slot, cmd->instr, cmd->ninstr);
	return openreg_command_slots(cmd);
}

/* -EINVAL: the command is beyond a limit of the format. */
static inline int openreg_push(struct openreg_queue *queue,
			       const struct openreg_command *cmd)
{
	void *slot;
	int ret = openreg_queue_begin(queue, openreg_command_slots(cmd), &slot, NULL);

	if (ret == 0)
		openreg_pack(slot, cmd);
	return ret;
}

static inline int openreg_push_nop(struct openreg_queue *queue)
{
	void *slot;
	int ret = openreg_queue_begin(queue, 1, &slot, NULL);

	if (ret == 0)
		openreg_encode_nop(slot, 1);
	return ret;
}

/* Fails as a packet beyond the limits of the format does. */
static inline int openreg_push_invalid_(struct openreg_queue *queue)
{
	void *slot;

	return openreg_queue_begin(queue, 0, &slot, NULL);
}

/* Counts beyond a limit stay beyond it. */
static inline uint8_t openreg_count_(unsigned int n)
{
	return OPENREG_CAST_(uint8_t, n < 255 ? n : 255);
}

static inline struct openreg_command
openreg_command_(unsigned int opcode, unsigned int ndim, const int64_t *size,
		 unsigned int nops, const struct openreg_tensor *ops)
{
	struct openreg_command cmd;

	memset(&cmd, 0, sizeof(cmd));
	cmd.opcode = OPENREG_CAST_(uint8_t, opcode);
	cmd.ndim = openreg_count_(ndim);
	cmd.nops = openreg_count_(nops);
	cmd.size = size;
	cmd.ops = ops;
	return cmd;
}

/* COPY: dst = src over size[ndim], with a cast if the dtypes differ. */
static inline int openreg_push_copy(struct openreg_queue *queue,
				    unsigned int ndim, const int64_t *size,
				    const struct openreg_tensor *dst,
				    const struct openreg_tensor *src)
{
	const struct openreg_tensor ops[2] = { *dst, *src };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_COPY, ndim, size, 2, ops);

	return openreg_push(queue, &cmd);
}

/* FILL: every element of dst gets the low bits of bits. */
static inline int openreg_push_fill(struct openreg_queue *queue,
				    unsigned int ndim, const int64_t *size,
				    const struct openreg_tensor *dst, uint64_t bits)
{
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_FILL, ndim, size, 1, dst);

	cmd.nimm = 1;
	cmd.imm = &bits;
	return openreg_push(queue, &cmd);
}

/*
 * MATMUL: d = alpha * (a @ b) + beta * c over size[] = { batch, m, n, k }. Each tensor
 * has four explicit strides, 0 along the dimension that it lacks (d, c: k; a: n; b: m).
 * c may be NULL.
 */
static inline int openreg_push_matmul(struct openreg_queue *queue, const int64_t size[4],
				      const struct openreg_tensor *d,
				      const struct openreg_tensor *a,
				      const struct openreg_tensor *b,
				      const struct openreg_tensor *c,
				      double alpha, double beta)
{
	const struct openreg_tensor ops[4] = { *d, *a, *b, c ? *c : *d };
	const uint64_t imm[2] = { openreg_imm_f64(alpha), openreg_imm_f64(beta) };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_MATMUL, 4, size, c ? 4 : 3, ops);

	cmd.nimm = 2;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/*
 * MATMUL with a packed B: packed has the address that PACK stored to. The other tensors
 * are those of openreg_push_matmul().
 */
static inline int openreg_push_matmul_packed(struct openreg_queue *queue,
					     const int64_t size[4],
					     const struct openreg_tensor *d,
					     const struct openreg_tensor *a,
					     uint64_t packed,
					     const struct openreg_tensor *c,
					     double alpha, double beta)
{
	static const int64_t run[4] = { 0, 0, 1, 0 };
	const struct openreg_tensor b = openreg_view(packed, a->dtype, run);
	const struct openreg_tensor ops[4] = { *d, *a, b, c ? *c : *d };
	const uint64_t imm[2] = { openreg_imm_f64(alpha), openreg_imm_f64(beta) };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_MATMUL, 4, size, c ? 4 : 3, ops);

	cmd.arg[3] = OPENREG_MATMUL_PACKED_B;
	cmd.nimm = 2;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/*
 * MATMUL with scales: d = alpha * (a @ (scale * q + zero)). how is
 * OPENREG_MATMUL_SCALED_I8 or OPENREG_MATMUL_SCALED_I4; group elements of q along k share
 * a scale. q, scale and zero have strides as b. zero may be NULL.
 */
static inline int openreg_push_matmul_scaled(struct openreg_queue *queue,
					     unsigned int how, const int64_t size[4],
					     const struct openreg_tensor *d,
					     const struct openreg_tensor *a,
					     const struct openreg_tensor *q,
					     const struct openreg_tensor *scale,
					     const struct openreg_tensor *zero,
					     double alpha, int64_t group)
{
	const struct openreg_tensor ops[5] = { *d, *a, *q, *scale,
					       zero ? *zero : *scale };
	const uint64_t imm[3] = { openreg_imm_f64(alpha), 0,
				  openreg_imm_i64(group) };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_MATMUL, 4, size, zero ? 5 : 4, ops);

	cmd.arg[0] = OPENREG_CAST_(uint8_t, how);
	cmd.nimm = 3;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/*
 * MATMUL of float8 with scales: d = alpha * ((scale_a * a) @ (scale_b * b)). group elements
 * of a and b along k share a scale: 32 in the MX formats. scale_a has strides as a,
 * scale_b as b; along k they step from group to group.
 */
static inline int openreg_push_matmul_f8(struct openreg_queue *queue,
					 const int64_t size[4],
					 const struct openreg_tensor *d,
					 const struct openreg_tensor *a,
					 const struct openreg_tensor *b,
					 const struct openreg_tensor *scale_a,
					 const struct openreg_tensor *scale_b,
					 double alpha, int64_t group)
{
	return openreg_push_matmul_scaled(queue, OPENREG_MATMUL_SCALED_F8, size, d, a, b,
					  scale_a, scale_b, alpha, group);
}

/*
 * PACK over size[] = { k, n }: copies matrix into the card's order at address packed, or
 * back; kind: enum openreg_pack_kind. SIZE stores the bytes of a packed matrix in the word
 * at address packed, and uses only the dtype of matrix.
 */
static inline int openreg_push_pack(struct openreg_queue *queue, unsigned int kind,
				    const int64_t size[2], uint64_t packed,
				    const struct openreg_tensor *matrix)
{
	static const int64_t word[2] = { 0, 0 }, run[2] = { 0, 1 };
	const int is_size = kind == OPENREG_PACK_SIZE;
	const struct openreg_tensor p =
		is_size ? openreg_view(packed, OPENREG_I64, word)
			: openreg_view(packed, matrix->dtype, run);
	const int back = kind == OPENREG_PACK_UNPACK;
	const struct openreg_tensor ops[2] = { back ? *matrix : p,
					       back ? p : *matrix };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_PACK, 2, size, 2, ops);

	cmd.arg[0] = OPENREG_CAST_(uint8_t, kind);
	return openreg_push(queue, &cmd);
}

/*
 * SOFTMAX along dimension axis; flags: OPENREG_SOFTMAX_*.
 *
 * - Forward: dst = softmax(src); output is NULL.
 * - Backward: dst is grad_input, src is grad_output, output is the forward's result.
 */
static inline int openreg_push_softmax(struct openreg_queue *queue,
				       unsigned int ndim, const int64_t *size,
				       unsigned int axis, unsigned int flags,
				       const struct openreg_tensor *dst,
				       const struct openreg_tensor *src,
				       const struct openreg_tensor *output)
{
	const struct openreg_tensor ops[3] = { *dst, *src,
					       output ? *output : *src };
	struct openreg_command cmd = openreg_command_(
		OPENREG_OP_SOFTMAX, ndim, size, output ? 3 : 2, ops);

	cmd.arg[0] = OPENREG_CAST_(uint8_t, axis);
	cmd.arg[1] = OPENREG_CAST_(uint8_t, flags);
	return openreg_push(queue, &cmd);
}

/*
 * INDEX: gather and scatter, as openreg_isa.h describes it. Index operand k selects one
 * of extent[k] places; step[k] elements lie between two places.
 */
struct openreg_index_access {
	unsigned int ndim;
	unsigned int nindex; /* 1..OPENREG_INDEX_OPERANDS_MAX */
	unsigned int mode; /* enum openreg_index */
	unsigned int flags; /* OPENREG_INDEX_WRAP */
	const int64_t *size;
	struct openreg_tensor dst, src;
	const struct openreg_tensor *index; /* nindex operands */
	const int64_t *extent; /* nindex */
	const int64_t *step; /* nindex */
	unsigned int sources; /* bit k: index k belongs to the source, in every mode */
};

static inline int openreg_push_index(struct openreg_queue *queue,
				     const struct openreg_index_access *x)
{
	struct openreg_tensor ops[2 + OPENREG_INDEX_OPERANDS_MAX];
	uint64_t imm[2 * OPENREG_INDEX_OPERANDS_MAX];
	struct openreg_command cmd;

	if (x->nindex > OPENREG_INDEX_OPERANDS_MAX)
		return openreg_push_invalid_(queue);
	ops[0] = x->dst;
	ops[1] = x->src;
	for (unsigned int k = 0; k < x->nindex; k++) {
		ops[2 + k] = x->index[k];
		imm[2 * k] = openreg_imm_i64(x->extent[k]);
		imm[2 * k + 1] = openreg_imm_i64(x->step[k]);
	}
	cmd = openreg_command_(OPENREG_OP_INDEX, x->ndim, x->size, 2 + x->nindex, ops);
	cmd.arg[0] = OPENREG_CAST_(uint8_t, x->mode);
	cmd.arg[1] = OPENREG_CAST_(uint8_t, x->flags);
	cmd.arg[2] = OPENREG_CAST_(uint8_t, x->sources);
	cmd.nimm = OPENREG_CAST_(uint8_t, 2 * x->nindex);
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/* Windows of CONV and POOL. Unused dimensions have padding 0, and 1 in all else. */
struct openreg_windows {
	int64_t kernel[3], input[3], stride[3], padding[3], dilation[3];
	int64_t divisor; /* POOL: divisor of averages; 0: the window's elements */
};

static inline void openreg_window_imm_(uint64_t imm[16], const struct openreg_windows *w)
{
	for (unsigned int d = 0; d < 3; d++) {
		imm[OPENREG_WINDOW_KERNEL + d] = openreg_imm_i64(w->kernel[d]);
		imm[OPENREG_WINDOW_INPUT + d] = openreg_imm_i64(w->input[d]);
		imm[OPENREG_WINDOW_STRIDE + d] = openreg_imm_i64(w->stride[d]);
		imm[OPENREG_WINDOW_PADDING + d] = openreg_imm_i64(w->padding[d]);
		imm[OPENREG_WINDOW_DILATION + d] = openreg_imm_i64(w->dilation[d]);
	}
	imm[OPENREG_WINDOW_DIVISOR] = openreg_imm_i64(w->divisor);
}

/*
 * CONV over size[] = { n, g, oc, ic, o0, o1, o2 }. kind (enum openreg_conv_kind) decides
 * the meaning of dst, a and b. Each tensor has seven explicit strides, 0 along the
 * dimensions that it lacks. bias may be NULL.
 */
static inline int openreg_push_conv(struct openreg_queue *queue,
				    unsigned int kind, const int64_t size[7],
				    const struct openreg_windows *w,
				    const struct openreg_tensor *dst,
				    const struct openreg_tensor *a,
				    const struct openreg_tensor *b,
				    const struct openreg_tensor *bias)
{
	const struct openreg_tensor ops[4] = { *dst, *a, *b,
					       bias ? *bias : *dst };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_CONV, 7, size, bias ? 4 : 3, ops);
	uint64_t imm[16];

	openreg_window_imm_(imm, w);
	cmd.arg[0] = OPENREG_CAST_(uint8_t, kind);
	cmd.nimm = OPENREG_WINDOW_DIVISOR;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/*
 * POOL over size[] = { n, c, o0, o1, o2 }; kind: enum openreg_pool_kind; flags:
 * OPENREG_POOL_*. Each tensor has five explicit strides. index may be NULL.
 */
static inline int openreg_push_pool(struct openreg_queue *queue,
				    unsigned int kind, unsigned int flags,
				    const int64_t size[5],
				    const struct openreg_windows *w,
				    const struct openreg_tensor *dst,
				    const struct openreg_tensor *src,
				    const struct openreg_tensor *index)
{
	const struct openreg_tensor ops[3] = { *dst, *src,
					       index ? *index : *src };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_POOL, 5, size, index ? 3 : 2, ops);
	uint64_t imm[16];

	openreg_window_imm_(imm, w);
	cmd.arg[0] = OPENREG_CAST_(uint8_t, kind);
	cmd.arg[1] = OPENREG_CAST_(uint8_t, flags);
	cmd.nimm = 16;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/*
 * SORT: sorts the rows of src along dimension axis; flags: OPENREG_SORT_*. Of each sorted
 * row, values takes count elements from place first on; index, if not NULL, takes their
 * places in src. Both have explicit strides, and size count along the axis.
 */
struct openreg_sort_rows {
	unsigned int ndim;
	unsigned int axis;
	unsigned int flags;
	const int64_t *size;
	int64_t first, count;
	struct openreg_tensor values, src;
	const struct openreg_tensor *index;
};

static inline int openreg_push_sort(struct openreg_queue *queue,
				    const struct openreg_sort_rows *x)
{
	const struct openreg_tensor ops[3] = { x->values, x->src,
					       x->index ? *x->index : x->src };
	const uint64_t imm[2] = { openreg_imm_i64(x->first), openreg_imm_i64(x->count) };
	struct openreg_command cmd = openreg_command_(
		OPENREG_OP_SORT, x->ndim, x->size, x->index ? 3 : 2, ops);

	cmd.arg[0] = OPENREG_CAST_(uint8_t, x->axis);
	cmd.arg[1] = OPENREG_CAST_(uint8_t, x->flags);
	cmd.nimm = 2;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/*
 * SCAN: running sums, products and so on along dimension axis; mode: enum
 * openreg_scan_mode. index is for MAX and MIN only, and may be NULL.
 */
static inline int openreg_push_scan(struct openreg_queue *queue,
				    unsigned int ndim, const int64_t *size,
				    unsigned int axis, unsigned int mode,
				    const struct openreg_tensor *dst,
				    const struct openreg_tensor *src,
				    const struct openreg_tensor *index)
{
	const struct openreg_tensor ops[3] = { *dst, *src,
					       index ? *index : *src };
	struct openreg_command cmd = openreg_command_(OPENREG_OP_SCAN, ndim,
						      size, index ? 3 : 2, ops);

	cmd.arg[0] = OPENREG_CAST_(uint8_t, axis);
	cmd.arg[1] = OPENREG_CAST_(uint8_t, mode);
	return openreg_push(queue, &cmd);
}

/*
 * PLACES: coordinates of the elements of src that are not 0. found[d] takes the first
 * wanted coordinates along dimension d; only its last stride is used. ndim is 1 to 8.
 */
static inline int openreg_push_places(struct openreg_queue *queue,
				      unsigned int ndim, const int64_t *size,
				      const struct openreg_tensor *found, int64_t wanted,
				      const struct openreg_tensor *src)
{
	struct openreg_tensor ops[OPENREG_DIMS_MAX + 1];
	const uint64_t imm = openreg_imm_i64(wanted);
	struct openreg_command cmd;

	if (!ndim || ndim > OPENREG_DIMS_MAX)
		return openreg_push_invalid_(queue);
	memcpy(ops, found, ndim * sizeof(*ops));
	ops[ndim] = *src;
	cmd = openreg_command_(OPENREG_OP_PLACES, ndim, size, ndim + 1, ops);
	cmd.nimm = 1;
	cmd.imm = &imm;
	return openreg_push(queue, &cmd);
}

static inline int openreg_push_word_(struct openreg_queue *queue,
				     unsigned int opcode, uint64_t address,
				     unsigned int arg, const uint64_t *imm)
{
	const struct openreg_tensor word =
		openreg_view(address, OPENREG_I64, NULL);
	struct openreg_command cmd =
		openreg_command_(opcode, 0, NULL, 1, &word);

	cmd.arg[0] = OPENREG_CAST_(uint8_t, arg);
	cmd.nimm = imm ? 1 : 0;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

/* WAIT: the queue waits until the word at address compares with value as given. */
static inline int openreg_push_wait(struct openreg_queue *queue,
				    uint64_t address, enum openreg_wait compare,
				    uint64_t value)
{
	return openreg_push_word_(queue, OPENREG_OP_WAIT, address,
				  OPENREG_CAST_(unsigned int, compare), &value);
}

/* SIGNAL: set the word at address, or add to it, after all earlier packets completed. */
static inline int openreg_push_signal(struct openreg_queue *queue,
				      uint64_t address, enum openreg_signal how,
				      uint64_t value)
{
	return openreg_push_word_(queue, OPENREG_OP_SIGNAL, address,
				  OPENREG_CAST_(unsigned int, how), &value);
}

/* TIMESTAMP: store the card's clock, in ns, in the word at address. */
static inline int openreg_push_timestamp(struct openreg_queue *queue, uint64_t address)
{
	return openreg_push_word_(queue, OPENREG_OP_TIMESTAMP, address, 0, NULL);
}

/*
 * LIST: run the packets in the slots slots from address on. openreg_pack() writes such
 * packets. The memory must keep them until the LIST has completed.
 */
static inline int openreg_push_list(struct openreg_queue *queue,
				    uint64_t address, uint64_t slots,
				    uint64_t packets)
{
	const struct openreg_tensor first =
		openreg_view(address, OPENREG_I64, NULL);
	const uint64_t imm[2] = { slots, packets };
	struct openreg_command cmd =
		openreg_command_(OPENREG_OP_LIST, 0, NULL, 1, &first);

	cmd.nimm = 2;
	cmd.imm = imm;
	return openreg_push(queue, &cmd);
}

#if defined(__cplusplus)
}
#endif

#endif
