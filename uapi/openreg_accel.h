/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * ioctls of /dev/openreg and /dev/accel/accelN.
 *
 * Reserved fields and unknown flags must be zero, else EINVAL. Every call may
 * return ENODEV once the card is gone and EIO once it is wedged. A reset of the
 * card ends all that an open file had on it: new work, and waits for what had
 * not completed, give EIO. Open the device again. A suspend of the system ends
 * nothing; but a packet that is not through within seconds is given up, and its
 * queue has faulted with OPENREG_FAULT_HANG then, and where there is no memory to
 * describe an open file's objects to the card again, that file's end as in a reset.
 *
 * The file has no events to read. poll() and read() tell that the card is gone.
 *
 * No map of the device file is inherited by a child of fork().
 *
 * DRM_IOCTL_PRIME_HANDLE_TO_FD makes a dma-buf of an object that was created
 * here: a file that keeps the memory, and can be mapped, as long as it is open,
 * after the handle, too. After the card all pages of VRAM are one, of zeros until
 * somebody writes. Without DRM_RDWR it is for reading, for other devices as well.
 * All exports of a handle give the same dma-buf, which is the one to import again.
 * Other devices reach VRAM only if they map the memory of their peers, and give
 * that up before the card goes; cards do.
 *
 * DRM_IOCTL_PRIME_FD_TO_HANDLE makes an object of any dma-buf in whole pages; a
 * file that has a handle for it gets that one. DRM_IOCTL_OPENREG_BO_INFO tells
 * the address. Its pages stay until the handle is closed and no packet uses them
 * any more. What the dma-buf is not open for is refused: maps with EACCES, and
 * packets fault. If the exporter takes the memory away packets fault, too.
 *
 * Errors: EINVAL flags, no dma-buf, or a size that cannot be; EBADF; ENOENT no
 * such handle; EOPNOTSUPP registered memory, or the exporter's memory cannot be
 * reached by this device; EACCES exported before for another access, or the
 * exporter says so; EBUSY the exporter takes more than ten seconds to have the
 * memory where it stays; ENOSPC no free segment or context; ENOMEM; EIO the card
 * was reset since this file first used it.
 */
#ifndef OPENREG_ACCEL_H
#define OPENREG_ACCEL_H

#include "drm.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * enum drm_openreg_ioctl_id - numbers of the ioctls
 *
 * Handles of buffer objects are closed with DRM_IOCTL_GEM_CLOSE.
 */
enum drm_openreg_ioctl_id {
	/** @DRM_OPENREG_QUERY: what the card and the driver have */
	DRM_OPENREG_QUERY = 0,
	/** @DRM_OPENREG_BO_CREATE: allocate device or system memory */
	DRM_OPENREG_BO_CREATE,
	/** @DRM_OPENREG_BO_INFO: what a handle stands for */
	DRM_OPENREG_BO_INFO,
	/** @DRM_OPENREG_MEM_REGISTER: give the card access to memory of the process */
	DRM_OPENREG_MEM_REGISTER,
	/** @DRM_OPENREG_QUEUE_CREATE: a ring that the process writes and the card reads */
	DRM_OPENREG_QUEUE_CREATE,
	/** @DRM_OPENREG_QUEUE_DESTROY: stop a queue and free its number */
	DRM_OPENREG_QUEUE_DESTROY,
	/** @DRM_OPENREG_QUEUE_WAIT: sleep until a packet has completed */
	DRM_OPENREG_QUEUE_WAIT,
	/** @DRM_OPENREG_QUEUE_RESET: go on after a fault */
	DRM_OPENREG_QUEUE_RESET,
	/** @DRM_OPENREG_TIMESTAMP: the card's clock between two readings of the CPU's */
	DRM_OPENREG_TIMESTAMP,
	/** @DRM_OPENREG_QUEUE_SIGNAL: signal a syncobj when a packet has completed */
	DRM_OPENREG_QUEUE_SIGNAL,
};

/** enum drm_openreg_query_type - what DRM_IOCTL_OPENREG_QUERY can ask */
enum drm_openreg_query_type {
	/** @DRM_OPENREG_QUERY_DEVICE: struct drm_openreg_device_info */
	DRM_OPENREG_QUERY_DEVICE = 0,
	/** @DRM_OPENREG_QUERY_MEMORY: struct drm_openreg_memory_info */
	DRM_OPENREG_QUERY_MEMORY,
};

/**
 * struct drm_openreg_query - argument of DRM_IOCTL_OPENREG_QUERY
 *
 * Extensible: the kernel copies the lesser of @size and what it knows, and
 * returns in @size what it knows.
 *
 * Errors: EINVAL unknown type; EFAULT.
 */
struct drm_openreg_query {
	/** @type: enum drm_openreg_query_type */
	__u32 type;
	/** @size: bytes at @pointer; out: bytes the kernel has for this type */
	__u32 size;
	/** @pointer: user address of the result; 0 only asks for the size */
	__u64 pointer;
};

/** struct drm_openreg_device_info - fixed properties of card and driver */
struct drm_openreg_device_info {
	/** @isa_version: major << 16 | minor, of openreg_isa.h */
	__u32 isa_version;
	/** @card: card field of this card's addresses, 0..15 */
	__u32 card;
	/** @packets: bit n: packet opcode n is there */
	__u64 packets;
	/** @dtypes: bit n: enum openreg_dtype n is there */
	__u64 dtypes;
	/** @vram_size: bytes of device memory on the card */
	__u64 vram_size;
	/**
	 * @max_bo_size: bytes, of one buffer object; a page less of one
	 * registration. System memory that is not in whole pages of 2 MiB may
	 * end earlier, at 2 GiB: the card needs a list of its pages in one piece.
	 */
	__u64 max_bo_size;
	/** @max_queues: queues on the card, all processes together */
	__u32 max_queues;
	/** @max_segments: buffer objects a process can hold */
	__u32 max_segments;
	/** @max_ring_slots: largest ring */
	__u32 max_ring_slots;
	/** @workers: threads of the compute engine */
	__u32 workers;
	/** @slice_us: longest time between two scheduling decisions */
	__u32 slice_us;
	/** @max_work: log2 of the elements one packet may visit */
	__u32 max_work;
	/** @vectors: MSI-X vectors in use */
	__u32 vectors;
	/** @pad: zero */
	__u32 pad;
	/** @pci: domain << 32 | bus << 8 | devfn */
	__u64 pci;
};

/** struct drm_openreg_memory_info - how much device memory there is now */
struct drm_openreg_memory_info {
	/** @vram_total: bytes */
	__u64 vram_total;
	/** @vram_free: bytes not allocated by anyone, or of closed objects */
	__u64 vram_free;
	/** @vram_largest: bytes of the largest block that could be had */
	__u64 vram_largest;
	/** @process_vram: bytes that this open file holds */
	__u64 process_vram;
	/** @process_system: bytes of SYSTEM buffer objects of this file */
	__u64 process_system;
	/** @process_pinned: bytes of registered memory of this file */
	__u64 process_pinned;
};

/** DRM_OPENREG_BO_VRAM: contiguous device memory, zeroed */
#define DRM_OPENREG_BO_VRAM (1u << 0)
/** DRM_OPENREG_BO_SYSTEM: pages of the host, zeroed, cached; the card reaches them by DMA */
#define DRM_OPENREG_BO_SYSTEM (1u << 1)

/**
 * struct drm_openreg_bo_create - argument of DRM_IOCTL_OPENREG_BO_CREATE
 *
 * The handle's address is valid for this open file only and ends with it.
 * Memory of a closed handle is free when no packet uses it any more; a call
 * that needs it waits for that up to ten seconds, and for VRAM that is on its
 * way back, anybody's, up to ten more. If a closed object is in use for longer
 * than the module's admin_timeout_ms (20 s), all queues of its file are stopped.
 *
 * Errors: EINVAL bad size or flags; ENOSPC no such block of VRAM, no free
 * segment or context; ENOMEM out of memory, or all SYSTEM objects and rings
 * together would be more than half of the machine's; EIO the card was reset
 * since this file first used it, or meanwhile.
 */
struct drm_openreg_bo_create {
	/** @size: bytes, not 0; rounded up to whole pages on return */
	__u64 size;
	/** @flags: exactly one of DRM_OPENREG_BO_VRAM, DRM_OPENREG_BO_SYSTEM */
	__u32 flags;
	/** @handle: out: GEM handle */
	__u32 handle;
	/** @address: out: device address of the first byte (openreg_isa.h) */
	__u64 address;
	/** @mmap_offset: out: offset for mmap() of the device file */
	__u64 mmap_offset;
};

/** DRM_OPENREG_BO_USER: registered memory; only reported */
#define DRM_OPENREG_BO_USER (1u << 2)
/** DRM_OPENREG_BO_READONLY: the card may not write; to register memory, and reported */
#define DRM_OPENREG_BO_READONLY (1u << 3)
/**
 * DRM_OPENREG_BO_IMPORTED: a dma-buf; only reported, with DRM_OPENREG_BO_VRAM
 * for VRAM of this card, else with DRM_OPENREG_BO_SYSTEM
 */
#define DRM_OPENREG_BO_IMPORTED (1u << 4)

/**
 * struct drm_openreg_bo_info - argument of DRM_IOCTL_OPENREG_BO_INFO
 *
 * Errors: ENOENT no such handle.
 */
struct drm_openreg_bo_info {
	/** @handle: GEM handle */
	__u32 handle;
	/** @flags: out: DRM_OPENREG_BO_* */
	__u32 flags;
	/** @size: out: bytes */
	__u64 size;
	/** @address: out: device address */
	__u64 address;
	/** @mmap_offset: out: 0 for registered memory */
	__u64 mmap_offset;
};

/**
 * struct drm_openreg_mem_register - argument of DRM_IOCTL_OPENREG_MEM_REGISTER
 *
 * Pins private memory of the calling process and counts it against
 * RLIMIT_MEMLOCK, whole pages, unless it has CAP_IPC_LOCK. Memory that is
 * mapped shared, and memory maps of this or another driver, cannot be
 * registered. Closing the handle unpins when no packet uses it any more.
 *
 * Errors: EINVAL bad range or flags; EFAULT not mapped, or not writable where
 * the card may write; EOPNOTSUPP mapped shared, or of a driver; ENOMEM over
 * RLIMIT_MEMLOCK or out of memory; ENOSPC no free segment or context; EIO the
 * card was reset since this file first used it.
 */
struct drm_openreg_mem_register {
	/** @user_address: first byte, any alignment */
	__u64 user_address;
	/** @size: bytes, not 0 */
	__u64 size;
	/** @flags: 0 or DRM_OPENREG_BO_READONLY */
	__u32 flags;
	/** @handle: out: GEM handle; closing it unpins */
	__u32 handle;
	/** @address: out: device address of the first byte */
	__u64 address;
};

/**
 * struct drm_openreg_queue_create - argument of DRM_IOCTL_OPENREG_QUEUE_CREATE
 *
 * The four offsets are for mmap() of the device file; the pages stay mapped
 * after the queue is destroyed but nothing reads them any more.
 *
 * Errors: EINVAL slots not a power of two in range, flags, priority; EACCES
 * priority above normal without CAP_SYS_NICE; ENOSPC no free queue, doorbell or
 * context; ENOMEM as for SYSTEM objects, which rings count as; EIO the card was
 * reset since this file first used it.
 */
struct drm_openreg_queue_create {
	/** @slots: ring size, power of two, OPENREG_RING_SLOTS_MIN and up */
	__u32 slots;
	/** @priority: enum openreg_priority of openreg_regs.h */
	__u32 priority;
	/** @flags: 0 */
	__u32 flags;
	/** @queue: out: number of the queue within this open file, from 1 */
	__u32 queue;
	/** @ring_offset: out: slots * 64 bytes, read and write */
	__u64 ring_offset;
	/** @user_offset: out: struct openreg_user_page, read and write */
	__u64 user_offset;
	/** @card_offset: out: struct openreg_card_page, read only */
	__u64 card_offset;
	/** @doorbell_offset: out: doorbell page, write only */
	__u64 doorbell_offset;
};

/**
 * struct drm_openreg_queue_destroy - argument of DRM_IOCTL_OPENREG_QUEUE_DESTROY
 *
 * Packets that have not started are given up; the one that runs stops at its
 * next slice. Errors: ENOENT; EINTR the caller was killed: the queue is as it
 * was, or what was begun goes on, and its memory is freed with the file at the
 * latest.
 */
struct drm_openreg_queue_destroy {
	/** @queue: number of the queue */
	__u32 queue;
	/** @pad: zero */
	__u32 pad;
};

/**
 * struct drm_openreg_queue_wait - argument of DRM_IOCTL_OPENREG_QUEUE_WAIT
 *
 * A queue that is being reset is waited for.
 *
 * Errors: ENOENT; ETIME not completed by @timeout_ns; EIO the queue has
 * faulted or was stopped before @seq; EINTR restarts by itself.
 */
struct drm_openreg_queue_wait {
	/** @queue: number of the queue */
	__u32 queue;
	/** @flags: 0 */
	__u32 flags;
	/** @seq: sequence number of the packet, from 1 */
	__u64 seq;
	/** @timeout_ns: absolute CLOCK_MONOTONIC; negative or 0 polls; INT64_MAX never */
	__s64 timeout_ns;
	/** @completed: out: the queue's completion counter as the card wrote it */
	__u64 completed;
};

/**
 * struct drm_openreg_queue_reset - argument of DRM_IOCTL_OPENREG_QUEUE_RESET
 *
 * Stops the queue if it runs, then lets it go on at slot counter @head with
 * every packet up to @seq given up and counted as completed. A @head beyond
 * the tail is a fault of the queue.
 *
 * Errors: ENOENT; EINVAL @seq below the completion counter (if only packets
 * that completed meanwhile are to blame, the queue has stopped); ENOMEM; EIO the
 * card was reset; EINTR the caller was killed, and the queue may stop all
 * the same.
 */
struct drm_openreg_queue_reset {
	/** @queue: number of the queue */
	__u32 queue;
	/** @flags: 0 */
	__u32 flags;
	/** @head: slot counter to go on from; at most the tail */
	__u64 head;
	/** @seq: number of the last packet given up */
	__u64 seq;
};

/**
 * struct drm_openreg_timestamp - argument of DRM_IOCTL_OPENREG_TIMESTAMP
 *
 * Errors: EINVAL; EIO the card is being reset just now.
 */
struct drm_openreg_timestamp {
	/** @flags: 0 */
	__u32 flags;
	/** @pad: zero */
	__u32 pad;
	/** @cpu_before: out: CLOCK_MONOTONIC in ns before reading the card */
	__u64 cpu_before;
	/** @card: out: the card's clock in ns */
	__u64 card;
	/** @cpu_after: out: CLOCK_MONOTONIC in ns after reading the card */
	__u64 cpu_after;
};

/**
 * struct drm_openreg_queue_signal - argument of DRM_IOCTL_OPENREG_QUEUE_SIGNAL
 *
 * The point appears, signalled, when the packet is over: it has completed, was
 * given up by a reset of the queue, or will not complete, since the queue has
 * faulted, was destroyed or reset with the card. DRM_IOCTL_OPENREG_QUEUE_WAIT
 * tells which; the fence of a syncobj without a timeline has the error EIO, too.
 * Wait for it with DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, or with
 * DRM_IOCTL_SYNCOBJ_EVENTFD. Points of one queue appear in the order of their
 * packets. Since version 1.1 of the driver.
 *
 * Errors: EINVAL; ENOENT @queue or @syncobj; EBUSY 1024 points of the open file
 * have not appeared yet; ENOMEM; EIO the packet will not complete.
 */
struct drm_openreg_queue_signal {
	/** @queue: number of the queue */
	__u32 queue;
	/** @syncobj: handle of the syncobj */
	__u32 syncobj;
	/** @flags: 0 */
	__u32 flags;
	/** @pad: zero */
	__u32 pad;
	/** @point: of the syncobj's timeline; 0: the syncobj has none */
	__u64 point;
	/** @seq: sequence number of the packet, from 1 */
	__u64 seq;
};

#define DRM_OPENREG_IOCTL(dir, id, type)                                       \
	DRM_##dir(DRM_COMMAND_BASE + DRM_OPENREG_##id, struct drm_openreg_##type)

#define DRM_IOCTL_OPENREG_QUERY DRM_OPENREG_IOCTL(IOWR, QUERY, query)
#define DRM_IOCTL_OPENREG_BO_CREATE DRM_OPENREG_IOCTL(IOWR, BO_CREATE, bo_create)
#define DRM_IOCTL_OPENREG_BO_INFO DRM_OPENREG_IOCTL(IOWR, BO_INFO, bo_info)
#define DRM_IOCTL_OPENREG_MEM_REGISTER                                         \
	DRM_OPENREG_IOCTL(IOWR, MEM_REGISTER, mem_register)
#define DRM_IOCTL_OPENREG_QUEUE_CREATE                                         \
	DRM_OPENREG_IOCTL(IOWR, QUEUE_CREATE, queue_create)
#define DRM_IOCTL_OPENREG_QUEUE_DESTROY                                        \
	DRM_OPENREG_IOCTL(IOW, QUEUE_DESTROY, queue_destroy)
#define DRM_IOCTL_OPENREG_QUEUE_WAIT                                           \
	DRM_OPENREG_IOCTL(IOWR, QUEUE_WAIT, queue_wait)
#define DRM_IOCTL_OPENREG_QUEUE_RESET                                          \
	DRM_OPENREG_IOCTL(IOW, QUEUE_RESET, queue_reset)
#define DRM_IOCTL_OPENREG_TIMESTAMP DRM_OPENREG_IOCTL(IOWR, TIMESTAMP, timestamp)
#define DRM_IOCTL_OPENREG_QUEUE_SIGNAL                                         \
	DRM_OPENREG_IOCTL(IOW, QUEUE_SIGNAL, queue_signal)

#if defined(__cplusplus)
}
#endif

#endif
