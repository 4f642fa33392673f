/* SPDX-License-Identifier: MIT */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct openreg_mapping {
	uint8_t *at;
	uint64_t len;
	bool writable;
};

uint64_t host_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void host_rest(void)
{
	usleep(20);
}

static uint8_t *reach(struct rig *rig, uint64_t bus, uint64_t len)
{
	uint64_t bad = atomic_load(&rig->bad_bus);

	if (bus < HOST_BUS || len > HOST_MEM || bus - HOST_BUS > HOST_MEM - len)
		return NULL;
	if (bus < bad + atomic_load(&rig->bad_len) && bad < bus + len)
		return NULL;
	return rig->mem + (bus - HOST_BUS);
}

/* Aborts: a cmocka assertion in a card's thread would longjmp to another stack. */
#define must(cond)                                                             \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,     \
				#cond);                                        \
			abort();                                               \
		}                                                              \
	} while (0)

static __thread int depth;

static void enter(void *host)
{
	atomic_fetch_add(&((struct rig *)host)->threads, 1);
}

static void leave(void *host)
{
	atomic_fetch_sub(&((struct rig *)host)->threads, 1);
}

static void begin(void *host)
{
	(void)host;
	must(depth++ == 0);
}

static void end(void *host)
{
	(void)host;
	must(--depth == 0);
}

static struct openreg_mapping *map(void *host, uint64_t bus, uint64_t len,
				   bool writable)
{
	struct rig *rig = host;
	uint8_t *at = reach(rig, bus, len);
	struct openreg_mapping *m;

	if (!at)
		return NULL;
	m = malloc(sizeof(*m));
	must(m);
	*m = (struct openreg_mapping){ at, len, writable };
	atomic_fetch_add(&rig->mappings, 1);
	return m;
}

static void unmap(void *host, struct openreg_mapping *m)
{
	atomic_fetch_sub(&((struct rig *)host)->mappings, 1);
	free(m);
}

static void *word(struct openreg_mapping *m, uint64_t off, unsigned int size)
{
	must(depth > 0);
	must(off % size == 0 && off + size <= m->len);
	return m->at + off;
}

static uint64_t load64(void *host, struct openreg_mapping *m, uint64_t off)
{
	struct rig *rig = host;

	atomic_fetch_add(&rig->loads, 1);
	return __atomic_load_n((uint64_t *)word(m, off, 8), __ATOMIC_SEQ_CST);
}

static void store64(void *host, struct openreg_mapping *m, uint64_t off,
		    uint64_t value)
{
	(void)host;
	must(m->writable);
	__atomic_store_n((uint64_t *)word(m, off, 8), value, __ATOMIC_SEQ_CST);
}

static uint32_t load32(void *host, struct openreg_mapping *m, uint64_t off)
{
	(void)host;
	return __atomic_load_n((uint32_t *)word(m, off, 4), __ATOMIC_SEQ_CST);
}

static void store32(void *host, struct openreg_mapping *m, uint64_t off,
		    uint32_t value)
{
	(void)host;
	must(m->writable);
	__atomic_store_n((uint32_t *)word(m, off, 4), value, __ATOMIC_SEQ_CST);
}

static void read_mapping(void *host, struct openreg_mapping *m, uint64_t off,
			 void *buf, uint64_t len)
{
	(void)host;
	must(depth > 0 && off + len <= m->len);
	memcpy(buf, m->at + off, len);
}

static bool is_word(uint64_t bus, uint64_t len)
{
	return len == 8 && bus % 8 == 0;
}

static int dma_read(void *host, uint64_t bus, void *buf, uint64_t len)
{
	uint8_t *at = reach(host, bus, len);
	uint64_t value;

	must(depth == 0);
	if (!at)
		return -1;
	if (is_word(bus, len)) {
		value = __atomic_load_n((uint64_t *)at, __ATOMIC_SEQ_CST);
		memcpy(buf, &value, 8);
	} else {
		memcpy(buf, at, len);
	}
	return 0;
}

static int dma_write(void *host, uint64_t bus, const void *buf, uint64_t len)
{
	uint8_t *at = reach(host, bus, len);
	uint64_t value;

	must(depth == 0);
	if (!at)
		return -1;
	if (is_word(bus, len)) {
		memcpy(&value, buf, 8);
		__atomic_store_n((uint64_t *)at, value, __ATOMIC_SEQ_CST);
	} else {
		memcpy(at, buf, len);
	}
	return 0;
}

static void vram_written(void *host, uint64_t off, uint64_t len)
{
	struct rig *rig = host;

	must(off + len <= rig->config.vram_size);
	atomic_fetch_add(&rig->dirty, len);
}

static void raise_vector(void *host, unsigned int vector)
{
	struct rig *rig = host;

	must(vector < rig->config.vectors);
	atomic_fetch_add(&rig->raised[vector], 1);
}

static uint64_t clock_ns(void *host)
{
	(void)host;
	return host_now();
}

static void guest_error(void *host, const char *message)
{
	atomic_fetch_add(&((struct rig *)host)->guest_errors, 1);
	if (getenv("OPENREG_TEST_VERBOSE"))
		fprintf(stderr, "# guest error: %s\n", message);
}

static const struct openreg_host_ops ops = {
	.thread_enter = enter,
	.thread_leave = leave,
	.access_begin = begin,
	.access_end = end,
	.map = map,
	.unmap = unmap,
	.load64 = load64,
	.store64 = store64,
	.load32 = load32,
	.store32 = store32,
	.read = read_mapping,
	.dma_read = dma_read,
	.dma_write = dma_write,
	.vram_written = vram_written,
	.raise = raise_vector,
	.clock_ns = clock_ns,
	.guest_error = guest_error,
};

void rig_make_card(struct rig *rig)
{
	const char *error;

	rig->card = openreg_card_new(&rig->config, &ops, rig, &error);
	if (!rig->card)
		fail_msg("no card: %s", error);
	rig->admin_tail = 0;
}

static void wr64(struct rig *rig, uint32_t off, uint64_t value)
{
	openreg_card_reg_write(rig->card, off, (uint32_t)value, 4);
	openreg_card_reg_write(rig->card, off + 4, value >> 32, 4);
}

void rig_enable(struct rig *rig)
{
	struct openreg_card *card = rig->card;

	memset(rig_ptr(rig, rig->admin_cpl), 0,
	       HOST_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl));
	memset(rig_ptr(rig, rig->fault_base), 0,
	       HOST_FAULT_SLOTS * sizeof(struct openreg_fault_record));
	wr64(rig, OPENREG_REG_ADMIN_BASE, rig->admin_base);
	wr64(rig, OPENREG_REG_ADMIN_CPL, rig->admin_cpl);
	openreg_card_reg_write(card, OPENREG_REG_ADMIN_SLOTS, HOST_ADMIN_SLOTS,
			       4);
	wr64(rig, OPENREG_REG_FAULT_BASE, rig->fault_base);
	openreg_card_reg_write(card, OPENREG_REG_FAULT_SLOTS, HOST_FAULT_SLOTS,
			       4);
	openreg_card_reg_write(card, OPENREG_REG_CONTROL,
			       OPENREG_CONTROL_ENABLE, 4);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STATUS));
	rig->admin_tail = 0;
}

struct rig *rig_new_spin(unsigned int workers, unsigned int spin_us)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	rig->mem = aligned_alloc(1 << 21, HOST_MEM);
	rig->vram = aligned_alloc(1 << 21, HOST_VRAM);
	assert_true(rig->mem && rig->vram);
	memset(rig->mem, 0, HOST_MEM);
	memset(rig->vram, 0, HOST_VRAM);
	rig->config = (struct openreg_card_config){
		.vram = rig->vram,
		.vram_size = HOST_VRAM,
		.workers = workers,
		.doorbells = 64,
		.vectors = 32,
		.spin_us = spin_us,
	};
	rig->admin_base = rig_alloc(rig, HOST_ADMIN_SLOTS * 64);
	rig->admin_cpl = rig_alloc(rig, HOST_ADMIN_SLOTS * 16);
	rig->fault_base = rig_alloc(rig, HOST_FAULT_SLOTS * 64);
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
	assert_int_equal(atomic_load(&rig->mappings), 0);
	assert_int_equal(atomic_load(&rig->threads), 0);
	free(rig->mem);
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
	memset(rig->mem + at, 0, len);
	return HOST_BUS + at;
}

void *rig_ptr(struct rig *rig, uint64_t bus)
{
	return rig->mem + (bus - HOST_BUS);
}

uint64_t rig_load(struct rig *rig, uint64_t bus)
{
	return __atomic_load_n((uint64_t *)rig_ptr(rig, bus), __ATOMIC_SEQ_CST);
}

void rig_store(struct rig *rig, uint64_t bus, uint64_t value)
{
	__atomic_store_n((uint64_t *)rig_ptr(rig, bus), value,
			 __ATOMIC_SEQ_CST);
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

uint32_t rig_reg(struct rig *rig, uint32_t off)
{
	return (uint32_t)openreg_card_reg_read(rig->card, off, 4);
}
