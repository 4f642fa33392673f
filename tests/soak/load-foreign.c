// SPDX-License-Identifier: MIT
/* Reads and writes memory of another driver: a dma-buf of udmabuf. */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define PAGE 4096u
#define PAGES_MAX 32u
#define SIZE (PAGE * PAGES_MAX)

struct foreign {
	struct openreg_bo *vram, *in;
	unsigned char *mem;
	size_t size;
};

static int foreign_begin(struct client *c)
{
	struct foreign *x = c->load;

	return alloc(c, SIZE, OPENREG_BO_VRAM, &x->vram);
}

static void release(struct foreign *x)
{
	openreg_bo_free(x->in);
	x->in = NULL;
	if (x->mem)
		munmap(x->mem, x->size);
	x->mem = NULL;
}

static void foreign_end(struct client *c)
{
	struct foreign *x = c->load;

	release(x);
	openreg_bo_free(x->vram);
}

/* Makes a dma-buf of the memory. */
static int make(struct foreign *x, int memfd)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t)memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = x->size,
	};
	int fd, ret;
	void *mem;

	if (ftruncate(memfd, (off_t)x->size) ||
	    fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -errno;
	mem = mmap(NULL, x->size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (mem == MAP_FAILED)
		return -errno;
	x->mem = mem;
	fd = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = ioctl(fd, UDMABUF_CREATE, &create);
	ret = ret < 0 ? -errno : ret;
	close(fd);
	return ret;
}

static int import(struct client *c, struct foreign *x)
{
	int memfd = memfd_create("foreign", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int fd, ret;

	if (memfd < 0)
		return -errno;
	fd = make(x, memfd);
	close(memfd);
	if (fd < 0)
		return fd;
	ret = openreg_bo_import(c->dev, fd, &x->in);
	close(fd);
	return ret;
}

/* Copies the memory to the card, and other bytes back; then the same again. */
static int foreign_turn(struct client *c)
{
	struct foreign *x = c->load;
	unsigned char bytes[PAGE];
	const uint64_t seed = random64(c), vram = openreg_bo_address(x->vram);
	size_t at, part;
	int64_t seq;
	int ret;

	x->size = PAGE * (1 + random_below(c, PAGES_MAX));
	part = random_below(c, x->size - PAGE + 1);
	ret = import(c, x);
	if (ret)
		return ret;
	noise(x->mem, x->size, seed);
	seq = openreg_copy_async(c->q[0], vram, openreg_bo_address(x->in), x->size);
	if (seq < 0)
		return (int)seq;
	ret = openreg_copy_from_device(c->q[0], bytes, vram + part, PAGE);
	if (ret)
		return ret;
	if (memcmp(bytes, x->mem + part, PAGE))
		return wrong(c, "the card read other bytes than there are");
	noise(bytes, PAGE, seed + 1);
	ret = openreg_copy_to_device(c->q[0], openreg_bo_address(x->in) + part,
				     bytes, PAGE);
	if (ret)
		return ret;
	at = not_noise(x->mem + part, PAGE, seed + 1);
	if (at != PAGE)
		return wrong(c, "byte %zu of what the card wrote is old", at);
	release(x);
	return 0;
}

const struct load load_foreign = {
	"foreign", sizeof(struct foreign), foreign_begin, foreign_turn,
	foreign_end,
};
