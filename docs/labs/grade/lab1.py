# SPDX-License-Identifier: MIT
"""Lab 1: binds, checks the card, resets it. Seen in the card's registers and its trace."""
import re

from machine import NO_RETURN
from regs import C, CONTROL_RESET

TITLE = "probe, reset, read MAGIC"
CHECKS = [
    ("binds", 1, "after insmod the driver 'lab' is bound to the card, with bus mastering on"),
    ("magic", 1, "probe reads MAGIC before any other register, and before it writes"),
    ("reset", 3, "after probe CARD_ID and STAT_DOORBELLS are 0, as after a reset"),
    ("waits", 1, "probe reads CONTROL until RESET is 0 (or uses FLR)"),
    ("refuses magic", 1, "no bind, and no write, if all registers read as ones"),
    ("refuses version", 1, "no bind, and no write, to a card with another major version"),
    ("gives up", 1, "probe fails in time if RESET in CONTROL stays 1"),
    ("leaves", 1, "after rmmod the BARs are free, bus mastering is off, no DMA memory is left"),
]
DIRTY = 9  # left in CARD_ID; a driver of a later lab writes LAB_CARD


def access(line: str) -> tuple[str, int, int] | None:
    """(read or write, offset, value) of a line of the trace"""
    found = re.search(r"openreg_reg_(read|write) register 0x(\w+) size \d (?:is|set to) 0x(\w+)",
                      line)
    return found and (found[1], int(found[2], 16), int(found[3], 16))


def accesses(trace: list[str]) -> list[tuple[str, int, int]]:
    return [entry for entry in map(access, trace) if entry]


def waits(trace: list[str]) -> bool:
    """Whether CONTROL is read as 0 after RESET was written."""
    written = False
    for how, offset, value in accesses(trace):
        if offset == C["REG_CONTROL"] and how == "write" and value & CONTROL_RESET:
            written = True
        elif offset == C["REG_CONTROL"] and how == "read" and written and not value & CONTROL_RESET:
            return True
    return not written and any("openreg_reset" in line for line in trace)


def claimed(machine) -> set[str]:
    """The lines of /proc/iomem"""
    return set(machine.read("/proc/iomem").splitlines())


def refuses(bench, tally, name: str) -> None:
    """The driver must not bind to the card as it is now."""
    machine = bench.machine
    machine.trace()
    bench.insmod()
    trace = machine.trace()
    bound, writes = bench.bound(), [entry for entry in accesses(trace) if entry[0] == "write"]
    tally.set(name, not bound and not writes,
              "the driver is bound" if bound else
              f"a write of 0x{writes[0][2]:x} to register 0x{writes[0][1]:03x}" if writes else
              "not bound")
    bench.rmmod()
    bench.calm()


def run(bench, tally, rng) -> None:
    machine = bench.machine
    bench.poke(C["REG_CARD_ID"], DIRTY)
    for _ in range(rng.randrange(1, 4)):
        bench.poke(0, 1, C["BAR_DOORBELL"])
    machine.trace()
    bench.count_dma()
    before = claimed(machine)
    error = bench.insmod().error
    trace = machine.trace()
    bound, master = bench.bound(), bench.master()
    if not tally.set("binds", bound and master, bench.why_unbound(error) if not bound else
                     "bound, but without bus mastering"):
        return tally.end("without bus mastering the card can do no DMA, so nothing else is graded"
                         if bound else "the driver does not bind, so nothing else can be graded")
    first = next(iter(accesses(trace)), None)
    tally.set("magic", first and first[:2] == ("read", C["REG_MAGIC"]),
              f"the first access is a {first[0]} of register 0x{first[1]:03x}" if first
              else "no access to a register")
    left = machine.register(C["REG_CARD_ID"]), machine.register(C["REG_STAT_DOORBELLS"])
    tally.set("reset", left == (0, 0), f"CARD_ID {left[0]}, and STAT_DOORBELLS {left[1]}")
    tally.set("waits", waits(trace), "no read of CONTROL as 0 after the write of RESET")
    bench.rmmod()
    claims = " | ".join(sorted(claimed(machine) - before))
    master, dma = bench.master(), bench.dma_left()
    tally.set("leaves", not claims and not master and not dma,
              claims or ("bus mastering is on" if master else f"{dma} allocations for DMA left"))

    machine.monitor.set("x-inject-gone", 1)
    refuses(bench, tally, "refuses magic")
    machine.monitor.set("x-inject-reg-value", rng.randrange(2, 99) << 16 | C["ISA_MINOR"])
    machine.monitor.set("x-inject-reg", C["REG_VERSION"])
    refuses(bench, tally, "refuses version")

    machine.monitor.set("x-inject-reg-value", CONTROL_RESET)
    machine.monitor.set("x-inject-reg", C["REG_CONTROL"])
    machine.trace()
    error = bench.insmod(15).error
    by_flr = any("openreg_reset" in line for line in machine.trace())
    tally.set("gives up", error != NO_RETURN and (by_flr or not bench.bound()),
              f"insmod: {error}" if error == NO_RETURN else "the driver is bound")
