// SPDX-License-Identifier: GPL-2.0-only
/* Lab 0: finds the card, and reads its registers from user space. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "openreg_regs.h"

#define DEVICES "/sys/bus/pci/devices"

static char card[256]; /* such as 0000:01:00.0 */
static volatile uint32_t *regs;

static unsigned long read_id(const char *device, const char *name)
{
	char path[512];
	unsigned long value = 0;
	FILE *file;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", device, name);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fscanf(file, "%lx", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

static int find_card(void)
{
	DIR *dir = opendir(DEVICES);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (read_id(entry->d_name, "vendor") != OPENREG_PCI_VENDOR ||
		    read_id(entry->d_name, "device") != OPENREG_PCI_DEVICE)
			continue;
		snprintf(card, sizeof(card), "%s", entry->d_name);
		printf("card %s\n", card);
		return 0;
	}
	return -1;
}

/* Line n of the file "resource" is BAR n: first address, last address, flags. */
static int print_bars(void)
{
	unsigned long begin, end, flags;
	char path[512];
	FILE *file;
	int bar;

	snprintf(path, sizeof(path), DEVICES "/%s/resource", card);
	file = fopen(path, "r");
	if (!file)
		return -1;
	for (bar = 0; bar < 6 && fscanf(file, "%lx %lx %lx", &begin, &end, &flags) == 3; bar++)
		if (end)
			printf("bar %d 0x%lx %lu\n", bar, begin, end - begin + 1);
	fclose(file);
	return 0;
}

static int map_regs(void)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), DEVICES "/%s/resource0", card);
	fd = open(path, O_RDWR | O_SYNC);
	if (fd < 0)
		return -1;
	regs = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return regs == MAP_FAILED ? -1 : 0;
}

static uint32_t read32(unsigned int offset)
{
	return regs[offset / 4];
}

static uint64_t read64(unsigned int offset)
{
	return *(volatile uint64_t *)&regs[offset / 4];
}

int main(void)
{
	if (find_card() || print_bars() || map_regs()) {
		fprintf(stderr, "lab0: there is no card, or it cannot be mapped\n");
		return 1;
	}
	printf("magic 0x%08x\n", read32(OPENREG_REG_MAGIC));
	printf("version 0x%08x\n", read32(OPENREG_REG_VERSION));
	printf("vram_size %lu\n", read64(OPENREG_REG_VRAM_SIZE));
	printf("doorbells %u\n", read32(OPENREG_REG_DOORBELLS));
	printf("vectors %u\n", read32(OPENREG_REG_VECTORS));
	printf("ring_slots %u\n", read32(OPENREG_REG_RING_SLOTS));
	printf("workers %u\n", read32(OPENREG_REG_WORKERS));
	printf("clock %lu\n", read64(OPENREG_REG_CLOCK));
	return 0;
}
