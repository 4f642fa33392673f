// SPDX-License-Identifier: MIT
/* Shared memory when a process dies, forges files or headers, or has no files left. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "children.h"

/* Waits for ever, in the middle of copies from the object. */
static void hang(struct card *c, int fd)
{
	struct openreg_bo *in = child_import(c, fd), *mine = child_vram(c, SIZE);

	for (;;) {
		must(!openreg_push_signal(c->q, address(in) + PING, OPENREG_SIGNAL_ADD, 1));
		must(!openreg_push_wait(c->q, address(in) + PONG, OPENREG_WAIT_EQ, 1));
		must(openreg_copy_async(c->q, address(mine), address(in), 4096) > 0);
		child_run(c);
	}
}

static void test_kill_importer(void **state)
{
	struct card *c = *state;
	struct openreg_memory_info m, after;

	ok(openreg_device_get_memory(c->dev, &m));
	for (int i = 0; i < 10; i++) {
		struct openreg_bo *bo = vram(c, SIZE);
		int status, fd = (int)ok(openreg_bo_export(bo, 0));
		pid_t pid = start(hang, fd);

		ok(openreg_push_wait(c->q, address(bo) + PING, OPENREG_WAIT_GE, 1));
		run(c);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		/* The words of the dead process do no harm. */
		ok(openreg_push_signal(c->q, address(bo) + PONG, OPENREG_SIGNAL_SET, 1));
		ok(openreg_push_wait(c->q, address(bo) + PONG, OPENREG_WAIT_GE, 1));
		run(c);
		close(fd);
		openreg_bo_free(bo);
	}
	/* The card completes a packet before it drops the packet's memory. */
	for (int i = 0; i < 2000; i++) {
		ok(openreg_device_get_memory(c->dev, &after));
		if (after.vram_free == m.vram_free)
			break;
		usleep(1000);
	}
	assert_int_equal(after.vram_free, m.vram_free);
	still_works(c);
}

static void export_and_wait(struct card *c, int sock)
{
	struct openreg_bo *bo = child_vram(c, SIZE);
	char pid_and_fd[32] = { 0 };

	memset(child_map(bo), 9, SIZE);
	snprintf(pid_and_fd, sizeof(pid_and_fd), "/proc/%d/fd/%d", getpid(),
		 openreg_bo_export(bo, 0));
	must(write(sock, pid_and_fd, sizeof(pid_and_fd)) == sizeof(pid_and_fd));
	pause();
}

/* The memory of a dead exporter stays as long as somebody has it. */
static void test_kill_exporter(void **state)
{
	struct card *c = *state;
	struct openreg_bo *in, *copy = vram(c, SIZE);
	int pipes[2], fd, status;
	char path[32];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = start(export_and_wait, pipes[1]);
	assert_int_equal(read(pipes[0], path, sizeof(path)), sizeof(path));
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	ok(openreg_bo_import(c->dev, fd, &in));
	ok(openreg_push_wait(c->q, address(in), OPENREG_WAIT_EQ, 0));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	memset(mapped(in), 0, 8);
	ok(openreg_copy_async(c->q, address(copy), address(in), SIZE));
	run(c);
	assert_int_equal(((uint8_t *)mapped(copy))[SIZE - 1], 9);
	openreg_bo_free(in);
	openreg_bo_free(copy);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

static int forge(const uint64_t *header, size_t size, int seals)
{
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (header)
		assert_int_equal(pwrite(fd, header, 24, 0), 24);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void refuse(struct card *c, int fd)
{
	struct openreg_bo *in = (void *)1;

	fails(openreg_bo_import(c->dev, fd, &in), EINVAL, "no export");
	assert_null(in);
	close(fd);
}

static void test_forged(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE), *in;
	int fd = (int)ok(openreg_bo_export(bo, 0)), pipes[2];
	uint64_t good[3], bad[3];

	assert_int_equal(pread(fd, good, sizeof(good), 0), sizeof(good));
	assert_int_equal(pipe(pipes), 0);
	refuse(c, pipes[0]);
	refuse(c, pipes[1]);
	refuse(c, forge(good, good[2] + SIZE, 0));
	refuse(c, forge(good, good[2] + SIZE, F_SEAL_SHRINK | F_SEAL_SEAL));
	refuse(c, forge(good, good[2] + SIZE, F_SEAL_SHRINK | F_SEAL_GROW));
	refuse(c, forge(NULL, good[2] + SIZE, ALL_SEALS));
	refuse(c, forge(NULL, 0, ALL_SEALS));
	refuse(c, forge(good, 4096, ALL_SEALS));
	refuse(c, forge(good, good[2], ALL_SEALS));
	refuse(c, forge(good, good[2] + 4097, ALL_SEALS));
	for (int i = 0; i < 3; i++)
		for (int bit = 0; bit < 64; bit++) {
			memcpy(bad, good, sizeof(bad));
			bad[i] ^= 1ull << bit;
			/* These are well formed: another kind, another offset. */
			if ((i == 1 && bad[1] - 1 < 2) || (i == 2 && bit >= 12 && bit < 21))
				continue;
			refuse(c, forge(bad, good[2] + SIZE, ALL_SEALS));
		}
	/* A well-formed file of somebody else is memory like any other. */
	close(fd);
	fd = forge(good, good[2] + SIZE, ALL_SEALS);
	ok(openreg_bo_import(c->dev, fd, &in));
	ok(openreg_copy_async(c->q, address(in), address(bo), SIZE));
	run(c);
	openreg_bo_free(in);
	close(fd);
	openreg_bo_free(bo);
	still_works(c);
}

/* A process that writes nonsense into the header, without end. */
static void scribble(struct card *c, int fd)
{
	uint32_t *header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	(void)c;
	must(header != MAP_FAILED);
	for (uint32_t x = 1;; x = x * 69069 + 1) {
		header[6] = x;
		header[7] = x >> 16;
		header[x >> 22] = x;
	}
}

static void test_hostile_header(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE);
	int fd = (int)ok(openreg_bo_export(bo, 0));
	pid_t pid = start(scribble, fd);

	for (uint64_t i = 1; i <= 200; i++) {
		ok(openreg_push_signal(c->q, address(bo), OPENREG_SIGNAL_SET, i));
		ok(openreg_push_wait(c->q, address(bo), OPENREG_WAIT_GE, i));
		run(c);
		usleep(100);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	openreg_bo_free(bo);
	still_works(c);
}

/* Beyond half of the limit objects exist, but cannot be exported. */
static void test_limit(void **state)
{
	struct rlimit old, few = { 0 };
	struct openreg_bo *bo[64];
	struct card *c = *state;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (size_t i = 0; i < COUNT(bo); i++)
		bo[i] = vram(c, 4096);
	fd = dup(0);
	assert_true(fd >= 0 && fd <= 32);
	close(fd);
	close((int)ok(openreg_bo_export(bo[0], 0)));
	fails(openreg_bo_export(bo[63], 0), EMFILE, "ulimit -n");
	ok(openreg_copy_async(c->q, address(bo[63]), address(bo[0]), 4096));
	run(c);
	setrlimit(RLIMIT_NOFILE, &old);
	for (size_t i = 0; i < COUNT(bo); i++)
		openreg_bo_free(bo[i]);
}

/* A program that closes all files loses exports, and no file of its own. */
static void test_close_all(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE);
	int fd;

	for (fd = 3; fd < 1024; fd++)
		close(fd);
	for (fd = 3; fd < 64;)
		fd = open("/dev/null", O_RDWR);
	fails(openreg_bo_export(bo, 0), EMFILE, "open files");
	openreg_bo_free(bo);
	for (fd = 3; fd < 64; fd++)
		assert_int_equal(close(fd), 0);
	still_works(c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)
	const struct CMUnitTest tests[] = {
		T(test_kill_importer), T(test_kill_exporter), T(test_forged),
		T(test_hostile_header), T(test_limit), T(test_close_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
