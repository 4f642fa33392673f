/*
 * openreg behind an IOMMU whose fault record resets the card or stops the VM
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "openreg.h"
#include "standard-headers/linux/pci_regs.h"
#include "standard-headers/linux/virtio_config.h"
#include "standard-headers/linux/virtio_iommu.h"
#include "standard-headers/linux/virtio_ring.h"
#include "../libqos/malloc-pc.h"
#include "../libqos/virtio-pci.h"
#include "tests.h"

#define IOMMU_SLOT 5
#define PANIC_SLOT 6
#define REQUESTS 0
#define EVENTS 1
#define DOMAIN 1
#define MCH_ECAM 0x60
#define ECAM 0xb0000000ULL
/* As a value of the device control register, an address from here on starts an FLR. */
#define MEM (16u << 20 | PCI_EXP_DEVCTL_BCR_FLR)

typedef struct OrIommu {
    OrCard *card;
    QGuestAllocator alloc;
    QVirtioPCIDevice *pci;
    QVirtioDevice *dev;
    QVirtQueue *queue[2];
} OrIommu;

static OrIommu *or_iommu(void)
{
    OrIommu *m = g_new0(OrIommu, 1);
    QTestState *qts = or_start_machine(
        "-device virtio-iommu-pci,addr=%d,boot-bypass=on "
        "-device openreg,addr=%d," OR_VRAM_ARG ",workers=2,spin-us=0 "
        "-device pvpanic-pci,addr=%d -action panic=pause",
        IOMMU_SLOT, OR_SLOT, PANIC_SLOT);
    QPCIAddress where = { .devfn = QPCI_DEVFN(IOMMU_SLOT, 0) };
    uint64_t features;
    int i;

    m->card = or_probe(qts, QPCI_DEVFN(OR_SLOT, 0), MEM);
    pc_alloc_init(&m->alloc, qts, ALLOC_NO_FLAGS);
    m->pci = virtio_pci_new(m->card->bus, &where);
    m->dev = &m->pci->vdev;
    qvirtio_pci_device_enable(m->pci);
    qvirtio_start_device(m->dev);
    features = qvirtio_get_features(m->dev);
    qvirtio_set_features(m->dev, features & ~(QVIRTIO_F_BAD_FEATURE |
                                              1ULL << VIRTIO_RING_F_INDIRECT_DESC |
                                              1ULL << VIRTIO_RING_F_EVENT_IDX));
    for (i = 0; i < 2; i++) {
        m->queue[i] = qvirtqueue_setup(m->dev, &m->alloc, i);
    }
    qvirtio_set_driver_ok(m->dev);
    return m;
}

static void or_iommu_free(OrIommu *m)
{
    int i;

    for (i = 0; i < 2; i++) {
        qvirtqueue_cleanup(m->dev->bus, m->queue[i], &m->alloc);
    }
    qvirtio_pci_device_disable(m->pci);
    g_free(m->pci->pdev);
    g_free(m->pci);
    alloc_destroy(&m->alloc);
    or_quit(m->card);
    g_free(m);
}

/* Attaches the card to a domain without mappings, or detaches it from the domain. */
static void or_iommu_request(OrIommu *m, uint8_t type)
{
    QTestState *qts = m->card->qts;
    struct virtio_iommu_req_attach req = {
        .head.type = type,
        .domain = DOMAIN,
        .endpoint = m->card->dev->devfn,
    };
    uint64_t at = guest_alloc(&m->alloc, sizeof(req));
    uint64_t tail = at + offsetof(struct virtio_iommu_req_attach, tail);
    uint32_t head;

    qtest_memwrite(qts, at, &req, sizeof(req));
    head = qvirtqueue_add(qts, m->queue[REQUESTS], at, tail - at, false, true);
    qvirtqueue_add(qts, m->queue[REQUESTS], tail, sizeof(req.tail), true, false);
    qvirtqueue_kick(qts, m->dev, m->queue[REQUESTS], head);
    qvirtio_wait_used_elem(qts, m->dev, m->queue[REQUESTS], head, NULL, OR_TIMEOUT_US);
    g_assert_cmpuint(qtest_readb(qts, tail), ==, VIRTIO_IOMMU_S_OK);
    guest_free(&m->alloc, at);
}

/* Makes the IOMMU write the next fault record to this address. */
static void or_iommu_aim(OrIommu *m, uint64_t at)
{
    qvirtqueue_kick(m->card->qts, m->dev, m->queue[EVENTS],
                    qvirtqueue_add(m->card->qts, m->queue[EVENTS], at,
                                   sizeof(struct virtio_iommu_fault), true, false));
}

/* The same, so that the record's faulting address lands in the card's device control. */
static void or_iommu_aim_at_card(OrIommu *m)
{
    QTestState *qts = m->card->qts;
    QPCIDevice *mch = qpci_device_find(m->card->bus, 0);
    uint8_t express = qpci_find_capability(m->card->dev, PCI_CAP_ID_EXP, 0);
    uint64_t config = ECAM + ((uint64_t)m->card->dev->devfn << 12);
    uint64_t at = config + express + PCI_EXP_DEVCTL -
                  offsetof(struct virtio_iommu_fault, address);

    qpci_config_writel(mch, MCH_ECAM + 4, 0);
    qpci_config_writel(mch, MCH_ECAM, ECAM | 1);
    g_assert_cmphex(qtest_readw(qts, config), ==, OPENREG_PCI_VENDOR);
    or_iommu_aim(m, at);
    g_free(mch);
}

/* Takes the card's memory away, and rings, so that the card accesses the memory. */
static void or_iommu_lose(OrIommu *m, OrQueue *q)
{
    or_iommu_request(m, VIRTIO_IOMMU_T_ATTACH);
    qpci_io_writel(m->card->dev, m->card->bells, q->door * OR_PAGE, 1);
}

static void or_iommu_again(OrIommu *m)
{
    or_iommu_request(m, VIRTIO_IOMMU_T_DETACH);
    or_flr(m->card);
    m->card->next = MEM;
    or_reprobe(m->card);
}

/*
 * The fault record starts an FLR from inside the access that faulted. A reset that
 * waits for this access would deadlock QEMU. The card must also not be reset while a
 * stop of the VM completes its copies.
 */
static void test_reset(void)
{
    OrIommu *m = or_iommu();
    QTestState *qts = m->card->qts;
    const int64_t n = 256 << 10;
    int tries, faults = 0, k;
    bool asked;
    OrPacket p;
    OrQueue *q;

    or_enable(m->card);
    or_packet(&p, OPENREG_OP_COPY, 0);
    or_space(&p, 1, &n);
    or_operand(&p, OR_V(0), OPENREG_I64, NULL);
    or_operand(&p, OR_V(n * 8), OPENREG_I64, NULL);
    /*
     * While QEMU switches the card to translation, the card's address space is empty
     * for a moment: a packet may fail without an IOMMU fault. Count only the others.
     */
    for (tries = 0; faults < 20; tries++) {
        g_assert_cmpint(tries, <, 200);
        or_iommu_aim_at_card(m);
        q = or_setup(m->card);
        g_assert_cmphex(m->card->client.cpls & m->card->client.faults &
                        q->ring & q->user & q->page & q->kernel &
                        PCI_EXP_DEVCTL_BCR_FLR, !=, 0);
        for (k = 0; k < 8; k++) {
            or_push(q, &p);
        }
        or_iommu_lose(m, q);
        if (tries % 2) {
            qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
            qtest_qmp_assert_success(qts, "{ 'execute': 'cont' }");
        }
        OR_WAIT((asked = qvirtqueue_get_buf(qts, m->queue[EVENTS], NULL, NULL)) ||
                or_reg64(m->card, OPENREG_REG_STAT_FAULTS));
        faults += asked;
        qtest_qmp_assert_success(qts, "{ 'execute': 'query-status' }");
        g_assert_cmphex(or_reg(m->card, OPENREG_REG_CONTROL), !=, 0);
        g_free(q);
        or_iommu_again(m);
    }
    or_works(m->card);
    or_iommu_free(m);
}

/* The record's flag for a read lands in the panic device, which stops the VM. */
static void test_stop(void)
{
    OrIommu *m = or_iommu();
    QTestState *qts = m->card->qts;
    QPCIDevice *panic = qpci_device_find(m->card->bus, QPCI_DEVFN(PANIC_SLOT, 0));
    QPCIBar bar;
    OrQueue *q;
    int i;

    qpci_device_enable(panic);
    bar = qpci_iomap(panic, 0, NULL);
    or_enable(m->card);
    for (i = 0; i < 10; i++) {
        q = or_setup(m->card);
        /* Wait until the card sleeps: it then makes no access before the doorbell. */
        OR_WAIT(qtest_readl(qts, q->page +
                            offsetof(struct openreg_card_page, asleep)) == 1);
        g_usleep(20000);
        or_iommu_aim(m, bar.addr - offsetof(struct virtio_iommu_fault, flags));
        or_iommu_lose(m, q);
        OR_WAIT(qvirtqueue_get_buf(qts, m->queue[EVENTS], NULL, NULL));
        qtest_qmp_eventwait(qts, "STOP");
        qtest_qmp_assert_success(qts, "{ 'execute': 'cont' }");
        g_free(q);
        or_iommu_again(m);
    }
    or_works(m->card);
    g_free(panic);
    or_iommu_free(m);
}

void or_add_iommu_fault_tests(void)
{
    qtest_add_func("/openreg/iommu-fault/reset", test_reset);
    qtest_add_func("/openreg/iommu-fault/stop", test_stop);
}
