// SPDX-License-Identifier: MIT
#include "stepper.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)
#define GUARD 1024 /* checked bytes on each side of a segment */
#define GUARD_BYTE 0xa5

const struct stepper_place stepper_places[STEPPER_PLACES] = {
	{ 1, OPENREG_SEG_VRAM, RW, 0x2000, 32768, 0 },
	{ 2, OPENREG_SEG_VRAM, RW, 0x10000, 12283, 0 },
	{ 3, OPENREG_SEG_VRAM, OPENREG_SEG_READ, 0x20000, 4096, 0 },
	{ 4, OPENREG_SEG_VRAM, OPENREG_SEG_WRITE, 0x30000, 4096, 0 },
	{ 5, OPENREG_SEG_SYSTEM, RW, 44, 16000, 0 },
	{ 6, OPENREG_SEG_SYSTEM, OPENREG_SEG_READ, 0, 4096, 4 },
	{ 7, OPENREG_SEG_SYSTEM, RW, 0, 8192, ~0u },
};

struct openreg_mapping {
	uint8_t *at;
	uint64_t len;
	bool writable;
};

static uint8_t *reach(struct stepper *rig, uint64_t bus, uint64_t len)
{
	if (bus < STEPPER_BUS || len > STEPPER_MEM || bus - STEPPER_BUS > STEPPER_MEM - len)
		return NULL;
	return rig->mem + (bus - STEPPER_BUS);
}

static void nothing(void *host)
{
	(void)host;
}

static void begin(void *host)
{
	must(((struct stepper *)host)->depth++ == 0);
}

static void end(void *host)
{
	must(--((struct stepper *)host)->depth == 0);
}

static struct openreg_mapping *map(void *host, uint64_t bus, uint64_t len,
				   bool writable)
{
	struct stepper *rig = host;
	uint8_t *at = reach(rig, bus, len);
	struct openreg_mapping *m;

	if (!at)
		return NULL;
	m = malloc(sizeof(*m));
	if (!m)
		return NULL;
	*m = (struct openreg_mapping){ at, len, writable };
	rig->mappings++;
	return m;
}

static void unmap(void *host, struct openreg_mapping *m)
{
	((struct stepper *)host)->mappings--;
	free(m);
}

static uint8_t *word(void *host, struct openreg_mapping *m, uint64_t off,
		     unsigned int size)
{
	must(((struct stepper *)host)->depth > 0);
	must(off % size == 0 && off < m->len && size <= m->len - off);
	return m->at + off;
}

static uint64_t load64(void *host, struct openreg_mapping *m, uint64_t off)
{
	uint64_t v;

	memcpy(&v, word(host, m, off, 8), 8);
	return v;
}

static void store64(void *host, struct openreg_mapping *m, uint64_t off,
		    uint64_t value)
{
	must(m->writable);
	memcpy(word(host, m, off, 8), &value, 8);
}

static uint32_t load32(void *host, struct openreg_mapping *m, uint64_t off)
{
	uint32_t v;

	memcpy(&v, word(host, m, off, 4), 4);
	return v;
}

static void store32(void *host, struct openreg_mapping *m, uint64_t off,
		    uint32_t value)
{
	must(m->writable);
	memcpy(word(host, m, off, 4), &value, 4);
}

static void read_mapping(void *host, struct openreg_mapping *m, uint64_t off,
			 void *buf, uint64_t len)
{
	must(((struct stepper *)host)->depth > 0);
	must(len <= m->len && off <= m->len - len);
	memcpy(buf, m->at + off, len);
}

static int dma_read(void *host, uint64_t bus, void *buf, uint64_t len)
{
	struct stepper *rig = host;
	uint8_t *at = reach(rig, bus, len);

	must(rig->depth == 0 && len && len <= OPENREG_DMA_MAX);
	if (!at || rig->refuse)
		return -1;
	memcpy(buf, at, len);
	return 0;
}

static int dma_write(void *host, uint64_t bus, const void *buf, uint64_t len)
{
	struct stepper *rig = host;
	uint8_t *at = reach(rig, bus, len);

	must(rig->depth == 0 && len && len <= OPENREG_DMA_MAX);
	if (!at || rig->refuse)
		return -1;
	memcpy(at, buf, len);
	return 0;
}

static void vram_written(void *host, uint64_t off, uint64_t len)
{
	(void)host;
	must(off <= STEPPER_VRAM && len <= STEPPER_VRAM - off);
}

static void raise_vector(void *host, unsigned int vector)
{
	must(vector < STEPPER_VECTORS);
	((struct stepper *)host)->raised++;
}

static uint64_t clock_ns(void *host)
{
	return ((struct stepper *)host)->raised;
}

static void guest_error(void *host, const char *message)
{
	(void)host;
	must(message[0]);
}

static const struct openreg_host_ops ops = {
	.thread_enter = nothing,
	.thread_leave = nothing,
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

void stepper_make_card(struct stepper *rig)
{
	const struct openreg_card_config config = {
		.vram = rig->vram,
		.vram_size = STEPPER_VRAM,
		.workers = 2,
		.doorbells = STEPPER_DOORBELLS,
		.vectors = STEPPER_VECTORS,
	};
	const char *error;

	rig->card = card_make(&config, &ops, rig, &error);
	must(rig->card);
}

void stepper_free_card(struct stepper *rig)
{
	openreg_card_free(rig->card);
	rig->card = NULL;
	must(!rig->mappings && !rig->depth);
}

static void make_lists(struct stepper *rig)
{
	unsigned int i, k;

	for (i = 0; i < STEPPER_PLACES; i++) {
		const struct stepper_place *place = &stepper_places[i];
		uint64_t n = (place->offset + place->length + 4095) / 4096;

		for (k = 0; k < n && place->kind == OPENREG_SEG_SYSTEM; k++) {
			uint64_t page = STEPPER_BUS + STEPPER_PAGES +
					4096 * (place->page + n - 1 - k);

			if (place->page == ~0u)
				page = 4096 * (k + 1);
			memcpy(rig->mem + STEPPER_LISTS + 64 * i + 8 * k, &page, 8);
		}
	}
}

struct stepper *stepper_new(void)
{
	struct stepper *rig = calloc(1, sizeof(*rig));

	must(rig);
	rig->mem = calloc(1, STEPPER_MEM);
	rig->vram = aligned_alloc(4096, STEPPER_VRAM);
	must(rig->mem && rig->vram);
	memset(rig->vram, GUARD_BYTE, STEPPER_VRAM);
	make_lists(rig);
	stepper_make_card(rig);
	return rig;
}

struct openreg_admin_cmd stepper_bind_cmd(struct stepper *rig, uint32_t ctx,
				      const struct stepper_place *place)
{
	bool system = place->kind == OPENREG_SEG_SYSTEM;
	uint64_t list = STEPPER_LISTS + 64 * (uint64_t)(place - stepper_places);

	make_lists(rig);
	return (struct openreg_admin_cmd){
		.opcode = OPENREG_ADMIN_SEG_BIND,
		.ctx = ctx,
		.id = place->id,
		.seg = { .kind = place->kind,
			 .perm = place->perm,
			 .length = place->length,
			 .base = system ? STEPPER_BUS + list : place->offset,
			 .npages = system ? (place->offset + place->length +
					     4095) / 4096
					  : 0,
			 .page_shift = system ? 12 : 0,
			 .offset = system ? place->offset : 0 },
	};
}

struct openreg_admin_cmd stepper_queue_cmd(uint32_t ctx, uint32_t id)
{
	uint64_t pages = STEPPER_BUS + STEPPER_QUEUE((uint64_t)id % STEPPER_QUEUES);

	return (struct openreg_admin_cmd){
		.opcode = OPENREG_ADMIN_QUEUE_CREATE,
		.ctx = ctx,
		.id = id,
		.queue = { .ring = pages,
			   .user_page = pages + 0x1000,
			   .card_page = pages + 0x2000,
			   .kernel_page = pages + 0x3000,
			   .slots = STEPPER_SLOTS,
			   .doorbell = (uint16_t)(id % STEPPER_DOORBELLS),
			   .vector = (uint16_t)(1 + id % (STEPPER_VECTORS - 1)),
			   .priority = id % 3 },
	};
}

static void admin(struct stepper *rig, admin_fn *run, struct openreg_admin_cmd cmd)
{
	must(run(rig->card, &cmd, 0).status == OPENREG_ADMIN_OK);
}

struct queue *stepper_make_queue(struct stepper *rig)
{
	struct openreg_admin_cmd cmd = { .ctx = 1 };
	unsigned int i;

	admin(rig, admin_ctx_create, cmd);
	for (i = 0; i < STEPPER_PLACES; i++)
		admin(rig, admin_seg_bind,
		      stepper_bind_cmd(rig, 1, &stepper_places[i]));
	cmd = stepper_bind_cmd(rig, 1, &stepper_places[0]);
	cmd.id = STEPPER_DEAD;
	admin(rig, admin_seg_bind, cmd);
	rig->card->ctx[1]->segs[STEPPER_DEAD]->dead = true;
	admin(rig, admin_queue_create, stepper_queue_cmd(1, 0));
	return rig->card->queue[0];
}

/* One turn or slice of a worker. Without work the worker puts idle queues to sleep. */
static bool worker_step(struct stepper *rig, unsigned int n)
{
	struct openreg_card *card = rig->card;
	struct worker *w = &card->workers[n];
	struct queue *q = NULL;
	uint32_t slice = 0;
	uint64_t timeout;
	enum pick pick;

	pthread_mutex_lock(&card->sched.lock);
	pick = sched_pick(w, &q, &slice);
	if (pick == PICK_NONE)
		sched_sleep_idle(w, now_ns(), &timeout);
	pthread_mutex_unlock(&card->sched.lock);
	if (pick == PICK_TURN)
		exec_turn(w, q);
	if (pick == PICK_SLICE)
		exec_slice(w, q, slice);
	return pick != PICK_NONE;
}

bool stepper_step(struct stepper *rig, unsigned int worker)
{
	bool more;

	admin_step(rig->card);
	more = worker_step(rig, worker);
	return copier_step(&rig->card->copier) || more;
}

static void pad(uint8_t *ring, uint64_t *tail, uint64_t slots)
{
	uint8_t *slot = ring + *tail % STEPPER_SLOTS * OPENREG_SLOT_SIZE;

	memset(slot, 0, OPENREG_SLOT_SIZE);
	slot[1] = (uint8_t)slots;
	*tail += slots;
}

uint64_t stepper_push(struct stepper *rig, unsigned int n, uint64_t *tail,
		  const uint8_t *packet)
{
	uint64_t left = STEPPER_SLOTS - *tail % STEPPER_SLOTS, slots = packet[1];
	uint8_t *ring = rig->mem + STEPPER_QUEUE(n);
	uint64_t numbers = 1;

	if (!slots || slots > OPENREG_PACKET_SLOTS_MAX)
		slots = 1;
	if (slots > left) {
		pad(ring, tail, left);
		numbers++;
	}
	memcpy(ring + *tail % STEPPER_SLOTS * OPENREG_SLOT_SIZE, packet,
	       slots * OPENREG_SLOT_SIZE);
	*tail += slots;
	memcpy(ring + 0x1000, tail, 8);
	openreg_card_doorbell(rig->card, n);
	return numbers;
}

/* Contents for the packets' memory: noise, small integers, small floats, zeros. */
static void make_images(uint8_t (*images)[32768])
{
	uint64_t x = 88172645463325252ULL;
	unsigned int i;

	for (i = 0; i < 32768; i += 8) {
		const float f[2] = { (float)(i % 56) / 8 - 3, (float)(i % 9) };
		const uint64_t small = i / 8 % 6;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(images[0] + i, &x, 8);
		memcpy(images[1] + i, &small, 8);
		memcpy(images[2] + i, f, 8);
	}
}

void stepper_fill(struct stepper *rig, unsigned int image)
{
	static uint8_t images[4][32768];
	static bool made;
	unsigned int i;

	if (!made)
		make_images(images);
	made = true;
	stepper_allow(rig, 0, STEPPER_USED);
	for (i = 0; i < STEPPER_PLACES; i++)
		if (stepper_places[i].kind == OPENREG_SEG_VRAM)
			memcpy(rig->vram + stepper_places[i].offset,
			       images[image % 4], stepper_places[i].length);
	memcpy(rig->mem + STEPPER_PAGES, images[image % 4], 5 * 4096);
}

static void check_guard(const uint8_t *at)
{
	static uint8_t guard[GUARD];

	if (!guard[0])
		memset(guard, GUARD_BYTE, GUARD);
	must(!memcmp(at, guard, GUARD));
}

void stepper_check_guards(const struct stepper *rig)
{
	unsigned int i;

	for (i = 0; i < STEPPER_PLACES; i++) {
		const struct stepper_place *place = &stepper_places[i];

		if (place->kind != OPENREG_SEG_VRAM)
			continue;
		check_guard(rig->vram + place->offset - GUARD);
		check_guard(rig->vram + place->offset + place->length);
	}
}

#ifdef HAS_ASAN
void stepper_poison(struct stepper *rig)
{
	__asan_poison_memory_region(rig->vram, STEPPER_USED);
}

void stepper_allow(struct stepper *rig, uint64_t off, uint64_t len)
{
	__asan_unpoison_memory_region(rig->vram + off, len);
}
#else
void stepper_poison(struct stepper *rig)
{
	(void)rig;
}

void stepper_allow(struct stepper *rig, uint64_t off, uint64_t len)
{
	(void)rig;
	(void)off;
	(void)len;
}
#endif
