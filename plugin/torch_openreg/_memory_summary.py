# SPDX-License-Identifier: BSD-3-Clause
"""Formats the allocator's statistics as a table."""

from typing import Any

_WIDTH = 75
_BYTES = [
    ("allocated_bytes", "Allocated memory"),
    ("active_bytes", "Active memory"),
    ("requested_bytes", "Requested memory"),
    ("reserved_bytes", "Reserved memory"),
    ("inactive_split_bytes", "Non-releasable memory"),
]
_COUNTS = [
    ("allocation", "Allocations"),
    ("active", "Active allocs"),
    ("segment", "Reserved segments"),
    ("inactive_split", "Non-releasable allocs"),
]
_OVERSIZE = [
    ("oversize_allocations", "Oversize allocations"),
    ("oversize_segments", "Oversize segments"),
]
_POOLS = [("large_pool", "from large pool"), ("small_pool", "from small pool")]
_COLUMNS = ("current", "peak", "allocated", "freed")


def _scaled(value: int, step: int, units: list[str]) -> str:
    unit = 0
    while value >= 100 * step and unit < len(units) - 1:
        value //= step
        unit += 1
    return f"{value:6d} {units[unit]:<3}"


def _bytes(value: int) -> str:
    return _scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])


def _count(value: int) -> str:
    return _scaled(value, 1000, ["", "K", "M", "G"])


def _line(title: str, cells: list[str]) -> str:
    row = f" {title:<22}" + "".join(f"| {cell:^10} " for cell in cells)
    return row.ljust(_WIDTH)


def _rows(stats: dict[str, Any], metrics: list, pools: list, text: Any) -> list[str]:
    rows = []
    for key, title in metrics:
        rows.append("-" * _WIDTH)
        for pool, name in pools:
            dotted = ".".join(part for part in (key, pool) if part)
            cells = [text(stats.get(f"{dotted}.{c}", 0)) for c in _COLUMNS]
            rows.append(_line("     " + name if name else title, cells))
    return rows


def summary(stats: dict[str, Any], index: int, abbreviated: bool) -> str:
    pools = [("all", ""), *([] if abbreviated else _POOLS)]
    ooms = stats.get("num_ooms", 0)
    retries = stats.get("num_alloc_retries", 0)
    lines = [
        "=" * _WIDTH,
        f"{f'PyTorch openreg memory summary, device ID {index}':^{_WIDTH}}",
        "-" * _WIDTH,
        f"{f'OOMs: {ooms}':^37}|{f'retries: {retries}':^37}",
        "=" * _WIDTH,
        _line("       Metric", ["Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"]),
        *_rows(stats, _BYTES, pools, _bytes),
        *_rows(stats, _COUNTS, pools, _count),
        *_rows(stats, _OVERSIZE, [("", "")], _count),
        "=" * _WIDTH,
    ]
    return "".join(f"|{line}|\n" for line in lines)
