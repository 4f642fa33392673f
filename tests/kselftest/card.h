/* SPDX-License-Identifier: GPL-2.0-only */
/* The ioctls and a raw queue, for tests that want nothing in between. */
#ifndef OPENREG_TEST_CARD_H
#define OPENREG_TEST_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openreg_accel.h>
#include <openreg_isa.h>

#define NODE "/dev/openreg"
#define MIB (1ull << 20)
#define SEC_NS 1000000000ll
#define FOREVER INT64_MAX

struct bo {
	__u32 handle;
	__u64 size;
	__u64 address;
	__u64 mmap_offset;
	void *cpu; /* once mapped */
};

struct queue {
	int fd;
	__u32 id;
	__u32 slots;
	__u64 tail; /* slots written */
	__u64 seq; /* packets written */
	unsigned char *ring;
	volatile struct openreg_user_page *user;
	const volatile struct openreg_card_page *card;
	volatile __u32 *doorbell;
	struct drm_openreg_queue_create args;
};

/* Of several cards, the one that all below is about; the first, if nothing is said. */
void card_choose(unsigned int number);
unsigned int card_number(void);
const char *card_node(void);

/* All return 0 or -errno unless said otherwise. */
int card_open(void); /* file descriptor */
int card_ioctl(int fd, unsigned long request, void *arg);
int card_info(int fd, struct drm_openreg_device_info *info);
int card_memory(int fd, struct drm_openreg_memory_info *info);

int bo_create(int fd, __u64 size, __u32 flags, struct bo *bo);
int bo_register(int fd, void *memory, __u64 size, __u32 flags,
		struct bo *bo);
int bo_map(int fd, struct bo *bo); /* into bo->cpu */
int bo_close(int fd, __u32 handle);

int queue_create(int fd, __u32 slots, struct queue *queue); /* and map */
int queue_destroy(struct queue *queue);
void queue_unmap(struct queue *queue);
int queue_reset(struct queue *queue, __u64 head, __u64 seq);
/* Relative timeout; FOREVER for none. */
int queue_wait(struct queue *queue, __u64 seq, __s64 timeout_ns);
int queue_spin(struct queue *queue, __u64 seq); /* -ETIME after 20 s */

/*
 * A packet under construction; layout of openreg_isa.h. After packet_begin()
 * come sizes, operands with their strides, immediates, instructions.
 */
struct packet {
	unsigned char bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
	size_t len;
};

void packet_begin(struct packet *packet, unsigned int opcode);
struct openreg_op *packet_op(struct packet *packet, unsigned int ndim);
void packet_size(struct packet *packet, __s64 size);
void packet_operand(struct packet *packet, __u64 addr, unsigned int dtype);
void packet_stride(struct packet *packet, __s64 stride);
void packet_imm(struct packet *packet, __u64 imm);
void packet_instr(struct packet *packet, struct openreg_instr instr);

/* One-dimensional, dense. */
void packet_nop(struct packet *packet);
void packet_copy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count, unsigned int dtype);
void packet_fill(struct packet *packet, __u64 dst, __u64 count,
		 unsigned int dtype, __u64 bits);
/* dst[i] = a[i] + b[i], f32 */
void packet_add(struct packet *packet, __u64 dst, __u64 a, __u64 b,
		__u64 count);
/* *dst = the sum of src[i], f32 */
void packet_sum(struct packet *packet, __u64 dst, __u64 src,
		__u64 count);
/* Sums exp(*src) count times into *dst, f32: busy for as long as one likes. */
void packet_busy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count);
/* Until the word at the address is 1. */
void packet_wait(struct packet *packet, __u64 address);

/* Write it to the ring and publish it; returns its sequence number. */
__u64 queue_push(struct queue *queue, const struct packet *packet);
/* The same, believing nothing that the card says of its head. */
__u64 queue_push_blindly(struct queue *queue, const struct packet *packet);
/* Write it only; queue_publish() publishes all that was written. */
__u64 queue_write(struct queue *queue, const struct packet *packet);
void queue_publish(struct queue *queue);

__s64 now_ns(void);

/* A value of debugfs accel/.../openreg_stats of the first card, or -1. */
long long card_stat(const char *name);
/* Waits until the compute engine has worked as long in all. */
void await_compute(long long ns);
/* Pushes a packet for the compute engine, and waits until that works on it. */
void push_and_begin(struct queue *queue, const struct packet *packet);
struct card_usage {
	long long vram_free, contexts, queues, objects;
};
struct card_usage card_usage(void);
/* Waits until all is free, up to 60 s: closed files are cleared up after. */
struct card_usage card_unused(void);
/*
 * Waits until nothing is left of closed files: VRAM, queues, contexts and
 * objects are as in before. False after 60 s, with what differs in a
 * diagnostic line.
 */
bool card_settles(struct card_usage before);

#endif
