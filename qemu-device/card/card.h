/* SPDX-License-Identifier: MIT */
/*
 * openreg card: the device itself, apart from the bus that carries it.
 *
 * A host (QEMU, a test, a process) makes a card with a table of callbacks and
 * feeds it register accesses and doorbells. Threads are the card's own, and those
 * that are lent to it.
 */
#ifndef OPENREG_CARD_H
#define OPENREG_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_regs.h"

struct openreg_card;

/* A piece of system memory that the card keeps mapped: a ring or a page. */
struct openreg_window;

/*
 * Callbacks. All may be called from any thread of the card, between
 * thread_enter and thread_leave; none may call back into the card, except
 * that raise may be followed by register reads from elsewhere.
 */
struct openreg_host_ops {
	/* Once at a card thread's begin and end. */
	void (*thread_enter)(void *host);
	void (*thread_leave)(void *host);

	/*
	 * Bracket around a batch of window accesses; short, never held while
	 * an engine runs or the thread sleeps (an RCU read section in QEMU).
	 */
	void (*access_begin)(void *host);
	void (*access_end)(void *host);

	/*
	 * Map len bytes at a bus address; NULL if it is not memory. Memory may
	 * go from under a window, and openreg_card_load may have to map one
	 * that is in that state: loads give all ones then.
	 */
	struct openreg_window *(*window_map)(void *host, uint64_t bus,
					     uint64_t len, bool writable);
	void (*window_unmap)(void *host, struct openreg_window *window);
	/* Aligned, single-copy atomic, sequentially consistent. */
	uint64_t (*window_load64)(void *host, struct openreg_window *window,
				  uint64_t off);
	void (*window_store64)(void *host, struct openreg_window *window,
			       uint64_t off, uint64_t value);
	uint32_t (*window_load32)(void *host, struct openreg_window *window,
				  uint64_t off);
	void (*window_store32)(void *host, struct openreg_window *window,
			       uint64_t off, uint32_t value);
	/* Plain copies out of and into a window. */
	void (*window_read)(void *host, struct openreg_window *window,
			    uint64_t off, void *buf, uint64_t len);

	/* Bulk DMA: 0, or -1 if the bus refused any part of it. */
	int (*dma_read)(void *host, uint64_t bus, void *buf, uint64_t len);
	int (*dma_write)(void *host, uint64_t bus, const void *buf,
			 uint64_t len);

	/* The card wrote [off, off + len) of VRAM. */
	void (*vram_written)(void *host, uint64_t off, uint64_t len);
	void (*raise)(void *host, unsigned int vector);
	uint64_t (*clock_ns)(void *host);
	/* What the guest did wrong, one line. */
	void (*guest_error)(void *host, const char *message);
};

struct openreg_card_config {
	void *vram; /* host memory, zeroed by the host */
	uint64_t vram_size; /* multiple of 2 MiB */
	unsigned int workers; /* compute threads, 1..64 */
	unsigned int doorbells; /* pages, 1..OPENREG_MAX_DOORBELLS */
	unsigned int vectors; /* 2..OPENREG_MAX_VECTORS */
	unsigned int spin_us; /* how long an idle card polls before it sleeps */
	/* For tests: an engine sleeps a random time below this before each step. */
	unsigned int slow_us; /* 0..100000 */
};

/* NULL if a limit is broken or memory is short; *error then says which. */
struct openreg_card *openreg_card_new(const struct openreg_card_config *config,
				      const struct openreg_host_ops *ops,
				      void *host, const char **error);
/* Stops all threads first. */
void openreg_card_free(struct openreg_card *card);

/*
 * Around fork(), in the parent and in the child: a child has no use for its
 * parent's cards, but can make its own.
 */
void openreg_card_fork_begin(void);
void openreg_card_fork_end(void);

/* size is 4 or 8. Never block on an engine. */
uint64_t openreg_card_reg_read(struct openreg_card *card, uint64_t off,
			       unsigned int size);
void openreg_card_reg_write(struct openreg_card *card, uint64_t off,
			    uint64_t value, unsigned int size);
/* Only wakes a thread. */
void openreg_card_doorbell(struct openreg_card *card, unsigned int page);

enum openreg_lend {
	OPENREG_LEND_SLEEP, /* a thread of the card may need this processor */
	OPENREG_LEND_POLL, /* the card runs, on other processors only */
	OPENREG_LEND_WORKED, /* the caller has done some of the card's work */
};

/*
 * For a thread that polls for a packet, before each poll: what the thread should do
 * next. Callbacks are called without thread_enter.
 */
enum openreg_lend openreg_card_lend(struct openreg_card *card);

/*
 * Pausing: after openreg_card_pause_begin no new slice starts;
 * openreg_card_is_paused turns true, and paused_cb (if any) is called once,
 * when the last running one has ended. Resume undoes both.
 */
void openreg_card_pause_begin(struct openreg_card *card,
			      void (*paused_cb)(void *opaque), void *opaque);
bool openreg_card_is_paused(struct openreg_card *card);
void openreg_card_resume(struct openreg_card *card);

/*
 * A paused card may stand in the middle of a packet, which cannot be saved.
 * This carries such packets to their end, in turn, in the caller's thread; it
 * writes memory and raises vectors. What is not through after two seconds
 * faults with HANG. To be called before memory is saved.
 */
void openreg_card_finish(struct openreg_card *card);

/* FLR: needs a paused card; forgets everything but VRAM; resumes it idle. */
void openreg_card_reset(struct openreg_card *card);

/*
 * State of a paused card, without VRAM, for migration. save finishes packets
 * if openreg_card_finish was not called, and returns a malloced blob, or NULL
 * if memory is short. The next resume of a loaded card raises every vector
 * once, as some may have been lost on the way. load needs a fresh or reset,
 * paused card of the same configuration; it treats the blob as hostile and
 * returns 0, or -1 with *error set and the card as after a reset, but paused.
 */
void *openreg_card_save(struct openreg_card *card, size_t *len);
int openreg_card_load(struct openreg_card *card, const void *blob, size_t len,
		      const char **error);

#endif
