/* SPDX-License-Identifier: MIT */
/*
 * A card inside the process. What QEMU is to the card, host.c is here; what
 * the kernel module is to user space, the rest. A bus address is an address of
 * this process.
 */
#ifndef OPENREG_SIM_H
#define OPENREG_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "card.h"
#include "extent.h"
#include "transport.h"

#define SIM_VECTORS OPENREG_MAX_VECTORS
#define SIM_ADMIN_SLOTS 256
#define SIM_FAULT_SLOTS 256
#define SIM_PAGE 4096

/* An MSI-X vector: whoever waits for it holds its lock and sleeps. */
struct sim_vector {
	pthread_mutex_t lock;
	pthread_cond_t raised;
};

struct sim_admin {
	pthread_mutex_t lock;
	pthread_cond_t freed; /* a slot */
	struct openreg_admin_cmd *cmds;
	volatile struct openreg_admin_cpl *cpls;
	uint32_t tail;
	bool busy[SIM_ADMIN_SLOTS];
};

struct sim_bo;
struct sim_queue;

struct sim_card {
	unsigned int index;
	unsigned int users; /* under the lock of all cards */
	struct openreg_card *card;
	uint8_t *vram;
	uint64_t vram_size;
	struct openreg_device_info info;

	struct sim_vector vectors[SIM_VECTORS];
	struct sim_admin admin;
	void *faults;

	pthread_mutex_t lock; /* protects what follows, and memory of transports */
	struct sim_extents free; /* VRAM, all of it zero */
	struct sim_bo *closed; /* not released by the card yet */
	uint64_t closed_vram; /* bytes of these */
	bool contexts[OPENREG_MAX_CONTEXTS];
	bool queues[OPENREG_MAX_QUEUES];
};

/* An open card: a context with its segments. */
struct transport {
	struct sim_card *card;
	pid_t pid;
	uint32_t ctx;
	struct openreg_released_page *released;
	pthread_mutex_t lock; /* protects queues */
	struct sim_queue *queues;

	/* Under the card's lock */
	struct sim_bo *segs[OPENREG_MAX_SEGMENTS];
	uint32_t next_seg;
	unsigned int closed; /* segments that are not released yet */
	uint64_t process_vram;
	uint64_t process_system;
	uint64_t process_pinned;
};

/* host.c */
extern const struct openreg_host_ops sim_host_ops;
int64_t sim_now(void);
/* The vector's lock is held. ETIMEDOUT if the vector is not raised before. */
int sim_vector_wait(struct sim_vector *v, int64_t deadline_ns);
void sim_sleep_ms(unsigned int ms);
/*
 * A thread that is cancelled would leave locks and lists behind. As through the
 * kernel's driver, no call is a cancellation point.
 */
int sim_cancel_off(void);
void sim_cancel_restore(int state);
/* Zeroed, and not there in a child of fork(); NULL without memory. */
void *sim_pages(uint64_t size);
/* The same pages at one more address. */
void *sim_pages_again(void *pages, uint64_t size);

/* card.c: the card with this number, made if it must be. */
unsigned int sim_num_cards(void);
int sim_card_get(unsigned int index, struct sim_card **out);
void sim_card_put(struct sim_card *card);
/* The process ends, and the cards have stopped: no command will complete. */
bool sim_stopped(void);
/* What is wrong with the environment; NULL: nothing. */
const char *sim_config_error(void);

/* admin.c: runs a command and waits for its completion. */
int sim_admin_init(struct sim_card *card);
void sim_admin_fini(struct sim_card *card);
int sim_admin(struct sim_card *card, const struct openreg_admin_cmd *cmd);

/* memory.c */
int sim_bo_create(struct transport *t, uint64_t size, uint32_t flags,
		  struct transport_bo *bo);
int sim_mem_register(struct transport *t, void *ptr, uint64_t size,
		     uint32_t flags, struct transport_bo *bo);
void sim_bo_close(struct transport *t, uint32_t handle);
int sim_map(struct transport *t, const struct transport_bo *bo, void **ptr);
void sim_unmap(void *ptr, size_t size);
int sim_memory(struct transport *t, struct openreg_memory_info *info);
void sim_memory_release(struct sim_card *card);
void sim_memory_close(struct transport *t);

/* user.c: may the card be given this memory? 0 or -errno. */
int sim_check_user_memory(const void *ptr, uint64_t size, bool writable);

/* queue.c, wait.c */
struct sim_waiter {
	uint64_t seq;
	struct sim_waiter *next;
};

struct sim_queue {
	struct transport *t;
	struct sim_queue *next;
	uint32_t id;
	struct sim_vector *vector;
	void *ring;
	uint64_t ring_size;
	struct openreg_user_page *user;
	struct openreg_card_page *card;
	struct openreg_kernel_page *kernel;
	/* under the vector's lock */
	struct sim_waiter *waiters;
	bool resetting;
};

int sim_queue_create(struct transport *t, uint32_t slots, uint32_t priority,
		     struct transport_queue *tq);
void sim_queue_destroy(struct transport *t, struct transport_queue *tq);
int sim_queue_reset(struct transport *t, struct transport_queue *tq,
		    uint64_t head, uint64_t seq);
void sim_queue_ring(struct transport *t, struct transport_queue *tq);
void sim_queues_stop(struct transport *t);
void sim_queues_close(struct transport *t);
enum lend sim_lend(struct transport *t);
int sim_queue_wait(struct transport *t, struct transport_queue *tq,
		   uint64_t seq, int64_t deadline_ns);
/* The card has raised the queue's vector, or its state has changed. */
void sim_queue_arm(struct sim_queue *q);

#endif
