/* SPDX-License-Identifier: MIT */
/*
 * Speed of the card without a VM: the upper limits for the figures from a guest. Prints
 * one JSON object a line.
 * usage: bench-card [WORKERS]
 */
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

#define COPY_MAX (64u << 20)

static void report(const char *what, double value, const char *unit)
{
	printf("{\"bench\": \"card\", \"what\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"}\n",
	       what, value, unit);
	fflush(stdout);
}

static void spin(struct client_queue *q)
{
	while (client_done(q) < q->seq)
		if (client_state(q) != OPENREG_QUEUE_RUNNING)
			tq_wait(q);
}

static void run_spinning(struct client_queue *q, struct pkt *p)
{
	tq_push(q, p);
	client_publish(q);
	spin(q);
}

static void add16(struct pkt *p)
{
	const int64_t n = 16, one = 1;
	unsigned int i;

	pkt_begin(p, OPENREG_OP_VECTOR, 1, &n);
	for (i = 0; i < 3; i++)
		pkt_operand(p, VRAM(i * 64), OPENREG_F32, &one);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2);
	pkt_instr(p, OPENREG_V_ADD, OPENREG_VT_F32, 2, 0, 1, 0, 0);
	pkt_instr(p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0, 0);
}

/* The time of each of n packets, published batch at a time; p NULL: NOPs. */
static void bench_packets(struct client_queue *q, struct pkt *p, unsigned int n,
			  unsigned int batch, const char *what)
{
	uint64_t start = host_now();
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (p)
			tq_push(q, p);
		else
			tq_nop(q);
		if (i % batch)
			continue;
		client_publish(q);
		if (batch == 1)
			spin(q);
	}
	client_publish(q);
	spin(q);
	report(what, (double)(host_now() - start) / n,
	       batch == 1 ? "ns there and back" : "ns a packet");
}

static void bench_copies(struct rig *rig, struct client_queue *q, uint64_t memory)
{
	static const uint64_t sizes[] = { 64u << 10, 1u << 20, 64u << 20 };
	struct pkt to, from;
	char what[64];
	unsigned int i, k, n;
	uint64_t t0, t1, t2, t3;

	for (i = 0; i < 3; i++) {
		uint64_t len = sizes[i];

		pkt_copy(&to, VRAM(0), SYSTEM(0), OPENREG_U8, (int64_t)len);
		pkt_copy(&from, SYSTEM(0), VRAM(0), OPENREG_U8, (int64_t)len);
		run_spinning(q, &to);
		n = (unsigned int)((1u << 30) / len);
		t0 = host_now();
		for (k = 0; k < n; k++)
			run_spinning(q, &to);
		t1 = host_now();
		for (k = 0; k < n; k++)
			run_spinning(q, &from);
		t2 = host_now();
		for (k = 0; k < n; k++) {
			memcpy(rig->vram, rig_ptr(rig, memory), len);
			__asm__ volatile("" ::: "memory");
		}
		t3 = host_now();
		snprintf(what, sizeof(what), "copy to VRAM, %llu KiB",
			 (unsigned long long)len >> 10);
		report(what, (double)(n * len) / (double)(t1 - t0), "GB/s");
		snprintf(what, sizeof(what), "copy from VRAM, %llu KiB",
			 (unsigned long long)len >> 10);
		report(what, (double)(n * len) / (double)(t2 - t1), "GB/s");
		snprintf(what, sizeof(what), "memcpy, %llu KiB",
			 (unsigned long long)len >> 10);
		report(what, (double)(n * len) / (double)(t3 - t2), "GB/s");
	}
}

static void matmul(struct pkt *p, int64_t n)
{
	const int64_t size[] = { 1, n, n, n };
	const int64_t d[] = { 0, n, 1, 0 }, a[] = { 0, n, 0, 1 };
	const int64_t b[] = { 0, 0, 1, n };
	const double one = 1, zero = 0;
	uint64_t bytes = (uint64_t)(n * n) * 4, bits;

	pkt_begin(p, OPENREG_OP_MATMUL, 4, size);
	pkt_operand(p, VRAM(2 * bytes), OPENREG_F32, d);
	pkt_operand(p, VRAM(0), OPENREG_F32, a);
	pkt_operand(p, VRAM(bytes), OPENREG_F32, b);
	memcpy(&bits, &one, 8);
	pkt_imm(p, bits);
	memcpy(&bits, &zero, 8);
	pkt_imm(p, bits);
}

static void bench_matmul(struct rig *rig, struct client_queue *q, unsigned int workers)
{
	const int64_t n = 1024;
	const double flop = 2.0 * 1024 * 1024 * 1024;
	float *m = (float *)rig->vram;
	unsigned int i, rounds = 50;
	uint64_t start;
	struct pkt p;

	for (i = 0; i < 3 * n * n; i++)
		m[i] = (float)(i % 17) / 17;
	matmul(&p, n);
	run_spinning(q, &p);
	start = host_now();
	for (i = 0; i < rounds; i++)
		run_spinning(q, &p);
	report("f32 matmul 1024^3, card",
	       flop * rounds / (double)(host_now() - start), "GFLOP/s");
	omp_set_num_threads((int)workers);
	dnnl_sgemm('N', 'N', n, n, n, 1, m, n, m + n * n, n, 0, m + 2 * n * n,
		   n);
	start = host_now();
	for (i = 0; i < rounds; i++)
		dnnl_sgemm('N', 'N', n, n, n, 1, m, n, m + n * n, n, 0,
			   m + 2 * n * n, n);
	report("f32 matmul 1024^3, oneDNN",
	       flop * rounds / (double)(host_now() - start), "GFLOP/s");
}

static void bench_sleep(struct rig *rig, struct client_queue *q)
{
	uint64_t sum = 0;
	unsigned int i, n = 200;

	for (i = 0; i < n; i++) {
		uint32_t sleeps = rig_reg(rig, OPENREG_REG_STAT_SLEEPS);

		tq_nop(q);
		client_publish(q);
		spin(q);
		while (rig_reg(rig, OPENREG_REG_STAT_SLEEPS) == sleeps)
			usleep(50);
		sum += rig_reg(rig, OPENREG_REG_STAT_SLEEP_NS);
	}
	report("idle until the card sleeps", (double)sum / n / 1000, "us");
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int workers = argc > 1 ? (unsigned int)atoi(argv[1]) :
					  (unsigned int)cpus;
	struct rig *rig = rig_new(workers);
	uint64_t memory = rig_alloc(rig, COPY_MAX);
	struct client_queue q;
	struct pkt p;

	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0);
	rig_do(rig, cmd_vram(1, 1, 0, HOST_VRAM, RW));
	rig_do(rig, cmd_system(rig, 1, 2, memory, COPY_MAX, RW, false));
	tq_init(rig, &q, 1, 0, 4096);
	rig_do(rig, cmd_queue(&q, OPENREG_PRIORITY_NORMAL));
	report("workers", workers, "threads");
	add16(&p);
	bench_packets(&q, NULL, 1000000, 64, "NOP, back to back");
	bench_packets(&q, &p, 1000000, 64, "add of 16, back to back");
	bench_packets(&q, NULL, 200000, 1, "NOP, waiter spinning");
	bench_packets(&q, &p, 200000, 1, "add of 16, waiter spinning");
	bench_copies(rig, &q, memory);
	bench_matmul(rig, &q, workers);
	bench_sleep(rig, &q);
	rig_free(rig);
	return 0;
}
