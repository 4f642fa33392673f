/*
 * openreg over qtest: a context with memory, and packets for it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "standard-headers/linux/pci_regs.h"

#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)
#define ELEMENTS (1 << 20)

OrQueue *or_setup(OrCard *card)
{
    const uint64_t page = OR_SHARED;

    g_assert_cmpuint(or_ctx_create(card, 1), ==, 0);
    g_assert_cmpuint(or_seg_vram(card, 1, 1, RW, 0, OR_VRAM), ==, 0);
    g_assert_cmpuint(or_seg_system(card, 1, 2, RW, &page, 1, 0, 4096), ==, 0);
    return or_queue(card, 1, 0, 1);
}

void or_long(OrPacket *p)
{
    const int64_t n = ELEMENTS;
    int i;

    or_packet(p, OPENREG_OP_VECTOR, 0);
    or_space(p, 1, &n);
    or_operand(p, OR_V(0), OPENREG_F32, NULL);
    or_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
    for (i = 0; i < 40; i++) {
        or_instr(p, OPENREG_V_LGAMMA, OPENREG_VT_F32, 0, 0, 0, 0, 0);
    }
    or_instr(p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 0);
}

void or_word(OrPacket *p, unsigned int opcode, uint64_t addr,
                    uint64_t value)
{
    or_packet(p, opcode, 0);
    or_operand(p, addr, OPENREG_I64, NULL);
    or_imm(p, value);
}

void or_works(OrCard *card)
{
    OrQueue *q = or_setup(card);
    OrPacket p;

    or_word(&p, OPENREG_OP_SIGNAL, OR_S(64), 0x77);
    or_wait(q, or_push(q, &p));
    g_assert_cmphex(qtest_readq(card->qts, OR_SHARED + 64), ==, 0x77);
    g_free(q);
}

void or_busy(OrCard *card)
{
    OrQueue *q = or_setup(card);
    OrQueue *waiting = or_queue(card, 1, 5, 2);
    OrPacket p;
    int i;

    or_word(&p, OPENREG_OP_WAIT, OR_S(0), 1);
    or_push(waiting, &p);
    or_long(&p);
    for (i = 0; i < 5; i++) {
        or_push(q, &p);
    }
    g_usleep(5000);
    g_free(waiting);
    g_free(q);
}

void or_flr(OrCard *card)
{
    uint8_t cap = qpci_find_capability(card->dev, PCI_CAP_ID_EXP, 0);

    qpci_config_writew(card->dev, cap + PCI_EXP_DEVCTL,
                       PCI_EXP_DEVCTL_BCR_FLR);
}

void or_reprobe(OrCard *card)
{
    qpci_config_writel(card->dev, PCI_BASE_ADDRESS_0, card->regs.addr);
    qpci_config_writel(card->dev, PCI_BASE_ADDRESS_2, card->bells.addr);
    qpci_config_writel(card->dev, PCI_BASE_ADDRESS_4, card->vram.addr);
    qpci_device_enable(card->dev);
    g_assert_cmphex(or_reg(card, OPENREG_REG_STATUS), ==, 0);
    g_assert_cmphex(or_reg(card, OPENREG_REG_CONTROL), ==, 0);
    g_assert_cmphex(or_reg64(card, OPENREG_REG_ADMIN_BASE), ==, 0);
    g_assert_cmphex(or_reg(card, OPENREG_REG_ADMIN_TAIL), ==, 0);
    or_enable(card);
}
