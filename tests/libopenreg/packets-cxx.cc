// SPDX-License-Identifier: MIT
// The header compiles as C++20, and every builder is used.
#include <openreg.h>

#include <cstdio>

namespace {

alignas(64) unsigned char slot[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];

int tests, failures;

void expect(bool ok, const char* what)
{
	failures += !ok;
	std::printf("%s %d - %s\n", ok ? "ok" : "not ok", ++tests, what);
}

// Never runs, since the test has no card. It makes the compiler compile every builder.
int push_all(openreg_queue* q)
{
	const int64_t size[7] = {1, 2, 3, 4, 5, 6, 7};
	const auto t = openreg_view(0, OPENREG_F32, size);
	const openreg_tensor found[] = {t, t, t, t};
	const openreg_command c{};
	const openreg_index_access x{};
	const openreg_windows w{};
	const openreg_sort_rows s{};

	return openreg_push(q, &c) | openreg_push_nop(q) |
	       openreg_push_copy(q, 4, size, &t, &t) |
	       openreg_push_fill(q, 4, size, &t, 0) |
	       openreg_push_matmul(q, size, &t, &t, &t, nullptr, 1, 0) |
	       openreg_push_matmul_packed(q, size, &t, &t, 0, nullptr, 1, 0) |
	       openreg_push_pack(q, OPENREG_PACK_PACK, size, 0, &t) |
	       openreg_push_matmul_scaled(q, 1, size, &t, &t, &t, &t, nullptr, 1, 4) |
	       openreg_push_matmul_f8(q, size, &t, &t, &t, &t, &t, 1, 32) |
	       openreg_push_softmax(q, 4, size, 0, 0, &t, &t, nullptr) |
	       openreg_push_index(q, &x) |
	       openreg_push_conv(q, 0, size, &w, &t, &t, &t, nullptr) |
	       openreg_push_pool(q, 0, 0, size, &w, &t, &t, nullptr) |
	       openreg_push_sort(q, &s) |
	       openreg_push_scan(q, 4, size, 0, 0, &t, &t, nullptr) |
	       openreg_push_places(q, 4, size, found, 0, &t) |
	       openreg_push_wait(q, 0, OPENREG_WAIT_GE, 1) |
	       openreg_push_signal(q, 0, OPENREG_SIGNAL_SET, 1) |
	       openreg_push_timestamp(q, 0) | openreg_push_list(q, 0, 1, 1);
}

}  // namespace

int main(int argc, char**)
{
	if (argc > 1)
		return push_all(nullptr);
	const int64_t size[] = {4};
	const auto dst = openreg_view(1, OPENREG_F32, nullptr);
	const uint64_t bits = 5;
	openreg_command fill{};

	fill.opcode = OPENREG_OP_FILL;
	fill.ndim = fill.nops = fill.nimm = 1;
	fill.size = size;
	fill.ops = &dst;
	fill.imm = &bits;
	expect(openreg_pack(slot, &fill) == 2, "length of FILL");
	expect(slot[0] == OPENREG_OP_FILL && slot[1] == 2, "header of FILL");
	expect(slot[16] == 1 && slot[17] == 1 && slot[18] == 1, "op of FILL");
	expect(slot[64] == 5, "immediate of FILL");
	std::printf("1..%d\n", tests);
	return failures != 0;
}
