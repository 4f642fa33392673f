// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzzes the driver's ioctls, mappings and files; see README.md. Runs in a VM: any report
 * of the kernel fails the run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest/fail.h"
#include "run.h"

#define STUCK_NS (150 * SEC_NS)
#define TELL_NS (15 * SEC_NS)

struct shared *shared;

static uint64_t seed;
static unsigned int num_workers = 4, num_seeds;
static int kmsg = -1;

static void corpus_add(const struct program *program)
{
	uint32_t at = __atomic_fetch_add(&shared->num_corpus, 1,
					 __ATOMIC_RELAXED);

	if (at >= CORPUS_MAX)
		return;
	shared->corpus[at] = *program;
	__atomic_store_n(&shared->ready[at], 1, __ATOMIC_RELEASE);
}

static const struct program *corpus_any(struct random *random)
{
	uint32_t num = __atomic_load_n(&shared->num_corpus, __ATOMIC_RELAXED);
	uint32_t at;

	if (!num)
		return NULL;
	/* Prefer the newest programs. */
	at = random_below(random, num < CORPUS_MAX ? num : CORPUS_MAX);
	if (random_below(random, 2) && num < CORPUS_MAX)
		at = num - 1 - random_below(random, num < 32 ? num : 32);
	return __atomic_load_n(&shared->ready[at], __ATOMIC_ACQUIRE) ?
	       &shared->corpus[at] : NULL;
}

static int read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	struct program program;
	int ret;

	if (!file)
		return -errno;
	ret = program_read(&program, file);
	fclose(file);
	if (!ret && program.count)
		corpus_add(&program);
	return ret;
}

static int read_corpus(const char *dir)
{
	struct dirent *entry;
	char path[4096];
	DIR *list = opendir(dir);
	int ret = 0;

	if (!list)
		return -errno;
	while (!ret && (entry = readdir(list))) {
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		ret = read_file(path);
		if (ret)
			fprintf(stderr, "%s is no program\n", path);
	}
	closedir(list);
	return ret;
}

/* Writes the programs that are new since the last call. */
static void write_corpus(const char *dir)
{
	static uint32_t written;
	uint32_t i = written > num_seeds ? written : num_seeds;
	char path[4096];
	FILE *file;

	for (; i < CORPUS_MAX &&
	       __atomic_load_n(&shared->ready[i], __ATOMIC_ACQUIRE); i++) {
		snprintf(path, sizeof(path), "%s/%016llx-%u", dir,
			 (unsigned long long)seed, i);
		file = fopen(path, "w");
		if (!file)
			return;
		program_write(&shared->corpus[i], file);
		fclose(file);
		written = i + 1;
	}
}

static void choose(struct program *program, unsigned int number, uint64_t count)
{
	struct random random = { seed ^ (uint64_t)number << 56 ^ count << 8 };
	uint64_t at = count * num_workers + number;
	const struct program *some, *other;

	if (at < num_seeds) {
		*program = shared->corpus[at];
		return;
	}
	some = corpus_any(&random);
	other = corpus_any(&random);
	if (some && other && random_below(&random, 8)) {
		*program = *some;
		program_mutate(program, other, &random);
	} else {
		program_new(program, &random);
	}
}

static void work(unsigned int number)
{
	struct worker *worker = &shared->worker[number];
	struct program program;
	uint64_t count;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_init();
	if (!kcov_open() && !number)
		printf("# without KCOV\n");
	while (!shared->stop) {
		count = worker->count;
		choose(&program, number, count);
		worker->history[count % HISTORY] = program;
		worker->beat = now_ns();
		worker->count++;
		if (program_run(&program) &&
		    count * num_workers + number >= num_seeds)
			corpus_add(&program);
	}
	_exit(0);
}

static pid_t start(unsigned int number)
{
	pid_t pid;

	fflush(NULL);
	shared->worker[number].beat = now_ns();
	pid = fork();
	if (!pid)
		work(number);
	return pid;
}

static const char * const reports[] = {
	"WARNING: ", "BUG: ", "KASAN: ", "UBSAN: ", "INFO: ", "DMA-API: ",
	"ODEBUG: ", "refcount_t: ", "corruption", "general protection", "Oops",
};

/* True if the kernel has reported an error since the last call. */
static bool reported(void)
{
	char record[8192];
	bool found = false;
	unsigned int i;
	ssize_t len;

	while ((len = read(kmsg, record, sizeof(record) - 1)) > 0 ||
	       (len < 0 && errno == EPIPE)) {
		if (len < 0)
			continue;
		record[len] = 0;
		/* The injected failure hit an allocation of DMA debugging itself. */
		if (strstr(record, "DMA-API: cacheline tracking ENOMEM"))
			continue;
		for (i = 0; i < sizeof(reports) / sizeof(*reports); i++)
			found |= !!strstr(record, reports[i]);
	}
	return found;
}

static void tell_history(const char *why)
{
	unsigned int w, i;

	printf("%s; the last programs of each process, the newest last:\n", why);
	for (w = 0; w < num_workers; w++) {
		const struct worker *worker = &shared->worker[w];

		for (i = 0; i < HISTORY; i++) {
			const struct program *program = &worker->history
				[(worker->count + i) % HISTORY];

			if (!program->count)
				continue;
			printf("# process %u\n", w);
			program_write(program, stdout);
		}
	}
	fflush(stdout);
}

static void tell(void)
{
	printf("# %llu programs (%llu races), %llu calls, %llu ioctls, corpus %u, blocks %u, killed %llu, too slow %llu, lost %llu%s\n",
	       (unsigned long long)shared->programs,
	       (unsigned long long)shared->races,
	       (unsigned long long)shared->calls,
	       (unsigned long long)shared->ioctls, shared->num_corpus,
	       shared->num_pcs, (unsigned long long)shared->killed,
	       (unsigned long long)shared->hung,
	       (unsigned long long)shared->lost,
	       fail_dma_debug_is_off() ? ", DMA's debugging is off" : "");
	fflush(stdout);
}

static void tell_calls(void)
{
	unsigned int op;

	for (op = 0; op < OPS; op++)
		printf("#   %-16s %8llu calls, %8llu succeed\n", ops[op].name,
		       (unsigned long long)shared->op_calls[op],
		       (unsigned long long)shared->op_good[op]);
}

/* Watches the processes until end. Returns the text of a finding, or NULL. */
static const char *supervise(pid_t *pids, int64_t end, const char *out)
{
	int64_t told = now_ns();
	unsigned int i;

	while (now_ns() < end) {
		usleep(20000);
		if (reported())
			return "the kernel has reported something";
		for (i = 0; i < num_workers; i++) {
			if (waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
				shared->lost++;
				pids[i] = start(i);
			}
			if (now_ns() > (int64_t)shared->worker[i].beat + STUCK_NS)
				return "a process is stuck";
		}
		if (now_ns() > told + TELL_NS) {
			tell();
			if (out)
				write_corpus(out);
			told = now_ns();
		}
	}
	return NULL;
}

static void stop(pid_t *pids)
{
	int64_t end = now_ns() + 30 * SEC_NS;
	unsigned int i, left;

	shared->stop = true;
	do {
		usleep(100000);
		for (left = i = 0; i < num_workers; i++)
			left += !pids[i] ? 0 :
				waitpid(pids[i], NULL, WNOHANG) == pids[i] ?
				(pids[i] = 0) : 1;
	} while (left && now_ns() < end);
	for (i = 0; i < num_workers; i++)
		if (pids[i])
			kill(pids[i], SIGKILL);
}

static int card_computes(void)
{
	struct packet p;
	struct queue q;
	int ret, fd = card_open();

	if (fd < 0)
		return fd;
	ret = queue_create(fd, 64, &q);
	packet_nop(&p);
	if (!ret)
		ret = queue_wait(&q, queue_push(&q, &p), 20 * SEC_NS);
	close(fd);
	return ret;
}

static int prepare(void)
{
	int fd = open("/proc/sys/kernel/panic_on_oops", O_WRONLY | O_CLOEXEC);

	/* Do not panic at a report: this program prints the finding. */
	if (fd >= 0 && write(fd, "0", 1) != 1)
		return -errno;
	close(fd);
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg >= 0)
		lseek(kmsg, 0, SEEK_END);
	card_stat("objects"); /* mounts debugfs */
	return fail_available() ? fail_setup() : 0;
}

static int fuzz(unsigned int seconds, const char *out)
{
	struct card_usage before = card_usage();
	pid_t pids[WORKERS_MAX];
	const char *finding;
	unsigned int i;
	int ret = 0;

	printf("# seed 0x%llx, %u programs to begin with\n",
	       (unsigned long long)seed, num_seeds);
	for (i = 0; i < num_workers; i++)
		pids[i] = start(i);
	finding = supervise(pids, now_ns() + seconds * SEC_NS, out);
	if (finding)
		tell_history(finding);
	stop(pids);
	if (!finding && !card_settles(before))
		finding = "something is left behind";
	if (!finding && card_computes())
		finding = "the card does not work any more";
	if (!finding && reported())
		finding = "the kernel has reported something at the end";
	if (finding) {
		printf("# found: %s\n", finding);
		ret = 1;
	}
	tell_calls();
	tell();
	if (out)
		write_corpus(out);
	return ret;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: fuzz-ioctl [--seconds N] [--seed N] [--workers N] [--out DIR] CORPUS...\n"
		"       fuzz-ioctl --once FILE...\n");
	return 2;
}

/* Runs every program once, in order: earlier findings must be fixed. */
static int run_once(void)
{
	struct program program;
	unsigned int i;

	run_init();
	kcov_open();
	for (i = 0; i < num_seeds; i++) {
		program = shared->corpus[i];
		program_run(&program);
		if (reported()) {
			printf("# found by program %u\n", i);
			return 1;
		}
	}
	tell_calls();
	tell();
	return card_computes() ? 1 : 0;
}

int main(int argc, char **argv)
{
	unsigned int seconds = 60;
	const char *out = NULL;
	bool once = false;
	int i;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	seed = now_ns();
	for (i = 1; i < argc && *argv[i] == '-'; i++) {
		if (!strcmp(argv[i], "--once"))
			once = true;
		else if (i + 1 == argc)
			return usage();
		else if (!strcmp(argv[i], "--seconds"))
			seconds = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--workers"))
			num_workers = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--out"))
			out = argv[++i];
		else
			return usage();
	}
	if (!num_workers || num_workers > WORKERS_MAX)
		return usage();
	for (; i < argc; i++)
		if (once ? read_file(argv[i]) : read_corpus(argv[i]))
			return usage();
	num_seeds = shared->num_corpus;
	if (prepare()) {
		fprintf(stderr, "this kernel cannot inject failures\n");
		return 1;
	}
	return once ? run_once() : fuzz(seconds, out);
}
