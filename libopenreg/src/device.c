// SPDX-License-Identifier: MIT
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "openreg_regs.h"

#define ENV_VISIBLE "OPENREG_VISIBLE_DEVICES"

static pthread_once_t visible_once = PTHREAD_ONCE_INIT;
static const char *visible; /* NULL: every card */

static void read_visible(void)
{
	const char *text = getenv(ENV_VISIBLE);

	visible = text ? strdup(text) : NULL;
}

/* Path of the existing node number index. */
static bool find_node(const struct transport_ops *ops, unsigned int index,
		      char *path, size_t len)
{
	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		if (ops->exists(i, path, len) && !index--)
			return true;
	return false;
}

static unsigned int count_nodes(const struct transport_ops *ops)
{
	char path[64];
	unsigned int count = 0;

	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		count += ops->exists(i, path, sizeof(path));
	return count;
}

static bool contains(const unsigned int *numbers, unsigned int count,
		     unsigned long number)
{
	for (unsigned int i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/*
 * Stores the numbers of the visible cards, in the variable's order, and returns their
 * count. As with CUDA_VISIBLE_DEVICES, the first entry that names no card ends the list,
 * and a list that names a card twice is empty.
 */
static unsigned int find_visible(unsigned int nodes, unsigned int *numbers)
{
	const char *text;
	unsigned int count = 0;

	pthread_once(&visible_once, read_visible);
	if (!visible) {
		for (; count < nodes; count++)
			numbers[count] = count;
		return count;
	}
	for (text = visible; *text;) {
		char *end;
		unsigned long number = strtoul(text, &end, 10);

		if (end == text || number >= nodes)
			break;
		end += strspn(end, " ");
		if (*end && *end != ',')
			break;
		if (contains(numbers, count, number))
			return 0;
		numbers[count++] = (unsigned int)number;
		text = *end ? end + 1 : end;
	}
	return count;
}

API int openreg_device_count(void)
{
	const struct transport_ops *ops = openreg_transport();
	unsigned int numbers[OPENREG_MAX_CARDS];

	return ops ? (int)find_visible(count_nodes(ops), numbers) : 0;
}

static int fail_open(const struct transport_ops *ops, int error,
		     const char *path)
{
	char text[400];

	ops->explain(error, path, text, sizeof(text));
	if (error == -ENOENT || error == -ENXIO)
		error = -ENODEV;
	else if (error == -EPERM)
		error = -EACCES;
	return openreg_fail(error, "%s", text);
}

static int check_version(const struct openreg_device_info *info)
{
	if (info->isa_version >> 16 == OPENREG_ISA_MAJOR)
		return 0;
	return openreg_fail(-EPROTO,
			    "the card at %s has ISA %u.%u, this library needs %u.x: build card, driver and library from one source",
			    info->pci, info->isa_version >> 16,
			    info->isa_version & 0xffff, OPENREG_ISA_MAJOR);
}

static int device_init(struct openreg_device *dev, const char *path)
{
	int ret;

	pthread_mutex_init(&dev->shared_lock, NULL);
	dev->mine = openreg_process_mark();
	if (!dev->mine)
		return openreg_fail(-ENOMEM,
				    "no memory for the page that detects fork()");
	snprintf(dev->info.path, sizeof(dev->info.path), "%s", path);
	ret = dev->ops->info(dev->t, &dev->info);
	if (ret)
		return openreg_fail(ret, "cannot query %s: %s", path,
				    openreg_query_strerror(ret));
	ret = check_version(&dev->info);
	if (!ret && !openreg_checks_init(dev))
		ret = openreg_fail(-ENOMEM, "out of memory");
	return ret;
}

API int openreg_device_open_path(const char *path, struct openreg_device **out)
{
	const struct transport_ops *ops = openreg_transport();
	struct openreg_device *dev;
	int ret;

	*out = NULL;
	if (!ops)
		return -EINVAL;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return openreg_fail(-ENOMEM, "out of memory");
	dev->ops = ops;
	ret = ops->open(path, &dev->t);
	if (ret) {
		free(dev);
		return fail_open(ops, ret, path);
	}
	ret = device_init(dev, path);
	if (ret) {
		openreg_device_close(dev);
		return ret;
	}
	if (openreg_timeline_wanted)
		openreg_timeline_device_opened(dev);
	*out = dev;
	return 0;
}

API int openreg_device_open(unsigned int index, struct openreg_device **out)
{
	const struct transport_ops *ops = openreg_transport();
	unsigned int numbers[OPENREG_MAX_CARDS], nodes, count;
	char path[64];

	*out = NULL;
	if (!ops)
		return -EINVAL;
	if (index >= OPENREG_MAX_CARDS)
		return openreg_fail(-ENODEV, "no card %u: a machine has at most %u cards",
				    index, OPENREG_MAX_CARDS);
	nodes = count_nodes(ops);
	count = find_visible(nodes, numbers);
	if (nodes && visible && index >= count)
		return openreg_fail(-ENODEV,
				    "no card %u: " ENV_VISIBLE "='%s' leaves %u of %u visible",
				    index, visible, count, nodes);
	if (index >= count) {
		if (!ops->exists(index, path, sizeof(path)))
			return fail_open(ops, -ENODEV, path);
		return openreg_fail(-ENODEV, "no card %u: this machine has %u",
				    index, nodes);
	}
	if (!find_node(ops, numbers[index], path, sizeof(path)))
		return fail_open(ops, -ENODEV, path);
	return openreg_device_open_path(path, out);
}

API void openreg_device_close(struct openreg_device *dev)
{
	if (!dev)
		return;
	if (dev->timeline.on)
		openreg_timeline_device_closes(dev);
	if (dev->checks)
		openreg_checks_free(dev);
	dev->ops->close(dev->t);
	pthread_mutex_destroy(&dev->shared_lock);
	free(dev);
}

API int openreg_device_fd(const struct openreg_device *dev)
{
	return dev->ops->fd(dev->t);
}

API int openreg_device_get_info(struct openreg_device *dev,
				struct openreg_device_info *info)
{
	*info = dev->info;
	return 0;
}

API int openreg_device_get_memory(struct openreg_device *dev,
				  struct openreg_memory_info *info)
{
	int ret;

	memset(info, 0, sizeof(*info));
	if (!*dev->mine)
		return openreg_fail_forked();
	ret = dev->ops->memory(dev->t, info);
	if (ret)
		return openreg_fail(ret, "cannot query memory of %s: %s",
				    dev->info.path, openreg_card_strerror(ret));
	return 0;
}

API int openreg_device_get_timestamp(struct openreg_device *dev,
				     struct openreg_timestamp *ts)
{
	int ret;

	memset(ts, 0, sizeof(*ts));
	if (!*dev->mine)
		return openreg_fail_forked();
	ret = dev->ops->timestamp(dev->t, ts);
	if (ret)
		return openreg_fail(ret, "cannot read the clock of %s: %s",
				    dev->info.path, openreg_card_strerror(ret));
	return 0;
}
