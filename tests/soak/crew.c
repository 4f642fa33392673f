// SPDX-License-Identifier: GPL-2.0-only
/* Starts, kills and watches the clients. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "soak.h"

#define TURNS_MAX 300

static const char *const loads[] = SOAK_LOADS;
#define LOADS (sizeof(loads) / sizeof(loads[0]))

static struct member {
	pid_t pid; /* 0: none */
	bool killed;
	const char *load;
	uint64_t turns; /* last value read from the slot */
	long long since; /* time of its last change */
} members[SOAK_CLIENTS_MAX];
static bool stopping;

static void become_client(const struct soak *s, unsigned int i,
			  const char *load, uint64_t seed, uint64_t turns)
{
	char path[4096], fd[16], slot[16], seed_text[32], turns_text[32];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 16);

	if (len < 0)
		_exit(126);
	path[len] = 0;
	strcpy(strrchr(path, '/'), "/helper-client");
	snprintf(fd, sizeof(fd), "%d", s->shared_fd);
	snprintf(slot, sizeof(slot), "%u", i);
	snprintf(seed_text, sizeof(seed_text), "%llu",
		 (unsigned long long)seed);
	snprintf(turns_text, sizeof(turns_text), "%llu",
		 (unsigned long long)turns);
	execl(path, path, fd, slot, load, seed_text, turns_text, NULL);
	_exit(127);
}

static bool member_start(struct soak *s, unsigned int i)
{
	struct member *m = &members[i];
	const char *load = loads[soak_below(s, s->cards > 1 ? LOADS :
								   LOADS - 1)];
	const uint64_t seed = soak_below(s, UINT32_MAX);
	const uint64_t turns = 1 + soak_below(s, TURNS_MAX);
	pid_t pid = fork();

	if (pid < 0)
		return soak_fail(s, "fork: %s", strerror(errno));
	if (!pid)
		become_client(s, i, load, seed, turns);
	*m = (struct member) {
		.pid = pid,
		.load = load,
		.turns = s->shared->slots[i].turns,
		.since = now_ns(),
	};
	return true;
}

bool crew_start(struct soak *s)
{
	unsigned int i;

	stopping = false;
	for (i = 0; i < s->clients; i++)
		if (!member_start(s, i))
			return false;
	return true;
}

static void show_file(pid_t pid, const char *name)
{
	char path[64], text[4096];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "r");
	while (file && fgets(text, sizeof(text), file))
		printf("# %s: %s", name, text);
	if (file)
		fclose(file);
	printf("\n");
}

/* False if the client has completed no turn for stall_ns: it or the card hangs. */
static bool member_moves(struct soak *s, unsigned int i)
{
	struct member *m = &members[i];
	uint64_t turns = s->shared->slots[i].turns;

	if (turns != m->turns) {
		m->turns = turns;
		m->since = now_ns();
	}
	if (now_ns() - m->since < s->stall_ns)
		return true;
	show_file(m->pid, "wchan");
	show_file(m->pid, "stack");
	return soak_fail(s, "client %u (%s, process %d) has made no progress for %lld s",
			 i, m->load, m->pid, s->stall_ns / SEC_NS);
}

static bool member_ended(struct soak *s, unsigned int i, int status)
{
	struct member *m = &members[i];
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
		      m->killed;

	m->pid = 0;
	/* A new client may not have installed its handler for SIGTERM yet. */
	if (stopping && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
		return true;
	if (!killed && status)
		return soak_fail(s, "client %u (%s) ended with status %#x", i,
				 m->load, status);
	s->exits += !killed && !stopping;
	return stopping || member_start(s, i);
}

bool crew_look(struct soak *s)
{
	unsigned int i;
	int status;
	pid_t pid;

	for (i = 0; i < s->clients; i++) {
		if (!members[i].pid)
			continue;
		pid = waitpid(members[i].pid, &status, WNOHANG);
		if (pid < 0)
			return soak_fail(s, "waitpid: %s", strerror(errno));
		if (pid ? !member_ended(s, i, status) : !member_moves(s, i))
			return false;
	}
	return true;
}

pid_t crew_pid(unsigned int i)
{
	return members[i].pid;
}

bool crew_kill_one(struct soak *s)
{
	struct member *m = &members[soak_below(s, s->clients)];

	/* A client that has ended is replaced only in crew_look(). */
	if (!m->pid || m->killed)
		return true;
	m->killed = true;
	s->kills++;
	return !kill(m->pid, SIGKILL) || soak_fail(s, "kill: %s",
						   strerror(errno));
}

bool crew_stop(struct soak *s)
{
	unsigned int i, left;

	stopping = true;
	for (i = 0; i < s->clients; i++)
		if (members[i].pid)
			kill(members[i].pid, SIGTERM);
	do {
		usleep(2000);
		soak_tell(s);
		if (!crew_look(s))
			return false;
		for (i = left = 0; i < s->clients; i++)
			left += members[i].pid != 0;
	} while (left);
	return true;
}
