// SPDX-License-Identifier: GPL-2.0-only
// test hotplug: as power
/*
 * A card is plugged into a port that was empty when the machine started. Its VRAM must
 * fit the addresses that the firmware reserved for the port.
 */
#include "kselftest_harness.h"

#include "machine.h"

#define CARD "\"id\": \"late\""

FIXTURE(hotplug)
{
	int unused;
};

FIXTURE_SETUP(hotplug)
{
}

FIXTURE_TEARDOWN(hotplug)
{
}

TEST_F_TIMEOUT(hotplug, into_an_empty_port, 120)
{
	char answer[1024];

	ASSERT_EQ(0, card_works());
	ASSERT_TRUE(monitor_open());
	ASSERT_TRUE(monitor_command("device_add",
				    "\"driver\": \"openreg\", \"bus\": \"empty\", "
				    CARD, answer, sizeof(answer)))
		TH_LOG("%s", answer);
	card_choose(strtoul(getenv("OPENREG_CARDS"), NULL, 10));
	EXPECT_EQ(0, card_await());
	EXPECT_TRUE(monitor_command("device_del", CARD, answer,
				    sizeof(answer)));
	EXPECT_TRUE(monitor_event("DEVICE_DELETED", "\"late\""));
	card_choose(0);
	EXPECT_EQ(0, card_works());
}

TEST_HARNESS_MAIN
