// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fdinfo of an open file, as Documentation/gpu/drm-usage-stats.rst defines it:
 *	drm-engine-card			engine time, the sum over all engine threads
 *	drm-engine-capacity-card	number of engine threads
 *	drm-{total,shared,resident}-X	memory that the card reaches; X is
 *		vram	memory of the card
 *		system	SYSTEM objects, and imports of other devices' memory
 *		user	registered memory of the process
 *	openreg-imported	imports among these
 *	openreg-queues		number of queues
 * As everywhere in DRM, shared memory counts for the exporter and for the importer.
 */

#include <drm/drm_file.h>
#include <drm/drm_print.h>

#include "openreg_device.h"
#include "openreg_extra.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

static void openreg_show_queues(struct drm_printer *p, struct openreg_file *file)
{
	struct openreg_queue *queue;
	unsigned int count = 0;
	unsigned long num;
	u64 ns;

	xa_lock(&file->queues);
	ns = file->past_busy_ns;
	xa_for_each(&file->queues, num, queue) {
		ns += openreg_queue_busy_ns(queue);
		count++;
	}
	xa_unlock(&file->queues);
	drm_printf(p, "drm-engine-card:\t%llu ns\n", ns);
	drm_printf(p, "openreg-queues:\t%u\n", count);
}

/* Returns the bytes of imports. */
static u64 openreg_count_memory(struct drm_file *filp,
				struct drm_memory_stats *stats)
{
	struct drm_memory_stats *region;
	struct drm_gem_object *obj;
	u64 imported = 0;
	int id;

	guard(spinlock)(&filp->table_lock);
	idr_for_each_entry(&filp->object_idr, obj, id) {
		region = &stats[openreg_bo_region(to_openreg_bo(obj))];
		/* The core changes these fields under a lock of its own. */
		if (data_race(drm_gem_object_is_shared_for_memory_stats(obj)))
			region->shared += obj->size;
		else
			region->private += obj->size;
		region->resident += obj->size;
		if (to_openreg_bo(obj)->flags & DRM_OPENREG_BO_IMPORTED)
			imported += obj->size;
	}
	return imported;
}

static void openreg_show_memory(struct drm_printer *p, struct drm_file *filp)
{
	static const char * const names[OPENREG_REGIONS] = {
		"vram", "system", "user",
	};
	struct drm_memory_stats stats[OPENREG_REGIONS] = {};
	unsigned int i;
	u64 imported;

	imported = openreg_count_memory(filp, stats);
	for (i = 0; i < OPENREG_REGIONS; i++)
		drm_print_memory_stats(p, &stats[i], DRM_GEM_OBJECT_RESIDENT,
				       names[i]);
	drm_printf(p, "openreg-imported:\t%llu\n", imported);
}

/* The compute workers and the copy engine. u64: workers can be any number. */
static u64 openreg_num_engines(const struct openreg_device *odev)
{
	return (u64)odev->info.workers + 1;
}

void openreg_show_fdinfo(struct drm_printer *p, struct drm_file *filp)
{
	struct openreg_file *file = filp->driver_priv;

	openreg_show_queues(p, file);
	drm_printf(p, "drm-engine-capacity-card:\t%llu\n",
		   openreg_num_engines(file->odev));
	openreg_show_memory(p, filp);
}
