/* SPDX-License-Identifier: GPL-2.0-only */
/* The ioctls and a raw queue, for tests that do not use libopenreg. */
#ifndef OPENREG_TEST_CARD_H
#define OPENREG_TEST_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openreg_accel.h>
#include <openreg_encode.h>

#define NODE "/dev/openreg"
#define MIB (1ull << 20)
#define SEC_NS 1000000000ll
#define FOREVER INT64_MAX

struct bo {
	__u32 handle;
	__u64 size;
	__u64 address;
	__u64 mmap_offset;
	void *cpu; /* the mapping, after bo_map() */
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

/* Choose one of several cards for all functions below. The default is the first. */
void card_choose(unsigned int number);
unsigned int card_number(void);
const char *card_node(void);

/* Functions that return an int return 0 or -errno, except as noted. */
int card_open(void); /* returns a file descriptor or -errno */
int card_ioctl(int fd, unsigned long request, void *arg);
int card_info(int fd, struct drm_openreg_device_info *info);
int card_memory(int fd, struct drm_openreg_memory_info *info);

int bo_create(int fd, __u64 size, __u32 flags, struct bo *bo);
int bo_register(int fd, void *memory, __u64 size, __u32 flags,
		struct bo *bo);
int bo_map(int fd, struct bo *bo); /* sets bo->cpu */
int bo_close(int fd, __u32 handle);

int queue_create(int fd, __u32 slots, struct queue *queue); /* also maps it */
int queue_destroy(struct queue *queue);
void queue_unmap(struct queue *queue);
int queue_reset(struct queue *queue, __u64 head, __u64 seq);
/* The timeout is relative; FOREVER for none. */
int queue_wait(struct queue *queue, __u64 seq, __s64 timeout_ns);
int queue_spin(struct queue *queue, __u64 seq); /* fails with -ETIME after 20 s */

int syncobj_create(int fd, __u32 *handle);
/* request is DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL or DRM_IOCTL_SYNCOBJ_QUERY. */
int syncobj_point(int fd, unsigned long request, __u32 handle, __u64 *point);
/* Packet seq of the queue signals the point; 0 for a syncobj without a timeline. */
int queue_signal(const struct queue *queue, __u32 syncobj, __u64 seq, __u64 point);

/* A packet that openreg_encode() and so on write. */
struct packet {
	unsigned char bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE]
		__attribute__((aligned(8)));
};

static inline struct openreg_packet *packet_header(struct packet *packet)
{
	return (struct openreg_packet *)packet->bytes;
}

/* A packet that the card refuses. */
void packet_bad(struct packet *packet);
void packet_nop(struct packet *packet);
/* These build packets on dense, one-dimensional operands. */
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
/* *dst = the sum of count times exp(*src), f32: count sets how long the packet runs. */
void packet_busy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count);
/* Reads *src and writes *dst, f32, and runs longer than any test waits. */
void packet_endless(struct packet *packet, __u64 dst, __u64 src);
/* WAIT, SIGNAL with the value 1, or TIMESTAMP. */
void packet_word(struct packet *packet, unsigned int opcode, unsigned int arg,
		 __u64 address);
/* Waits until the word at the address is 1. */
void packet_wait(struct packet *packet, __u64 address);
/* Begins a trace with a ring at the address, or ends it with 0 records. */
void packet_trace(struct packet *packet, __u64 address, __u64 records);

/* Writes the packet to the ring and publishes it. Returns its sequence number. */
__u64 queue_push(struct queue *queue, const struct packet *packet);
/* As queue_push(), but does not read the card's head, which may be wrong. */
__u64 queue_push_blindly(struct queue *queue, const struct packet *packet);
/* Only writes the packet. queue_publish() publishes all packets that were written. */
__u64 queue_write(struct queue *queue, const struct packet *packet);
void queue_publish(struct queue *queue);

__s64 now_ns(void);

/* A value of accel/.../openreg_stats in debugfs, or -1. */
long long card_stat(const char *name);
/* Waits until the engine time of the compute engine is at least ns in all. */
void await_compute(long long ns);
/* Pushes a packet for the compute engine and waits until the packet runs. */
void push_and_begin(struct queue *queue, const struct packet *packet);
struct card_usage {
	long long vram_free, contexts, queues, objects;
};
struct card_usage card_usage(void);
/* Waits up to 60 s until nothing is in use. Closed files are freed asynchronously. */
struct card_usage card_unused(void);
/*
 * Waits until closed files are freed: VRAM, queues, contexts and objects are as in
 * before. After 60 s it prints the differences and returns false.
 */
bool card_settles(struct card_usage before);

#endif
