/* SPDX-License-Identifier: MIT */
/* The parts of openreg-dump. A dump is untrusted: any field may have any value. */
#ifndef OPENREG_DUMP_TOOL_H
#define OPENREG_DUMP_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openreg.h>
#include <openreg_dump.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The immediates of a packet; at may be unaligned. */
struct immediates {
	const uint8_t *at;
	unsigned int n;
};

/* openreg-dump-packet.c */
void print_address(uint64_t address);
/* False if the packet's fields do not fit in the length of its header. */
bool print_packet(const struct openreg_dump *d);
void print_number(const struct immediates *imms, unsigned int i);

/* openreg-dump-program.c; later: a stage follows that of the instruction */
void print_instr(const struct openreg_instr *instr,
		 const struct immediates *imms, bool later);

#endif
