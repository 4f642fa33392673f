// SPDX-License-Identifier: MIT
/*
 * For QEMU's generic fuzzer: writes the guest's memory, with rings, commands and packets
 * of a driver, and seeds that make the card use them. An input can access registers,
 * doorbells and PCI configuration, but no memory.
 * usage: fuzz-qemu-corpus IMAGE ADDRESS DIRECTORY
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libopenreg/include/openreg_encode.h"
#include "../../libopenreg/sim/client.h"

#define PAGE 4096
#define SLOTS 64
#define VRAM_SEG 1
#define SYSTEM_SEG 2
#define CONFIG_COMMAND 0x04
#define CONFIG_BAR0 0x10
#define COMMAND_MEMORY_MASTER 6

/* Pages of the image. */
enum {
	COMMANDS,
	COMPLETIONS,
	FAULTS,
	PAGE_LIST,
	RING,
	USER,
	CARD,
	KERNEL,
	RELEASED,
	DATA,
	PAGES = DATA + 8,
};

/* Constants of QEMU's tests/qtest/fuzz/generic_fuzz.c. */
enum { OP_READ = 2, OP_WRITE = 3, OP_PCI_WRITE = 5 };
enum { BYTE, WORD, LONG, QUAD };
#define SEPARATOR "FUZZ"

/* The card's regions in the order of their addresses. */
enum { REGS, MSIX_TABLE, MSIX_PBA, DOORBELLS };

static uint8_t image[PAGES * PAGE];
static uint64_t base;
static const char *directory;
static unsigned int files;
static uint8_t input[8192];
static size_t input_len;

static uint64_t page(unsigned int n)
{
	return base + (uint64_t)n * PAGE;
}

static void save(const char *name, const void *bytes, size_t len)
{
	FILE *f = fopen(name, "wb");

	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f)) {
		perror(name);
		exit(1);
	}
}

/* Inputs */

static void put(const void *bytes, size_t len)
{
	memcpy(input + input_len, bytes, len);
	input_len += len;
}

static void op_memory(uint8_t op, uint8_t size, uint8_t region, uint32_t offset,
		      uint64_t value)
{
	const struct {
		uint8_t size, region, unused[2];
		uint32_t offset;
		uint64_t value;
	} a = { size, region, { 0 }, offset, value };

	put(&op, 1);
	put(&a, op == OP_WRITE ? sizeof(a) : offsetof(typeof(a), value));
	put(SEPARATOR, 4);
}

static void write_config(uint8_t size, uint8_t offset, uint32_t value)
{
	const uint8_t op = OP_PCI_WRITE;
	const struct {
		uint8_t size, device, offset, unused;
		uint32_t value;
	} a = { size, 0, offset, 0, value };

	put(&op, 1);
	put(&a, sizeof(a));
	put(SEPARATOR, 4);
}

static void reg(uint32_t offset, uint32_t value)
{
	op_memory(OP_WRITE, LONG, REGS, offset, value);
}

static void reg64(uint32_t offset, uint64_t value)
{
	op_memory(OP_WRITE, QUAD, REGS, offset, value);
}

/*
 * Adds incomplete operations, which only give the card's threads time to work; then
 * reads two registers.
 */
static void look(unsigned int times)
{
	const uint8_t op = OP_READ;

	while (times--) {
		put(&op, 1);
		put(SEPARATOR, 4);
	}
	op_memory(OP_READ, LONG, REGS, OPENREG_REG_STATUS, 0);
	op_memory(OP_READ, QUAD, REGS, OPENREG_REG_STAT_PACKETS, 0);
}

static void vectors(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		op_memory(OP_WRITE, QUAD, MSIX_TABLE, 16 * i, 0xfee00000);
		op_memory(OP_WRITE, LONG, MSIX_TABLE, 16 * i + 8, 0x40 + i);
		op_memory(OP_WRITE, LONG, MSIX_TABLE, 16 * i + 12, 0);
	}
}

/* The driver: its memory is the image, and its registers' accesses become the input. */

static uint32_t read_reg(void *host, uint32_t off)
{
	(void)host;
	(void)off;
	return 0;
}

static void write_reg(void *host, uint32_t off, uint32_t value)
{
	(void)host;
	reg(off, value);
}

static void load(void *host, uint64_t bus, void *to, size_t len)
{
	(void)host;
	memcpy(to, image + (bus - base), len);
}

static void store(void *host, uint64_t bus, const void *from, size_t len)
{
	(void)host;
	memcpy(image + (bus - base), from, len);
}

static const struct client_ops ops = {
	.read_reg = read_reg,
	.write_reg = write_reg,
	.load = load,
	.store = store,
};

static struct client client;
static struct client_queue queue;

static void begin(void)
{
	client = (struct client){
		.ops = &ops,
		.cmds = page(COMMANDS),
		.cpls = page(COMPLETIONS),
		.faults = page(FAULTS),
		.slots = SLOTS,
		.fault_slots = 8,
	};
	queue = (struct client_queue){
		.client = &client,
		.ctx = 1,
		.id = 1,
		.slots = SLOTS,
		.vector = 1,
		.ring = page(RING),
		.user = page(USER),
		.page = page(CARD),
		.kernel = page(KERNEL),
	};
}

/* Commands */

static void submit(struct openreg_admin_cmd cmd)
{
	client_submit(&client, &cmd);
}

static void commands(void)
{
	const uint32_t rw = OPENREG_SEG_READ | OPENREG_SEG_WRITE;

	submit(cmd_context(1, page(RELEASED)));
	submit(cmd_vram(1, VRAM_SEG, 0, 16 * PAGE, rw));
	submit(cmd_pages(1, SYSTEM_SEG, page(PAGE_LIST), 0, (PAGES - DATA) * PAGE, rw));
	submit(cmd_queue(&queue, OPENREG_PRIORITY_NORMAL));
	submit(cmd_fill(0, 4 * PAGE, 0xa5));
	submit(cmd_stop(1, 1, OPENREG_STOP_AFTER_PACKET));
	submit(cmd_reset(1, 1, 1, 1));
	submit(cmd_stop(1, 1, OPENREG_STOP_NOW));
	submit(cmd_unbind(1, VRAM_SEG, OPENREG_UNBIND_CLEAR));
	submit(cmd_of(OPENREG_ADMIN_QUEUE_DESTROY, 1, 1));
	submit(cmd_of(OPENREG_ADMIN_CTX_DESTROY, 1, 0));
}

/* Packets */

static void packet(unsigned int opcode, const int64_t *size, unsigned int ndim,
		   const uint64_t *addr, unsigned int nops, const uint64_t *imm)
{
	uint8_t p[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE] = { 0 };
	unsigned int i;

	if (nops) {
		openreg_encode(p, opcode, 0);
		openreg_encode_space(p, ndim, size);
	} else {
		openreg_encode_nop(p, 1);
	}
	for (i = 0; i < nops; i++)
		openreg_encode_operand(p, addr[i], OPENREG_I64, NULL);
	if (imm)
		openreg_encode_imm(p, imm, 1);
	client_push(&queue, p, p[1]);
}

/* The last packet is a WAIT that never ends. */
static void packets(void)
{
	const uint64_t vram = OPENREG_ADDR(0, VRAM_SEG, 0);
	const uint64_t memory = OPENREG_ADDR(0, SYSTEM_SEG, 0);
	const int64_t size[] = { 1024 };
	const uint64_t value = 77;

	packet(OPENREG_OP_NOP, NULL, 0, NULL, 0, NULL);
	packet(OPENREG_OP_FILL, size, 1, &vram, 1, &value);
	packet(OPENREG_OP_COPY, size, 1, (uint64_t[]) { memory, vram }, 2, NULL);
	packet(OPENREG_OP_COPY, size, 1, (uint64_t[]) { vram, memory + 64 }, 2, NULL);
	packet(OPENREG_OP_SIGNAL, NULL, 0, &memory, 1, &value);
	packet(OPENREG_OP_TIMESTAMP, NULL, 0, &memory, 1, NULL);
	packet(OPENREG_OP_WAIT, NULL, 0, (uint64_t[]) { vram + 8 * PAGE }, 1, &value);
	client_publish(&queue);
}

static void lists(void)
{
	unsigned int i;

	for (i = 0; i < PAGES - DATA; i++)
		client_store(&client, page(PAGE_LIST) + 8 * i, page(DATA + i));
	/* Armed for the first packet. */
	client_store(&client, page(KERNEL) + offsetof(struct openreg_kernel_page, armed), 1);
}

/* Adds an operation that disturbs the card's work. */
static void trouble(unsigned int kind)
{
	switch (kind) {
	case 1:
		reg(OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
		break;
	case 2:
		reg(OPENREG_REG_CONTROL, 0);
		break;
	case 3:
		write_config(WORD, CONFIG_COMMAND, 0);
		look(20);
		write_config(WORD, CONFIG_COMMAND, COMMAND_MEMORY_MASTER);
		break;
	case 4:
		write_config(LONG, CONFIG_BAR0, 0xc0000000);
		break;
	case 5:
		reg64(OPENREG_REG_ADMIN_BASE, 0xfffffffffffff000);
		reg(OPENREG_REG_FAULT_HEAD, 0xffffffff);
		break;
	case 6:
		op_memory(OP_WRITE, LONG, MSIX_PBA, 0, 0xffffffff);
		op_memory(OP_READ, LONG, MSIX_PBA, 0, 0);
		break;
	}
}

static void inputs(unsigned int most)
{
	unsigned int kind, count;
	char name[4096];

	for (kind = 0; kind < 7; kind++) {
		for (count = 0; count <= most; count += 1 + (count > 5)) {
			input_len = 0;
			vectors();
			client_enable(&client);
			reg(OPENREG_REG_ADMIN_TAIL, count);
			look(60);
			op_memory(OP_WRITE, LONG, DOORBELLS, 0, 1);
			trouble(kind);
			look(100);
			op_memory(OP_WRITE, LONG, DOORBELLS, 0, 1);
			reg(OPENREG_REG_ADMIN_TAIL, most);
			look(60);
			snprintf(name, sizeof(name), "%s/seed-%04u", directory,
				 files++);
			save(name, input, input_len);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: fuzz-qemu-corpus IMAGE ADDRESS DIRECTORY\n");
		return 2;
	}
	base = strtoull(argv[2], NULL, 0);
	directory = argv[3];
	begin();
	commands();
	packets();
	lists();
	save(argv[1], image, sizeof(image));
	inputs(client.tail);
	return 0;
}
