// SPDX-License-Identifier: MIT
/* The report for programs. openreg-smi(1) documents the keys. */
#include <inttypes.h>
#include <stdio.h>

#include <openreg.h>

#include "openreg-smi.h"

static const char *comma;

/* All texts are printable ASCII: see copy_safely(). */
static void text(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void key(const char *name)
{
	printf("%s\"%s\":", comma, name);
	comma = ",";
}

static void key_text(const char *name, const char *value)
{
	key(name);
	if (*value)
		text(value);
	else
		printf("null");
}

static void key_number(const char *name, uint64_t value)
{
	key(name);
	if (value == UNKNOWN)
		printf("null");
	else
		printf("%" PRIu64, value);
}

static void key_percent(const char *name, uint64_t tenths)
{
	key(name);
	if (tenths == UNKNOWN)
		printf("null");
	else
		printf("%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
}

static void other_memory(const struct memory *m)
{
	key_number("system_bytes", m->system);
	key_number("imported_bytes", m->imported);
	key_number("registered_bytes", m->registered);
}

static void print_card(const struct card *c)
{
	char isa[32] = "";

	if (c->isa != UNKNOWN)
		snprintf(isa, sizeof(isa), "%u.%u", (unsigned int)c->isa >> 16,
			 (unsigned int)c->isa & 0xffff);
	key_number("index", c->index);
	key_text("name", c->name);
	key_text("pci", c->pci);
	key_text("state", c->state);
	key_text("driver", c->driver);
	key_text("isa", isa);
	key_number("workers", c->workers);
	key_percent("compute_percent", c->compute);
	key_percent("copy_percent", c->copy);
	key_number("vram_used_bytes", c->used.vram);
	key_number("vram_total_bytes", c->vram_total);
	other_memory(&c->used);
	key_number("queues", c->queues);
	key_number("faults", c->faults);
	key_number("resets", c->resets);
}

static void print_process(const struct process *p)
{
	key_number("card", p->card);
	key_number("pid", (uint64_t)p->pid);
	key_text("name", p->name);
	key_percent("utilization_percent", p->utilization);
	key_number("vram_bytes", p->used.vram);
	other_memory(&p->used);
	key_number("queues", p->queues);
}

static void open_object(bool first)
{
	printf(first ? "{" : ",{");
	comma = "";
}

static void print_note(const char *note)
{
	printf("%s", comma);
	text(note);
	comma = ",";
}

void print_json(const struct sample *s, int64_t interval_ns)
{
	char version[32];

	snprintf(version, sizeof(version), "%u.%u", openreg_version() >> 16,
		 openreg_version() & 0xffff);
	open_object(true);
	key_text("version", version);
	key("interval_seconds");
	printf("%" PRId64 ".%03" PRId64, interval_ns / 1000000000,
	       interval_ns / 1000000 % 1000);
	key("cards");
	putchar('[');
	for (unsigned int i = 0; i < s->num_cards; i++) {
		open_object(!i);
		print_card(&s->cards[i]);
		putchar('}');
	}
	printf("],\"processes\":[");
	for (size_t i = 0; i < s->num_processes; i++) {
		open_object(!i);
		print_process(&s->processes[i]);
		putchar('}');
	}
	printf("],\"notes\":[");
	comma = "";
	for_each_note(s, print_note);
	printf("]}\n");
}
