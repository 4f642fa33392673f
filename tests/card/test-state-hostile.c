/* SPDX-License-Identifier: MIT */
/* Saved states that the card must refuse; after a refusal the card is empty. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "host.h"
#include "random.h"

#define LEN (64u << 10) /* few pages, so that random words hit every kind of field */

static int setup(void **state)
{
	struct rig *rig = rig_new(2);

	rig_bind_two(rig, LEN);
	*state = rig;
	return 0;
}

static void *save(struct rig *rig, size_t *len)
{
	void *blob;

	rig_pause(rig);
	blob = openreg_card_save(rig->card, len);
	assert_non_null(blob);
	openreg_card_resume(rig->card);
	return blob;
}

static void check_zero(struct rig *rig, uint32_t off)
{
	if (rig_reg(rig, off))
		fail_msg("register 0x%x is 0x%x", off, rig_reg(rig, off));
}

/* Checks all state that a guest can change. The card is paused: no sleeps are counted. */
static void check_cleared(struct rig *rig)
{
	uint32_t off;

	check_zero(rig, OPENREG_REG_STATUS);
	check_zero(rig, OPENREG_REG_CONTROL);
	check_zero(rig, OPENREG_REG_CARD_ID);
	for (off = OPENREG_REG_ADMIN_BASE; off < OPENREG_REG_STAT_SLEEP_NS + 8;
	     off += 4)
		check_zero(rig, off);
	assert_int_equal(atomic_load(&rig->card->regs.card_id), 0);
	assert_int_equal(rig->card->nruns, 0);
	assert_int_equal(atomic_load(&rig->bus.mappings), 0);
}

static int load(struct rig *rig, const void *blob, size_t len)
{
	const char *error = NULL;

	if (!openreg_card_load(rig->card, blob, len, &error))
		return 0;
	assert_non_null(error);
	check_cleared(rig);
	return -1;
}

/* The card loads or refuses any damaged blob, and still works. */
static void test_hostile_blob(void **state)
{
	struct rig *rig = *state;
	unsigned int i, k, loaded = 0, refused = 0;
	uint64_t *blob, *bad;
	size_t len, cut;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	blob = save(rig, &len);
	bad = malloc(len);
	for (i = 0; i < 3000 / SCALE; i++) {
		memcpy(bad, blob, len);
		for (k = (unsigned int)below(3) + 1; k; k--)
			bad[below(len / 8)] = below(2) ? random64() : below(8);
		cut = below(4) ? len : below(len);
		rig_pause(rig);
		openreg_card_reset(rig->card);
		rig_pause(rig);
		if (load(rig, bad, cut))
			refused++;
		else
			loaded++;
		openreg_card_resume(rig->card);
		openreg_card_doorbell(rig->card, 0);
	}
	print_message("%u loaded, %u refused\n", loaded, refused);
	assert_true(refused > 0);
	free(bad);
	free(blob);
}

/* Loads a blob into the reset card; resets the card again. */
static int try_load(struct rig *rig, const uint64_t *blob, size_t words)
{
	int r;

	rig_pause(rig);
	openreg_card_reset(rig->card);
	rig_pause(rig);
	r = load(rig, blob, words * 8);
	openreg_card_reset(rig->card);
	return r;
}

static void put(uint64_t *at, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = words[i];
}

/*
 * A blob ends with: enabled, base, cpl_base, slots, done, fault base and slots, npending,
 * the pending commands, the fills, and a 0.
 */
static void test_hostile_lists(void **state)
{
	enum { MOST = 4096, ENABLED = 9, SLOTS = 6, NPENDING = 2 };
	const uint64_t stop[4] = { 0, OPENREG_ADMIN_QUEUE_STOP, 0, 0 };
	const uint64_t fill[5] = { 1, 0, 4096, 0, 0 };
	struct rig *rig = *state;
	uint64_t *blob, *end;
	size_t len, n, i;
	void *saved;

	saved = save(rig, &len);
	n = len / 8;
	blob = calloc(n + 4 * (MOST + 1) + 2 * 5, 8);
	assert_non_null(blob);
	memcpy(blob, saved, len);
	free(saved);
	end = blob + n;
	assert_int_equal(end[-NPENDING], 0);
	assert_int_equal(end[-SLOTS], HOST_ADMIN_SLOTS);
	assert_int_equal(try_load(rig, blob, n), 0);
	/* A FILL without its command, a FILL with its command, and one FILL too many. */
	put(end - 1, fill, 5);
	assert_int_equal(try_load(rig, blob, n + 5), -1);
	end[-NPENDING] = 1;
	put(end - 1, stop, 4);
	put(end + 3, fill, 5);
	end[8] = 0;
	assert_int_equal(try_load(rig, blob, n + 9), 0);
	end[-ENABLED] = 0; /* a disabled card has no pending commands */
	assert_int_equal(try_load(rig, blob, n + 9), -1);
	end[-ENABLED] = 1;
	put(end + 8, fill, 5);
	end[13] = 0;
	assert_int_equal(try_load(rig, blob, n + 14), -1);
	/* As many pending commands as slots, then one more. */
	end[-SLOTS] = MOST;
	for (i = 0; i <= MOST; i++)
		put(end - 1 + 4 * i, stop, 4);
	end[-NPENDING] = MOST;
	end[4 * MOST - 1] = 0;
	assert_int_equal(try_load(rig, blob, n + 4 * MOST), 0);
	end[-NPENDING] = MOST + 1;
	put(end - 1 + 4 * MOST, stop, 4);
	end[4 * MOST + 3] = 0;
	assert_int_equal(try_load(rig, blob, n + 4 * (MOST + 1)), -1);
	free(blob);
}

/* Two loads of one card: the second one replaces the first. */
static void test_twice(void **state)
{
	struct rig *rig = *state;
	const char *error = NULL;
	unsigned int mappings;
	size_t len;
	void *blob;

	blob = save(rig, &len);
	mappings = atomic_load(&rig->bus.mappings);
	rig_pause(rig);
	assert_int_equal(openreg_card_load(rig->card, blob, len, &error), 0);
	assert_int_equal(openreg_card_load(rig->card, blob, len, &error), 0);
	assert_int_equal(atomic_load(&rig->bus.mappings), mappings);
	openreg_card_resume(rig->card);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 3, 0), 0);
	free(blob);
}

static void test_other_shape(void **state)
{
	struct rig *rig = *state, *other;
	size_t len;
	void *blob;

	blob = save(rig, &len);
	other = rig_new_spin(2, 100);
	openreg_card_free(other->card);
	other->config.vectors = 16;
	rig_make_card(other);
	rig_pause(other);
	assert_int_equal(load(other, blob, len), -1);
	free(blob);
	rig_free(other);
}

/* A blob cut short at any word is refused. */
static void test_cut_short(void **state)
{
	struct rig *rig = *state;
	uint64_t *blob;
	size_t len, n;
	struct client_queue q;

	openreg_card_reg_write(rig->card, OPENREG_REG_CARD_ID, 5, 4);
	tq_create(rig, &q, 1, 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	blob = save(rig, &len);
	for (n = 0; n < len / 8; n++)
		assert_int_equal(try_load(rig, blob, n), -1);
	assert_int_equal(try_load(rig, blob, n), 0);
	free(blob);
}

/* After a refused load the driver can set up the card as a new one, with other rings. */
static void test_go_on(void **state)
{
	struct rig *rig = *state;
	unsigned int errors;
	size_t len;
	void *blob;
	struct client_queue q;

	blob = save(rig, &len);
	rig_pause(rig);
	openreg_card_reset(rig->card);
	rig_pause(rig);
	assert_int_equal(load(rig, blob, len - 8), -1);
	free(blob);
	errors = atomic_load(&rig->bus.guest_errors);
	openreg_card_resume(rig->card);
	rig_alloc_rings(rig);
	rig_enable(rig);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0), 0);
	tq_create(rig, &q, 1, 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(atomic_load(&rig->bus.guest_errors), errors);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_hostile_blob), T(test_hostile_lists), T(test_twice),
		T(test_other_shape),  T(test_cut_short),     T(test_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
