/* SPDX-License-Identifier: MIT */
/* The register file. */
#include "core.h"
#include "exec.h"

static const struct {
	uint32_t off;
	uint32_t value;
} constants[] = {
	{ OPENREG_REG_MAGIC, OPENREG_MAGIC },
	{ OPENREG_REG_VERSION, OPENREG_ISA_MAJOR << 16 | OPENREG_ISA_MINOR },
	{ OPENREG_REG_PACKETS, (1u << OPENREG_OP_END) - 1 },
	{ OPENREG_REG_DTYPES, ((1u << OPENREG_DTYPE_END) - 1) & ~1u },
	{ OPENREG_REG_MAX_CONTEXTS, OPENREG_MAX_CONTEXTS },
	{ OPENREG_REG_MAX_QUEUES, OPENREG_MAX_QUEUES },
	{ OPENREG_REG_MAX_SEGMENTS, OPENREG_MAX_SEGMENTS },
	{ OPENREG_REG_PAGE_SHIFTS, 1u << 12 | 1u << 21 },
	{ OPENREG_REG_RING_SLOTS, OPENREG_RING_SLOTS_MAX },
	{ OPENREG_REG_SLICE_US, OPENREG_DECIDE_NS / 1000 },
	{ OPENREG_REG_MAX_WORK, OPENREG_MAX_WORK_LOG2 },
};

static bool read_const(uint64_t off, uint64_t *v)
{
	unsigned int i;

	for (i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		if (constants[i].off == off) {
			*v = constants[i].value;
			return true;
		}
	}
	return false;
}

static bool read_config(struct openreg_card *card, uint64_t off, uint64_t *v)
{
	switch (off) {
	case OPENREG_REG_VRAM_SIZE:
		*v = card->config.vram_size;
		return true;
	case OPENREG_REG_DOORBELLS:
		*v = card->config.doorbells;
		return true;
	case OPENREG_REG_VECTORS:
		*v = card->config.vectors;
		return true;
	case OPENREG_REG_WORKERS:
		*v = card->config.workers;
		return true;
	case OPENREG_REG_CLOCK:
		*v = card->ops->clock_ns(card->host);
		return true;
	}
	return false;
}

static bool read_stat(struct openreg_card *card, uint64_t off, uint64_t *v)
{
	struct stats *s = &card->stats;
	atomic_uint_fast64_t *const stats[] = {
		&s->packets,	 &s->doorbells,	 &s->interrupts, &s->dma_read,
		&s->dma_written, &s->compute_ns, &s->copy_ns,	 &s->faults,
		&s->sleeps,	 &s->sleep_ns,
	};
	uint64_t i = (off - OPENREG_REG_STAT_PACKETS) / 8;

	if (off < OPENREG_REG_STAT_PACKETS || off > OPENREG_REG_STAT_SLEEP_NS)
		return false;
	*v = atomic_load(stats[i]);
	return true;
}

/* gate.lock is held. */
static bool read_ring(struct openreg_card *card, uint64_t off, uint64_t *v)
{
	struct regs *r = &card->regs;

	switch (off) {
	case OPENREG_REG_STATUS:
		*v = atomic_load(&r->status);
		return true;
	case OPENREG_REG_CONTROL:
		*v = r->control & ~CONTROL_FELL;
		return true;
	case OPENREG_REG_CARD_ID:
		*v = r->card_id;
		return true;
	case OPENREG_REG_ADMIN_BASE:
		*v = r->admin_base;
		return true;
	case OPENREG_REG_ADMIN_CPL:
		*v = r->admin_cpl;
		return true;
	case OPENREG_REG_ADMIN_SLOTS:
		*v = r->admin_slots;
		return true;
	case OPENREG_REG_ADMIN_TAIL:
		*v = r->admin_tail;
		return true;
	case OPENREG_REG_FAULT_BASE:
		*v = r->fault_base;
		return true;
	case OPENREG_REG_FAULT_SLOTS:
		*v = r->fault_slots;
		return true;
	case OPENREG_REG_FAULT_HEAD:
		*v = atomic_load(&r->fault_head);
		return true;
	case OPENREG_REG_FAULT_TAIL:
		*v = atomic_load(&r->fault_tail);
		return true;
	case OPENREG_REG_FAULT_DROPPED:
		*v = atomic_load(&r->fault_dropped);
		return true;
	}
	return false;
}

static bool is_wide(uint64_t off)
{
	switch (off) {
	case OPENREG_REG_PACKETS:
	case OPENREG_REG_DTYPES:
	case OPENREG_REG_VRAM_SIZE:
	case OPENREG_REG_CLOCK:
	case OPENREG_REG_ADMIN_BASE:
	case OPENREG_REG_ADMIN_CPL:
	case OPENREG_REG_FAULT_BASE:
		return true;
	}
	return off >= OPENREG_REG_STAT_PACKETS &&
	       off <= OPENREG_REG_STAT_SLEEP_NS && off % 8 == 0;
}

static uint64_t read_reg(struct openreg_card *card, uint64_t off)
{
	uint64_t v = 0;
	bool there;

	if (read_const(off, &v) || read_config(card, off, &v) ||
	    read_stat(card, off, &v))
		return v;
	pthread_mutex_lock(&card->gate.lock);
	there = read_ring(card, off, &v);
	pthread_mutex_unlock(&card->gate.lock);
	return there ? v : 0;
}

/* The upper half of a wide register has the register's offset plus 4. */
static uint32_t read_half(struct openreg_card *card, uint64_t off)
{
	if (off % 8 == 4 && is_wide(off - 4))
		return (uint32_t)(read_reg(card, off - 4) >> 32);
	return (uint32_t)read_reg(card, off);
}

uint64_t openreg_card_reg_read(struct openreg_card *card, uint64_t off,
			       unsigned int size)
{
	if ((size != 4 && size != 8) || off % size) {
		card_guest_error(card, "register read at 0x%llx, %u bytes",
				 (unsigned long long)off, size);
		return 0;
	}
	if (size == 4)
		return read_half(card, off);
	if (is_wide(off))
		return read_reg(card, off);
	return read_half(card, off) | (uint64_t)read_half(card, off + 4) << 32;
}

static void set_half(uint64_t *reg, bool high, uint32_t value)
{
	unsigned int shift = high ? 32 : 0;

	*reg = (*reg & ~(0xffffffffULL << shift)) | (uint64_t)value << shift;
}

/* gate.lock is held. Registers that the driver may write only while ENABLE is 0. */
static bool write_setup(struct regs *r, uint64_t off, uint32_t value)
{
	switch (off) {
	case OPENREG_REG_ADMIN_BASE:
	case OPENREG_REG_ADMIN_BASE + 4:
		set_half(&r->admin_base, off % 8, value);
		return true;
	case OPENREG_REG_ADMIN_CPL:
	case OPENREG_REG_ADMIN_CPL + 4:
		set_half(&r->admin_cpl, off % 8, value);
		return true;
	case OPENREG_REG_ADMIN_SLOTS:
		r->admin_slots = value;
		return true;
	case OPENREG_REG_FAULT_BASE:
	case OPENREG_REG_FAULT_BASE + 4:
		set_half(&r->fault_base, off % 8, value);
		return true;
	case OPENREG_REG_FAULT_SLOTS:
		r->fault_slots = value;
		return true;
	}
	return false;
}

/* RESET and CONTROL_FELL stay set until the admin thread has handled them. */
static void write_control(struct regs *r, uint32_t value)
{
	uint32_t keep = r->control & (OPENREG_CONTROL_RESET | CONTROL_FELL);

	if (r->control & ~value & OPENREG_CONTROL_ENABLE)
		keep |= CONTROL_FELL;
	r->control = keep | (value & (OPENREG_CONTROL_ENABLE |
				      OPENREG_CONTROL_RESET));
}

/* gate.lock is held. */
static bool write_any(struct openreg_card *card, uint64_t off, uint32_t value)
{
	struct regs *r = &card->regs;

	switch (off) {
	case OPENREG_REG_CONTROL:
		write_control(r, value);
		break;
	case OPENREG_REG_ADMIN_TAIL:
		r->admin_tail = value;
		break;
	case OPENREG_REG_FAULT_HEAD:
		atomic_store(&r->fault_head, value);
		return true;
	case OPENREG_REG_CARD_ID:
		r->card_id = value & (OPENREG_MAX_CARDS - 1);
		atomic_store(&r->card, r->card_id);
		return true;
	default:
		return false;
	}
	card->gate.admin_kick = true;
	pthread_cond_signal(&card->gate.admin);
	return true;
}

static void write_half(struct openreg_card *card, uint64_t off, uint32_t value)
{
	bool ok;

	pthread_mutex_lock(&card->gate.lock);
	ok = write_any(card, off, value) ||
	     (!(card->regs.control & OPENREG_CONTROL_ENABLE) &&
	      write_setup(&card->regs, off, value));
	pthread_mutex_unlock(&card->gate.lock);
	if (!ok)
		card_guest_error(card, "register write at 0x%llx ignored",
				 (unsigned long long)off);
}

void openreg_card_reg_write(struct openreg_card *card, uint64_t off,
			    uint64_t value, unsigned int size)
{
	if ((size != 4 && size != 8) || off % size) {
		card_guest_error(card, "register write at 0x%llx, %u bytes",
				 (unsigned long long)off, size);
		return;
	}
	write_half(card, off, (uint32_t)value);
	if (size == 8)
		write_half(card, off + 4, (uint32_t)(value >> 32));
}

void openreg_card_doorbell(struct openreg_card *card, unsigned int page)
{
	if (page >= card->config.doorbells)
		return;
	atomic_fetch_add(&card->stats.doorbells, 1);
	atomic_fetch_or(&card->doors[page / 64], 1ULL << (page % 64));
	caller_set_cpu(card);
	gate_wake(card, 1);
}
