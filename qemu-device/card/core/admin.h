/* SPDX-License-Identifier: MIT */
/* The admin ring and its commands. */
#ifndef OPENREG_CORE_ADMIN_H
#define OPENREG_CORE_ADMIN_H

#include <pthread.h>
#include <stdbool.h>

#include "card.h"

struct openreg_card;
struct openreg_mapping;
struct queue;
struct segment;

/* An admin command that has started and completes later. */
struct pending {
	struct pending *next;
	uint32_t index;
	uint16_t opcode;
	uint32_t ctx;
	uint32_t id;
};

/* For the admin thread; for others only while they hold or pause the card. */
struct admin {
	pthread_t thread;
	bool started;
	bool enabled;
	uint64_t base;
	uint32_t slots;
	uint32_t done; /* commands started */
	uint32_t npending;
	struct openreg_mapping *cpl;
	uint64_t cpl_base; /* bus address of cpl, for a save */
	struct pending *pending;
	struct segment *dead; /* dead segments that packets still use */
};

#define ADMIN_SLOTS_MAX 4096
#define ADMIN_AGAIN UINT32_MAX /* the card is held: run the command again later */
struct admin_result {
	uint32_t status;
	bool late;
	uint64_t result;
};
typedef struct admin_result admin_fn(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index);
admin_fn admin_ctx_create, admin_ctx_destroy, admin_seg_bind, admin_seg_unbind;
admin_fn admin_queue_create, admin_queue_stop, admin_queue_reset;
admin_fn admin_queue_destroy, admin_fill;
bool admin_ctx_gone(struct openreg_card *card, const struct pending *p);
bool admin_queue_stopped(struct openreg_card *card, const struct pending *p);
bool admin_queue_gone(struct openreg_card *card, const struct pending *p);
bool admin_fill_done(struct openreg_card *card, const struct pending *p);
void admin_step(struct openreg_card *card);
void *admin_main(void *opaque);
bool admin_map(struct openreg_card *card);
bool admin_is_late(unsigned int opcode);
bool admin_add_pending(struct openreg_card *card, const struct pending *p);
struct admin_result queue_make(struct openreg_card *card,
			       const struct openreg_admin_cmd *cmd,
			       struct queue **made);
void admin_drop_state(struct openreg_card *card);

#endif
