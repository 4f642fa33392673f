# SPDX-License-Identifier: MIT
"""Reads figures: JSON objects, one a line, among other lines. Writes the figures with
their ratios to the figures of comparison: as a table to standard error, and as JSON to
standard output."""

import json
import sys

# Each limit has a figure, a figure of comparison or None, and a bound. The bound is for the
# ratio of the two figures or, without a comparison, for the value. {workers} is the card's
# number of workers.
NATIVE = "matmul 1024^3 f32, oneDNN, threads: {workers}"
RESNET = "ResNet-18, 8x3x64x64: step"
MLP = "MLP 784-1024-1024-10, batch 256: step"
GRAPH = "add_ of 16 in a graph of 100"
GPT2 = "GPT-2 of 4 layers, 2x128: step"
TOKEN = "token of a Llama in"


def in_process(what):
    return f"{what}, in process, openreg", f"{what}, in process, cpu"


def bandwidth(cards):
    """In process: an emulated guest's memcpy is far slower than the cards."""
    return (f"all_reduce of 64 MiB, bus bandwidth on {cards} cards, in process",
            f"bound of all_reduce, from memcpy, on {cards} cards, in process", ">=", 0.8)


def compiled(what):
    return f"{what}, in process, compiled", f"{what}, in process, eager"


def packed(what, rows, against):
    what = f"linear {what}, {rows} rows, in process"
    return f"{what}, packed", f"{what}, {against}"


LIMITS = [
    ("matmul 1024^3 f32, openreg from C", NATIVE, ">=", 0.6),
    ("matmul 1024^3 f32, PyTorch on openreg", NATIVE, ">=", 0.6),
    ("H2D pinned 64 MiB", "memcpy 64 MiB", ">=", 0.5),
    ("D2H pinned 64 MiB", "memcpy 64 MiB", ">=", 0.5),
    ("NOP launch, asynchronous, ring of 16384", "getppid", "<=", 1),
    ("launch and wait, asleep", "eventfd round trip across two CPUs", "<=", 3),
    ("launch and wait, asleep, card asleep",
     "eventfd round trip across two CPUs", "<=", 3),
    ("x.add_(y) on openreg", "x.add_(y) on cpu", "<=", 2),
    ("doorbells per 1000 launches from C", None, "<", 20),
    ("doorbells per 1000 launches from Python", None, "<", 20),
    ("CPU use of an idle card", None, "<", 2),
    ("idle time until the card sleeps", None, "<=", 200),
    ("all_reduce of 8 bytes on 2 cards", "launch and wait on 2 cards", "<=", 3),
    ("all_reduce of 8 bytes by gloo, on 2 cards", "all_reduce of 8 bytes by torch, on 2 cards", ">=", 50),
    bandwidth(2),
    bandwidth(4),
    (f"{RESNET} on cpu", f"{RESNET} on openreg", ">=", 30),
    (*in_process("add_ of 16, 1000 times"), "<=", 2.5),
    (*in_process("matmul 1024^3 f32"), "<=", 0.7),
    (*in_process("matmul 1024^3 f32, OpenBLAS on AVX2"), "<=", 0.7),
    (*in_process("softmax 4096x4096"), "<=", 1.2),
    (*in_process("chain of 8 over 16M floats"), "<=", 1.2),
    (*in_process(f"{MLP}"), "<=", 1.0),
    (*in_process(f"{RESNET}"), "<=", 1.2),
    *((*in_process(f"{what}"), "<=", 1.0) for what in
      (f"{TOKEN} int8", f"{TOKEN} int4", "matmul 1024^3 int8")),
    *((f"{TOKEN} {bits}, in process, openreg", f"{TOKEN} bf16, in process, openreg", "<=", limit)
      for bits, limit in (("int8", 0.625), ("int4", 0.5), ("packed bf16", 0.71))),
    ("matmul 1024^3 int8, in process, openreg",
     "matmul 1024^3 f32 beside int8, in process, openreg", "<=", 0.67),
    ("add_, event record and synchronize, in process", None, "<=", 25),
    ("synchronize of an idle card, in process", None, "<=", 5),
    (f"{GRAPH}: call a node, replay", f"{GRAPH}: call a node, eager", "<=", 0.05),
    (f"{GRAPH}: whole a node, replay", f"{GRAPH}: whole a node, eager", "<=", 0.75),
    (*packed("1024x1024 bf16", 1, "plain"), "<=", 0.71),
    (*packed("1024x1024 bf16", 1, "cpu"), "<=", 1.0),
    (*packed("4096x1024 bf16", 1, "plain"), "<=", 0.71),
    (*packed("4096x1024 bf16", 1, "cpu"), "<=", 1.0),
    (*compiled("8 operators over 16M floats"), "<=", 0.2),
    (*compiled("8 operators over 4096 floats"), "<=", 0.4),
    (*compiled("softmax from operators, 4096x4096"), "<=", 0.67),
    (*compiled("layer norm from operators, 4096x4096"), "<=", 0.67),
    (*compiled(GPT2), "<=", 0.77),
    (*compiled("BERT of 4 layers, 2x128: step"), "<=", 0.77),
]
# The same for torch.compile on the CPU, which needs a C++ compiler: a machine without one has
# no figure of comparison.
OPTIONAL = [
    (f"{name}, in process, compiled", f"{name}, in process, cpu, compiled", "<=", limit)
    for name, limit in (("8 operators over 16M floats", 1), ("8 operators over 4096 floats", 1),
                        ("softmax from operators, 4096x4096", 0.7),
                        ("layer norm from operators, 4096x4096", 0.7),
                        (GPT2, 1), ("BERT of 4 layers, 2x128: step", 1))
] + [("ResNet-18: cold compile, in process, openreg",
      "ResNet-18: cold compile, in process, cpu", "<=", 0.2)]
# Ratios without a limit, which are only shown.
BESIDE = [
    ("DDP step, a bucket a layer, on 2 cards, in process",
     "DDP step, one bucket, on 2 cards, in process"),
    ("matmul 1024^3 f32, PyTorch on openreg", "matmul 1024^3 f32, PyTorch on cpu"),
    ("launch and wait, spinning", "eventfd round trip across two CPUs"),
    ("launch and wait, spinning, card asleep", "eventfd round trip across two CPUs"),
    in_process(GPT2),
    compiled("layer norm and GELU of 4096x1024"),
    ("8 operators over 4096 floats, in process, compiled",
     "8 operators over 4096 floats, in process, a ready result"),
    ("8 operators over 4096 floats, in process, a ready result",
     "8 operators over 4096 floats, in process, eager"),
] + [(f"{name}, in process, reduce-overhead", f"{name}, in process, eager")
     for name in ("8 operators over 4096 floats", GPT2, "BERT of 4 layers, 2x128: step")
] + [(f"{name} on {other}", f"{name} on openreg") for name in (MLP, RESNET, GPT2)
     for other in ("cpu", "the host's cpu") if (name, other) != (RESNET, "cpu")
] + [(f"{name}: call on openreg", f"{name}: call on cpu")
     for name in ("add_ of 16", "mul of 16", "empty of 16",
                  "empty of 1 MiB, freed at once", "mm of 8x8", "to() and back, 16")
] + [(f"{way} {size}", f"memcpy {size}")
     for way in ("H2D pinned", "D2H pinned", "D2D", "H2D registered",
                 "D2H registered", "H2D pageable", "D2H pageable")
     for size in ("64 KiB", "1 MiB", "64 MiB")
     if size != "64 MiB" or not way.endswith("pinned")
] + [(f"launch and wait beside {crowd}{part}", f"launch and wait alone{part}")
     for crowd in (f"{queues} of {packet}" for queues in ("1 queue", "2 queues", "4 queues")
                   for packet in ("MATMUL", "VECTOR"))
     for part in ("", ", 99 %")]
TESTS = {">=": float.__ge__, "<=": float.__le__, "<": float.__lt__}


def judge(row, other, sign, limit):
    value = row["value"] / other["value"] if other else row["value"]
    return {"against": other["what"] if other else None, "ratio": value if other else None,
            "demanded": f"{sign} {limit:g}",
            "verdict": "pass" if TESTS[sign](float(value), float(limit)) else "miss"}


def compare(rows):
    """Adds the list of comparisons to each figure. Returns the missing figures."""
    by_name = {row["what"]: row for row in rows}
    workers = by_name.get("workers of the card", {"value": 1})["value"]
    missing = []
    optional = [limit for limit in OPTIONAL if limit[1] in by_name]
    for what, against, sign, limit in LIMITS + optional:
        against = against and against.format(workers=int(workers))
        if what not in by_name or (against and against not in by_name):
            missing.append(what)
            continue
        by_name[what]["compared"].append(
            judge(by_name[what], by_name.get(against), sign, limit))
    for what, against in BESIDE:
        if what in by_name and against in by_name:
            by_name[what]["compared"].append(
                {"against": against, "demanded": None, "verdict": None,
                 "ratio": by_name[what]["value"] / by_name[against]["value"]})
    return missing


def lines_of(row):
    begin = [row["bench"], row.get("where", ""), row["what"], f"{row['value']:.4g}",
             row["unit"]]
    for entry in row["compared"] or [None]:
        if entry is None:
            yield begin + ["", "", "", ""]
            continue
        ratio = entry["ratio"]
        yield begin + ["" if ratio is None else f"{ratio:.3g}",
                       entry["against"] or "", entry["demanded"] or "",
                       entry["verdict"] or ""]
        begin = [""] * len(begin)


def print_table(rows):
    table = [("", "where", "what", "value", "unit", "ratio", "to", "demanded", "")]
    for row in sorted(rows, key=lambda row: row["bench"]):
        table.extend(lines_of(row))
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip(),
              file=sys.stderr)


def main():
    rows = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    rows = [dict(row, compared=[]) for row in rows if "what" in row]
    if not rows:
        sys.exit("no benchmark printed a figure")
    missing = compare(rows)
    print_table(rows)
    for what in missing:
        print(f"not measured: {what}", file=sys.stderr)
    json.dump(rows, sys.stdout, indent=1)
    print()
    sys.exit(1 if missing else 0)


main()
