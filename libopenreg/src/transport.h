/* SPDX-License-Identifier: MIT */
/*
 * Everything that leaves the process: the kernel's device and its mappings.
 * Functions return 0 or -errno and set no error text.
 */
#ifndef OPENREG_TRANSPORT_H
#define OPENREG_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg.h"

#define OPENREG_PATH "/dev/openreg"

struct transport_bo {
	uint64_t size;
	uint64_t address;
	uint64_t map_offset; /* 0: not to be mapped */
	uint32_t handle;
};

struct transport_queue {
	uint32_t number;
	void *ring;
	size_t ring_size;
	volatile struct openreg_user_page *user;
	const volatile struct openreg_card_page *card;
	volatile uint32_t *doorbell;
};

/* A file descriptor, or -errno; -EPROTO for a driver that is not ours. */
int transport_open(const char *path);
void transport_close(int fd);
/* The name of node number index; true if there is one. */
bool transport_exists(unsigned int index, char *path, size_t len);
bool transport_card_on_bus(void);

int transport_info(int fd, struct openreg_device_info *info);
int transport_memory(int fd, struct openreg_memory_info *info);
int transport_timestamp(int fd, struct openreg_timestamp *ts);

int transport_bo_create(int fd, uint64_t size, uint32_t flags,
			struct transport_bo *bo);
int transport_mem_register(int fd, void *ptr, uint64_t size, uint32_t flags,
			   struct transport_bo *bo);
void transport_bo_close(int fd, uint32_t handle);
int transport_map(int fd, uint64_t offset, size_t size, void **ptr);
void transport_unmap(void *ptr, size_t size);

int transport_queue_create(int fd, uint32_t slots, uint32_t priority,
			   struct transport_queue *tq);
void transport_queue_destroy(int fd, struct transport_queue *tq);
int transport_queue_wait(int fd, uint32_t number, uint64_t seq,
			 int64_t deadline_ns);
int transport_queue_reset(int fd, uint32_t number, uint64_t head,
			  uint64_t seq);

#endif
