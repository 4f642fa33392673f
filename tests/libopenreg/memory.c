// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static void test_alloc(void **state)
{
	static const uint32_t kinds[] = { OPENREG_BO_VRAM, OPENREG_BO_SYSTEM };
	struct card *c = *state;
	struct openreg_bo *bo;

	for (size_t k = 0; k < COUNT(kinds); k++) {
		uint8_t *p;

		ok(openreg_bo_alloc(c->dev, 5000, kinds[k], &bo));
		assert_int_equal(openreg_bo_size(bo), 8192);
		assert_int_equal(openreg_bo_flags(bo), kinds[k]);
		assert_true(OPENREG_ADDR_IS_VALID(address(bo)));
		assert_int_equal(OPENREG_ADDR_OFFSET(address(bo)), 0);
		p = mapped(bo);
		for (int i = 0; i < 8192; i++)
			assert_int_equal(p[i], 0);
		memset(p, 7, 8192);
		assert_ptr_equal(mapped(bo), p);
		openreg_bo_unmap(bo);
		p = mapped(bo);
		assert_int_equal(p[8191], 7);
		openreg_bo_free(bo);
	}
}

static void test_bad_alloc(void **state)
{
	struct card *c = *state;
	struct openreg_memory_info m;
	struct openreg_bo *bo = (void *)1, *kept = vram(c, 4096);

	fails(openreg_bo_alloc(c->dev, 0, OPENREG_BO_VRAM, &bo), EINVAL,
	      "size must be 1 to");
	assert_null(bo);
	fails(openreg_bo_alloc(c->dev, 4096, 0, &bo), EINVAL, "flags");
	fails(openreg_bo_alloc(c->dev, 4096,
			       OPENREG_BO_VRAM | OPENREG_BO_SYSTEM, &bo),
	      EINVAL, "flags 0x3");
	fails(openreg_bo_alloc(c->dev, 4096, 1u << 31, &bo), EINVAL, "flags");
	fails(openreg_bo_alloc(c->dev, UINT64_MAX, OPENREG_BO_VRAM, &bo),
	      EINVAL, "size");
	ok(openreg_device_get_memory(c->dev, &m));
	fails(openreg_bo_alloc(c->dev, m.vram_total, OPENREG_BO_VRAM, &bo), ENOSPC,
	      "largest block");
	openreg_bo_free(kept);
	still_works(c);
}

static void test_register(void **state)
{
	struct card *c = *state;
	const size_t size = 3 * 4096 + 17;
	uint8_t *p = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct openreg_bo *bo, *dst = vram(c, size);

	assert_ptr_not_equal(p, MAP_FAILED);
	noise(p, 5 * 4096, 1);
	ok(openreg_mem_register(c->dev, p + 100, size, 0, &bo));
	assert_int_equal(openreg_bo_size(bo), size);
	assert_ptr_equal(mapped(bo), p + 100);
	openreg_bo_unmap(bo);
	assert_ptr_equal(mapped(bo), p + 100);
	ok(openreg_copy_async(c->q, address(dst), address(bo), size));
	run(c);
	assert_memory_equal(mapped(dst), p + 100, size);
	/* Copy back, one byte further. */
	ok(openreg_copy_async(c->q, address(bo) + 1, address(dst), 4096));
	run(c);
	assert_memory_equal(mapped(dst), p + 101, 4096);
	openreg_bo_free(bo);
	openreg_bo_free(dst);
	munmap(p, 5 * 4096);
}

static void test_register_readonly(void **state)
{
	static const char text[64] = "only read";
	struct card *c = *state;
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct openreg_fault_summary f;
	struct openreg_bo *bo, *dst = vram(c, 4096);

	memcpy(p, text, sizeof(text));
	ok(openreg_mem_register(c->dev, p, 4096, OPENREG_BO_READONLY, &bo));
	ok(openreg_copy_async(c->q, address(dst), address(bo), 64));
	run(c);
	assert_memory_equal(mapped(dst), text, sizeof(text));
	ok(openreg_fill_async(c->q, address(bo), 1, 64));
	f = run_fault(c);
	assert_int_equal(f.code, OPENREG_FAULT_PERMISSION);
	assert_memory_equal(p, text, sizeof(text));
	openreg_bo_free(bo);
	openreg_bo_free(dst);
	munmap(p, 4096);
}

static void test_bad_register(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo, *v = vram(c, 4096);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(file, MAP_FAILED);
	munmap(p + 4096, 4096);
	fails(openreg_mem_register(c->dev, p, 0, 0, &bo), EINVAL, "size");
	assert_null(bo);
	fails(openreg_mem_register(c->dev, p, 4096, OPENREG_BO_VRAM, &bo),
	      EINVAL, "flags");
	fails(openreg_mem_register(c->dev, p, 8192, 0, &bo), EFAULT,
	      "not mapped");
	fails(openreg_mem_register(c->dev, file, 4096, OPENREG_BO_READONLY,
				   &bo),
	      EOPNOTSUPP, "private memory");
	assert_int_not_equal(openreg_mem_register(c->dev, mapped(v), 4096, 0,
						  &bo), 0);
	assert_null(bo);
	munmap(file, 4096);
	close(fd);
	munmap(p, 4096);
	openreg_bo_free(v);
}

/* Run as another user: the limit does not apply to root with CAP_IPC_LOCK. */
static void over_limit(void)
{
	const struct rlimit none = { 0, 0 };
	struct openreg_device *dev;
	struct openreg_bo *bo;
	void *buf = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (openreg_device_open(0, &dev) || setrlimit(RLIMIT_MEMLOCK, &none) ||
	    setresuid(65534, 65534, 65534))
		_exit(2);
	if (openreg_mem_register(dev, buf, 65536, 0, &bo) != -ENOMEM)
		_exit(3);
	_exit(strstr(openreg_last_error(), "RLIMIT_MEMLOCK") ? 0 : 4);
}

static void test_memlock(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (on_sim())
		skip(); /* memory is not pinned */
	pid = fork();
	if (pid == 0)
		over_limit();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A CPU that dereferences a device address traps. */
static void dereference(uint64_t address)
{
	volatile char *p = (volatile char *)(uintptr_t)address;

	signal(SIGSEGV, SIG_DFL);
	*p = 1;
	_exit(0);
}

static void test_dereference(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	int status;
	pid_t pid = fork();

	if (pid == 0)
		dereference(address(bo));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	openreg_bo_free(bo);
}

/* The card zeroes freed memory before another process gets it. */
static void test_zeroed(void **state)
{
	struct card *c = *state;
	const uint64_t size = 16 << 20;
	struct openreg_bo *bo = vram(c, size);
	uint64_t *p;
	struct card other;

	ok(openreg_memset(c->q, address(bo), 0xa5, size));
	openreg_bo_free(bo);
	ok(openreg_device_open(0, &other.dev));
	bo = vram(&other, size);
	p = mapped(bo);
	for (size_t i = 0; i < size / sizeof(*p); i += 64)
		assert_int_equal(p[i], 0);
	openreg_bo_free(bo);
	openreg_device_close(other.dev);
}

/* Waits until all VRAM is free: the card releases freed memory asynchronously. */
static void await_all_free(struct card *c, struct openreg_memory_info *info)
{
	for (int i = 0; i < 1000; i++) {
		ok(openreg_device_get_memory(c->dev, info));
		if (info->vram_free == info->vram_total)
			break;
		usleep(10000);
	}
	assert_int_equal(info->vram_free, info->vram_total);
}

static void test_no_leak(void **state)
{
	struct card *c = *state;
	struct openreg_memory_info before, after;

	/* Memory of the previous test may not be free yet. */
	await_all_free(c, &before);
	for (int i = 0; i < 300; i++) {
		struct openreg_bo *bo = vram(c, 1 << 20);

		ok(openreg_fill_async(c->q, address(bo), 1, 1 << 20));
		/* Free the buffer while the packet may run. */
		openreg_bo_free(bo);
		if (openreg_queue_wait(c->q, openreg_queue_submitted(c->q),
				       LONG))
			ok(openreg_queue_reset(c->q));
	}
	await_all_free(c, &after);
	assert_int_equal(after.process_vram, before.process_vram);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_alloc, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_bad_alloc, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_register, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_register_readonly, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_bad_register, card_open, card_close),
		cmocka_unit_test(test_memlock),
		cmocka_unit_test_setup_teardown(test_dereference, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_zeroed, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_no_leak, card_open, card_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
