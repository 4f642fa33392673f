// SPDX-License-Identifier: GPL-2.0-only
/* Compares the figures of openreg-smi with what the clients count themselves. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "soak.h"

#define COMMAND "openreg-smi --json"
#define REPORT 65536 /* bytes; 64 processes take 15,000 */

/* A client that has ended is replaced by one that pauses before its first turn. */
static bool await_pause(struct soak *s)
{
	unsigned int i;

	do {
		usleep(2000);
		soak_tell(s);
		if (!crew_look(s))
			return false;
		for (i = 0; i < s->clients; i++)
			if (!crew_pid(i) ||
			    s->shared->slots[i].own.pid != crew_pid(i))
				break;
	} while (i < s->clients);
	return true;
}

static bool read_report(struct soak *s, char *report)
{
	FILE *smi = popen(COMMAND, "r");
	size_t n = smi ? fread(report, 1, REPORT - 1, smi) : 0;

	report[n] = 0;
	if (!smi || pclose(smi) || n == REPORT - 1)
		return soak_fail(s, COMMAND " has failed: %s", report);
	return true;
}

/* The number behind "name": in the object at this place, or -1. */
static long long number(const char *object, const char *name)
{
	const char *end = strchr(object, '}'), *at;
	char key[64];

	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(object, key);
	if (!at || at > end || strspn(at + strlen(key), "0123456789") == 0)
		return -1;
	return strtoll(at + strlen(key), NULL, 10);
}

/* The object with these members in the list at this place, or NULL. */
static const char *find(const char *list, const char *name, long long value,
			const char *card, long long number_of_card)
{
	const char *end = strchr(list, ']'), *object;

	for (object = strchr(list, '{'); object && object < end;
	     object = strchr(object + 1, '{'))
		if (number(object, name) == value &&
		    number(object, card) == number_of_card)
			return object;
	return NULL;
}

static bool compare_client(struct soak *s, const struct soak_own *own,
			   const char *processes)
{
	const char *row = find(processes, "pid", own->pid, "card", own->card);

	if (!row)
		return soak_fail(s, COMMAND " does not show process %d on card %u",
				 own->pid, own->card);
	if (number(row, "queues") != own->queues ||
	    (own->vram != UINT64_MAX &&
	     (uint64_t)number(row, "vram_bytes") != own->vram))
		return soak_fail(s, "process %d has %u queues and %" PRIu64
				 " bytes of VRAM, but " COMMAND " shows %.*s",
				 own->pid, own->queues, own->vram,
				 (int)strcspn(row, "}") + 1, row);
	s->compared++;
	return true;
}

static bool compare_card(struct soak *s, unsigned int card, const char *cards)
{
	const char *row = find(cards, "index", card, "index", card);
	long long resets;

	card_choose(card);
	resets = card_stat("resets");
	if (row && number(row, "resets") == resets)
		return true;
	return soak_fail(s, "card %u was reset %lld times, but " COMMAND " shows %.*s",
			 card, resets, row ? (int)strcspn(row, "}") + 1 : 7,
			 row ? row : "nothing");
}

static bool compare(struct soak *s)
{
	static char report[REPORT];
	const char *cards, *processes;
	unsigned int i;

	if (!read_report(s, report))
		return false;
	cards = strstr(report, "\"cards\":[");
	processes = strstr(report, "\"processes\":[");
	if (!cards || !processes)
		return soak_fail(s, COMMAND " prints no lists: %s", report);
	for (i = 0; i < s->cards; i++)
		if (!compare_card(s, i, cards))
			return false;
	for (i = 0; i < s->clients; i++)
		if (!compare_client(s, &s->shared->slots[i].own, processes))
			return false;
	return true;
}

bool smi_look(struct soak *s)
{
	bool good;

	s->shared->pause = 1;
	good = await_pause(s) && compare(s);
	s->shared->pause = 0;
	return good;
}
