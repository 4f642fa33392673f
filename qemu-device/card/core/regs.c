/* SPDX-License-Identifier: MIT */
/* The register file. */
#include "core.h"
#include "exec.h"

enum reg_write { REG_RO, REG_SETUP, REG_RW, REG_KICK };

struct reg {
	uint32_t off;
	uint32_t bits;
	enum reg_write write;
	size_t at; /* of the value in struct openreg_card, if it has state */
};

#define FIXED(name, bits, write, value)                                        \
	{ OPENREG_REG_##name, bits, REG_##write, 0 },
#define STATE(name, bits, write, field)                                        \
	{ OPENREG_REG_##name, bits, REG_##write,                               \
	  offsetof(struct openreg_card, regs.field) },
#define STAT(name, bits, write, field)                                         \
	{ OPENREG_REG_##name, bits, REG_##write,                               \
	  offsetof(struct openreg_card, stats.field) },

/* The first REGS_SAVED have state. */
static const struct reg table[] = {
	REGS_STATE(STATE) REGS_STATS(STAT) REGS_FIXED(FIXED)
};

static uint64_t get(struct openreg_card *card, const struct reg *reg)
{
	void *at = (char *)card + reg->at;

	return reg->bits == 64 ? *(card_reg64 *)at : *(card_reg32 *)at;
}

static void set(struct openreg_card *card, const struct reg *reg, uint64_t value)
{
	void *at = (char *)card + reg->at;

	if (reg->bits == 64)
		*(card_reg64 *)at = value;
	else
		*(card_reg32 *)at = (uint32_t)value;
}

/* The upper half of a register with 64 bits has the register's offset plus 4. */
static const struct reg *find(uint64_t off)
{
	unsigned int i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (off == table[i].off ||
		    (off == table[i].off + 4 && table[i].bits == 64))
			return &table[i];
	}
	return NULL;
}

static uint64_t read_state(struct openreg_card *card, const struct reg *reg)
{
	uint64_t value;

	pthread_mutex_lock(&card->gate.lock);
	value = get(card, reg);
	pthread_mutex_unlock(&card->gate.lock);
	if (reg->off == OPENREG_REG_CONTROL)
		value &= ~(uint64_t)CONTROL_FELL;
	return value;
}

static uint64_t read_reg(struct openreg_card *card, const struct reg *reg)
{
	switch (reg->off) {
#define VALUE(name, bits, write, value)                                        \
	case OPENREG_REG_##name:                                               \
		return value;
		REGS_FIXED(VALUE)
	}
	return read_state(card, reg);
}

static uint32_t read_half(struct openreg_card *card, uint64_t off)
{
	const struct reg *reg = find(off);

	if (!reg)
		return 0;
	return (uint32_t)(read_reg(card, reg) >> (off == reg->off ? 0 : 32));
}

uint64_t openreg_card_reg_read(struct openreg_card *card, uint64_t off,
			       unsigned int size)
{
	const struct reg *reg;

	if ((size != 4 && size != 8) || off % size) {
		card_guest_error(card, "register read at 0x%llx, %u bytes",
				 (unsigned long long)off, size);
		return 0;
	}
	if (size == 4)
		return read_half(card, off);
	reg = find(off);
	if (reg && reg->bits == 64)
		return read_reg(card, reg);
	return read_half(card, off) | (uint64_t)read_half(card, off + 4) << 32;
}

/* RESET and CONTROL_FELL stay set until the admin thread has handled them. */
static uint32_t new_control(uint32_t old, uint32_t value)
{
	uint32_t keep = old & (OPENREG_CONTROL_RESET | CONTROL_FELL);

	if (old & ~value & OPENREG_CONTROL_ENABLE)
		keep |= CONTROL_FELL;
	return keep | (value & (OPENREG_CONTROL_ENABLE | OPENREG_CONTROL_RESET));
}

/* gate.lock is held. */
static bool write_reg(struct openreg_card *card, const struct reg *reg,
		      bool high, uint32_t value)
{
	const unsigned int shift = high ? 32 : 0;
	const uint64_t old = get(card, reg);

	if (reg->write == REG_RO ||
	    (reg->write == REG_SETUP &&
	     card->regs.control & OPENREG_CONTROL_ENABLE))
		return false;
	if (reg->off == OPENREG_REG_CONTROL)
		value = new_control((uint32_t)old, value);
	else if (reg->off == OPENREG_REG_CARD_ID)
		value &= OPENREG_MAX_CARDS - 1;
	set(card, reg, (old & ~(0xffffffffULL << shift)) | (uint64_t)value << shift);
	if (reg->write == REG_KICK) {
		card->gate.admin_kick = true;
		pthread_cond_signal(&card->gate.admin);
	}
	return true;
}

static void write_half(struct openreg_card *card, uint64_t off, uint32_t value)
{
	const struct reg *reg = find(off);
	bool ok;

	pthread_mutex_lock(&card->gate.lock);
	ok = reg && write_reg(card, reg, off != reg->off, value);
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

void regs_clear(struct openreg_card *card)
{
	unsigned int i;

	for (i = 0; i < REGS_SAVED; i++)
		set(card, &table[i], 0);
}

void regs_save(struct openreg_card *card, uint64_t words[REGS_SAVED])
{
	unsigned int i;

	for (i = 0; i < REGS_SAVED; i++)
		words[i] = get(card, &table[i]);
}

void regs_load(struct openreg_card *card, const uint64_t words[REGS_SAVED])
{
	unsigned int i;

	for (i = 0; i < REGS_SAVED; i++)
		set(card, &table[i], words[i]);
	card->regs.card_id &= OPENREG_MAX_CARDS - 1;
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
