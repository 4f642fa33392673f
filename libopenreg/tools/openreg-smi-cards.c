// SPDX-License-Identifier: MIT
/* What sysfs and the driver tell about each card. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openreg.h>

#include "openreg-smi.h"

/* The card exists if sysfs has its node; the node's parent is the PCI device. */
static bool find_card(struct card *c, unsigned int index)
{
	char link[64], path[PATH_MAX];

	c->index = index;
	if (index)
		snprintf(c->name, sizeof(c->name), "openreg%u", index);
	else
		strcpy(c->name, "openreg");
	snprintf(link, sizeof(link), "/sys/class/misc/%s/device", c->name);
	if (!realpath(link, path))
		return false;
	copy_safely(c->pci, sizeof(c->pci), strrchr(path, '/') + 1);
	return true;
}

static const char *state_of(int error)
{
	switch (error) {
	case 0:
		return "ok";
	case -EACCES:
		return "denied";
	case -EIO:
		return "failed";
	default:
		return "error";
	}
}

/* Closes the device at once: an open file would keep a removed card's memory. */
static int query_card(struct card *c)
{
	struct openreg_device_info info;
	struct openreg_memory_info memory;
	struct openreg_device *dev;
	char path[32];
	int ret;

	snprintf(path, sizeof(path), "/dev/%s", c->name);
	ret = openreg_device_open_path(path, &dev);
	if (ret)
		return ret;
	ret = openreg_device_get_info(dev, &info);
	if (!ret) {
		copy_safely(c->driver, sizeof(c->driver), info.driver);
		c->isa = info.isa_version;
		c->workers = info.workers;
		ret = openreg_device_get_memory(dev, &memory);
	}
	if (!ret) {
		c->vram_total = memory.vram_total;
		c->used.vram = memory.vram_total - memory.vram_free;
	}
	openreg_device_close(dev);
	return ret;
}

/* Returns 0 or an error number, such as EBUSY while the card is being reset. */
static int read_number(const struct card *c, const char *name, uint64_t *value)
{
	char path[96], text[32];
	ssize_t n;
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/usage/%s", c->pci, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		ret = errno;
	close(fd);
	if (n <= 0)
		return ret;
	text[n] = 0;
	*value = strtoull(text, NULL, 10);
	return 0;
}

/* Returns true unless the driver does not have the files. */
static bool read_counters(struct card *c)
{
	c->read_at = now_ns();
	read_number(c, "compute_ns", &c->compute_ns);
	read_number(c, "copy_ns", &c->copy_ns);
	read_number(c, "faults", &c->faults);
	read_number(c, "queues", &c->queues);
	return read_number(c, "resets", &c->resets) != ENOENT;
}

/* Returns false if the card does not exist, or is being removed. */
static bool read_card(struct sample *s, struct card *c, unsigned int index)
{
	int ret;

	*c = (struct card){
		.isa = UNKNOWN,
		.workers = UNKNOWN,
		.vram_total = UNKNOWN,
		.used = { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN },
		.compute_ns = UNKNOWN,
		.copy_ns = UNKNOWN,
		.queues = UNKNOWN,
		.faults = UNKNOWN,
		.resets = UNKNOWN,
		.compute = UNKNOWN,
		.copy = UNKNOWN,
	};
	if (!find_card(c, index))
		return false;
	ret = query_card(c);
	if (ret == -ENODEV)
		return false;
	c->state = state_of(ret);
	if (!read_counters(c))
		s->no_counters = true;
	return true;
}

void read_cards(struct sample *s, unsigned int only)
{
	for (unsigned int i = 0; i < MOST_CARDS; i++)
		if ((only == ALL_CARDS || only == i) &&
		    read_card(s, &s->cards[s->num_cards], i))
			s->num_cards++;
}

static void compare_card(struct card *now, const struct card *before)
{
	if (strcmp(now->pci, before->pci) || now->resets != before->resets)
		return;
	if (now->compute_ns != UNKNOWN && before->compute_ns <= now->compute_ns)
		now->compute = share(now->compute_ns - before->compute_ns,
				     before->read_at, now->read_at, now->workers);
	if (now->copy_ns != UNKNOWN && before->copy_ns <= now->copy_ns)
		now->copy = share(now->copy_ns - before->copy_ns,
				  before->read_at, now->read_at, 1);
}

/* A card that was reset or replaced meanwhile has no utilisation: its counters restarted. */
void compare_cards(struct sample *now, const struct sample *before)
{
	for (unsigned int i = 0; i < now->num_cards; i++)
		for (unsigned int k = 0; k < before->num_cards; k++)
			if (now->cards[i].index == before->cards[k].index)
				compare_card(&now->cards[i], &before->cards[k]);
}
