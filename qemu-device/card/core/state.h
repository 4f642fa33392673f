/* SPDX-License-Identifier: MIT */
/* Saving and loading the state of a paused card. */
#ifndef OPENREG_CORE_STATE_H
#define OPENREG_CORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define STATE_MAGIC 0x0134564153474552ULL
#define STATE_MAGIC_NO_TRACE 0x0133564153474552ULL /* of ISA 1.6 */
#define STATE_MAGIC_NO_LISTS 0x0132564153474552ULL /* of ISA 1.5 and before */
#define OPENREG_FINISH_NS 2000000000ULL /* for all packets together, before a save */

struct openreg_card;

void state_finish(struct openreg_card *card, uint64_t end);

#endif
