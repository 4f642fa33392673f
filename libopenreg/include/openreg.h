/* SPDX-License-Identifier: MIT */
/*
 * libopenreg: user-mode access to openreg cards.
 *
 * Results: a function that can fail returns 0 or a positive result, or a negative
 * errno value. openreg_last_error() then returns a sentence that says what to do.
 *
 * Threads:
 *
 * - Any thread may call a function that takes a device or a BO. No other thread may
 *   close or free this device or BO during the call.
 * - A queue belongs to one thread at a time. Other threads may call only the
 *   functions marked [any thread] on it.
 *
 * fork():
 *
 * - A child cannot use a device that its parent opened. Calls that need the card
 *   return -EPERM there.
 * - In the child, openreg_device_get_info(), closing and freeing still work.
 * - The parent's mappings of BOs do not exist in the child.
 *
 * Addresses are device addresses (openreg_isa.h). A CPU that dereferences one traps.
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

/* Version of the loaded library: major << 16 | minor. */
uint32_t openreg_version(void);

/* Meaning of an error number of this library, errno or -errno. Never NULL. */
const char *openreg_strerror(int error);

/*
 * The last failure of the calling thread, as a sentence: the failed call, its values,
 * and what to do. "" if no call has failed. Valid until the thread's next failing call.
 */
const char *openreg_last_error(void);

/* ---- devices ----------------------------------------------------------- */

/*
 * Number of cards: /dev/openreg, /dev/openreg1 and so on. The environment variable
 * OPENREG_VISIBLE_DEVICES can hide some of them.
 */
int openreg_device_count(void);

/*
 * Open a card: by its index below openreg_device_count(), or by the path of its node
 * (/dev/openreg or /dev/accel/accelN). Every open device has its own address space.
 *
 * Errors:
 *
 * - ENODEV: no such card
 * - EACCES: no permission
 * - EINVAL: OPENREG_TRANSPORT has an unknown value, or its library is missing
 * - EPROTO: the library does not know this driver or this card
 * - ENOSPC: the card is inside the process and has 256 open devices
 */
int openreg_device_open(unsigned int index, struct openreg_device **dev);
int openreg_device_open_path(const char *path, struct openreg_device **dev);

/* The caller must free all BOs and destroy all queues first. NULL is allowed. */
void openreg_device_close(struct openreg_device *dev);

/*
 * The device's file descriptor, for ioctl(). The caller must not close it. -1 if the
 * card is inside the process.
 */
int openreg_device_fd(const struct openreg_device *dev);

struct openreg_device_info {
	char path[64]; /* the opened node */
	char pci[32]; /* 0000:01:00.0 */
	char driver[64]; /* name and version of the kernel driver */
	uint32_t isa_version; /* major << 16 | minor */
	uint32_t card; /* card field of this card's addresses, 0..15 */
	uint64_t packets; /* bit n: the card has enum openreg_opcode n */
	uint64_t dtypes; /* bit n: the card has enum openreg_dtype n */
	uint64_t vram_size; /* bytes */
	uint64_t max_bo_size; /* bytes of the largest BO */
	uint32_t max_queues; /* most queues of all processes together */
	uint32_t max_segments; /* most BOs of one open device */
	uint32_t max_ring_slots; /* slots of the largest ring */
	uint32_t workers; /* threads of the compute engine */
	uint32_t slice_us; /* longest time between two scheduling decisions, us */
	uint32_t max_work; /* log2 of the most elements that one packet may visit */
	uint32_t vectors; /* MSI-X vectors in use */
	uint32_t reserved[7];
};
int openreg_device_get_info(struct openreg_device *dev,
			    struct openreg_device_info *info);

struct openreg_memory_info { /* bytes, now */
	uint64_t vram_total; /* all device memory */
	uint64_t vram_free; /* free memory, and memory that the card is clearing */
	uint64_t vram_largest; /* the largest BO that could be allocated */
	uint64_t process_vram; /* OPENREG_BO_VRAM objects of this open device */
	uint64_t process_system; /* OPENREG_BO_SYSTEM objects of this open device */
	uint64_t process_pinned; /* registered memory of this open device */
	uint64_t reserved[2];
};
int openreg_device_get_memory(struct openreg_device *dev,
			      struct openreg_memory_info *info);

struct openreg_timestamp { /* ns */
	uint64_t cpu_before; /* CLOCK_MONOTONIC */
	uint64_t card; /* the card's clock, which TIMESTAMP packets store */
	uint64_t cpu_after; /* CLOCK_MONOTONIC */
};
int openreg_device_get_timestamp(struct openreg_device *dev,
				 struct openreg_timestamp *ts);

/* ---- memory ------------------------------------------------------------ */

#define OPENREG_BO_VRAM (1u << 0) /* contiguous device memory */
#define OPENREG_BO_SYSTEM (1u << 1) /* system memory, cached, reached by DMA */
#define OPENREG_BO_READONLY (1u << 3) /* the card may not write */
#define OPENREG_BO_IMPORTED (1u << 4) /* a dma-buf; only openreg_bo_flags() has it */

/*
 * Allocate zeroed memory. size: bytes, not 0; the driver rounds it up to whole pages.
 * flags: OPENREG_BO_VRAM or OPENREG_BO_SYSTEM.
 *
 * Errors:
 *
 * - EINVAL: bad size or flags
 * - ENOSPC: no block of VRAM this large, or no free segment or context
 * - ENOMEM: out of memory, or the OPENREG_BO_SYSTEM objects of all processes together
 *   would take more than half of the machine's memory
 */
int openreg_bo_alloc(struct openreg_device *dev, uint64_t size, uint32_t flags,
		     struct openreg_bo **bo);

/*
 * Pin private memory of the process, [ptr, ptr + size), and give the card access to it
 * until openreg_bo_free(). flags: 0 or OPENREG_BO_READONLY.
 *
 * The memory must stay mapped. If the process maps other memory at ptr, the card still
 * uses the old pages.
 *
 * Errors:
 *
 * - EINVAL: bad range or flags
 * - EFAULT: the range is not mapped, or not writable where the card may write
 * - EOPNOTSUPP: the range is a shared mapping or device memory
 * - ENOMEM: over RLIMIT_MEMLOCK, or out of memory
 * - ENOSPC: no free segment or context
 */
int openreg_mem_register(struct openreg_device *dev, void *ptr, uint64_t size,
			 uint32_t flags, struct openreg_bo **bo);

/*
 * Unmap and free a BO. NULL is allowed.
 *
 * - A packet that starts after this call and uses the address faults.
 * - A running packet keeps the memory until the packet ends. After 20 s the driver stops
 *   the packet and all queues of the open device.
 */
void openreg_bo_free(struct openreg_bo *bo);

uint64_t openreg_bo_address(const struct openreg_bo *bo); /* of byte 0 */
uint64_t openreg_bo_size(const struct openreg_bo *bo); /* bytes */
uint32_t openreg_bo_flags(const struct openreg_bo *bo);

/*
 * Get a CPU pointer to byte 0. The first call maps the BO; later calls return the same
 * pointer. The mapping lasts until openreg_bo_unmap() or openreg_bo_free().
 *
 * For registered memory the result is the pointer given to openreg_mem_register(). On
 * failure *ptr is NULL.
 */
int openreg_bo_map(struct openreg_bo *bo, void **ptr);
void openreg_bo_unmap(struct openreg_bo *bo);

/*
 * Export a BO as a dma-buf, for another open device, process or driver. Returns a file
 * descriptor that closes on exec(). A card inside the process exports a memfd, which
 * only such cards can import, also those of other processes.
 *
 * - The dma-buf keeps the memory after the BO is freed.
 * - flags: 0, or OPENREG_BO_READONLY for a dma-buf that allows no writes.
 * - The first export of a BO decides; later exports must use the same flags.
 *
 * Errors:
 *
 * - EINVAL: bad flags
 * - EACCES: exported before with other flags
 * - EOPNOTSUPP: the memory is registered
 * - EMFILE: too many open files. A card inside the process keeps a file for each BO and
 *   leaves half of RLIMIT_NOFILE to the program; a BO beyond that cannot be exported
 */
int openreg_bo_export(struct openreg_bo *bo, uint32_t flags);

/*
 * Import a dma-buf as a BO. fd still belongs to the caller.
 *
 * - If this open device already has the dma-buf, the call returns the same BO. Every
 *   such call needs its own openreg_bo_free().
 * - openreg_bo_flags() has OPENREG_BO_IMPORTED, and OPENREG_BO_READONLY if the dma-buf
 *   allows no writes.
 *
 * Errors:
 *
 * - EINVAL, EBADF: fd is no dma-buf, or its size is not whole pages
 * - EOPNOTSUPP: this card cannot reach the memory
 * - EACCES: the exporter refuses
 * - ENOSPC: no free segment or context
 * - ENOMEM: out of memory
 */
int openreg_bo_import(struct openreg_device *dev, int fd,
		      struct openreg_bo **bo);

/* ---- queues ------------------------------------------------------------ */

struct openreg_queue_attr {
	/* ring size, a power of two from 64 to max_ring_slots; 0: 1024 */
	uint32_t slots;
	/* -1 low, 0 normal, 1 high; high needs CAP_SYS_NICE */
	int32_t priority;
	/* how long a wait polls before it sleeps; -1: the library decides */
	int64_t spin_ns;
	/* how long a full ring may complete no packet; 0: 60 s, -1: no limit */
	int64_t full_timeout_ns;
	uint64_t reserved[4]; /* zero */
};
#define OPENREG_QUEUE_ATTR_DEFAULT { 0, 0, -1, 0, { 0, 0, 0, 0 } }

/*
 * Create a queue. attr NULL means OPENREG_QUEUE_ATTR_DEFAULT.
 *
 * Errors:
 *
 * - EINVAL: bad attributes
 * - EACCES: high priority without CAP_SYS_NICE
 * - ENOSPC: no free queue, doorbell or context
 * - ENOMEM: out of memory
 */
int openreg_queue_create(struct openreg_device *dev,
			 const struct openreg_queue_attr *attr,
			 struct openreg_queue **queue);

/* Stop and free a queue; packets that have not begun never run. NULL is allowed. */
void openreg_queue_destroy(struct openreg_queue *queue);

/* Number of the queue in DRM_IOCTL_OPENREG_QUEUE_*. [any thread] */
uint32_t openreg_queue_number(const struct openreg_queue *queue);
struct openreg_device *openreg_queue_device(const struct openreg_queue *queue);

/*
 * Reserve room in the ring for one packet of slots slots (1..32), and point *packet at
 * the room. The caller must fill it (openreg_encode.h) before the next call on this queue.
 * *seq, if seq is not NULL, becomes the packet's sequence number.
 *
 * Packets run after openreg_queue_submit(). If the ring is full, openreg_queue_begin()
 * submits the earlier packets and waits for room.
 *
 * Errors of openreg_queue_begin() and openreg_queue_submit():
 *
 * - EINVAL: bad slots (openreg_queue_begin() only)
 * - ETIME: the ring stayed full (openreg_queue_begin() only)
 * - EPERM: the device was opened before fork()
 * - EIO: the queue faulted or stopped; see openreg_queue_fault()
 * - ENODEV: the card is gone
 *
 * openreg_queue_begin() finds EIO and ENODEV only if the ring is full.
 */
int openreg_queue_begin(struct openreg_queue *queue, unsigned int slots,
			void **packet, uint64_t *seq);

/*
 * Publish all packets begun so far, and wake the card if it sleeps, without a system
 * call. Returns the sequence number of the last packet.
 */
int64_t openreg_queue_submit(struct openreg_queue *queue);

/* Sequence number of the last submitted packet. */
uint64_t openreg_queue_submitted(const struct openreg_queue *queue);

/* Sequence number of the last completed packet; costs one load. [any thread] */
uint64_t openreg_queue_completed(const struct openreg_queue *queue);

/* 1 if packet seq has completed, else 0; costs one load. [any thread] */
int openreg_queue_done(const struct openreg_queue *queue, uint64_t seq);

/*
 * Wait until packet seq has completed: poll for spin_ns, then sleep. A packet that is
 * not submitted never completes. [any thread]
 *
 * - timeout_ns is relative: 0 polls once, a negative value waits without limit.
 * - deadline_ns is an absolute time of CLOCK_MONOTONIC.
 *
 * Errors:
 *
 * - ETIME: the packet has not completed in time
 * - EIO: the queue faulted or stopped before seq
 * - ENODEV: the card is gone
 * - EPERM: the device was opened before fork()
 */
int openreg_queue_wait(struct openreg_queue *queue, uint64_t seq,
		       int64_t timeout_ns);
int openreg_queue_wait_until(struct openreg_queue *queue, uint64_t seq,
			     int64_t deadline_ns);

/* Set how long waits poll before they sleep; -1: the default. [any thread] */
void openreg_queue_set_spin(struct openreg_queue *queue, int64_t spin_ns);

/* 1 and *fault if the queue has faulted, 0 if not, or -EPERM. [any thread] */
int openreg_queue_fault(struct openreg_queue *queue,
			struct openreg_fault_summary *fault);

/*
 * Write a fault as one sentence with packet, operand and address. Returns the length of
 * the whole sentence, as snprintf() does. Needs no device.
 */
int openreg_fault_text(const struct openreg_fault_summary *fault, char *buf,
		       size_t len);

/* Names such as "VECTOR", "f32", "out of bounds"; "?" for an unknown number. */
const char *openreg_opcode_name(unsigned int opcode);
const char *openreg_dtype_name(unsigned int dtype);
const char *openreg_fault_name(unsigned int code);

/*
 * Restart a queue after a fault. The call drops all packets that have not completed and
 * counts them as completed: waits for them return 0.
 *
 * Errors: EIO: the card was reset; open the device again.
 */
int openreg_queue_reset(struct openreg_queue *queue);

struct openreg_queue_stats {
	/* counted by the library */
	uint64_t packets; /* submitted packets, with pads */
	uint64_t doorbells; /* doorbell writes */
	uint64_t sleeps; /* waits that called the kernel */
	uint64_t full_waits; /* times openreg_queue_begin() waited for room */
	uint64_t pads; /* NOP packets that fill the ring's end */
	/* counted by the card */
	uint64_t wakes; /* times the card woke */
	uint64_t interrupts; /* vectors raised for the queue */
	uint64_t dma_read; /* bytes read from system memory */
	uint64_t dma_written; /* bytes written to system memory */
	uint64_t busy_ns; /* engine time, summed over threads */
	/* counted by the library */
	uint64_t notes; /* NOTE packets, for a card that checks */
	uint64_t reserved[5];
};
int openreg_queue_get_stats(const struct openreg_queue *queue,
			    struct openreg_queue_stats *stats);

/* ---- traces ------------------------------------------------------------ */

/*
 * Trace a queue: the card records when each later packet begins and ends
 * (struct openreg_trace_record). Submits a packet, and the packets begun before it.
 *
 * records: unread records that the library keeps, a power of two of at most
 * OPENREG_TRACE_RECORDS_MAX. The card drops further records, and counts them.
 *
 * A trace that runs ends, and its unread records are gone. After
 * openreg_queue_reset() a trace goes on if its start was not among the dropped packets.
 *
 * Errors:
 *
 * - EINVAL: bad records
 * - EOPNOTSUPP: the card's instruction set is older than 1.7
 * - ENOMEM, ENOSPC: as openreg_bo_alloc()
 * - EIO, ENODEV, EPERM, ETIME: as openreg_queue_begin()
 */
int openreg_queue_trace_start(struct openreg_queue *queue, uint64_t records);

/* End the trace after the packets begun so far. Its records can still be read. */
int openreg_queue_trace_stop(struct openreg_queue *queue);

/*
 * Move up to n unread records to records, oldest first, and return their number. The
 * record of a packet is there when openreg_queue_completed() says that the packet is
 * done. *lost, if lost is not NULL, becomes the number of records dropped since
 * openreg_queue_trace_start().
 *
 * Any thread may call this, but only one at a time, and none during
 * openreg_queue_trace_start().
 */
int64_t openreg_queue_trace_read(struct openreg_queue *queue,
				 struct openreg_trace_record *records, size_t n,
				 uint64_t *lost);

/* ---- checks ------------------------------------------------------------ */

/*
 * A card that checks programs (OPENREG_CHECK, docs/sanitizers.md) reports races between
 * queues, reads of bytes that no packet wrote, and accesses that leave a block.
 *
 * A program that divides a BO tells the card its blocks. Like packets, the calls take
 * effect in the order of the queue, and need openreg_queue_submit().
 *
 * - openreg_queue_note_block(): from here on these bytes are one block, and nobody has
 *   written them. cookie: any value, for findings.
 * - openreg_queue_note_guarded_block(): so, and any access that begins in the red_zone
 *   bytes behind the block is a finding, too.
 * - openreg_queue_note_unblock(): the bytes belong to no block any more.
 *
 * If the card does not check, they do nothing and return 0.
 *
 * Errors: EINVAL: bytes is 0; or as openreg_queue_begin()
 */
int openreg_queue_note_block(struct openreg_queue *queue, uint64_t address,
			     uint64_t bytes, uint32_t cookie);
int openreg_queue_note_guarded_block(struct openreg_queue *queue, uint64_t address,
				     uint64_t bytes, uint64_t red_zone, uint32_t cookie);
int openreg_queue_note_unblock(struct openreg_queue *queue, uint64_t address,
			       uint64_t bytes);

/*
 * Move up to n findings to findings, oldest first, and return their number. A packet's
 * findings are there when it has completed.
 *
 * Without this call the library prints findings at waits and at the end, to the file of
 * the environment variable OPENREG_CHECK_LOG or to the standard error. The first call
 * ends that. [any thread]
 */
int64_t openreg_device_findings(struct openreg_device *dev,
				struct openreg_finding *findings, size_t n);

/* Write a finding as one sentence. The result is that of snprintf(). */
int openreg_finding_text(const struct openreg_finding *finding, char *buf, size_t len);

/* ---- copies ------------------------------------------------------------ */

/*
 * Copies and fills are packets of the queue and run in order with its other packets.
 * dst and src of type uint64_t are device addresses of any alignment, of BOs or
 * registered memory.
 *
 * Asynchronous: submit the packets and return the sequence number to wait for.
 */
int64_t openreg_copy_async(struct openreg_queue *queue, uint64_t dst,
			   uint64_t src, uint64_t bytes);
int64_t openreg_fill_async(struct openreg_queue *queue, uint64_t dst,
			   uint8_t byte, uint64_t bytes);

/*
 * Synchronous: return when the copy is complete. The memory of the process can be of any
 * kind. The library registers large ranges for the copy, or copies through pinned
 * memory: the CPU then copies one chunk while the card copies another.
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
