// SPDX-License-Identifier: MIT
/* Two open devices share memory through a dma-buf, or a memfd of a card in the process. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define SIZE (1 << 20)

static const uint32_t kinds[] = { OPENREG_BO_VRAM, OPENREG_BO_SYSTEM };

struct pair {
	struct card *a, *b;
};

static int open_pair(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	card_open((void **)&p->a);
	card_open((void **)&p->b);
	*state = p;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	card_close((void **)&p->a);
	card_close((void **)&p->b);
	free(p);
	return 0;
}

static struct openreg_bo *alloc(struct card *c, uint32_t kind)
{
	struct openreg_bo *bo;

	ok(openreg_bo_alloc(c->dev, SIZE, kind, &bo));
	return bo;
}

static void copy(struct card *c, struct openreg_bo *dst, struct openreg_bo *src)
{
	ok(openreg_copy_async(c->q, address(dst), address(src), SIZE));
	run(c);
}

/* One device reads what the other wrote; the memory stays after the exporter's free. */
static void test_share(void **state)
{
	struct pair *p = *state;

	for (size_t k = 0; k < COUNT(kinds); k++) {
		struct openreg_bo *bo = alloc(p->a, kinds[k]), *in;
		struct openreg_bo *dst = vram(p->b, SIZE);
		uint8_t *bytes = malloc(SIZE);
		int fd = (int)ok(openreg_bo_export(bo, 0));

		noise(bytes, SIZE, (unsigned int)k);
		memcpy(mapped(bo), bytes, SIZE);
		ok(openreg_bo_import(p->b->dev, fd, &in));
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
		assert_int_equal(openreg_bo_size(in), SIZE);
		assert_int_equal(openreg_bo_flags(in),
				 kinds[k] | OPENREG_BO_IMPORTED);
		assert_int_equal(openreg_bo_flags(bo), kinds[k]);
		copy(p->b, dst, in);
		assert_memory_equal(mapped(dst), bytes, SIZE);
		assert_memory_equal(mapped(in), bytes, SIZE);
		noise(mapped(in), SIZE, 9);
		assert_memory_equal(mapped(bo), mapped(in), SIZE);
		openreg_bo_free(bo);
		copy(p->b, dst, in);
		assert_memory_equal(mapped(dst), mapped(in), SIZE);
		openreg_bo_free(in);
		openreg_bo_free(dst);
		free(bytes);
	}
}

/* Repeated exports and imports of one dma-buf give one BO for each device. */
static void test_same(void **state)
{
	struct pair *p = *state;
	struct openreg_bo *bo = alloc(p->a, OPENREG_BO_SYSTEM);
	struct openreg_bo *same, *in, *again, *dst = vram(p->b, SIZE);
	int fd = (int)ok(openreg_bo_export(bo, 0));
	int second = (int)ok(openreg_bo_export(bo, 0));

	assert_int_not_equal(fd, second);
	ok(openreg_bo_import(p->a->dev, fd, &same));
	assert_ptr_equal(same, bo);
	ok(openreg_bo_import(p->b->dev, fd, &in));
	ok(openreg_bo_import(p->b->dev, second, &again));
	assert_ptr_equal(in, again);
	memset(mapped(in), 7, SIZE);

	/* A BO exists until the last reference is freed. */
	openreg_bo_free(bo);
	assert_int_equal(((uint8_t *)mapped(same))[SIZE - 1], 7);
	openreg_bo_free(same);
	openreg_bo_free(in);
	assert_int_equal(((uint8_t *)mapped(again))[SIZE - 1], 7);
	copy(p->b, dst, again);
	assert_int_equal(((uint8_t *)mapped(dst))[SIZE - 1], 7);
	openreg_bo_free(again);

	/* Now only the file descriptors keep the memory. */
	ok(openreg_bo_import(p->b->dev, second, &in));
	copy(p->b, dst, in);
	assert_int_equal(((uint8_t *)mapped(dst))[0], 7);
	openreg_bo_free(in);
	openreg_bo_free(dst);
	close(fd);
	close(second);
}

static void test_readonly(void **state)
{
	struct pair *p = *state;
	struct openreg_bo *bo = alloc(p->a, OPENREG_BO_VRAM), *in;
	struct openreg_bo *dst = vram(p->b, SIZE);
	int fd = (int)ok(openreg_bo_export(bo, OPENREG_BO_READONLY));
	struct openreg_fault_summary f;

	noise(mapped(bo), SIZE, 3);
	fails(openreg_bo_export(bo, 0), EACCES, "for reading");
	assert_ptr_equal(mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED, fd, 0),
			 MAP_FAILED);
	ok(openreg_bo_import(p->b->dev, fd, &in));
	assert_int_equal(openreg_bo_flags(in),
			 OPENREG_BO_VRAM | OPENREG_BO_IMPORTED |
				 OPENREG_BO_READONLY);
	assert_memory_equal(mapped(in), mapped(bo), SIZE);
	copy(p->b, dst, in);
	assert_memory_equal(mapped(dst), mapped(bo), SIZE);
	ok(openreg_fill_async(p->b->q, address(in), 1, 1));
	f = run_fault(p->b);
	assert_int_equal(f.code, OPENREG_FAULT_PERMISSION);
	openreg_bo_free(in);
	openreg_bo_free(dst);
	openreg_bo_free(bo);
	close(fd);
}

static void test_refusals(void **state)
{
	static uint8_t mem[4096];
	struct pair *p = *state;
	struct openreg_bo *bo = alloc(p->a, OPENREG_BO_SYSTEM), *reg;
	struct openreg_bo *in = (void *)1;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	ok(openreg_mem_register(p->a->dev, mem, sizeof(mem), 0, &reg));
	fails(openreg_bo_export(reg, 0), EOPNOTSUPP, "registered");
	for (uint32_t flag = 1; flag; flag <<= 1)
		if (flag != OPENREG_BO_READONLY)
			fails(openreg_bo_export(bo, flag), EINVAL, "flags");
	fails(openreg_bo_import(p->a->dev, -1, &in), EBADF, "dma-buf");
	assert_null(in);
	fails(openreg_bo_import(p->a->dev, null, &in), EINVAL, "dma-buf");
	if (!on_sim())
		fails(openreg_bo_import(p->a->dev, openreg_device_fd(p->a->dev), &in),
		      EINVAL, "dma-buf");
	close(null);
	openreg_bo_free(reg);
	openreg_bo_free(bo);
	still_works(p->a);
}

static void child(struct pair *p, struct openreg_bo *bo, int fd)
{
	struct openreg_device *dev;
	struct openreg_bo *in;

	if (openreg_bo_export(bo, 0) != -EPERM ||
	    openreg_bo_import(p->a->dev, fd, &in) != -EPERM)
		_exit(2);
	openreg_bo_free(bo);
	if (openreg_device_open(0, &dev) || openreg_bo_import(dev, fd, &in))
		_exit(3);
	_exit(*(uint8_t *)mapped(in) == 5 ? 0 : 4);
}

/* A child can use the file descriptor, but no other object of its parent. */
static void test_fork(void **state)
{
	struct pair *p = *state;
	struct openreg_bo *bo = alloc(p->a, OPENREG_BO_SYSTEM);
	int status, fd = (int)ok(openreg_bo_export(bo, 0));
	pid_t pid;

	memset(mapped(bo), 5, SIZE);
	pid = fork();
	if (pid == 0)
		child(p, bo, fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(*(uint8_t *)mapped(bo), 5);
	openreg_bo_free(bo);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_share, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_same, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_readonly, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_refusals, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_fork, open_pair, close_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
