// SPDX-License-Identifier: MIT
/* Prints the cards of this machine, the processes that use them, and their load. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openreg.h>

#include "openreg-smi.h"

#define SECOND 1000000000LL
#define FIRST_INTERVAL (SECOND / 10)

enum view { VIEW_TABLE, VIEW_DMON, VIEW_PMON, VIEW_TOPO };

struct options {
	enum view view;
	bool json;
	unsigned int only; /* index of a card, or ALL_CARDS */
	int64_t interval; /* ns, or 0: report once */
	unsigned long count; /* reports, or 0: no limit */
};

static const char usage[] =
	"usage: openreg-smi [-i CARD] [-l SECONDS] [-c COUNT] [--json]\n"
	"       openreg-smi dmon|pmon [-i CARD] [-l SECONDS] [-c COUNT]\n"
	"       openreg-smi topo [-i CARD]\n"
	"prints the openreg cards of this machine, the processes that use them and their load\n"
	"  dmon, pmon   one line for each card, or process, in each interval\n"
	"  topo         which cards reach the memory of which others\n"
	"  -i CARD      only this card, the N of /dev/openregN (0 for /dev/openreg)\n"
	"  -l SECONDS   repeat; dmon and pmon repeat each second without this\n"
	"  -c COUNT     end after COUNT reports\n"
	"  --json       one JSON object for each report, on a line\n";

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

void fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("openreg-smi: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static _Noreturn void refuse(const char *what, const char *text)
{
	fprintf(stderr, "openreg-smi: %s%s\n%s", what, text, usage);
	exit(2);
}

void copy_safely(char *to, size_t size, const char *text)
{
	size_t n = 0;

	for (; text[n] && n + 1 < size; n++)
		to[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	to[n] = 0;
}

static unsigned long parse_number(const char *text, unsigned long most)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value > most)
		refuse("not a number in range: ", text);
	return value;
}

static int64_t parse_seconds(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < 0.1 ||
	    value > 1e6)
		refuse("not 0.1 to 1000000 seconds: ", text);
	return (int64_t)(value * SECOND);
}

static enum view parse_view(const char *text)
{
	static const char * const names[] = { "", "dmon", "pmon", "topo" };

	for (enum view view = VIEW_DMON; view <= VIEW_TOPO; view++)
		if (!strcmp(text, names[view]))
			return view;
	refuse("no such command: ", text);
}

static void parse_option(struct options *o, int letter)
{
	switch (letter) {
	case 'i':
		o->only = (unsigned int)parse_number(optarg, MOST_CARDS - 1);
		break;
	case 'l':
		o->interval = parse_seconds(optarg);
		break;
	case 'c':
		o->count = parse_number(optarg, 1000000000);
		if (!o->count)
			refuse("not a number of reports: ", optarg);
		break;
	case 'j':
		o->json = true;
		break;
	case 'h':
		fputs(usage, stdout);
		exit(fflush(stdout) ? 1 : 0);
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "id", required_argument, NULL, 'i' },
		{ "loop", required_argument, NULL, 'l' },
		{ "count", required_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .only = ALL_CARDS };
	int letter;

	while ((letter = getopt_long(argc, argv, "i:l:c:h", names, NULL)) != -1)
		parse_option(&o, letter);
	if (optind < argc)
		o.view = parse_view(argv[optind++]);
	if (optind < argc)
		refuse("one argument too many: ", argv[optind]);
	if (o.json && o.view != VIEW_TABLE)
		refuse("--json is for the report without a command", "");
	if (o.view == VIEW_TOPO && (o.interval || o.count))
		refuse("topo prints once: it takes no -l and no -c", "");
	if ((o.count || o.view != VIEW_TABLE) && !o.interval)
		o.interval = SECOND;
	return o;
}

static void flush(void)
{
	if (fflush(stdout) || ferror(stdout))
		fail("cannot write to standard output: %s", strerror(errno));
}

/* File descriptors 0 to 2 must exist: a file that we open would take a missing number. */
static void check_files(void)
{
	if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
		fail("cannot write to standard output: %s", strerror(errno));
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			exit(1);
}

static void check_transport(void)
{
	const char *name = getenv("OPENREG_TRANSPORT");

	if (name && !strcmp(name, "sim"))
		fail("OPENREG_TRANSPORT=sim: other processes cannot see a card inside a process; unset the variable to see the cards of the machine");
}

void fail_without_card(unsigned int only)
{
	struct openreg_device *dev;
	char path[32] = "/dev/openreg";

	if (only != ALL_CARDS && only)
		snprintf(path, sizeof(path), "/dev/openreg%u", only);
	if (!openreg_device_open_path(path, &dev)) {
		openreg_device_close(dev);
		fail("%s has just appeared: try again", path);
	}
	fail("%s", openreg_last_error());
}

static void sample(struct sample *s, const struct sample *before, unsigned int only)
{
	struct client *clients = s->clients;
	struct process *processes = s->processes;
	size_t room = s->room;

	*s = (struct sample){ .clients = clients, .room = room, .processes = processes };
	s->begun_at = now_ns();
	read_cards(s, only);
	read_clients(s);
	make_processes(s, before);
	if (before)
		compare_cards(s, before);
}

static void sleep_until(int64_t time)
{
	const struct timespec ts = { time / SECOND, time % SECOND };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void report(const struct options *o, const struct sample *now, const struct sample *before)
{
	if (o->json)
		print_json(now, now->begun_at - before->begun_at);
	else if (o->view == VIEW_DMON)
		print_dmon(now);
	else if (o->view == VIEW_PMON)
		print_pmon(now);
	else
		print_table(now);
	flush();
}

static void watch(const struct options *o)
{
	static struct sample samples[2];
	unsigned int now = 0;
	int64_t next;

	sample(&samples[now], NULL, o->only);
	if (!samples[now].num_cards)
		fail_without_card(o->only);
	next = samples[now].begun_at + FIRST_INTERVAL;
	for (unsigned long n = 1;; n++) {
		sleep_until(next);
		now = !now;
		sample(&samples[now], &samples[!now], o->only);
		report(o, &samples[now], &samples[!now]);
		if (!o->interval || n == o->count)
			return;
		next += o->interval;
		if (next < now_ns())
			next = now_ns() + o->interval;
	}
}

int main(int argc, char **argv)
{
	struct options o;

	check_files();
	signal(SIGPIPE, SIG_DFL);
	o = parse(argc, argv);
	check_transport();
	if (o.view != VIEW_TOPO) {
		watch(&o);
		return 0;
	}
	print_topo(o.only);
	flush();
	return 0;
}
