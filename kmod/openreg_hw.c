// SPDX-License-Identifier: GPL-2.0-only
/* The card's BARs and registers: identify, start and reset the card. */

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/iopoll.h>

#include <drm/drm_drv.h>
#include <drm/drm_print.h>

#include "openreg_device.h"

#define OPENREG_POLL_US 100
#define OPENREG_READY_TIMEOUT_US (10 * USEC_PER_SEC)
#define OPENREG_GONE_MS 200

static int openreg_hw_check(struct openreg_device *odev)
{
	struct device *dev = odev->drm.dev;
	u32 magic = openreg_read(odev, OPENREG_REG_MAGIC);
	u32 version = openreg_read(odev, OPENREG_REG_VERSION);

	if (magic != OPENREG_MAGIC)
		return dev_err_probe(dev, -ENODEV,
				     "not an openreg card: magic is 0x%08x\n",
				     magic);
	if (version >> 16 != OPENREG_ISA_MAJOR)
		return dev_err_probe(dev, -EPROTO,
				     "card has ISA %u.%u, this driver needs %u.x\n",
				     version >> 16, version & 0xffff,
				     OPENREG_ISA_MAJOR);
	if (odev->pdev->revision != OPENREG_PCI_REVISION)
		return dev_err_probe(dev, -EPROTO,
				     "card has revision %u, this driver needs %u: take both of one release\n",
				     odev->pdev->revision,
				     OPENREG_PCI_REVISION);
	odev->info.isa_version = version;
	return 0;
}

static void openreg_hw_read_limits(struct openreg_device *odev)
{
	struct drm_openreg_device_info *info = &odev->info;

	info->packets = openreg_read64(odev, OPENREG_REG_PACKETS);
	info->dtypes = openreg_read64(odev, OPENREG_REG_DTYPES);
	info->vram_size = openreg_read64(odev, OPENREG_REG_VRAM_SIZE);
	info->max_queues = openreg_read(odev, OPENREG_REG_MAX_QUEUES);
	info->max_segments = openreg_read(odev, OPENREG_REG_MAX_SEGMENTS);
	info->max_ring_slots = openreg_read(odev, OPENREG_REG_RING_SLOTS);
	info->workers = openreg_read(odev, OPENREG_REG_WORKERS);
	info->slice_us = openreg_read(odev, OPENREG_REG_SLICE_US);
	info->max_work = openreg_read(odev, OPENREG_REG_MAX_WORK);
	info->max_bo_size = BIT_ULL(OPENREG_ADDR_OFFSET_BITS);
	odev->max_contexts = openreg_read(odev, OPENREG_REG_MAX_CONTEXTS);
	odev->num_doorbells = openreg_read(odev, OPENREG_REG_DOORBELLS);
	odev->page_shifts = openreg_read(odev, OPENREG_REG_PAGE_SHIFTS);
}

static int openreg_hw_limits(struct openreg_device *odev)
{
	struct drm_openreg_device_info *info = &odev->info;
	struct device *dev = odev->drm.dev;
	u64 vram_bar = pci_resource_len(odev->pdev, OPENREG_BAR_VRAM);
	u64 bell_bar = pci_resource_len(odev->pdev, OPENREG_BAR_DOORBELL);

	openreg_hw_read_limits(odev);
	if (!vram_bar)
		return dev_err_probe(dev, -ENODEV,
				     "no address space for VRAM of %llu MiB: the firmware must reserve %llu MiB at the port (pref64-reserve of QEMU's pcie-root-port)\n",
				     info->vram_size >> 20,
				     info->vram_size >> 19);
	if (!info->vram_size || info->vram_size > vram_bar ||
	    !PAGE_ALIGNED(info->vram_size))
		return dev_err_probe(dev, -EPROTO,
				     "card has %llu bytes of VRAM in a BAR of %llu\n",
				     info->vram_size, vram_bar);
	if (!odev->max_contexts || !info->max_queues ||
	    info->max_segments < 2 ||
	    info->max_segments > OPENREG_MAX_SEGMENTS ||
	    info->max_ring_slots < OPENREG_RING_SLOTS_MIN ||
	    info->max_ring_slots > OPENREG_RING_SLOTS_MAX)
		return dev_err_probe(dev, -EPROTO, "card reports bad limits\n");
	if (!odev->num_doorbells ||
	    (u64)odev->num_doorbells * OPENREG_DOORBELL_STRIDE > bell_bar)
		return dev_err_probe(dev, -EPROTO,
				     "%u doorbells do not fit their BAR\n",
				     odev->num_doorbells);
	if (!(odev->page_shifts & BIT(PAGE_SHIFT)))
		return dev_err_probe(dev, -EPROTO,
				     "card has no page lists of %lu bytes\n",
				     PAGE_SIZE);
	/* Number 0 is never used. */
	info->max_segments--;
	return 0;
}

static void openreg_hw_identity(struct openreg_device *odev)
{
	struct pci_dev *pdev = odev->pdev;

	odev->info.pci = (u64)pci_domain_nr(pdev->bus) << 32 |
			 pdev->bus->number << 8 | pdev->devfn;
	odev->doorbell_base = pci_resource_start(pdev, OPENREG_BAR_DOORBELL);
	odev->vram_base = pci_resource_start(pdev, OPENREG_BAR_VRAM);
}

int openreg_hw_init(struct openreg_device *odev)
{
	struct pci_dev *pdev = odev->pdev;
	struct device *dev = &pdev->dev;
	int ret;

	ret = pcim_enable_device(pdev);
	if (ret)
		return dev_err_probe(dev, ret, "cannot enable the device\n");
	pci_clear_master(pdev);
	ret = pcim_request_all_regions(pdev, "openreg");
	if (ret)
		return dev_err_probe(dev, ret, "BARs are in use\n");

	odev->regs = pcim_iomap(pdev, OPENREG_BAR_REGS, 0);
	if (!odev->regs ||
	    pci_resource_len(pdev, OPENREG_BAR_REGS) < OPENREG_BAR_REGS_SIZE)
		return dev_err_probe(dev, -ENOMEM, "cannot map the registers\n");

	ret = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (ret)
		return dev_err_probe(dev, ret, "no 64-bit DMA\n");
	dma_set_max_seg_size(dev, UINT_MAX);

	ret = openreg_hw_check(odev);
	if (!ret)
		ret = openreg_hw_limits(odev);
	if (ret)
		return ret;
	openreg_hw_identity(odev);

	/* Without this, mappings of VRAM are uncached under KVM. */
	ret = devm_arch_io_reserve_memtype_wc(dev, odev->vram_base,
					      odev->info.vram_size);
	if (ret)
		return dev_err_probe(dev, ret, "cannot map VRAM write-combined\n");
	/* An earlier driver may have left the card running: stop its DMA. */
	return openreg_hw_reset(odev);
}

/* Waits until the register has the value want, has a bit of stop, or the card is gone. */
static int openreg_hw_poll(struct openreg_device *odev, u32 reg, u32 mask,
			   u32 want, u32 stop)
{
	u32 val;
	int ret;

	ret = readl_poll_timeout(odev->regs + reg, val,
				 val == U32_MAX || val & stop ||
				 (val & mask) == want,
				 OPENREG_POLL_US, OPENREG_READY_TIMEOUT_US);
	if (val == U32_MAX)
		return -ENODEV;
	return val & stop ? -EIO : ret;
}

/* Writes the address of the fault ring to the registers, before the card is enabled. */
static void openreg_hw_start_faults(struct openreg_device *odev)
{
	struct openreg_faults *faults = &odev->faults;

	guard(mutex)(&faults->lock);
	memset(faults->ring, 0,
	       OPENREG_FAULT_RING_SLOTS * sizeof(*faults->ring));
	faults->head = 0;
	openreg_write64(odev, OPENREG_REG_FAULT_BASE, faults->dma);
	openreg_write(odev, OPENREG_REG_FAULT_SLOTS, OPENREG_FAULT_RING_SLOTS);
	openreg_write(odev, OPENREG_REG_FAULT_HEAD, 0);
}

/* Enables bus mastering and the card. Reset the card first: old work must do no DMA. */
int openreg_hw_start(struct openreg_device *odev)
{
	pci_set_master(odev->pdev);
	openreg_write(odev, OPENREG_REG_CARD_ID, odev->info.card);
	openreg_admin_start(odev);
	openreg_hw_start_faults(odev);
	openreg_write(odev, OPENREG_REG_CONTROL, OPENREG_CONTROL_ENABLE);
	return openreg_hw_poll(odev, OPENREG_REG_STATUS, OPENREG_STATUS_READY,
			       OPENREG_STATUS_READY, OPENREG_STATUS_FATAL);
}

/* Resets the card. If this returns 0, the card does no DMA and has lost all but VRAM. */
int openreg_hw_reset(struct openreg_device *odev)
{
	/* Without a card, reads of the bus may return any value. */
	if (openreg_read(odev, OPENREG_REG_MAGIC) != OPENREG_MAGIC)
		return -ENODEV;
	openreg_write(odev, OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
	return openreg_hw_poll(odev, OPENREG_REG_CONTROL,
			       OPENREG_CONTROL_RESET | OPENREG_CONTROL_ENABLE,
			       0, 0);
}

static void openreg_hw_free_config(void *config)
{
	kfree(config);
}

/*
 * Saves the PCI config space that probe set up, for a card that lost it. Bus mastering is
 * off in it: openreg_hw_start() enables that after a reset.
 */
int openreg_hw_save_config(struct openreg_device *odev)
{
	pci_save_state(odev->pdev);
	odev->config = pci_store_saved_state(odev->pdev);
	if (!odev->config)
		return -ENOMEM;
	return devm_add_action_or_reset(odev->drm.dev, openreg_hw_free_config,
					odev->config);
}

void openreg_hw_configure(struct openreg_device *odev)
{
	pci_load_saved_state(odev->pdev, odev->config);
	pci_restore_state(odev->pdev);
}

static int openreg_hw_flr(struct openreg_device *odev)
{
	struct pci_dev *pdev = odev->pdev;
	int ret;

	/*
	 * An FLR of a card that is gone takes a minute. Check first, after a pause: a
	 * card that is being unplugged answers config reads for a while longer.
	 */
	msleep(OPENREG_GONE_MS);
	if (!pci_device_is_present(pdev))
		return -ENODEV;
	/* Trylock: a reset by the bus holds this lock and waits for reset_lock. */
	if (!pci_cfg_access_trylock(pdev))
		return -EBUSY;
	ret = pcie_reset_flr(pdev, PCI_RESET_DO_RESET);
	openreg_hw_configure(odev);
	pci_cfg_access_unlock(pdev);
	return ret;
}

/**
 * openreg_hw_restart() - reset and start a card in any state
 * @odev: the card
 *
 * Resets the card by its CONTROL register. If that fails, tries a function level reset.
 */
int openreg_hw_restart(struct openreg_device *odev)
{
	int ret = openreg_hw_reset(odev) ?: openreg_hw_start(odev);

	if (!ret)
		return 0;
	dev_warn(odev->drm.dev,
		 "the card does not restart (%d), trying a function level reset\n",
		 ret);
	return openreg_hw_flr(odev) ?: openreg_hw_reset(odev) ?:
	       openreg_hw_start(odev);
}

/* Does the card answer, and is its admin ring ready? */
bool openreg_hw_is_ready(struct openreg_device *odev)
{
	return openreg_read(odev, OPENREG_REG_STATUS) == OPENREG_STATUS_READY &&
	       openreg_read(odev, OPENREG_REG_MAGIC) == OPENREG_MAGIC;
}

/* Requests a reset if the card is not ready. It may be unable to raise an interrupt. */
void openreg_hw_check_alive(struct openreg_device *odev)
{
	u64 seen = READ_ONCE(odev->generation);
	u32 status;

	/*
	 * Pairs with openreg_reset_new_generation(): if seen is the generation after a
	 * reset, the state is that after the reset. Else a reset makes the request stale.
	 */
	smp_rmb();
	if (READ_ONCE(odev->admin.state) != OPENREG_ADMIN_RUNNING)
		return;
	status = openreg_read(odev, OPENREG_REG_STATUS);
	if (status == OPENREG_STATUS_READY)
		return;
	odev->upcalls->broken(odev, seen, status == OPENREG_STATUS_FATAL ?
			      "the card reports a fatal error" :
			      "the card does not answer");
}

/*
 * Keeps the card from being removed until drm_dev_exit(). Do not access memory of the
 * process between the two: a page fault can take for ever.
 */
int openreg_enter(struct openreg_device *odev, int *idx)
{
	int error;

	if (!drm_dev_enter(&odev->drm, idx))
		return -ENODEV;
	error = READ_ONCE(odev->wedged);
	if (error)
		drm_dev_exit(*idx);
	return error;
}
