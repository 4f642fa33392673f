# SPDX-License-Identifier: MIT
"""Lab 8: an instruction and a packet on the card's side, run on the student's card."""
from native import take
from tally import tail

TITLE = "an instruction and a packet of your own, up to a torch operator"
CHECKS = [
    ("rows", 1, "ROLL: rows of random sizes and shifts, with dense rows"),
    ("layouts", 1, "ROLL: any strides, also negative ones and columns; large packets; empty ones"),
    ("dtypes", 1, "ROLL: every dtype, bit for bit"),
    ("bounds", 1, "ROLL: an operand that leaves its memory faults with BOUNDS, and nothing is written"),
    ("access", 1, "ROLL: PERMISSION if the result is in memory that may only be read; good if the "
     "source is; the packet does not read its result"),
    ("refuses", 1, "ROLL: each wrong field has the fault of the page"),
    ("slices", 1, "ROLL: 4 to 1000 slices for 2048 x 2048 elements, so that other queues get their turn"),
    ("average", 1, "AVERAGE: I32 and I64, also of numbers whose sum overflows; PROGRAM for floats "
     "and for a register that was never written"),
    ("operators", 1, "the operators of torch.ops.lab8 on tensors of the card, one packet each; "
     "an empty tensor needs none"),
    ("by the card", 1, "the operators raise an error on a card without ROLL and AVERAGE"),
]
NATIVE = True  # needs no VM
PARTS = ("engine", "instruction", "operators", "stock")


def run(bench, tally, rng) -> None:
    seed, directory = rng.randrange(1 << 30), f"/mnt/labs/{bench.name}"
    for part in PARTS:
        card = "" if part == "stock" else directory + "/libopenreg-sim.so.1"
        # A card that checks also sees which operands a packet reads.
        env = {"OPENREG_CHECK": "init"} if part == "engine" else {}
        report, text, why = bench.host.run("lab8_client", part, directory, seed, card, **env)
        take(tally, report)
        if why:
            check = next((c.name for c in tally.checks.values() if not (c.good or c.seen)), part)
            return tally.spoil(f"check '{check}': the card takes the process with it: {why}")
        if part == "engine" and not tally.checks["rows"].good:
            tally.checks["rows"].seen = tally.checks["rows"].seen or tail(text, 200)
            return tally.end("the card does not run a ROLL, so nothing else can be graded")
        if part == "operators" and not tally.checks["operators"].good:
            return
