// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/pci_regs.h>

#include "inject.h"
#include "machine.h"

static char slot[64]; /* PCI address, in the form of sysfs */
static int config = -1;
static unsigned char capability;

int inject_find(void)
{
	unsigned char at = PCI_CAPABILITY_LIST, cap[2];
	char file[PATH_MAX];

	if (!slot_of_card(slot, sizeof(slot)))
		return -ENODEV;
	snprintf(file, sizeof(file), PCI_DEVICES "%s/config", slot);
	config = open(file, O_RDWR | O_CLOEXEC);
	if (config < 0 || pread(config, &at, 1, at) != 1)
		return -errno;
	while (at && pread(config, cap, 2, at) == 2) {
		if (cap[0] == PCI_CAP_ID_VNDR) {
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
	return slot_put(slot, "reset", "1");
}

int card_bind(void)
{
	return file_put(PCI_DRIVER "bind", slot);
}

int card_unbind(void)
{
	return file_put(PCI_DRIVER "unbind", slot);
}

bool have_node(void)
{
	return !access(NODE, F_OK);
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
	driver_set_timeout("20000");
	ret = card_flr();
	return ret ? ret : card_works();
}

/* Sets bits[n] for each queue number n on the card that belongs to this process. */
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

bool copy_stalls(struct queue *queue, int number, __u32 how, __u64 dst,
		 __u64 src)
{
	long long written = card_stat("dma_written");
	__s64 end = now_ns() + 20 * SEC_NS;
	struct packet p;

	if (inject(INJECT_QUEUE, number) || inject(INJECT_STALL, how))
		return false;
	packet_copy(&p, dst, src, MIB, OPENREG_U8);
	queue_push_blindly(queue, &p);
	while (card_stat("dma_written") == written)
		if (now_ns() > end)
			return false;
	return queue_wait(queue, queue->seq, SEC_NS / 20) == -ETIME;
}
