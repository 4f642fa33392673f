/*
 * openreg over qtest: queues and packets
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"

OrQueue *or_new_queue(OrCard *card, uint32_t ctx, uint32_t id, uint32_t vector)
{
    OrQueue *q = g_new(OrQueue, 1);

    *q = (OrQueue) {
        .client = &card->client,
        .ctx = ctx,
        .id = id,
        .slots = OR_RING_SLOTS,
        .door = id % 64,
        .vector = vector,
        .ring = or_bus(card, OR_RING_SLOTS * OPENREG_SLOT_SIZE),
        .user = or_bus(card, OR_PAGE),
        .page = or_bus(card, OR_PAGE),
        .kernel = or_bus(card, OR_PAGE),
    };
    client_store(&card->client, q->kernel, OPENREG_ARMED_NONE);
    return q;
}

OrQueue *or_queue(OrCard *card, uint32_t ctx, uint32_t id, uint32_t vector)
{
    OrQueue *q = or_new_queue(card, ctx, id, vector);
    struct openreg_admin_cmd cmd = cmd_queue(q, OPENREG_PRIORITY_NORMAL);

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

uint64_t or_push(OrQueue *q, OrPacket *p)
{
    const unsigned int slots = OR_HDR(p)->slots;

    OR_WAIT(client_has_room(q, slots) ||
            client_state(q) != OPENREG_QUEUE_RUNNING);
    client_push(q, p->bytes, slots);
    client_publish(q);
    return q->seq;
}

void or_wait(OrQueue *q, uint64_t seq)
{
    OR_WAIT(client_done(q) >= seq ||
            client_state(q) != OPENREG_QUEUE_RUNNING);
    g_assert_cmpuint(client_state(q), ==, OPENREG_QUEUE_RUNNING);
}

void or_wait_fault(OrQueue *q, struct openreg_fault_record *record)
{
    OrCard *card = or_of(q);
    uint32_t head = or_reg(card, OPENREG_REG_FAULT_HEAD);
    struct openreg_fault_summary summary;

    OR_WAIT(or_reg(card, OPENREG_REG_FAULT_TAIL) != head);
    OR_WAIT(client_state(q) == OPENREG_QUEUE_FAULTED);
    card->client.ops->load(card, card->client.faults +
                       head % OR_FAULT_SLOTS * sizeof(*record), record,
                       sizeof(*record));
    g_assert_cmpuint(record->seq, ==, head + 1);
    g_assert_cmpuint(record->ctx, ==, q->ctx);
    g_assert_cmpuint(record->queue, ==, q->id);
    g_assert_cmpuint(record->clock, !=, 0);
    or_reg_write(card, OPENREG_REG_FAULT_HEAD, head + 1);

    summary = client_fault(q);
    g_assert_cmpint(memcmp(&summary, &record->fault, sizeof(summary)), ==, 0);
}
