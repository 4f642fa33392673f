// SPDX-License-Identifier: MIT
#include "bus.h"

#include <time.h>

#include "core/segment.h"

struct openreg_mapping {
	uint8_t *at;
	uint64_t len;
	bool writable;
};

__thread int bus_depth;

uint64_t host_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint8_t *reach(struct bus *bus, uint64_t at, uint64_t len)
{
	uint64_t bad = atomic_load(&bus->bad_bus);

	if (at < BUS_BASE || len > bus->len || at - BUS_BASE > bus->len - len)
		return NULL;
	if (at < bad + atomic_load(&bus->bad_len) && bad < at + len)
		return NULL;
	return bus_ptr(bus, at);
}

static void enter(void *host)
{
	atomic_fetch_add(&((struct bus *)host)->threads, 1);
}

static void leave(void *host)
{
	atomic_fetch_sub(&((struct bus *)host)->threads, 1);
}

static void begin(void *host)
{
	(void)host;
	must(bus_depth++ == 0);
}

static void end(void *host)
{
	(void)host;
	must(--bus_depth == 0);
}

static struct openreg_mapping *map(void *host, uint64_t at, uint64_t len, bool writable)
{
	uint8_t *mem = reach(host, at, len);
	struct openreg_mapping *m = mem ? malloc(sizeof(*m)) : NULL;

	if (!m)
		return NULL;
	*m = (struct openreg_mapping){ mem, len, writable };
	atomic_fetch_add(&((struct bus *)host)->mappings, 1);
	return m;
}

static void unmap(void *host, struct openreg_mapping *m)
{
	atomic_fetch_sub(&((struct bus *)host)->mappings, 1);
	free(m);
}

static void *word(struct openreg_mapping *m, uint64_t off, unsigned int size)
{
	must(bus_depth > 0);
	must(off % size == 0 && off < m->len && size <= m->len - off);
	return m->at + off;
}

static uint64_t load64(void *host, struct openreg_mapping *m, uint64_t off)
{
	atomic_fetch_add(&((struct bus *)host)->loads, 1);
	return __atomic_load_n((uint64_t *)word(m, off, 8), __ATOMIC_SEQ_CST);
}

static void store64(void *host, struct openreg_mapping *m, uint64_t off, uint64_t value)
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

static void store32(void *host, struct openreg_mapping *m, uint64_t off, uint32_t value)
{
	(void)host;
	must(m->writable);
	__atomic_store_n((uint32_t *)word(m, off, 4), value, __ATOMIC_SEQ_CST);
}

static void read_mapping(void *host, struct openreg_mapping *m, uint64_t off, void *buf,
			 uint64_t len)
{
	(void)host;
	must(bus_depth > 0);
	must(len <= m->len && off <= m->len - len);
	memcpy(buf, m->at + off, len);
}

/* Words are atomic: the card's for WAIT and SIGNAL, and the driver's in queue pages. */
static void read_bytes(const void *at, void *to, size_t len)
{
	uint32_t low;
	uint64_t whole;

	if (len == 4 && (uintptr_t)at % 4 == 0) {
		low = __atomic_load_n((const uint32_t *)at, __ATOMIC_SEQ_CST);
		memcpy(to, &low, 4);
	} else if (len == 8 && (uintptr_t)at % 8 == 0) {
		whole = __atomic_load_n((const uint64_t *)at, __ATOMIC_SEQ_CST);
		memcpy(to, &whole, 8);
	} else {
		memcpy(to, at, len);
	}
}

static void write_bytes(void *at, const void *from, size_t len)
{
	uint32_t low;
	uint64_t whole;

	if (len == 4 && (uintptr_t)at % 4 == 0) {
		memcpy(&low, from, 4);
		__atomic_store_n((uint32_t *)at, low, __ATOMIC_SEQ_CST);
	} else if (len == 8 && (uintptr_t)at % 8 == 0) {
		memcpy(&whole, from, 8);
		__atomic_store_n((uint64_t *)at, whole, __ATOMIC_SEQ_CST);
	} else {
		memcpy(at, from, len);
	}
}

static uint8_t *reach_dma(struct bus *bus, uint64_t at, uint64_t len)
{
	must(bus_depth == 0 && len && len <= OPENREG_DMA_MAX);
	return atomic_load(&bus->refuse) ? NULL : reach(bus, at, len);
}

static int dma_read(void *host, uint64_t at, void *buf, uint64_t len)
{
	const uint8_t *mem = reach_dma(host, at, len);

	if (!mem)
		return -1;
	read_bytes(mem, buf, len);
	return 0;
}

static int dma_write(void *host, uint64_t at, const void *buf, uint64_t len)
{
	uint8_t *mem = reach_dma(host, at, len);

	if (!mem)
		return -1;
	write_bytes(mem, buf, len);
	return 0;
}

static void vram_written(void *host, uint64_t off, uint64_t len)
{
	struct bus *bus = host;

	must(off <= bus->vram_size && len <= bus->vram_size - off);
	atomic_fetch_add(&bus->dirty, len);
}

static void raise_vector(void *host, unsigned int vector)
{
	struct bus *bus = host;

	must(vector < bus->vectors);
	atomic_fetch_add(&bus->raised[vector], 1);
	atomic_fetch_add(&bus->interrupts, 1);
}

static uint64_t clock_ns(void *host)
{
	struct bus *bus = host;

	return bus->counting_clock ? atomic_load(&bus->interrupts) : host_now();
}

static void guest_error(void *host, const char *message)
{
	must(message[0]);
	atomic_fetch_add(&((struct bus *)host)->guest_errors, 1);
	if (getenv("OPENREG_TEST_VERBOSE"))
		fprintf(stderr, "# guest error: %s\n", message);
}

const struct openreg_host_ops bus_ops = {
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

static uint32_t read_reg(void *host, uint32_t off)
{
	return (uint32_t)openreg_card_reg_read(((struct bus *)host)->card, off, 4);
}

static void write_reg(void *host, uint32_t off, uint32_t value)
{
	openreg_card_reg_write(((struct bus *)host)->card, off, value, 4);
}

/* Takes longer reads word by word, as the card writes them. */
static void load(void *host, uint64_t at, void *to, size_t len)
{
	const uint8_t *mem = bus_ptr(host, at);
	size_t off;

	for (off = 0; off < len; off += 8)
		read_bytes(mem + off, (uint8_t *)to + off, len - off < 8 ? len - off : 8);
}

static void store(void *host, uint64_t at, const void *from, size_t len)
{
	write_bytes(bus_ptr(host, at), from, len);
}

static void ring(void *host, uint32_t doorbell)
{
	openreg_card_doorbell(((struct bus *)host)->card, doorbell);
}

const struct client_ops bus_client_ops = {
	.read_reg = read_reg,
	.write_reg = write_reg,
	.load = load,
	.store = store,
	.ring = ring,
};
