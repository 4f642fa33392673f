// SPDX-License-Identifier: MIT
/*
 * Environment variables that configure the cards. The library reads them once, so every
 * case runs in its own child.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

struct setting {
	const char *name;
	const char *value;
};

/* Exit status of probe in a child with these settings. */
static int in_child(const struct setting *settings, int (*probe)(const void *),
		    const void *arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		for (; settings->name; settings++)
			setenv(settings->name, settings->value, 1);
		_exit(probe(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* 0 if the open fails and its error text contains part. */
static int refused(const void *part)
{
	struct openreg_device *dev;

	if (openreg_device_count() != 0)
		return 1;
	if (openreg_device_open(0, &dev) >= 0)
		return 2;
	if (strstr(openreg_last_error(), part))
		return 0;
	fprintf(stderr, "# %s\n", openreg_last_error());
	return 3;
}

static int refused_with(const char *name, const char *value, const char *part)
{
	const struct setting s[] = { { name, value }, { NULL, NULL } };

	return in_child(s, refused, part);
}

static void test_bad_values(void **state)
{
	static const char *const vram[] = { "0",  "-1", "1M",  "3M",   "x",
					    "2T", "1 G", "512G", "2Mb",
					    "99999999999999999999" };
	static const char *const cards[] = { "-1", "17", "one", "1K", "1.5" };
	static const char *const workers[] = { "0", "65", "two" };
	static const char *const slow[] = { "-1", "100001", "10us" };
	static const char *const checks[] = { "races", "race,all", "race init" };

	(void)state;
	for (size_t i = 0; i < COUNT(vram); i++)
		assert_int_equal(refused_with("OPENREG_SIM_VRAM", vram[i],
					      "OPENREG_SIM_VRAM is"), 0);
	for (size_t i = 0; i < COUNT(cards); i++)
		assert_int_equal(refused_with("OPENREG_SIM_CARDS", cards[i],
					      "OPENREG_SIM_CARDS is"), 0);
	for (size_t i = 0; i < COUNT(workers); i++)
		assert_int_equal(refused_with("OPENREG_SIM_WORKERS", workers[i],
					      "OPENREG_SIM_WORKERS is"), 0);
	for (size_t i = 0; i < COUNT(slow); i++)
		assert_int_equal(refused_with("OPENREG_SIM_SLOW_US", slow[i],
					      "OPENREG_SIM_SLOW_US is"), 0);
	for (size_t i = 0; i < COUNT(checks); i++)
		assert_int_equal(refused_with("OPENREG_CHECK", checks[i],
					      "race, init and bounds"), 0);
}

static void test_no_cards(void **state)
{
	(void)state;
	assert_int_equal(refused_with("OPENREG_SIM_CARDS", "0",
				      "set OPENREG_SIM_CARDS"), 0);
}

static void test_bad_transport(void **state)
{
	(void)state;
	assert_int_equal(refused_with("OPENREG_TRANSPORT", "qemu",
				      "set it to 'kernel'"), 0);
	/*
	 * The default is the kernel's device. Without a card the error text names the
	 * other transport, too.
	 */
	if (access("/dev/openreg", F_OK))
		assert_int_equal(refused_with("OPENREG_TRANSPORT", "",
					      "OPENREG_TRANSPORT=sim"), 0);
}

struct wanted {
	int cards;
	uint64_t vram;
	uint32_t workers;
};

static int has(const void *arg)
{
	const struct wanted *w = arg;
	struct openreg_device_info info;
	struct openreg_device *dev;

	if (openreg_device_count() != w->cards)
		return 1;
	for (int i = 0; i < w->cards; i++) {
		if (openreg_device_open((unsigned int)i, &dev))
			return 2;
		openreg_device_get_info(dev, &info);
		if (info.vram_size != w->vram || info.workers != w->workers ||
		    info.card != (unsigned int)i)
			return 3;
		openreg_device_close(dev);
	}
	return 0;
}

static void test_values(void **state)
{
	const struct setting s[] = { { "OPENREG_SIM_CARDS", "3" },
				     { "OPENREG_SIM_VRAM", "64M" },
				     { "OPENREG_SIM_WORKERS", "1" },
				     { NULL, NULL } };
	const struct wanted w = { 3, 64 << 20, 1 };

	(void)state;
	assert_int_equal(in_child(s, has, &w), 0);
}

struct order {
	int count;
	uint32_t cards[3];
};

static int in_order(const void *arg)
{
	const struct order *o = arg;
	struct openreg_device_info info;
	struct openreg_device *dev;

	if (openreg_device_count() != o->count)
		return 1;
	for (int i = 0; i < o->count; i++) {
		if (openreg_device_open((unsigned int)i, &dev))
			return 2;
		openreg_device_get_info(dev, &info);
		if (info.card != o->cards[i])
			return 3;
		openreg_device_close(dev);
	}
	if (openreg_device_open((unsigned int)o->count, &dev) != -ENODEV)
		return 4;
	return !strstr(openreg_last_error(), "OPENREG_VISIBLE_DEVICES=");
}

static void test_visible(void **state)
{
	static const struct {
		const char *text;
		struct order order;
	} cases[] = {
		{ "2,0", { 2, { 2, 0 } } },    { "1", { 1, { 1 } } },
		{ " 1 , 2", { 2, { 1, 2 } } }, { "0,1,2", { 3, { 0, 1, 2 } } },
		{ "", { 0, { 0 } } },	       { " ", { 0, { 0 } } },
		{ "-1", { 0, { 0 } } },	       { "none", { 0, { 0 } } },
		{ "0,3,1", { 1, { 0 } } },     { "1,-1,0", { 1, { 1 } } },
		{ "0,1x,2", { 1, { 0 } } },    { "0,,1", { 1, { 0 } } },
		{ "0,1,0", { 0, { 0 } } },     { "0,99999999999999999999", { 1, { 0 } } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct setting s[] = {
			{ "OPENREG_SIM_CARDS", "3" },
			{ "OPENREG_VISIBLE_DEVICES", cases[i].text },
			{ NULL, NULL }
		};

		assert_int_equal(in_child(s, in_order, &cases[i].order), 0);
	}
}

static int too_much(const void *arg)
{
	struct card c;
	struct openreg_bo *bo;

	(void)arg;
	if (openreg_device_open(0, &c.dev))
		return 1;
	if (openreg_bo_alloc(c.dev, 64 << 20, OPENREG_BO_VRAM, &bo))
		return 2;
	if (openreg_bo_alloc(c.dev, 4096, OPENREG_BO_VRAM, &bo) != -ENOSPC)
		return 3;
	return !strstr(openreg_last_error(), "set OPENREG_SIM_VRAM");
}

static void test_full(void **state)
{
	const struct setting s[] = { { "OPENREG_SIM_VRAM", "64M" },
				     { NULL, NULL } };

	(void)state;
	assert_int_equal(in_child(s, too_much, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_no_cards),
		cmocka_unit_test(test_bad_transport),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_visible),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
