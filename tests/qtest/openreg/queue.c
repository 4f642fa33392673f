/*
 * openreg over qtest: queues and packets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"

OrQueue *or_queue(OrCard *card, uint32_t ctx, uint32_t id, uint32_t vector)
{
    OrQueue *q = g_new0(OrQueue, 1);
    struct openreg_admin_cmd cmd = {
        .opcode = OPENREG_ADMIN_QUEUE_CREATE, .ctx = ctx, .id = id,
    };

    q->card = card;
    q->ctx = ctx;
    q->id = id;
    q->doorbell = id % 64;
    q->ring = or_mem(card, OR_RING_SLOTS * OPENREG_SLOT_SIZE);
    q->user_page = or_mem(card, OR_PAGE);
    q->card_page = or_mem(card, OR_PAGE);
    q->kernel_page = or_mem(card, OR_PAGE);
    qtest_writeq(card->qts, q->kernel_page, OPENREG_ARMED_NONE);

    cmd.queue.ring = q->ring + card->iova;
    cmd.queue.user_page = q->user_page + card->iova;
    cmd.queue.card_page = q->card_page + card->iova;
    cmd.queue.kernel_page = q->kernel_page + card->iova;
    cmd.queue.slots = OR_RING_SLOTS;
    cmd.queue.doorbell = q->doorbell;
    cmd.queue.vector = vector;
    cmd.queue.priority = OPENREG_PRIORITY_NORMAL;
    g_assert_cmpuint(or_admin(card, &cmd), ==, OPENREG_ADMIN_OK);
    return q;
}

void or_packet(OrPacket *p, unsigned int opcode, uint32_t cookie)
{
    memset(p, 0, sizeof(*p));
    openreg_encode(p->bytes, opcode, cookie);
}

void or_space(OrPacket *p, unsigned int ndim, const int64_t *size)
{
    openreg_encode_space(p->bytes, ndim, size);
}

void or_operand(OrPacket *p, uint64_t addr, unsigned int dtype,
                const int64_t *stride)
{
    openreg_encode_operand(p->bytes, addr, dtype, stride);
}

void or_imm(OrPacket *p, uint64_t value)
{
    openreg_encode_imm(p->bytes, &value, 1);
}

void or_imm_f64(OrPacket *p, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    or_imm(p, bits);
}

void or_instr(OrPacket *p, unsigned int op, unsigned int type, unsigned int dst,
              unsigned int a, unsigned int b, unsigned int c, unsigned int aux)
{
    struct openreg_instr instr = {
        .op = op, .type = type, .dst = dst, .a = a, .b = b, .c = c, .aux = aux,
    };

    openreg_encode_instr(p->bytes, &instr, 1);
}

static void or_ring(OrQueue *q)
{
    qtest_writeq(q->card->qts, q->user_page +
                 offsetof(struct openreg_user_page, tail), q->tail);
    if (qtest_readl(q->card->qts, q->card_page +
                    offsetof(struct openreg_card_page, asleep))) {
        qpci_io_writel(q->card->dev, q->card->bells, q->doorbell * OR_PAGE, 1);
    }
}

static void or_put(OrQueue *q, const OrPacket *p)
{
    const unsigned int slots = OR_HDR(p)->slots;

    qtest_memwrite(q->card->qts, q->ring +
                   q->tail % OR_RING_SLOTS * OPENREG_SLOT_SIZE, p->bytes,
                   slots * OPENREG_SLOT_SIZE);
    q->tail += slots;
    q->seq++;
}

/* Waits for room: slots that the card has not read must not be overwritten. */
static void or_wait_room(OrQueue *q, unsigned int slots)
{
    OR_WAIT(q->tail + slots - qtest_readq(q->card->qts, q->card_page) <=
            OR_RING_SLOTS ||
            or_queue_state(q) != OPENREG_QUEUE_RUNNING);
}

static void or_pad(OrQueue *q)
{
    unsigned int slots = OR_RING_SLOTS - q->tail % OR_RING_SLOTS;
    OrPacket pad;

    openreg_encode_nop(pad.bytes, slots);
    or_wait_room(q, slots);
    or_put(q, &pad);
    or_ring(q);
}

uint64_t or_push(OrQueue *q, OrPacket *p)
{
    const unsigned int slots = OR_HDR(p)->slots;

    if (q->tail % OR_RING_SLOTS + slots > OR_RING_SLOTS) {
        or_pad(q);
    }
    or_wait_room(q, slots);
    or_put(q, p);
    or_ring(q);
    return q->seq;
}

uint32_t or_queue_state(OrQueue *q)
{
    return qtest_readl(q->card->qts, q->card_page +
                       offsetof(struct openreg_card_page, state));
}

static uint64_t or_completed(OrQueue *q)
{
    return qtest_readq(q->card->qts, q->card_page +
                       offsetof(struct openreg_card_page, completed));
}

void or_wait(OrQueue *q, uint64_t seq)
{
    OR_WAIT(or_completed(q) >= seq ||
            or_queue_state(q) != OPENREG_QUEUE_RUNNING);
    g_assert_cmpuint(or_queue_state(q), ==, OPENREG_QUEUE_RUNNING);
}

void or_wait_fault(OrQueue *q, struct openreg_fault_record *record)
{
    OrCard *card = q->card;
    uint32_t head = or_reg(card, OPENREG_REG_FAULT_HEAD);
    struct openreg_fault_summary summary;

    OR_WAIT(or_reg(card, OPENREG_REG_FAULT_TAIL) != head);
    OR_WAIT(or_queue_state(q) == OPENREG_QUEUE_FAULTED);
    qtest_memread(card->qts, card->faults +
                  head % OR_FAULT_SLOTS * sizeof(*record), record,
                  sizeof(*record));
    g_assert_cmpuint(record->seq, ==, head + 1);
    g_assert_cmpuint(record->ctx, ==, q->ctx);
    g_assert_cmpuint(record->queue, ==, q->id);
    g_assert_cmpuint(record->clock, !=, 0);
    or_reg_write(card, OPENREG_REG_FAULT_HEAD, head + 1);

    qtest_memread(card->qts, q->card_page +
                  offsetof(struct openreg_card_page, fault), &summary,
                  sizeof(summary));
    g_assert_cmpint(memcmp(&summary, &record->fault, sizeof(summary)), ==, 0);
}
