/* SPDX-License-Identifier: MIT */
/*
 * The openreg card without its bus.
 *
 * A host (QEMU, a test, a process) makes a card with a table of callbacks and passes
 * register accesses and doorbells to it. The card works in threads that it starts, and
 * in threads that the host lends to it with openreg_card_lend().
 */
#ifndef OPENREG_CARD_H
#define OPENREG_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_regs.h"

struct openreg_card;

/* A piece of system memory that the card keeps mapped: a ring or a page. */
struct openreg_mapping;

/*
 * Callbacks. The card calls them from any of its threads, between thread_enter and
 * thread_leave, and from threads that call into it. A callback must not call into the
 * card. Other threads may read registers while raise runs.
 */
struct openreg_host_ops {
	/* Each card thread calls them once, at its start and at its end. */
	void (*thread_enter)(void *host);
	void (*thread_leave)(void *host);

	/*
	 * A pair around accesses to mappings (in QEMU, an RCU read section). It is short:
	 * the thread neither runs an engine nor sleeps in between.
	 */
	void (*access_begin)(void *host);
	void (*access_end)(void *host);

	/*
	 * Maps len bytes at a bus address. Returns NULL if the bus has no memory there.
	 * The memory of a mapping may disappear later; loads then return all ones.
	 * openreg_card_load() may map memory that has disappeared.
	 */
	struct openreg_mapping *(*map)(void *host, uint64_t bus,
				       uint64_t len, bool writable);
	void (*unmap)(void *host, struct openreg_mapping *mapping);
	/* Aligned, single-copy atomic, sequentially consistent. */
	uint64_t (*load64)(void *host, struct openreg_mapping *mapping,
			   uint64_t off);
	void (*store64)(void *host, struct openreg_mapping *mapping,
			uint64_t off, uint64_t value);
	uint32_t (*load32)(void *host, struct openreg_mapping *mapping,
			   uint64_t off);
	void (*store32)(void *host, struct openreg_mapping *mapping,
			uint64_t off, uint32_t value);
	/* Copies bytes out of a mapping; not atomic. */
	void (*read)(void *host, struct openreg_mapping *mapping,
		     uint64_t off, void *buf, uint64_t len);

	/* Bulk DMA. Returns 0, or -1 if the bus refused a part of it. */
	int (*dma_read)(void *host, uint64_t bus, void *buf, uint64_t len);
	int (*dma_write)(void *host, uint64_t bus, const void *buf,
			 uint64_t len);

	/* The card wrote [off, off + len) of VRAM. */
	void (*vram_written)(void *host, uint64_t off, uint64_t len);
	void (*raise)(void *host, unsigned int vector);
	/*
	 * A SIGNAL stored a word: at a bus address, or at an offset in VRAM. Another card
	 * may wait on this word; the host then calls openreg_card_poke(). NULL: not needed.
	 */
	void (*signalled)(void *host, bool vram, uint64_t at);
	/* A queue begins to wait on a word. NULL: not needed. */
	void (*waiting)(void *host, bool vram, uint64_t at);
	uint64_t (*clock_ns)(void *host);
	/* Logs an error of the guest; message is one line. */
	void (*guest_error)(void *host, const char *message);
};

struct openreg_card_config {
	void *vram; /* host memory, zeroed by the host */
	uint64_t vram_size; /* multiple of 2 MiB */
	unsigned int workers; /* compute threads, 1..64 */
	unsigned int doorbells; /* pages, 1..OPENREG_MAX_DOORBELLS */
	unsigned int vectors; /* 2..OPENREG_MAX_VECTORS */
	unsigned int spin_us; /* time that an idle card polls before it sleeps */
	/* For tests: engines sleep a random time below this before each step. */
	unsigned int slow_us; /* 0..100000 */
	/* What the card checks in the programs that use it: openreg_card_parse_checks(). */
	unsigned int checks;
};

/*
 * Reads words of race, init and bounds, with a comma or a plus sign between them. Returns
 * false and sets *error if there is another word.
 */
bool openreg_card_parse_checks(const char *text, unsigned int *checks,
			       const char **error);

/* Returns NULL and sets *error if a setting is out of range or memory is short. */
struct openreg_card *openreg_card_new(const struct openreg_card_config *config,
				      const struct openreg_host_ops *ops,
				      void *host, const char **error);
/* Stops all threads first. */
void openreg_card_free(struct openreg_card *card);

/*
 * Call these before fork(), and after it in the parent and in the child. The child
 * cannot use the parent's cards, but it can make its own.
 */
void openreg_card_fork_begin(void);
void openreg_card_fork_end(void);

/* size is 4 or 8. These functions never wait for an engine. */
uint64_t openreg_card_reg_read(struct openreg_card *card, uint64_t off,
			       unsigned int size);
void openreg_card_reg_write(struct openreg_card *card, uint64_t off,
			    uint64_t value, unsigned int size);
/* Wakes a worker, and returns without waiting for it. */
void openreg_card_doorbell(struct openreg_card *card, unsigned int page);

/*
 * Something other than this card stored a word at this offset in VRAM. The card reads the
 * word and continues the queues whose WAIT it meets. With OPENREG_POKE_ALL, this holds
 * for every word in VRAM, and the card tries each WAIT on system memory again.
 *
 * Takes no lock but gate.lock, so any thread may call it, a thread of another card too.
 */
#define OPENREG_POKE_ALL UINT64_MAX
void openreg_card_poke(struct openreg_card *card, uint64_t off);

enum openreg_lend {
	OPENREG_LEND_SLEEP, /* sleep: a card thread may need this processor */
	OPENREG_LEND_POLL, /* poll: the card runs on other processors only */
	OPENREG_LEND_WORKED, /* poll: the caller did some work of the card */
};

/*
 * Lends the calling thread to the card. A thread that polls for a packet calls this
 * before each poll; the result says what to do next. The card calls callbacks from this
 * thread without thread_enter.
 */
enum openreg_lend openreg_card_lend(struct openreg_card *card);

/*
 * After openreg_card_pause_begin() the card starts no new slice. When the last running
 * slice has ended, openreg_card_is_paused() returns true and the card calls paused_cb,
 * if not NULL, once. openreg_card_resume() ends the pause.
 */
void openreg_card_pause_begin(struct openreg_card *card,
			      void (*paused_cb)(void *opaque), void *opaque);
bool openreg_card_is_paused(struct openreg_card *card);
void openreg_card_resume(struct openreg_card *card);

/*
 * Finishes packets that a pause interrupted, because a save cannot hold half a packet.
 * The packets run in turn in the caller's thread; they write memory and raise vectors.
 * All together have two seconds; a packet that is not done then faults with HANG. Call
 * this before memory is saved.
 */
void openreg_card_finish(struct openreg_card *card);

/* FLR. The card must be paused. Drops all state but VRAM, then resumes the idle card. */
void openreg_card_reset(struct openreg_card *card);

/*
 * State of a paused card for migration, without VRAM.
 *
 * openreg_card_save() first finishes packets, if openreg_card_finish() has not. Returns
 * a blob from malloc(), or NULL if memory is short.
 *
 * openreg_card_load() needs a paused card of the same configuration, new or reset. The
 * blob may be hostile. Returns 0; on an error -1, sets *error, and leaves the card reset
 * but paused. The next resume raises every vector once, because interrupts may have been
 * lost in the migration.
 */
void *openreg_card_save(struct openreg_card *card, size_t *len);
int openreg_card_load(struct openreg_card *card, const void *blob, size_t len,
		      const char **error);

#endif
