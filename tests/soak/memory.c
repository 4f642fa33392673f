// SPDX-License-Identifier: GPL-2.0-only
/* What is left after a round: on the card nothing, in the guest no more than before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "soak.h"

#define ROUNDS_MAX 100000
#define WARM_UP 2 /* rounds in which caches fill */
#define STEADY 3 /* rounds at each end, at least */
#define GROWTH 32768 /* KiB from the first to the last third, at most */

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
 * What the last third of the rounds has more than the first, and 0 if that is no
 * leak. Medians, as memory goes up and down from round to round: the least and the
 * most of a third would hide a leak as large as that swing. A leak goes on in the
 * last third, too; caches fill, and stand.
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
