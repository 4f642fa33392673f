/* SPDX-License-Identifier: MIT */
/* Filling VRAM with a byte. */
#ifndef OPENREG_CORE_FILL_H
#define OPENREG_CORE_FILL_H

#include <stdbool.h>
#include <stdint.h>

struct openreg_card;

/* A FILL of the admin ring that is too long for fill_now(). */
struct fill {
	struct fill *next;
	uint64_t off;
	uint64_t end;
	uint8_t value;
	uint32_t index; /* of the admin command */
};

bool fill_is_short(uint64_t len);
void fill_now(struct openreg_card *card, uint64_t off, uint64_t len,
	      uint8_t value);
struct fill *fill_new(uint64_t off, uint64_t len, uint8_t value);
void fill_append(struct openreg_card *card, struct fill *fill);
void fill_begin(struct openreg_card *card, struct fill *fill);
bool fill_end(struct openreg_card *card, struct fill *fill);

#endif
