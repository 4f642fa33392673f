// SPDX-License-Identifier: GPL-2.0-only
/*
 * Given: starts the labs after the first in their order, and makes the files in
 * /sys/kernel/debug/lab by which you and the grader use your functions.
 *
 *   admin    write 64 bytes: lab_admin() with this command. A write that fails has
 *            the error of lab_admin(). Read: the last status
 *   post     write "COUNT COOKIE": so many NOPs, without waiting
 *   nop      write "COUNT COOKIE": so many NOPs, one after the other, by polling
 *   sleep    write "COUNT COOKIE": the same, but the thread sleeps
 *   await    write "NUMBER": the thread sleeps until this packet has completed. Another thread
 *            may submit it later
 *   packet   write 64 bytes: this packet, and the thread sleeps
 *   faults   read: the records of the fault ring that were not read before
 *   recover  write anything: lab_recover()
 */

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "lab.h"

#if LAB >= 2
static int last_status;

static ssize_t admin_write(struct file *file, const char __user *data, size_t size,
			   loff_t *pos)
{
	struct lab *lab = file->private_data;
	struct openreg_admin_cmd cmd;
	int ret;

	if (size != sizeof(cmd))
		return -EINVAL;
	if (copy_from_user(&cmd, data, size))
		return -EFAULT;
	mutex_lock(&lab->lock);
	ret = lab_admin(lab, &cmd);
	last_status = ret;
	mutex_unlock(&lab->lock);
	return ret < 0 ? ret : size;
}

static ssize_t admin_read(struct file *file, char __user *data, size_t size, loff_t *pos)
{
	char text[16];
	int len = scnprintf(text, sizeof(text), "%d\n", last_status);

	return simple_read_from_buffer(data, size, pos, text, len);
}

static const struct file_operations admin_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = admin_read,
	.write = admin_write,
};
#endif

#if LAB >= 3
typedef int (*lab_wait_t)(struct lab *lab, u64 seq);

static ssize_t run_nops(struct file *file, const char __user *data, size_t size,
			lab_wait_t wait)
{
	struct lab *lab = file->private_data;
	struct openreg_packet nop = { .opcode = OPENREG_OP_NOP, .slots = 1 };
	u8 slot[OPENREG_SLOT_SIZE] = { };
	unsigned int count, cookie;
	char text[32] = "";
	u64 seq = 0;
	int ret = 0;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, data, size))
		return -EFAULT;
	if (sscanf(text, "%u %u", &count, &cookie) != 2)
		return -EINVAL;
	while (!ret && count--) {
		mutex_lock(&lab->lock);
		nop.cookie = cookie++;
		memcpy(slot, &nop, sizeof(nop));
		ret = lab_submit(lab, slot, &seq);
		mutex_unlock(&lab->lock);
		if (!ret && wait)
			ret = wait(lab, seq);
	}
	return ret ? ret : size;
}

static ssize_t post_write(struct file *file, const char __user *data, size_t size,
			  loff_t *pos)
{
	return run_nops(file, data, size, NULL);
}

static const struct file_operations post_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = post_write,
};

static ssize_t nop_write(struct file *file, const char __user *data, size_t size, loff_t *pos)
{
	return run_nops(file, data, size, lab_poll);
}

static const struct file_operations nop_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = nop_write,
};
#endif

#if LAB >= 4
static ssize_t sleep_write(struct file *file, const char __user *data, size_t size,
			   loff_t *pos)
{
	return run_nops(file, data, size, lab_sleep);
}

static const struct file_operations sleep_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = sleep_write,
};

static ssize_t await_write(struct file *file, const char __user *data, size_t size,
			   loff_t *pos)
{
	u64 seq;
	int ret = kstrtou64_from_user(data, size, 0, &seq);

	if (!ret)
		ret = lab_sleep(file->private_data, seq);
	return ret ? ret : size;
}

static const struct file_operations await_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = await_write,
};
#endif

#if LAB >= 6
static ssize_t packet_write(struct file *file, const char __user *data, size_t size,
			    loff_t *pos)
{
	struct lab *lab = file->private_data;
	u8 slot[OPENREG_SLOT_SIZE];
	u64 seq;
	int ret;

	if (size != sizeof(slot))
		return -EINVAL;
	if (copy_from_user(slot, data, size))
		return -EFAULT;
	mutex_lock(&lab->lock);
	ret = lab_submit(lab, slot, &seq);
	mutex_unlock(&lab->lock);
	if (!ret)
		ret = lab_sleep(lab, seq);
	return ret ? ret : size;
}

static const struct file_operations packet_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = packet_write,
};

static int faults_show(struct seq_file *out, void *unused)
{
	struct openreg_fault_record record;
	struct lab *lab = out->private;
	int i;

	mutex_lock(&lab->lock);
	for (i = 0; i < LAB_FAULT_SLOTS && !lab_fault(lab, &record); i++)
		seq_printf(out, "ctx %u queue %u code %u packet %llu address 0x%llx cookie %u\n",
			   record.ctx, record.queue, record.fault.code, record.fault.seq,
			   record.fault.address, record.fault.cookie);
	mutex_unlock(&lab->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(faults);

static ssize_t recover_write(struct file *file, const char __user *data, size_t size,
			     loff_t *pos)
{
	struct lab *lab = file->private_data;
	int ret;

	mutex_lock(&lab->lock);
	ret = lab_recover(lab);
	mutex_unlock(&lab->lock);
	if (ret > 0)
		ret = -EPROTO;
	return ret ? ret : size;
}

static const struct file_operations recover_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = recover_write,
};
#endif

static const struct {
	int (*start)(struct lab *lab);
	void (*stop)(struct lab *lab);
} labs[] = {
#if LAB >= 2
	{ lab2_start, lab2_stop },
#endif
#if LAB >= 4 /* the vectors, before a queue can raise one */
	{ lab4_start, lab4_stop },
#endif
#if LAB >= 3
	{ lab3_start, lab3_stop },
#endif
#if LAB >= 5
	{ lab5_start, lab5_stop },
#endif
#if LAB >= 7
	{ lab7_start, lab7_stop },
#endif
#if LAB >= 9
	{ lab9_start, lab9_stop },
#endif
	{ }
};

static void stop_first(struct lab *lab, int count)
{
	while (count--)
		labs[count].stop(lab);
}

int lab_later_start(struct lab *lab)
{
	int i, ret;

	mutex_init(&lab->lock);
	for (i = 0; labs[i].start; i++) {
		ret = labs[i].start(lab);
		if (ret) {
			stop_first(lab, i);
			return ret;
		}
	}
	lab->files = debugfs_create_dir("lab", NULL);
#if LAB >= 2
	debugfs_create_file("admin", 0600, lab->files, lab, &admin_fops);
#endif
#if LAB >= 3
	debugfs_create_file("post", 0600, lab->files, lab, &post_fops);
	debugfs_create_file("nop", 0600, lab->files, lab, &nop_fops);
#endif
#if LAB >= 4
	debugfs_create_file("sleep", 0600, lab->files, lab, &sleep_fops);
	debugfs_create_file("await", 0600, lab->files, lab, &await_fops);
#endif
#if LAB >= 6
	debugfs_create_file("packet", 0600, lab->files, lab, &packet_fops);
	debugfs_create_file("faults", 0400, lab->files, lab, &faults_fops);
	debugfs_create_file("recover", 0600, lab->files, lab, &recover_fops);
#endif
	return 0;
}

void lab_later_stop(struct lab *lab)
{
	debugfs_remove(lab->files);
	stop_first(lab, ARRAY_SIZE(labs) - 1);
}

MODULE_DESCRIPTION("The driver of the openreg labs");
MODULE_LICENSE("GPL");
