// SPDX-License-Identifier: GPL-2.0-only
/* Lab 0: finds the card, and reads its registers from user space. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "openreg_regs.h"

int main(void)
{
	/*
	 * TODO: find the card: the directory below /sys/bus/pci/devices whose files
	 * "vendor" and "device" have OPENREG_PCI_VENDOR and OPENREG_PCI_DEVICE. Print
	 *
	 *     card 0000:01:00.0
	 */

	/*
	 * TODO: read the card's file "resource". Line n is BAR n: first address, last
	 * address, flags. Print one line for each BAR that exists: its number, its
	 * address and its size.
	 *
	 *     bar 0 0xfe800000 65536
	 */

	/*
	 * TODO: open the card's file "resource0" and map its first 4096 bytes. Read the
	 * registers and print
	 *
	 *     magic 0x...
	 *     version 0x...
	 *     vram_size ...
	 *     doorbells ...
	 *     vectors ...
	 *     ring_slots ...
	 *     workers ...
	 *     clock ...
	 */
	return 0;
}
