// SPDX-License-Identifier: GPL-2.0-only
/* Checks for leaks after a round: no objects on the cards, no growth in the guest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "soak.h"

#define ROUNDS_MAX 100000
#define WARM_UP 2 /* first rounds, in which caches fill: not counted */
#define STEADY 3 /* least rounds of a third */
#define GROWTH 32768 /* largest growth from the first to the last third, KiB */

static struct card_usage unused[SOAK_CARDS_MAX];
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

void memory_begin(const struct soak *s)
{
	unsigned int i;

	for (i = 0; i < s->cards; i++) {
		card_choose(i);
		unused[i] = card_unused();
	}
}

bool memory_look(struct soak *s)
{
	struct look *look = &looks[num_looks];
	unsigned int i;

	for (i = 0; i < s->cards; i++) {
		card_choose(i);
		if (!card_settles(unused[i]))
			return soak_fail(s, "something is left on card %u", i);
	}
	sync();
	if (file_put("/proc/sys/vm/drop_caches", "3"))
		return soak_fail(s, "no drop_caches");
	look->used = meminfo("MemTotal:") - meminfo("MemAvailable:");
	look->slab = meminfo("SUnreclaim:");
	if (num_looks < ROUNDS_MAX - 1)
		num_looks++;
	/* scripts/soak appends the memory of QEMU to this line. */
	printf("soak: round %u is over: %d KiB in use, %d KiB of slab\n",
	       s->round, look->used, look->slab);
	fflush(stdout);
	return true;
}

static int value_of(unsigned int i, bool slab)
{
	return slab ? looks[i].slab : looks[i].used;
}

static int compare(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static int median(unsigned int from, unsigned int count, bool slab)
{
	static int values[ROUNDS_MAX];
	unsigned int i;

	for (i = 0; i < count; i++)
		values[i] = value_of(from + i, slab);
	qsort(values, count, sizeof(values[0]), compare);
	return values[count / 2];
}

/*
 * Growth from the first third of the rounds to the last, or 0 if it is no leak.
 *
 * - Compare medians, since memory varies from round to round: minimum and maximum of a
 *   third would hide a leak as large as this variation.
 * - A leak still grows in the last third, but full caches do not.
 */
static int growth(bool slab)
{
	const unsigned int third = (num_looks - WARM_UP) / 3;
	const int first = median(WARM_UP, third, slab);
	const int middle = median(WARM_UP + third, third, slab);
	const int last = median(num_looks - third, third, slab);

	return last - first > GROWTH && last - middle > GROWTH / 2 ?
		       last - first : 0;
}

bool memory_judge(struct soak *s)
{
	int used, slab;

	if (num_looks < WARM_UP + 3 * STEADY) {
		printf("soak: %u rounds are too few to see memory grow\n",
		       num_looks);
		return true;
	}
	used = growth(false);
	slab = growth(true);
	if (used || slab)
		return soak_fail(s, "memory grows: %d KiB, slab %d KiB", used,
				 slab);
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
