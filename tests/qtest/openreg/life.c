/*
 * openreg: reset, bus mastering, hot-plug, two cards
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"
#include "standard-headers/linux/pci_regs.h"

static void test_flr(void)
{
    OrCard *card = or_card("");
    int i;

    for (i = 0; i < 5; i++) {
        or_busy(card);
        qpci_io_writeq(card->dev, card->vram, OR_VRAM - 8, 0x1234);
        or_flr(card);
        or_reprobe(card);
        /* A reset keeps the contents of VRAM. */
        g_assert_cmphex(qpci_io_readq(card->dev, card->vram, OR_VRAM - 8), ==,
                        0x1234);
        or_works(card);
        or_flr(card);
        or_reprobe(card);
    }
    or_quit(card);
}

static void test_reset_register(void)
{
    OrCard *card = or_card("");

    or_busy(card);
    or_reset(card, OPENREG_CONTROL_ENABLE);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_STAT_PACKETS), ==, 0);
    or_reprobe(card);
    or_works(card);
    or_quit(card);
}

/* Clearing ENABLE drops all state, but keeps the ring registers. */
static void test_disable(void)
{
    OrCard *card = or_card("");

    or_busy(card);
    or_reg_write(card, OPENREG_REG_CONTROL, 0);
    OR_WAIT(or_reg(card, OPENREG_REG_STATUS) == 0);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_ADMIN_BASE), ==,
                    card->client.cmds);
    or_enable(card);
    or_works(card);
    or_quit(card);
}

static void test_system_reset(void)
{
    OrCard *card = or_card("");

    or_busy(card);
    qtest_system_reset(card->qts);
    or_reprobe(card);
    or_works(card);
    or_quit(card);
}

/* Without bus mastering the card reaches no memory and reports errors. */
static void test_bus_master(void)
{
    OrCard *card = or_card("");
    OrQueue *q = or_setup(card);
    uint16_t command;
    OrPacket p;

    or_word(&p, OPENREG_OP_SIGNAL, OR_S(64), 1);
    or_wait(q, or_push(q, &p));

    command = qpci_config_readw(card->dev, PCI_COMMAND);
    qpci_config_writew(card->dev, PCI_COMMAND, command & ~PCI_COMMAND_MASTER);
    or_word(&p, OPENREG_OP_SIGNAL, OR_S(64), 2);
    or_push(q, &p);
    qpci_io_writel(card->dev, card->bells, q->door * OR_PAGE, 1);
    OR_WAIT(or_reg64(card, OPENREG_REG_STAT_FAULTS) == 1);
    g_assert_cmpuint(qtest_readq(card->qts, OR_SHARED + 64), ==, 1);
    g_assert_cmpuint(qtest_readq(card->qts, q->page + 8), ==, 1);

    qpci_config_writew(card->dev, PCI_COMMAND, command);
    or_reset(card, 0);
    or_reprobe(card);
    or_works(card);
    g_free(q);
    or_quit(card);
}

/* The card does not run while the VM is stopped, and continues with the VM. */
static void test_stop_cont(void)
{
    OrCard *card = or_card("");
    OrQueue *q = or_setup(card);
    uint64_t completed = q->page + 8, clock;
    OrPacket p;
    int i;

    for (i = 0; i < 5; i++) {
        or_long(&p);
        or_push(q, &p);
        or_word(&p, OPENREG_OP_SIGNAL, OR_S(8), i + 1);
        or_push(q, &p);
    }
    qtest_qmp_assert_success(card->qts, "{'execute': 'stop'}");
    clock = or_reg64(card, OPENREG_REG_CLOCK);
    or_push(q, &p);
    i = qtest_readq(card->qts, completed);
    g_usleep(100000);
    g_assert_cmpint(qtest_readq(card->qts, completed), ==, i);
    g_assert_cmpuint(or_reg64(card, OPENREG_REG_CLOCK), ==, clock);
    qtest_qmp_assert_success(card->qts, "{'execute': 'cont'}");
    or_wait(q, 11);
    g_assert_cmpuint(qtest_readq(card->qts, OR_SHARED + 8), ==, 5);
    OR_WAIT(or_reg64(card, OPENREG_REG_CLOCK) > clock);
    g_free(q);
    or_quit(card);
}

#define PORT_SLOT 3

/* Sets up a root port as firmware does: bus 1, and a memory window for BARs. */
static QPCIDevice *or_port(QPCIBus *bus)
{
    QPCIDevice *port = qpci_device_find(bus, QPCI_DEVFN(PORT_SLOT, 0));

    g_assert_nonnull(port);
    qpci_config_writel(port, PCI_PRIMARY_BUS, 0x010100);
    qpci_config_writel(port, PCI_MEMORY_BASE, 0xeff0e000);
    qpci_device_enable(port);
    return port;
}

static void or_slot_power(QPCIDevice *port, bool on)
{
    uint8_t cap = qpci_find_capability(port, PCI_CAP_ID_EXP, 0);

    qpci_config_writew(port, cap + PCI_EXP_SLTCTL, PCI_EXP_SLTCTL_ATTN_IND_OFF |
                       (on ? PCI_EXP_SLTCTL_PWR_IND_ON :
                             PCI_EXP_SLTCTL_PWR_IND_OFF |
                             PCI_EXP_SLTCTL_PCC));
}

/* Unplugs the card: switches off the slot's power, as a guest does on request. */
static void or_unplug(QTestState *qts, QPCIDevice *port)
{
    qtest_qmp_device_del_send(qts, "card0");
    or_slot_power(port, false);
    qtest_qmp_eventwait(qts, "DEVICE_DELETED");
}

static QTestState *or_start_with_port(void)
{
    return or_start_machine(
        "-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off "
        "-device pcie-root-port,id=port0,addr=%d", PORT_SLOT);
}

/* Plugs a card into a running machine, and unplugs it while it is busy. */
static void test_hotplug(void)
{
    QTestState *qts = or_start_with_port();
    QPCIBus *bus = qpci_new_pc(qts, NULL);
    QPCIDevice *port = or_port(bus);
    OrCard *card;
    int i;

    for (i = 0; i < 4; i++) {
        qtest_qmp_device_add(qts, "openreg", "card0", "{'bus': 'port0',"
                             " 'vram-size': %d, 'ioeventfd': %s}", OR_VRAM,
                             i & 1 ? "on" : "off");
        or_slot_power(port, true);
        card = or_probe(qts, 1 << 8, 16 << 20);
        or_enable(card);
        or_works(card);
        or_reset(card, 0);
        or_enable(card);
        or_busy(card);
        or_unplug(qts, port);
        g_assert_null(qpci_device_find(bus, 1 << 8));
        or_card_free(card);
    }
    g_free(port);
    qpci_free_pc(bus);
    qtest_quit(qts);
}

/* Plugs the next card while QEMU may not yet have freed the old card's memory. */
static void test_hotplug_at_once(void)
{
    QTestState *qts = or_start_with_port();
    QPCIBus *bus = qpci_new_pc(qts, NULL);
    QPCIDevice *port = or_port(bus);
    QDict *reply;
    bool added;
    int i;

    for (i = 0; i < 40; i++) {
        do {
            reply = qtest_qmp(qts, "{'execute': 'device_add', 'arguments':"
                              " {'driver': 'openreg', 'id': 'card0', 'bus': 'port0',"
                              " 'vram-size': %d}}", OR_VRAM);
            added = qdict_haskey(reply, "return");
            qobject_unref(reply);
        } while (!added);
        or_slot_power(port, true);
        qtest_qmp_device_del_send(qts, "card0");
        or_slot_power(port, false);
    }
    g_free(port);
    qpci_free_pc(bus);
    qtest_quit(qts);
}

static void test_two_cards(void)
{
    QTestState *qts = or_start_machine(
        "-device openreg,addr=4," OR_VRAM_ARG ",workers=1 "
        "-device openreg,addr=5," OR_VRAM_ARG ",workers=1");
    OrCard *card[2];
    OrQueue *q[2];
    OrPacket p;
    int i;

    for (i = 0; i < 2; i++) {
        card[i] = or_probe(qts, QPCI_DEVFN(4 + i, 0), (16 + 64 * i) << 20);
        or_enable(card[i]);
        or_reg_write(card[i], OPENREG_REG_CARD_ID, i + 3);
        q[i] = or_setup(card[i]);
    }
    for (i = 0; i < 2; i++) {
        or_word(&p, OPENREG_OP_SIGNAL, OPENREG_ADDR(i + 3, 1, 0), 100 + i);
        or_wait(q[i], or_push(q[i], &p));
    }
    for (i = 0; i < 2; i++) {
        g_assert_cmpuint(qpci_io_readq(card[i]->dev, card[i]->vram, 0), ==,
                         100 + i);
        /* The card updates the counter at the end of a turn. */
        OR_WAIT(or_reg64(card[i], OPENREG_REG_STAT_PACKETS) == 1);
        g_free(q[i]);
    }
    or_card_free(card[0]);
    or_quit(card[1]);
}

void or_add_life_tests(void)
{
    qtest_add_func("/openreg/life/flr", test_flr);
    qtest_add_func("/openreg/life/reset-register", test_reset_register);
    qtest_add_func("/openreg/life/disable", test_disable);
    qtest_add_func("/openreg/life/system-reset", test_system_reset);
    qtest_add_func("/openreg/life/bus-master", test_bus_master);
    qtest_add_func("/openreg/life/stop-cont", test_stop_cont);
    qtest_add_func("/openreg/life/hotplug", test_hotplug);
    qtest_add_func("/openreg/life/hotplug-at-once", test_hotplug_at_once);
    qtest_add_func("/openreg/life/two-cards", test_two_cards);
}
