// SPDX-License-Identifier: GPL-2.0-only
/* Resets through the bus or by a timeout, unplugs of all kinds, and suspend. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "../kselftest/ways.h"
#include "soak.h"

static char slot[64];

/* Selects a card for an event: between two events all cards are present. */
static bool choose(struct soak *s, unsigned int card)
{
	card_choose(card);
	return (slot_of_card(slot, sizeof(slot)) && !way_begin()) ||
	       soak_fail(s, "card %u is not there", card);
}

static bool choose_any(struct soak *s)
{
	return choose(s, s->cards > 1 ? soak_below(s, s->cards) : 0);
}

bool events_begin(struct soak *s)
{
	unsigned int i;

	if (!monitor_open())
		return soak_fail(s, "no monitor: scripts/vm --monitor");
	for (i = 0; i < s->cards; i++)
		if (!choose(s, i) || card_works())
			return soak_fail(s, "no card %u", i);
	return true;
}

/* Logs the event in the kernel's log, before its effects. */
static void begin(struct soak *s, const char *what)
{
	char text[64];

	snprintf(text, sizeof(text), "soak: card %u: %s\n", card_number(), what);
	file_put("/dev/kmsg", text);
	__atomic_add_fetch(&s->shared->begun[card_number()], 1,
			   __ATOMIC_SEQ_CST);
}

/* Waits until the card works again, for the next open. */
static bool end(struct soak *s, const char *what, int ret)
{
	if (ret)
		return soak_fail(s, "%s: %s", what, strerror(-ret));
	ret = card_await();
	if (ret)
		return soak_fail(s, "%s: the card does not come back: %s", what,
				 strerror(-ret));
	__atomic_store_n(&s->shared->over[card_number()],
			 s->shared->begun[card_number()], __ATOMIC_SEQ_CST);
	return true;
}

/* Waits for the driver's reset; uses the card, so that the driver notices earlier. */
static int await_reset(long long before)
{
	__s64 deadline = now_ns() + 100 * SEC_NS;

	while (card_stat("resets") == before) {
		card_works();
		if (now_ns() > deadline)
			return -ETIME;
	}
	return 0;
}

/* Makes the card unable to reach memory, so that commands of the driver time out. */
static int make_mute(long long before)
{
	__u16 command;
	int ret = driver_set_timeout("2000");

	if (!ret)
		ret = slot_command(slot, &command);
	if (!ret)
		ret = slot_set_command(slot, command & ~PCI_COMMAND_MASTER);
	if (!ret)
		ret = await_reset(before);
	return ret ? ret : driver_set_timeout("20000");
}

static int make_bus_error(long long before)
{
	char line[64];

	snprintf(line, sizeof(line), "pcie_aer_inject_error port%u DLP",
		 card_number());
	return monitor_human(line) ?
		       await_reset(before) : -EIO;
}

bool event_reset(struct soak *s)
{
	enum { MUTE, BUS_ERROR, BUS_RESET, RESETS };
	static const char *const names[] = { "a card that is mute",
					     "a fatal error of the bus",
					     "a reset by the bus" };
	unsigned int reset = soak_below(s, RESETS);
	long long before;
	int ret;

	if (!choose_any(s))
		return false;
	before = card_stat("resets");
	begin(s, names[reset]);
	if (reset == MUTE)
		ret = make_mute(before);
	else if (reset == BUS_ERROR)
		ret = make_bus_error(before);
	else
		ret = slot_put(slot, "reset", "1");
	s->resets++;
	return end(s, names[reset], ret);
}

bool event_unplug(struct soak *s)
{
	static const char *const names[] = { "unbound", "removed",
					     "removed by surprise",
					     "unplugged" };
	enum way way = soak_below(s, WAYS);
	int ret;

	if (!choose_any(s))
		return false;
	begin(s, names[way]);
	ret = way_go(way);
	if (!ret)
		ret = way_come(way);
	s->unplugs++;
	return end(s, names[way], ret);
}

bool event_sleep(struct soak *s)
{
	int ret;

	file_put("/dev/kmsg", "soak: the machine sleeps\n");
	ret = machine_sleep();
	if (ret)
		return soak_fail(s, "the machine does not sleep: %s",
				 strerror(-ret));
	s->sleeps++;
	return true;
}
