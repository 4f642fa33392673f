// SPDX-License-Identifier: MIT
/*
 * (f) The time until an idle card sleeps, from the card's own statistics. Then the
 * program keeps the card idle, with a queue, from the line with "phase" to its end.
 * Meanwhile the runner on the host measures the CPU time of the card's threads.
 */
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "card.h"

#define IDLE_SECONDS 10
#define ROUNDS 50

/* Reads a statistic of the first card. The file has "name value" lines. -1: no value. */
static double stat_of(const char *name)
{
	double value = -1, v;
	char word[64];
	glob_t g;
	FILE *f;

	if (glob("/sys/kernel/debug/accel/*/openreg_stats", 0, NULL, &g))
		return -1;
	f = fopen(g.gl_pathv[0], "re");
	globfree(&g);
	if (!f)
		return -1;
	while (fscanf(f, "%63s %lf", word, &v) == 2)
		if (!strcmp(word, name))
			value = v;
	fclose(f);
	return value;
}

int main(void)
{
	struct card c = open_card(0);
	double times[ROUNDS];

	if (stat_of("sleep_ns") < 0) {
		fprintf(stderr, "bench: no openreg_stats under /sys/kernel/debug: mount debugfs\n");
		return 1;
	}
	for (size_t i = 0; i < ROUNDS; i++) {
		check(openreg_push_nop(c.q));
		finish(&c, openreg_queue_submit(c.q));
		usleep(5000);
		times[i] = stat_of("sleep_ns");
	}
	figure("f", "idle time until the card sleeps",
	       1e-3 * median(times, ROUNDS), "us");
	printf("{\"phase\": \"idle\", \"seconds\": %d}\n", IDLE_SECONDS - 1);
	fflush(stdout);
	sleep(IDLE_SECONDS);
	close_card(&c);
	return 0;
}
