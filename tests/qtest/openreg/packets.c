/*
 * openreg: queues, packets and their results
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "tests.h"

#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)
#define SEG_LEN (16u << 20)
#define V(off) OPENREG_ADDR(0, 1, off) /* VRAM except its first MiB */
#define S(off) OPENREG_ADDR(0, 2, off) /* three scattered pages */
#define VRAM_BASE (1u << 20)

static const uint64_t pages[3] = { 0x8003000, 0x8001000, 0x8007000 };

static OrQueue *or_machine(const char *args)
{
    OrCard *card = or_card(args);

    g_assert_cmpuint(or_ctx_create(card, 7), ==, OPENREG_ADMIN_OK);
    g_assert_cmpuint(or_seg_vram(card, 7, 1, RW, VRAM_BASE, SEG_LEN), ==,
                     OPENREG_ADMIN_OK);
    g_assert_cmpuint(or_seg_system(card, 7, 2, RW, pages, 3, 0, 3 * OR_PAGE),
                     ==, OPENREG_ADMIN_OK);
    return or_queue(card, 7, 3, 2);
}

static void or_end(OrQueue *q)
{
    or_quit(or_of(q));
    g_free(q);
}

static void put(OrQueue *q, uint64_t off, const void *data, size_t len)
{
    qpci_memwrite(or_of(q)->dev, or_of(q)->vram, VRAM_BASE + off, data, len);
}

static void get(OrQueue *q, uint64_t off, void *data, size_t len)
{
    qpci_memread(or_of(q)->dev, or_of(q)->vram, VRAM_BASE + off, data, len);
}

static void run(OrQueue *q, OrPacket *p)
{
    or_wait(q, or_push(q, p));
}

/* Many times around the ring; the counters match the pushed packets. */
static void test_nop(void)
{
    OrQueue *q = or_machine("");
    OrPacket p;
    unsigned int i;

    for (i = 0; i < 500; i++) {
        or_packet(&p, OPENREG_OP_NOP, i);
        OR_HDR(&p)->slots = 1 + i % 7;
        or_push(q, &p);
    }
    or_wait(q, q->seq);
    OR_WAIT(qtest_readq(or_of(q)->qts, q->page) == q->tail);
    g_assert_cmpuint(qtest_readq(or_of(q)->qts, q->page + 8), ==, q->seq);
    OR_WAIT(or_reg64(or_of(q), OPENREG_REG_STAT_PACKETS) == q->seq);
    or_end(q);
}

/* An idle card sets asleep; a doorbell wakes it. */
static void or_test_doorbell(const char *args)
{
    OrQueue *q = or_machine(args);
    uint64_t asleep = q->page + offsetof(struct openreg_card_page, asleep);
    uint64_t wakes = q->page + offsetof(struct openreg_card_page, wakes);
    unsigned int i;
    uint64_t old;
    OrPacket p;

    or_packet(&p, OPENREG_OP_NOP, 0);
    for (i = 0; i < 20; i++) {
        OR_WAIT(qtest_readl(or_of(q)->qts, asleep) == 1);
        old = qtest_readq(or_of(q)->qts, wakes);
        run(q, &p);
        OR_WAIT(qtest_readq(or_of(q)->qts, wakes) > old);
    }
    g_assert_cmpuint(or_reg64(or_of(q), OPENREG_REG_STAT_DOORBELLS), >=, 20);
    g_assert_cmpuint(or_reg64(or_of(q), OPENREG_REG_STAT_SLEEPS), >=, 20);
    or_end(q);
}

static void test_doorbell(void)
{
    or_test_doorbell("");
}

static void test_doorbell_eventfd(void)
{
    or_test_doorbell(",ioeventfd=on");
}

/* A new tail without a doorbell does not wake the card. */
static void test_no_doorbell(void)
{
    OrQueue *q = or_machine("");
    uint64_t asleep = q->page + offsetof(struct openreg_card_page, asleep);
    uint64_t completed = q->page + 8;
    OrPacket p;

    OR_WAIT(qtest_readl(or_of(q)->qts, asleep) == 1);
    or_packet(&p, OPENREG_OP_NOP, 0);
    OR_HDR(&p)->slots = 1;
    qtest_memwrite(or_of(q)->qts, q->ring, p.bytes, OPENREG_SLOT_SIZE);
    qtest_writeq(or_of(q)->qts, q->user, 1);
    g_usleep(50000);
    g_assert_cmpuint(qtest_readq(or_of(q)->qts, completed), ==, 0);
    qpci_io_writeb(or_of(q)->dev, or_of(q)->bells, q->door * OR_PAGE + 123, 0);
    OR_WAIT(qtest_readq(or_of(q)->qts, completed) == 1);
    or_end(q);
}

/* The card raises the vector only when the armed packet completes. */
static void test_armed(void)
{
    OrQueue *q = or_machine("");
    uint64_t interrupts = q->page +
                          offsetof(struct openreg_card_page, interrupts);
    uint64_t word = or_vector(or_of(q), 2, 0x1234);
    OrPacket p;

    or_packet(&p, OPENREG_OP_NOP, 0);
    run(q, &p);
    g_assert_cmpuint(qtest_readq(or_of(q)->qts, interrupts), ==, 0);
    qtest_writeq(or_of(q)->qts, q->kernel, 3);
    run(q, &p);
    g_usleep(20000);
    g_assert_cmphex(qtest_readl(or_of(q)->qts, word), ==, 0);
    run(q, &p);
    OR_WAIT(qtest_readl(or_of(q)->qts, word) == 0x1234);
    OR_WAIT(qtest_readq(or_of(q)->qts, interrupts) == 1);
    or_end(q);
}

/* Copies system memory across pages to VRAM, and back with a stride. */
static void test_copy(void)
{
    OrQueue *q = or_machine("");
    const int64_t n = 3000, half = 1500, two = 2;
    uint16_t in[3000], out[3000];
    OrPacket p;
    int i;

    for (i = 0; i < n; i++) {
        in[i] = i * 7;
    }
    for (i = 0; i < 2; i++) {
        qtest_memwrite(or_of(q)->qts, pages[i], &in[i * 2048],
                       MIN(n - i * 2048, 2048) * 2);
    }
    or_packet(&p, OPENREG_OP_COPY, 0);
    or_space(&p, 1, &n);
    or_operand(&p, V(0), OPENREG_I16, NULL);
    or_operand(&p, S(0), OPENREG_I16, NULL);
    run(q, &p);
    get(q, 0, out, sizeof(out));
    g_assert_cmpmem(in, sizeof(in), out, sizeof(out));

    or_packet(&p, OPENREG_OP_COPY, 0);
    or_space(&p, 1, &half);
    or_operand(&p, S(4000), OPENREG_I16, NULL);
    or_operand(&p, V(2), OPENREG_I16, &two);
    run(q, &p);
    qtest_memread(or_of(q)->qts, pages[0] + 4000, out, 96);
    qtest_memread(or_of(q)->qts, pages[1], out + 48, 3000 - 96);
    for (i = 0; i < half; i++) {
        g_assert_cmpuint(out[i], ==, in[2 * i + 1]);
    }
    or_end(q);
}

/* Reverses two rows of a matrix and casts f64 to i32. */
static void test_copy_cast(void)
{
    OrQueue *q = or_machine("");
    const int64_t size[2] = { 2, 3 }, reverse[2] = { 3, -1 };
    const double in[6] = { 1.9, -2.9, 3, 4, 5.5, -6 };
    const int32_t want[6] = { 3, -2, 1, -6, 5, 4 };
    int32_t out[6];
    OrPacket p;

    put(q, 256, in, sizeof(in));
    or_packet(&p, OPENREG_OP_COPY, 0);
    or_space(&p, 2, size);
    or_operand(&p, S(100 * 4), OPENREG_I32, NULL);
    or_operand(&p, V(256 + 16), OPENREG_F64, reverse);
    run(q, &p);
    qtest_memread(or_of(q)->qts, pages[0] + 400, out, sizeof(out));
    g_assert_cmpmem(out, sizeof(out), want, sizeof(want));
    or_end(q);
}

static void test_fill(void)
{
    OrQueue *q = or_machine("");
    const int64_t n = 1000;
    uint32_t out[1002];
    OrPacket p;
    int i;

    or_packet(&p, OPENREG_OP_FILL, 0);
    or_space(&p, 1, &n);
    or_operand(&p, V(4), OPENREG_F32, NULL);
    or_imm(&p, 0x3f800000);
    run(q, &p);
    get(q, 0, out, sizeof(out));
    g_assert_cmphex(out[0], ==, 0);
    for (i = 1; i <= n; i++) {
        g_assert_cmphex(out[i], ==, 0x3f800000);
    }
    g_assert_cmphex(out[n + 1], ==, 0);
    or_end(q);
}

/* D = A + B with A broadcast along rows. */
static void or_vector_add(OrPacket *p)
{
    const int64_t size[2] = { 64, 100 }, row[2] = { 0, 1 };

    or_packet(p, OPENREG_OP_VECTOR, 0xc00c1e);
    or_space(p, 2, size);
    or_operand(p, V(0x100000), OPENREG_F32, NULL);
    or_operand(p, V(0), OPENREG_F32, row);
    or_operand(p, V(0x10000), OPENREG_F32, NULL);
    or_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
    or_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2);
    or_instr(p, OPENREG_V_ADD, OPENREG_VT_F32, 2, 0, 1, 0, 0);
    or_instr(p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0, 0);
}

static void test_vector(void)
{
    OrQueue *q = or_machine("");
    g_autofree float *b = g_new(float, 6400);
    g_autofree float *d = g_new(float, 6400);
    float a[100];
    OrPacket p;
    int i;

    for (i = 0; i < 100; i++) {
        a[i] = i * 0.25f;
    }
    for (i = 0; i < 6400; i++) {
        b[i] = i - 3200;
    }
    put(q, 0, a, sizeof(a));
    put(q, 0x10000, b, 6400 * sizeof(*b));
    or_vector_add(&p);
    run(q, &p);
    get(q, 0x100000, d, 6400 * sizeof(*d));
    for (i = 0; i < 6400; i++) {
        g_assert_cmpfloat(d[i], ==, a[i % 100] + b[i]);
    }
    or_end(q);
}

/* The sum of squares of each row, and the index of its greatest element. */
static void test_reduction(void)
{
    OrQueue *q = or_machine("");
    const int64_t size[2] = { 4, 50 }, result[2] = { 1, 0 };
    int32_t in[200];
    int64_t sum[4], at[4], want;
    OrPacket p;
    int i, j;

    for (i = 0; i < 200; i++) {
        in[i] = (i * 37) % 101 - 50;
    }
    put(q, 0, in, sizeof(in));
    or_packet(&p, OPENREG_OP_VECTOR, 0);
    or_space(&p, 2, size);
    OR_OP(&p)->arg[0] = 1 << 1;
    or_operand(&p, V(0), OPENREG_I32, NULL);
    or_operand(&p, V(0x1000), OPENREG_I64, result);
    or_instr(&p, OPENREG_V_LOAD, OPENREG_VT_I64, 0, 0, 0, 0, 0);
    or_instr(&p, OPENREG_V_MUL, OPENREG_VT_I64, 0, 0, 0, 0, 0);
    or_instr(&p, OPENREG_V_RED_SUM, OPENREG_VT_I64, 0, 0, 0, OPENREG_VNONE, 1);
    run(q, &p);

    or_packet(&p, OPENREG_OP_VECTOR, 0);
    or_space(&p, 2, size);
    OR_OP(&p)->arg[0] = 1 << 1;
    or_operand(&p, V(0), OPENREG_I32, NULL);
    or_operand(&p, V(0x2000), OPENREG_I64, result);
    or_instr(&p, OPENREG_V_LOAD, OPENREG_VT_I32, 0, 0, 0, 0, 0);
    or_instr(&p, OPENREG_V_RED_MAX, OPENREG_VT_I32, 0, 0, 1, OPENREG_VNONE,
             OPENREG_VNONE);
    run(q, &p);

    get(q, 0x1000, sum, sizeof(sum));
    get(q, 0x2000, at, sizeof(at));
    for (i = 0; i < 4; i++) {
        int best = 0;

        for (j = 0, want = 0; j < 50; j++) {
            want += (int64_t)in[i * 50 + j] * in[i * 50 + j];
            best = in[i * 50 + j] > in[i * 50 + best] ? j : best;
        }
        g_assert_cmpint(sum[i], ==, want);
        g_assert_cmpint(at[i], ==, best);
    }
    or_end(q);
}

/* D = 2 A B + C of small integers is exact. */
static void test_matmul(void)
{
    OrQueue *q = or_machine("");
    const int64_t size[4] = { 1, 5, 7, 11 };
    const int64_t sd[4] = { 35, 7, 1, 0 }, sa[4] = { 55, 11, 0, 1 };
    const int64_t sb[4] = { 77, 0, 1, 7 };
    float a[55], b[77], c[35], d[35], want;
    OrPacket p;
    int i, j, k;

    for (i = 0; i < 77; i++) {
        b[i] = i % 9 - 4;
        a[i % 55] = i % 5 - 2;
        c[i % 35] = i % 35;
    }
    put(q, 0, a, sizeof(a));
    put(q, 0x1000, b, sizeof(b));
    put(q, 0x2000, c, sizeof(c));
    or_packet(&p, OPENREG_OP_MATMUL, 0);
    or_space(&p, 4, size);
    or_operand(&p, V(0x3000), OPENREG_F32, sd);
    or_operand(&p, V(0), OPENREG_F32, sa);
    or_operand(&p, V(0x1000), OPENREG_F32, sb);
    or_operand(&p, V(0x2000), OPENREG_F32, sd);
    or_imm_f64(&p, 2);
    or_imm_f64(&p, 1);
    run(q, &p);
    get(q, 0x3000, d, sizeof(d));
    for (i = 0; i < 5; i++) {
        for (j = 0; j < 7; j++) {
            for (k = 0, want = 0; k < 11; k++) {
                want += a[i * 11 + k] * b[k * 7 + j];
            }
            g_assert_cmpfloat(d[i * 7 + j], ==, 2 * want + c[i * 7 + j]);
        }
    }
    or_end(q);
}

static void test_softmax(void)
{
    OrQueue *q = or_machine("");
    const int64_t size[2] = { 2, 4 };
    const float in[8] = { 0, 0, 0, 0, 1, 2, 3, 1000 };
    float out[8];
    OrPacket p;
    int i;

    put(q, 0, in, sizeof(in));
    or_packet(&p, OPENREG_OP_SOFTMAX, 0);
    or_space(&p, 2, size);
    OR_OP(&p)->arg[0] = 1;
    or_operand(&p, V(0x1000), OPENREG_F32, NULL);
    or_operand(&p, V(0), OPENREG_F32, NULL);
    run(q, &p);
    get(q, 0x1000, out, sizeof(out));
    for (i = 0; i < 4; i++) {
        g_assert_cmpfloat_with_epsilon(out[i], 0.25, 1e-6);
        g_assert_cmpfloat_with_epsilon(out[4 + i], i == 3, 1e-6);
    }
    or_end(q);
}

static void sync_word(OrPacket *p, unsigned int opcode, unsigned int how,
                    uint64_t addr, uint64_t value)
{
    or_packet(p, opcode, 0);
    OR_OP(p)->arg[0] = how;
    or_operand(p, addr, OPENREG_I64, NULL);
    if (opcode != OPENREG_OP_TIMESTAMP) {
        or_imm(p, value);
    }
}

/* One queue waits for another; the test sees the order in memory. */
static void test_wait_signal(void)
{
    OrQueue *q = or_machine("");
    OrQueue *other = or_queue(or_of(q), 7, 900, 3);
    uint64_t completed = q->page + 8;
    OrPacket p;

    sync_word(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE, S(8), 42);
    or_push(q, &p);
    sync_word(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, S(16), 99);
    or_push(q, &p);
    g_usleep(20000);
    g_assert_cmpuint(qtest_readq(or_of(q)->qts, completed), ==, 0);

    sync_word(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, S(8), 40);
    run(other, &p);
    g_usleep(20000);
    g_assert_cmpuint(qtest_readq(or_of(q)->qts, completed), ==, 0);
    sync_word(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, S(8), 2);
    run(other, &p);
    or_wait(q, 2);
    g_assert_cmpuint(qtest_readq(or_of(q)->qts, pages[0] + 16), ==, 99);

    /* The card also finds a store of the CPU, without a doorbell. */
    sync_word(&p, OPENREG_OP_WAIT, OPENREG_WAIT_EQ, S(24), 5);
    or_push(q, &p);
    g_usleep(20000);
    qtest_writeq(or_of(q)->qts, pages[0] + 24, 5);
    or_wait(q, q->seq);
    g_free(other);
    or_end(q);
}

static void test_timestamp(void)
{
    OrQueue *q = or_machine("");
    uint64_t before, first, second;
    OrPacket p;

    before = or_reg64(or_of(q), OPENREG_REG_CLOCK);
    sync_word(&p, OPENREG_OP_TIMESTAMP, 0, S(0), 0);
    or_push(q, &p);
    sync_word(&p, OPENREG_OP_TIMESTAMP, 0, V(0), 0);
    run(q, &p);
    first = qtest_readq(or_of(q)->qts, pages[0]);
    get(q, 0, &second, 8);
    g_assert_cmpuint(before, <=, first);
    g_assert_cmpuint(first, <=, second);
    g_assert_cmpuint(second, <=, or_reg64(or_of(q), OPENREG_REG_CLOCK));
    or_end(q);
}

void or_add_packet_tests(void)
{
    qtest_add_func("/openreg/queue/nop", test_nop);
    qtest_add_func("/openreg/queue/doorbell", test_doorbell);
    qtest_add_func("/openreg/queue/doorbell-eventfd", test_doorbell_eventfd);
    qtest_add_func("/openreg/queue/no-doorbell", test_no_doorbell);
    qtest_add_func("/openreg/queue/armed", test_armed);
    qtest_add_func("/openreg/packet/copy", test_copy);
    qtest_add_func("/openreg/packet/copy-cast", test_copy_cast);
    qtest_add_func("/openreg/packet/fill", test_fill);
    qtest_add_func("/openreg/packet/vector", test_vector);
    qtest_add_func("/openreg/packet/reduction", test_reduction);
    qtest_add_func("/openreg/packet/matmul", test_matmul);
    qtest_add_func("/openreg/packet/softmax", test_softmax);
    qtest_add_func("/openreg/packet/wait-signal", test_wait_signal);
    qtest_add_func("/openreg/packet/timestamp", test_timestamp);
}
