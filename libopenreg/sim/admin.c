// SPDX-License-Identifier: MIT
/* The admin ring, and the start of a card. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim.h"

#define CMDS_SIZE (SIM_ADMIN_SLOTS * sizeof(struct openreg_admin_cmd))
#define CPLS_SIZE (SIM_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl))
#define FAULTS_SIZE (SIM_FAULT_SLOTS * sizeof(struct openreg_fault_record))

static void write64(struct sim_card *c, uint32_t off, const volatile void *at)
{
	openreg_card_reg_write(c->card, off, (uintptr_t)at, 8);
}

static void write32(struct sim_card *c, uint32_t off, uint32_t value)
{
	openreg_card_reg_write(c->card, off, value, 4);
}

static int enable(struct sim_card *c)
{
	uint32_t status;

	write32(c, OPENREG_REG_CARD_ID, c->index);
	write64(c, OPENREG_REG_ADMIN_BASE, c->admin.cmds);
	write64(c, OPENREG_REG_ADMIN_CPL, c->admin.cpls);
	write32(c, OPENREG_REG_ADMIN_SLOTS, SIM_ADMIN_SLOTS);
	write64(c, OPENREG_REG_FAULT_BASE, c->faults);
	write32(c, OPENREG_REG_FAULT_SLOTS, SIM_FAULT_SLOTS);
	write32(c, OPENREG_REG_CONTROL, OPENREG_CONTROL_ENABLE);
	for (;;) {
		status = (uint32_t)openreg_card_reg_read(c->card,
							 OPENREG_REG_STATUS, 4);
		if (status)
			return status == OPENREG_STATUS_READY ? 0 : -EIO;
		sim_sleep_ms(1);
	}
}

int sim_admin_init(struct sim_card *c)
{
	struct sim_admin *a = &c->admin;

	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->freed, NULL);
	a->cmds = sim_pages(CMDS_SIZE);
	a->cpls = sim_pages(CPLS_SIZE);
	c->faults = sim_pages(FAULTS_SIZE);
	if (!a->cmds || !a->cpls || !c->faults)
		return -ENOMEM;
	return enable(c);
}

void sim_admin_fini(struct sim_card *c)
{
	struct sim_admin *a = &c->admin;

	if (a->cmds)
		munmap(a->cmds, CMDS_SIZE);
	if (a->cpls)
		munmap((void *)(uintptr_t)a->cpls, CPLS_SIZE);
	if (c->faults)
		munmap(c->faults, FAULTS_SIZE);
}

/* False if the cards stop before a slot is free. */
static bool submit(struct sim_card *c, const struct openreg_admin_cmd *cmd,
		   uint32_t *i)
{
	struct sim_admin *a = &c->admin;
	bool room;

	pthread_mutex_lock(&a->lock);
	while (a->busy[a->tail % SIM_ADMIN_SLOTS] && !sim_stopped())
		pthread_cond_wait(&a->freed, &a->lock);
	room = !a->busy[a->tail % SIM_ADMIN_SLOTS];
	if (room) {
		*i = a->tail++;
		a->busy[*i % SIM_ADMIN_SLOTS] = true;
		a->cmds[*i % SIM_ADMIN_SLOTS] = *cmd;
		write32(c, OPENREG_REG_ADMIN_TAIL, a->tail);
	}
	pthread_mutex_unlock(&a->lock);
	return room;
}

/* Waits on vector 0, which every completion raises. False if the cards stop first. */
static bool wait_completion(struct sim_card *c, uint32_t i)
{
	volatile struct openreg_admin_cpl *cpl =
		&c->admin.cpls[i % SIM_ADMIN_SLOTS];
	struct sim_vector *v = &c->vectors[0];
	bool done;

	pthread_mutex_lock(&v->lock);
	while (!(done = __atomic_load_n(&cpl->seq, __ATOMIC_ACQUIRE) == i + 1) &&
	       !sim_stopped())
		pthread_cond_wait(&v->raised, &v->lock);
	pthread_mutex_unlock(&v->lock);
	return done;
}

static int status_errno(uint32_t status)
{
	switch (status) {
	case OPENREG_ADMIN_OK:
		return 0;
	case OPENREG_ADMIN_EINVAL:
		return -EINVAL;
	case OPENREG_ADMIN_ENOMEM:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

int sim_admin(struct sim_card *c, const struct openreg_admin_cmd *cmd)
{
	uint64_t result;

	return sim_admin_result(c, cmd, &result);
}

int sim_admin_result(struct sim_card *c, const struct openreg_admin_cmd *cmd,
		     uint64_t *result)
{
	struct sim_admin *a = &c->admin;
	int cancel = sim_cancel_off(), ret = -ENODEV;
	uint32_t i;

	if (!sim_stopped() && submit(c, cmd, &i) && wait_completion(c, i)) {
		ret = status_errno(a->cpls[i % SIM_ADMIN_SLOTS].status);
		*result = a->cpls[i % SIM_ADMIN_SLOTS].result;
		pthread_mutex_lock(&a->lock);
		a->busy[i % SIM_ADMIN_SLOTS] = false;
		pthread_cond_broadcast(&a->freed);
		pthread_mutex_unlock(&a->lock);
	}
	sim_cancel_restore(cancel);
	return ret;
}
