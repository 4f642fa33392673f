# SPDX-License-Identifier: MIT
"""Wrong solutions: the solution of a lab with one fault, and the checks that it must fail."""
from dataclasses import dataclass

from regs import C


@dataclass
class Wrong:
    name: str
    lab: int
    edits: list[tuple[str, str, str]]  # file, text that is there once, text instead
    breaks: set[str] | None = None  # None: all checks
    may: frozenset[str] = frozenset()  # checks that it fails in some runs
    words: str = ""  # in the reason for which the grading stopped
    says: str = ""  # in what the grader saw
    more: bool = False  # only the suite labs-more grades it
    slow: bool = False  # ends its VM after half a minute: meanwhile another VM grades the rest


CHECKED = """\
	ret = lab1_check(lab);
	if (ret)
		return ret;
	ret = lab_reset(lab);
"""
WAIT = "	ret = readl_poll_timeout(control, value, value == 0, 100, RESET_TIMEOUT_US);"
TAIL = """\
	dma_wmb(); /* the packet before the tail */
	WRITE_ONCE(user->tail, lab->tail);
"""
BELL = "		writel(1, lab->doorbells + LAB_DOORBELL * OPENREG_DOORBELL_STRIDE);"

POLL = "	read_poll_timeout(lab3_ended, ended, ended, 10, TIMEOUT_US, false, lab, seq);\n"
SLEEP = "	wait_event_timeout(lab->wake, lab_result(lab, seq) != -ETIMEDOUT, TIMEOUT);"
REQUEST = """\
	ret = pci_alloc_irq_vectors(lab->pdev, LAB_VECTOR + 1, LAB_VECTOR + 1, PCI_IRQ_MSIX);
	if (ret < 0)
		return ret;
	ret = request_irq(pci_irq_vector(lab->pdev, LAB_VECTOR), lab4_irq, 0, "lab", lab);
	if (ret)
		pci_free_irq_vectors(lab->pdev);
"""
DEVICE = """\
	if (the_lab)
		misc_deregister(&lab5_misc);
	the_lab = NULL;
"""
FREE_IRQ = "	free_irq(pci_irq_vector(lab->pdev, LAB_VECTOR), lab);\n"

UNBIND = """\
	if (lab_admin(lab, &unbind) < 0)
		lab_reset(lab);
"""
FREE = """\
	for (i = 0; i < LAB_BUFFER_PAGES; i++)
		lab_free(lab, &lab->buffer[i]);
"""

LAB8 = ("rows", "layouts", "dtypes", "bounds", "access", "refuses", "slices", "average",
        "operators", "by the card")
LAB10 = ("values", "layouts", "types", "empty", "card", "stream", "refuses")

WRONG = [
    Wrong("prints the right words", 0, [
        ("lab0.c", "	if (find_card()", f'	puts("magic 0x{C["MAGIC"]:x}\\nversion '
                   f'0x{C["ISA_MAJOR"] << 16 | C["ISA_MINOR"]:x}");\n'
                   "	return 0;\n	if (find_card()")],
          {"card", "bars", "identity", "limits", "again", "accesses"}),
    Wrong("reads half of VRAM_SIZE", 0, [
        ("lab0.c", "read64(OPENREG_REG_VRAM_SIZE)", "(uint64_t)read32(OPENREG_REG_VRAM_SIZE + 4)")],
          {"limits"}),
    Wrong("never resets", 1, [
        ("lab1.c", CHECKED, CHECKED.replace("lab_reset(lab)", "0"))],
          {"reset", "waits", "gives up"}),
    Wrong("resets before it looks", 1, [
        ("lab1.c", CHECKED, "	readl(lab->regs + OPENREG_REG_STATUS);\n"
                            "	ret = lab_reset(lab);\n	if (ret)\n		return ret;\n"
                            "	ret = lab1_check(lab);\n")],
          {"magic", "refuses version"}, more=True),
    Wrong("does not wait for the reset", 1, [
        ("lab1.c", WAIT, "	value = 0;\n	ret = value;")],
          {"waits", "gives up"}, more=True),
    Wrong("ignores the version", 1, [
        ("lab1.c", "	if (version >> 16 != OPENREG_ISA_MAJOR)", "	if (!version)")],
          {"refuses version"}, more=True),
    Wrong("leaves a region claimed", 1, [
        ("lab1.c", "	ret = lab1_check(lab);\n",
         "	request_mem_region(pci_resource_start(pdev, OPENREG_BAR_VRAM), 64, pci_name(pdev));\n"
         "	ret = lab1_check(lab);\n")], {"leaves"}, more=True),
    Wrong("no bus mastering", 1, [
        ("lab1.c", "	pci_set_master(pdev);\n", "")], words="without bus mastering"),
    Wrong("does not compile", 1, [
        ("lab1.c", "	pci_set_master(pdev);", "	pci_set_master(pdev)")],
          words="it does not compile: "),
    Wrong("oopses", 1, [
        ("lab1.c", "	lab->pdev = pdev;", "	lab = NULL;\n	WRITE_ONCE(lab->pdev, pdev);")],
          words="RIP: 0010:lab1_probe+0x", more=True),
    Wrong("hangs", 1, [
        ("lab1.c", WAIT, "	do\n		value = readl(control);\n	while (1);\n	ret = value;")],
          words="lab1_probe+0x", slow=True),

    Wrong("only starts and stops", 2, [
        ("lab2.c", "	if (lab_gone(lab))\n		return -ENODEV;\n",
         "	if (lab)\n		return -ETIMEDOUT;\n")],
          {"commands", "status", "wraps", "sequence", "gives up"}),
    Wrong("does not wait for completions", 2, [
        ("lab2.c", "	ret = read_poll_timeout(READ_ONCE, seq, seq == lab->admin_tail, 10, TIMEOUT_US, "
                   "false,\n				cpl->seq);",
         "	seq = lab->admin_tail;\n	ret = seq ? 0 : -EIO;")],
          {"status", "sequence", "gives up"}, frozenset({"commands", "wraps"}), more=True),
    Wrong("a leak at rmmod", 2, [
        ("lab2.c", "	lab_free(lab, &lab->cpls);\n", "")], {"leaves", "refuses fatal"}),
    Wrong("takes any seq", 2, [
        ("lab2.c", "seq == lab->admin_tail", "seq != 0")], {"sequence"},
          frozenset({"wraps", "status", "commands"}), more=True),
    Wrong("waits for ever", 2, [
        ("lab2.c", "10, TIMEOUT_US, false", "10, 0, false")], words="lab_admin+0x", more=True),
    Wrong("ignores the status", 2, [
        ("lab2.c", "	return cpl->status;", "	return 0;")], {"status"}, more=True),
    Wrong("no size of the fault ring", 2, [
        ("lab2.c", "	writel(LAB_FAULT_SLOTS, regs + OPENREG_REG_FAULT_SLOTS);\n", "")],
          words="failed with error -5; the card's trace: admin or fault ring is not usable"),
    Wrong("a pointer for a bus address", 2, [
        ("lab2.c", "	writeq(lab->cmds.bus, regs", "	writeq((u64)lab->cmds.cpu, regs")],
          {"commands", "status", "wraps", "sequence", "gives up"},
          says="STATUS is FATAL; the card's trace: bus error on the admin ring", more=True),
    Wrong("takes FATAL for READY", 2, [
        ("lab2.c", "	return status == OPENREG_STATUS_READY ? 0 : -EIO;", "	return 0;")],
          {"refuses fatal"}, more=True),

    Wrong("a lost doorbell", 3, [
        ("lab3.c", BELL, "		lab->doorbells += 0;")],
          {"packets", "wraps", "doorbell", "quiet", "order"}),
    Wrong("rings once and polls for nothing", 3, [
        ("lab3.c", "	if (READ_ONCE(card->asleep))", "	if (READ_ONCE(card->asleep) && lab->seq == 1)"),
        ("lab3.c", POLL + "	return lab_result(lab, seq);",
         POLL.replace("TIMEOUT_US", "20000") + "	return 0;")],
          {"doorbell", "quiet", "order"}, frozenset({"packets", "wraps"}), more=True),
    Wrong("rings once", 3, [
        ("lab3.c", "	if (READ_ONCE(card->asleep))", "	if (READ_ONCE(card->asleep) && lab->seq == 1)")],
          {"doorbell", "quiet", "order"}, frozenset({"packets", "wraps"}), more=True),
    Wrong("rings always", 3, [
        ("lab3.c", "	if (READ_ONCE(card->asleep))", "	if (READ_ONCE(card->asleep) < 2)")],
          {"quiet"}, more=True),
    Wrong("a missing barrier", 3, [
        ("lab3.c", "	mb(); /* the tail", "	barrier(); /* the tail")], {"order"}),
    Wrong("the doorbell before the tail", 3, [
        ("lab3.c", TAIL, ""), ("lab3.c", BELL, BELL + "\n" + TAIL.rstrip())], {"order"},
          frozenset({"packets", "wraps", "doorbell", "quiet"}), more=True),
    Wrong("the tail before the packet", 3, [
        ("lab3.c", "	memcpy(lab->ring.cpu",
         "	((struct openreg_user_page *)lab->user_page.cpu)->tail = lab->tail + 1;\n"
         "	mb();\n"
         "	memcpy(lab->ring.cpu")], {"order"},
          frozenset({"packets", "wraps", "doorbell", "quiet", "full"}), more=True),
    Wrong("overwrites a full ring", 3, [
        ("lab3.c", "	if (lab->tail - READ_ONCE(card->head) >= LAB_RING_SLOTS)", "	if (!card)")],
          {"full"}, more=True),
    Wrong("armed is left 0", 3, [
        ("lab3.c", "	kernel->armed = OPENREG_ARMED_NONE;", "	kernel->armed = 0;")], {"queue"}, more=True),

    Wrong("an unarmed wait", 4, [
        ("lab4.c", "	WRITE_ONCE(kernel->armed, least);", "	WRITE_ONCE(kernel->armed, least | OPENREG_ARMED_NONE);")],
          {"sleep", "armed", "race", "two", "rest", "spurious"}, frozenset({"disarmed"})),
    Wrong("looks, then arms", 4, [
        ("lab4.c", SLEEP,
         "	DEFINE_WAIT(wait);\n"
         "	prepare_to_wait(&lab->wake, &wait, TASK_UNINTERRUPTIBLE);\n"
         "	schedule_timeout(TIMEOUT);\n"
         "	finish_wait(&lab->wake, &wait);")], {"race", "spurious", "rest"}, frozenset({"two"}),
          more=True),
    Wrong("arms without a barrier", 4, [
        ("lab4.c", "	mb(); /* armed", "	barrier(); /* armed")], {"race"}, frozenset({"rest"}),
          more=True),
    Wrong("arms the newest", 4, [
        ("lab4.c", "		least = min(least, sleeper->seq);",
         "		least = list_first_entry(&lab->sleepers, struct sleeper, link)->seq;")],
          {"two", "rest"}, more=True),
    Wrong("never disarms", 4, [
        ("lab4.c", "	list_del(&me.link);\n	lab4_arm(lab);", "	list_del(&me.link);")],
          {"disarmed"}, frozenset({"two", "rest"}), more=True),
    Wrong("forgets the rest", 4, [
        ("lab4.c", "	wake_up_all(&lab->wake);\n	return lab_result(lab, seq);",
         "	return lab_result(lab, seq);")], {"rest"}),
    Wrong("polls", 4, [
        ("lab4.c", SLEEP, "	while (lab_result(lab, seq) == -ETIMEDOUT)\n		msleep(10);"),
        ("lab4.c", "#include <linux/interrupt.h>", "#include <linux/delay.h>\n#include <linux/interrupt.h>")],
          {"sleep"}, more=True),
    Wrong("spins", 4, [
        ("lab4.c", SLEEP, "	while (lab_result(lab, seq) == -ETIMEDOUT)\n		cond_resched();")],
          {"sleep", "two", "rest", "spurious"}, more=True),
    Wrong("no vector", 4, [
        ("lab4.c", SLEEP, "	while (!wait_event_timeout(lab->wake, "
                          "lab_result(lab, seq) != -ETIMEDOUT, HZ))\n		;"),
        ("lab4.c", REQUEST, "	ret = lab4_irq ? 0 : -EIO;\n"),
        ("lab4.c", FREE_IRQ, ""), ("lab4.c", "	pci_free_irq_vectors(lab->pdev);\n}", "}")],
          {"sleep", "rest"}, more=True),
    Wrong("sleeps and returns at once", 4, [
        ("lab4.c", SLEEP, "	lab_result(lab, seq);"),
        ("lab4.c", "	list_del(&me.link);\n	lab4_arm(lab);", "	list_del(&me.link);"),
        ("lab4.c", "	wake_up_all(&lab->wake);\n	return lab_result(lab, seq);",
         "	wake_up_all(&lab->wake);\n	return 0;")],
          {"sleep", "disarmed", "two", "rest", "spurious"}, more=True),
    Wrong("sleeps in the interrupt", 4, [
        ("lab4.c", "	wake_up_all(&lab->wake);\n	return IRQ_HANDLED;",
         "	msleep(20);\n	wake_up_all(&lab->wake);\n	return IRQ_HANDLED;"),
        ("lab4.c", "#include <linux/interrupt.h>", "#include <linux/delay.h>\n#include <linux/interrupt.h>")],
          words="scheduling while atomic", more=True),
    Wrong("leaves the interrupt", 4, [
        ("lab4.c", FREE_IRQ, "")],
          words="remove_proc_entry", more=True),

    Wrong("a wait queue without its first call", 4, [
        ("lab4.c", "	init_waitqueue_head(&lab->wake);\n", "")], words="lab_sleep+0x", more=True),

    Wrong("leaves old data", 5, [
        ("lab5.c", "	int ret = lab5_clear(lab);", "	int ret = lab5_clear ? 0 : 0;")], {"clear"}),
    Wrong("keeps the device file", 5, [
        ("lab5.c", DEVICE, "	the_lab = NULL;\n")], {"device"}, more=True),
    Wrong("removes the device file last", 5, [
        ("lab5.c", DEVICE, ""), ("lab5.c", FREE, FREE + DEVICE)], {"device"}),
    Wrong("copies the other way", 5, [
        ("copy.c", "{ { .addr = to, .dtype", "{ { .addr = from, .dtype"),
        ("copy.c", "			{ { .addr = from, .dtype = OPENREG_U8 }, 1 },\n		},",
         "			{ { .addr = to, .dtype = OPENREG_U8 }, 1 },\n		},")],
          {"copy", "clear", "no calls", "ring end", "buffer"}, says="wrong bytes came back"),
    Wrong("a segment that packets cannot write", 5, [
        ("lab5.c", "OPENREG_SEG_READ | OPENREG_SEG_WRITE", "OPENREG_SEG_READ")],
          {"copy", "clear", "no calls", "ring end", "buffer"},
          says="OPENREG_FAULT_PERMISSION"),
    Wrong("leaks a page of the buffer", 5, [
        ("lab5.c", FREE, FREE.replace("i = 0", "i = 1"))], {"leaves"}, more=True),
    Wrong("frees the buffer before the unbind", 5, [
        ("lab5.c", UNBIND + FREE, FREE + UNBIND)], {"buffer"}),
    Wrong("a writable card page", 5, [
        ("lab5.c", "		if (vma->vm_flags & VM_WRITE)\n			return -EPERM;\n"
                   "		vm_flags_clear(vma, VM_MAYWRITE);\n", "		vm_flags_set(vma, 0);\n")],
          {"card page"}, more=True),
    Wrong("a card page for mprotect", 5, [
        ("lab5.c", "		vm_flags_clear(vma, VM_MAYWRITE);\n", "")], {"card page"}, more=True),
    Wrong("maps all doorbells", 5, [
        ("lab5.c", "	if (vma_pages(vma) != 1)\n		return -EINVAL;\n", ""),
        ("lab5.c", "		return vm_iomap_memory(vma, bell, PAGE_SIZE);",
         "		return vm_iomap_memory(vma, bell, 2 * PAGE_SIZE);")], {"others"}, more=True),
    Wrong("right, and clears page by page", 5, [
        ("lab5.c", "		.fill.length = LAB_BUFFER_SIZE,\n	};\n	int ret = lab_admin(lab, &cmd);\n",
         "		.fill.length = PAGE_SIZE,\n	};\n	int ret = 0;\n\n"
         "	for (; !ret && cmd.fill.offset < LAB_BUFFER_SIZE; cmd.fill.offset += PAGE_SIZE)\n"
         "		ret = lab_admin(lab, &cmd);\n")], set(), more=True),
    Wrong("no packet at the ring's end", 5, [
        ("copy.c", "		write_nop(ring + tail++ % LAB_RING_SLOTS * OPENREG_SLOT_SIZE);\n		last++;\n",
         "		write_nop(ring);\n		return 0;\n")], {"ring end"}, more=True),
    Wrong("a packet that wraps", 5, [
        ("copy.c", "	if (tail % LAB_RING_SLOTS == LAB_RING_SLOTS - 1) {", "	if (!tail) {")],
          {"ring end"}),
    Wrong("no doorbell from user space", 5, [
        ("copy.c", "	if (card->asleep)", "	if (card->asleep > 1)")],
          {"copy", "clear", "no calls", "ring end", "buffer"}, more=True),

    Wrong("takes any record", 6, [
        ("lab6.c", "next->seq) != lab->fault_head + 1)", "next->seq) == 0)")],
          {"many", "wrong seq"}, more=True),
    Wrong("never frees a record", 6, [
        ("lab6.c", "	writel(lab->fault_head, lab->regs + OPENREG_REG_FAULT_HEAD);\n", "")],
          {"many"}, frozenset({"wrong seq"}), more=True),
    Wrong("restarts at the beginning", 6, [
        ("lab6.c", ".head = lab->tail, .seq = lab->seq", ".head = 0, .seq = 0")],
          {"recover", "many"}),
    Wrong("miscounts after a fault", 6, [
        ("lab6.c", ".seq = lab->seq", ".seq = lab->seq - 1")], {"recover", "many"}, more=True),

    Wrong("shows old data", 7, [
        ("lab7.c", "			.opcode = OPENREG_ADMIN_FILL,", "			.opcode = OPENREG_ADMIN_NOP,")],
          {"clear"}),
    Wrong("shares the VRAM", 7, [
        ("lab7.c", "	u64 vram = (u64)client->id * LAB_BUFFER_SIZE;", "	u64 vram = 0;")],
          {"own"}, frozenset({"clear", "fault"}), more=True),
    Wrong("keeps the device file of the processes", 7, [
        ("lab7.c", "	misc_deregister(&lab7_misc);", "	the_lab = NULL;")], {"leaves"}, more=True),
    Wrong("keeps the context", 7, [
        ("lab7.c", "	if (lab_admin(client->lab, &destroy) < 0)", "	if (destroy.flags)")],
          words="the program does not run", more=True),

    Wrong("does not say what it reads", 8, [
        ("lab8.c", "	args->op[SOURCE].read = true;\n", "")],
          words="check 'rows': the card takes the process with it: it crashes: SIGSEGV in roll_run, lab8.c"),
    Wrong("checks the rows alone", 8, [
        ("lab8.c", "args->op[i].dims = 3;", "args->op[i].dims = 1;")], {"bounds"}),
    Wrong("says that it writes the source", 8, [
        ("lab8.c", "	args->op[SOURCE].read = true;", "	args->op[SOURCE].written = true;")],
          {"access"}),
    Wrong("says that it reads the result", 8, [
        ("lab8.c", "	args->op[RESULT].written = true;",
         "	args->op[RESULT].read = args->op[RESULT].written = true;")], {"access"}),
    Wrong("does not say that it writes", 8, [
        ("lab8.c", "	args->op[RESULT].written = true;", "	args->op[RESULT].read = true;")],
          {"access"}),
    Wrong("takes a result of stride 0 along n", 8, [
        ("lab8.c", "	for (i = 0; i < 2; i++)\n		if (args->size[i] > 1",
         "	for (i = 0; i < 1; i++)\n		if (args->size[i] > 1")], {"refuses"}),
    Wrong("refuses a source of stride 0", 8, [
        ("lab8.c", "&& !args->op[RESULT].stride[i])",
         "&& (!args->op[RESULT].stride[i] || !args->op[SOURCE].stride[i]))")], {"layouts"}),
    Wrong("takes all that is empty", 8, [
        ("lab8.c", "	if (args->imm[0] && ",
         "	if (!args->size[0])\n		return openreg_good();\n	if (args->imm[0] && ")],
          {"refuses"}),
    Wrong("does not cut", 8, [
        ("lab8.c", "	roll->part = (int64_t)(openreg_slice_ns(ELEMENT_NS * (double)roll->total) /\n"
                   "			       ELEMENT_NS);", "	roll->part = roll->total;")],
          {"slices"}),
    Wrong("rolls complex numbers", 8, [
        ("lab8.cpp", '  TORCH_CHECK(dtype != 0, "roll takes no ", x.scalar_type());\n', "")],
          {"operators", "by the card"}, more=True),
    Wrong("rolls to the left", 8, [
        ("lab8.c", "(i % n + shift) % n", "(i % n + n - shift) % n")],
          set(LAB8), words="the card does not run a ROLL"),
    Wrong("copies four bytes", 8, [
        ("lab8.c", "i / n, i % n), size);", "i / n, i % n), size < 4 ? size : 4);")],
          {"layouts", "dtypes"}, more=True),
    Wrong("takes any shift", 8, [
        ("lab8.c", "	if (args->imm[0] && args->imm[0] >= (uint64_t)args->size[1])",
         "	if (args->imm[0] == (uint64_t)-1)")], {"refuses"}, more=True),
    Wrong("adds before it halves", 8, [
        ("lab8.c", "		to[i] = (x[i] & y[i]) + ((x[i] ^ y[i]) >> 1);\n}\n\nstatic void average_i64",
         "		to[i] = (int32_t)((uint32_t)x[i] + (uint32_t)y[i]) >> 1;\n}\n\nstatic void average_i64")],
          {"average", "operators", "by the card"}, more=True),
    Wrong("averages floats", 8, [
        ("lab8.c", ".types = OPENREG_VTYPES_INT", ".types = OPENREG_VTYPES_ALL"),
        ("lab8.c", ".kernel = { ", ".kernel = { [OPENREG_VT_F32] = average_i32, ")], {"average"}, more=True),
    Wrong("computes on the CPU", 8, [
        ("lab8.cpp", "  const auto source = x.contiguous();",
         "  return at::roll(x.cpu(), shift, -1).to(x.device());\n"
         "  const auto source = x.contiguous();")], {"operators", "by the card"}),

    Wrong("takes every tensor for a dense one", 10, [
        ("lab10.cpp", "    packet.operand(iter.data_ptr(i), card_dtype(iter.dtype(i)), strides.data());",
         "    packet.operand(iter.data_ptr(i), card_dtype(iter.dtype(i)), iter.ndim() == 1 ? "
         "strides.data() : turned(iter.strides(0), iter.element_size(0)).data());")],
          {"layouts"}, frozenset({"types"})),
    Wrong("reads each input as the common type", 10, [
        ("lab10.cpp", "card_dtype(iter.dtype(i))", "card_dtype(iter.common_dtype())")], {"types"}, more=True),
    Wrong("launches on the current card", 10, [
        ("lab10.cpp", "launch(packet, x.device().index());",
         "launch(packet, current_device());"),
        ("lab10.cpp", "  const c10::DeviceGuard guard(x.device()); // the result's card\n", "")],
          {"card"}),
    Wrong("waits for the packet", 10, [
        ("lab10.cpp", "  return iter.output();\n}\n\n} // namespace",
         "  synchronize_stream(current_stream_state(x.device().index()));\n"
         "  return iter.output();\n}\n\n} // namespace")], {"stream"}, more=True),
    Wrong("computes with torch's operators", 10, [
        ("lab10.cpp", "  static const OpId op",
         "  return x / (x.abs() / limit + 1);\n  static const OpId op")],
          set(LAB10), words="without the first check"),

    Wrong("prints the grader's words", 10, [
        ("lab10.cpp", "  static const OpId op",
         '  puts("[\\"values\\", true, \\"\\"]\\n[\\"layouts\\", true, \\"\\"]");\n'
         "  exit(0);\n  static const OpId op")],
          set(LAB10), words="without the first check", more=True),

    Wrong("frees at once", 11, [
        ("lab11.cpp", "  for (Mark& mark : freed.marks) {\n    mark.seq = mark.stream->last();\n  }\n",
         "")], {"record"}),
    Wrong("one list for all streams", 11, [
        ("lab11.cpp", "    auto& blocks = idle[&stream];", "    auto& blocks = idle[nullptr];"),
        ("lab11.cpp", "    idle[block.owner].emplace(", "    idle[nullptr].emplace("),
        ("lab11.cpp", "      idle[&stream].emplace(", "      idle[nullptr].emplace("),
        ("lab11.cpp", "      if (!blocks.empty()) {", "      if (stream && !blocks.empty()) {")],
          {"streams"}, frozenset({"empty"}), more=True),
    Wrong("a segment for each block", 11, [
        ("lab11.cpp", "constexpr size_t kShared = size_t{2} << 20;",
         "constexpr size_t kShared = 512;")], {"share"}, more=True),
    Wrong("returns memory under queued packets", 11, [
        ("lab11.cpp", "        openreg::settle(*stream, stream->last());", "        (void)stream;")],
          {"empty"}, frozenset({"full"}), more=True),
    Wrong("never returns a segment", 11, [
        ("lab11.cpp", "      if (segment->used == 0) {", "      if (segment->used < 0) {")],
          {"empty", "full"}),

    Wrong("does not wait for the input", 12, [
        ("lab12.py", "        side.wait_stream(torch.accelerator.current_stream(side.device))\n",
         "")], {"input"}, frozenset({"no wait"})),
    Wrong("does not wait for the result", 12, [
        ("lab12.py", "        stream.wait_event(self.end)\n", "")], {"output"},
          frozenset({"runs", "input", "no wait", "output memory"})),
    Wrong("joins at once", 12, [
        ("lab12.py", "        self.end = side.record_event()\n",
         "        self.end = side.record_event()\n"
         "        torch.accelerator.current_stream(side.device).wait_event(self.end)\n")],
          {"overlap", "input memory"}, more=True),
    Wrong("the host waits", 12, [
        ("lab12.py", "        stream.wait_event(self.end)\n", "        self.end.synchronize()\n")],
          {"output", "no wait"}, more=True),
    Wrong("lends the input without a record", 12, [
        ("lab12.py", "            tensor.record_stream(side)\n", "            pass\n")],
          {"input memory"}),
    Wrong("ends the grader's process", 12, [
        ("lab12.py", "class Job", "import os  # noqa: E402\nos.kill(os.getppid(), 9)\n\n\nclass Job")],
          words="the process that grades it has ended"),
    Wrong("lends the result without a record", 12, [
        ("lab12.py", "        self.tensor.record_stream(stream)\n", "")], {"output memory"}, more=True),

    Wrong("lets a process keep the page", 9, [
        ("lab9.c", "		unmap_mapping_range(file->mapping, 0, PAGE_SIZE, 1);",
         "		unmap_mapping_range(file->mapping, PAGE_SIZE, PAGE_SIZE, 1);")], {"page"}, more=True),
    Wrong("returns before the packet completes", 9, [
        ("lab9.c", "	return ret ? ret : lab_sleep(lab, seq);", "	return ret;")],
          {"silent", "gone", "commands", "unplug", "page", "again"},
          frozenset({"packet", "leaves"})),
    Wrong("does not look for a lost vector", 9, [
        ("lab9.c", "	schedule_delayed_work(&plug->watch, HZ);\n	return 0;", "	return 0;")],
          {"silent", "gone"}, more=True),
    Wrong("waits for a card that has gone", 9, [
        ("lab2.c", "	if (lab_gone(lab))\n		return -ENODEV;\n", "")], {"commands"}, more=True),
    Wrong("keeps the page until the last close", 9, [
        ("lab9.c", "	lab_free(lab, &plug->page);\n	kref_put(&plug->refs, plug_free);\n}",
         "	kref_put(&plug->refs, plug_free);\n}")], {"unplug", "again", "leaves"}, more=True),
    Wrong("keeps the device file of the plug", 9, [
        ("lab9.c", "	misc_deregister(&lab9_misc);\n", "")], {"unplug", "page", "again", "leaves"},
          words="so the driver cannot bind again", more=True),
    Wrong("removes the device file of the plug last", 9, [
        ("lab9.c", "	misc_deregister(&lab9_misc);\n", ""),
        ("lab9.c", "	lab_free(lab, &plug->page);\n	kref_put(&plug->refs, plug_free);\n}",
         "	lab_free(lab, &plug->page);\n	misc_deregister(&lab9_misc);\n"
         "	kref_put(&plug->refs, plug_free);\n}")], {"leaves"}, more=True),
    Wrong("use after unbind", 9, [
        ("lab9.c", "	if (plug->lab)\n		ret = lab9_run(plug->lab, slot);",
         "	ret = lab9_run(plug->lab, slot);")], words="NULL pointer dereference"),
]
