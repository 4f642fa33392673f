/* SPDX-License-Identifier: MIT */
/*
 * A card inside the process. host.c does the work of QEMU, the other files do the work of
 * the kernel module. A bus address is an address of this process.
 */
#ifndef OPENREG_SIM_H
#define OPENREG_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "card.h"
#include "client.h"
#include "extent.h"
#include "transport.h"

#define SIM_VECTORS OPENREG_MAX_VECTORS
#define SIM_ADMIN_SLOTS 256
#define SIM_FAULT_SLOTS 256
#define SIM_PAGE 4096
#define SIM_HUGE (1ull << 21)

/* An MSI-X vector. A waiting thread sleeps on raised, under lock. */
struct sim_vector {
	pthread_mutex_t lock;
	pthread_cond_t raised;
};

struct sim_admin {
	pthread_mutex_t lock;
	pthread_cond_t freed; /* a slot is free */
	bool busy[SIM_ADMIN_SLOTS];
};

struct sim_bo;
struct sim_queue;

/*
 * The first page of a shared memfd. Every process that has the memfd may write it, unless
 * the export is read-only.
 */
#define SIM_MAGIC 0x314d49534745524full
struct sim_header {
	uint64_t magic;
	uint64_t kind; /* OPENREG_BO_VRAM or OPENREG_BO_SYSTEM */
	uint64_t data; /* offset of byte 0 of the object */
	uint32_t signals; /* counts SIGNALs into the object; a futex */
	uint32_t sleepers; /* threads that sleep on signals */
	uint64_t card; /* the index of the exporter's card */
};

/* The header of a memfd, for SIGNALs and for the thread that waits for them. */
struct sim_bell {
	struct sim_header *header;
	bool readonly; /* this process may not write the header */
	bool sealed; /* other processes may not */
	uint32_t seen; /* the listener has seen so many signals */
	unsigned int users; /* under the card's lock */
};

/* The memory of an object. */
struct sim_file {
	uint8_t *at; /* byte 0 */
	uint64_t size;
	uint64_t data; /* offset of byte 0 in the memfd */
	uint32_t flags; /* OPENREG_BO_VRAM or OPENREG_BO_SYSTEM */
	int fd; /* the memfd, or -1: it cannot be exported */
	dev_t dev;
	ino_t ino;
	bool foreign; /* imported: VRAM of another card, or another process' memory */
	bool alias; /* foreign, and VRAM of the card with the same index */
	uint32_t card; /* the index of the exporter's card */
	bool readonly; /* shared for reading only */
	struct sim_bell *bell; /* NULL until it is shared */
	struct sim_file *next_open, **prev_open; /* in the list of all open memfds */

	/* Under the card's lock */
	unsigned int users; /* objects that have this memory */
	bool waited; /* a queue of this card has waited on a word of it */
	struct sim_file *next_waited, **prev_waited;
};

/* An object, and the segment that is its address. */
struct sim_bo {
	struct transport *t;
	uint32_t flags;
	uint32_t seg;
	uint64_t size;
	struct sim_file *file; /* NULL: registered memory */
	bool imported;
	bool closed;
	bool idle; /* closed while no packet used it */
	bool *released; /* set for the thread that waits in wait_released(), or NULL */
	struct sim_bo *next; /* in the card's list of closed objects */
};

/* The thread that waits for SIGNALs of other processes into shared memory. */
struct sim_listener {
	pthread_t thread;
	bool started;
	bool stop;
	uint32_t kicks; /* a futex: the set of files has changed */
};

struct sim_card {
	unsigned int index;
	unsigned int users; /* open devices, under the lock of all cards */
	struct openreg_card *card;
	uint8_t *vram; /* and behind it the window */
	uint64_t vram_size;
	uint64_t window_size;
	struct openreg_device_info info;

	struct sim_vector vectors[SIM_VECTORS];
	struct client client; /* submits under the lock of admin */
	struct sim_admin admin;

	pthread_mutex_t lock; /* protects the following, and the memory of transports */
	struct sim_extents free; /* free VRAM, always zeroed */
	struct sim_extents window; /* free addresses for aliases */
	struct sim_bo *closed; /* closed objects that the card has not released yet */
	uint64_t leaving; /* bytes of VRAM that are being freed */
	struct sim_file **shared; /* exported and imported files, by address */
	size_t num_shared;
	size_t room_shared;
	struct sim_file *waited; /* those of them that a queue has waited on */
	struct sim_listener listener;
	bool contexts[OPENREG_MAX_CONTEXTS];
	bool queues[OPENREG_MAX_QUEUES];
};

/* An open device: a context with its segments. */
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
	uint64_t process_vram;
	uint64_t process_system;
	uint64_t process_pinned;
};

/* host.c */
extern const struct openreg_host_ops sim_host_ops;
extern const struct client_ops sim_client_ops;
int64_t sim_now(void);
/* The caller holds the vector's lock. ETIMEDOUT if the deadline passes first. */
int sim_vector_wait(struct sim_vector *v, int64_t deadline_ns);
void sim_sleep_ms(unsigned int ms);
/*
 * No call of the library is a cancellation point, as with the kernel's driver: a
 * cancelled thread would leave locks held and lists half changed.
 */
int sim_cancel_off(void);
void sim_cancel_restore(int state);
/* Zeroed pages that a child of fork() does not inherit; NULL: out of memory. */
void *sim_pages(uint64_t size);
/* Maps the same pages at a second address. */
void *sim_pages_again(void *pages, uint64_t size);

/* card.c */
unsigned int sim_num_cards(void);
/* The card number index; the first user makes it, the last one frees it. */
int sim_card_get(unsigned int index, struct sim_card **out);
void sim_card_put(struct sim_card *card);
/* The process ends and the cards have stopped: no more commands complete. */
bool sim_stopped(void);
/* Error text about the environment variables, or NULL. */
const char *sim_config_error(void);

/* admin.c: runs a command and waits for its completion. */
int sim_admin_init(struct sim_card *card);
void sim_admin_fini(struct sim_card *card);
int sim_admin(struct sim_card *card, const struct openreg_admin_cmd *cmd);
int sim_admin_result(struct sim_card *card, const struct openreg_admin_cmd *cmd,
		     uint64_t *result);

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
int sim_bo_info(struct transport *t, struct transport_bo *out, uint32_t *flags);
/* Makes an object of an imported file. The caller keeps its user of it if this fails. */
int sim_bo_of_file(struct transport *t, struct sim_file *file, uint32_t *handle);
void sim_file_put(struct sim_card *c, struct sim_file *f);

/* file.c */
/* at: where in VRAM, or NULL. */
struct sim_file *sim_file_new(uint64_t size, uint32_t flags, uint8_t *at);
/* False: the range of VRAM is lost. */
bool sim_file_free(struct sim_file *f);
bool sim_reserve(void *at, uint64_t size);
int sim_file_export(struct sim_file *f, uint32_t card, bool readonly, int *fd, bool *first);
int sim_file_check(int fd, struct sim_file *f);
/* at: where in the window, or NULL. */
struct sim_file *sim_file_import(int fd, const struct sim_file *found, uint8_t *at);
void sim_files_fork_begin(void);
void sim_files_fork_end(bool child);

/* share.c */
int sim_bo_export(struct transport *t, uint32_t handle, bool readonly, int *fd);
int sim_bo_import(struct transport *t, int fd, uint32_t *handle);
/* After sim_file_free() of an alias. Under the card's lock. */
void sim_window_give(struct sim_card *c, uint64_t offset, uint64_t size);

/* listen.c: under the card's lock, except sim_listen_stop() */
void sim_listen_add(struct sim_card *c, struct sim_file *f);
void sim_listen_remove(struct sim_card *c, struct sim_file *f);
void sim_listen_stop(struct sim_card *c);
/* Callbacks of the card: a SIGNAL stored a word, a queue waits on a word. */
void sim_signalled(void *host, bool vram, uint64_t at);
void sim_waiting(void *host, bool vram, uint64_t at);

/* user.c: 0 if the kernel's driver could register this memory, else -errno. */
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
	/* Under the vector's lock */
	struct sim_waiter *waiters;
	bool resetting; /* a stop of the queue is not final */
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
/* Sets the armed sequence number and wakes finished waiters. Under the vector's lock. */
void sim_queue_arm(struct sim_queue *q);

#endif
