// SPDX-License-Identifier: GPL-2.0-only
/* Every ioctl checks every field, and refuses flags and types that it does not know. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include "card.h"

FIXTURE(args)
{
	int fd;
	struct drm_openreg_device_info info;
};

FIXTURE_SETUP(args)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, card_info(self->fd, &self->info));
}

FIXTURE_TEARDOWN(args)
{
	close(self->fd);
}

#define EXPECT_CALL(expected, name, type, ...)				\
	do {								\
		struct drm_openreg_##type call = { __VA_ARGS__ };	\
									\
		EXPECT_EQ(expected,					\
			  card_ioctl(self->fd, DRM_IOCTL_OPENREG_##name, \
				     &call))				\
			TH_LOG(#name " { " #__VA_ARGS__ " }");		\
	} while (0)

TEST_F(args, query_type)
{
	EXPECT_CALL(-EINVAL, QUERY, query, .type = 2);
	EXPECT_CALL(-EINVAL, QUERY, query, .type = -1u);
}

TEST_F(args, query_sizes)
{
	struct drm_openreg_query query = {};
	struct {
		struct drm_openreg_device_info info;
		unsigned char more[64];
	} buf;

	/* Without a pointer the call returns only the size. */
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUERY, &query));
	EXPECT_EQ(sizeof(buf.info), query.size);

	/* A program older than the kernel asks for less. */
	memset(&buf, 0xaa, sizeof(buf));
	query.pointer = (uintptr_t)&buf;
	query.size = 4;
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUERY, &query));
	EXPECT_EQ(sizeof(buf.info), query.size);
	EXPECT_EQ(self->info.isa_version, buf.info.isa_version);
	EXPECT_EQ(0xaaaaaaaa, buf.info.card);

	/* A program newer than the kernel asks for more. */
	query.size = sizeof(buf);
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUERY, &query));
	EXPECT_EQ(sizeof(buf.info), query.size);
	EXPECT_EQ(0, memcmp(&buf.info, &self->info, sizeof(buf.info)));
	EXPECT_EQ(0xaa, buf.more[0]);

	query.size = 0;
	EXPECT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUERY, &query));
	query.pointer = 8;
	query.size = sizeof(buf);
	EXPECT_EQ(-EFAULT, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUERY,
				      &query));
}

TEST_F(args, query_says_what_there_is)
{
	EXPECT_EQ(OPENREG_ISA_MAJOR, self->info.isa_version >> 16);
	EXPECT_EQ(0, self->info.card);
	EXPECT_TRUE(self->info.packets & (1ull << OPENREG_OP_NOP));
	EXPECT_TRUE(self->info.dtypes & (1ull << OPENREG_F32));
	EXPECT_LT(0, self->info.vram_size);
	EXPECT_LT(0, self->info.max_queues);
	EXPECT_LE(OPENREG_RING_SLOTS_MIN, self->info.max_ring_slots);
	EXPECT_LE(2, self->info.vectors);
	EXPECT_LT(0, self->info.workers);
	EXPECT_EQ(0, self->info.pad);
}

TEST_F(args, bo_create_size)
{
	const __u32 kinds[] = { DRM_OPENREG_BO_VRAM, DRM_OPENREG_BO_SYSTEM };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		__u32 flags = kinds[i];

		EXPECT_CALL(-EINVAL, BO_CREATE, bo_create, .flags = flags);
		EXPECT_CALL(-EINVAL, BO_CREATE, bo_create, .flags = flags,
			    .size = self->info.max_bo_size + 1);
		EXPECT_CALL(-EINVAL, BO_CREATE, bo_create, .flags = flags,
			    .size = -1ull);
		EXPECT_CALL(-EINVAL, BO_CREATE, bo_create, .flags = flags,
			    .size = -4095ull);
	}
	/* The size is legal, but there is not so much memory. */
	EXPECT_CALL(-ENOSPC, BO_CREATE, bo_create, .flags = DRM_OPENREG_BO_VRAM,
		    .size = self->info.vram_size + 1);
	EXPECT_CALL(-ENOMEM, BO_CREATE, bo_create,
		    .flags = DRM_OPENREG_BO_SYSTEM,
		    .size = self->info.max_bo_size);
}

TEST_F(args, bo_create_flags)
{
	__u32 flags;

	for (flags = 0; flags < 64; flags++) {
		if (flags == DRM_OPENREG_BO_VRAM ||
		    flags == DRM_OPENREG_BO_SYSTEM)
			continue;
		EXPECT_CALL(-EINVAL, BO_CREATE, bo_create, .flags = flags,
			    .size = 4096);
	}
	EXPECT_CALL(-EINVAL, BO_CREATE, bo_create,
		    .flags = DRM_OPENREG_BO_VRAM | 1u << 31, .size = 4096);
}

TEST_F(args, bo_info_handle)
{
	struct bo bo;

	EXPECT_CALL(-ENOENT, BO_INFO, bo_info);
	EXPECT_CALL(-ENOENT, BO_INFO, bo_info, .handle = 77);
	ASSERT_EQ(0, bo_create(self->fd, 1, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_CALL(0, BO_INFO, bo_info, .handle = bo.handle);
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	EXPECT_CALL(-ENOENT, BO_INFO, bo_info, .handle = bo.handle);
	EXPECT_EQ(-EINVAL, bo_close(self->fd, bo.handle));
}

TEST_F(args, mem_register)
{
	char *mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const __u64 at = (uintptr_t)mem;
	__u32 flags;

	ASSERT_NE(MAP_FAILED, mem);
	EXPECT_CALL(-EINVAL, MEM_REGISTER, mem_register, .user_address = at);
	EXPECT_CALL(-EINVAL, MEM_REGISTER, mem_register, .user_address = at,
		    .size = -1ull);
	EXPECT_CALL(-EINVAL, MEM_REGISTER, mem_register, .user_address = at,
		    .size = self->info.max_bo_size);
	EXPECT_CALL(-EINVAL, MEM_REGISTER, mem_register,
		    .user_address = -4096ull, .size = 4096);
	EXPECT_CALL(-EINVAL, MEM_REGISTER, mem_register,
		    .user_address = -4096ull, .size = 8192);
	EXPECT_CALL(-EFAULT, MEM_REGISTER, mem_register, .user_address = 0,
		    .size = 4096);
	for (flags = 1; flags; flags <<= 1) {
		if (flags == DRM_OPENREG_BO_READONLY)
			continue;
		EXPECT_CALL(-EINVAL, MEM_REGISTER, mem_register,
			    .user_address = at, .size = 4096, .flags = flags);
	}
}

TEST_F(args, queue_create)
{
	const __u32 slots[] = { 0, 1, 32, 63, 65, 96, -1u, 1u << 31,
				   self->info.max_ring_slots * 2 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(slots); i++)
		EXPECT_CALL(-EINVAL, QUEUE_CREATE, queue_create,
			    .slots = slots[i], .priority = 1);
	for (i = 0; i < 32; i++)
		EXPECT_CALL(-EINVAL, QUEUE_CREATE, queue_create, .slots = 64,
			    .priority = 1, .flags = 1u << i);
	EXPECT_CALL(-EINVAL, QUEUE_CREATE, queue_create, .slots = 64,
		    .priority = 3);
	EXPECT_CALL(-EINVAL, QUEUE_CREATE, queue_create, .slots = 64,
		    .priority = -1u);
	EXPECT_CALL(0, QUEUE_CREATE, queue_create,
		    .slots = self->info.max_ring_slots, .priority = 0);
	EXPECT_CALL(0, QUEUE_CREATE, queue_create, .slots = 64, .priority = 2);
}

TEST_F(args, queue_priority_needs_a_capability)
{
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_CALL(-EACCES, QUEUE_CREATE, queue_create, .slots = 64,
		    .priority = 2);
	EXPECT_CALL(0, QUEUE_CREATE, queue_create, .slots = 64, .priority = 1);
	EXPECT_CALL(0, QUEUE_CREATE, queue_create, .slots = 64, .priority = 0);
}

TEST_F(args, queue_number)
{
	struct queue q;

	EXPECT_CALL(-ENOENT, QUEUE_DESTROY, queue_destroy);
	EXPECT_CALL(-ENOENT, QUEUE_DESTROY, queue_destroy, .queue = 1);
	EXPECT_CALL(-ENOENT, QUEUE_WAIT, queue_wait, .queue = 1);
	EXPECT_CALL(-ENOENT, QUEUE_RESET, queue_reset, .queue = -1u);
	EXPECT_CALL(-ENOENT, QUEUE_SIGNAL, queue_signal, .queue = 1,
		    .seq = 1);
	ASSERT_EQ(0, queue_create(self->fd, 64, &q));
	EXPECT_EQ(1, q.id);
	EXPECT_CALL(-ENOENT, QUEUE_WAIT, queue_wait, .queue = 2);
	EXPECT_CALL(-ENOENT, QUEUE_SIGNAL, queue_signal, .queue = 1,
		    .syncobj = 1, .seq = 1);
}

TEST_F(args, queue_padding)
{
	struct queue q;
	int i;

	ASSERT_EQ(0, queue_create(self->fd, 64, &q));
	for (i = 0; i < 32; i++) {
		EXPECT_CALL(-EINVAL, QUEUE_DESTROY, queue_destroy,
			    .queue = q.id, .pad = 1u << i);
		EXPECT_CALL(-EINVAL, QUEUE_WAIT, queue_wait, .queue = q.id,
			    .flags = 1u << i);
		EXPECT_CALL(-EINVAL, QUEUE_RESET, queue_reset, .queue = q.id,
			    .flags = 1u << i);
		EXPECT_CALL(-EINVAL, QUEUE_SIGNAL, queue_signal, .queue = q.id,
			    .seq = 1, .flags = 1u << i);
		EXPECT_CALL(-EINVAL, QUEUE_SIGNAL, queue_signal, .queue = q.id,
			    .seq = 1, .pad = 1u << i);
		EXPECT_CALL(-EINVAL, TIMESTAMP, timestamp, .flags = 1u << i);
		EXPECT_CALL(-EINVAL, TIMESTAMP, timestamp, .pad = 1u << i);
	}
	EXPECT_EQ(0, queue_destroy(&q));
}

TEST_F(args, pointers)
{
	unsigned int nr;

	for (nr = 0; nr <= DRM_OPENREG_QUEUE_SIGNAL; nr++) {
		unsigned long request = _IOC(_IOC_READ | _IOC_WRITE, 'd',
					     DRM_COMMAND_BASE + nr, 16);

		EXPECT_EQ(-EFAULT, card_ioctl(self->fd, request, (void *)8));
	}
	EXPECT_EQ(-EINVAL, card_ioctl(self->fd,
				      _IOC(_IOC_READ, 'd',
					   DRM_COMMAND_BASE + nr, 16),
				      &nr));
}

/* DRM's ioctls for the master of a display: files of this card have no master. */
TEST_F(args, no_master)
{
	struct drm_unique unique = {};
	struct drm_auth auth = {};

	EXPECT_EQ(-EACCES, card_ioctl(self->fd, DRM_IOCTL_GET_UNIQUE, &unique));
	EXPECT_EQ(-EACCES, card_ioctl(self->fd, DRM_IOCTL_GET_MAGIC, &auth));
	EXPECT_EQ(-EACCES, card_ioctl(self->fd, DRM_IOCTL_AUTH_MAGIC, &auth));
	/* An ioctl of a terminal with the same number. */
	EXPECT_FALSE(isatty(self->fd));
	EXPECT_EQ(ENOTTY, errno);
}

/* Makes an ioctl as a 32-bit program does. low is below 4 GiB. */
static long ioctl_32(int fd, unsigned int request, void *low)
{
	long ret = 54;

	asm volatile("int $0x80"
		     : "+a"(ret)
		     : "b"(fd), "c"(request), "d"(low)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)ret;
}

TEST_F(args, no_master_for_32_bits)
{
	void *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int status;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, low);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(ioctl_32(self->fd, DRM_IOCTL_GET_UNIQUE, low) != -EACCES ||
		      ioctl_32(self->fd, DRM_IOCTL_GET_MAGIC, low) != -EACCES ||
		      ioctl_32(self->fd, TCGETS, low) != -ENOTTY ||
		      ioctl_32(self->fd, DRM_IOCTL_OPENREG_QUERY, low));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
		SKIP(return, "this kernel has no calls of 32-bit programs");
	EXPECT_EQ(0, status);
}

static void call_core(int fd)
{
	unsigned char buf[256];
	unsigned int nr, fill;

	for (nr = 0; nr <= 0xff; nr++) {
		if (nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END)
			continue;
		for (fill = 0; fill <= 0xff; fill += 0xff) {
			memset(buf, fill, sizeof(buf));
			card_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'd', nr,
					    sizeof(buf)), buf);
		}
	}
}

/*
 * DRM's own ioctls with arbitrary arguments, as root and as another user. Afterwards this
 * file and new files still work.
 */
TEST_F(args, core_ioctls)
{
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (setuid(65534))
			_exit(1);
		call_core(self->fd);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	call_core(self->fd);
	EXPECT_EQ(0, card_info(self->fd, &self->info));
	close(self->fd);
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(0, card_info(self->fd, &self->info));
}

/* Objects are shared as dma-bufs only: GEM names do not work. */
TEST_F(args, no_names)
{
	struct drm_gem_flink flink = {};
	struct drm_gem_open open = {};
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo));
	flink.handle = bo.handle;
	if (!card_ioctl(self->fd, DRM_IOCTL_GEM_FLINK, &flink)) {
		open.name = flink.name;
		EXPECT_EQ(-EOPNOTSUPP, card_ioctl(self->fd, DRM_IOCTL_GEM_OPEN,
						  &open));
	}
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
}

/* mmap() maps only an offset that the driver returned, shared, and within the object. */
TEST_F(args, mmap)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 8192, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 8192, rw, MAP_PRIVATE, self->fd,
				   bo.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 12288, rw, MAP_SHARED, self->fd,
				   bo.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, rw, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 8192, rw, MAP_SHARED, self->fd,
				   bo.mmap_offset));
	EXPECT_NE(0, errno);
}

TEST_HARNESS_MAIN
