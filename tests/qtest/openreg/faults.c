/*
 * openreg: packets that must fault, and their fault records
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"

#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)
#define SEG_LEN 0x100000u
#define V(off) OPENREG_ADDR(0, 1, off)
#define RO(off) OPENREG_ADDR(0, 2, off)
#define SYS(off) OPENREG_ADDR(0, 3, off)
#define GONE(off) OPENREG_ADDR(0, 4, off) /* a page outside of memory */
#define NONE OPENREG_NO_OPERAND

typedef struct OrFault {
    const char *name;
    void (*make)(OrPacket *p);
    uint32_t code;
    uint32_t operand;
    uint64_t address; /* 0: not checked */
} OrFault;

/* A valid add of 100 floats, in which each test changes one field. */
static void add(OrPacket *p)
{
    const int64_t n = 100;
    int i;

    or_packet(p, OPENREG_OP_VECTOR, 0);
    or_space(p, 1, &n);
    for (i = 0; i < 3; i++) {
        or_operand(p, V(0x1000 * i), OPENREG_F32, NULL);
    }
    or_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
    or_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2);
    or_instr(p, OPENREG_V_ADD, OPENREG_VT_F32, 2, 0, 1, 0, 0);
    or_instr(p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0, 0);
}

static struct openreg_operand *operand(OrPacket *p, int i)
{
    return (void *)(p->bytes + 40 + 24 * i);
}

static int64_t *stride(OrPacket *p, int i)
{
    return (void *)(operand(p, i) + 1);
}

static int64_t *size(OrPacket *p)
{
    return (void *)(p->bytes + 32);
}

static struct openreg_instr *instr(OrPacket *p, int i)
{
    return (void *)(p->bytes + 40 + 3 * 24 + 8 * i);
}

/* A valid copy of 100 floats from system memory. */
static void copy(OrPacket *p)
{
    const int64_t n = 100;

    or_packet(p, OPENREG_OP_COPY, 0);
    or_space(p, 1, &n);
    or_operand(p, V(0), OPENREG_F32, NULL);
    or_operand(p, SYS(0), OPENREG_F32, NULL);
}

#define SPOIL(name, from, change)                                            \
    static void name(OrPacket *p)                                            \
    {                                                                        \
        from(p);                                                             \
        change;                                                              \
    }

SPOIL(bad_opcode, add, OR_HDR(p)->opcode = OPENREG_OP_END)
SPOIL(bad_flags, add, OR_HDR(p)->flags = 1)
SPOIL(bad_reserved, add, OR_HDR(p)->reserved = 1)
SPOIL(bad_short, add, OR_HDR(p)->slots = 2)
SPOIL(bad_op_reserved, add, OR_OP(p)->reserved = 1)
SPOIL(bad_ndim, add, OR_OP(p)->ndim = 9)
SPOIL(bad_nops, add, OR_OP(p)->nops = 17)
SPOIL(bad_nimm, add, OR_OP(p)->nimm = 17)
SPOIL(bad_ninstr, add, OR_OP(p)->ninstr = 65)
SPOIL(bad_arg, add, OR_OP(p)->arg[3] = 1)
SPOIL(bad_fold, add, OR_OP(p)->arg[0] = 1)
SPOIL(bad_operand_reserved, add, operand(p, 1)->reserved[6] = 1)
SPOIL(bad_size, add, size(p)[0] = -1)
SPOIL(bad_work, add, size(p)[0] = INT64_MAX)
SPOIL(bad_tag, add, operand(p, 1)->addr &= ~(1ULL << 62))
SPOIL(bad_pointer, add, operand(p, 1)->addr = 0x7fff12345678)
SPOIL(bad_card, add, operand(p, 1)->addr = OPENREG_ADDR(1, 1, 0))
SPOIL(bad_segment, add, operand(p, 2)->addr = OPENREG_ADDR(0, 77, 0x40))
SPOIL(bad_segment_0, add, operand(p, 0)->addr = OPENREG_ADDR(0, 0, 0))
SPOIL(bad_end, add, operand(p, 1)->addr = V(SEG_LEN - 99 * 4))
SPOIL(bad_far, add, operand(p, 1)->addr = V(OPENREG_ADDR_OFFSET_MASK & ~3))
SPOIL(bad_stride, add, stride(p, 2)[0] = (SEG_LEN - 0x2000) / 4)
SPOIL(bad_negative, add, stride(p, 0)[0] = -1)
SPOIL(bad_overflow, add, stride(p, 1)[0] = INT64_MAX / 2)
SPOIL(bad_wrap, add, stride(p, 1)[0] = 1LL << 62)
SPOIL(bad_align, add, operand(p, 1)->addr += 2)
SPOIL(bad_read_only, add, operand(p, 0)->addr = RO(0))
SPOIL(bad_dtype, add, operand(p, 1)->dtype = OPENREG_DTYPE_END)
SPOIL(bad_dtype_0, add, operand(p, 0)->dtype = 0)
SPOIL(bad_store_stride, add, stride(p, 0)[0] = 0)
SPOIL(bad_vop, add, instr(p, 2)->op = 15)
SPOIL(bad_vop_end, add, instr(p, 2)->op = OPENREG_V_END)
SPOIL(bad_vtype, add, instr(p, 2)->type = OPENREG_VT_END)
SPOIL(bad_register, add, instr(p, 2)->dst = OPENREG_REGS)
SPOIL(bad_undefined, add, instr(p, 2)->b = 9)
SPOIL(bad_load, add, instr(p, 1)->aux = 3)
SPOIL(bad_integer_op, add, instr(p, 2)->op = OPENREG_V_AND)
SPOIL(bad_engine, add, operand(p, 1)->addr = SYS(0))
SPOIL(bad_copy_end, copy, operand(p, 1)->addr = SYS(8192 - 396))
SPOIL(bad_copy_dma, copy, operand(p, 1)->addr = GONE(0))
SPOIL(bad_copy_nops, copy, OR_OP(p)->nops = 1)

static void bad_matmul_dtype(OrPacket *p)
{
    const int64_t space[4] = { 1, 1, 1, 1 }, zero[4] = { 0 };
    int i;

    or_packet(p, OPENREG_OP_MATMUL, 0);
    or_space(p, 4, space);
    for (i = 0; i < 3; i++) {
        or_operand(p, V(0x1000 * i), i == 2 ? OPENREG_F64 : OPENREG_F32, zero);
    }
    or_imm_f64(p, 1);
    or_imm_f64(p, 0);
}

static void bad_softmax_axis(OrPacket *p)
{
    const int64_t n = 4;

    or_packet(p, OPENREG_OP_SOFTMAX, 0);
    or_space(p, 1, &n);
    OR_OP(p)->arg[0] = 1;
    or_operand(p, V(0), OPENREG_F32, NULL);
    or_operand(p, V(0x1000), OPENREG_F32, NULL);
}

static void bad_wait_align(OrPacket *p)
{
    or_packet(p, OPENREG_OP_WAIT, 0);
    or_operand(p, V(4), OPENREG_I64, NULL);
    or_imm(p, 0);
}

static void bad_signal_dtype(OrPacket *p)
{
    or_packet(p, OPENREG_OP_SIGNAL, 0);
    or_operand(p, V(8), OPENREG_I32, NULL);
    or_imm(p, 0);
}

#define F(make, code, ...) { #make, make, OPENREG_FAULT_##code, __VA_ARGS__ }
static const OrFault faults[] = {
    F(bad_opcode, PACKET, NONE),
    F(bad_flags, PACKET, NONE),
    F(bad_reserved, PACKET, NONE),
    F(bad_short, PACKET, NONE),
    F(bad_op_reserved, PACKET, NONE),
    F(bad_ndim, PACKET, NONE),
    F(bad_nops, PACKET, NONE),
    F(bad_nimm, PACKET, NONE),
    F(bad_ninstr, PACKET, NONE),
    F(bad_arg, PACKET, NONE),
    F(bad_fold, PACKET, NONE),
    F(bad_operand_reserved, PACKET, 1),
    F(bad_size, SHAPE, NONE),
    F(bad_work, LIMIT, NONE),
    F(bad_tag, ADDRESS, 1),
    F(bad_pointer, ADDRESS, 1, 0x7fff12345678),
    F(bad_card, ADDRESS, 1, OPENREG_ADDR(1, 1, 0)),
    F(bad_segment, ADDRESS, 2, OPENREG_ADDR(0, 77, 0x40)),
    F(bad_segment_0, ADDRESS, 0),
    F(bad_end, BOUNDS, 1, V(SEG_LEN)),
    F(bad_far, BOUNDS, 1, V(OPENREG_ADDR_OFFSET_MASK & ~3)),
    F(bad_stride, BOUNDS, 2, V(SEG_LEN)),
    F(bad_negative, BOUNDS, 0, V(0)),
    F(bad_overflow, BOUNDS, 1),
    F(bad_wrap, BOUNDS, 1),
    F(bad_align, ALIGNMENT, 1, V(0x1002)),
    F(bad_read_only, PERMISSION, 0, RO(0)),
    F(bad_dtype, DTYPE, 1),
    F(bad_dtype_0, DTYPE, 0),
    F(bad_store_stride, SHAPE, 0),
    F(bad_vop, PROGRAM, NONE),
    F(bad_vop_end, PROGRAM, NONE),
    F(bad_vtype, PROGRAM, NONE),
    F(bad_register, PROGRAM, NONE),
    F(bad_undefined, PROGRAM, NONE),
    F(bad_load, PROGRAM, NONE),
    F(bad_integer_op, PROGRAM, NONE),
    F(bad_engine, ENGINE, 1, SYS(0)),
    F(bad_copy_end, BOUNDS, 1, SYS(8192)),
    F(bad_copy_dma, DMA, 1, GONE(0)),
    F(bad_copy_nops, PACKET, NONE),
    F(bad_matmul_dtype, DTYPE, 2),
    F(bad_softmax_axis, SHAPE, NONE),
    F(bad_wait_align, ALIGNMENT, 0, V(4)),
    F(bad_signal_dtype, DTYPE, 0),
};
#undef F

static OrCard *or_machine(void)
{
    static const uint64_t pages[2] = { 0x8003000, 0x8001000 };
    static const uint64_t gone[1] = { 1ULL << 45 };
    OrCard *card = or_card("");

    g_assert_cmpuint(or_ctx_create(card, 1), ==, 0);
    g_assert_cmpuint(or_seg_vram(card, 1, 1, RW, 0, SEG_LEN), ==, 0);
    g_assert_cmpuint(or_seg_vram(card, 1, 2, OPENREG_SEG_READ, SEG_LEN,
                                 SEG_LEN), ==, 0);
    g_assert_cmpuint(or_seg_system(card, 1, 3, RW, pages, 2, 0, 8192), ==, 0);
    g_assert_cmpuint(or_seg_system(card, 1, 4, RW, gone, 1, 0, 4096), ==, 0);
    return card;
}

/* Restarts the queue; skips all pushed packets. */
static void or_queue_reset(OrQueue *q)
{
    struct openreg_admin_cmd cmd = cmd_reset(q->ctx, q->id, q->tail, q->seq);

    g_assert_cmpuint(or_admin(or_of(q), &cmd), ==, OPENREG_ADMIN_OK);
    g_assert_cmpuint(client_state(q), ==, OPENREG_QUEUE_RUNNING);
}

static void or_expect_fault(OrQueue *q, const OrFault *f, OrPacket *p)
{
    struct openreg_fault_record r;
    uint64_t seq = or_push(q, p);

    or_wait_fault(q, &r);
    if (r.fault.code != f->code || r.fault.operand != f->operand ||
        (f->address && r.fault.address != f->address)) {
        g_error("%s: code %u operand %u address 0x%" PRIx64 " detail 0x%"
                PRIx64, f->name, r.fault.code, r.fault.operand,
                (uint64_t)r.fault.address, (uint64_t)r.fault.detail);
    }
    g_assert_cmpuint(r.fault.seq, ==, seq);
    g_assert_cmpuint(r.fault.opcode, ==, OR_HDR(p)->opcode);
    g_assert_cmphex(r.fault.cookie, ==, OR_HDR(p)->cookie);
}

/* Each fault stops its queue only; another queue of the context still runs. */
static void test_packets(void)
{
    OrCard *card = or_machine();
    OrQueue *q = or_queue(card, 1, 11, 4);
    OrQueue *neighbour = or_queue(card, 1, 12, 5);
    unsigned int i;
    OrPacket p;

    for (i = 0; i < ARRAY_SIZE(faults); i++) {
        faults[i].make(&p);
        OR_HDR(&p)->cookie = 0xabc00000 + i;
        or_expect_fault(q, &faults[i], &p);
        add(&p);
        or_wait(neighbour, or_push(neighbour, &p));
        or_queue_reset(q);
        or_wait(q, or_push(q, &p));
    }
    g_assert_cmpuint(or_reg64(card, OPENREG_REG_STAT_FAULTS), ==,
                     ARRAY_SIZE(faults));
    g_free(neighbour);
    g_free(q);
    or_quit(card);
}

/* The card does not check the address of an empty operand. */
static void test_empty(void)
{
    OrCard *card = or_machine();
    OrQueue *q = or_queue(card, 1, 11, 4);
    OrPacket p;

    add(&p);
    size(&p)[0] = 0;
    operand(&p, 0)->addr = 0;
    operand(&p, 1)->addr = UINT64_MAX;
    operand(&p, 2)->addr = OPENREG_ADDR(15, 8191, OPENREG_ADDR_OFFSET_MASK);
    or_wait(q, or_push(q, &p));
    g_free(q);
    or_quit(card);
}

/* Faults of the ring, not of a packet. */
static void test_ring(void)
{
    OrCard *card = or_machine();
    OrQueue *q = or_queue(card, 1, 11, 4);
    struct openreg_fault_record r;
    OrPacket p;

    /* More slots than the ring has. */
    qtest_writeq(card->qts, q->user, OR_RING_SLOTS + 1);
    qpci_io_writel(card->dev, card->bells, q->door * OR_PAGE, 1);
    or_wait_fault(q, &r);
    g_assert_cmpuint(r.fault.code, ==, OPENREG_FAULT_RING);
    qtest_writeq(card->qts, q->user, 0);
    or_queue_reset(q);

    /* A packet longer than the published slots. */
    or_packet(&p, OPENREG_OP_NOP, 0);
    OR_HDR(&p)->slots = 3;
    qtest_memwrite(card->qts, q->ring, p.bytes, 3 * OPENREG_SLOT_SIZE);
    qtest_writeq(card->qts, q->user, 2);
    qpci_io_writel(card->dev, card->bells, q->door * OR_PAGE, 1);
    or_wait_fault(q, &r);
    g_assert_cmpuint(r.fault.code, ==, OPENREG_FAULT_RING);

    /* A packet of 3 slots at slot 62, which would wrap. */
    q->tail = 62;
    q->seq = 0;
    qtest_writeq(card->qts, q->user, 62);
    or_queue_reset(q);
    qtest_memwrite(card->qts, q->ring + 62 * OPENREG_SLOT_SIZE, p.bytes,
                   2 * OPENREG_SLOT_SIZE);
    qtest_writeq(card->qts, q->user, 65);
    qpci_io_writel(card->dev, card->bells, q->door * OR_PAGE, 1);
    or_wait_fault(q, &r);
    g_assert_cmpuint(r.fault.code, ==, OPENREG_FAULT_RING);
    g_free(q);
    or_quit(card);
}

/* A fault raises the queue's vector and vector 0. */
static void test_interrupts(void)
{
    OrCard *card = or_machine();
    OrQueue *q = or_queue(card, 1, 11, 4);
    uint64_t word0 = or_vector(card, 0, 0x10), word4 = or_vector(card, 4, 0x14);
    OrPacket p;

    bad_opcode(&p);
    or_push(q, &p);
    OR_WAIT(qtest_readl(card->qts, word4) == 0x14);
    OR_WAIT(qtest_readl(card->qts, word0) == 0x10);
    g_free(q);
    or_quit(card);
}

/* The card drops and counts records if the fault ring is full. */
static void test_dropped(void)
{
    OrCard *card = or_machine();
    OrQueue *q = or_queue(card, 1, 11, 4);
    unsigned int i;
    OrPacket p;

    for (i = 0; i < OR_FAULT_SLOTS + 3; i++) {
        bad_opcode(&p);
        or_push(q, &p);
        OR_WAIT(client_state(q) == OPENREG_QUEUE_FAULTED);
        or_queue_reset(q);
    }
    OR_WAIT(or_reg(card, OPENREG_REG_FAULT_DROPPED) == 3);
    g_assert_cmpuint(or_reg(card, OPENREG_REG_FAULT_TAIL), ==, OR_FAULT_SLOTS);
    g_free(q);
    or_quit(card);
}

/* The same segment number names different segments in different contexts. */
static void test_contexts(void)
{
    OrCard *card = or_machine();
    struct openreg_fault_record r;
    OrQueue *q;
    OrPacket p;

    g_assert_cmpuint(or_ctx_create(card, 2), ==, 0);
    g_assert_cmpuint(or_seg_vram(card, 2, 1, RW, 2 * SEG_LEN, 4096), ==, 0);
    q = or_queue(card, 2, 13, 6);
    add(&p);
    or_push(q, &p);
    or_wait_fault(q, &r);
    g_assert_cmpuint(r.fault.code, ==, OPENREG_FAULT_BOUNDS);
    g_assert_cmpuint(r.fault.operand, ==, 1);
    g_free(q);
    or_quit(card);
}

void or_add_fault_tests(void)
{
    qtest_add_func("/openreg/fault/packets", test_packets);
    qtest_add_func("/openreg/fault/empty", test_empty);
    qtest_add_func("/openreg/fault/ring", test_ring);
    qtest_add_func("/openreg/fault/interrupts", test_interrupts);
    qtest_add_func("/openreg/fault/dropped", test_dropped);
    qtest_add_func("/openreg/fault/contexts", test_contexts);
}
