#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/pictures/trace.svg: one `a + b` as openreg-trace has recorded it in a VM, from
the part "trace" of docs/results/tour.json, which `scripts/tour trace` writes.

usage: make-trace.py            write the picture
       make-trace.py --check    fail if the picture is not what the results give
"""
import json
import sys
from html import escape

from svg import FILL, INK, TOP, line, main, svg, text

RESULTS = "docs/results/tour.json"
WIDTH, LEFT, RIGHT, ROW, LETTER = 900, 130, 24, 20, 6.1
# layer; the colour of its bars; the title; what writes its rows
LAYERS = [
    ("operator", "#c9dcf5", "torch", "plugin/csrc/runtime/timeline.cpp"),
    ("library", "#d7ecd0", "libopenreg", "libopenreg/src/timeline.c"),
    ("driver", "#f7e2bd", "openreg.ko", "kmod/openreg_trace.h"),
    ("interrupt", "#f4cfcf", "interrupts", "libopenreg/trace/ftrace.py"),
    ("card", "#ddd2f0", "card", "libopenreg/src/trace.c"),
]


def duration(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms" if ns >= 1_000_000 else f"{ns / 1000:.1f} us"


def label(e: dict) -> str:
    return f"{e['name']}  {duration(e['ns'])}"


def lanes(events: list[dict], end: float) -> list[list[dict]]:
    """Puts what is inside another span, or would cover its label, a lane below it."""
    wide = end / (WIDTH - LEFT - RIGHT)
    found: list[list[dict]] = []
    for e in events:
        for lane in found:
            last = lane[-1]
            if last["at_ns"] + last["ns"] + len(label(last)) * LETTER * wide <= e["at_ns"]:
                lane.append(e)
                break
        else:
            found.append([e])
    return found


def bar(e: dict, y: int, colour: str, end: float) -> list[str]:
    scale = (WIDTH - LEFT - RIGHT) / end
    x = LEFT + max(e["at_ns"], 0) * scale
    right = LEFT + min(e["at_ns"] + e["ns"], end) * scale
    width = max(right - x, 2.0)
    out = [f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 4}" fill="{colour}" '
           f'stroke="{INK}" stroke-width="0.6"/>']
    words = label(e)
    if width >= len(words) * LETTER:
        x, anchor = x + 4, "start"
    elif x + width + len(words) * LETTER < WIDTH:
        x, anchor = x + width + 3, "start"
    else:
        x, anchor = x - 3, "end"
    out.append(f'<text x="{x:.1f}" y="{y + 12}" font-size="10" text-anchor="{anchor}">'
               f"{escape(words)}</text>")
    return out


def draw(part: dict) -> str:
    figures = part["figures"]
    facts = next(f for f in figures if f["layer"] == "all")
    spans = [f for f in figures if f["layer"] != "all" and f["ns"]]
    end = max(f["at_ns"] + f["ns"] for f in spans if f["layer"] == "operator")
    title = (f"c = a + b of {facts['elements']:,} floats in a VM, on one clock "
             f"(error below {facts['clock_error_ns'] / 1000:.1f} us)")
    out = [text(14, 18, title, f' font-weight="bold" fill="{INK}"')]
    y = 34
    for layer, colour, name, _ in LAYERS:
        rows = lanes([f for f in spans if f["layer"] == layer], end)
        if not rows:
            continue
        out.append(f'<rect x="8" y="{y - 2}" width="{WIDTH - 16}" '
                   f'height="{len(rows) * ROW + 2}" fill="{FILL}"/>')
        out.append(text(16, y + 12, name, f' fill="{INK}"'))
        for row in rows:
            for e in row:
                out += bar(e, y, colour, end)
            y += ROW
        y += 6
    out.append(line((LEFT, y + 2), (WIDTH - RIGHT, y + 2), 'stroke-width="1"'))
    for i in range(6):
        x = LEFT + i * (WIDTH - LEFT - RIGHT) // 5
        out.append(line((x, y), (x, y + 5), 'stroke-width="1"'))
        out.append(text(x, y + 17, duration(round(end * i / 5)),
                        ' font-size="10" text-anchor="middle"'))
    return svg(WIDTH, y + 26, "docs/pictures/make-trace.py", out)


def picture() -> str:
    return draw(json.loads((TOP / RESULTS).read_text(encoding="utf-8"))["trace"])


if __name__ == "__main__":
    sys.exit(main("docs/pictures/make-trace.py", __doc__, "trace.svg", picture(),
                  [(layer[3], "") for layer in LAYERS]))
