// SPDX-License-Identifier: MIT
/* Prints the cards of this machine and their properties. */
#include <inttypes.h>
#include <stdio.h>

#include <openreg.h>

#define MIB (1024.0 * 1024.0)

static void print_bits(const char *label, uint64_t bits,
		       const char *(*name)(unsigned int))
{
	printf("  %-10s", label);
	for (unsigned int i = 0; i < 64; i++)
		if (bits >> i & 1)
			printf(" %s", name(i));
	printf("\n");
}

static void print_info(unsigned int index, const struct openreg_device_info *i,
		       const struct openreg_memory_info *m)
{
	printf("card %u: %s\n", index, i->path);
	printf("  %-10s %s\n", "PCI", i->pci);
	printf("  %-10s %s\n", "driver", i->driver);
	printf("  %-10s %u.%u\n", "ISA", i->isa_version >> 16,
	       i->isa_version & 0xffff);
	printf("  %-10s %.0f MiB, %.0f free, largest block %.0f\n", "VRAM",
	       m->vram_total / MIB, m->vram_free / MIB, m->vram_largest / MIB);
	printf("  %-10s %u, slices of %u us, 2^%u elements a packet\n",
	       "workers", i->workers, i->slice_us, i->max_work);
	printf("  %-10s %u queues of up to %u slots, %u vectors\n", "queues",
	       i->max_queues, i->max_ring_slots, i->vectors);
	printf("  %-10s %u a process, of up to %.0f MiB\n", "segments",
	       i->max_segments, i->max_bo_size / MIB);
	print_bits("dtypes", i->dtypes, openreg_dtype_name);
	print_bits("packets", i->packets, openreg_opcode_name);
}

static int show_card(unsigned int index)
{
	struct openreg_device_info info;
	struct openreg_memory_info memory;
	struct openreg_device *dev;
	int ret = openreg_device_open(index, &dev);

	if (ret)
		return ret;
	ret = openreg_device_get_info(dev, &info);
	if (!ret)
		ret = openreg_device_get_memory(dev, &memory);
	if (!ret)
		print_info(index, &info, &memory);
	openreg_device_close(dev);
	return ret;
}

int main(int argc, char **argv)
{
	const int count = openreg_device_count();
	int failed = 0;

	if (argc > 1) {
		fprintf(stderr,
			"usage: %s\nprints the openreg cards of this machine\n",
			argv[0]);
		return 2;
	}
	/* Without a card try to open card 0: the error text tells what is missing. */
	for (int i = 0; i < (count ? count : 1); i++)
		if (show_card((unsigned int)i)) {
			fprintf(stderr, "openreg-info: %s\n",
				openreg_last_error());
			failed = 1;
		}
	return failed;
}
