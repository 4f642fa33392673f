// SPDX-License-Identifier: MIT
/*
 * Which cards reach the memory of which others. Only the driver knows: every card
 * exports a page of VRAM, and all other cards import it.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <openreg.h>

#include "openreg-smi.h"

static struct openreg_device *devices[MOST_CARDS];

/* "yes", "no", or "-" if the card cannot be asked now. */
static const char *can_import(struct openreg_device *dev, int fd)
{
	struct openreg_bo *bo;
	int ret;

	if (!dev || fd < 0)
		return "-";
	ret = openreg_bo_import(dev, fd, &bo);
	if (!ret) {
		openreg_bo_free(bo);
		return "yes";
	}
	return ret == -EOPNOTSUPP ? "no" : "-";
}

static void print_row(const struct sample *s, unsigned int owner)
{
	struct openreg_bo *bo = NULL;
	int fd = -1;

	printf("%4u %-12s", s->cards[owner].index, s->cards[owner].pci);
	if (devices[owner] &&
	    !openreg_bo_alloc(devices[owner], 4096, OPENREG_BO_VRAM, &bo))
		fd = openreg_bo_export(bo, 0);
	for (unsigned int i = 0; i < s->num_cards; i++)
		printf(" %3s", i == owner ? "X" : can_import(devices[i], fd));
	putchar('\n');
	if (fd >= 0)
		close(fd);
	openreg_bo_free(bo);
}

void print_topo(unsigned int only)
{
	static struct sample s;
	bool found = false;
	char path[32];

	read_cards(&s, ALL_CARDS);
	for (unsigned int i = 0; i < s.num_cards; i++)
		found |= only == ALL_CARDS || only == s.cards[i].index;
	if (!found)
		fail_without_card(only);
	printf("VRAM of card      reached by card\n%-17s", "");
	for (unsigned int i = 0; i < s.num_cards; i++) {
		snprintf(path, sizeof(path), "/dev/%s", s.cards[i].name);
		openreg_device_open_path(path, &devices[i]);
		printf(" %3u", s.cards[i].index);
	}
	putchar('\n');
	for (unsigned int i = 0; i < s.num_cards; i++)
		if (only == ALL_CARDS || only == s.cards[i].index)
			print_row(&s, i);
	for (unsigned int i = 0; i < s.num_cards; i++)
		openreg_device_close(devices[i]);
	puts("yes: packets of the card can use memory that it imports; no: the driver refuses the import;\n"
	     "-: the card cannot be asked now");
}
