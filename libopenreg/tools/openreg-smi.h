/* SPDX-License-Identifier: MIT */
/* The parts of openreg-smi. A card or a process may end between any two reads. */
#ifndef OPENREG_SMI_H
#define OPENREG_SMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MOST_CARDS 16
#define ALL_CARDS MOST_CARDS

/* A figure that cannot be read. */
#define UNKNOWN UINT64_MAX

struct memory {
	uint64_t vram, system, imported, registered; /* bytes */
};

struct card {
	unsigned int index;
	char name[24]; /* of the node in /dev */
	char pci[32];
	const char *state;
	char driver[64]; /* "" if unknown */
	uint64_t isa, workers;
	uint64_t vram_total;
	struct memory used; /* of all processes */
	uint64_t compute_ns, copy_ns; /* since the last reset */
	uint64_t queues, faults, resets;
	int64_t read_at; /* CLOCK_MONOTONIC, ns */
	uint64_t compute, copy; /* utilisation, in tenths of a percent */
};

/* An open device file, which processes may share. */
struct client {
	uint64_t id;
	unsigned int card;
	pid_t pid;
	struct memory used;
	uint64_t queues, workers, busy_ns;
	int64_t read_at;
};

/* All clients that a process has on a card. */
struct process {
	unsigned int card;
	pid_t pid;
	char name[32];
	struct memory used;
	uint64_t queues;
	uint64_t utilization; /* in tenths of a percent */
};

struct sample {
	int64_t begun_at; /* CLOCK_MONOTONIC, ns */
	struct card cards[MOST_CARDS];
	unsigned int num_cards;
	struct client *clients; /* by id */
	size_t num_clients, room;
	struct process *processes; /* by card and pid */
	size_t num_processes;
	unsigned int unreadable; /* processes with files that the user may not list */
	bool no_counters; /* the driver has none in sysfs */
};

/* openreg-smi.c */
int64_t now_ns(void);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Explains why the card, or any card, cannot be shown. */
_Noreturn void fail_without_card(unsigned int only);
/* Copies text; anything but printable ASCII becomes '?'. */
void copy_safely(char *to, size_t size, const char *text);

/* openreg-smi-cards.c; only: an index, or ALL_CARDS */
void read_cards(struct sample *s, unsigned int only);
void compare_cards(struct sample *now, const struct sample *before);

/* openreg-smi-processes.c */
void read_clients(struct sample *s);
void make_processes(struct sample *now, const struct sample *before);
/* Tenths of a percent that ns are of (to - from) * threads. */
uint64_t share(uint64_t ns, int64_t from, int64_t to, uint64_t threads);

/* openreg-smi-print.c */
/* Calls print() for each reason that a figure of the sample is unknown. */
void for_each_note(const struct sample *s, void (*print)(const char *text));
void print_table(const struct sample *s);
void print_dmon(const struct sample *s);
void print_pmon(const struct sample *s);

/* openreg-smi-json.c */
void print_json(const struct sample *s, int64_t interval_ns);

/* openreg-smi-topo.c */
void print_topo(unsigned int only);

#endif
