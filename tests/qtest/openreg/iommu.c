/*
 * openreg behind an Intel IOMMU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"

/* Registers of the remapping unit. */
#define VTD 0xfed90000ULL
#define VTD_GCMD 0x18
#define VTD_GSTS 0x1c
#define VTD_RTADDR 0x20
#define VTD_FSTS 0x34
#define VTD_IOTLB 0xf8
#define VTD_ENABLE (1u << 31)
#define VTD_SET_ROOT (1u << 30)
#define VTD_INVALIDATE_ALL (1ULL << 63 | 1ULL << 60)

/* Translation tables, above the memory of or_mem(). */
#define ROOT 0xe000000ULL
#define CONTEXTS 0xe001000ULL
#define LEVEL3 0xe002000ULL
#define LEVEL2 0xe003000ULL
#define RW 3ULL
#define LARGE (1ULL << 7) /* 2 MiB */
#define IOVA (1ULL << 30) /* bus address of guest address 0 */

/* Maps the first 256 MiB at IOVA, and no other memory. */
static void or_iommu_enable(QTestState *qts)
{
    uint64_t entry = CONTEXTS + QPCI_DEVFN(OR_SLOT, 0) * 16;
    unsigned int i;

    qtest_memset(qts, ROOT, 0, 4 * OR_PAGE);
    qtest_writeq(qts, ROOT, CONTEXTS | 1);
    qtest_writeq(qts, entry, LEVEL3 | 1);
    qtest_writeq(qts, entry + 8, 1 << 8 | 1); /* domain 1, three levels */
    qtest_writeq(qts, LEVEL3 + 8, LEVEL2 | RW);
    for (i = 0; i < 128; i++) {
        qtest_writeq(qts, LEVEL2 + 8 * i, (uint64_t)i << 21 | LARGE | RW);
    }
    qtest_writeq(qts, VTD + VTD_RTADDR, ROOT);
    qtest_writel(qts, VTD + VTD_GCMD, VTD_SET_ROOT);
    qtest_writel(qts, VTD + VTD_GCMD, VTD_ENABLE);
    g_assert_cmphex(qtest_readl(qts, VTD + VTD_GSTS) & VTD_ENABLE, !=, 0);
}

static OrCard *or_translated_card(void)
{
    QTestState *qts = or_start_machine(
        "-device intel-iommu -device openreg,addr=%d," OR_VRAM_ARG
        ",workers=2", OR_SLOT);
    OrCard *card = or_probe(qts, QPCI_DEVFN(OR_SLOT, 0), 16 << 20);

    or_iommu_enable(qts);
    card->iova = IOVA;
    or_enable(card);
    return card;
}

/* The card reaches rings, page lists, pages and interrupts through the IOMMU. */
static void test_translation(void)
{
    OrCard *card = or_translated_card();
    OrQueue *q = or_setup(card);
    uint64_t word = or_vector(card, 1, 0x1234);
    const int64_t n = 512;
    OrPacket p;
    int i;

    client_store(&card->client, q->kernel, 20);
    for (i = 0; i < n; i++) {
        qtest_writeq(card->qts, OR_SHARED + 8 * i, i * 3);
    }
    for (i = 0; i < 20; i++) {
        or_packet(&p, OPENREG_OP_COPY, 0);
        or_space(&p, 1, &n);
        or_operand(&p, OR_V(0), OPENREG_I64, NULL);
        or_operand(&p, OR_S(0), OPENREG_I64, NULL);
        or_wait(q, or_push(q, &p));
    }
    OR_WAIT(qtest_readl(card->qts, word) == 0x1234);
    for (i = 0; i < n; i++) {
        g_assert_cmpuint(qpci_io_readq(card->dev, card->vram, 8 * i), ==,
                         i * 3);
    }
    g_assert_cmphex(qtest_readl(card->qts, VTD + VTD_FSTS), ==, 0);
    g_free(q);
    or_quit(card);
}

/* A guest address of valid memory that the IOMMU does not map for the card. */
static void test_unmapped(void)
{
    OrCard *card = or_translated_card();
    OrQueue *q = or_setup(card);
    const OrQueue unmapped = {
        .ctx = 1, .id = 9, .slots = 64, .vector = 1,
        .ring = 0x2000000, .user = 0x2001000, .page = 0x2002000,
        .kernel = 0x2003000,
    };
    const struct openreg_admin_cmd cmd = cmd_queue(&unmapped,
                                                   OPENREG_PRIORITY_LOW);

    g_assert_cmpuint(or_admin(card, &cmd), ==, OPENREG_ADMIN_EDMA);
    g_assert_cmphex(qtest_readl(card->qts, VTD + VTD_FSTS), !=, 0);
    g_free(q);
    or_quit(card);
}

/* The guest unmaps memory while a queue uses it: the packet faults. */
static void test_unmap(void)
{
    OrCard *card = or_translated_card();
    OrQueue *q = or_setup(card);
    struct openreg_fault_record r;
    OrPacket p;

    or_word(&p, OPENREG_OP_SIGNAL, OR_S(0), 1);
    or_wait(q, or_push(q, &p));
    qtest_writeq(card->qts, LEVEL2 + 8 * (OR_SHARED >> 21), 0);
    qtest_writeq(card->qts, VTD + VTD_IOTLB, VTD_INVALIDATE_ALL);
    or_word(&p, OPENREG_OP_SIGNAL, OR_S(0), 2);
    or_push(q, &p);
    or_wait_fault(q, &r);
    g_assert_cmpuint(r.fault.code, ==, OPENREG_FAULT_DMA);
    g_assert_cmphex(r.fault.address, ==, OR_S(0));
    g_assert_cmpuint(qtest_readq(card->qts, OR_SHARED), ==, 1);

    /* Now unmap the queue's ring and pages as well. */
    or_reset(card, 0);
    g_free(q);
    qtest_writeq(card->qts, LEVEL2 + 8 * (OR_SHARED >> 21),
                 (OR_SHARED & ~((1ULL << 21) - 1)) | LARGE | RW);
    or_enable(card);
    q = or_setup(card);
    qtest_writeq(card->qts, LEVEL2 + 8 * ((q->user - card->iova) >> 21), 0);
    qtest_writeq(card->qts, VTD + VTD_IOTLB, VTD_INVALIDATE_ALL);
    qpci_io_writel(card->dev, card->bells, q->door * OR_PAGE, 1);
    OR_WAIT(or_reg64(card, OPENREG_REG_STAT_FAULTS) == 1);
    g_free(q);
    or_quit(card);
}

/* Pushes copies. QEMU translates several addresses for each one in the card's threads. */
static void or_flood(OrCard *card)
{
    OrQueue *q = or_setup(card);
    const int64_t n = 256;
    OrPacket p;
    unsigned int i;

    or_packet(&p, OPENREG_OP_COPY, 0);
    or_space(&p, 1, &n);
    or_operand(&p, OR_S(0), OPENREG_I64, NULL);
    or_operand(&p, OR_S(n * 8), OPENREG_I64, NULL);
    for (i = 0; i < OR_RING_SLOTS / 4; i++) {
        or_push(q, &p);
    }
    g_free(q);
}

/*
 * A reset or VM stop waits for the card's threads, while these wait for a lock of
 * QEMU to translate addresses: this must not deadlock.
 */
static void test_reset(void)
{
    OrCard *card = or_translated_card();
    int i;

    for (i = 0; i < 50; i++) {
        or_flood(card);
        or_flr(card);
        or_reprobe(card);
        or_flood(card);
        qtest_qmp_assert_success(card->qts, "{ 'execute': 'stop' }");
        qtest_qmp_assert_success(card->qts, "{ 'execute': 'cont' }");
        or_flr(card);
        or_reprobe(card);
    }
    or_flood(card);
    qtest_system_reset(card->qts);
    or_iommu_enable(card->qts);
    or_reprobe(card);
    or_works(card);
    or_quit(card);
}

void or_add_iommu_tests(void)
{
    qtest_add_func("/openreg/iommu/translation", test_translation);
    qtest_add_func("/openreg/iommu/unmapped", test_unmapped);
    qtest_add_func("/openreg/iommu/unmap", test_unmap);
    qtest_add_func("/openreg/iommu/reset", test_reset);
}
