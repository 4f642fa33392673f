// SPDX-License-Identifier: MIT
/* The transport table, which libopenreg loads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define PREFIX "sim:"

static bool sim_exists(unsigned int index, char *path, size_t len)
{
	snprintf(path, len, PREFIX "%u", index);
	return index < sim_num_cards();
}

static int parse_path(const char *path, unsigned int *index)
{
	char end;

	if (sscanf(path, PREFIX "%u%c", index, &end) != 1)
		return -EPROTO;
	return *index < sim_num_cards() ? 0 : -ENODEV;
}

static int take_context(struct sim_card *c, uint32_t *ctx)
{
	int ret = -ENOSPC;

	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; ret && i < OPENREG_MAX_CONTEXTS; i++) {
		if (c->contexts[i])
			continue;
		c->contexts[i] = true;
		*ctx = i;
		ret = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

static void give_context(struct sim_card *c, uint32_t ctx)
{
	pthread_mutex_lock(&c->lock);
	c->contexts[ctx] = false;
	pthread_mutex_unlock(&c->lock);
}

static int open_context(struct transport *t)
{
	struct openreg_admin_cmd cmd;
	int ret;

	t->released = sim_pages(OPENREG_QUEUE_PAGE_SIZE);
	if (!t->released)
		return -ENOMEM;
	ret = take_context(t->card, &t->ctx);
	if (!ret) {
		cmd = cmd_context(t->ctx, (uintptr_t)t->released);
		ret = sim_admin(t->card, &cmd);
		if (ret)
			give_context(t->card, t->ctx);
	}
	if (ret)
		munmap(t->released, OPENREG_QUEUE_PAGE_SIZE);
	return ret;
}

static int sim_open(const char *path, struct transport **out)
{
	struct transport *t;
	unsigned int index;
	int ret;

	ret = sim_stopped() ? -ENODEV : parse_path(path, &index);
	if (ret)
		return ret;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->pid = getpid();
	pthread_mutex_init(&t->lock, NULL);
	ret = sim_card_get(index, &t->card);
	if (!ret) {
		ret = open_context(t);
		if (ret)
			sim_card_put(t->card);
	}
	if (ret)
		free(t);
	else
		*out = t;
	return ret;
}

/*
 * A child of fork() has no card and no threads of it. If the process ends, the card may use
 * the context until the exit frees all.
 */
static void sim_close(struct transport *t)
{
	const struct openreg_admin_cmd destroy = cmd_of(OPENREG_ADMIN_CTX_DESTROY, t->ctx, 0);

	if (t->pid == getpid()) {
		if (sim_stopped())
			return;
		sim_memory_close(t);
		if (sim_admin(t->card, &destroy))
			return;
		sim_queues_close(t);
		munmap(t->released, OPENREG_QUEUE_PAGE_SIZE);
		give_context(t->card, t->ctx);
		sim_card_put(t->card);
	}
	free(t);
}

static void sim_explain(int error, const char *path, char *text, size_t len)
{
	if (sim_stopped())
		snprintf(text, len, "cannot open %s: the process ends and its cards have stopped",
			 path);
	else if (sim_config_error())
		snprintf(text, len, "%s", sim_config_error());
	else if (error == -ENODEV)
		snprintf(text, len,
			 "no card %s: this process has %u cards; set OPENREG_SIM_CARDS for more",
			 path, sim_num_cards());
	else if (error == -EPROTO)
		snprintf(text, len,
			 "no card %s: with OPENREG_TRANSPORT=sim the cards are sim:0 and so on, without it /dev/openreg",
			 path);
	else if (error == -ENOSPC)
		snprintf(text, len,
			 "%s has no free context: close other open devices",
			 path);
	else
		snprintf(text, len, "cannot make the card %s: %s", path,
			 strerror(-error));
}

static int sim_fd(const struct transport *t)
{
	(void)t;
	return -1;
}

static int sim_info(struct transport *t, struct openreg_device_info *info)
{
	char path[sizeof(info->path)];

	memcpy(path, info->path, sizeof(path));
	*info = t->card->info;
	memcpy(info->path, path, sizeof(path));
	return 0;
}

static int sim_timestamp(struct transport *t, struct openreg_timestamp *ts)
{
	ts->cpu_before = (uint64_t)sim_now();
	ts->card = openreg_card_reg_read(t->card->card, OPENREG_REG_CLOCK, 8);
	ts->cpu_after = (uint64_t)sim_now();
	return 0;
}

__attribute__((visibility("default")))
const struct transport_ops openreg_sim_transport = {
	.size = sizeof(struct transport_ops),
	.more_vram = "set OPENREG_SIM_VRAM, or scripts/sim --vram",
	.more_system = "use a machine with more memory",
	.not_shared = "it is no export of a card inside a process; a dma-buf needs the kernel's cards (unset OPENREG_TRANSPORT)",
	.exists = sim_exists,
	.open = sim_open,
	.close = sim_close,
	.explain = sim_explain,
	.fd = sim_fd,
	.info = sim_info,
	.memory = sim_memory,
	.timestamp = sim_timestamp,
	.bo_create = sim_bo_create,
	.mem_register = sim_mem_register,
	.bo_close = sim_bo_close,
	.bo_export = sim_bo_export,
	.bo_import = sim_bo_import,
	.bo_info = sim_bo_info,
	.map = sim_map,
	.unmap = sim_unmap,
	.queue_create = sim_queue_create,
	.queue_destroy = sim_queue_destroy,
	.lend = sim_lend,
	.queue_wait = sim_queue_wait,
	.queue_reset = sim_queue_reset,
	.ring = sim_queue_ring,
};
