/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/**
 * DOC: ioctls of /dev/openreg and /dev/accel/accelN
 *
 * All ioctls:
 *
 * - Reserved fields and unknown flags must be zero, else EINVAL.
 * - Every call can fail with ENODEV if the card was removed, and with EIO if the
 *   driver has given the card up ("wedged").
 * - A reset of the card ends everything that an open file has on it. New work and
 *   waits for unfinished packets fail with EIO. Open the device again.
 * - Suspend keeps everything, with two exceptions. A packet that still runs after
 *   some seconds is cut short, and its queue faults with OPENREG_FAULT_HANG. If
 *   memory for describing a file's objects to the card again runs out at resume,
 *   that file ends as after a reset.
 *
 * The device file:
 *
 * - poll() and read() report only that the card was removed. There are no events.
 * - A child of fork() inherits no mapping of the device file.
 *
 * DRM_IOCTL_PRIME_HANDLE_TO_FD exports an object as a dma-buf:
 *
 * - The dma-buf keeps the memory, and can be mapped, for as long as it is open,
 *   even after the handle is closed.
 * - Without DRM_RDWR the dma-buf is read-only, for other devices too.
 * - Every export of a handle returns the same dma-buf. Only this dma-buf becomes the
 *   handle again when the file imports it.
 * - Other devices reach VRAM only if they map the memory of their peers and stop
 *   when the exporter tells them to. openreg cards do both.
 * - After the card was removed, all pages of VRAM show one page that began as zeros.
 *
 * DRM_IOCTL_PRIME_FD_TO_HANDLE imports a dma-buf:
 *
 * - The dma-buf has whole pages, from any exporter. A file that already has a handle
 *   for the dma-buf gets this handle. DRM_IOCTL_OPENREG_BO_INFO returns the address.
 * - The exporter's pages stay until the handle is closed and no packet uses them.
 * - Access that the dma-buf does not allow is refused: a mapping with EACCES, a
 *   packet with a fault. Packets also fault once the exporter takes the memory back.
 *
 * Errors of both:
 *
 * - EINVAL: bad flags, the file is no dma-buf, or the size is not whole pages
 * - EBADF: no such file descriptor; ENOENT: no such handle
 * - EOPNOTSUPP: the memory is registered, or this device cannot reach it
 * - EACCES: exported before with other access, or the exporter refuses
 * - EBUSY: the exporter needs more than ten seconds to pin the memory
 * - ENOSPC: no free segment or context; ENOMEM: out of memory
 * - EIO: the card was reset since this file first used it
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
	/** @DRM_OPENREG_QUERY: properties and memory of the card */
	DRM_OPENREG_QUERY = 0,
	/** @DRM_OPENREG_BO_CREATE: allocate device or system memory */
	DRM_OPENREG_BO_CREATE,
	/** @DRM_OPENREG_BO_INFO: address and size of the object of a handle */
	DRM_OPENREG_BO_INFO,
	/** @DRM_OPENREG_MEM_REGISTER: give the card access to memory of the process */
	DRM_OPENREG_MEM_REGISTER,
	/** @DRM_OPENREG_QUEUE_CREATE: a ring that the process writes and the card reads */
	DRM_OPENREG_QUEUE_CREATE,
	/** @DRM_OPENREG_QUEUE_DESTROY: stop a queue and free its number */
	DRM_OPENREG_QUEUE_DESTROY,
	/** @DRM_OPENREG_QUEUE_WAIT: sleep until a packet has completed */
	DRM_OPENREG_QUEUE_WAIT,
	/** @DRM_OPENREG_QUEUE_RESET: restart a queue after a fault */
	DRM_OPENREG_QUEUE_RESET,
	/** @DRM_OPENREG_TIMESTAMP: read the card's clock and the CPU's */
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
 * The results can grow: the kernel copies the smaller of @size and the size that
 * it knows, and returns the latter in @size.
 *
 * Errors: EINVAL: unknown type; EFAULT.
 */
struct drm_openreg_query {
	/** @type: enum drm_openreg_query_type */
	__u32 type;
	/** @size: bytes at @pointer; out: size of the result in this kernel */
	__u32 size;
	/** @pointer: user address of the result; 0 to ask only for the size */
	__u64 pointer;
};

/** struct drm_openreg_device_info - fixed properties of card and driver */
struct drm_openreg_device_info {
	/** @isa_version: major << 16 | minor, of openreg_isa.h */
	__u32 isa_version;
	/** @card: card field of this card's addresses, 0..15 */
	__u32 card;
	/** @packets: bit n is set if the card has packet opcode n */
	__u64 packets;
	/** @dtypes: bit n is set if the card has enum openreg_dtype n */
	__u64 dtypes;
	/** @vram_size: bytes of device memory on the card */
	__u64 vram_size;
	/**
	 * @max_bo_size: largest buffer object in bytes; a registration can have one
	 * page less. System memory without 2 MiB pages may be limited to 2 GiB,
	 * because the list of its pages is one contiguous allocation.
	 */
	__u64 max_bo_size;
	/** @max_queues: most queues of all processes together */
	__u32 max_queues;
	/** @max_segments: most buffer objects of one open file */
	__u32 max_segments;
	/** @max_ring_slots: slots of the largest ring */
	__u32 max_ring_slots;
	/** @workers: threads of the compute engine */
	__u32 workers;
	/** @slice_us: longest time between two scheduling decisions, microseconds */
	__u32 slice_us;
	/** @max_work: log2 of the most elements that one packet may visit */
	__u32 max_work;
	/** @vectors: MSI-X vectors in use */
	__u32 vectors;
	/** @pad: zero */
	__u32 pad;
	/** @pci: domain << 32 | bus << 8 | devfn */
	__u64 pci;
};

/** struct drm_openreg_memory_info - device memory now, in bytes */
struct drm_openreg_memory_info {
	/** @vram_total: all device memory */
	__u64 vram_total;
	/** @vram_free: free memory, and memory that the card clears before it is free */
	__u64 vram_free;
	/** @vram_largest: the largest object that could be allocated */
	__u64 vram_largest;
	/** @process_vram: VRAM objects of this open file */
	__u64 process_vram;
	/** @process_system: SYSTEM objects of this open file */
	__u64 process_system;
	/** @process_pinned: registered memory of this open file */
	__u64 process_pinned;
};

/** DRM_OPENREG_BO_VRAM: contiguous device memory, zeroed */
#define DRM_OPENREG_BO_VRAM (1u << 0)
/** DRM_OPENREG_BO_SYSTEM: pages of system memory, zeroed, cached, reached by DMA */
#define DRM_OPENREG_BO_SYSTEM (1u << 1)

/**
 * struct drm_openreg_bo_create - argument of DRM_IOCTL_OPENREG_BO_CREATE
 *
 * - The address is valid for this open file only and ends with the handle.
 * - The memory of a closed handle is free when no packet uses it. A call that
 *   finds too little memory waits up to ten seconds for closed objects of the card.
 * - If a packet uses a closed object for longer than the module's admin_timeout_ms
 *   (20 s), the driver stops all queues of the file.
 *
 * Errors:
 *
 * - EINVAL: bad size or flags
 * - ENOSPC: no such block of VRAM, no free segment or context
 * - ENOMEM: out of memory, or all SYSTEM objects and rings together would take more
 *   than half of the machine's memory
 * - EIO: the card was reset since this file first used it
 */
struct drm_openreg_bo_create {
	/** @size: bytes, not 0; out: rounded up to whole pages */
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

/** DRM_OPENREG_BO_USER: registered memory; in BO_INFO only */
#define DRM_OPENREG_BO_USER (1u << 2)
/** DRM_OPENREG_BO_READONLY: the card may not write; in MEM_REGISTER and BO_INFO */
#define DRM_OPENREG_BO_READONLY (1u << 3)
/**
 * DRM_OPENREG_BO_IMPORTED: an imported dma-buf; in BO_INFO only, together with
 * DRM_OPENREG_BO_VRAM for VRAM of this card, else with DRM_OPENREG_BO_SYSTEM
 */
#define DRM_OPENREG_BO_IMPORTED (1u << 4)

/**
 * struct drm_openreg_bo_info - argument of DRM_IOCTL_OPENREG_BO_INFO
 *
 * Errors: ENOENT: no such handle.
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
 * - The call pins private memory of the calling process and counts its whole pages
 *   against RLIMIT_MEMLOCK, unless the process has CAP_IPC_LOCK.
 * - Closing the handle unpins the memory when no packet uses it.
 *
 * Errors:
 *
 * - EINVAL: bad range or flags
 * - EFAULT: not mapped, or not writable where the card may write
 * - EOPNOTSUPP: mapped shared, or a mapping of a driver
 * - ENOMEM: over RLIMIT_MEMLOCK, or out of memory
 * - ENOSPC: no free segment or context
 * - EIO: the card was reset since this file first used it
 */
struct drm_openreg_mem_register {
	/** @user_address: first byte, any alignment */
	__u64 user_address;
	/** @size: bytes, not 0 */
	__u64 size;
	/** @flags: 0 or DRM_OPENREG_BO_READONLY */
	__u32 flags;
	/** @handle: out: GEM handle */
	__u32 handle;
	/** @address: out: device address of the first byte */
	__u64 address;
};

/**
 * struct drm_openreg_queue_create - argument of DRM_IOCTL_OPENREG_QUEUE_CREATE
 *
 * The four offsets are for mmap() of the device file. Mappings stay after the queue
 * is destroyed, but the card no longer uses the pages.
 *
 * Errors:
 *
 * - EINVAL: @slots is no power of two in range; bad flags or priority
 * - EACCES: a priority above normal without CAP_SYS_NICE
 * - ENOSPC: no free queue, doorbell or context
 * - ENOMEM: as for SYSTEM objects, among which rings are counted
 * - EIO: the card was reset since this file first used it
 */
struct drm_openreg_queue_create {
	/** @slots: ring size, a power of two from OPENREG_RING_SLOTS_MIN to max_ring_slots */
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
 * Packets that have not begun never run. A packet that runs stops at its next slice.
 *
 * Errors: ENOENT: no such queue; EINTR: the caller was killed. The queue may still
 * exist then; its memory is freed with the file at the latest.
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
 * The call also waits while the queue is being reset.
 *
 * Errors: ENOENT: no such queue; ETIME: not completed by @timeout_ns; EIO: the queue
 * faulted or stopped before @seq. A signal restarts the call.
 */
struct drm_openreg_queue_wait {
	/** @queue: number of the queue */
	__u32 queue;
	/** @flags: 0 */
	__u32 flags;
	/** @seq: sequence number of the packet, from 1 */
	__u64 seq;
	/**
	 * @timeout_ns: absolute time of CLOCK_MONOTONIC; 0 or less to poll, INT64_MAX
	 * to wait without limit
	 */
	__s64 timeout_ns;
	/** @completed: out: the queue's completion counter, as the card wrote it */
	__u64 completed;
};

/**
 * struct drm_openreg_queue_reset - argument of DRM_IOCTL_OPENREG_QUEUE_RESET
 *
 * The call stops the queue if it runs, and restarts it at slot counter @head. All
 * packets up to @seq count as completed. A @head beyond the tail makes the queue fault.
 *
 * Errors:
 *
 * - ENOENT: no such queue
 * - EINVAL: @seq is below the completion counter. If packets completed during the
 *   call, the queue has stopped.
 * - ENOMEM: out of memory
 * - EIO: the card was reset
 * - EINTR: the caller was killed; the queue may have stopped
 */
struct drm_openreg_queue_reset {
	/** @queue: number of the queue */
	__u32 queue;
	/** @flags: 0 */
	__u32 flags;
	/** @head: slot counter to restart at; at most the tail */
	__u64 head;
	/** @seq: sequence number of the last packet to skip */
	__u64 seq;
};

/**
 * struct drm_openreg_timestamp - argument of DRM_IOCTL_OPENREG_TIMESTAMP
 *
 * Errors: EINVAL: bad flags; EIO: the card is being reset.
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
 * - The driver adds the point, signalled, when the packet is over: the packet
 *   completed, a reset of the queue skipped it, or it will not complete because the
 *   queue faulted, was destroyed, or was reset with the card.
 * - DRM_IOCTL_OPENREG_QUEUE_WAIT tells these cases apart. The fence of a syncobj
 *   without a timeline has the error EIO as well.
 * - To wait for the point, use DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT or
 *   DRM_IOCTL_SYNCOBJ_EVENTFD.
 * - Points of one queue are added in the order of their packets.
 *
 * Since version 1.1 of the driver.
 *
 * Errors:
 *
 * - EINVAL: bad flags or @seq
 * - ENOENT: no such queue or syncobj
 * - EBUSY: 1024 points of the open file are not added yet
 * - ENOMEM: out of memory
 * - EIO: the packet will not complete
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
	/** @point: point on the syncobj's timeline; 0 for a syncobj without one */
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
