/*
 * openreg: a SIGNAL of one card wakes the WAITs of another
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A card stores the word of a SIGNAL by DMA, which no card sees that has the word in its
 * VRAM. So the sender names the word to that card, as an on-chip message would. A card
 * continues only those queues whose WAIT the word meets.
 */
#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "qemu/rcu.h"
#include "openreg-pci.h"

/*
 * All cards. Nothing that takes the BQL may be called with this lock held: an unplug
 * holds the BQL and takes the lock.
 */
static QemuMutex cards_lock;
static QLIST_HEAD(, OpenregState) cards = QLIST_HEAD_INITIALIZER(cards);
static unsigned int num_cards; /* atomic */

static void __attribute__((constructor)) openreg_peer_lock_init(void)
{
    qemu_mutex_init(&cards_lock);
}

void openreg_peer_add(OpenregState *s)
{
    QEMU_LOCK_GUARD(&cards_lock);
    QLIST_INSERT_HEAD(&cards, s, next_card);
    qatomic_inc(&num_cards);
}

void openreg_peer_remove(OpenregState *s)
{
    QEMU_LOCK_GUARD(&cards_lock);
    QLIST_REMOVE(s, next_card);
    qatomic_dec(&num_cards);
}

static void openreg_poke_word(OpenregState *s, void *opaque)
{
    hwaddr bus = *(uint64_t *)opaque, off, len = 8;
    OpenregState *o;
    MemoryRegion *mr;

    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(openreg_as(s), bus, &off, &len, true,
                                 OPENREG_ATTRS);
    QEMU_LOCK_GUARD(&cards_lock);
    QLIST_FOREACH(o, &cards, next_card) {
        if (o->vram == mr) {
            openreg_card_poke(o->card, off);
        }
    }
}

void openreg_signalled(void *host, bool vram, uint64_t at)
{
    OpenregState *s = host;

    /* The card itself wakes the queues that wait on a word in its own VRAM. */
    if (vram || qatomic_read(&num_cards) < 2) {
        return;
    }
    if (qatomic_read(&s->iommu)) {
        openreg_run_locked(s, openreg_poke_word, &at);
    } else {
        openreg_poke_word(s, &at);
    }
}
