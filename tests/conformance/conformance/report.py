# SPDX-License-Identifier: MIT
"""Writes the results as JSON and as Markdown."""

import collections
import datetime
import json
import pathlib

from .keys import split_key
from .status import FATAL, MEANING, ORDER, RIGHT


def counts_by(records: list, field: int) -> dict:
    """{part of the key: {status: count}}"""
    found: dict = collections.defaultdict(collections.Counter)
    for record in records:
        found[split_key(record["key"])[field]][record["status"]] += 1
    return {name: dict(found[name]) for name in sorted(found)}


def native_share(records: list, dtype: str = "float32") -> dict:
    """The share of native operators among op_db's entries that the CPU has in that dtype."""
    rows = [r for r in records if split_key(r["key"])[::2] == ("op", dtype)]
    rows = [r for r in rows if r["status"] not in ("refused", "extra", "untested")]
    forward = [r for r in rows if _forward(r) == "native"]
    share = {
        "dtype": dtype,
        "ops": len(rows),
        "right": sum(r["status"] in RIGHT for r in rows),
        "native": sum(r["status"] == "native" for r in rows),
        "native_forward": len(forward),
    }
    share["percent_native"] = _percent(share["native"], len(rows))
    share["percent_native_forward"] = _percent(len(forward), len(rows))
    return share


def _forward(record: dict) -> str:
    return record["checks"].get("forward", {}).get("status", "")


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def fallbacks_of(record: dict) -> dict:
    total: dict = collections.Counter()
    for check in record["checks"].values():
        total.update(check.get("fallbacks") or {})
    return dict(total)


def summary(run: dict, records: list) -> dict:
    return {
        "run": run,
        "entries": len(records),
        "passed": not any(r["status"] in FATAL for r in records),
        "by_list": counts_by(records, 0),
        "op_by_dtype": counts_by(
            [r for r in records if r["key"].startswith("op:")], 2
        ),
        "native_float32": native_share(records),
    }


def _cell(text: str, most: int = 200) -> str:
    text = " ".join(str(text).split()).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= most else text[: most - 3] + "..."


def _table(head: list, rows) -> list:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def _counts_table(title: str, counts: dict) -> list:
    used = [s for s in ORDER if any(s in row for row in counts.values())]
    rows = [
        [name, *(str(row.get(status, 0)) for status in used)]
        for name, row in counts.items()
    ]
    return _table([title, *used], rows)


def _row(record: dict) -> list:
    db, name, dtype = split_key(record["key"])
    fell_back = " ".join(
        op.removeprefix("aten::") for op in sorted(fallbacks_of(record))
    )
    checks = {n: c["status"] for n, c in record["checks"].items()}
    unlike = [f"{n} {s}" for n, s in checks.items() if s != record["status"]]
    return [
        name if db == "op" else f"{db} {name}",
        dtype,
        record["status"],
        _cell(", ".join(n for n in unlike if not n.startswith("errors")), 100),
        _cell(fell_back, 120),
        _cell(record["error"]),
    ]


ROW = ["op", "dtype", "status", "its other checks", "ran on the CPU", "first error"]


def _bad_arguments(records: list) -> list:
    rows = []
    for record in records:
        check = record["checks"].get("errors", {})
        name = split_key(record["key"])[1]
        rows += [[name, _cell(text, 300)] for text in check.get("different", [])]
    if not rows:
        return []
    return [
        "## Bad arguments that are not refused as on the CPU",
        "",
        *_table(["op", "what it does"], rows),
    ]


# Abbreviations in the table of all entries, which has one column per dtype.
MARK = {"native": "N", "fallback": "F", "unknown": "U", "refused": "-", "untested": "?"}


def _all(records: list) -> list:
    """The table of all entries, one line each; a status without a mark is written out."""
    dtypes = list(dict.fromkeys(split_key(r["key"])[2] for r in records))
    statuses: dict = collections.defaultdict(dict)
    on_cpu: dict = collections.defaultdict(set)
    for record in records:
        db, name, dtype = split_key(record["key"])
        title = name if db == "op" else f"{db} {name}"
        status = record["status"]
        statuses[title][dtype] = MARK.get(status, status)
        on_cpu[title] |= {op.removeprefix("aten::") for op in fallbacks_of(record)}
    rows = (
        [title, *(found.get(d, "") for d in dtypes), _cell(" ".join(sorted(on_cpu[title])), 120)]
        for title, found in statuses.items()
    )
    legend = ", ".join(f"{mark} {status}" for status, mark in MARK.items())
    return [f"{legend}; empty: not run.", "", *_table(["op", *dtypes, "ran on the CPU"], rows)]


def markdown(run: dict, records: list, date: str) -> str:
    total = summary(run, records)
    share = total["native_float32"]
    bad = [r for r in records if r["status"] in FATAL]
    lines = [
        f"# Conformance of {run['module']} (device `{run['device']}`)",
        "",
        f"{date}: {run['module']} {run['version']}, torch {run['torch']}, Python"
        f" {run['python']}, {run['machine']}; {len(records)} entries with at most"
        f" {run['samples']} inputs per check, against the CPU; source of the fallbacks:"
        f" {run['probe']}.",
        "",
        f"**Native in {share['dtype']}: {share['native']} of {share['ops']} of op_db"
        f" ({share['percent_native']} %); forward alone {share['native_forward']}"
        f" ({share['percent_native_forward']} %); right: {share['right']}.**",
        "",
        *_table(["status", "meaning"], ([s, m] for s, m in MEANING.items())),
        *_counts_table("list", total["by_list"]),
        *_counts_table("op_db by dtype", total["op_by_dtype"]),
        "## Not right",
        "",
        *(_table(ROW, map(_row, sorted(bad, key=_gravity))) if bad else ["None.", ""]),
        *_bad_arguments(records),
        "## All",
        "",
        *_all(records),
    ]
    return "\n".join(lines)


def _gravity(record: dict) -> tuple:
    return ORDER.index(record["status"]), record["key"]


def write(out: pathlib.Path, run: dict, records: list) -> None:
    date = datetime.date.today().isoformat()
    (out / "report.md").write_text(markdown(run, records, date))
    whole = {"date": date, "summary": summary(run, records), "entries": records}
    (out / "report.json").write_text(json.dumps(whole, indent=1) + "\n")
