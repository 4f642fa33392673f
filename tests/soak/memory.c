// SPDX-License-Identifier: GPL-2.0-only
/* What is left after a round: on the card nothing, in the guest no more than before. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "soak.h"

#define ROUNDS_MAX 100000
#define WARM_UP 2 /* rounds in which caches fill */
#define STEADY 3 /* rounds at each end, at least */
/* More than so much, KiB, between all rounds of the first and of the last third. */
#define GROWTH 32768

static struct card_usage unused;
static struct look {
	int used, slab; /* KiB */
} looks[ROUNDS_MAX];
static unsigned int num_looks;

static long long meminfo(const char *name)
{
	char key[64];
	long long value, result = -1;
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fscanf(file, "%63s %lld%*[^\n]", key, &value) == 2)
		if (!strcmp(key, name))
			result = value;
	if (file)
		fclose(file);
	return result;
}

void memory_begin(void)
{
	unused = card_unused();
}

bool memory_look(struct soak *s)
{
	struct look *look = &looks[num_looks];

	if (!card_settles(unused))
		return soak_fail(s, "something is left on the card");
	sync();
	if (file_put("/proc/sys/vm/drop_caches", "3"))
		return soak_fail(s, "no drop_caches");
	look->used = meminfo("MemTotal:") - meminfo("MemAvailable:");
	look->slab = meminfo("SUnreclaim:");
	if (num_looks < ROUNDS_MAX - 1)
		num_looks++;
	/* scripts/soak adds QEMU's to this line. */
	printf("soak: round %u is over: %d KiB in use, %d KiB of slab\n",
	       s->round, look->used, look->slab);
	fflush(stdout);
	return true;
}

static int value_of(unsigned int i, bool slab)
{
	return slab ? looks[i].slab : looks[i].used;
}

/* What the least of the last third has more than the most of the first. */
static int growth(bool slab)
{
	unsigned int third = (num_looks - WARM_UP) / 3, i;
	int most = 0, least = INT32_MAX;

	for (i = WARM_UP; i < WARM_UP + third; i++)
		most = value_of(i, slab) > most ? value_of(i, slab) : most;
	for (i = num_looks - third; i < num_looks; i++)
		least = value_of(i, slab) < least ? value_of(i, slab) : least;
	return least - most;
}

bool memory_judge(struct soak *s)
{
	if (num_looks < WARM_UP + 3 * STEADY) {
		printf("soak: %u rounds are too few to see memory grow\n",
		       num_looks);
		return true;
	}
	if (growth(false) > GROWTH || growth(true) > GROWTH)
		return soak_fail(s, "memory grows: %d KiB, slab %d KiB",
				 growth(false), growth(true));
	return true;
}

static long long look_at(unsigned int i)
{
	return num_looks ? looks[i].used : -1;
}

long long memory_first(void)
{
	return look_at(num_looks > WARM_UP ? WARM_UP : 0);
}

long long memory_last(void)
{
	return look_at(num_looks ? num_looks - 1 : 0);
}
