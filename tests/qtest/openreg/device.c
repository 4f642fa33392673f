/*
 * openreg: PCI identity, BARs, registers, properties
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"
#include "qapi/error.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "standard-headers/linux/pci_regs.h"

static OrCard *or_bare(const char *args)
{
    return or_probe(or_start(args), QPCI_DEVFN(OR_SLOT, 0), 16 << 20);
}

static void test_identity(void)
{
    OrCard *card = or_bare("");
    uint8_t cap;
    uint32_t word;

    g_assert_cmphex(qpci_config_readw(card->dev, PCI_VENDOR_ID), ==,
                    OPENREG_PCI_VENDOR);
    g_assert_cmphex(qpci_config_readw(card->dev, PCI_DEVICE_ID), ==,
                    OPENREG_PCI_DEVICE);
    g_assert_cmphex(qpci_config_readw(card->dev, PCI_CLASS_DEVICE), ==,
                    OPENREG_PCI_CLASS);
    g_assert_cmphex(qpci_config_readb(card->dev, PCI_REVISION_ID), ==,
                    OPENREG_PCI_REVISION);

    cap = qpci_find_capability(card->dev, PCI_CAP_ID_EXP, 0);
    g_assert_cmphex(cap, !=, 0);
    word = qpci_config_readl(card->dev, cap + PCI_EXP_DEVCAP);
    g_assert_cmphex(word & PCI_EXP_DEVCAP_FLR, !=, 0);

    cap = qpci_find_capability(card->dev, PCI_CAP_ID_MSIX, 0);
    g_assert_cmphex(cap, !=, 0);
    word = qpci_config_readw(card->dev, cap + PCI_MSIX_FLAGS);
    g_assert_cmpuint((word & PCI_MSIX_FLAGS_QSIZE) + 1, ==, 32);
    word = qpci_config_readl(card->dev, cap + PCI_MSIX_TABLE);
    g_assert_cmphex(word, ==, OPENREG_MSIX_TABLE | OPENREG_BAR_REGS);
    word = qpci_config_readl(card->dev, cap + PCI_MSIX_PBA);
    g_assert_cmphex(word, ==, OPENREG_MSIX_PBA | OPENREG_BAR_REGS);
    or_quit(card);
}

static uint32_t or_bar_size(OrCard *card, int bar, uint32_t *type)
{
    int reg = PCI_BASE_ADDRESS_0 + 4 * bar;
    uint32_t old = qpci_config_readl(card->dev, reg);
    uint32_t value;

    qpci_config_writel(card->dev, reg, 0xffffffff);
    value = qpci_config_readl(card->dev, reg);
    qpci_config_writel(card->dev, reg, old);
    *type = value & 0xf;
    return -(value & ~0xf);
}

static void test_bars(void)
{
    OrCard *card = or_bare(",doorbells=40");
    uint32_t type;

    g_assert_cmphex(or_bar_size(card, OPENREG_BAR_REGS, &type), ==,
                    OPENREG_BAR_REGS_SIZE);
    g_assert_cmphex(type, ==, PCI_BASE_ADDRESS_MEM_TYPE_64);
    /* 40 pages, rounded up to a power of two. */
    g_assert_cmphex(or_bar_size(card, OPENREG_BAR_DOORBELL, &type), ==,
                    64 * OR_PAGE);
    g_assert_cmphex(type, ==, PCI_BASE_ADDRESS_MEM_TYPE_64);
    g_assert_cmphex(or_bar_size(card, OPENREG_BAR_VRAM, &type), ==, OR_VRAM);
    g_assert_cmphex(type, ==, PCI_BASE_ADDRESS_MEM_TYPE_64 |
                              PCI_BASE_ADDRESS_MEM_PREFETCH);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_DOORBELLS), ==, 40);
    or_quit(card);
}

static void test_registers(void)
{
    OrCard *card = or_bare(",vectors=5");
    uint64_t clock;

    g_assert_cmphex(or_reg(card, OPENREG_REG_MAGIC), ==, OPENREG_MAGIC);
    g_assert_cmphex(or_reg(card, OPENREG_REG_VERSION), ==,
                    OPENREG_ISA_MAJOR << 16 | OPENREG_ISA_MINOR);
    g_assert_cmphex(or_reg(card, OPENREG_REG_STATUS), ==, 0);
    g_assert_cmphex(or_reg(card, OPENREG_REG_CONTROL), ==, 0);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_PACKETS), ==,
                    ((1 << OPENREG_OP_END) - 1) & ~(1 << OPENREG_OP_NOTE));
    g_assert_cmphex(or_reg64(card, OPENREG_REG_DTYPES), ==,
                    (1 << OPENREG_DTYPE_END) - 2);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_VRAM_SIZE), ==, OR_VRAM);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_MAX_CONTEXTS), ==,
                     OPENREG_MAX_CONTEXTS);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_MAX_QUEUES), ==,
                     OPENREG_MAX_QUEUES);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_MAX_SEGMENTS), ==,
                     OPENREG_MAX_SEGMENTS);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_DOORBELLS), ==, 64);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_VECTORS), ==, 5);
    g_assert_cmphex(or_reg(card, OPENREG_REG_PAGE_SHIFTS), ==,
                    1 << 12 | 1 << 21);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_RING_SLOTS), ==,
                     OPENREG_RING_SLOTS_MAX);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_WORKERS), ==, 2);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_SLICE_US), ==, 2000);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_MAX_WORK), >=, 30);
    clock = or_reg64(card, OPENREG_REG_CLOCK);
    OR_WAIT(or_reg64(card, OPENREG_REG_CLOCK) > clock);
    or_quit(card);
}

/* RW registers keep written bits; RO registers and holes do not change. */
static void test_register_access(void)
{
    static const unsigned int rw64[] = {
        OPENREG_REG_ADMIN_BASE, OPENREG_REG_ADMIN_CPL, OPENREG_REG_FAULT_BASE,
    };
    static const unsigned int ro[] = {
        OPENREG_REG_MAGIC, OPENREG_REG_VERSION, OPENREG_REG_STATUS,
        OPENREG_REG_VRAM_SIZE, OPENREG_REG_DOORBELLS, OPENREG_REG_FAULT_TAIL,
        OPENREG_REG_STAT_PACKETS,
    };
    static const unsigned int holes[] = {
        0x054, 0x060, 0x07c, 0x09c, 0x0b8, 0x0fc, 0x150, 0x1000, 0x7ffc,
    };
    OrCard *card = or_bare("");
    unsigned int i;
    uint32_t old;

    for (i = 0; i < ARRAY_SIZE(rw64); i++) {
        or_reg_write64(card, rw64[i], 0x123456789abcd000);
        g_assert_cmphex(or_reg64(card, rw64[i]), ==, 0x123456789abcd000);
        qpci_io_writeq(card->dev, card->regs, rw64[i], 0xfedcba9876543000);
        g_assert_cmphex(or_reg(card, rw64[i]), ==, 0x76543000);
        g_assert_cmphex(or_reg(card, rw64[i] + 4), ==, 0xfedcba98);
    }
    or_reg_write(card, OPENREG_REG_CARD_ID, 11);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_CARD_ID), ==, 11);
    for (i = 0; i < ARRAY_SIZE(ro); i++) {
        old = or_reg(card, ro[i]);
        or_reg_write(card, ro[i], ~old);
        g_assert_cmphex(or_reg(card, ro[i]), ==, old);
    }
    for (i = 0; i < ARRAY_SIZE(holes); i++) {
        or_reg_write(card, holes[i], 0xffffffff);
        g_assert_cmphex(or_reg(card, holes[i]), ==, 0);
    }
    /* Accesses that are not 4 or 8 bytes or not aligned do nothing. */
    qpci_io_writeb(card->dev, card->regs, OPENREG_REG_CARD_ID, 3);
    qpci_io_writew(card->dev, card->regs, OPENREG_REG_CARD_ID, 3);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_CARD_ID), ==, 11);
    or_quit(card);
}

#define OR_REGS 0x160 /* end of the registers */
#define OR_LOOK (OR_REGS + 8)

/* True for words that the card changes by itself; an enabled card changes more. */
static bool or_changes(unsigned int off, bool enabled)
{
    off &= ~3u;
    if (off == OPENREG_REG_CLOCK || off == OPENREG_REG_CLOCK + 4) {
        return true;
    }
    if (!enabled) {
        return off >= OPENREG_REG_STAT_SLEEPS &&
               off < OPENREG_REG_STAT_SLEEP_NS + 8;
    }
    return off == OPENREG_REG_STATUS ||
           (off >= OPENREG_REG_STAT_PACKETS &&
            off < OPENREG_REG_STAT_SLEEP_NS + 8);
}

/* Bits of a word that are writable by the manual. */
static uint32_t or_writable(unsigned int off, bool enabled)
{
    switch (off) {
    case OPENREG_REG_CARD_ID:
        return OPENREG_MAX_CARDS - 1;
    case OPENREG_REG_ADMIN_TAIL:
    case OPENREG_REG_FAULT_HEAD:
        return UINT32_MAX;
    case OPENREG_REG_ADMIN_BASE:
    case OPENREG_REG_ADMIN_BASE + 4:
    case OPENREG_REG_ADMIN_CPL:
    case OPENREG_REG_ADMIN_CPL + 4:
    case OPENREG_REG_ADMIN_SLOTS:
    case OPENREG_REG_FAULT_BASE:
    case OPENREG_REG_FAULT_BASE + 4:
    case OPENREG_REG_FAULT_SLOTS:
        return enabled ? 0 : UINT32_MAX;
    }
    return 0;
}

/* Size of the first aligned part into which the bus splits an access. */
static unsigned int or_part(unsigned int off, unsigned int left)
{
    unsigned int n = 8;

    while (n > left || off % n) {
        n /= 2;
    }
    return n;
}

static void or_expect_read(OrCard *card, const uint8_t *model, unsigned int off,
                           unsigned int width, bool enabled)
{
    uint8_t got[8];
    unsigned int i = 0, n, end;

    qtest_memread(card->qts, card->regs.addr + off, got, width);
    while (i < width) {
        n = or_part(off + i, width - i);
        for (end = i + n; i < end; i++) {
            if (!or_changes(off + i, enabled) || n < 4) {
                g_assert_cmphex(got[i], ==, n < 4 ? 0 : model[off + i]);
            }
        }
    }
}

/* Writes random bytes, and updates the model; bit 0 keeps ENABLE of CONTROL. */
static void or_try_write(OrCard *card, uint8_t *model, unsigned int off,
                         unsigned int width, bool enabled)
{
    static uint8_t seed;
    uint8_t value[8];
    uint32_t mask, old, new;
    unsigned int i, n, at;

    for (i = 0; i < width; i++) {
        value[i] = (seed++ * 4) | (enabled ? OPENREG_CONTROL_ENABLE : 0);
    }
    qtest_memwrite(card->qts, card->regs.addr + off, value, width);
    for (i = 0; i < width; i += n) {
        n = or_part(off + i, width - i);
        for (at = i; n >= 4 && at < i + n; at += 4) {
            mask = or_writable(off + at, enabled);
            old = ldl_le_p(model + off + at);
            new = ldl_le_p(value + at);
            stl_le_p(model + off + at, (old & ~mask) | (new & mask));
        }
    }
}

static void or_expect_all(OrCard *card, const uint8_t *model, unsigned int off,
                          unsigned int width, bool enabled)
{
    uint8_t now[OR_LOOK];
    unsigned int i;

    qtest_memread(card->qts, card->regs.addr, now, sizeof(now));
    for (i = 0; i < sizeof(now); i++) {
        if (!or_changes(i, enabled) && now[i] != model[i]) {
            g_error("%u bytes at 0x%x: byte 0x%x is 0x%x, not 0x%x", width,
                    off, i, now[i], model[i]);
        }
    }
}

static void or_sweep(OrCard *card, bool enabled)
{
    uint8_t model[OR_LOOK];
    unsigned int off, width;

    qtest_memread(card->qts, card->regs.addr, model, sizeof(model));
    for (off = 0; off < OR_REGS; off++) {
        for (width = 1; width <= 8; width *= 2) {
            or_expect_read(card, model, off, width, enabled);
            or_try_write(card, model, off, width, enabled);
            or_expect_all(card, model, off, width, enabled);
        }
    }
}

/* Holes read as zeros, and a write to a hole changes no register. */
static void or_sweep_holes(OrCard *card)
{
    const unsigned int len = OPENREG_MSIX_TABLE - OR_REGS;
    g_autofree uint8_t *holes = g_malloc(len);
    uint8_t model[OR_LOOK], zeros[8] = { 0 }, got[8];
    const uint64_t ones = UINT64_MAX;
    unsigned int off, width;

    qtest_memread(card->qts, card->regs.addr, model, sizeof(model));
    for (off = OR_REGS; off < OPENREG_MSIX_TABLE; off++) {
        for (width = 1; width <= 8; width *= 2) {
            if (off + width > OPENREG_MSIX_TABLE) {
                continue;
            }
            qtest_memwrite(card->qts, card->regs.addr + off, &ones, width);
            qtest_memread(card->qts, card->regs.addr + off, got, width);
            g_assert_cmpmem(got, width, zeros, width);
        }
        if (off % 64 == 0) {
            or_expect_all(card, model, off, 8, false);
        }
    }
    or_expect_all(card, model, off, 8, false);
    qtest_memread(card->qts, card->regs.addr + OR_REGS, holes, len);
    g_assert_true(buffer_is_zero(holes, len));
}

/*
 * Writes with every offset, width and alignment change only the writable bits. An
 * enabled card accepts any tail, so a reset follows.
 */
static void test_every_access(void)
{
    OrCard *card = or_bare("");

    or_sweep(card, false);
    or_sweep_holes(card);
    or_reset(card, 0);
    or_enable(card);
    or_sweep(card, true);
    or_reset(card, 0);
    or_enable(card);
    or_works(card);
    or_quit(card);
}

static void test_vram(void)
{
    OrCard *card = or_bare("");
    uint64_t last = OR_VRAM - 8;

    g_assert_cmphex(qpci_io_readq(card->dev, card->vram, 0), ==, 0);
    qpci_io_writeq(card->dev, card->vram, 0, 0x1122334455667788);
    qpci_io_writeq(card->dev, card->vram, last, 0x99);
    g_assert_cmphex(qpci_io_readq(card->dev, card->vram, 0), ==,
                    0x1122334455667788);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, 1), ==, 0x77);
    g_assert_cmphex(qpci_io_readq(card->dev, card->vram, last), ==, 0x99);
    or_quit(card);
}

/* VRAM in a file that the test can read. */
static void test_memdev(void)
{
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp("openreg-vram-XXXXXX", &path, NULL);
    uint64_t word = 0;
    QTestState *qts;
    OrCard *card;

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, 32 << 20), ==, 0);
    qts = or_start_machine("-object memory-backend-file,id=m0,size=32M,"
                      "mem-path=%s,share=on -device openreg,addr=4,memdev=m0",
                      path);
    card = or_probe(qts, QPCI_DEVFN(OR_SLOT, 0), 16 << 20);
    g_assert_cmpuint(card->vram_bytes, ==, 32 << 20);
    g_assert_cmpuint(or_reg64(card, OPENREG_REG_VRAM_SIZE), ==, 32 << 20);
    qpci_io_writeq(card->dev, card->vram, 0x123450, 0x5a5aa5a5);
    g_assert_cmpint(pread(fd, &word, 8, 0x123450), ==, 8);
    g_assert_cmphex(word, ==, 0x5a5aa5a5);
    or_quit(card);
    close(fd);
    unlink(path);
}

static void or_refused(QTestState *qts, const char *json, const char *text)
{
    g_autofree char *full = g_strdup_printf("{%s}", json);
    QObject *arguments = qobject_from_json(full, &error_abort);
    QDict *error;
    const char *desc;

    error = qtest_qmp_assert_failure_ref(qts,
                                         "{'execute': 'device_add',"
                                         " 'arguments': %p}", arguments);
    desc = qdict_get_str(error, "desc");
    if (!strstr(desc, text)) {
        g_error("for %s: expected \"%s\" in \"%s\"", json, text, desc);
    }
    qobject_unref(error);
}

static const struct {
    const char *property;
    const char *text;
} or_bad[] = {
    { "'vram-size': 0", "power of two" },
    { "'vram-size': 1048576", "from 2M to 1T" },
    { "'vram-size': 3145728", "such as vram-size=1G" },
    { "'vram-size': 4398046511104", "from 2M to 1T" },
    { "'workers': 65", "workers=65 is out of range, it must be 1 to 64" },
    { "'workers': 'x'", "'workers' expects" },
    { "'ioeventfd': 'maybe'", "'ioeventfd' does not accept value 'maybe'" },
    { "'ioeventfd': 1", "Invalid parameter type for 'ioeventfd'" },
    { "'vectors': 1", "vectors=1 is out of range, it must be 2 to 64" },
    { "'vectors': 65", "vectors=65 is out of range" },
    { "'doorbells': 0", "doorbells=0 is out of range, it must be 1 to" },
    { "'doorbells': 257", "doorbells=257 is out of range" },
    { "'spin-us': 100001", "spin-us=100001 is out of range" },
    { "'x-slow-us': 100001", "x-slow-us=100001 is out of range" },
    { "'x-check': 'race,all'", "the words are race, init and bounds" },
    { "'x-inject-irq': 1", "x-inject-irq works only with x-inject=on" },
    { "'x-inject-irq': 3", "x-inject-irq=3 is out of range" },
    { "'memdev': 'nobody'", "'nobody' not found" },
    { "'memdev': 'odd'", "power of two" },
    { "'memdev': 'm0', 'vram-size': 4194304", "leave vram-size out" },
    { "'memdev': 'used'", "backend of its own" },
};

/* The same properties as text, as on a command line. */
static const struct {
    const char *property;
    const char *text;
} or_bad_words[] = {
    { "workers=x", "'workers' expects" },
    { "workers=4x", "'workers' expects" },
    { "workers=-1", "'workers' expects" },
    { "workers=", "'workers' expects" },
    { "vram-size=big", "'vram-size' expects" },
    { "x-inject=perhaps", "'x-inject' expects" },
    { "ioeventfd=maybe", "'ioeventfd' does not accept value 'maybe'" },
    { "ioeventfd=1", "'ioeventfd' does not accept value '1'" },
};

static void or_refused_words(QTestState *qts)
{
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(or_bad_words); i++) {
        const char *property = or_bad_words[i].property;
        g_autofree char *said =
            qtest_hmp(qts, "device_add openreg,id=bad,bus=port0,%s", property);

        if (!strstr(said, or_bad_words[i].text)) {
            g_error("for %s: expected \"%s\" in \"%s\"", property,
                    or_bad_words[i].text, said);
        }
    }
}

static void test_bad_properties(void)
{
    QTestState *qts;
    unsigned int i;

    qts = or_start_machine("-device pcie-root-port,id=port0 "
                     "-object memory-backend-ram,id=odd,size=3M "
                     "-object memory-backend-ram,id=m0,size=16M "
                     "-object memory-backend-ram,id=used,size=16M "
                     "-device openreg,memdev=used");
    for (i = 0; i < ARRAY_SIZE(or_bad); i++) {
        g_autofree char *json =
            g_strdup_printf("'driver': 'openreg', 'id': 'bad', 'bus': 'port0', "
                            "%s", or_bad[i].property);

        or_refused(qts, json, or_bad[i].text);
    }
    or_refused_words(qts);
    /* The refused devices have left no resources in use. */
    qtest_qmp_device_add(qts, "openreg", "good", "{'bus': 'port0',"
                         " 'memdev': 'm0'}");
    qtest_quit(qts);

    qts = or_start_machine("-device pcie-pci-bridge,id=bridge0");
    or_refused(qts, "'driver': 'openreg', 'bus': 'bridge0', 'addr': '1'",
               "behind a pcie-root-port");
    qtest_quit(qts);
}

static void test_info_pci(void)
{
    OrCard *card = or_bare("");
    g_autofree char *text = qtest_hmp(card->qts, "info pci");

    g_assert_nonnull(strstr(text, "Class 4608: PCI device 1af4:10f5"));
    g_assert_nonnull(strstr(text, "64 bit prefetchable memory"));
    or_quit(card);
}

void or_add_device_tests(void)
{
    qtest_add_func("/openreg/device/identity", test_identity);
    qtest_add_func("/openreg/device/bars", test_bars);
    qtest_add_func("/openreg/device/registers", test_registers);
    qtest_add_func("/openreg/device/register-access", test_register_access);
    qtest_add_func("/openreg/device/every-access", test_every_access);
    qtest_add_func("/openreg/device/vram", test_vram);
    qtest_add_func("/openreg/device/memdev", test_memdev);
    qtest_add_func("/openreg/device/bad-properties", test_bad_properties);
    qtest_add_func("/openreg/device/info-pci", test_info_pci);
}
