// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records the basic blocks of openreg.ko that have run, for kernels without KCOV. Load
 * this module first: openreg.ko calls it at the beginning of each block
 * (-fsanitize-coverage=trace-pc).
 *
 * /sys/kernel/debug/openreg-blocks/list has a line for each block: the offset in .text
 * behind the call, in hexadecimal. count has the number of blocks.
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/seq_file.h>

#define TEXT_MAX 0x100000u

static DECLARE_BITMAP(seen, TEXT_MAX);
static atomic_t count;
static unsigned long text, text_size;
static struct dentry *dir;

void __sanitizer_cov_trace_pc(void);

notrace void __sanitizer_cov_trace_pc(void)
{
	unsigned long offset = _RET_IP_ - READ_ONCE(text);

	/* Test before the atomic write, so that processors can share the cache line. */
	if (offset < READ_ONCE(text_size) && !test_bit(offset, seen) &&
	    !test_and_set_bit(offset, seen))
		atomic_inc(&count);
}
EXPORT_SYMBOL_GPL(__sanitizer_cov_trace_pc);

static int coming(struct notifier_block *notifier, unsigned long state, void *data)
{
	const struct module *module = data;

	if (state == MODULE_STATE_COMING && !strcmp(module->name, "openreg")) {
		WRITE_ONCE(text_size, min(module->mem[MOD_TEXT].size, TEXT_MAX));
		WRITE_ONCE(text, (unsigned long)module->mem[MOD_TEXT].base);
	}
	return NOTIFY_OK;
}

static struct notifier_block modules = { .notifier_call = coming };

static int list_show(struct seq_file *m, void *unused)
{
	unsigned long offset;

	for_each_set_bit(offset, seen, TEXT_MAX)
		seq_printf(m, "%lx\n", offset);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(list);

/* A seq_file: a number file of debugfs returns the same value until it is reopened. */
static int count_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "%d\n", atomic_read(&count));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(count);

static int __init openreg_blocks_init(void)
{
	int ret = register_module_notifier(&modules);

	if (ret)
		return ret;
	dir = debugfs_create_dir("openreg-blocks", NULL);
	debugfs_create_file("list", 0400, dir, NULL, &list_fops);
	debugfs_create_file("count", 0400, dir, NULL, &count_fops);
	return 0;
}

static void __exit openreg_blocks_exit(void)
{
	debugfs_remove(dir);
	unregister_module_notifier(&modules);
}

module_init(openreg_blocks_init);
module_exit(openreg_blocks_exit);
MODULE_DESCRIPTION("Basic blocks of openreg.ko that have run");
MODULE_LICENSE("GPL");
