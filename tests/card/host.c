/* SPDX-License-Identifier: MIT */
#include "host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void host_rest(void)
{
	usleep(20);
}

void rig_make_card(struct rig *rig)
{
	const char *error;

	rig->card = openreg_card_new(&rig->config, &bus_ops, &rig->bus, &error);
	if (!rig->card)
		fail_msg("no card: %s", error);
	rig->bus.card = rig->card;
	rig->client.tail = 0;
}

void rig_enable(struct rig *rig)
{
	struct client *c = &rig->client;

	memset(rig_ptr(rig, c->cpls), 0, c->slots * sizeof(struct openreg_admin_cpl));
	memset(rig_ptr(rig, c->faults), 0,
	       c->fault_slots * sizeof(struct openreg_fault_record));
	client_enable(c);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STATUS));
}

void rig_alloc_rings(struct rig *rig)
{
	rig->client = (struct client){
		.ops = &bus_client_ops,
		.host = &rig->bus,
		.cmds = rig_alloc(rig, HOST_ADMIN_SLOTS * sizeof(struct openreg_admin_cmd)),
		.cpls = rig_alloc(rig, HOST_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl)),
		.faults = rig_alloc(rig, HOST_FAULT_SLOTS * sizeof(struct openreg_fault_record)),
		.slots = HOST_ADMIN_SLOTS,
		.fault_slots = HOST_FAULT_SLOTS,
	};
}

struct rig *rig_new_spin(unsigned int workers, unsigned int spin_us)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	rig->bus.mem = aligned_alloc(1 << 21, HOST_MEM);
	rig->bus.len = HOST_MEM;
	rig->vram = aligned_alloc(1 << 21, HOST_VRAM);
	assert_true(rig->bus.mem && rig->vram);
	memset(rig->bus.mem, 0, HOST_MEM);
	memset(rig->vram, 0, HOST_VRAM);
	rig->config = (struct openreg_card_config){
		.vram = rig->vram,
		.vram_size = HOST_VRAM,
		.workers = workers,
		.doorbells = 64,
		.vectors = 32,
		.spin_us = spin_us,
	};
	rig->bus.vram_size = rig->config.vram_size;
	rig->bus.vectors = rig->config.vectors;
	rig_alloc_rings(rig);
	rig->released = rig_alloc(rig, OPENREG_MAX_CONTEXTS * 4096);
	rig_make_card(rig);
	return rig;
}

struct rig *rig_new(unsigned int workers)
{
	struct rig *rig = rig_new_spin(workers, 100);

	rig_enable(rig);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS),
			 OPENREG_STATUS_READY);
	return rig;
}

void rig_free(struct rig *rig)
{
	openreg_card_free(rig->card);
	assert_int_equal(atomic_load(&rig->bus.mappings), 0);
	assert_int_equal(atomic_load(&rig->bus.threads), 0);
	free(rig->bus.mem);
	free(rig->vram);
	free(rig);
}

int rig_setup(void **state)
{
	*state = rig_new(2);
	return 0;
}

int rig_teardown(void **state)
{
	rig_free(*state);
	return 0;
}

uint64_t rig_alloc(struct rig *rig, uint64_t len)
{
	uint64_t at = rig->brk;

	rig->brk += (len + 4095) & ~4095ULL;
	assert_true(rig->brk <= HOST_MEM);
	memset(rig->bus.mem + at, 0, len);
	return BUS_BASE + at;
}

static void note_paused(void *opaque)
{
	atomic_store(&((struct rig *)opaque)->paused, true);
}

void rig_pause(struct rig *rig)
{
	atomic_store(&rig->paused, false);
	openreg_card_pause_begin(rig->card, note_paused, rig);
	WAIT_FOR(atomic_load(&rig->paused));
	assert_true(openreg_card_is_paused(rig->card));
}
