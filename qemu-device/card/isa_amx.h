/* SPDX-License-Identifier: MIT */
#ifndef OPENREG_ISA_AMX_H
#define OPENREG_ISA_AMX_H

#include "amx.h"

/* NULL: the card is built without. The caller knows that the host has it. */
const struct openreg_amx *openreg_isa_amx(void);

#endif
