/* SPDX-License-Identifier: MIT */
/*
 * What only the program knows of its timeline.
 *
 * openreg-trace sets the variable OPENREG_TRACE to a directory. Each process that uses
 * libopenreg then writes a file of what it does there, and openreg-trace makes one trace of
 * these files. Without the variable these calls do nothing. Any thread may call them.
 *
 * - openreg_timeline_on(): whether this process writes such a file.
 * - openreg_timeline_begin(), openreg_timeline_end(): the calling thread is in a range of
 *   this name. Ranges nest.
 * - openreg_timeline_name(): the name of all packets with this cookie.
 */
#ifndef OPENREG_TIMELINE_H
#define OPENREG_TIMELINE_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

int openreg_timeline_on(void);
void openreg_timeline_begin(const char *name);
void openreg_timeline_end(void);
void openreg_timeline_name(uint32_t cookie, const char *name);

#if defined(__cplusplus)
}
#endif

#endif
