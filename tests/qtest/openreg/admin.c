/*
 * openreg: the admin ring
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"

#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)

static void or_expect(OrCard *card, struct openreg_admin_cmd cmd,
                      uint32_t status)
{
    g_assert_cmpuint(or_admin(card, &cmd), ==, status);
}

/* More commands than slots, and unknown commands. */
static void test_ring(void)
{
    OrCard *card = or_card("");
    unsigned int i;

    for (i = 0; i < 3 * OR_ADMIN_SLOTS + 5; i++) {
        or_expect(card, cmd_of(OPENREG_ADMIN_NOP, 0, 0), OPENREG_ADMIN_OK);
    }
    or_expect(card, cmd_of(10, 0, 0), OPENREG_ADMIN_EOPCODE);
    or_expect(card, cmd_of(0xffff, 0, 0), OPENREG_ADMIN_EOPCODE);
    or_expect(card, (struct openreg_admin_cmd) { .flags = 1 },
              OPENREG_ADMIN_EINVAL);
    or_expect(card, (struct openreg_admin_cmd) { .reserved = 1 },
              OPENREG_ADMIN_EINVAL);
    or_quit(card);
}

static void test_contexts(void)
{
    OrCard *card = or_card("");
    struct openreg_admin_cmd destroy = cmd_of(OPENREG_ADMIN_CTX_DESTROY, 3, 0);

    or_expect(card, destroy, OPENREG_ADMIN_ENOENT);
    g_assert_cmpuint(or_ctx_create(card, 3), ==, OPENREG_ADMIN_OK);
    g_assert_cmpuint(or_ctx_create(card, 3), ==, OPENREG_ADMIN_EEXIST);
    g_assert_cmpuint(or_ctx_create(card, OPENREG_MAX_CONTEXTS), ==,
                     OPENREG_ADMIN_EINVAL);
    or_expect(card, destroy, OPENREG_ADMIN_OK);
    or_expect(card, destroy, OPENREG_ADMIN_ENOENT);
    g_assert_cmpuint(or_ctx_create(card, 3), ==, OPENREG_ADMIN_OK);
    or_quit(card);
}

static void test_segments(void)
{
    OrCard *card = or_card("");
    struct openreg_admin_cmd good = cmd_vram(0, 1, 0, OR_VRAM, RW);
    struct openreg_admin_cmd unbind = cmd_unbind(0, 1, 0), cmd;

    or_expect(card, good, OPENREG_ADMIN_ENOENT); /* no context 0 yet */
    or_ctx_create(card, 0);
#define BAD(change)                                                          \
    cmd = good;                                                              \
    cmd.change;                                                              \
    or_expect(card, cmd, OPENREG_ADMIN_EINVAL)
    BAD(id = 0);
    BAD(id = OPENREG_MAX_SEGMENTS);
    BAD(seg.kind = 0);
    BAD(seg.kind = OPENREG_SEG_PEER);
    BAD(seg.perm = 0);
    BAD(seg.perm = 4 | OPENREG_SEG_READ);
    BAD(seg.length = 0);
    BAD(seg.length = OR_VRAM + 1);
    BAD(seg.length = UINT64_MAX);
    BAD(seg.base = 4096);
    BAD(seg.base = UINT64_MAX & ~4095ULL);
    BAD(seg.npages = 1);
    BAD(seg.page_shift = 12);
    BAD(seg.offset = 1);
    BAD(seg.reserved = 1);
#undef BAD
    or_expect(card, good, OPENREG_ADMIN_OK);
    or_expect(card, good, OPENREG_ADMIN_EEXIST);
    or_expect(card, unbind, OPENREG_ADMIN_OK);
    or_expect(card, unbind, OPENREG_ADMIN_ENOENT);
    or_expect(card, good, OPENREG_ADMIN_OK);
    or_quit(card);
}

static void test_page_lists(void)
{
    OrCard *card = or_card("");
    uint64_t pages[3] = { 0x3000000, 0x3005000, 0x3002000 };
    struct openreg_admin_cmd cmd = cmd_pages(0, 9, 1ULL << 45, 0, 4096, RW);

    or_ctx_create(card, 0);
    g_assert_cmpuint(or_seg_system(card, 0, 1, RW, pages, 3, 16, 2 * 4096 + 1),
                     ==, OPENREG_ADMIN_OK);
    /* Too few and too many pages, an offset beyond a page, a misaligned page. */
    g_assert_cmpuint(or_seg_system(card, 0, 2, RW, pages, 2, 16, 2 * 4096), ==,
                     OPENREG_ADMIN_EINVAL);
    g_assert_cmpuint(or_seg_system(card, 0, 2, RW, pages, 3, 16, 4096), ==,
                     OPENREG_ADMIN_EINVAL);
    g_assert_cmpuint(or_seg_system(card, 0, 2, RW, pages, 3, 4096, 8192), ==,
                     OPENREG_ADMIN_EINVAL);
    pages[1]++;
    g_assert_cmpuint(or_seg_system(card, 0, 2, RW, pages, 3, 0, 3 * 4096), ==,
                     OPENREG_ADMIN_EINVAL);
    /* A page list outside of memory. */
    or_expect(card, cmd, OPENREG_ADMIN_EDMA);
    cmd.seg.kind = OPENREG_SEG_PEER;
    or_expect(card, cmd, OPENREG_ADMIN_EDMA);
    cmd.seg.base = 0x3000000;
    cmd.seg.page_shift = 13;
    or_expect(card, cmd, OPENREG_ADMIN_EINVAL);
    or_quit(card);
}

static void or_bad_queues(OrCard *card, const struct openreg_admin_cmd *good)
{
    struct openreg_admin_cmd cmd;

#define BAD(change, status)                                                  \
    cmd = *good;                                                             \
    cmd.change;                                                              \
    or_expect(card, cmd, OPENREG_ADMIN_##status)
    BAD(ctx = 1, ENOENT);
    BAD(id = OPENREG_MAX_QUEUES, EINVAL);
    BAD(queue.slots = OPENREG_RING_SLOTS_MIN / 2, EINVAL);
    BAD(queue.slots = OPENREG_RING_SLOTS_MAX * 2, EINVAL);
    BAD(queue.slots = 65, EINVAL);
    BAD(queue.doorbell = 64, EINVAL);
    BAD(queue.vector = 0, EINVAL);
    BAD(queue.vector = 32, EINVAL);
    BAD(queue.priority = 3, EINVAL);
    BAD(queue.flags = OPENREG_QUEUE_KEEP << 1, EINVAL);
    BAD(queue.ring |= 64, EINVAL);
    BAD(queue.user_page |= 8, EINVAL);
    BAD(queue.card_page |= 8, EINVAL);
    BAD(queue.kernel_page |= 8, EINVAL);
    BAD(queue.ring = 1ULL << 45, EDMA);
    BAD(queue.user_page = 1ULL << 45, EDMA);
    BAD(queue.card_page = 1ULL << 45, EDMA);
    BAD(queue.kernel_page = 1ULL << 45, EDMA);
    BAD(queue.card_page = 0xfffff000, EDMA); /* the firmware's ROM */
#undef BAD
}

static void test_queues(void)
{
    OrCard *card = or_card("");
    struct openreg_admin_cmd cmd;
    OrQueue *q, *bad;

    or_ctx_create(card, 0);
    q = or_queue(card, 0, 1, 1);
    bad = or_new_queue(card, 0, 5, 1);
    bad->door = 0;
    cmd = cmd_queue(bad, OPENREG_PRIORITY_LOW);
    g_free(bad);
    or_bad_queues(card, &cmd);

    /* A doorbell page belongs to one context. */
    or_ctx_create(card, 1);
    cmd.ctx = 1;
    cmd.queue.doorbell = q->door;
    or_expect(card, cmd, OPENREG_ADMIN_EINVAL);
    cmd.queue.doorbell++;
    or_expect(card, cmd, OPENREG_ADMIN_OK);
    or_expect(card, cmd, OPENREG_ADMIN_EEXIST);

    cmd = cmd_of(OPENREG_ADMIN_QUEUE_STOP, 1, 5);
    or_expect(card, cmd, OPENREG_ADMIN_OK);
    cmd.opcode = OPENREG_ADMIN_QUEUE_RESET;
    or_expect(card, cmd, OPENREG_ADMIN_OK);
    cmd.opcode = OPENREG_ADMIN_QUEUE_DESTROY;
    cmd.ctx = 0;
    or_expect(card, cmd, OPENREG_ADMIN_ENOENT); /* belongs to another context */
    cmd.ctx = 1;
    or_expect(card, cmd, OPENREG_ADMIN_OK);
    or_expect(card, cmd, OPENREG_ADMIN_ENOENT);
    g_free(q);
    or_quit(card);
}

static void or_fill(OrCard *card, uint64_t off, uint64_t len, uint64_t value,
                    uint32_t status)
{
    or_expect(card, cmd_fill(off, len, value), status);
}

static void test_fill(void)
{
    OrCard *card = or_card("");

    /* A small fill, and one that the card splits. */
    or_fill(card, 4096, 8192, 0xab, OPENREG_ADMIN_OK);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, 4095), ==, 0);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, 4096), ==, 0xab);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, 12287), ==, 0xab);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, 12288), ==, 0);
    or_fill(card, 0, OR_VRAM, 0xcd, OPENREG_ADMIN_OK);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, 0), ==, 0xcd);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, OR_VRAM / 2), ==, 0xcd);
    g_assert_cmphex(qpci_io_readb(card->dev, card->vram, OR_VRAM - 1), ==, 0xcd);

    or_fill(card, 1, 4096, 0, OPENREG_ADMIN_EINVAL);
    or_fill(card, 0, 100, 0, OPENREG_ADMIN_EINVAL);
    or_fill(card, 0, 4096, 256, OPENREG_ADMIN_EINVAL);
    or_fill(card, OR_VRAM, 4096, 0, OPENREG_ADMIN_EINVAL);
    or_fill(card, 4096, OR_VRAM, 0, OPENREG_ADMIN_EINVAL);
    or_fill(card, 4096, UINT64_MAX & ~4095ULL, 0, OPENREG_ADMIN_EINVAL);
    or_expect(card, cmd_of(OPENREG_ADMIN_FILL, 1, 0), OPENREG_ADMIN_EINVAL);
    or_expect(card, cmd_of(OPENREG_ADMIN_FILL, 0, 1), OPENREG_ADMIN_EINVAL);
    or_quit(card);
}

/* Every completion raises vector 0. */
static void test_interrupt(void)
{
    OrCard *card = or_card("");
    uint64_t word = or_vector(card, 0, 0x600d);

    or_ctx_create(card, 1);
    OR_WAIT(qtest_readl(card->qts, word) == 0x600d);
    or_quit(card);
}

/* An interrupt of a masked vector stays pending until the vector is unmasked. */
static void test_masked_interrupt(void)
{
    OrCard *card = or_card("");
    uint64_t word = or_vector(card, 0, 0x600d);

    or_reg_write(card, OPENREG_MSIX_TABLE + 12, 1);
    or_ctx_create(card, 1);
    OR_WAIT(or_reg(card, OPENREG_MSIX_PBA) & 1);
    g_assert_cmphex(qtest_readl(card->qts, word), ==, 0);
    or_reg_write(card, OPENREG_MSIX_TABLE + 12, 0);
    OR_WAIT(qtest_readl(card->qts, word) == 0x600d);
    g_assert_cmphex(or_reg(card, OPENREG_MSIX_PBA) & 1, ==, 0);
    or_quit(card);
}

/* Rings outside of memory or of a bad size make the card FATAL. */
static void test_bad_rings(void)
{
    static const struct {
        uint64_t base, cpl, fault;
        uint32_t slots, fault_slots;
    } bad[] = {
        { 1ULL << 45, 0x2000000, 0x2001000, 64, 16 },
        { 0x2000000, 1ULL << 45, 0x2001000, 64, 16 },
        { 0x2000000, 0x2001000, 1ULL << 45, 64, 16 },
        { 0x2000000, 0x2001000, 0x2002000, 63, 16 },
        { 0x2000000, 0x2001000, 0x2002000, 8192, 16 },
        { 0x2000000, 0x2001000, 0x2002000, 64, 0 },
        { 0x2000000, 0x2001000, 0x2002000, 64, 1 },
    };
    QTestState *qts = or_start("");
    OrCard *card = or_probe(qts, QPCI_DEVFN(OR_SLOT, 0), 16 << 20);
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(bad); i++) {
        or_reg_write64(card, OPENREG_REG_ADMIN_BASE, bad[i].base);
        or_reg_write64(card, OPENREG_REG_ADMIN_CPL, bad[i].cpl);
        or_reg_write64(card, OPENREG_REG_FAULT_BASE, bad[i].fault);
        or_reg_write(card, OPENREG_REG_ADMIN_SLOTS, bad[i].slots);
        or_reg_write(card, OPENREG_REG_FAULT_SLOTS, bad[i].fault_slots);
        or_reg_write(card, OPENREG_REG_CONTROL, OPENREG_CONTROL_ENABLE);
        /* Write the tail after the card is enabled, which sets the tail to 0. */
        OR_WAIT(or_reg(card, OPENREG_REG_STATUS));
        or_reg_write(card, OPENREG_REG_ADMIN_TAIL, 1);
        OR_WAIT(or_reg(card, OPENREG_REG_STATUS) & OPENREG_STATUS_FATAL);
        or_reset(card, 0);
        g_assert_cmphex(or_reg(card, OPENREG_REG_STATUS), ==, 0);
    }
    or_enable(card);
    g_assert_cmpuint(or_ctx_create(card, 1), ==, OPENREG_ADMIN_OK);
    or_quit(card);
}

void or_add_admin_tests(void)
{
    qtest_add_func("/openreg/admin/ring", test_ring);
    qtest_add_func("/openreg/admin/contexts", test_contexts);
    qtest_add_func("/openreg/admin/segments", test_segments);
    qtest_add_func("/openreg/admin/page-lists", test_page_lists);
    qtest_add_func("/openreg/admin/queues", test_queues);
    qtest_add_func("/openreg/admin/fill", test_fill);
    qtest_add_func("/openreg/admin/interrupt", test_interrupt);
    qtest_add_func("/openreg/admin/masked-interrupt", test_masked_interrupt);
    qtest_add_func("/openreg/admin/bad-rings", test_bad_rings);
}
