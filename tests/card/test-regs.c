/* SPDX-License-Identifier: MIT */
/* Registers, enabling and disabling, limits of the configuration. */
#include <string.h>

#include "host.h"

static void test_constants(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reg(rig, OPENREG_REG_MAGIC), OPENREG_MAGIC);
	assert_int_equal(rig_reg(rig, OPENREG_REG_VERSION),
			 OPENREG_ISA_MAJOR << 16 | OPENREG_ISA_MINOR);
	assert_int_equal(rig_reg(rig, OPENREG_REG_WORKERS), 2);
	assert_int_equal(rig_reg(rig, OPENREG_REG_MAX_WORK), 36);
	assert_int_equal(rig_reg(rig, OPENREG_REG_PAGE_SHIFTS), 0x201000);
	assert_int_equal(rig_reg(rig, OPENREG_REG_VECTORS), 32);
	assert_int_equal(rig_reg(rig, OPENREG_REG_DOORBELLS), 64);
	assert_int_equal(openreg_card_reg_read(rig->card,
					       OPENREG_REG_VRAM_SIZE, 8),
			 HOST_VRAM);
	assert_int_equal(rig_reg(rig, OPENREG_REG_DTYPES), 0xfffe);
	assert_int_equal(rig_reg(rig, OPENREG_REG_PACKETS), 0x3ffff);
	assert_int_equal(rig_reg(rig, OPENREG_REG_PACKETS + 4), 0);
}

static void test_clock_runs(void **state)
{
	struct rig *rig = *state;
	uint64_t a, b;

	a = openreg_card_reg_read(rig->card, OPENREG_REG_CLOCK, 8);
	WAIT_FOR(openreg_card_reg_read(rig->card, OPENREG_REG_CLOCK, 8) > a);
	b = rig_reg(rig, OPENREG_REG_CLOCK + 4);
	assert_true(b >= a >> 32);
}

static void test_odd_accesses(void **state)
{
	struct rig *rig = *state;
	unsigned int before = atomic_load(&rig->bus.guest_errors);
	uint32_t off;

	assert_int_equal(openreg_card_reg_read(rig->card, 1, 4), 0);
	assert_int_equal(openreg_card_reg_read(rig->card, 0, 2), 0);
	assert_int_equal(openreg_card_reg_read(rig->card, 4, 8), 0);
	openreg_card_reg_write(rig->card, 2, 1, 4);
	openreg_card_reg_write(rig->card, OPENREG_REG_MAGIC, 1, 4);
	openreg_card_reg_write(rig->card, OPENREG_REG_ADMIN_BASE, 1, 8);
	assert_int_equal(atomic_load(&rig->bus.guest_errors), before + 7);
	for (off = 0; off < OPENREG_BAR_REGS_SIZE; off += 4)
		rig_reg(rig, off);
	assert_int_equal(rig_reg(rig, 0x7000), 0);
	assert_int_equal(rig_reg(rig, OPENREG_REG_MAGIC), OPENREG_MAGIC);
	openreg_card_doorbell(rig->card, 1u << 30);
}

static void test_card_id(void **state)
{
	struct rig *rig = *state;

	openreg_card_reg_write(rig->card, OPENREG_REG_CARD_ID, 0x1b, 4);
	assert_int_equal(rig_reg(rig, OPENREG_REG_CARD_ID), 0xb);
	openreg_card_reg_write(rig->card, OPENREG_REG_CARD_ID, 0, 4);
}

static void wait_status(struct rig *rig, uint32_t status)
{
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STATUS) == status);
}

static void set_control(struct rig *rig, uint32_t value)
{
	openreg_card_reg_write(rig->card, OPENREG_REG_CONTROL, value, 4);
}

/* Disabling drops all state; the card can be enabled again as a new one. */
static void test_disable(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 3, 0), 0);
	tq_create(rig, &q, 3, 9);
	set_control(rig, 0);
	wait_status(rig, 0);
	assert_int_equal(atomic_load(&rig->bus.mappings), 0);
	rig_enable(rig);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 3, 0),
			 OPENREG_ADMIN_ENOENT);
}

/* Disabling and enabling before the card notices also drops all state. */
static void test_toggle(void **state)
{
	struct rig *rig = *state;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 3, 0), 0);
		rig_pause(rig);
		set_control(rig, 0);
		set_control(rig, OPENREG_CONTROL_ENABLE);
		assert_int_equal(rig_reg(rig, OPENREG_REG_CONTROL),
				 OPENREG_CONTROL_ENABLE);
		openreg_card_resume(rig->card);
		WAIT_FOR(!rig_reg(rig, OPENREG_REG_ADMIN_TAIL) &&
			 rig_reg(rig, OPENREG_REG_STATUS) ==
				 OPENREG_STATUS_READY);
		rig->client.tail = 0;
		memset(rig_ptr(rig, rig->client.cpls), 0,
		       HOST_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl));
	}
}

/* Enabling resets counters that were written before. */
static void test_counters(void **state)
{
	struct rig *rig = *state;

	set_control(rig, 0);
	wait_status(rig, 0);
	openreg_card_reg_write(rig->card, OPENREG_REG_ADMIN_TAIL, 1000, 4);
	openreg_card_reg_write(rig->card, OPENREG_REG_FAULT_HEAD, 7, 4);
	rig_enable(rig);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS),
			 OPENREG_STATUS_READY);
	assert_int_equal(rig_reg(rig, OPENREG_REG_ADMIN_TAIL), 0);
	assert_int_equal(rig_reg(rig, OPENREG_REG_FAULT_HEAD), 0);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
}

static void test_control_reset(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 3, 0), 0);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_INTERRUPTS) > 0);
	set_control(rig, OPENREG_CONTROL_RESET);
	WAIT_FOR(!rig_reg(rig, OPENREG_REG_CONTROL));
	assert_int_equal(rig_reg(rig, OPENREG_REG_STAT_INTERRUPTS), 0);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS), 0);
	assert_int_equal(rig_reg(rig, OPENREG_REG_ADMIN_SLOTS), 0);
	rig_enable(rig);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
}

/* Rings that are unset, misaligned, or outside of memory. */
static void test_bad_rings(void **state)
{
	static const struct {
		uint32_t off;
		uint32_t value;
	} bad[] = {
		{ OPENREG_REG_ADMIN_SLOTS, 0 },
		{ OPENREG_REG_ADMIN_SLOTS, 3 },
		{ OPENREG_REG_ADMIN_SLOTS, 8192 },
		{ OPENREG_REG_FAULT_SLOTS, 1 },
		{ OPENREG_REG_FAULT_SLOTS, 0x80000000 },
		{ OPENREG_REG_ADMIN_CPL, 8 },
		{ OPENREG_REG_ADMIN_CPL + 4, 0x7fff },
		{ OPENREG_REG_FAULT_BASE + 4, 0xffffffff },
	};
	struct rig *rig = *state;
	unsigned int i, vector0;
	uint32_t old;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set_control(rig, 0);
		wait_status(rig, 0);
		old = rig_reg(rig, bad[i].off);
		openreg_card_reg_write(rig->card, bad[i].off, bad[i].value, 4);
		vector0 = atomic_load(&rig->bus.raised[0]);
		set_control(rig, OPENREG_CONTROL_ENABLE);
		wait_status(rig, OPENREG_STATUS_FATAL);
		WAIT_FOR(atomic_load(&rig->bus.raised[0]) > vector0);
		set_control(rig, 0);
		wait_status(rig, 0);
		openreg_card_reg_write(rig->card, bad[i].off, old, 4);
	}
	rig_enable(rig);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS),
			 OPENREG_STATUS_READY);
}

static void test_admin_overrun(void **state)
{
	struct rig *rig = *state;

	openreg_card_reg_write(rig->card, OPENREG_REG_ADMIN_TAIL,
			       HOST_ADMIN_SLOTS + 1, 4);
	wait_status(rig, OPENREG_STATUS_FATAL);
}

static void test_admin_ring_gone(void **state)
{
	struct rig *rig = *state;

	atomic_store(&rig->bus.bad_len, 4096);
	atomic_store(&rig->bus.bad_bus, rig->client.cmds);
	openreg_card_reg_write(rig->card, OPENREG_REG_ADMIN_TAIL, 1, 4);
	wait_status(rig, OPENREG_STATUS_FATAL);
	atomic_store(&rig->bus.bad_bus, 0);
}

static void expect_no_card(struct openreg_card_config config)
{
	static const struct openreg_host_ops none;
	const char *error = NULL;

	assert_null(openreg_card_new(&config, &none, NULL, &error));
	assert_non_null(error);
}

static void test_config_limits(void **state)
{
	struct rig *rig = *state;
	struct openreg_card_config good = rig->config, c;

#define BAD(field, value)                                                      \
	do {                                                                   \
		c = good;                                                      \
		c.field = (value);                                             \
		expect_no_card(c);                                             \
	} while (0)
	BAD(vram, NULL);
	BAD(vram_size, 0);
	BAD(vram_size, 4096);
	BAD(workers, 0);
	BAD(workers, 65);
	BAD(doorbells, 0);
	BAD(doorbells, OPENREG_MAX_DOORBELLS + 1);
	BAD(vectors, 1);
	BAD(vectors, OPENREG_MAX_VECTORS + 1);
	BAD(spin_us, 10000000);
	BAD(slow_us, 100001);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_constants),     T(test_clock_runs),
		T(test_odd_accesses),  T(test_card_id),
		T(test_disable),       T(test_toggle),
		T(test_counters),      T(test_control_reset),
		T(test_bad_rings),     T(test_admin_overrun),
		T(test_admin_ring_gone), T(test_config_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
