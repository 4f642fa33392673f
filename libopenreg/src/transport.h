/* SPDX-License-Identifier: MIT */
/*
 * The way to a card: the kernel's device, or a card inside this process
 * (libopenreg/sim). What a call needs beyond the launch path goes through one
 * table; the launch path itself is memory that both sides map.
 *
 * Functions return 0 or -errno. They set no error text but for the buffers
 * that they are given.
 */
#ifndef OPENREG_TRANSPORT_H
#define OPENREG_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg.h"

#define OPENREG_ENV_TRANSPORT "OPENREG_TRANSPORT"

/* Library that OPENREG_TRANSPORT=sim loads, and the table that it has. */
#define OPENREG_SIM_LIBRARY "libopenreg-sim.so.1"
#define OPENREG_SIM_SYMBOL "openreg_sim_transport"

/* An open card; each transport has its own. */
struct transport;

struct transport_bo {
	uint64_t size;
	uint64_t address;
	uint64_t map_offset; /* 0: not to be mapped */
	uint32_t handle;
	bool readonly; /* to be mapped for reading */
};

struct transport_queue {
	uint32_t number;
	void *ring;
	size_t ring_size;
	volatile struct openreg_user_page *user;
	const volatile struct openreg_card_page *card;
	volatile uint32_t *doorbell; /* NULL: ring by ops->ring */
	void *state; /* the transport's own */
};

/* What a thread that polls should do next. */
enum lend {
	LEND_SLEEP, /* sleep: the card may need this processor */
	LEND_POLL,
	LEND_WORKED, /* poll: it has just done some of the card's work */
};

struct transport_ops {
	size_t size; /* of this table: one source built all of it */
	const char *more_vram; /* how to get a card with more */
	const char *more_system;

	/* The path of card number index; true if there is one. */
	bool (*exists)(unsigned int index, char *path, size_t len);
	/* -EPROTO for a driver that is not ours. */
	int (*open)(const char *path, struct transport **out);
	/* In a child of fork() too. */
	void (*close)(struct transport *t);
	/* Why open failed, and what to do about it; path may not exist. */
	void (*explain)(int error, const char *path, char *text, size_t len);
	int (*fd)(const struct transport *t); /* -1: there is none */

	int (*info)(struct transport *t, struct openreg_device_info *info);
	int (*memory)(struct transport *t, struct openreg_memory_info *info);
	int (*timestamp)(struct transport *t, struct openreg_timestamp *ts);

	int (*bo_create)(struct transport *t, uint64_t size, uint32_t flags,
			 struct transport_bo *bo);
	int (*mem_register)(struct transport *t, void *ptr, uint64_t size,
			    uint32_t flags, struct transport_bo *bo);
	void (*bo_close)(struct transport *t, uint32_t handle);
	/* NULL: this transport shares nothing. */
	int (*bo_export)(struct transport *t, uint32_t handle, bool readonly,
			 int *fd);
	int (*bo_import)(struct transport *t, int fd, uint32_t *handle);
	/* Of bo->handle, which was imported. */
	int (*bo_info)(struct transport *t, struct transport_bo *bo,
		       uint32_t *flags);
	int (*map)(struct transport *t, const struct transport_bo *bo,
		   void **ptr);
	void (*unmap)(void *ptr, size_t size);

	int (*queue_create)(struct transport *t, uint32_t slots,
			    uint32_t priority, struct transport_queue *tq);
	void (*queue_destroy)(struct transport *t, struct transport_queue *tq);
	/* For a thread that polls: the card may use it. NULL: not known. */
	enum lend (*lend)(struct transport *t);
	int (*queue_wait)(struct transport *t, struct transport_queue *tq,
			  uint64_t seq, int64_t deadline_ns);
	int (*queue_reset)(struct transport *t, struct transport_queue *tq,
			   uint64_t head, uint64_t seq);
	void (*ring)(struct transport *t, struct transport_queue *tq);
};

extern const struct transport_ops openreg_drm_transport;

/*
 * What OPENREG_TRANSPORT asks for, found out once. NULL, with a text, if it
 * cannot be had.
 */
const struct transport_ops *openreg_transport(void);

#endif
