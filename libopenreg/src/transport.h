/* SPDX-License-Identifier: MIT */
/*
 * A transport connects the library to a card: to the kernel's device, or to a card
 * inside this process (libopenreg/sim). struct transport_ops has all calls. The launch
 * path needs none of them: it writes memory that the card maps, too.
 *
 * The functions return 0 or -errno. They do not set openreg_last_error().
 */
#ifndef OPENREG_TRANSPORT_H
#define OPENREG_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg.h"

#define OPENREG_ENV_TRANSPORT "OPENREG_TRANSPORT"

/* OPENREG_TRANSPORT=sim loads this library and takes its table from this symbol. */
#define OPENREG_SIM_LIBRARY "libopenreg-sim.so.1"
#define OPENREG_SIM_SYMBOL "openreg_sim_transport"

/* An open card; each transport has its own. */
struct transport;

struct transport_bo {
	uint64_t size;
	uint64_t address;
	uint64_t map_offset; /* for map(); 0: cannot be mapped */
	uint32_t handle;
	bool readonly; /* map it for reading only */
};

struct transport_queue {
	uint32_t number;
	void *ring;
	size_t ring_size;
	volatile struct openreg_user_page *user;
	const volatile struct openreg_card_page *card;
	volatile uint32_t *doorbell; /* NULL: call ops->ring */
	void *state; /* private to the transport */
};

/* Advice to a polling thread. */
enum lend {
	LEND_SLEEP, /* sleep: the card may need this processor */
	LEND_POLL, /* keep polling */
	LEND_WORKED, /* keep polling: the thread has just done work of the card */
};

struct transport_ops {
	size_t size; /* of this table; differs if another source built the library */
	const char *more_vram; /* for error texts: how to get a card with more VRAM */
	const char *more_system; /* for error texts: how to get more system memory */
	const char *not_shared; /* for error texts: a file descriptor is no export */

	/* Writes the path of card index; returns true if this card exists. */
	bool (*exists)(unsigned int index, char *path, size_t len);
	/* -EPROTO: the node belongs to another driver. */
	int (*open)(const char *path, struct transport **out);
	/* Must also work in a child of fork(). */
	void (*close)(struct transport *t);
	/* Writes why open failed and what to do. path may not exist. */
	void (*explain)(int error, const char *path, char *text, size_t len);
	int (*fd)(const struct transport *t); /* -1: no file descriptor */

	int (*info)(struct transport *t, struct openreg_device_info *info);
	int (*memory)(struct transport *t, struct openreg_memory_info *info);
	int (*timestamp)(struct transport *t, struct openreg_timestamp *ts);

	int (*bo_create)(struct transport *t, uint64_t size, uint32_t flags,
			 struct transport_bo *bo);
	int (*mem_register)(struct transport *t, void *ptr, uint64_t size,
			    uint32_t flags, struct transport_bo *bo);
	void (*bo_close)(struct transport *t, uint32_t handle);
	int (*bo_export)(struct transport *t, uint32_t handle, bool readonly,
			 int *fd);
	int (*bo_import)(struct transport *t, int fd, uint32_t *handle);
	/* Fills *bo from bo->handle, an imported handle. */
	int (*bo_info)(struct transport *t, struct transport_bo *bo,
		       uint32_t *flags);
	int (*map)(struct transport *t, const struct transport_bo *bo,
		   void **ptr);
	void (*unmap)(void *ptr, size_t size);

	int (*queue_create)(struct transport *t, uint32_t slots,
			    uint32_t priority, struct transport_queue *tq);
	void (*queue_destroy)(struct transport *t, struct transport_queue *tq);
	/*
	 * Lends the polling thread to the card, which may run a piece of its work in
	 * it. NULL: the transport cannot do this.
	 */
	enum lend (*lend)(struct transport *t);
	int (*queue_wait)(struct transport *t, struct transport_queue *tq,
			  uint64_t seq, int64_t deadline_ns);
	int (*queue_reset)(struct transport *t, struct transport_queue *tq,
			   uint64_t head, uint64_t seq);
	void (*ring)(struct transport *t, struct transport_queue *tq);
};

extern const struct transport_ops openreg_drm_transport;

/*
 * The transport that OPENREG_TRANSPORT selects; the first call decides. NULL, with an
 * error text, if the variable is wrong or the library cannot be loaded.
 */
const struct transport_ops *openreg_transport(void);

#endif
