// SPDX-License-Identifier: MIT
/*
 * usage: launches N: N asynchronous launches, then one wait. For strace: close(-1) marks the
 * begin and the end of the loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <openreg.h>

static void check(int64_t ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "launches: %s\n", openreg_last_error());
	exit(1);
}

int main(int argc, char **argv)
{
	const long n = argc > 1 ? atol(argv[1]) : 10000;
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_device *dev;
	struct openreg_queue *q;
	int64_t seq = 0;

	attr.slots = OPENREG_RING_SLOTS_MAX;
	check(openreg_device_open(0, &dev));
	check(openreg_queue_create(dev, &attr, &q));
	close(-1);
	for (long i = 0; i < n; i++) {
		check(openreg_push_nop(q));
		seq = openreg_queue_submit(q);
		check(seq);
	}
	close(-1);
	check(openreg_queue_wait(q, (uint64_t)seq, -1));
	openreg_queue_destroy(q);
	openreg_device_close(dev);
	return 0;
}
