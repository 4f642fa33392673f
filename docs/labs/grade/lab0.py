# SPDX-License-Identifier: MIT
"""Lab 0: the program's output against the machine, and its accesses in the card's trace."""
import re

from regs import C
from tally import head

TITLE = "look at the card from user space"
CHECKS = [
    ("card", 1, "the line 'card' names the card"),
    ("bars", 2, "address and size of the BARs 0, 2 and 4"),
    ("identity", 2, "MAGIC and VERSION, read from the card"),
    ("limits", 2, "vram_size, doorbells, vectors and workers of this card"),
    ("again", 2, "in a second run, the register RING_SLOTS with the value that it has then"),
    ("accesses", 1, "aligned reads of 4 or 8 bytes; no writes, no other offsets"),
]
READ = {"MAGIC", "VERSION", "VRAM_SIZE", "DOORBELLS", "VECTORS", "RING_SLOTS", "WORKERS", "CLOCK"}


def values(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in text.splitlines():
        words = line.split()
        try:
            numbers = [int(word, 0) for word in words[1:]]
        except ValueError:
            continue
        if words[:1] == ["bar"] and numbers:
            found[f"bar {numbers[0]}"] = numbers[1:]
        elif words:
            found[words[0]] = numbers
    return found


def shown(bars: dict[str, list[int]]) -> str:
    return ", ".join(f"{bar} {' '.join(map(hex, what)) or 'none'}" for bar, what in bars.items())


def odd_accesses(trace: list[str]) -> list[str]:
    """The accesses that the lab does not ask for."""
    good = {C[f"REG_{name}"] + more for name in READ for more in (0, 4)}
    odd = []
    for line in trace:
        read = re.search(r"openreg_reg_read register 0x(\w+) size (\d)", line)
        if read and int(read[1], 16) in good:
            continue
        odd.append(line)
    return odd


def run(bench, tally, rng) -> None:
    machine, program = bench.machine, f"/lab/{bench.name}/lab0"
    status, text = machine.run(program)
    trace = machine.trace()
    have = values(text)
    said = head(text.strip().replace("\n", " | "), 200) or f"no output, exit status {status}"
    tally.set("card", re.search(rf"^card {re.escape(machine.pci)}$", text, re.M), said)
    bars = {f"bar {bar}": list(what) for bar, what in machine.bars.items()}
    tally.set("bars", all(have.get(bar) == what for bar, what in bars.items()),
              f"{shown({bar: have.get(bar, []) for bar in bars})}; they are {shown(bars)}")
    reads = "".join(line for line in trace if "openreg_reg_read" in line)
    identity = {"magic": C["MAGIC"], "version": C["ISA_MAJOR"] << 16 | C["ISA_MINOR"]}
    right = all(have.get(name) == [value] for name, value in identity.items())
    tally.set("identity", "0x000 " in reads and "0x004 " in reads and right,
              "the right numbers, which the program has not read from the card" if right else
              ", ".join(f"{name} {' '.join(map(hex, have.get(name, []))) or 'is not printed'}, and "
                        f"it is 0x{value:08x}" for name, value in identity.items()))
    limits = {name: machine.register(C[f"REG_{name.upper()}"], 8 if name == "vram_size" else 4)
              for name in ("vram_size", "doorbells", "vectors", "workers")}
    tally.set("limits", all(have.get(name) == [value] for name, value in limits.items()),
              f"{ {name: have.get(name) for name in limits} }, and they are {limits}")
    slots = rng.randrange(100, 1 << 30)
    machine.monitor.set("x-inject-reg-value", slots)
    machine.monitor.set("x-inject-reg", C["REG_RING_SLOTS"])
    have = values(machine.run(program)[1])
    trace += machine.trace()
    tally.set("again", have.get("ring_slots") == [slots],
              f"ring_slots {have.get('ring_slots')}, and it is {slots}")
    odd = odd_accesses(trace)
    tally.set("accesses", reads and not odd, odd[0] if odd else f"{len(trace)} reads")
