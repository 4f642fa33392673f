// SPDX-License-Identifier: MIT
/* Processes that share memory, each with a card of its own in it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "children.h"

#define HUGE (2 << 20)
#define ROUNDS 2000

/* Copies the object to its own VRAM, adds 1 to every byte, and copies it back. */
static void add_one(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd), *mine = child_vram(c, SIZE);
	uint8_t *p = child_map(mine);

	must(openreg_bo_flags(in) & OPENREG_BO_IMPORTED);
	must(openreg_bo_size(in) == SIZE);
	must(openreg_copy_async(c->q, address(mine), address(in), SIZE) > 0);
	child_run(c);
	for (int i = 0; i < SIZE; i++)
		p[i]++;
	must(openreg_copy_async(c->q, address(in), address(mine), SIZE) > 0);
	child_run(c);
	must(!memcmp(child_map(in), p, SIZE));
}

static void test_copy(void **state)
{
	static const uint32_t kinds[] = { OPENREG_BO_VRAM, OPENREG_BO_SYSTEM };
	uint8_t *want = malloc(SIZE);
	struct card *c = *state;

	for (size_t k = 0; k < COUNT(kinds); k++) {
		struct openreg_bo *bo, *copy = vram(c, SIZE);
		int fd;

		ok(openreg_bo_alloc(c->dev, SIZE, kinds[k], &bo));
		noise(mapped(bo), SIZE, 3);
		memcpy(want, mapped(bo), SIZE);
		for (int i = 0; i < SIZE; i++)
			want[i]++;
		fd = (int)ok(openreg_bo_export(bo, 0));
		end(start(add_one, fd));
		ok(openreg_copy_async(c->q, address(copy), address(bo), SIZE));
		run(c);
		assert_memory_equal(mapped(copy), want, SIZE);
		close(fd);
		openreg_bo_free(copy);
		openreg_bo_free(bo);
	}
	free(want);
}

/* Another process' VRAM is a PEER segment: for copies, within its bounds. */
static void try_more(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd), *mine = child_vram(c, SIZE);
	const int64_t size[] = { 1, 16, 16, 16 }, d_stride[] = { 0, 16, 1, 0 };
	const int64_t a_stride[] = { 0, 16, 0, 1 }, b_stride[] = { 0, 0, 1, 16 };
	struct openreg_tensor d = openreg_view(address(mine), OPENREG_F32, d_stride);
	struct openreg_tensor a = openreg_view(address(in), OPENREG_F32, a_stride);
	struct openreg_tensor b = openreg_view(address(mine) + 4096, OPENREG_F32, b_stride);
	struct stat st;

	/* As with the kernel's cards: only VRAM of the own card has OPENREG_BO_VRAM. */
	must(openreg_bo_flags(in) == (OPENREG_BO_SYSTEM | OPENREG_BO_IMPORTED));
	must(openreg_copy_async(c->q, address(mine), address(in) + 4096, SIZE) > 0);
	must(child_fault(c) == OPENREG_FAULT_BOUNDS);
	must(openreg_copy_async(c->q, address(in) + SIZE - 8, address(mine), 16) > 0);
	must(child_fault(c) == OPENREG_FAULT_BOUNDS);
	must(!openreg_push_matmul(c->q, size, &d, &a, &b, &d, 1.0, 0.0));
	must(child_fault(c) == OPENREG_FAULT_ENGINE);
	/* The file has this object only, and can be neither cut nor grown. */
	must(!fstat(fd, &st) && st.st_size <= SIZE + 2 * HUGE);
	must(ftruncate(fd, 0) && ftruncate(fd, st.st_size + 4096));
}

/* D = A * B, all in the object: rows of 16 floats. */
static void multiply(struct card *c, struct openreg_bo *bo)
{
	const int64_t size[] = { 1, 16, 16, 16 }, d_stride[] = { 0, 16, 1, 0 };
	const int64_t a_stride[] = { 0, 16, 0, 1 }, b_stride[] = { 0, 0, 1, 16 };
	struct openreg_tensor d = openreg_view(address(bo), OPENREG_F32, d_stride);
	struct openreg_tensor a = openreg_view(address(bo) + 1024, OPENREG_F32, a_stride);
	struct openreg_tensor b = openreg_view(address(bo) + 2048, OPENREG_F32, b_stride);

	must(!openreg_push_matmul(c->q, size, &d, &a, &b, &d, 1.0, 0.0));
	child_run(c);
}

/* On the card with the same index, another process' VRAM is VRAM: engines reach it. */
static void use_alias(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd), *same;
	struct openreg_memory_info m, after;

	must(openreg_bo_flags(in) == (OPENREG_BO_VRAM | OPENREG_BO_IMPORTED));
	must(!openreg_device_get_memory(c->dev, &m));
	must(!openreg_push_wait(c->q, address(in) + SIZE - 64, OPENREG_WAIT_EQ, 5));
	child_run(c);
	multiply(c, in);
	same = child_import(c, fd);
	must(same == in);
	openreg_bo_free(same);
	must(openreg_copy_async(c->q, address(in) + SIZE - 8, address(in), 16) > 0);
	must(child_fault(c) == OPENREG_FAULT_BOUNDS);
	openreg_bo_free(in);
	/* The addresses of aliases are used again, and take nothing of the card's VRAM. */
	for (int i = 0; i < 2500; i++) {
		struct openreg_bo *big = child_import(c, fd);

		must(openreg_fill_async(c->q, address(big) + 4096, (uint8_t)i, 1) > 0);
		child_run(c);
		openreg_bo_free(big);
	}
	must(!openreg_device_get_memory(c->dev, &after));
	must(after.vram_free == m.vram_free && m.vram_free == m.vram_total);
}

static void test_alias(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE);
	float *p = mapped(bo);
	int fd = (int)ok(openreg_bo_export(bo, 0));
	pid_t pid;

	for (int i = 0; i < 256; i++) {
		p[256 + i] = (float)i;
		p[512 + i] = i % 17 ? 0 : 2; /* twice the identity */
	}
	pid = start_on(0, use_alias, fd);
	ok(openreg_push_signal(c->q, address(bo) + SIZE - 64, OPENREG_SIGNAL_SET, 5));
	run(c);
	end(pid);
	for (int i = 0; i < 256; i++)
		assert_true(p[i] == (float)(2 * i));
	assert_int_equal(((uint8_t *)p)[4096], 2499 % 256);
	close(fd);
	openreg_bo_free(bo);
}

static bool contains(const uint8_t *p, size_t n, const uint8_t *part, size_t len)
{
	return memmem(p, n, part, len);
}

static void test_bounds(void **state)
{
	struct card *c = *state;
	struct openreg_bo *before = vram(c, SIZE), *bo = vram(c, SIZE), *after = vram(c, SIZE);
	int fd = (int)ok(openreg_bo_export(bo, 0));
	struct stat st;
	uint8_t *file;

	noise(mapped(before), SIZE, 1);
	noise(mapped(after), SIZE, 2);
	end(start(try_more, fd));
	assert_int_equal(fstat(fd, &st), 0);
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	assert_false(contains(file, (size_t)st.st_size, mapped(before), 64));
	assert_false(contains(file, (size_t)st.st_size, mapped(after), 64));
	munmap(file, (size_t)st.st_size);
	close(fd);
	openreg_bo_free(before);
	openreg_bo_free(bo);
	openreg_bo_free(after);
}

/* The compute engine reads the other process' memory, and cannot write it. */
static void compute(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd), *out = vram(c, SIZE);
	const uint8_t *from = child_map(in), *to = child_map(out);
	uint32_t a, b;
	struct openreg_fault_summary f;
	int64_t seq;

	push_twice(c, address(out), address(in), SIZE / 4);
	child_run(c);
	for (size_t i = 0; i < SIZE; i += 4) {
		memcpy(&a, from + i, 4);
		memcpy(&b, to + i, 4);
		must(b == 2 * a);
	}
	push_twice(c, address(in), address(out), 4);
	seq = openreg_queue_submit(c->q);
	must(seq < 0 || openreg_queue_wait(c->q, (uint64_t)seq, LONG) == -EIO);
	must(openreg_queue_fault(c->q, &f) == 1 && f.code == OPENREG_FAULT_ENGINE);
}

static void test_compute(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE);
	int fd = (int)ok(openreg_bo_export(bo, 0));

	noise(mapped(bo), SIZE, 3);
	end(start(compute, fd));
	close(fd);
	openreg_bo_free(bo);
}

static void push_round(struct card *c, uint64_t wait, uint64_t signal, uint64_t value)
{
	must(!openreg_push_wait(c->q, wait, OPENREG_WAIT_GE, value));
	must(!openreg_push_signal(c->q, signal, OPENREG_SIGNAL_SET, value));
}

/* Every WAIT is longer than the card's first polls, so that back-off would be seen. */
static void pong(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd);

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		push_round(c, address(in) + PONG, address(in) + PING, i);
		child_run(c);
	}
}

/* WAIT on a word in the own card's VRAM here, and through a PEER segment in the child. */
static void test_wake(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	int fd = (int)ok(openreg_bo_export(bo, 0));
	pid_t pid = start(pong, fd);
	int64_t begin = 0;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		ok(openreg_push_signal(c->q, address(bo) + PONG, OPENREG_SIGNAL_SET, i));
		ok(openreg_push_wait(c->q, address(bo) + PING, OPENREG_WAIT_GE, i));
		run(c);
		if (i == ROUNDS / 10)
			begin = now();
	}
	printf("# %.1f us for a round trip of two SIGNALs between processes\n",
	       (double)(now() - begin) / (ROUNDS - ROUNDS / 10) / 1000);
	end(pid);
	close(fd);
	openreg_bo_free(bo);
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Stores the time of each SIGNAL, which comes 3 ms after the WAIT began. */
static void late_signals(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd);
	volatile int64_t *at = (void *)(child_map(in) + 128);

	for (uint64_t i = 1; i <= 200; i++) {
		must(!openreg_push_wait(c->q, address(in) + PONG, OPENREG_WAIT_GE, i));
		child_run(c);
		usleep(3000);
		*at = now();
		must(!openreg_push_signal(c->q, address(in) + PING, OPENREG_SIGNAL_SET, i));
		child_run(c);
	}
}

/* From the launch of a SIGNAL in one process to the end of a WAIT in the other. */
static void test_wake_late(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	int fd = (int)ok(openreg_bo_export(bo, 0));
	volatile int64_t *at = (void *)((char *)mapped(bo) + 128);
	pid_t pid = start(late_signals, fd);
	int64_t times[200];

	openreg_queue_set_spin(c->q, 0);
	for (uint64_t i = 1; i <= 200; i++) {
		ok(openreg_push_signal(c->q, address(bo) + PONG, OPENREG_SIGNAL_SET, i));
		ok(openreg_push_wait(c->q, address(bo) + PING, OPENREG_WAIT_GE, i));
		run(c);
		times[i - 1] = now() - *at;
	}
	qsort(times, 200, sizeof(times[0]), compare);
	printf("# launch to wake between processes: %.1f us least, %.1f median, %.1f of 99 %%\n",
	       (double)times[0] / 1000, (double)times[100] / 1000, (double)times[198] / 1000);
	end(pid);
	close(fd);
	openreg_bo_free(bo);
}

static void test_again(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE), *in, *same;
	int fd = (int)ok(openreg_bo_export(bo, 0)), second;

	memset(mapped(bo), 3, SIZE);
	/* Export after free: the descriptor keeps the memory, the card's VRAM is free. */
	openreg_bo_free(bo);
	ok(openreg_bo_import(c->dev, fd, &in));
	ok(openreg_bo_import(c->dev, fd, &same));
	assert_ptr_equal(in, same);
	assert_int_equal(((uint8_t *)mapped(in))[SIZE - 1], 3);
	openreg_bo_free(same);
	/* An import can be exported again. */
	second = (int)ok(openreg_bo_export(in, 0));
	close(fd);
	openreg_bo_free(in);
	end(start(add_one, second));
	ok(openreg_bo_import(c->dev, second, &in));
	assert_int_equal(((uint8_t *)mapped(in))[SIZE - 1], 4);
	openreg_bo_free(in);
	close(second);
}

static void write_readonly(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd);
	char path[32];
	int again;

	must(openreg_bo_flags(in) & OPENREG_BO_READONLY);
	must(child_map(in)[0] == 7);
	must(openreg_fill_async(c->q, address(in), 1, 8) > 0);
	must(child_fault(c) == OPENREG_FAULT_PERMISSION);
	must(!openreg_push_signal(c->q, address(in), OPENREG_SIGNAL_SET, 1));
	must(child_fault(c) == OPENREG_FAULT_PERMISSION);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	must(again < 0 || write(again, path, 8) < 0);
	must(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	must(openreg_bo_export(in, 0) == -EACCES);
	/* It may still wait. */
	must(!openreg_push_wait(c->q, address(in) + PONG, OPENREG_WAIT_EQ, 5));
	child_run(c);
}

static void test_readonly(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE);
	int fd = (int)ok(openreg_bo_export(bo, OPENREG_BO_READONLY));
	pid_t pid;

	memset(mapped(bo), 7, SIZE);
	pid = start(write_readonly, fd);
	usleep(100000);
	ok(openreg_push_signal(c->q, address(bo) + PONG, OPENREG_SIGNAL_SET, 5));
	run(c);
	end(pid);
	close(fd);
	openreg_bo_free(bo);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)
	const struct CMUnitTest tests[] = {
		T(test_copy), T(test_bounds), T(test_compute), T(test_alias), T(test_wake),
		T(test_wake_late), T(test_again), T(test_readonly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
