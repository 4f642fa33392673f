/* SPDX-License-Identifier: MIT */
/*
 * The packet encoder: writes packets in the layout of openreg_isa.h to the memory of the
 * caller, which is a ring or a buffer.
 *
 *	openreg_encode(packet, OPENREG_OP_FILL, cookie);
 *	openreg_encode_space(packet, 1, &size);
 *	openreg_encode_operand(packet, address, OPENREG_F32, NULL);
 *	openreg_encode_imm(packet, &bits, 1);
 *
 * - Add the parts in the order of the layout.
 * - After each call the memory contains a whole packet. The encoder has no other state:
 *   the packet's own counts give the place of the next part.
 * - The encoder checks nothing. The caller keeps the limits of openreg_isa.h. The memory
 *   has room for openreg_packet_slots() slots.
 */
#ifndef OPENREG_ENCODE_H
#define OPENREG_ENCODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "openreg_isa.h"

/* C++ programs may compile with -Wold-style-cast. */
#if defined(__cplusplus)
#define OPENREG_CAST_(type, value) static_cast<type>(value)
#else
#define OPENREG_CAST_(type, value) ((type)(value))
#endif

#if defined(__cplusplus)
extern "C" {
#endif

static inline size_t openreg_packet_bytes(unsigned int ndim, unsigned int nops,
					  unsigned int nimm,
					  unsigned int ninstr)
{
	return sizeof(struct openreg_packet) + sizeof(struct openreg_op) +
	       8 * ndim + nops * (sizeof(struct openreg_operand) + 8 * ndim) +
	       8 * nimm + sizeof(struct openreg_instr) * ninstr;
}

/*
 * Length of a packet in slots. Within the limits of openreg_isa.h the result is at most
 * OPENREG_PACKET_SLOTS_MAX.
 */
static inline unsigned int openreg_packet_slots(unsigned int ndim,
						unsigned int nops,
						unsigned int nimm,
						unsigned int ninstr)
{
	const size_t bytes = openreg_packet_bytes(ndim, nops, nimm, ninstr);

	return OPENREG_CAST_(unsigned int, (bytes + OPENREG_SLOT_SIZE - 1) /
						   OPENREG_SLOT_SIZE);
}

/* Without memcpy(): GCC makes "rep movs" of it, which takes longer for a few words. */
static inline void openreg_copy_words_(unsigned char *to, const void *from,
				       unsigned int n)
{
	const unsigned char *at = OPENREG_CAST_(const unsigned char *, from);

	for (unsigned int i = 0; i < n; i++)
		memcpy(to + 8 * i, at + 8 * i, 8);
}

/* The bytes of struct openreg_op in a packet. */
static inline unsigned char *openreg_op_bytes_(void *packet)
{
	return OPENREG_CAST_(unsigned char *, packet) +
	       sizeof(struct openreg_packet);
}

static inline void openreg_encode_header_(void *packet, unsigned int opcode,
					  unsigned int slots, uint32_t cookie)
{
	struct openreg_packet h;

	h.opcode = OPENREG_CAST_(uint8_t, opcode);
	h.slots = OPENREG_CAST_(uint8_t, slots);
	h.flags = 0;
	h.cookie = cookie;
	h.reserved = 0;
	memcpy(packet, &h, sizeof(h));
}

/* NOP: fills slots slots (1..32). */
static inline void openreg_encode_nop(void *packet, unsigned int slots)
{
	openreg_encode_header_(packet, OPENREG_OP_NOP, slots, 0);
}

/* Begin a packet other than NOP. cookie is any value; a fault reports it. */
static inline void openreg_encode(void *packet, unsigned int opcode,
				  uint32_t cookie)
{
	openreg_encode_header_(packet, opcode, 1, cookie);
	memset(openreg_op_bytes_(packet), 0, sizeof(struct openreg_op));
}

/* The meaning of arg[i] depends on the opcode. */
static inline void openreg_encode_arg(void *packet, unsigned int i,
				      unsigned int value)
{
	openreg_op_bytes_(packet)[offsetof(struct openreg_op, arg) + i] =
		OPENREG_CAST_(uint8_t, value);
}

/*
 * Make room for n parts of len bytes in all. Adds n to the count at this offset of struct
 * openreg_op, and sets the packet's length. Returns the address of the room.
 */
static inline unsigned char *openreg_encode_more_(void *packet, size_t count,
						  unsigned int n, size_t len)
{
	unsigned char *bytes = OPENREG_CAST_(unsigned char *, packet);
	unsigned char *op = bytes + sizeof(struct openreg_packet);
	const size_t end = openreg_packet_bytes(op[0], op[1], op[2], op[3]);

	op[count] = OPENREG_CAST_(uint8_t, op[count] + n);
	bytes[offsetof(struct openreg_packet, slots)] = OPENREG_CAST_(
		uint8_t,
		(end + len + OPENREG_SLOT_SIZE - 1) / OPENREG_SLOT_SIZE);
	return bytes + end;
}

/* The iteration space: ndim sizes, row-major. */
static inline void openreg_encode_space(void *packet, unsigned int ndim,
					const int64_t *size)
{
	unsigned char *at = openreg_encode_more_(
		packet, offsetof(struct openreg_op, ndim), ndim, 8 * ndim);

	openreg_copy_words_(at, size, ndim);
}

/* One operand: ndim strides in elements; NULL: dense, row-major. */
static inline void openreg_encode_operand(void *packet, uint64_t address,
					  unsigned int dtype,
					  const int64_t *stride)
{
	const unsigned int ndim = openreg_op_bytes_(packet)[0];
	unsigned char *at = openreg_encode_more_(
		packet, offsetof(struct openreg_op, nops), 1,
		sizeof(struct openreg_operand) + 8 * ndim);
	const unsigned char *sizes =
		openreg_op_bytes_(packet) + sizeof(struct openreg_op);
	struct openreg_operand o;
	uint64_t step = 1, size;

	memset(&o, 0, sizeof(o));
	o.addr = address;
	o.dtype = OPENREG_CAST_(uint8_t, dtype);
	memcpy(at, &o, sizeof(o));
	at += sizeof(o);
	if (stride) {
		openreg_copy_words_(at, stride, ndim);
		return;
	}
	for (unsigned int d = ndim; d-- > 0;) {
		memcpy(at + 8 * d, &step, 8);
		memcpy(&size, sizes + 8 * d, 8);
		step *= size;
	}
}

/* n immediates. */
static inline void openreg_encode_imm(void *packet, const uint64_t *imm,
				      unsigned int n)
{
	unsigned char *at = openreg_encode_more_(
		packet, offsetof(struct openreg_op, nimm), n, 8 * n);

	openreg_copy_words_(at, imm, n);
}

/* n instructions. */
static inline void openreg_encode_instr(void *packet,
					const struct openreg_instr *instr,
					unsigned int n)
{
	unsigned char *at = openreg_encode_more_(
		packet, offsetof(struct openreg_op, ninstr), n, 8 * n);

	openreg_copy_words_(at, instr, n);
}

#if defined(__cplusplus)
}
#endif

#endif
