# SPDX-License-Identifier: MIT
"""The tables of the sweep: first figures that are slower than the CPU, then all figures."""

import collections
import datetime
import json
import math
import pathlib
import tomllib

LONG_US = 1000
BF16 = " bf16 autocast"
HAND_OVER_US = 130  # to the thread and back, on an idle virtual machine with two CPUs
HAND_OVER = "the hand-over"
ABOUT_HAND_OVER = (
    f"{HAND_OVER.capitalize()}: autograd runs a device's backward in a thread of its own. "
    f"Waking that thread and then the caller takes up to {HAND_OVER_US} us. This is the reason "
    "if a backward on the card takes longer than on the CPU by at most this time. With "
    "`torch.autograd.set_multithreading_enabled(False)`, a backward without work takes the "
    "same time on both.\n"
)
REASONS = pathlib.Path(__file__).with_name("sweep_reasons.toml")


def figures(records: list) -> list:
    """Returns the figures as a flat list, sorted by ratio: the slowest first."""
    found = []
    for record in records:
        kind, name = record["key"].split(":", 1)
        dtype = size = ""
        if kind == "op":
            name, dtype, size = name.rsplit(":", 2)
        for figure in record.get("figures", []):
            found.append({"kind": kind, "name": name, "dtype": dtype, "size": size, **figure})
    return sorted(found, key=lambda f: -f["ratio"])


def duration(us: float) -> str:
    return f"{us / 1000:.2f} ms" if us >= LONG_US else f"{us:.1f} us"


def table(rows: list) -> str:
    lines = ["| ratio | card | CPU | what | input |", "|---:|---:|---:|---|---|"]
    for f in rows:
        what = " ".join(str(w) for w in (f["name"], f["dtype"], f["pass"]) if w)
        text = f["input"].replace("|", "\\|")[:100]
        lines.append(
            f"| {f['ratio']:.2f} | {duration(f['card_us'])} | {duration(f['cpu_us'])} "
            f"| {what} | {text} |"
        )
    return "\n".join(lines) + "\n"


def reason_of(f: dict, reasons: dict) -> str:
    """Returns the reason for the operator's pass, for the operator, or for all small
    backward passes."""
    name = f["name"]
    small = f["pass"] == "backward" and f["card_us"] - f["cpu_us"] < HAND_OVER_US
    own = reasons.get(f"{name} {f['pass']}".strip(), reasons.get(name, ""))
    return own or (HAND_OVER if small else "")


def explained(rows: list) -> str:
    """Returns the table with a column for the reason of each figure."""
    reasons = tomllib.loads(REASONS.read_text())
    head, rule, *lines = table(rows).splitlines()
    head, rule = f"{head} why |", f"{rule}---|"
    lines = [f"{line} {reason_of(f, reasons)} |" for line, f in zip(lines, rows)]
    return "\n".join([head, rule, *lines]) + "\n"


def long(f: dict) -> bool:
    return max(f["card_us"], f["cpu_us"]) > LONG_US


def slow(records: list) -> str:
    """Returns the table for the terminal, which is shown at the end."""
    rows = [f for f in figures(records) if f["ratio"] > 1.5]
    return table(rows) if rows else "no figure is above 1.5 times the CPU's time"


def spread(found: list) -> str:
    """Returns the distribution of the ratios, by kind, dtype and size."""
    groups = collections.defaultdict(list)
    for f in found:
        key = f["kind"] if f["kind"] != "op" else (
            f"{f['dtype']}, 10^{round(math.log10(int(f['size'])))}, {f['pass']}")
        groups[key].append(f["ratio"])
    lines = ["| figures | number | median ratio | above 1 | above 1.5 | above 2 |",
             "|---|---:|---:|---:|---:|---:|"]
    for key, ratios in sorted(groups.items()):
        ratios.sort()
        above = [str(sum(r > limit for r in ratios)) for limit in (1, 1.5, 2)]
        middle = ratios[len(ratios) // 2]
        lines.append(f"| {key} | {len(ratios)} | {middle:.2f} | {' | '.join(above)} |")
    return "\n".join(lines) + "\n"


def models(found: list) -> str:
    """Returns the table of steps, with the effect of autocast on the card's time."""
    lines = [
        "| ratio | card | CPU | model | bf16 by f32 on the card |",
        "|---:|---:|---:|---|---:|",
    ]
    card = {f["name"]: f["card_us"] for f in found if f["kind"] == "model"}
    for f in found:
        if f["kind"] != "model":
            continue
        plain = card.get(f["name"].removesuffix(BF16)) if BF16 in f["name"] else None
        part = f"{f['card_us'] / plain:.2f}" if plain else ""
        lines.append(
            f"| {f['ratio']:.2f} | {duration(f['card_us'])} | {duration(f['cpu_us'])} "
            f"| {f['name']} | {part} |"
        )
    return "\n".join(lines) + "\n"


def write(out: pathlib.Path, machine: dict, records: list) -> None:
    found = figures(records)
    today = datetime.date.today().isoformat()
    out.mkdir(parents=True, exist_ok=True)
    entries = ",\n".join(json.dumps(record) for record in records)
    (out / "sweep.json").write_text(
        f'{{"date": "{today}", "machine": {json.dumps(machine)}, "entries": [\n{entries}\n]}}\n'
    )
    other = collections.defaultdict(list)
    for record in records:
        if record["status"] != "measured":
            other[record["status"]].append(record["key"].split(":", 1)[1])
    parts = [
        "<!-- SPDX-License-Identifier: MIT -->",
        "# Operators on the card against torch's CPU\n",
        f"`make sweep` wrote this page on {today}. Card and CPU ran in one process, in turns. "
        "The ratio is the card's time divided by the CPU's.\n",
        "\n".join(f"- {name}: {value}" for name, value in machine.items()) + "\n",
        "## Steps of whole models\n",
        models(found),
        "## More than twice the CPU's time, work of more than 1 ms\n",
        ABOUT_HAND_OVER,
        explained([f for f in found if f["ratio"] > 2 and long(f)]),
        "## More than twice the CPU's time, less work\n",
        explained([f for f in found if f["ratio"] > 2 and not long(f)]),
        "## 1.5 to 2 times the CPU's time\n",
        explained([f for f in found if 1.5 < f["ratio"] <= 2]),
        "## Distribution of the ratios\n",
        spread(found),
        "## Shapes that programs use\n",
        table([f for f in found if f["kind"] == "shape"]),
        "## Operators at about 10^6 elements, float32\n",
        table([f for f in found if f["size"] == "1000000" and f["dtype"] == "float32"]),
        "## Not measured\n",
        "\n".join(f"- {status}: {', '.join(names)}" for status, names in other.items()) + "\n",
    ]
    (out / "sweep.md").write_text("\n".join(parts))
