// SPDX-License-Identifier: MIT
/* (a) An f32 matmul of 1024^3 on the card, from C. */
#include "card.h"

#define N 1024
#define RUNS 15

static void fill(struct card *c, uint64_t address)
{
	const int64_t size[] = { N * N };
	const struct openreg_tensor t = openreg_view(address, OPENREG_F32, NULL);
	const float half = 0.5f;
	uint32_t bits;

	__builtin_memcpy(&bits, &half, sizeof(bits));
	check(openreg_push_fill(c->q, 1, size, &t, bits));
}

int main(void)
{
	struct card c = open_card(0);
	struct openreg_device_info info;
	struct openreg_bo *bo = make_bo(&c, 3 * 4 * N * N, OPENREG_BO_VRAM);
	const uint64_t a = openreg_bo_address(bo);
	const int64_t size[4] = { 1, N, N, N };
	const int64_t sa[4] = { 0, N, 0, 1 }, sb[4] = { 0, 0, 1, N };
	const int64_t sd[4] = { 0, N, 1, 0 };
	const struct openreg_tensor ta = openreg_view(a, OPENREG_F32, sa);
	const struct openreg_tensor tb =
		openreg_view(a + 4 * N * N, OPENREG_F32, sb);
	const struct openreg_tensor td =
		openreg_view(a + 8 * N * N, OPENREG_F32, sd);
	double times[RUNS];

	check(openreg_device_get_info(c.dev, &info));
	fill(&c, a);
	fill(&c, a + 4 * N * N);
	for (int i = -3; i < RUNS; i++) {
		const double begin = seconds();

		check(openreg_push_matmul(c.q, size, &td, &ta, &tb, NULL, 1, 0));
		finish(&c, openreg_queue_submit(c.q));
		if (i >= 0)
			times[i] = seconds() - begin;
	}
	figure("a", "workers of the card", info.workers, "");
	figure("a", "matmul 1024^3 f32, openreg from C",
	       2e-9 * N * N * N / median(times, RUNS), "GFLOP/s");
	openreg_bo_free(bo);
	close_card(&c);
	return 0;
}
