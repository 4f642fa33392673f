/*
 * openreg: machines that move to another QEMU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"
#include "qobject/qdict.h"
#include "standard-headers/linux/pci_regs.h"

#define PANIC_SLOT 6
#define OR_PANIC " -device pvpanic-pci,addr=" stringify(PANIC_SLOT) " -action panic=pause"

static void or_wait_migration(QTestState *qts)
{
    for (;;) {
        QDict *reply = qtest_qmp_assert_success_ref(qts,
            "{'execute': 'query-migrate'}");
        g_autofree char *status = g_strdup(qdict_haskey(reply, "status") ?
                                           qdict_get_str(reply, "status") :
                                           "none");

        qobject_unref(reply);
        g_assert_cmpstr(status, !=, "failed");
        if (!strcmp(status, "completed")) {
            return;
        }
        g_usleep(1000);
    }
}

static void or_migrate_begin(OrCard *card, const char *path)
{
    g_autofree char *uri = g_strdup_printf("file:%s", path);

    qtest_qmp_assert_success(card->qts, "{'execute': 'migrate', 'arguments':"
                             " {'uri': %s}}", uri);
}

/* Waits for the migration, and continues in a new QEMU; args: its card's properties. */
static void or_migrate_end(OrCard *card, const char *path, const char *args)
{
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    g_autofree char *more = g_strdup_printf("%s -incoming defer", args);

    or_wait_migration(card->qts);
    qtest_quit(card->qts);
    card->qts = or_start(more);
    card->bus->qts = card->qts;
    qtest_qmp_assert_success(card->qts, "{'execute': 'migrate-incoming',"
                             " 'arguments': {'uri': %s}}", uri);
    or_wait_migration(card->qts);
    unlink(path);
    qtest_qmp_assert_success(card->qts, "{'execute': 'cont'}");
}

static char *or_state_file(void)
{
    char *path = NULL;
    int fd = g_file_open_tmp("openreg-state-XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    return path;
}

/*
 * Migrates a card with a waiting queue, a running queue, data in VRAM and an armed
 * vector. The work continues in the new process.
 */
static void test_migration(void)
{
    OrCard *card = or_card(",vectors=7");
    OrQueue *q = or_setup(card);
    OrQueue *busy = or_queue(card, 1, 6, 2);
    g_autofree char *path = or_state_file();
    uint64_t word = or_vector(card, 1, 0xbeef), clock;
    OrPacket p;
    int i;

    qpci_io_writeq(card->dev, card->vram, OR_VRAM - 8, 0xfeed);
    or_word(&p, OPENREG_OP_WAIT, OR_S(0), 3);
    or_push(q, &p);
    or_word(&p, OPENREG_OP_SIGNAL, OR_V(0x800000), 0x55);
    or_push(q, &p);
    qtest_writeq(card->qts, q->kernel, 2);
    or_long(&p);
    for (i = 0; i < 5; i++) {
        or_push(busy, &p);
    }
    clock = or_reg64(card, OPENREG_REG_CLOCK);
    or_migrate_begin(card, path);
    or_migrate_end(card, path, ",vectors=7");

    g_assert_cmpuint(or_reg64(card, OPENREG_REG_CLOCK), >, clock);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_ADMIN_BASE), ==,
                    card->client.cmds);
    or_wait(busy, 5);
    /* The new side raises each vector again: wait for that. */
    OR_WAIT(qtest_readl(card->qts, word) == 0xbeef);
    qtest_writel(card->qts, word, 0);
    qtest_writeq(card->qts, OR_SHARED, 3);
    or_wait(q, 2);
    OR_WAIT(qtest_readl(card->qts, word) == 0xbeef);
    g_assert_cmphex(qpci_io_readq(card->dev, card->vram, 0x800000), ==, 0x55);
    g_assert_cmphex(qpci_io_readq(card->dev, card->vram, OR_VRAM - 8), ==,
                    0xfeed);
    /* The admin ring continues at its old position. */
    g_assert_cmpuint(or_ctx_create(card, 1), ==, OPENREG_ADMIN_EEXIST);
    g_assert_cmpuint(or_ctx_create(card, 2), ==, OPENREG_ADMIN_OK);
    g_free(busy);
    g_free(q);
    or_quit(card);
}

/*
 * Migrates a VM that a guest's panic has paused. The running packet must end before
 * the memory is saved.
 */
static void test_migration_panicked(void)
{
    OrCard *card = or_card(",vectors=7" OR_PANIC);
    OrQueue *q = or_setup(card);
    g_autofree char *path = or_state_file();
    QPCIDevice *panic = qpci_device_find(card->bus, QPCI_DEVFN(PANIC_SLOT, 0));
    QPCIBar bar;
    OrPacket p;

    g_assert_nonnull(panic);
    qpci_device_enable(panic);
    bar = qpci_iomap(panic, 0, NULL);
    or_long(&p);
    or_push(q, &p);
    qpci_io_writeb(panic, bar, 0, 1);
    qtest_qmp_eventwait(card->qts, "GUEST_PANICKED");
    or_migrate_begin(card, path);
    or_migrate_end(card, path, ",vectors=7" OR_PANIC);
    or_wait(q, 1);
    g_free(panic);
    g_free(q);
    or_quit(card);
}

/* QEMU refuses to load the state into a card with other properties. */
static void test_migration_mismatch(void)
{
    OrCard *card = or_card(",vectors=7");
    g_autofree char *path = or_state_file();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    QTestState *qts;

    or_migrate_begin(card, path);
    or_wait_migration(card->qts);
    or_quit(card);
    qts = or_start(",vectors=7,doorbells=32 -incoming defer");
    qtest_set_expected_status(qts, EXIT_FAILURE);
    qtest_qmp_assert_success(qts, "{'execute': 'migrate-incoming',"
                             " 'arguments': {'uri': %s}}", uri);
    qtest_wait_qemu(qts);
    qtest_quit(qts);
    unlink(path);
}

static void or_bandwidth(OrCard *card, int64_t bytes)
{
    qtest_qmp_assert_success(card->qts, "{'execute': 'migrate-set-parameters',"
                             " 'arguments': {'max-bandwidth': %" PRId64 "}}",
                             bytes);
}

/* Fills VRAM except its first bytes, and a word of system memory. */
static void or_paint(OrQueue *q, uint64_t value)
{
    const int64_t n = OR_VRAM / 8 - 8;
    OrPacket p;

    or_packet(&p, OPENREG_OP_FILL, 0);
    or_space(&p, 1, &n);
    or_operand(&p, OR_V(64), OPENREG_I64, NULL);
    or_imm(&p, value);
    or_push(q, &p);
    or_word(&p, OPENREG_OP_SIGNAL, OR_S(8), value);
    or_push(q, &p);
    or_word(&p, OPENREG_OP_SIGNAL, OR_V(8), value);
    or_wait(q, or_push(q, &p));
}

/* Checks the values of or_paint(), in VRAM from offset from on. */
static void or_check_paint(OrCard *card, uint64_t from, uint64_t value)
{
    const uint64_t probes[] = { 8, 64, OR_VRAM / 2, OR_VRAM - 8 };
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(probes); i++) {
        if (probes[i] >= from) {
            g_assert_cmpuint(qpci_io_readq(card->dev, card->vram, probes[i]),
                             ==, value);
        }
    }
    g_assert_cmpuint(qtest_readq(card->qts, OR_SHARED + 8), ==, value);
}

/* QEMU sends memory again that the card writes during the migration. */
static void test_migration_dirty(void)
{
    OrCard *card = or_card("");
    OrQueue *q = or_setup(card);
    g_autofree char *path = or_state_file();
    uint64_t i;

    or_paint(q, 1);
    or_bandwidth(card, 10 << 20);
    or_migrate_begin(card, path);
    g_usleep(G_USEC_PER_SEC);
    for (i = 2; i <= 4; i++) {
        or_paint(q, i);
        g_usleep(G_USEC_PER_SEC / 4);
    }
    or_bandwidth(card, 1LL << 40);
    or_migrate_end(card, path, "");
    or_check_paint(card, 0, 4);
    g_assert_cmpuint(qtest_readq(card->qts, q->page + 8), ==, q->seq);
    g_free(q);
    or_quit(card);
}

/* True after QEMU has sent some memory, and before the migration ends. */
static bool or_is_under_way(QTestState *qts)
{
    QDict *reply = qtest_qmp_assert_success_ref(qts,
        "{'execute': 'query-migrate'}");
    bool under_way = !g_strcmp0(qdict_get_try_str(reply, "status"), "active") &&
                     qdict_haskey(reply, "ram") &&
                     qdict_get_int(qdict_get_qdict(reply, "ram"),
                                   "transferred") > 1 << 20;

    qobject_unref(reply);
    return under_way;
}

/* Resets a busy card during the migration, by FLR or by CONTROL. */
static void or_reset_on_the_way(OrCard *card, OrQueue *q, bool by_bus)
{
    OrPacket p;

    or_word(&p, OPENREG_OP_WAIT, OR_S(0), 1);
    or_push(q, &p);
    q = or_queue(card, 1, 5, 2);
    or_long(&p);
    or_push(q, &p);
    or_push(q, &p);
    g_free(q);
    OR_WAIT(or_is_under_way(card->qts));
    if (by_bus) {
        or_flr(card);
    } else {
        or_reset(card, 0);
    }
}

/* A card that was reset before the migration's end is reset on the new side. */
static void or_check_reset(bool by_bus, bool works)
{
    OrCard *card = or_card("");
    g_autofree char *path = or_state_file();
    OrQueue *q = or_setup(card);
    OrPacket p;

    /* Write VRAM first: QEMU would send empty memory before the reset. */
    or_paint(q, 1);
    or_bandwidth(card, 4 << 20);
    or_migrate_begin(card, path);
    or_reset_on_the_way(card, q, by_bus);
    g_free(q);
    if (works) {
        or_reprobe(card);
        q = or_setup(card);
        or_paint(q, 2);
    }
    g_assert_true(or_is_under_way(card->qts));
    or_bandwidth(card, 1LL << 40);
    or_migrate_end(card, path, "");
    if (!works) {
        or_reprobe(card);
        q = or_setup(card);
    }
    /* The long packets may have changed the first half of VRAM. */
    or_check_paint(card, works ? 0 : OR_VRAM / 2, works ? 2 : 1);
    or_word(&p, OPENREG_OP_SIGNAL, OR_S(64), 3);
    or_wait(q, or_push(q, &p));
    g_assert_cmpuint(qtest_readq(card->qts, OR_SHARED + 64), ==, 3);
    g_assert_cmpuint(or_ctx_create(card, 2), ==, OPENREG_ADMIN_OK);
    g_free(q);
    or_quit(card);
}

static void test_migration_flr(void)
{
    or_check_reset(true, true);
    or_check_reset(true, false);
}

static void test_migration_reset(void)
{
    or_check_reset(false, true);
    or_check_reset(false, false);
}

static void or_master(OrCard *card, bool on)
{
    uint16_t command = qpci_config_readw(card->dev, PCI_COMMAND);

    qpci_config_writew(card->dev, PCI_COMMAND,
                       on ? command | PCI_COMMAND_MASTER :
                            command & ~PCI_COMMAND_MASTER);
}

/* Rings and pages that are unreachable during the migration are used afterwards. */
static void test_migration_unreachable(void)
{
    OrCard *card = or_card("");
    OrQueue *q = or_setup(card);
    g_autofree char *path = or_state_file();
    OrPacket p;

    or_word(&p, OPENREG_OP_SIGNAL, OR_S(64), 1);
    or_wait(q, or_push(q, &p));
    OR_WAIT(qtest_readl(card->qts, q->page +
                        offsetof(struct openreg_card_page, asleep)));
    or_master(card, false);
    or_migrate_begin(card, path);
    or_migrate_end(card, path, "");
    or_master(card, true);
    or_word(&p, OPENREG_OP_SIGNAL, OR_S(64), 2);
    or_wait(q, or_push(q, &p));
    g_assert_cmpuint(qtest_readq(card->qts, OR_SHARED + 64), ==, 2);
    g_assert_cmpuint(or_ctx_create(card, 2), ==, OPENREG_ADMIN_OK);
    g_free(q);
    or_quit(card);
}

void or_add_migration_tests(void)
{
    qtest_add_func("/openreg/migration/work", test_migration);
    qtest_add_func("/openreg/migration/panicked", test_migration_panicked);
    qtest_add_func("/openreg/migration/mismatch", test_migration_mismatch);
    qtest_add_func("/openreg/migration/dirty", test_migration_dirty);
    qtest_add_func("/openreg/migration/flr", test_migration_flr);
    qtest_add_func("/openreg/migration/reset", test_migration_reset);
    qtest_add_func("/openreg/migration/unreachable", test_migration_unreachable);
}
