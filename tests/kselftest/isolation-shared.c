// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest imports one object of an owner as a dma-buf. The guest can access that object
 * with the exported rights and nothing else, also if the owner closes its file or dies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "kselftest_harness.h"

#include "machine.h"
#include "sharing.h"

#define RW (DRM_CLOEXEC | DRM_RDWR)
#define LONG (60 * SEC_NS)
#define OBJECTS 3 /* the owner exports the middle one */

/* Seeds of the noise in the memory: exported, kept by a party, of the guest. */
enum { GIVEN = 1, KEPT, OTHERS };

struct party {
	int fd;
	struct queue q;
	struct bo bo[OBJECTS];
};

FIXTURE(shared)
{
	struct card_usage before;
	struct party owner, guest;
};

FIXTURE_VARIANT(shared)
{
	__u32 flags;
};

FIXTURE_VARIANT_ADD(shared, vram) { .flags = DRM_OPENREG_BO_VRAM };
FIXTURE_VARIANT_ADD(shared, system) { .flags = DRM_OPENREG_BO_SYSTEM };

static int party_open(struct party *p, __u32 flags, unsigned int seed)
{
	int i, ret;

	p->fd = card_open();
	ret = p->fd < 0 ? p->fd : queue_create(p->fd, 64, &p->q);
	for (i = 0; i < OBJECTS && !ret; i++) {
		ret = bo_create(p->fd, MIB, flags, &p->bo[i]);
		if (!ret)
			ret = bo_map(p->fd, &p->bo[i]);
		if (!ret)
			noise(p->bo[i].cpu, MIB, i == 1 ? seed : KEPT);
	}
	return ret;
}

static void party_close(struct party *p)
{
	int i;

	if (p->fd < 0)
		return;
	queue_unmap(&p->q);
	for (i = 0; i < OBJECTS; i++)
		munmap(p->bo[i].cpu, MIB);
	close(p->fd);
	p->fd = -1;
}

FIXTURE_SETUP(shared)
{
	ASSERT_EQ(0, card_works());
	self->before = card_unused();
	ASSERT_EQ(0, party_open(&self->owner, variant->flags, GIVEN));
	ASSERT_EQ(0, party_open(&self->guest, DRM_OPENREG_BO_VRAM, OTHERS));
}

FIXTURE_TEARDOWN(shared)
{
	party_close(&self->owner);
	party_close(&self->guest);
	EXPECT_EQ(0, card_works());
	EXPECT_TRUE(card_settles(self->before));
}

/* Runs a packet. Returns its fault or 0. The queue can be used afterwards. */
static unsigned int run(struct queue *q, const struct packet *p)
{
	__u64 seq = queue_push(q, p);
	unsigned int code;

	if (!queue_wait(q, seq, LONG))
		return 0;
	code = q->card->fault.code;
	return queue_reset(q, q->tail, seq) ? -1 : code;
}

static unsigned int run_fill(struct queue *q, __u64 at, __u64 bytes)
{
	struct packet p;

	packet_fill(&p, at, bytes, OPENREG_U8, 0x55);
	return run(q, &p);
}

static unsigned int run_copy(struct queue *q, __u64 dst, __u64 src, __u64 bytes)
{
	struct packet p;

	packet_copy(&p, dst, src, bytes, OPENREG_U8);
	return run(q, &p);
}

static unsigned int run_signal(struct queue *q, __u64 at)
{
	struct packet p;

	packet_word(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, at);
	return run(q, &p);
}

static bool kept_is_kept(const struct party *p)
{
	return is_noise(p->bo[0].cpu, MIB, KEPT) &&
	       is_noise(p->bo[2].cpu, MIB, KEPT);
}

/* The guest cannot access the owner's memory before and after the object. */
TEST_F_TIMEOUT(shared, not_beyond, 120)
{
	struct party *o = &self->owner, *g = &self->guest;
	int db = bo_export(o->fd, o->bo[1].handle, RW);
	const __u64 own = g->bo[1].address;
	struct bo in;
	int i;

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	close(db);
	EXPECT_EQ(MIB, in.size);
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, run_fill(&g->q, in.address, MIB + 1));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, run_fill(&g->q, in.address + MIB, 1));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS,
		  run_copy(&g->q, own, in.address + MIB - 4096, 4097));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, run_signal(&g->q, in.address + MIB));
	EXPECT_NE(0, run_copy(&g->q, own, in.address - 1, 2));
	for (i = 0; i < OBJECTS; i++)
		if (o->bo[i].address != in.address &&
		    o->bo[i].address != g->bo[i].address)
			EXPECT_NE(0, run_fill(&g->q, o->bo[i].address, 1));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB + 4096, PROT_READ, MAP_SHARED,
				   g->fd, in.mmap_offset));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ, MAP_SHARED, g->fd,
				   o->bo[1].mmap_offset));
	EXPECT_TRUE(kept_is_kept(o));
	EXPECT_TRUE(is_noise(o->bo[1].cpu, MIB, GIVEN));
	/* The whole object can be written. */
	EXPECT_EQ(0, run_fill(&g->q, in.address, MIB));
	EXPECT_TRUE(kept_is_kept(o));
}

/* A read-only export can be written by no packet and through no mapping. */
TEST_F_TIMEOUT(shared, only_for_reading, 120)
{
	struct party *o = &self->owner, *g = &self->guest;
	int db = bo_export(o->fd, o->bo[1].handle, DRM_CLOEXEC);
	const bool vram = variant->flags == DRM_OPENREG_BO_VRAM;
	struct packet p;
	struct bo in;
	void *map;

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, run_fill(&g->q, in.address, 1));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION,
		  run_copy(&g->q, in.address, g->bo[1].address, MIB));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, run_signal(&g->q, in.address));
	packet_word(&p, OPENREG_OP_TIMESTAMP, 0, in.address);
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, run(&g->q, &p));
	packet_add(&p, in.address, g->bo[1].address, g->bo[1].address, 16);
	EXPECT_EQ(vram ? OPENREG_FAULT_PERMISSION : OPENREG_FAULT_ENGINE,
		  run(&g->q, &p));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				   MAP_SHARED, g->fd, in.mmap_offset));
	map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, g->fd, in.mmap_offset);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(-1, mprotect(map, MIB, PROT_READ | PROT_WRITE));
	munmap(map, MIB);
	EXPECT_EQ(-EACCES, bo_export(g->fd, in.handle, RW));
	close(db);
	EXPECT_EQ(0, run_copy(&g->q, g->bo[1].address, in.address, MIB));
	EXPECT_TRUE(is_noise(g->bo[1].cpu, MIB, GIVEN));
	EXPECT_TRUE(is_noise(o->bo[1].cpu, MIB, GIVEN));
}

/* The owner closes its file. A new owner gets other memory. */
TEST_F_TIMEOUT(shared, owner_closes, 120)
{
	int db = bo_export(self->owner.fd, self->owner.bo[1].handle, RW);
	struct party *g = &self->guest;
	struct bo in;
	int i;

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	close(db);
	party_close(&self->owner);
	ASSERT_EQ(0, party_open(&self->owner, variant->flags, KEPT));
	EXPECT_EQ(0, run_copy(&g->q, g->bo[1].address, in.address, MIB));
	EXPECT_TRUE(is_noise(g->bo[1].cpu, MIB, GIVEN));
	EXPECT_EQ(0, run_fill(&g->q, in.address, MIB));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, run_fill(&g->q, in.address, MIB + 1));
	for (i = 0; i < OBJECTS; i++)
		EXPECT_TRUE(is_noise(self->owner.bo[i].cpu, MIB, KEPT));
}

/* The guest closes its file and so its import. The owner keeps the memory. */
TEST_F_TIMEOUT(shared, guest_closes, 120)
{
	struct party *o = &self->owner, *g = &self->guest;
	int i, db = bo_export(o->fd, o->bo[1].handle, RW);
	struct packet p;
	struct bo in;

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	for (i = 0; i < 20; i++) {
		packet_copy(&p, g->bo[1].address, in.address, MIB, OPENREG_U8);
		queue_write(&g->q, &p);
	}
	queue_publish(&g->q);
	party_close(g);
	EXPECT_EQ(0, run_copy(&o->q, o->bo[0].address, o->bo[1].address, MIB));
	EXPECT_TRUE(is_noise(o->bo[0].cpu, MIB, GIVEN));
	/* A new guest can import the dma-buf. */
	ASSERT_EQ(0, party_open(g, DRM_OPENREG_BO_VRAM, OTHERS));
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	EXPECT_EQ(0, run_copy(&g->q, g->bo[1].address, in.address, MIB));
	EXPECT_TRUE(is_noise(g->bo[1].cpu, MIB, GIVEN));
	close(db);
}

/* Sends a file descriptor over a socket. */
static bool send_fd(int line, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&h);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	return sendmsg(line, &h, 0) == 1;
}

static int receive_fd(int line)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(line, &h, 0) == 1 && CMSG_FIRSTHDR(&h))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(int));
	return fd;
}

/* Only a message in a socket holds the dma-buf, until a guest receives it. */
TEST_F_TIMEOUT(shared, on_its_way, 120)
{
	struct party *g = &self->guest;
	int db, line[2];
	struct bo in;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line));
	db = bo_export(self->owner.fd, self->owner.bo[1].handle, RW);
	ASSERT_LE(0, db);
	ASSERT_TRUE(send_fd(line[0], db));
	ASSERT_TRUE(send_fd(line[0], db));
	close(db);
	party_close(&self->owner);
	close(line[0]);
	db = receive_fd(line[1]);
	ASSERT_LE(0, db);
	/* The second message is never received. */
	close(line[1]);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	close(db);
	EXPECT_EQ(0, run_copy(&g->q, g->bo[1].address, in.address, MIB));
	EXPECT_TRUE(is_noise(g->bo[1].cpu, MIB, GIVEN));
}

/* The child: exports its object, runs packets on it, and is killed. */
static void die_giving(int line, __u32 flags)
{
	struct party p;
	struct packet packet;
	int db;

	if (party_open(&p, flags, GIVEN))
		_exit(1);
	db = bo_export(p.fd, p.bo[1].handle, RW);
	if (db < 0 || !send_fd(line, db))
		_exit(2);
	packet_copy(&packet, p.bo[0].address, p.bo[1].address, MIB, OPENREG_U8);
	for (;;)
		if (!queue_push(&p.q, &packet))
			_exit(3);
}

TEST_F_TIMEOUT(shared, owner_is_killed, 120)
{
	struct party *g = &self->guest;
	int db, status, line[2];
	struct bo in;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		die_giving(line[0], variant->flags);
	db = receive_fd(line[1]);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	close(db);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(line[0]);
	close(line[1]);
	EXPECT_EQ(0, run_copy(&g->q, g->bo[1].address, in.address, MIB));
	EXPECT_TRUE(is_noise(g->bo[1].cpu, MIB, GIVEN));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, run_fill(&g->q, in.address + MIB, 1));
	EXPECT_TRUE(kept_is_kept(&self->owner));
}

/* After a reset a new guest imports the old dma-buf, and still gets only its memory. */
TEST_F_TIMEOUT(shared, card_is_reset, 120)
{
	struct party *o = &self->owner, *g = &self->guest;
	int db = bo_export(o->fd, o->bo[1].handle, RW);
	char slot[64];
	struct bo in;

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	ASSERT_TRUE(slot_of_card(slot, sizeof(slot)));
	ASSERT_EQ(0, slot_put(slot, "reset", "1"));
	EXPECT_NE(0, run_fill(&g->q, in.address, 1));
	party_close(g);
	party_close(o);
	ASSERT_EQ(0, party_open(o, DRM_OPENREG_BO_VRAM, KEPT));
	ASSERT_EQ(0, party_open(g, DRM_OPENREG_BO_VRAM, OTHERS));
	ASSERT_EQ(0, bo_import(g->fd, db, &in));
	close(db);
	EXPECT_EQ(0, run_copy(&g->q, g->bo[1].address, in.address, MIB));
	EXPECT_TRUE(is_noise(g->bo[1].cpu, MIB, GIVEN));
	EXPECT_EQ(0, run_fill(&g->q, in.address, MIB));
	EXPECT_TRUE(is_noise(o->bo[1].cpu, MIB, KEPT));
	EXPECT_TRUE(kept_is_kept(o));
}

/* The driver is unbound and bound again: the old dma-buf shows no memory of others. */
TEST_F_TIMEOUT(shared, card_is_unbound, 120)
{
	struct party *o = &self->owner, *g = &self->guest;
	int db = bo_export(o->fd, o->bo[1].handle, RW);
	char slot[64], *map;
	struct bo in;

	ASSERT_LE(0, db);
	map = dma_buf_map(db, MIB);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_TRUE(slot_of_card(slot, sizeof(slot)));
	ASSERT_EQ(0, file_put(PCI_DRIVER "unbind", slot));
	party_close(g);
	party_close(o);
	ASSERT_EQ(0, file_put(PCI_DRIVER "bind", slot));
	ASSERT_EQ(0, card_await());
	ASSERT_EQ(0, party_open(o, DRM_OPENREG_BO_VRAM, KEPT));
	ASSERT_EQ(0, party_open(g, DRM_OPENREG_BO_VRAM, OTHERS));
	memset(map, 0x55, MIB);
	if (!bo_import(g->fd, db, &in)) {
		run_copy(&g->q, g->bo[1].address, in.address, MIB);
		EXPECT_FALSE(is_noise(g->bo[1].cpu, MIB, KEPT));
		run_fill(&g->q, in.address, MIB);
	}
	EXPECT_TRUE(is_noise(o->bo[1].cpu, MIB, KEPT));
	EXPECT_TRUE(kept_is_kept(o));
	munmap(map, MIB);
	close(db);
}

TEST_HARNESS_MAIN
