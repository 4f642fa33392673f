// SPDX-License-Identifier: MIT
/* Prints the driver's dumps of faults and hangs (openreg_dump.h). */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "openreg-dump.h"

/* Size of the dumps of the first drivers, which end before late. */
#define SIZE_MIN offsetof(struct openreg_dump, late)

#define PATTERN "/sys/class/devcoredump/devcd*/data"

#define NAME(reg) { OPENREG_REG_##reg, #reg }

static const struct {
	uint32_t offset;
	const char *name;
} registers[] = {
	NAME(VERSION),
	NAME(STATUS),
	NAME(CONTROL),
	NAME(CARD_ID),
	NAME(CLOCK),
	NAME(ADMIN_BASE),
	NAME(ADMIN_CPL),
	NAME(ADMIN_SLOTS),
	NAME(ADMIN_TAIL),
	NAME(FAULT_HEAD),
	NAME(FAULT_TAIL),
	NAME(FAULT_DROPPED),
	NAME(STAT_PACKETS),
	NAME(STAT_DOORBELLS),
	NAME(STAT_INTERRUPTS),
	NAME(STAT_DMA_READ),
	NAME(STAT_DMA_WRITTEN),
	NAME(STAT_COMPUTE_NS),
	NAME(STAT_COPY_NS),
	NAME(STAT_FAULTS),
	NAME(STAT_SLEEPS),
};

#define ADMIN(op, of) [OPENREG_ADMIN_##op] = { #op, of }

/* Admin commands. */
static const struct {
	const char *name;
	const char *of; /* the kind of object that the command names, or NULL */
} commands[] = {
	ADMIN(NOP, NULL),
	ADMIN(CTX_CREATE, "context"),
	ADMIN(CTX_DESTROY, "context"),
	ADMIN(SEG_BIND, "segment"),
	ADMIN(SEG_UNBIND, "segment"),
	ADMIN(QUEUE_CREATE, "queue"),
	ADMIN(QUEUE_STOP, "queue"),
	ADMIN(QUEUE_RESET, "queue"),
	ADMIN(QUEUE_DESTROY, "queue"),
	ADMIN(FILL, NULL),
};

static void print_time(uint64_t ns)
{
	const time_t seconds = (time_t)(ns / 1000000000);
	char text[64] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%F %T", &tm);
	printf("time       %s.%06" PRIu64 " UTC\n", text, ns % 1000000000 / 1000);
}

static void print_regs(const struct openreg_dump *d)
{
	for (size_t i = 0; i < OPENREG_DUMP_REGS && d->regs[i].size; i++) {
		const struct openreg_dump_reg *reg = &d->regs[i];
		const char *name = "?";

		for (size_t k = 0; k < COUNT(registers); k++)
			if (registers[k].offset == reg->offset)
				name = registers[k].name;
		printf("  0x%03x %-16s 0x%0*" PRIx64 "\n", reg->offset, name,
		       (int)(reg->size == 8 ? 16 : 8), (uint64_t)reg->value);
	}
}

static void print_queue(const struct openreg_dump *d)
{
	printf("queue      %u of context %u, by %.16s[%u]\n", d->record.queue,
	       d->record.ctx, d->comm, d->pid);
}

/* Prints the command that the card did not answer in time. */
static void print_late(const struct openreg_dump_late *late)
{
	const bool known = late->opcode < COUNT(commands);
	const char *of = known ? commands[late->opcode].of : NULL;

	if (!late->ms)
		return;
	printf("command    %u, %s", late->opcode,
	       known ? commands[late->opcode].name : "?");
	if (of && !strcmp(of, "context"))
		printf(" of context %u", late->ctx);
	else if (of)
		printf(" of %s %u of context %u", of, late->id, late->ctx);
	printf(", late: %u ms\n", late->ms);
}

static void print_fault(const struct openreg_dump *d)
{
	const struct openreg_fault_summary *f = &d->record.fault;

	printf("fault      %u, %s\n", f->code, openreg_fault_name(f->code));
	print_queue(d);
	printf("packet     %" PRIu64 ", ", (uint64_t)f->seq);
	if (f->in_list)
		printf("LIST, its packet %u, ", f->in_list);
	printf("%s, cookie 0x%x\n", openreg_opcode_name(f->opcode), f->cookie);
	if (f->operand != OPENREG_NO_OPERAND)
		printf("operand    %u\n", f->operand);
	printf("address    ");
	print_address(f->address);
	printf("\ndetail     0x%" PRIx64 "\n", (uint64_t)f->detail);
}

static void print_page(const struct openreg_dump *d)
{
	static const char *const states[] = { "idle", "running", "faulted",
					      "stopped" };
	const struct openreg_card_page *p = &d->page;

	printf("ring       %u slots, head %" PRIu64 ", tail %" PRIu64 "\n",
	       d->ring_slots, (uint64_t)p->head, (uint64_t)d->tail);
	printf("completed  %" PRIu64 "; %s%s; %" PRIu64 " us of engines\n",
	       (uint64_t)p->completed, p->state < 4 ? states[p->state] : "?",
	       p->asleep ? ", the card asleep" : "",
	       (uint64_t)p->busy_ns / 1000);
	if (p->state == OPENREG_QUEUE_STOPPED && p->list_done)
		printf("list       %u packets, %u slots done\n",
		       (unsigned int)(p->list_done >> 32),
		       (unsigned int)(p->list_done & UINT32_MAX));
	if (p->trace_records) {
		printf("trace      %" PRIu64 " records at ",
		       (uint64_t)p->trace_records);
		print_address(p->trace_addr);
		printf(", %" PRIu64 " written, %" PRIu64 " lost\n",
		       (uint64_t)p->trace_written, (uint64_t)p->trace_lost);
	}
}

static void print_ring(const struct openreg_dump *d)
{
	print_page(d);
	if (!d->record.fault.code && d->page.head == d->tail) {
		printf("no packet at the head\n");
		return;
	}
	printf("the packet at the head\n");
	if (!print_packet(d))
		printf("  the packet's fields do not fit in its length\n");
}

/* Replaces unprintable bytes: a process can choose any bytes as its name. */
static void make_printable(char *text, size_t n)
{
	for (size_t i = 0; i < n && text[i]; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}

static void print_dump(struct openreg_dump *d)
{
	make_printable(d->comm, sizeof(d->comm));
	make_printable(d->reason, sizeof(d->reason));
	print_time(d->time_ns);
	printf("card       %u\n", d->card);
	printf("reason     %.64s\n", d->reason);
	print_late(&d->late);
	if (d->record.fault.code)
		print_fault(d);
	else if (d->ring_slots)
		print_queue(d);
	if (d->ring_slots)
		print_ring(d);
	printf("registers\n");
	print_regs(d);
}

/* Checks magic and version, and that the n bytes hold all fields known to both sides. */
static bool is_dump(const struct openreg_dump *d, size_t n)
{
	return n >= SIZE_MIN && d->magic == OPENREG_DUMP_MAGIC &&
	       d->version == OPENREG_DUMP_VERSION &&
	       d->size >= SIZE_MIN &&
	       n >= (d->size < sizeof(*d) ? d->size : sizeof(*d));
}

static int read_dump(const char *path, struct openreg_dump *d)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		fprintf(stderr, "openreg-dump: %s: %s%s\n", path,
			strerror(errno),
			errno == EACCES ? "; only root can read dumps" : "");
		return 1;
	}
	memset(d, 0, sizeof(*d));
	n = fread(d, 1, sizeof(*d), f);
	fclose(f);
	if (!is_dump(d, n)) {
		fprintf(stderr,
			"openreg-dump: %s is no dump of openreg, version %d, or is incomplete\n",
			path, OPENREG_DUMP_VERSION);
		return 1;
	}
	/* Bytes after a shorter dump do not belong to the dump. */
	if (d->size < sizeof(*d))
		memset((uint8_t *)d + d->size, 0, sizeof(*d) - d->size);
	return 0;
}

static int print_file(const char *path)
{
	struct openreg_dump d;

	if (read_dump(path, &d))
		return 1;
	print_dump(&d);
	return 0;
}

static int print_all(void)
{
	int status = 0;
	glob_t found;

	if (glob(PATTERN, 0, NULL, &found)) {
		fprintf(stderr,
			"openreg-dump: no file " PATTERN ": no fault or hang in the last five minutes, or you are not root\n");
		return 1;
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		printf("%s%s\n", i ? "\n" : "", found.gl_pathv[i]);
		status |= print_file(found.gl_pathv[i]);
	}
	globfree(&found);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc > 1 && argv[1][0] == '-') {
		fprintf(stderr, "usage: openreg-dump [FILE...]\n");
		return 2;
	}
	if (argc == 1)
		return print_all();
	for (int i = 1; i < argc; i++)
		status |= print_file(argv[i]);
	return status;
}
