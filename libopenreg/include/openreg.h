/* SPDX-License-Identifier: MIT */
/*
 * libopenreg: user-mode access to openreg cards.
 *
 * Functions that can fail return 0 or a positive result, or a negative errno
 * value; openreg_last_error() then has a sentence for the calling thread that
 * says what to do next.
 *
 * Threads: functions that take a device or a BO may be called from any thread
 * at any time, as long as nobody closes or frees what they use. A queue
 * belongs to one thread at a time; only the functions marked [any thread] may
 * be called on it beside its owner.
 *
 * fork(): the child cannot use what its parent opened. Calls that need the card
 * give -EPERM there; those that return what is known (openreg_device_get_info),
 * closing and freeing work. Mapped BOs are not mapped in the child.
 *
 * Addresses are the card's (openreg_isa.h): a CPU that dereferences one traps.
 */
#ifndef OPENREG_H
#define OPENREG_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_isa.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define OPENREG_VERSION_MAJOR 1
#define OPENREG_VERSION_MINOR 0

struct openreg_device;
struct openreg_bo;
struct openreg_queue;

/* ---- library and errors ------------------------------------------------ */

/* major << 16 | minor of the library that runs. */
uint32_t openreg_version(void);

/* What an error code means here; takes -errno or errno. Never NULL. */
const char *openreg_strerror(int error);

/*
 * The last failure of the calling thread in full: what went wrong, with which
 * values, and what to do. "" if there was none. Valid until the thread's next
 * failing call.
 */
const char *openreg_last_error(void);

/* ---- devices ----------------------------------------------------------- */

/*
 * How many of /dev/openreg, /dev/openreg1 ... exist; OPENREG_VISIBLE_DEVICES can
 * hide some. 0 without a card.
 */
int openreg_device_count(void);

/*
 * Opens card number index of those that openreg_device_count() counts, or a
 * node by its path (/dev/openreg or /dev/accel/accelN). Every open has its own address space.
 *
 * -ENODEV no such card; -EACCES no permission; -EPROTO a driver or card unknown
 * to this library; -ENOSPC more than 256 opens of a card inside the process.
 */
int openreg_device_open(unsigned int index, struct openreg_device **dev);
int openreg_device_open_path(const char *path, struct openreg_device **dev);

/* Free BOs and destroy queues first. NULL is allowed. */
void openreg_device_close(struct openreg_device *dev);

/* Its file descriptor; stays the library's. -1: the card is in the process. */
int openreg_device_fd(const struct openreg_device *dev);

struct openreg_device_info {
	char path[64]; /* node that was opened */
	char pci[32]; /* 0000:01:00.0 */
	char driver[64]; /* name and version of the kernel driver */
	uint32_t isa_version; /* major << 16 | minor */
	uint32_t card; /* card field of its addresses, 0..15 */
	uint64_t packets; /* bit n: enum openreg_opcode n is there */
	uint64_t dtypes; /* bit n: enum openreg_dtype n is there */
	uint64_t vram_size; /* bytes */
	uint64_t max_bo_size; /* bytes */
	uint32_t max_queues; /* on the card, all processes together */
	uint32_t max_segments; /* BOs that one open device can hold */
	uint32_t max_ring_slots;
	uint32_t workers; /* threads of the compute engine */
	uint32_t slice_us; /* longest time between scheduling decisions */
	uint32_t max_work; /* log2 of the elements one packet may visit */
	uint32_t vectors; /* MSI-X vectors in use */
	uint32_t reserved[7];
};
int openreg_device_get_info(struct openreg_device *dev,
			    struct openreg_device_info *info);

struct openreg_memory_info { /* all in bytes */
	uint64_t vram_total;
	uint64_t vram_free; /* not allocated by any process, or of closed objects */
	uint64_t vram_largest; /* the largest block that could be had */
	uint64_t process_vram; /* held by this open device, as the rest */
	uint64_t process_system;
	uint64_t process_pinned;
	uint64_t reserved[2];
};
int openreg_device_get_memory(struct openreg_device *dev,
			      struct openreg_memory_info *info);

struct openreg_timestamp { /* ns */
	uint64_t cpu_before; /* CLOCK_MONOTONIC */
	uint64_t card; /* the clock of TIMESTAMP packets */
	uint64_t cpu_after; /* CLOCK_MONOTONIC */
};
int openreg_device_get_timestamp(struct openreg_device *dev,
				 struct openreg_timestamp *ts);

/* ---- memory ------------------------------------------------------------ */

#define OPENREG_BO_VRAM (1u << 0) /* contiguous device memory */
#define OPENREG_BO_SYSTEM (1u << 1) /* memory of the host, for DMA; cached */
#define OPENREG_BO_READONLY (1u << 3) /* the card only reads */
#define OPENREG_BO_IMPORTED (1u << 4) /* a dma-buf; only reported */

/*
 * size in bytes, not 0, rounded up to whole pages; flags OPENREG_BO_VRAM or
 * OPENREG_BO_SYSTEM. The memory reads as zeros.
 *
 * -ENOSPC no block of VRAM this large, or no free segment or context; -ENOMEM
 * out of memory, or more OPENREG_BO_SYSTEM than half of the machine's, all
 * processes together; -EINVAL.
 */
int openreg_bo_alloc(struct openreg_device *dev, uint64_t size, uint32_t flags,
		     struct openreg_bo **bo);

/*
 * Lets the card reach [ptr, ptr + size) of private memory; pins it until
 * openreg_bo_free(). flags 0 or OPENREG_BO_READONLY. The memory must stay
 * mapped; what is mapped anew at ptr is not seen by the card.
 *
 * -ENOMEM over RLIMIT_MEMLOCK; -EOPNOTSUPP shared or device memory; -EFAULT.
 */
int openreg_mem_register(struct openreg_device *dev, void *ptr, uint64_t size,
			 uint32_t flags, struct openreg_bo **bo);

/*
 * Unmaps and frees; the address is dead for packets that have not started. One
 * that uses it after 20 s is stopped with all queues of dev. NULL is allowed.
 */
void openreg_bo_free(struct openreg_bo *bo);

uint64_t openreg_bo_address(const struct openreg_bo *bo); /* of byte 0 */
uint64_t openreg_bo_size(const struct openreg_bo *bo); /* bytes */
uint32_t openreg_bo_flags(const struct openreg_bo *bo);

/*
 * CPU pointer to byte 0: mapped at the first call, shared by later ones, and
 * there until openreg_bo_unmap() or openreg_bo_free(). For registered memory
 * it is the pointer that was given. -errno and *ptr = NULL on failure.
 */
int openreg_bo_map(struct openreg_bo *bo, void **ptr);
void openreg_bo_unmap(struct openreg_bo *bo);

/*
 * A file descriptor, close-on-exec, that is a dma-buf of the BO's memory: for
 * another open device, process or driver. It keeps the memory, not the BO.
 * flags 0, or OPENREG_BO_READONLY: nobody can write by way of it. All that are
 * made of one BO are alike.
 *
 * -EACCES there is one of the other sort; -EOPNOTSUPP registered memory, or the
 * card is in the process; -EINVAL flags.
 */
int openreg_bo_export(struct openreg_bo *bo, uint32_t flags);

/*
 * A BO on the memory of a dma-buf; fd stays the caller's. A dma-buf that this
 * open device has already gives the same BO, whose openreg_bo_free() then counts
 * as often as it was given. openreg_bo_flags() has OPENREG_BO_IMPORTED, and
 * OPENREG_BO_READONLY if fd does not allow to write.
 *
 * -EINVAL, -EBADF no dma-buf in whole pages; -EOPNOTSUPP memory that this card
 * cannot reach, or the card is in the process;
 * -EACCES; -ENOSPC no free segment or context; -ENOMEM.
 */
int openreg_bo_import(struct openreg_device *dev, int fd,
		      struct openreg_bo **bo);

/* ---- queues ------------------------------------------------------------ */

struct openreg_queue_attr {
	uint32_t slots; /* ring size, power of two 64..max; 0: 1024 */
	int32_t priority; /* -1 low, 0 normal, 1 high (CAP_SYS_NICE) */
	int64_t spin_ns; /* polls this long before a sleep; -1: while it pays */
	int64_t full_timeout_ns; /* a full ring may stand; 0: 60 s, -1: ever */
	uint64_t reserved[4];
};
#define OPENREG_QUEUE_ATTR_DEFAULT { 0, 0, -1, 0, { 0, 0, 0, 0 } }

/*
 * attr NULL stands for OPENREG_QUEUE_ATTR_DEFAULT.
 * -ENOSPC the card has no queue, doorbell or context left; -EACCES priority;
 * -EINVAL.
 */
int openreg_queue_create(struct openreg_device *dev,
			 const struct openreg_queue_attr *attr,
			 struct openreg_queue **queue);

/* Packets that have not completed are given up. NULL is allowed. */
void openreg_queue_destroy(struct openreg_queue *queue);

/* The queue's number in DRM_IOCTL_OPENREG_QUEUE_*. [any thread] */
uint32_t openreg_queue_number(const struct openreg_queue *queue);
struct openreg_device *openreg_queue_device(const struct openreg_queue *queue);

/*
 * Reserves room for one packet of exactly slots slots (1..32) and points
 * *packet at it. Fill it (openreg_pack_*) before the next call on this queue.
 * Nothing runs before openreg_queue_submit(), except that a full ring is
 * submitted and waited for. *seq, if not NULL, gets the packet's number.
 *
 * -ETIME the ring stayed full; -EINVAL; -EPERM after fork. A queue that has
 * stopped shows when the ring is full, and in openreg_queue_submit(): -EIO a
 * fault (openreg_queue_fault() says which); -ENODEV the card is gone.
 */
int openreg_queue_begin(struct openreg_queue *queue, unsigned int slots,
			void **packet, uint64_t *seq);

/*
 * Publishes everything begun so far, and wakes the card if it sleeps. No
 * system call. Returns the number of the last packet, or -errno as above.
 */
int64_t openreg_queue_submit(struct openreg_queue *queue);

/* Number of the last packet that was submitted. */
uint64_t openreg_queue_submitted(const struct openreg_queue *queue);

/* Number of the last packet that has completed. A load. [any thread] */
uint64_t openreg_queue_completed(const struct openreg_queue *queue);

/*
 * Waits for packet seq: polls for spin_ns, then sleeps. timeout_ns is relative
 * (0 polls, negative waits for ever) or, with _until, absolute
 * CLOCK_MONOTONIC. What was begun and not submitted never completes.
 * [any thread]
 *
 * -ETIME; -EIO the queue has faulted before seq; -ENODEV; -EPERM.
 */
int openreg_queue_wait(struct openreg_queue *queue, uint64_t seq,
		       int64_t timeout_ns);
int openreg_queue_wait_until(struct openreg_queue *queue, uint64_t seq,
			     int64_t deadline_ns);

/* For how long waits poll before they sleep; -1: default. [any thread] */
void openreg_queue_set_spin(struct openreg_queue *queue, int64_t spin_ns);

/* 1 and *fault if the queue has faulted, 0 if not, -errno. [any thread] */
int openreg_queue_fault(struct openreg_queue *queue,
			struct openreg_fault_summary *fault);

/*
 * One sentence: what is wrong, with packet, operand and address. Returns the
 * length that it wanted, as snprintf(). No device needed.
 */
int openreg_fault_text(const struct openreg_fault_summary *fault, char *buf,
		       size_t len);

/* "VECTOR", "f32", "out of bounds"; "?" if unknown. */
const char *openreg_opcode_name(unsigned int opcode);
const char *openreg_dtype_name(unsigned int dtype);
const char *openreg_fault_name(unsigned int code);

/*
 * Drops everything that has not completed, counts it as completed, and lets
 * the queue run again. Waiters for dropped packets return 0. -EIO after a reset
 * of the card: open the device again.
 */
int openreg_queue_reset(struct openreg_queue *queue);

struct openreg_queue_stats {
	uint64_t packets; /* submitted, pads included */
	uint64_t doorbells; /* rung by this library */
	uint64_t sleeps; /* waits that went into the kernel */
	uint64_t full_waits; /* times begin found the ring full */
	uint64_t pads; /* NOP packets at the ring's end */
	uint64_t wakes; /* by the card: doorbells that woke it */
	uint64_t interrupts; /* by the card: vectors raised for the queue */
	uint64_t dma_read; /* by the card: bytes from system memory */
	uint64_t dma_written; /* by the card: bytes to system memory */
	uint64_t busy_ns; /* by the card: engine time, summed over threads */
	uint64_t reserved[6];
};
int openreg_queue_get_stats(const struct openreg_queue *queue,
			    struct openreg_queue_stats *stats);

/* ---- copies ------------------------------------------------------------ */

/*
 * All are packets of this queue, in order with the others. Addresses are
 * device addresses of BOs or registered memory, of any alignment.
 *
 * Asynchronous: submitted on return; the result is the number to wait for.
 */
int64_t openreg_copy_async(struct openreg_queue *queue, uint64_t dst,
			   uint64_t src, uint64_t bytes);
int64_t openreg_fill_async(struct openreg_queue *queue, uint64_t dst,
			   uint8_t byte, uint64_t bytes);

/*
 * Synchronous, from and to any memory of the process: staged through pinned
 * memory so that the CPU's copy and the card's overlap.
 */
int openreg_copy_to_device(struct openreg_queue *queue, uint64_t dst,
			   const void *src, uint64_t bytes);
int openreg_copy_from_device(struct openreg_queue *queue, void *dst,
			     uint64_t src, uint64_t bytes);
int openreg_memset(struct openreg_queue *queue, uint64_t dst, uint8_t byte,
		   uint64_t bytes);

#if defined(__cplusplus)
}
#endif

#include "openreg_packet.h"

#endif
