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
	{ 8, OPENREG_SEG_PEER, RW, 20, 12000, 0 },
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

	rig->card = card_make(&config, &bus_ops, &rig->bus, &error);
	must(rig->card);
	rig->bus.card = rig->card;
}

void stepper_free_card(struct stepper *rig)
{
	openreg_card_free(rig->card);
	rig->card = NULL;
	must(!rig->bus.mappings && !bus_depth);
}

static void make_lists(struct stepper *rig)
{
	unsigned int i, k;

	for (i = 0; i < STEPPER_PLACES; i++) {
		const struct stepper_place *place = &stepper_places[i];
		uint64_t n = (place->offset + place->length + 4095) / 4096;

		for (k = 0; k < n && place->kind != OPENREG_SEG_VRAM; k++) {
			uint64_t page = BUS_BASE + STEPPER_PAGES +
					4096 * (place->page + n - 1 - k);

			if (place->page == ~0u)
				page = 4096 * (k + 1);
			memcpy(rig->bus.mem + STEPPER_LISTS + 64 * i + 8 * k, &page, 8);
		}
	}
}

struct stepper *stepper_new(void)
{
	struct stepper *rig = calloc(1, sizeof(*rig));
	unsigned int i;

	must(rig);
	rig->bus.mem = calloc(1, STEPPER_MEM);
	rig->bus.len = STEPPER_MEM;
	rig->bus.vram_size = STEPPER_VRAM;
	rig->bus.vectors = STEPPER_VECTORS;
	rig->bus.counting_clock = true;
	rig->client = (struct client){
		.ops = &bus_client_ops,
		.host = &rig->bus,
		.cmds = BUS_BASE + STEPPER_ADMIN,
		.cpls = BUS_BASE + STEPPER_CPL,
		.faults = BUS_BASE + STEPPER_FAULTS,
		.slots = STEPPER_ADMIN_SLOTS,
		.fault_slots = STEPPER_FAULT_SLOTS,
	};
	for (i = 0; i < STEPPER_QUEUES; i++) {
		const uint64_t pages = BUS_BASE + STEPPER_QUEUE(i);

		rig->queue[i] = (struct client_queue){
			.client = &rig->client,
			.slots = STEPPER_SLOTS,
			.door = i,
			.ring = pages,
			.user = pages + 0x1000,
			.page = pages + 0x2000,
			.kernel = pages + 0x3000,
		};
	}
	rig->vram = aligned_alloc(4096, STEPPER_VRAM);
	must(rig->bus.mem && rig->vram);
	memset(rig->vram, GUARD_BYTE, STEPPER_VRAM);
	make_lists(rig);
	stepper_make_card(rig);
	return rig;
}

struct openreg_admin_cmd stepper_bind_cmd(struct stepper *rig, uint32_t ctx,
					  const struct stepper_place *place)
{
	const uint64_t list = STEPPER_LISTS + 64 * (uint64_t)(place - stepper_places);
	struct openreg_admin_cmd cmd;

	make_lists(rig);
	if (place->kind == OPENREG_SEG_VRAM)
		return cmd_vram(ctx, place->id, place->offset, place->length, place->perm);
	cmd = cmd_pages(ctx, place->id, BUS_BASE + list, place->offset, place->length,
			place->perm);
	cmd.seg.kind = place->kind;
	return cmd;
}

struct openreg_admin_cmd stepper_queue_cmd(struct stepper *rig, uint32_t ctx, uint32_t id)
{
	struct client_queue q = rig->queue[id % STEPPER_QUEUES];

	q.ctx = ctx;
	q.id = id;
	q.door = id % STEPPER_DOORBELLS;
	q.vector = 1 + id % (STEPPER_VECTORS - 1);
	return cmd_queue(&q, id % 3);
}

void stepper_enable(struct stepper *rig)
{
	client_enable(&rig->client);
	admin_step(rig->card);
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
	admin(rig, admin_queue_create, stepper_queue_cmd(rig, 1, 0));
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

void stepper_push(struct stepper *rig, unsigned int n, const uint8_t *packet)
{
	struct client_queue *q = &rig->queue[n];
	uint32_t slots = packet[offsetof(struct openreg_packet, slots)];

	if (!slots || slots > OPENREG_PACKET_SLOTS_MAX)
		slots = 1;
	client_push(q, packet, slots);
	client_store(&rig->client, q->user, q->tail);
	openreg_card_doorbell(rig->card, n);
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
	memcpy(rig->bus.mem + STEPPER_PAGES, images[image % 4], 5 * 4096);
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
