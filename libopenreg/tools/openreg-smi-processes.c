// SPDX-License-Identifier: MIT
/*
 * Which processes have cards open: one pass over /proc, which opens the fdinfo of
 * device files only. Any process may end during the pass.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "openreg-smi.h"

uint64_t share(uint64_t ns, int64_t from, int64_t to, uint64_t threads)
{
	double part;

	if (to <= from || !threads || threads == UNKNOWN)
		return UNKNOWN;
	part = 1000.0 * (double)ns / ((double)(to - from) * (double)threads);
	return part < 1000 ? (uint64_t)(part + 0.5) : 1000;
}

static struct client *add_client(struct sample *s)
{
	if (s->num_clients == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->clients = realloc(s->clients, s->room * sizeof(*s->clients));
		if (!s->clients)
			fail("out of memory");
	}
	return &s->clients[s->num_clients++];
}

/* Returns the number of bytes read, without the terminating 0; 0 if the file is gone. */
static size_t read_file(int dir, const char *path, char *text, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 0;

	while (fd >= 0 && n < size - 1 &&
	       (got = read(fd, text + n, size - 1 - n)) > 0)
		n += (size_t)got;
	if (fd >= 0)
		close(fd);
	text[n] = 0;
	return got < 0 ? 0 : n;
}

/* The value of the line "name:\tvalue" in fdinfo, or NULL. */
static const char *find_line(const char *text, const char *name)
{
	const size_t n = strlen(name);

	while (text) {
		if (!strncmp(text, name, n) && text[n] == ':')
			return text + n + 1 + strspn(text + n + 1, " \t");
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return NULL;
}

/* A number, in bytes if its unit is KiB or MiB. */
static uint64_t find_number(const char *text, const char *name)
{
	const char *value = find_line(text, name);
	uint64_t number;
	char *end;

	if (!value || *value < '0' || *value > '9')
		return UNKNOWN;
	number = strtoull(value, &end, 10);
	if (!strncmp(end, " KiB", 4))
		return number << 10;
	if (!strncmp(end, " MiB", 4))
		return number << 20;
	return number;
}

static bool line_is(const char *text, const char *name, const char *expected)
{
	const char *value = find_line(text, name);
	const size_t n = strlen(expected);

	return value && !strncmp(value, expected, n) && value[n] == '\n';
}

static void read_client(struct sample *s, int proc, pid_t pid, const char *fd)
{
	char path[64], text[4096];
	uint64_t capacity;
	struct client *c;

	snprintf(path, sizeof(path), "%d/fdinfo/%.20s", pid, fd);
	if (!read_file(proc, path, text, sizeof(text)) ||
	    !line_is(text, "drm-driver", "openreg"))
		return;
	/* The workers and the copy thread. */
	capacity = find_number(text, "drm-engine-capacity-card");
	for (unsigned int i = 0; i < s->num_cards; i++) {
		if (!line_is(text, "drm-pdev", s->cards[i].pci))
			continue;
		c = add_client(s);
		*c = (struct client){
			.id = find_number(text, "drm-client-id"),
			.card = s->cards[i].index,
			.pid = pid,
			.used = {
				.vram = find_number(text, "drm-total-vram"),
				.system = find_number(text, "drm-total-system"),
				.imported = find_number(text, "openreg-imported"),
				.registered = find_number(text, "drm-total-user"),
			},
			.queues = find_number(text, "openreg-queues"),
			.workers = capacity == UNKNOWN ? UNKNOWN : capacity - 1,
			.busy_ns = find_number(text, "drm-engine-card"),
			.read_at = now_ns(),
		};
	}
}

/* The node of a removed card is "deleted"; a new card may have its PCI address. */
static bool is_node(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && !strstr(name, " (deleted)") &&
	       (!strncmp(name, "/openreg", 8) || !strncmp(name, "/accel", 6));
}

static void read_process(struct sample *s, int proc, pid_t pid)
{
	struct dirent *entry;
	char path[256];
	ssize_t n;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%d/fd", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		s->unreadable += errno == EACCES || errno == EPERM;
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		n = readlinkat(fd, entry->d_name, path, sizeof(path) - 1);
		if (n <= 0)
			continue;
		path[n] = 0;
		if (is_node(path))
			read_client(s, proc, pid, entry->d_name);
	}
	closedir(dir);
}

static int by_id(const void *left, const void *right)
{
	const struct client *a = left, *b = right;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return (a->pid > b->pid) - (a->pid < b->pid);
}

/* A file that processes share counts once, for the process with the lowest number. */
static void drop_doubles(struct sample *s)
{
	size_t n = 0;

	if (s->num_clients)
		qsort(s->clients, s->num_clients, sizeof(*s->clients), by_id);
	for (size_t i = 0; i < s->num_clients; i++)
		if (!n || s->clients[i].id != s->clients[n - 1].id)
			s->clients[n++] = s->clients[i];
	s->num_clients = n;
}

void read_clients(struct sample *s)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	if (!dir)
		fail("cannot read /proc: %s", strerror(errno));
	while ((entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			read_process(s, dirfd(dir), atoi(entry->d_name));
	closedir(dir);
	drop_doubles(s);
}

static const struct client *find_client(const struct sample *s, uint64_t id)
{
	size_t low = 0, high = s->num_clients;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->clients[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->num_clients && s->clients[low].id == id ?
		       &s->clients[low] : NULL;
}

/* A new client has done all its work since the pass before. */
static uint64_t utilization(const struct client *c, const struct sample *before)
{
	const struct client *old;

	if (!before || c->busy_ns == UNKNOWN)
		return UNKNOWN;
	old = find_client(before, c->id);
	if (!old)
		return share(c->busy_ns, before->begun_at, c->read_at, c->workers);
	if (old->busy_ns > c->busy_ns)
		return UNKNOWN;
	return share(c->busy_ns - old->busy_ns, old->read_at, c->read_at, c->workers);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a == UNKNOWN || b == UNKNOWN ? UNKNOWN : a + b;
}

static void add_memory(struct memory *to, const struct memory *m)
{
	to->vram = sum(to->vram, m->vram);
	to->system = sum(to->system, m->system);
	to->imported = sum(to->imported, m->imported);
	to->registered = sum(to->registered, m->registered);
}

static int by_process(const void *left, const void *right)
{
	const struct process *a = left, *b = right;

	if (a->card != b->card)
		return a->card < b->card ? -1 : 1;
	return (a->pid > b->pid) - (a->pid < b->pid);
}

static void read_name(struct process *p)
{
	char path[32], name[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
	if (!read_file(AT_FDCWD, path, name, sizeof(name)))
		strcpy(name, "?");
	/* The kernel ends the name with a line feed; the name may contain others. */
	else if (name[strlen(name) - 1] == '\n')
		name[strlen(name) - 1] = 0;
	copy_safely(p->name, sizeof(p->name), name);
}

/* Joins the rows of each process and card. */
static void join(struct sample *s)
{
	size_t n = 0;

	if (s->num_processes)
		qsort(s->processes, s->num_processes, sizeof(*s->processes),
		      by_process);
	for (size_t i = 0; i < s->num_processes; i++) {
		struct process *last = n ? &s->processes[n - 1] : NULL;
		const struct process *p = &s->processes[i];

		if (!last || by_process(last, p)) {
			s->processes[n++] = *p;
			continue;
		}
		add_memory(&last->used, &p->used);
		last->queues = sum(last->queues, p->queues);
		last->utilization = sum(last->utilization, p->utilization);
		if (last->utilization != UNKNOWN && last->utilization > 1000)
			last->utilization = 1000;
	}
	s->num_processes = n;
	for (size_t i = 0; i < n; i++)
		read_name(&s->processes[i]);
}

/* The driver knows a card's VRAM; other memory is the sum over all processes. */
static void add_to_cards(struct sample *s)
{
	for (unsigned int i = 0; i < s->num_cards && !s->unreadable; i++) {
		const uint64_t vram = s->cards[i].used.vram;
		struct memory total = { 0 };

		for (size_t k = 0; k < s->num_processes; k++)
			if (s->processes[k].card == s->cards[i].index)
				add_memory(&total, &s->processes[k].used);
		s->cards[i].used = total;
		s->cards[i].used.vram = vram;
	}
}

void make_processes(struct sample *now, const struct sample *before)
{
	free(now->processes);
	now->processes = calloc(now->num_clients + 1, sizeof(*now->processes));
	if (!now->processes)
		fail("out of memory");
	now->num_processes = now->num_clients;
	for (size_t i = 0; i < now->num_clients; i++) {
		const struct client *c = &now->clients[i];

		now->processes[i] = (struct process){
			.card = c->card,
			.pid = c->pid,
			.used = c->used,
			.queues = c->queues,
			.utilization = utilization(c, before),
		};
	}
	join(now);
	add_to_cards(now);
}
