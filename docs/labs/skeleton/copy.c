// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lab 5: gives packets to the card without a system call. Copies data from the buffer to
 * VRAM and back.
 * usage: copy FROM TO BYTES <DATA >DATA
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab.h"

#define PAGE 4096

static struct openreg_user_page *user;
static const volatile struct openreg_card_page *card;
static volatile uint32_t *bell;
static char *ring, *buffer;

static void *map(int fd, void *at, int page, int prot)
{
	return mmap(at, PAGE, prot, MAP_SHARED | (at ? MAP_FIXED : 0), fd, (off_t)page * PAGE);
}

static int map_all(void)
{
	int i, fd = open("/dev/lab", O_RDWR), both = PROT_READ | PROT_WRITE;

	if (fd < 0)
		return -1;
	ring = map(fd, NULL, LAB_MAP_RING, both);
	user = map(fd, NULL, LAB_MAP_USER_PAGE, both);
	card = map(fd, NULL, LAB_MAP_CARD_PAGE, PROT_READ);
	bell = map(fd, NULL, LAB_MAP_DOORBELL, both);
	if (ring == MAP_FAILED || user == MAP_FAILED || card == MAP_FAILED || bell == MAP_FAILED)
		return -1;
	buffer = mmap(NULL, LAB_BUFFER_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; buffer != MAP_FAILED && i < LAB_BUFFER_PAGES; i++)
		if (map(fd, buffer + i * PAGE, LAB_MAP_BUFFER + i, both) == MAP_FAILED)
			return -1;
	return 0;
}

/* Runs one COPY. The queue is empty before and after. */
static int run_copy(uint64_t to, uint64_t from, uint64_t bytes)
{
	/*
	 * TODO: write a COPY packet to the ring, at the slot of tail; the manual has one in
	 * bytes. A packet does not wrap at the ring's end. Publish it, and ring if the card
	 * sleeps. Wait until it has completed, LAB_TIMEOUT_SECONDS at most.
	 */
	return -1;
}

int main(int argc, char **argv)
{
	uint64_t from, to, bytes;

	if (argc != 4 || map_all()) {
		perror("copy");
		return 1;
	}
	from = strtoul(argv[1], NULL, 0);
	to = strtoul(argv[2], NULL, 0);
	bytes = strtoul(argv[3], NULL, 0);
	if (fread(buffer + from, 1, bytes, stdin) != bytes)
		return 1;
	from = OPENREG_ADDR(LAB_CARD, LAB_SEG_BUFFER, from);
	to = OPENREG_ADDR(LAB_CARD, LAB_SEG_VRAM, to);
	if (run_copy(to, from, bytes)) {
		fprintf(stderr, "copy: no completion, state %u\n", card->state);
		return 1;
	}
	memset(buffer + OPENREG_ADDR_OFFSET(from), 0, bytes);
	if (run_copy(from, to, bytes)) {
		fprintf(stderr, "copy: no completion, state %u\n", card->state);
		return 1;
	}
	fwrite(buffer + OPENREG_ADDR_OFFSET(from), 1, bytes, stdout);
	return 0;
}
