/*
 * openreg over qtest: the card, its registers and its admin ring
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "standard-headers/linux/pci_regs.h"

/*
 * Use an empty firmware file: no vCPU runs, and the test does not depend on where
 * QEMU finds its firmware. The test deletes the file after QEMU has read it.
 */
static char *or_firmware(void)
{
    char *path = NULL;
    int fd = g_file_open_tmp("openreg-bios-XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, 64 << 10), ==, 0);
    close(fd);
    return path;
}

QTestState *or_start_machine(const char *format, ...)
{
    g_autofree char *firmware = or_firmware();
    g_autofree char *args = NULL;
    QTestState *qts;
    va_list ap;

    va_start(ap, format);
    args = g_strdup_vprintf(format, ap);
    va_end(ap);
    qts = qtest_initf("-machine q35 -m 256M -nodefaults "
                      "-global apic-common.vapic=off -bios %s %s", firmware,
                      args);
    unlink(firmware);
    return qts;
}

QTestState *or_start(const char *args)
{
    return or_start_machine("-device openreg,id=card0,addr=%d," OR_VRAM_ARG
                            ",workers=2%s", OR_SLOT, args);
}

OrCard *or_probe(QTestState *qts, int devfn, uint64_t mem)
{
    OrCard *card = g_new0(OrCard, 1);

    card->qts = qts;
    card->bus = qpci_new_pc(qts, NULL);
    card->bus->mmio_alloc_ptr += ((devfn >> 3) & 1) * 2 * OR_VRAM;
    card->dev = qpci_device_find(card->bus, devfn);
    g_assert_nonnull(card->dev);
    card->regs = qpci_iomap(card->dev, OPENREG_BAR_REGS, NULL);
    card->bells = qpci_iomap(card->dev, OPENREG_BAR_DOORBELL, NULL);
    card->vram = qpci_iomap(card->dev, OPENREG_BAR_VRAM, &card->vram_bytes);
    qpci_device_enable(card->dev);
    card->next = mem;
    card->end = mem + (64 << 20);
    return card;
}

uint32_t or_reg(OrCard *card, unsigned int off)
{
    return qpci_io_readl(card->dev, card->regs, off);
}

uint64_t or_reg64(OrCard *card, unsigned int off)
{
    return qpci_io_readq(card->dev, card->regs, off);
}

void or_reg_write(OrCard *card, unsigned int off, uint32_t value)
{
    qpci_io_writel(card->dev, card->regs, off, value);
}

void or_reg_write64(OrCard *card, unsigned int off, uint64_t value)
{
    or_reg_write(card, off, value);
    or_reg_write(card, off + 4, value >> 32);
}

uint64_t or_mem(OrCard *card, uint64_t len)
{
    uint64_t addr = card->next;

    card->next += QEMU_ALIGN_UP(len, OR_PAGE);
    g_assert_cmpuint(card->next, <=, card->end);
    qtest_memset(card->qts, addr, 0, QEMU_ALIGN_UP(len, OR_PAGE));
    return addr;
}

uint64_t or_bus(OrCard *card, uint64_t len)
{
    return or_mem(card, len) + card->iova;
}

void or_reset(OrCard *card, uint32_t bits)
{
    or_reg_write(card, OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET | bits);
    g_assert_cmphex(or_reg(card, OPENREG_REG_MAGIC), ==, OPENREG_MAGIC);
    OR_WAIT(or_reg(card, OPENREG_REG_CONTROL) == 0);
}

static uint32_t or_client_read(void *card, uint32_t off)
{
    return or_reg(card, off);
}

static void or_client_write(void *card, uint32_t off, uint32_t value)
{
    or_reg_write(card, off, value);
}

static void or_client_load(void *host, uint64_t bus, void *to, size_t len)
{
    OrCard *card = host;

    qtest_memread(card->qts, bus - card->iova, to, len);
}

static void or_client_store(void *host, uint64_t bus, const void *from,
                            size_t len)
{
    OrCard *card = host;

    qtest_memwrite(card->qts, bus - card->iova, from, len);
}

static void or_client_ring(void *host, uint32_t doorbell)
{
    OrCard *card = host;

    qpci_io_writel(card->dev, card->bells, doorbell * OR_PAGE, 1);
}

static const struct client_ops or_client_ops = {
    .read_reg = or_client_read,
    .write_reg = or_client_write,
    .load = or_client_load,
    .store = or_client_store,
    .ring = or_client_ring,
};

void or_enable(OrCard *card)
{
    card->client = (struct client) {
        .ops = &or_client_ops,
        .host = card,
        .cmds = or_bus(card, OR_ADMIN_SLOTS * sizeof(struct openreg_admin_cmd)),
        .cpls = or_bus(card, OR_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl)),
        .faults = or_bus(card, OR_FAULT_SLOTS *
                               sizeof(struct openreg_fault_record)),
        .slots = OR_ADMIN_SLOTS,
        .fault_slots = OR_FAULT_SLOTS,
    };
    client_enable(&card->client);
    OR_WAIT(or_reg(card, OPENREG_REG_STATUS) & OPENREG_STATUS_READY);
}

OrCard *or_card(const char *args)
{
    OrCard *card = or_probe(or_start(args), QPCI_DEVFN(OR_SLOT, 0), 16 << 20);

    or_enable(card);
    return card;
}

void or_card_free(OrCard *card)
{
    g_free(card->dev);
    qpci_free_pc(card->bus);
    g_free(card);
}

void or_quit(OrCard *card)
{
    QTestState *qts = card->qts;

    or_card_free(card);
    qtest_quit(qts);
}

uint32_t or_admin_send(OrCard *card, const struct openreg_admin_cmd *cmd)
{
    return client_submit(&card->client, cmd);
}

bool or_admin_done(OrCard *card, uint32_t index, uint32_t *status)
{
    struct openreg_admin_cpl cpl;
    bool done = client_completed(&card->client, index, &cpl);

    *status = cpl.status;
    return done;
}

uint32_t or_admin(OrCard *card, const struct openreg_admin_cmd *cmd)
{
    uint32_t status, index = or_admin_send(card, cmd);

    OR_WAIT(or_admin_done(card, index, &status));
    return status;
}

uint32_t or_ctx_create(OrCard *card, uint32_t ctx)
{
    struct openreg_admin_cmd cmd = cmd_context(ctx, 0);

    return or_admin(card, &cmd);
}

uint32_t or_seg_vram(OrCard *card, uint32_t ctx, uint32_t seg, uint32_t perm,
                     uint64_t base, uint64_t len)
{
    struct openreg_admin_cmd cmd = cmd_vram(ctx, seg, base, len, perm);

    return or_admin(card, &cmd);
}

uint32_t or_seg_system(OrCard *card, uint32_t ctx, uint32_t seg, uint32_t perm,
                       const uint64_t *pages, unsigned int npages,
                       uint32_t offset, uint64_t len)
{
    uint64_t list = or_bus(card, npages * sizeof(*pages));
    struct openreg_admin_cmd cmd = cmd_pages(ctx, seg, list, offset, len, perm);
    unsigned int i;

    cmd.seg.npages = npages;
    for (i = 0; i < npages; i++) {
        client_store(&card->client, list + 8 * i, pages[i] + card->iova);
    }
    return or_admin(card, &cmd);
}

uint64_t or_vector(OrCard *card, unsigned int vector, uint32_t data)
{
    uint64_t entry = OPENREG_MSIX_TABLE + vector * PCI_MSIX_ENTRY_SIZE;
    uint8_t cap = qpci_find_capability(card->dev, PCI_CAP_ID_MSIX, 0);
    uint64_t word = or_mem(card, 4);

    g_assert_cmphex(cap, !=, 0);
    qpci_config_writew(card->dev, cap + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
    or_reg_write(card, entry + PCI_MSIX_ENTRY_LOWER_ADDR,
                 word + card->iova);
    or_reg_write(card, entry + PCI_MSIX_ENTRY_UPPER_ADDR,
                 (word + card->iova) >> 32);
    or_reg_write(card, entry + PCI_MSIX_ENTRY_DATA, data);
    or_reg_write(card, entry + PCI_MSIX_ENTRY_VECTOR_CTRL, 0);
    return word;
}
