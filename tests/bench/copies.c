// SPDX-License-Identifier: MIT
/* (b) Copies of three sizes between VRAM and pinned, registered and pageable memory. */
#include <string.h>
#include <sys/mman.h>

#include "card.h"

#define MOST (64ULL << 20)

enum way { H2D_PINNED, D2H_PINNED, D2D, H2D_REGISTERED, D2H_REGISTERED,
	   H2D_PAGEABLE, D2H_PAGEABLE, WAYS };

static const char *const names[] = {
	"H2D pinned", "D2H pinned", "D2D", "H2D registered", "D2H registered",
	"H2D pageable", "D2H pageable",
};

struct memory {
	struct openreg_bo *vram, *vram2, *system, *user;
	void *pageable, *registered;
};

static void *anonymous(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memset(p, 1, size);
	return p;
}

static void make_memory(struct card *c, struct memory *m)
{
	m->vram = make_bo(c, MOST, OPENREG_BO_VRAM);
	m->vram2 = make_bo(c, MOST, OPENREG_BO_VRAM);
	m->system = make_bo(c, MOST, OPENREG_BO_SYSTEM);
	m->pageable = anonymous(MOST);
	m->registered = anonymous(MOST);
	check(openreg_mem_register(c->dev, m->registered, MOST, 0, &m->user));
}

static void copy(struct card *c, const struct memory *m, enum way way,
		 uint64_t n)
{
	const uint64_t vram = openreg_bo_address(m->vram);
	const uint64_t vram2 = openreg_bo_address(m->vram2);
	const uint64_t system = openreg_bo_address(m->system);
	const uint64_t user = openreg_bo_address(m->user);

	switch (way) {
	case H2D_PINNED:
		finish(c, openreg_copy_async(c->q, vram, system, n));
		break;
	case D2H_PINNED:
		finish(c, openreg_copy_async(c->q, system, vram, n));
		break;
	case D2D:
		finish(c, openreg_copy_async(c->q, vram2, vram, n));
		break;
	case H2D_REGISTERED:
		finish(c, openreg_copy_async(c->q, vram, user, n));
		break;
	case D2H_REGISTERED:
		finish(c, openreg_copy_async(c->q, user, vram, n));
		break;
	case H2D_PAGEABLE:
		check(openreg_copy_to_device(c->q, vram, m->pageable, n));
		break;
	case D2H_PAGEABLE:
		check(openreg_copy_from_device(c->q, m->pageable, vram, n));
		break;
	case WAYS:
		break;
	}
}

static void measure(struct card *c, const struct memory *m, enum way way,
		    uint64_t n, const char *size)
{
	double times[15];
	char what[64];

	for (int i = 0; i < 3; i++)
		copy(c, m, way, n);
	for (size_t i = 0; i < 15; i++) {
		const double begin = seconds();

		copy(c, m, way, n);
		times[i] = seconds() - begin;
	}
	snprintf(what, sizeof(what), "%s %s", names[way], size);
	figure("b", what, 1e-9 * (double)n / median(times, 15), "GB/s");
}

int main(void)
{
	struct card c = open_card(0);
	struct memory m;

	make_memory(&c, &m);
	for (enum way way = H2D_PINNED; way < WAYS; way++) {
		measure(&c, &m, way, 64 << 10, "64 KiB");
		measure(&c, &m, way, 1 << 20, "1 MiB");
		measure(&c, &m, way, MOST, "64 MiB");
	}
	openreg_bo_free(m.vram);
	openreg_bo_free(m.vram2);
	openreg_bo_free(m.system);
	openreg_bo_free(m.user);
	close_card(&c);
	return 0;
}
