/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_DEVICE_H
#define OPENREG_DEVICE_H

#include <linux/idr.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/ratelimit_types.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <drm/drm_device.h>
#include <drm/drm_file.h>

#include "openreg_accel.h"
#include "openreg_regs.h"

#include "openreg_admin.h"
#include "openreg_compat.h"

struct drm_gem_object_funcs;

/* One MSI-X vector; vector 0 belongs to the driver itself. */
struct openreg_vector {
	struct openreg_device *odev;
	spinlock_t lock; /* protects changes of queues */
	struct list_head queues; /* RCU */
	unsigned int num_queues;
};

#define OPENREG_FAULT_RING_SLOTS 64

struct openreg_faults {
	struct openreg_fault_record *ring;
	dma_addr_t dma;
	struct mutex lock; /* protects the ring and head */
	u32 head;
	struct ratelimit_state reports;
};

/* Polls a card while a process waits for one of its queues. */
struct openreg_health {
	struct delayed_work work;
	struct openreg_admin_req ping; /* NOP */
	bool ping_pending; /* the card has not completed it */
};

struct openreg_vram {
	struct mutex lock; /* protects mm */
	struct gpu_buddy mm;
	atomic64_t clearing; /* bytes of unbound objects that the card clears */
	atomic_t maps; /* mappings of other devices */
	wait_queue_head_t unmapped; /* maps has become 0 */
};

/* Counts closed objects and contexts that the card may still use. */
struct openreg_reclaim {
	atomic_t pending;
	atomic_t done; /* objects and contexts freed so far; may wrap */
	wait_queue_head_t wait; /* done has changed */
};

/*
 * Calls from a lower floor of the driver to a higher one: see kmod/README.md.
 * Constant; probe sets odev->upcalls before anything else.
 */
struct openreg_upcalls {
	/* Requests a reset for a reason found in generation @seen. In any context. */
	void (*broken)(struct openreg_device *odev, u64 seen, const char *reason);
	/* Vector 0 was raised, and the admin ring is drained. In the thread. */
	void (*notify)(struct openreg_device *odev);
	/* The vector of some queues was raised. In hard interrupt context. */
	void (*notify_queues)(struct openreg_vector *vector);
	/* Notifies queues with waiters. Returns true if any still wait. In a work. */
	bool (*poll_queues)(struct openreg_device *odev);
	/* Checks segments that stay in use. Returns true if any do. In a work. */
	bool (*watch)(struct openreg_device *odev);
	/* Logs faults now, before a queue changes. In process context. */
	void (*drain_faults)(struct openreg_device *odev);
	/* What DRM calls for all objects. */
	const struct drm_gem_object_funcs *bo_funcs;
};

/* One card. All floors of the driver keep their state here. */
struct openreg_device {
	struct drm_device drm;
	struct pci_dev *pdev;
	const struct openreg_upcalls *upcalls;
	void __iomem *regs;
	phys_addr_t doorbell_base;
	phys_addr_t vram_base;
	/* The answer to DRM_OPENREG_QUERY_DEVICE; probe reads it from the registers. */
	struct drm_openreg_device_info info;
	u32 max_contexts;
	u32 num_doorbells;
	u32 page_shifts;

	struct openreg_admin admin;
	struct openreg_faults faults;
	struct openreg_vram vram;
	struct openreg_reclaim reclaim;
	struct openreg_vector vectors[OPENREG_MAX_VECTORS];

	struct ida ctx_ids;
	struct ida doorbell_ids;
	struct xarray queues; /* struct openreg_queue by its id */
	struct mutex bos_lock; /* protects bos */
	struct list_head bos;

	struct workqueue_struct *wq;
	atomic_t num_in_use; /* objects on the in_use lists of all contexts */
	struct work_struct unbinds_work;
	struct work_struct reset_work;
	struct mutex reset_lock; /* one reset at a time */
	/* Readers use registers and memory of the card; a reset is the writer. */
	struct rw_semaphore map_lock;
	/* A reset of a bus holds the locks of several cards at once: a class for each. */
	struct lock_class_key reset_key, map_key;
	struct mutex dump_lock; /* one dump is published at a time */
	const char *reset_reason; /* for reset_work */
	bool removing; /* remove() has begun: calls that wait for memory return */
	int wedged; /* error of all calls while the card does not work, or 0 */
	bool wedged_reported; /* by log and uevent; under reset_lock */
	atomic_t num_pausing; /* pause commands of queues that are not completed */
	bool suspended; /* the system is suspended; under reset_lock */
	struct pci_saved_state *config; /* PCI config space after probe */
	struct openreg_health health;
	u64 num_resets; /* resets begun; under reset_lock */
	u64 generation; /* times that the card lost all contexts; under reset_lock */
	u64 reset_wanted; /* generation for which a reset was last requested */

	struct miscdevice misc;
	struct inode *node_inode;
	char node_name[24];
};

static inline struct openreg_device *to_openreg(struct drm_device *drm)
{
	return container_of(drm, struct openreg_device, drm);
}

static inline u32 openreg_read(struct openreg_device *odev, u32 reg)
{
	return readl(odev->regs + reg);
}

static inline u64 openreg_read64(struct openreg_device *odev, u32 reg)
{
	return readq(odev->regs + reg);
}

static inline void openreg_write(struct openreg_device *odev, u32 reg, u32 val)
{
	writel(val, odev->regs + reg);
}

static inline void openreg_write64(struct openreg_device *odev, u32 reg,
				   u64 val)
{
	writel(lower_32_bits(val), odev->regs + reg);
	writel(upper_32_bits(val), odev->regs + reg + 4);
}

/* openreg_hw.c */
int openreg_hw_init(struct openreg_device *odev);
int openreg_hw_start(struct openreg_device *odev);
int openreg_hw_reset(struct openreg_device *odev);
int openreg_hw_restart(struct openreg_device *odev);
int openreg_hw_save_config(struct openreg_device *odev);
void openreg_hw_configure(struct openreg_device *odev);
bool openreg_hw_is_ready(struct openreg_device *odev);
void openreg_hw_check_alive(struct openreg_device *odev);
int openreg_enter(struct openreg_device *odev, int *idx);

/* openreg_watchdog.c */
void openreg_health_init(struct openreg_device *odev);
void openreg_health_watch(struct openreg_device *odev);
void openreg_health_fini(struct openreg_device *odev);

/* openreg_irq.c */
int openreg_irq_init(struct openreg_device *odev);
struct openreg_vector *openreg_vector_get(struct openreg_device *odev);

#endif
