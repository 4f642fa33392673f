// SPDX-License-Identifier: MIT
/* Communicators: creation and destruction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm.h"

#define TIMEOUT_NS 30000000000ll
#define SLOT_BYTES (1ull << 20)
#define ONE_SHOT_BYTES (64ull << 10)
#define RING_SLOTS 16384
#define MARK_BYTES 4096

static int check(const struct openreg_comm_attr *attr)
{
	const size_t len = attr->name ? strnlen(attr->name, 101) : 0;
	const uint64_t slot = attr->slot_bytes ? attr->slot_bytes : SLOT_BYTES;

	if (!attr->size || attr->size > OPENREG_COMM_RANKS_MAX)
		return comm_fail(-EINVAL, "a communicator of %u ranks: it can have 1 to %u",
				 attr->size, OPENREG_COMM_RANKS_MAX);
	if (attr->rank >= attr->size)
		return comm_fail(-EINVAL, "rank %u of %u: ranks count from 0", attr->rank,
				 attr->size);
	if (!len || len > 100)
		return comm_fail(-EINVAL, "a communicator needs a name of 1 to 100 characters");
	if (attr->timeout_ns < 0)
		return comm_fail(-EINVAL, "timeout_ns must not be negative");
	if (slot % 4096 || slot > 1ull << 30)
		return comm_fail(-EINVAL, "slot_bytes must be a multiple of 4096 up to 1 GiB");
	if ((attr->one_shot_bytes ? attr->one_shot_bytes : ONE_SHOT_BYTES) > slot &&
	    attr->one_shot_bytes)
		return comm_fail(-EINVAL, "one_shot_bytes must be at most slot_bytes");
	return 0;
}

static struct openreg_comm *new_comm(struct openreg_device *dev,
				     const struct openreg_comm_attr *attr)
{
	struct openreg_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->dev = dev;
	comm->factor = 1;
	comm->rank = attr->rank;
	comm->size = attr->size;
	comm->priority = attr->priority;
	comm->timeout_ns = attr->timeout_ns ? attr->timeout_ns : TIMEOUT_NS;
	comm->slot_bytes = attr->slot_bytes ? attr->slot_bytes : SLOT_BYTES;
	comm->one_shot_bytes = attr->one_shot_bytes ? attr->one_shot_bytes : ONE_SHOT_BYTES;
	if (comm->one_shot_bytes > comm->slot_bytes)
		comm->one_shot_bytes = comm->slot_bytes;
	for (uint32_t r = 0; r < OPENREG_COMM_RANKS_MAX; r++)
		comm->peers[r].sock = comm->peers[r].process = -1;
	comm->board_fd = -1;
	pthread_mutex_init(&comm->lock, NULL);
	return comm;
}

/* A page that the kernel clears in a child of fork(). */
static int make_mark(struct openreg_comm *comm)
{
	uint8_t *p = mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return comm_fail(-ENOMEM, "out of memory");
	comm->mine = p;
	if (madvise(p, MARK_BYTES, MADV_WIPEONFORK))
		return comm_fail(-errno, "the kernel cannot mark memory for fork(): %s",
				 strerror(errno));
	*p = 1;
	return 0;
}

static int make_queue(struct openreg_comm *comm)
{
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_device_info info;
	int ret = openreg_device_get_info(comm->dev, &info);

	if (ret)
		return comm_fail_card(ret, "cannot create a communicator");
	attr.slots = info.max_ring_slots < RING_SLOTS ? info.max_ring_slots : RING_SLOTS;
	attr.full_timeout_ns = comm->timeout_ns;
	attr.priority = comm->priority;
	/* The longest packet reduces; half of the ring is for packets of the caller. */
	comm->most = attr.slots / 2 /
		     openreg_packet_slots(1, 1 + comm->size, 1, 3 + 2 * comm->size);
	ret = openreg_queue_create(comm->dev, &attr, &comm->queue);
	return ret ? comm_fail_card(ret, "cannot create the communicator's queue") : 0;
}

static int make_pool(struct openreg_comm *comm)
{
	const uint64_t size = POOL_SLOTS + comm->size * CHANNELS * SLOTS * comm->slot_bytes;
	void *words;
	int ret = openreg_bo_alloc(comm->dev, size, OPENREG_BO_VRAM, &comm->pool);

	if (!ret)
		ret = openreg_bo_map(comm->pool, &words);
	if (ret)
		return comm_fail_card(ret, "cannot make the communicator's pool");
	comm->words = words;
	comm->pool_at = openreg_bo_address(comm->pool);
	return 0;
}

static int join(struct openreg_comm *comm, const struct openreg_comm_attr *attr,
		const struct openreg_comm_store *store, int64_t deadline)
{
	int ret, fds[FDS] = { 0, comm->board_fd };

	if (comm->size == 1)
		return 0;
	fds[0] = openreg_bo_export(comm->pool, 0);
	if (fds[0] < 0)
		return comm_fail_card(fds[0], "cannot share the communicator's pool");
	ret = comm_connect(comm, attr->name, store, fds, deadline);
	close(fds[0]);
	return ret;
}

API int openreg_comm_create(struct openreg_device *dev, const struct openreg_comm_attr *attr,
			    const struct openreg_comm_store *store,
			    struct openreg_comm **out)
{
	const int64_t now = comm_now();
	struct openreg_comm *comm;
	int ret = check(attr);

	*out = NULL;
	if (ret)
		return ret;
	comm = new_comm(dev, attr);
	if (!comm)
		return comm_fail(-ENOMEM, "out of memory");
	ret = make_mark(comm);
	if (!ret)
		ret = board_create(comm);
	if (!ret)
		ret = make_queue(comm);
	if (!ret)
		ret = make_pool(comm);
	if (!ret)
		ret = join(comm, attr, store, now + comm->timeout_ns);
	if (ret)
		openreg_comm_destroy(comm);
	else
		*out = comm;
	return ret;
}

API void openreg_comm_destroy(struct openreg_comm *comm)
{
	if (!comm)
		return;
	openreg_queue_destroy(comm->queue);
	for (uint32_t r = 0; r < comm->size; r++) {
		if (comm->peers[r].sock >= 0)
			close(comm->peers[r].sock);
		if (comm->peers[r].process >= 0)
			close(comm->peers[r].process);
		openreg_bo_free(comm->peers[r].bo);
	}
	openreg_bo_free(comm->pool);
	exchange_free(comm);
	board_free(comm);
	notes_free(comm);
	window_free(comm);
	if (comm->mine)
		munmap((void *)(uintptr_t)comm->mine, MARK_BYTES);
	pthread_mutex_destroy(&comm->lock);
	free(comm);
}

API uint32_t openreg_comm_rank(const struct openreg_comm *comm)
{
	return comm->rank;
}

API uint32_t openreg_comm_size(const struct openreg_comm *comm)
{
	return comm->size;
}

API struct openreg_queue *openreg_comm_queue(struct openreg_comm *comm)
{
	return comm->queue;
}
