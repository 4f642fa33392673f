/* SPDX-License-Identifier: MIT */
#ifndef OPENREG_ISA_AMX_H
#define OPENREG_ISA_AMX_H

#include "amx.h"

/* Returns NULL if the card is built without AMX. The host must have AMX-BF16. */
const struct openreg_amx *openreg_isa_amx(void);

#endif
