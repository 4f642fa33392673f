// SPDX-License-Identifier: MIT
/* The callbacks of the card: its bus is the memory of this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sim.h"

struct openreg_mapping {
	uint8_t *at;
	uint64_t len;
};

int64_t sim_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void sim_sleep_ms(unsigned int ms)
{
	const struct timespec ts = { .tv_nsec = ms * 1000000L };
	int cancel = sim_cancel_off();

	nanosleep(&ts, NULL);
	sim_cancel_restore(cancel);
}

int sim_cancel_off(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void sim_cancel_restore(int state)
{
	pthread_setcancelstate(state, NULL);
}

void *sim_pages(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_DONTFORK);
	return p;
}

/* mremap() with an old size of 0 maps shared pages a second time. */
void *sim_pages_again(void *pages, uint64_t size)
{
	void *p = mremap(pages, 0, size, MREMAP_MAYMOVE);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_DONTFORK);
	return p;
}

static void sim_thread(void *host)
{
	(void)host;
}

static struct openreg_mapping *sim_host_map(void *host, uint64_t bus,
					    uint64_t len, bool writable)
{
	struct openreg_mapping *m = malloc(sizeof(*m));

	(void)host;
	(void)writable;
	if (m)
		*m = (struct openreg_mapping){ (uint8_t *)(uintptr_t)bus, len };
	return m;
}

static void sim_host_unmap(void *host, struct openreg_mapping *m)
{
	(void)host;
	free(m);
}

static uint64_t sim_load64(void *host, struct openreg_mapping *m, uint64_t off)
{
	(void)host;
	return __atomic_load_n((uint64_t *)(m->at + off), __ATOMIC_SEQ_CST);
}

static void sim_store64(void *host, struct openreg_mapping *m, uint64_t off,
			uint64_t value)
{
	(void)host;
	__atomic_store_n((uint64_t *)(m->at + off), value, __ATOMIC_SEQ_CST);
}

static uint32_t sim_load32(void *host, struct openreg_mapping *m, uint64_t off)
{
	(void)host;
	return __atomic_load_n((uint32_t *)(m->at + off), __ATOMIC_SEQ_CST);
}

static void sim_store32(void *host, struct openreg_mapping *m, uint64_t off,
			uint32_t value)
{
	(void)host;
	__atomic_store_n((uint32_t *)(m->at + off), value, __ATOMIC_SEQ_CST);
}

static void sim_host_read(void *host, struct openreg_mapping *m, uint64_t off,
			  void *buf, uint64_t len)
{
	(void)host;
	memcpy(buf, m->at + off, len);
}

/* True for a word of WAIT or SIGNAL, which the card must access atomically. */
static bool is_word(uint64_t bus, uint64_t len)
{
	return len == 8 && bus % 8 == 0;
}

static int sim_dma_read(void *host, uint64_t bus, void *buf, uint64_t len)
{
	const void *at = (const void *)(uintptr_t)bus;
	uint64_t value;

	(void)host;
	if (!is_word(bus, len)) {
		memcpy(buf, at, len);
		return 0;
	}
	value = __atomic_load_n((const uint64_t *)at, __ATOMIC_SEQ_CST);
	memcpy(buf, &value, 8);
	return 0;
}

static int sim_dma_write(void *host, uint64_t bus, const void *buf,
			 uint64_t len)
{
	void *at = (void *)(uintptr_t)bus;
	uint64_t value;

	(void)host;
	if (!is_word(bus, len)) {
		memcpy(at, buf, len);
		return 0;
	}
	memcpy(&value, buf, 8);
	__atomic_store_n((uint64_t *)at, value, __ATOMIC_SEQ_CST);
	return 0;
}

static void sim_vram_written(void *host, uint64_t off, uint64_t len)
{
	(void)host;
	(void)off;
	(void)len;
}

static void sim_raise(void *host, unsigned int vector)
{
	struct sim_card *c = host;
	struct sim_vector *v = &c->vectors[vector];

	if (!vector)
		sim_memory_release(c);
	pthread_mutex_lock(&v->lock);
	pthread_cond_broadcast(&v->raised);
	pthread_mutex_unlock(&v->lock);
}

static uint64_t sim_clock(void *host)
{
	(void)host;
	return (uint64_t)sim_now();
}

static void sim_guest_error(void *host, const char *message)
{
	if (!getenv("OPENREG_SIM_LOG"))
		return;
	fprintf(stderr, "openreg sim:%u: %s\n",
		((struct sim_card *)host)->index, message);
}

const struct openreg_host_ops sim_host_ops = {
	.thread_enter = sim_thread,
	.thread_leave = sim_thread,
	.access_begin = sim_thread,
	.access_end = sim_thread,
	.map = sim_host_map,
	.unmap = sim_host_unmap,
	.load64 = sim_load64,
	.store64 = sim_store64,
	.load32 = sim_load32,
	.store32 = sim_store32,
	.read = sim_host_read,
	.dma_read = sim_dma_read,
	.dma_write = sim_dma_write,
	.vram_written = sim_vram_written,
	.raise = sim_raise,
	.signalled = sim_signalled,
	.waiting = sim_waiting,
	.clock_ns = sim_clock,
	.guest_error = sim_guest_error,
};

static uint32_t sim_read_reg(void *host, uint32_t off)
{
	return (uint32_t)openreg_card_reg_read(((struct sim_card *)host)->card, off, 4);
}

static void sim_write_reg(void *host, uint32_t off, uint32_t value)
{
	openreg_card_reg_write(((struct sim_card *)host)->card, off, value, 4);
}

static void sim_load(void *host, uint64_t bus, void *to, size_t len)
{
	sim_dma_read(host, bus, to, len);
}

static void sim_store(void *host, uint64_t bus, const void *from, size_t len)
{
	sim_dma_write(host, bus, from, len);
}

static void sim_ring(void *host, uint32_t doorbell)
{
	openreg_card_doorbell(((struct sim_card *)host)->card, doorbell);
}

const struct client_ops sim_client_ops = {
	.read_reg = sim_read_reg,
	.write_reg = sim_write_reg,
	.load = sim_load,
	.store = sim_store,
	.ring = sim_ring,
};
