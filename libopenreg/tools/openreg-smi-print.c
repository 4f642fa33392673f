// SPDX-License-Identifier: MIT
/* The reports for people: the table, and the lines of dmon and pmon. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openreg.h>

#include "openreg-smi.h"

/* Lines between two heads of dmon and pmon. */
#define HEAD_EVERY 20

void for_each_note(const struct sample *s, void (*print)(const char *text))
{
	char text[128];

	if (s->no_counters)
		print("utilization, queues, faults and resets of a card: the driver is older than openreg-smi");
	if (!s->unreadable)
		return;
	snprintf(text, sizeof(text),
		 "processes and sums over processes: no permission to look into %u processes",
		 s->unreadable);
	print(text);
}

static void figure(int width, uint64_t value)
{
	if (value == UNKNOWN)
		printf(" %*s", width, "-");
	else
		printf(" %*" PRIu64, width, value);
}

/* Rounded up: no memory in use is shown as 0. */
static void mebibytes(int width, uint64_t bytes)
{
	figure(width, bytes == UNKNOWN ? bytes : (bytes + 0xfffff) >> 20);
}

static void percent(int width, uint64_t tenths)
{
	if (tenths == UNKNOWN)
		printf(" %*s", width, "-");
	else
		printf(" %*.1f", width, (double)tenths / 10);
}

static void other_memory(const struct memory *m)
{
	mebibytes(7, m->system);
	mebibytes(8, m->imported);
	mebibytes(10, m->registered);
}

static void print_title(const struct sample *s)
{
	const time_t now = time(NULL);
	const uint32_t version = openreg_version();
	char date[64];

	if (!strftime(date, sizeof(date), "%F %T", localtime(&now)))
		*date = 0;
	printf("openreg-smi %u.%u, driver %s, %s\n", version >> 16, version & 0xffff,
	       s->num_cards && *s->cards[0].driver ? s->cards[0].driver : "-", date);
}

static void print_card(const struct card *c)
{
	printf("%4u %-9s %-12s", c->index, c->name, c->pci);
	if (c->isa == UNKNOWN)
		printf(" %4s", "-");
	else
		printf(" %2u.%u", (unsigned int)c->isa >> 16, (unsigned int)c->isa & 0xffff);
	printf(" %-6s", c->state);
	percent(7, c->compute);
	percent(6, c->copy);
	mebibytes(6, c->used.vram);
	mebibytes(6, c->vram_total);
	other_memory(&c->used);
	figure(6, c->queues);
	figure(6, c->faults);
	figure(6, c->resets);
	putchar('\n');
}

static void print_process(const struct process *p)
{
	printf("%4u %7d %-15s", p->card, p->pid, p->name);
	percent(6, p->utilization);
	mebibytes(6, p->used.vram);
	other_memory(&p->used);
	figure(6, p->queues);
	putchar('\n');
}

static void print_note(const char *text)
{
	printf("- %s\n", text);
}

void print_table(const struct sample *s)
{
	print_title(s);
	puts("card name      PCI          ISA  state  compute   copy   VRAM  total"
	     "  system imported registered queues faults resets");
	puts("                                             %      %    MiB    MiB"
	     "     MiB      MiB        MiB");
	for (unsigned int i = 0; i < s->num_cards; i++)
		print_card(&s->cards[i]);
	if (!s->num_cards)
		puts("   - no card is left");
	puts("\ncard     pid name               use   VRAM  system imported registered queues");
	puts("                                  %    MiB     MiB      MiB        MiB");
	for (size_t i = 0; i < s->num_processes; i++)
		print_process(&s->processes[i]);
	if (!s->num_processes)
		puts("   - no process");
	for_each_note(s, print_note);
	putchar('\n');
}

static void print_comment(const char *text)
{
	printf("# - %s\n", text);
}

/* Prints the two lines and the notes before the first line, and then every so often. */
static void print_head(const struct sample *s, const char *names, const char *units)
{
	static unsigned int lines = HEAD_EVERY;

	if (lines++ < HEAD_EVERY)
		return;
	lines = 1;
	puts(names);
	puts(units);
	for_each_note(s, print_comment);
}

void print_dmon(const struct sample *s)
{
	for (unsigned int i = 0; i < s->num_cards; i++) {
		const struct card *c = &s->cards[i];

		print_head(s, "# card state  compute   copy   VRAM  system imported registered queues faults resets",
			   "#                   %      %    MiB     MiB      MiB        MiB");
		printf("%6u %-6s", c->index, c->state);
		percent(7, c->compute);
		percent(6, c->copy);
		mebibytes(6, c->used.vram);
		other_memory(&c->used);
		figure(6, c->queues);
		figure(6, c->faults);
		figure(6, c->resets);
		putchar('\n');
	}
}

static void print_pmon_head(const struct sample *s)
{
	print_head(s, "#card     pid name               use   VRAM  system imported registered queues",
		   "#                                   %    MiB     MiB      MiB        MiB");
}

/* A card without processes has a line too. */
void print_pmon(const struct sample *s)
{
	size_t k = 0;

	for (unsigned int i = 0; i < s->num_cards; i++) {
		const unsigned int index = s->cards[i].index;
		const size_t first = k;

		for (; k < s->num_processes && s->processes[k].card == index; k++) {
			print_pmon_head(s);
			putchar(' ');
			print_process(&s->processes[k]);
		}
		if (k > first)
			continue;
		print_pmon_head(s);
		printf("%5u %7s %-15s %6s %6s %7s %8s %10s %6s\n", index, "-",
		       "-", "-", "-", "-", "-", "-", "-");
	}
}
