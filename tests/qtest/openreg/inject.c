/*
 * openreg: wrong values injected by the card's x-inject properties
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "standard-headers/linux/pci_regs.h"

#define PATH "/machine/peripheral/card0"
#define PAGE(q, field) ((q)->page + \
                        offsetof(struct openreg_card_page, field))

static void or_inject(OrCard *card, const char *name, uint32_t value)
{
    qtest_qmp_assert_success(card->qts, "{'execute': 'qom-set', 'arguments': {"
                             "'path': '" PATH "', 'property': %s,"
                             " 'value': %" PRIu32 "}}", name, value);
}

static void or_refuse(OrCard *card, const char *name, uint32_t value,
                      const char *text)
{
    QDict *error = qtest_qmp_assert_failure_ref(
        card->qts, "{'execute': 'qom-set', 'arguments': {'path': '" PATH "',"
        " 'property': %s, 'value': %" PRIu32 "}}", name, value);

    g_assert_nonnull(strstr(qdict_get_str(error, "desc"), text));
    qobject_unref(error);
}

static uint64_t or_push_nop(OrQueue *q)
{
    OrPacket p;

    or_packet(&p, OPENREG_OP_NOP, 0);
    return or_push(q, &p);
}

/* Without x-inject=on the properties are refused. */
static void test_off(void)
{
    OrCard *card = or_card("");

    or_refuse(card, "x-inject-head", 1, "made with x-inject=on");
    g_assert_cmpuint(qpci_find_capability(card->dev, PCI_CAP_ID_VNDR, 0), ==,
                     0);
    or_works(card);
    or_quit(card);
}

/* All x-inject properties and their greatest values. */
static const struct {
    const char *name;
    int64_t most;
} or_most[] = {
    { "x-inject-queue", UINT32_MAX },
    { "x-inject-head", 3 },
    { "x-inject-completed", 4 },
    { "x-inject-state", UINT32_MAX },
    { "x-inject-irq", 2 },
    { "x-inject-fault", 6 },
    { "x-inject-admin", 4 },
    { "x-inject-status", UINT32_MAX },
    { "x-inject-opcode", UINT16_MAX },
    { "x-inject-late", 1 },
    { "x-inject-stall", 4 },
    { "x-inject-gone", 1 },
    { "x-inject-reg", OPENREG_MSIX_TABLE - 4 },
    { "x-inject-reg-value", UINT32_MAX },
    { "x-inject-period-us", 1000000 },
};

/* Number of properties of the card with this prefix. */
static unsigned int or_count(OrCard *card, const char *prefix)
{
    QDict *reply = qtest_qmp(card->qts, "{'execute': 'qom-list', 'arguments':"
                             " {'path': '" PATH "'}}");
    unsigned int count = 0;
    QListEntry *at;

    QLIST_FOREACH_ENTRY(qdict_get_qlist(reply, "return"), at) {
        QDict *property = qobject_to(QDict, qlist_entry_obj(at));

        count += g_str_has_prefix(qdict_get_str(property, "name"), prefix);
    }
    qobject_unref(reply);
    return count;
}

/* Both a running card and a new card must refuse the value. */
static void or_refuse_both(OrCard *card, const char *name, int64_t value,
                           const char *text)
{
    g_autofree char *said =
        qtest_hmp(card->qts, "device_add openreg,id=bad,bus=port0,x-inject=on,"
                  "%s=%" PRId64, name, value);
    QDict *error = qtest_qmp_assert_failure_ref(
        card->qts, "{'execute': 'qom-set', 'arguments': {'path': '" PATH "',"
        " 'property': %s, 'value': %" PRId64 "}}", name, value);
    const char *desc = qdict_get_str(error, "desc");

    g_test_message("%s", desc);
    g_assert_nonnull(strstr(said, name));
    g_assert_nonnull(strstr(said, text));
    g_assert_nonnull(strstr(desc, name));
    g_assert_nonnull(strstr(desc, text));
    qobject_unref(error);
}

static void test_on(void)
{
    OrCard *card = or_card(",x-inject=on -device pcie-root-port,id=port0");
    unsigned int i;

    g_assert_cmpuint(or_count(card, "x-inject-"), ==, ARRAY_SIZE(or_most));
    for (i = 0; i < ARRAY_SIZE(or_most); i++) {
        g_autofree char *text =
            or_most[i].most == UINT32_MAX ? g_strdup("uint32_t") :
            g_strdup_printf("it must be 0 to %" PRId64, or_most[i].most);

        or_refuse_both(card, or_most[i].name, or_most[i].most + 1, text);
        or_refuse_both(card, or_most[i].name, -1, "uint32_t");
        or_inject(card, or_most[i].name, or_most[i].most);
        or_inject(card, or_most[i].name, 0);
    }
    /* Use new rings: x-inject-late has marked all commands of the old ones complete. */
    or_reset(card, 0);
    or_enable(card);
    or_works(card);
    or_quit(card);
}

static void test_counters(void)
{
    OrCard *card = or_card(",x-inject=on");
    OrQueue *q = or_setup(card);

    or_inject(card, "x-inject-head", 1);
    or_wait(q, or_push_nop(q));
    g_assert_cmpuint(qtest_readq(card->qts, PAGE(q, head)), ==, 1 + (1 << 20));
    or_inject(card, "x-inject-head", 0);

    or_reset(card, 0);
    or_enable(card);
    g_free(q);
    q = or_setup(card);
    or_inject(card, "x-inject-completed", 2);
    or_wait(q, or_push_nop(q));
    g_assert_cmpuint(qtest_readq(card->qts, PAGE(q, completed)), ==,
                     1 + (1 << 20));
    /* The card reports correct values for other queues. */
    or_inject(card, "x-inject-queue", 7);
    or_wait(q, or_push_nop(q));
    OR_WAIT(qtest_readq(card->qts, PAGE(q, completed)) == 2);
    g_free(q);
    or_quit(card);
}

/* The guest sets the values by the vendor capability. */
static void test_capability(void)
{
    OrCard *card = or_card(",x-inject=on");
    OrQueue *q = or_setup(card);
    uint8_t cap = qpci_find_capability(card->dev, PCI_CAP_ID_VNDR, 0);

    g_assert_cmpuint(cap, !=, 0);
    qpci_config_writel(card->dev, cap + 4, 3);
    qpci_config_writel(card->dev, cap + 8, 77);
    g_assert_cmpuint(client_state(q), ==, OPENREG_QUEUE_RUNNING);
    g_free(q);
    q = or_queue(card, 1, 1, 1);
    g_assert_cmpuint(client_state(q), ==, 77);
    /* Unknown properties, and values out of range. */
    qpci_config_writel(card->dev, cap + 4, 15);
    qpci_config_writel(card->dev, cap + 8, 1);
    qpci_config_writel(card->dev, cap + 4, UINT32_MAX);
    qpci_config_writel(card->dev, cap + 8, 1);
    qpci_config_writel(card->dev, cap + 4, 1);
    qpci_config_writel(card->dev, cap + 8, 4);
    qpci_config_writel(card->dev, cap + 4, 3);
    qpci_config_writel(card->dev, cap + 8, 0);
    g_free(q);
    q = or_queue(card, 1, 2, 1);
    or_wait(q, or_push_nop(q));
    g_assert_cmpuint(qtest_readq(card->qts, PAGE(q, head)), ==, 1);
    g_free(q);
    or_quit(card);
}

static void test_admin(void)
{
    const struct openreg_admin_cmd cmd = { .opcode = OPENREG_ADMIN_NOP };
    const struct openreg_admin_cmd create = {
        .opcode = OPENREG_ADMIN_CTX_CREATE, .ctx = 2,
    };
    OrCard *card = or_card(",x-inject=on");
    uint32_t status, index;

    or_inject(card, "x-inject-status", 5);
    g_assert_cmpuint(or_ctx_create(card, 1), ==, 5);
    or_inject(card, "x-inject-opcode", OPENREG_ADMIN_FILL);
    /* The card had not executed the command with the injected status. */
    g_assert_cmpuint(or_ctx_create(card, 1), ==, 0);
    or_inject(card, "x-inject-opcode", 0);
    or_inject(card, "x-inject-status", 0);

    or_inject(card, "x-inject-admin", 1);
    or_inject(card, "x-inject-opcode", OPENREG_ADMIN_CTX_CREATE);
    index = or_admin_send(card, &create);
    g_assert_cmpuint(or_admin(card, &cmd), ==, 0);
    g_assert_false(or_admin_done(card, index, &status));
    or_inject(card, "x-inject-opcode", 0);
    or_inject(card, "x-inject-admin", 3);
    index = or_admin_send(card, &cmd);
    OR_WAIT(or_admin_done(card, index + 1, &status));
    g_assert_true(or_admin_done(card, index, &status));
    or_quit(card);
}

static void test_faults(void)
{
    OrCard *card = or_card(",x-inject=on");
    struct openreg_fault_record record;
    unsigned int i;

    or_inject(card, "x-inject-fault", 1);
    for (i = 0; i < 3; i++) {
        qtest_memread(card->qts, card->client.faults + i * sizeof(record),
                      &record, sizeof(record));
        g_assert_cmpuint(record.seq, ==, i + 1);
        g_assert_cmpuint(record.queue, >=, OPENREG_MAX_QUEUES);
    }
    or_inject(card, "x-inject-fault", 4);
    qtest_memread(card->qts, card->client.faults, &record, sizeof(record));
    g_assert_cmpuint(record.seq, ==, 3 * OR_FAULT_SLOTS + 1);
    or_inject(card, "x-inject-fault", 6);
    for (i = 0; i < 3; i++) {
        qtest_memread(card->qts, card->client.faults + i * sizeof(record),
                      &record, sizeof(record));
        g_assert_cmpuint(record.seq, !=, i + 1);
    }
    g_assert_cmpuint(record.seq, ==, 2);
    or_quit(card);
}

static void or_push_copy(OrQueue *q)
{
    const int64_t n = 256;
    OrPacket p;

    or_packet(&p, OPENREG_OP_COPY, 0);
    or_space(&p, 1, &n);
    or_operand(&p, OR_S(0), OPENREG_I64, NULL);
    or_operand(&p, OR_V(0), OPENREG_I64, NULL);
    or_push(q, &p);
}

static void test_stalls(void)
{
    static const char *const how[] = { "deaf", "RESET", "FLR" };
    uint32_t mode;

    for (mode = 1; mode <= ARRAY_SIZE(how); mode++) {
        OrCard *card = or_card(",x-inject=on");
        OrQueue *q = or_setup(card), *other = or_queue(card, 1, 1, 1);

        or_inject(card, "x-inject-queue", 0);
        or_inject(card, "x-inject-stall", mode);
        or_push_copy(q);
        or_wait(other, or_push_nop(other));
        g_assert_cmpuint(qtest_readq(card->qts, PAGE(q, completed)), ==, 0);
        g_test_message("%s", how[mode - 1]);
        if (mode == 3) {
            or_reg_write(card, OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
            g_usleep(20000);
            g_assert_cmphex(or_reg(card, OPENREG_REG_CONTROL), ==,
                            OPENREG_CONTROL_RESET);
            qtest_system_reset(card->qts);
        } else {
            or_reset(card, 0);
        }
        g_free(q);
        g_free(other);
        or_quit(card);
    }
}

static void or_stop(OrCard *card, uint16_t opcode, uint32_t queue)
{
    const struct openreg_admin_cmd cmd = {
        .opcode = opcode, .ctx = 1, .id = queue,
    };

    g_assert_cmpuint(or_admin(card, &cmd), ==, OPENREG_ADMIN_OK);
}

static void or_end_stall(OrCard *card, OrQueue *q, const char *how)
{
    const struct openreg_admin_cmd again = cmd_reset(1, 0, q->tail, q->seq);

    if (!strcmp(how, "stop")) {
        or_stop(card, OPENREG_ADMIN_QUEUE_STOP, 0);
        g_assert_cmpuint(or_admin(card, &again), ==, OPENREG_ADMIN_OK);
        or_wait(q, or_push_nop(q));
    } else if (!strcmp(how, "destroy")) {
        or_stop(card, OPENREG_ADMIN_QUEUE_DESTROY, 0);
    } else if (!strcmp(how, "context")) {
        or_stop(card, OPENREG_ADMIN_CTX_DESTROY, 0);
    } else if (!strcmp(how, "property")) {
        or_inject(card, "x-inject-stall", 0);
        or_wait(q, 1);
    } else if (!strcmp(how, "pause")) {
        qtest_qmp_assert_success(card->qts, "{'execute': 'stop'}");
        qtest_qmp_assert_success(card->qts, "{'execute': 'cont'}");
        or_wait(q, 1);
    } else {
        or_reset(card, 0);
    }
}

/* Time in which a stalled write must not complete. */
#define OR_STALLED_US 50000

static void test_stall_once(void)
{
    static const char *const how[] = {
        "stop", "destroy", "context", "property", "pause", "RESET",
    };
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(how); i++) {
        OrCard *card = or_card(",x-inject=on");
        OrQueue *q = or_setup(card), *other = or_queue(card, 1, 1, 1);

        or_inject(card, "x-inject-queue", 0);
        or_inject(card, "x-inject-stall", 4);
        or_push_copy(q);
        OR_WAIT(or_reg64(card, OPENREG_REG_STAT_DMA_WRITTEN));
        /* The card counts a write before it stalls, and polls each millisecond. */
        g_usleep(OR_STALLED_US);
        or_push_copy(other);
        or_wait(other, 1);
        or_stop(card, OPENREG_ADMIN_QUEUE_STOP, 1);
        g_usleep(OR_STALLED_US);
        g_assert_cmpuint(qtest_readq(card->qts, PAGE(q, completed)), ==, 0);
        g_test_message("%s", how[i]);
        or_end_stall(card, q, how[i]);
        g_free(other);
        g_free(q);
        or_quit(card);
    }
}

static void test_gone(void)
{
    OrCard *card = or_card(",x-inject=on,x-inject-reg-value=0x12345678");
    OrQueue *q = or_setup(card);

    or_inject(card, "x-inject-gone", 1);
    g_assert_cmphex(or_reg(card, OPENREG_REG_MAGIC), ==, UINT32_MAX);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_CLOCK), ==, UINT64_MAX);
    or_reg_write(card, OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
    or_inject(card, "x-inject-gone", 0);
    g_assert_cmphex(or_reg(card, OPENREG_REG_CONTROL), ==,
                    OPENREG_CONTROL_ENABLE);
    or_inject(card, "x-inject-reg", OPENREG_REG_VRAM_SIZE + 4);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_VRAM_SIZE), ==,
                    OR_VRAM | 0x12345678ULL << 32);
    or_inject(card, "x-inject-reg", OPENREG_REG_VRAM_SIZE + 1);
    g_assert_cmphex(or_reg(card, OPENREG_REG_VRAM_SIZE), ==, 0x12345678);
    or_inject(card, "x-inject-reg", 0);
    g_free(q);
    or_reset(card, 0);
    or_enable(card);
    or_works(card);
    or_quit(card);
}

void or_add_inject_tests(void)
{
    qtest_add_func("/openreg/inject/off", test_off);
    qtest_add_func("/openreg/inject/on", test_on);
    qtest_add_func("/openreg/inject/counters", test_counters);
    qtest_add_func("/openreg/inject/capability", test_capability);
    qtest_add_func("/openreg/inject/admin", test_admin);
    qtest_add_func("/openreg/inject/faults", test_faults);
    qtest_add_func("/openreg/inject/stalls", test_stalls);
    qtest_add_func("/openreg/inject/stall-once", test_stall_once);
    qtest_add_func("/openreg/inject/gone", test_gone);
}
