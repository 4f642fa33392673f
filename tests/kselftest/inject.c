// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"

#define DRIVER "/sys/bus/pci/drivers/openreg/"
#define PCI_CAPABILITIES 0x34
#define PCI_CAP_VENDOR 9
#define COUNT 4096

static char slot[64]; /* PCI address, as sysfs writes it */
static int config = -1;
static unsigned char capability;

static int put(const char *path, const char *text)
{
	int ret, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

int inject_find(void)
{
	unsigned char at = PCI_CAPABILITIES, cap[2];
	char path[PATH_MAX], file[PATH_MAX + 8];

	if (!realpath("/sys/class/misc/openreg/device", path))
		return -errno;
	snprintf(slot, sizeof(slot), "%s", strrchr(path, '/') + 1);
	snprintf(file, sizeof(file), "%s/config", path);
	config = open(file, O_RDWR | O_CLOEXEC);
	if (config < 0 || pread(config, &at, 1, at) != 1)
		return -errno;
	while (at && pread(config, cap, 2, at) == 2) {
		if (cap[0] == PCI_CAP_VENDOR) {
			capability = at;
			return 0;
		}
		at = cap[1];
	}
	return -ENODEV;
}

int inject(enum injection which, __u32 value)
{
	const __u32 number = which;

	if (pwrite(config, &number, 4, capability + 4) != 4 ||
	    pwrite(config, &value, 4, capability + 8) != 4)
		return -errno;
	return 0;
}

void inject_none(void)
{
	int i;

	for (i = 0; i < INJECT_END; i++)
		inject(i, i == INJECT_QUEUE ? -1u :
			  i == INJECT_PERIOD ? 1000 : 0);
}

int card_flr(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", slot);
	return put(path, "1");
}

int card_bind(void)
{
	return put(DRIVER "bind", slot);
}

int card_unbind(void)
{
	return put(DRIVER "unbind", slot);
}

int module_load(void)
{
	const char *path = getenv("OPENREG_KO");
	int ret, fd = open(path ? path : "openreg.ko", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	return ret;
}

int module_unload(void)
{
	__s64 end = now_ns() + 20 * SEC_NS;
	int ret;

	do {
		ret = syscall(SYS_delete_module, "openreg", O_NONBLOCK) ?
		      -errno : 0;
	} while (ret == -EAGAIN && now_ns() < end);
	return ret;
}

int set_admin_timeout(const char *ms)
{
	return put("/sys/module/openreg/parameters/admin_timeout_ms", ms);
}

bool have_node(void)
{
	return !access(NODE, F_OK);
}

/* Numbers to VRAM, added there, and back. */
static int work(struct queue *q, struct bo *sys, struct bo *vram)
{
	__u64 a = vram->address, len = COUNT * 4;
	float *v = sys->cpu;
	struct packet p;
	int i, ret;

	for (i = 0; i < 2 * COUNT; i++)
		v[i] = i;
	packet_copy(&p, a, sys->address, 2 * COUNT, OPENREG_F32);
	queue_push_blindly(q, &p);
	packet_add(&p, a, a, a + len, COUNT);
	queue_push_blindly(q, &p);
	packet_copy(&p, sys->address, a, COUNT, OPENREG_F32);
	ret = queue_wait(q, queue_push_blindly(q, &p), 20 * SEC_NS);
	for (i = 0; i < COUNT && !ret; i++)
		if (v[i] != 2.0f * i + COUNT)
			ret = -EILSEQ;
	return ret;
}

static int work_on(int fd)
{
	struct bo sys, vram;
	struct queue q;
	int ret;

	ret = queue_create(fd, 64, &q);
	if (ret)
		return ret;
	ret = bo_create(fd, 2 * COUNT * 4, DRM_OPENREG_BO_SYSTEM, &sys);
	if (!ret)
		ret = bo_create(fd, 2 * COUNT * 4, DRM_OPENREG_BO_VRAM, &vram);
	if (!ret)
		ret = bo_map(fd, &sys);
	if (!ret) {
		ret = work(&q, &sys, &vram);
		munmap(sys.cpu, sys.size);
	}
	queue_unmap(&q);
	return ret;
}

int card_works(void)
{
	int ret, fd = card_open();

	if (fd < 0)
		return fd;
	ret = work_on(fd);
	close(fd);
	return ret;
}

bool card_is_idle(void)
{
	__s64 end = now_ns() + 20 * SEC_NS;

	while (card_stat("contexts") || card_stat("objects"))
		if (now_ns() > end)
			return false;
	return true;
}

int card_recovers(void)
{
	int ret;

	inject_none();
	set_admin_timeout("20000");
	ret = card_flr();
	return ret ? ret : card_works();
}

/* A bit for each of the card's queues that this process has. */
static int own_queues(unsigned char *bits)
{
	unsigned int id, pid;
	glob_t found;
	char line[512];
	FILE *file;

	memset(bits, 0, 1024);
	if (glob("/sys/kernel/debug/accel/*/openreg_queues", 0, NULL, &found))
		return -ENOENT;
	file = fopen(found.gl_pathv[0], "r");
	globfree(&found);
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%u ctx %*u pid %u", &id, &pid) == 2 &&
		    pid == (unsigned int)getpid() && id < 1024)
			bits[id] = 1;
	fclose(file);
	return 0;
}

int queue_create_numbered(int fd, __u32 slots, struct queue *queue)
{
	unsigned char before[1024], after[1024];
	int i, ret;

	ret = own_queues(before);
	if (!ret)
		ret = queue_create(fd, slots, queue);
	if (!ret)
		ret = own_queues(after);
	if (ret)
		return ret;
	for (i = 0; i < 1024; i++)
		if (after[i] && !before[i])
			return i;
	return -ENOENT;
}

__u64 queue_push_blindly(struct queue *queue, const struct packet *packet)
{
	unsigned int slots = (packet->len + OPENREG_SLOT_SIZE - 1) /
			     OPENREG_SLOT_SIZE;
	unsigned char *at = queue->ring +
		(queue->tail & (queue->slots - 1)) * OPENREG_SLOT_SIZE;

	if ((queue->tail & (queue->slots - 1)) + slots > queue->slots)
		return 0;
	memcpy(at, packet->bytes, slots * OPENREG_SLOT_SIZE);
	((struct openreg_packet *)at)->slots = slots;
	queue->tail += slots;
	queue->seq++;
	queue_publish(queue);
	return queue->seq;
}

unsigned long long interrupts(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned long long sum = 0, n;
	char line[1024], *at, *end;

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "openreg"))
			continue;
		at = strchr(line, ':');
		for (at = at ? at + 1 : line; ; at = end) {
			n = strtoull(at, &end, 10);
			if (end == at)
				break;
			sum += n;
		}
	}
	if (file)
		fclose(file);
	return sum;
}

int small_work(struct queue *queue, int rounds)
{
	struct packet p;
	int ret = 0;

	packet_nop(&p);
	while (!ret && rounds--)
		ret = queue_wait(queue, queue_push_blindly(queue, &p),
				 20 * SEC_NS);
	return ret;
}

static int open_and_work(int rounds)
{
	int ret, fd = card_open();
	struct queue q;

	if (fd < 0)
		return fd;
	ret = queue_create(fd, 1024, &q);
	if (!ret)
		ret = small_work(&q, rounds);
	close(fd);
	return ret;
}

int others_work(int rounds)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(-open_and_work(rounds));
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
