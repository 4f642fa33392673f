// SPDX-License-Identifier: MIT
/* Loads: copies of all kinds, short-lived buffer objects, registered memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client.h"

#define PAGE 4096u

/* ---- copies: the load knows every byte of its memory ---------------------- */

#define SPACE (1u << 18)

struct copies {
	struct openreg_bo *bo;
	uint64_t at;
	unsigned char truth[SPACE], now[SPACE];
};

static int copies_begin(struct client *c)
{
	struct copies *x = c->load;
	const uint32_t kind = random_below(c, 4) ? OPENREG_BO_VRAM :
						   OPENREG_BO_SYSTEM;
	int ret = alloc(c, SPACE, kind, &x->bo);

	if (!ret)
		x->at = openreg_bo_address(x->bo);
	return ret;
}

static void copies_end(struct client *c)
{
	openreg_bo_free(((struct copies *)c->load)->bo);
}

static int copy_once(struct client *c)
{
	struct copies *x = c->load;
	const uint64_t size = 1 + random_below(c, SPACE / 2);
	const uint64_t low = random_below(c, SPACE / 2 - size + 1);
	const uint64_t high = SPACE / 2 + random_below(c, SPACE / 2 - size + 1);
	int64_t ret;

	switch (random_below(c, 4)) {
	case 0:
		noise(x->truth + low, size, random64(c));
		return openreg_copy_to_device(c->q[0], x->at + low,
					      x->truth + low, size);
	case 1:
		memset(x->truth + high, (int)size & 0xff, size);
		ret = openreg_fill_async(c->q[0], x->at + high, size & 0xff,
					 size);
		break;
	case 2:
		memcpy(x->truth + low, x->truth + high, size);
		ret = openreg_copy_async(c->q[0], x->at + low, x->at + high,
					 size);
		break;
	default:
		memcpy(x->truth + high, x->truth + low, size);
		ret = openreg_copy_async(c->q[0], x->at + high, x->at + low,
					 size);
	}
	return ret < 0 ? (int)ret : 0;
}

static int copies_turn(struct client *c)
{
	struct copies *x = c->load;
	int i, ret = 0;
	size_t k;

	for (i = 0; i < 6 && !ret; i++)
		ret = copy_once(c);
	if (!ret)
		ret = openreg_copy_from_device(c->q[0], x->now, x->at, SPACE);
	if (ret || !memcmp(x->now, x->truth, SPACE))
		return ret;
	for (k = 0; x->now[k] == x->truth[k];)
		k++;
	return wrong(c, "byte %zu is %02x, not %02x", k, x->now[k], x->truth[k]);
}

/* ---- churn --------------------------------------------------------------- */

#define OBJECTS 12

struct churn {
	struct object {
		struct openreg_bo *bo;
		unsigned char *map; /* NULL if not mapped */
		unsigned char mark;
	} objects[OBJECTS];
};

static int churn_begin(struct client *c)
{
	(void)c;
	return 0;
}

static void churn_end(struct client *c)
{
	struct churn *x = c->load;
	size_t i;

	for (i = 0; i < OBJECTS; i++)
		openreg_bo_free(x->objects[i].bo);
}

/* Checks the first and the last byte of each page. */
static int expect_pages(struct client *c, const struct object *o,
			const char *what)
{
	const uint64_t size = openreg_bo_size(o->bo);
	uint64_t i;

	for (i = 0; i < size; i += PAGE)
		if (o->map[i] != o->mark || o->map[i + PAGE - 1] != o->mark)
			return wrong(c, "%s: page %llu of %llu is %02x, not %02x",
				     what, (unsigned long long)(i / PAGE),
				     (unsigned long long)(size / PAGE),
				     o->map[i], o->mark);
	return 0;
}

static int object_make(struct client *c, struct object *o)
{
	static const uint32_t kinds[] = { OPENREG_BO_VRAM, OPENREG_BO_SYSTEM };
	const uint64_t size = 1 + random_below(c, random_below(c, 4) ?
							  16 * PAGE :
							  512 * PAGE);
	int ret = alloc(c, size, kinds[random_below(c, 2)], &o->bo);

	o->mark = 0;
	o->map = NULL;
	if (ret || random_below(c, 4) == 0)
		return ret;
	ret = openreg_bo_map(o->bo, (void **)&o->map);
	return ret ? ret : expect_pages(c, o, "new");
}

static int object_mark(struct client *c, struct object *o)
{
	const unsigned char mark = 1 + (unsigned char)random_below(c, 255);
	int64_t ret;

	if (o->map && random_below(c, 2)) {
		memset(o->map, mark, openreg_bo_size(o->bo));
	} else {
		ret = openreg_fill_async(c->q[0], openreg_bo_address(o->bo),
					 mark, openreg_bo_size(o->bo));
		if (ret < 0)
			return (int)ret;
		ret = finish(c, 0);
		if (ret)
			return (int)ret;
	}
	o->mark = mark;
	return 0;
}

static int object_look(struct client *c, struct object *o)
{
	int ret;

	if (!o->map) {
		ret = openreg_bo_map(o->bo, (void **)&o->map);
		if (ret)
			return ret;
	}
	ret = expect_pages(c, o, "kept");
	if (!ret && random_below(c, 2)) {
		openreg_bo_unmap(o->bo);
		o->map = NULL;
	}
	return ret;
}

static int churn_turn(struct client *c)
{
	struct churn *x = c->load;
	struct object *o = &x->objects[random_below(c, OBJECTS)];
	int ret;

	if (!o->bo)
		return object_make(c, o);
	ret = object_look(c, o);
	if (ret)
		return ret;
	if (random_below(c, 3))
		return object_mark(c, o);
	openreg_bo_free(o->bo);
	o->bo = NULL;
	return 0;
}

/* ---- registered memory --------------------------------------------------- */

#define REGION (1u << 18)

struct userptr {
	struct openreg_bo *vram, *reg;
	unsigned char *mem; /* of this turn; NULL if unmapped */
};

static int userptr_begin(struct client *c)
{
	struct userptr *x = c->load;

	return alloc(c, REGION, OPENREG_BO_VRAM, &x->vram);
}

static void userptr_end(struct client *c)
{
	struct userptr *x = c->load;

	openreg_bo_free(x->reg);
	openreg_bo_free(x->vram);
	if (x->mem)
		munmap(x->mem, REGION);
}

static int there_and_back(struct client *c, unsigned char *p, size_t size,
			  uint64_t seed)
{
	struct userptr *x = c->load;
	const uint64_t vram = openreg_bo_address(x->vram);
	const uint64_t reg = openreg_bo_address(x->reg);
	int64_t seq;
	size_t at;
	int ret;

	noise(p, size, seed);
	seq = openreg_copy_async(c->q[0], vram, reg, size);
	ret = seq < 0 ? (int)seq : finish(c, 0);
	if (ret)
		return ret;
	memset(p, 0, size);
	seq = openreg_copy_async(c->q[0], reg, vram, size);
	ret = seq < 0 ? (int)seq : finish(c, 0);
	if (ret)
		return ret;
	at = not_noise(p, size, seed);
	return at == size ? 0 : wrong(c, "byte %zu of %zu is wrong after the copies",
				      at, size);
}

static int userptr_turn(struct client *c)
{
	struct userptr *x = c->load;
	const uint64_t offset = random_below(c, 2 * PAGE);
	const uint64_t size = 1 + random_below(c, REGION - offset);
	int ret;

	x->mem = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (x->mem == MAP_FAILED) {
		x->mem = NULL;
		return -ENOMEM;
	}
	ret = openreg_mem_register(c->dev, x->mem + offset, size, 0, &x->reg);
	if (!ret)
		ret = there_and_back(c, x->mem + offset, size, random64(c));
	if (ret)
		return ret;
	/* Unmap before or after the free: the memory is pinned. */
	if (random_below(c, 2)) {
		munmap(x->mem, REGION);
		x->mem = NULL;
	}
	openreg_bo_free(x->reg);
	x->reg = NULL;
	if (x->mem)
		munmap(x->mem, REGION);
	x->mem = NULL;
	return 0;
}

const struct load load_copies = {
	"copies", sizeof(struct copies), copies_begin, copies_turn, copies_end,
};

const struct load load_churn = {
	"churn", sizeof(struct churn), churn_begin, churn_turn, churn_end,
};

const struct load load_userptr = {
	"userptr", sizeof(struct userptr), userptr_begin, userptr_turn,
	userptr_end,
};
