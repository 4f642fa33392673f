// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "card.h"
#include "machine.h"

#define MONITOR_PORT "org.openreg.monitor"
#define DUMPS "/sys/devices/virtual/devcoredump/devcd*"
#define PATIENCE (60 * SEC_NS)
#define COUNT 4096

int file_put(const char *path, const char *text)
{
	int ret, fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

int file_get(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, text, size - 1);
	close(fd);
	if (len < 0)
		return -errno;
	text[len] = 0;
	text[strcspn(text, "\n")] = 0;
	return 0;
}

int machine_sleep(void)
{
	int ret = file_put("/sys/power/pm_test", "core");

	if (ret)
		return ret;
	file_put("/sys/module/suspend/parameters/pm_test_delay", "0");
	file_put("/sys/power/sync_on_suspend", "0");
	ret = file_put("/sys/power/state", "mem");
	file_put("/sys/power/pm_test", "none");
	return ret;
}

bool slot_of_card(char *slot, size_t size)
{
	char link[PATH_MAX], path[PATH_MAX];

	snprintf(link, sizeof(link), "/sys/class/misc%s/device",
		 strrchr(card_node(), '/'));
	if (!realpath(link, path))
		return false;
	snprintf(slot, size, "%s", strrchr(path, '/') + 1);
	return true;
}

bool slot_of_port(const char *card, char *slot, size_t size)
{
	char link[PATH_MAX], path[PATH_MAX], *end;

	snprintf(link, sizeof(link), PCI_DEVICES "%s", card);
	if (!realpath(link, path))
		return false;
	end = strrchr(path, '/');
	*end = 0;
	snprintf(slot, size, "%s", strrchr(path, '/') + 1);
	return true;
}

/* N can be any number if cards were added and removed. */
bool accel_find(char *path, size_t size)
{
	glob_t found;
	bool ok;

	ok = !glob("/sys/class/misc/openreg/device/accel/accel*", 0, NULL,
		   &found) && found.gl_pathc == 1;
	if (ok)
		snprintf(path, size, "/dev/accel%s",
			 strrchr(found.gl_pathv[0], '/'));
	globfree(&found);
	return ok;
}

int accel_open(void)
{
	char path[64];
	int fd;

	if (!accel_find(path, sizeof(path)))
		return -ENOENT;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int slot_put(const char *slot, const char *file, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/%s", slot, file);
	return file_put(path, text);
}

static int slot_config(const char *slot, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), PCI_DEVICES "%s/config", slot);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int slot_read(const char *slot, unsigned int offset, void *value, size_t size)
{
	int ret, fd = slot_config(slot, O_RDONLY);

	if (fd < 0)
		return fd;
	ret = pread(fd, value, size, offset) == (ssize_t)size ? 0 : -EIO;
	close(fd);
	return ret;
}

int slot_write(const char *slot, unsigned int offset, const void *value,
	       size_t size)
{
	int ret, fd = slot_config(slot, O_RDWR);

	if (fd < 0)
		return fd;
	ret = pwrite(fd, value, size, offset) == (ssize_t)size ? 0 : -EIO;
	close(fd);
	return ret;
}

int slot_command(const char *slot, __u16 *command)
{
	return slot_read(slot, PCI_COMMAND, command, 2);
}

int slot_set_command(const char *slot, __u16 command)
{
	return slot_write(slot, PCI_COMMAND, &command, 2);
}

int module_load_with(const char *parameters)
{
	const char *path = getenv("OPENREG_KO");
	int ret, fd = open(path ? path : "openreg.ko", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return ret;
}

int module_load(void)
{
	return module_load_with("");
}

int module_try_unload(void)
{
	return syscall(SYS_delete_module, "openreg", O_NONBLOCK) ? -errno : 0;
}

int module_unload(void)
{
	__s64 end = now_ns() + PATIENCE;
	int ret;

	do {
		ret = module_try_unload();
	} while (ret == -EAGAIN && now_ns() < end);
	return ret;
}

int driver_set_timeout(const char *ms)
{
	return file_put("/sys/module/openreg/parameters/admin_timeout_ms", ms);
}

int uevents_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
			NETLINK_KOBJECT_UEVENT);

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	close(fd);
	return -EIO;
}

/* Each line ends with a zero byte. The last line is empty. */
bool uevent_has(const char *event, const char *line)
{
	for (; *event; event += strlen(event) + 1)
		if (!strcmp(event, line))
			return true;
	return false;
}

bool uevents_find(int fd, const char *line, __s64 timeout_ns, char *event,
		  size_t size)
{
	__s64 left, deadline = now_ns() + timeout_ns;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t len;

	for (;;) {
		left = deadline - now_ns();
		if (poll(&p, 1, left > 0 ? left / 1000000 : 0) != 1)
			return false;
		len = recv(fd, event, size - 2, 0);
		if (len < 0)
			return false;
		memset(event + len, 0, 2);
		if (uevent_has(event, line))
			return true;
	}
}

bool dump_read(char *text, size_t size)
{
	FILE *file = popen("\"$OPENREG_LIB/bin/openreg-dump\" 2>&1", "r");

	if (!file)
		return false;
	text[fread(text, 1, size - 1, file)] = 0;
	return !pclose(file);
}

bool dump_drop(void)
{
	__s64 end = now_ns() + 20 * SEC_NS;
	glob_t found;
	size_t i;

	if (!glob(DUMPS "/data", 0, NULL, &found)) {
		for (i = 0; i < found.gl_pathc; i++)
			file_put(found.gl_pathv[i], "1");
		globfree(&found);
	}
	/* The kernel removes the dump asynchronously, and takes no new one before. */
	while (!glob(DUMPS, 0, NULL, &found)) {
		globfree(&found);
		if (now_ns() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* Copies numbers to VRAM, adds them, and copies the sums back. */
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

int card_await(void)
{
	__s64 deadline = now_ns() + PATIENCE;
	int ret;

	do {
		ret = card_works();
		if (ret)
			usleep(1000);
	} while (ret && now_ns() < deadline);
	return ret;
}

static int monitor = -1;
static char input[65536]; /* bytes that were received and not read yet */
static size_t input_len;

/* Without udev, no link has the name of the port: search sysfs. */
static int open_port(void)
{
	char name[64], path[PATH_MAX];
	int fd = -ENOENT;
	glob_t found;
	size_t i;

	if (glob("/sys/class/virtio-ports/*/name", 0, NULL, &found))
		return -ENOENT;
	for (i = 0; i < found.gl_pathc; i++) {
		if (file_get(found.gl_pathv[i], name, sizeof(name)) ||
		    strcmp(name, MONITOR_PORT))
			continue;
		*strrchr(found.gl_pathv[i], '/') = 0;
		snprintf(path, sizeof(path), "/dev/%s",
			 strrchr(found.gl_pathv[i], '/') + 1);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	globfree(&found);
	return fd;
}

static bool read_line(char *line, size_t size, __s64 deadline)
{
	struct pollfd p = { .fd = monitor, .events = POLLIN };
	ssize_t got;
	char *end;

	while (!(end = memchr(input, '\n', input_len))) {
		if (now_ns() > deadline || input_len == sizeof(input))
			return false;
		if (poll(&p, 1, 100) <= 0 || !(p.revents & POLLIN))
			continue;
		got = read(monitor, input + input_len,
			   sizeof(input) - input_len);
		if (got < 0)
			return false;
		input_len += got;
	}
	*end = 0;
	snprintf(line, size, "%s", input);
	input_len -= end + 1 - input;
	memmove(input, end + 1, input_len);
	return true;
}

/* Skips answers to commands of an earlier test. */
bool monitor_command(const char *command, const char *arguments, char *answer,
		     size_t size)
{
	__s64 deadline = now_ns() + PATIENCE;
	static unsigned int number;
	char text[2048], id[64];
	int len;

	snprintf(id, sizeof(id), "\"id\": \"%d-%u\"", getpid(), ++number);
	len = snprintf(text, sizeof(text),
		       "{\"execute\": \"%s\", \"arguments\": {%s}, %s}\n",
		       command, arguments, id);
	if (write(monitor, text, len) != len)
		return false;
	while (read_line(answer, size, deadline))
		if (strstr(answer, id))
			return strstr(answer, "\"return\"");
	snprintf(answer, size, "no answer");
	return false;
}

bool monitor_open(void)
{
	char answer[1024];

	if (monitor < 0)
		monitor = open_port();
	if (monitor < 0)
		return false;
	/* This fails for all tests but the first. Ignore that. */
	monitor_command("qmp_capabilities", "", answer, sizeof(answer));
	return monitor_command("query-name", "", answer, sizeof(answer));
}

bool monitor_human(const char *line)
{
	char arguments[512], answer[4096];

	snprintf(arguments, sizeof(arguments), "\"command-line\": \"%s\"",
		 line);
	if (!monitor_command("human-monitor-command", arguments, answer,
			     sizeof(answer)))
		return false;
	if (!strstr(answer, "\"return\": \"\"") &&
	    !strstr(answer, "\"return\": \"OK")) {
		fprintf(stderr, "# %s: %s\n", line, answer);
		return false;
	}
	return true;
}

bool monitor_event(const char *event, const char *text)
{
	__s64 deadline = now_ns() + PATIENCE;
	char line[4096];

	while (read_line(line, sizeof(line), deadline))
		if (strstr(line, event) && strstr(line, text))
			return true;
	return false;
}
