// SPDX-License-Identifier: GPL-2.0-only
// test vectors not kselftest-checked: --cpus 1 --cards 16 --vram 2M
// test vectors-few not kselftest-checked: as litmus-1cpu
/*
 * A machine with many cards, or with few interrupts left by other devices: each card has
 * vectors, and they wake a process that sleeps.
 */
#include <errno.h>

#include "kselftest_harness.h"

#include "card.h"

/* Vectors of a card if it is the only one. */
#define VECTORS_ALONE 32

static unsigned int num_cards(void)
{
	const char *cards = getenv("OPENREG_CARDS");

	return cards ? strtoul(cards, NULL, 10) : 0;
}

static unsigned long long sum_of_numbers(char *text)
{
	unsigned long long sum = 0;
	char *end;

	for (;; text = end) {
		unsigned long long value = strtoull(text, &end, 10);

		if (end == text)
			return sum;
		sum += value;
	}
}

/* Returns the driver's vectors. *came counts the interrupts of queues, on all CPUs. */
static unsigned int interrupts(unsigned long long *came)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned int found = 0;
	char line[4096], *numbers;

	*came = 0;
	while (file && fgets(line, sizeof(line), file)) {
		numbers = strchr(line, ':');
		if (!numbers || !strstr(numbers, " openreg-"))
			continue;
		found++;
		if (strstr(numbers, " openreg-queue"))
			*came += sum_of_numbers(numbers + 1);
	}
	if (file)
		fclose(file);
	return found;
}

/* Runs longer and longer packets, until one ends after the wait has armed the queue. */
static int sleep_until_interrupted(int fd)
{
	unsigned long long came, before, count;
	struct packet p;
	struct queue q;
	struct bo bo;
	int ret = queue_create(fd, 64, &q) ?:
		  bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo);

	interrupts(&before);
	came = before;
	for (count = 1 << 20; !ret && came == before; count *= 4) {
		if (count > 1ull << 34)
			return -ETIME;
		packet_busy(&p, bo.address, bo.address + 64, count);
		queue_push(&q, &p);
		ret = queue_wait(&q, q.seq, 20 * SEC_NS);
		interrupts(&came);
	}
	queue_unmap(&q);
	return ret;
}

TEST(every_card_has_some)
{
	struct drm_openreg_device_info info;
	unsigned int i, all = 0;
	unsigned long long came;
	int fd;

	ASSERT_LE(1, num_cards());
	for (i = 0; i < num_cards(); i++) {
		card_choose(i);
		fd = card_open();
		ASSERT_LE(0, fd) TH_LOG("%s: %s", card_node(), strerror(-fd));
		ASSERT_EQ(0, card_info(fd, &info));
		EXPECT_LE(2, info.vectors);
		EXPECT_GE(VECTORS_ALONE, info.vectors);
		all += info.vectors;
		EXPECT_EQ(0, sleep_until_interrupted(fd));
		close(fd);
	}
	EXPECT_EQ(all, interrupts(&came));
	printf("# %u vectors of %u cards\n", all, num_cards());
	if (!strcmp(program_invocation_short_name, "vectors-few"))
		EXPECT_GT(VECTORS_ALONE, all);
}

TEST_HARNESS_MAIN
