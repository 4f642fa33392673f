// SPDX-License-Identifier: MIT
/* The admin ring, and the start of a card. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim.h"

#define CMDS_SIZE (SIM_ADMIN_SLOTS * sizeof(struct openreg_admin_cmd))
#define CPLS_SIZE (SIM_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl))
#define FAULTS_SIZE (SIM_FAULT_SLOTS * sizeof(struct openreg_fault_record))

static int enable(struct sim_card *c)
{
	uint32_t status;

	client_write(&c->client, OPENREG_REG_CARD_ID, c->index);
	client_enable(&c->client);
	for (;;) {
		status = client_reg(&c->client, OPENREG_REG_STATUS);
		if (status)
			return status == OPENREG_STATUS_READY ? 0 : -EIO;
		sim_sleep_ms(1);
	}
}

/* Zeroed pages, as a bus address; 0 if out of memory. */
static uint64_t pages(uint64_t size)
{
	return (uintptr_t)sim_pages(size);
}

static void free_pages(uint64_t at, uint64_t size)
{
	if (at)
		munmap((void *)(uintptr_t)at, size);
}

int sim_admin_init(struct sim_card *c)
{
	struct sim_admin *a = &c->admin;

	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->freed, NULL);
	c->client = (struct client){
		.ops = &sim_client_ops,
		.host = c,
		.cmds = pages(CMDS_SIZE),
		.cpls = pages(CPLS_SIZE),
		.faults = pages(FAULTS_SIZE),
		.slots = SIM_ADMIN_SLOTS,
		.fault_slots = SIM_FAULT_SLOTS,
	};
	if (!c->client.cmds || !c->client.cpls || !c->client.faults)
		return -ENOMEM;
	return enable(c);
}

void sim_admin_fini(struct sim_card *c)
{
	free_pages(c->client.cmds, CMDS_SIZE);
	free_pages(c->client.cpls, CPLS_SIZE);
	free_pages(c->client.faults, FAULTS_SIZE);
}

/* False if the cards stop before a slot is free. */
static bool submit(struct sim_card *c, const struct openreg_admin_cmd *cmd,
		   uint32_t *i)
{
	struct sim_admin *a = &c->admin;
	bool *busy;
	bool room;

	pthread_mutex_lock(&a->lock);
	/* Another thread may submit during the wait. */
	while (*(busy = &a->busy[c->client.tail % SIM_ADMIN_SLOTS]) && !sim_stopped())
		pthread_cond_wait(&a->freed, &a->lock);
	room = !*busy;
	if (room) {
		*busy = true;
		*i = client_submit(&c->client, cmd);
	}
	pthread_mutex_unlock(&a->lock);
	return room;
}

/* Waits on vector 0, which every completion raises. False if the cards stop first. */
static bool wait_completion(struct sim_card *c, uint32_t i, struct openreg_admin_cpl *cpl)
{
	struct sim_vector *v = &c->vectors[0];
	bool done;

	pthread_mutex_lock(&v->lock);
	while (!(done = client_completed(&c->client, i, cpl)) && !sim_stopped())
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
	struct openreg_admin_cpl cpl;
	uint32_t i;

	if (!sim_stopped() && submit(c, cmd, &i) && wait_completion(c, i, &cpl)) {
		ret = status_errno(cpl.status);
		*result = cpl.result;
		pthread_mutex_lock(&a->lock);
		a->busy[i % SIM_ADMIN_SLOTS] = false;
		pthread_cond_broadcast(&a->freed);
		pthread_mutex_unlock(&a->lock);
	}
	sim_cancel_restore(cancel);
	return ret;
}
