// SPDX-License-Identifier: MIT
/* Decodes and checks packets, but does not run them. */
#include "decode.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct queue *q;
	struct stream s = { data, size };
	struct packet p;

	if (!q)
		q = stepper_make_queue(stepper_new());
	packet_take(&s, &p);
	if (decode(q, &p))
		queue_release_operands(q);
	q->args.nops = 0;
	return 0;
}
