# SPDX-License-Identifier: MIT
"""Traces `c = a + b` with openreg-trace, in a VM, and prints the events of one of them: lines
of JSON. The card and the thread both sleep, so that the picture has each layer.

usage: trace.py        (as root in the guest)
       trace.py run    what openreg-trace runs
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

TRIES = 20
ELEMENTS = 1 << 24
RANGE = "c = a + b; synchronize()"


def run():
    import torch

    a = torch.rand(ELEMENTS, device="openreg")
    b = torch.rand(ELEMENTS, device="openreg")
    for _ in range(TRIES):
        torch.openreg.synchronize()
        time.sleep(0.05)
        with torch.profiler.record_function(RANGE):
            a + b
            torch.openreg.synchronize()


def overlaps(event, begin, end):
    return event["ts"] < end and event["ts"] + event.get("dur", 0) >= begin


def layer(event, home):
    if event["cat"] == "card":
        return "card"
    return event["cat"] if event["pid"] == home["pid"] else "interrupt"


def main():
    with tempfile.TemporaryDirectory() as where:
        path = pathlib.Path(where) / "trace.json"
        subprocess.run(["openreg-trace", "-o", path, "--", sys.executable, __file__, "run"],
                       check=True)
        trace = json.loads(path.read_text(encoding="utf-8"))
    events = [e for e in trace["traceEvents"] if e["ph"] in "Xi"]
    interrupts = [e for e in events if e["name"] == "interrupt"]
    homes = [e for e in events if e["name"] == RANGE and any(
        overlaps(i, e["ts"], e["ts"] + e["dur"]) for i in interrupts)]
    home = min(homes, key=lambda e: e["dur"])
    for e in sorted(events, key=lambda e: (e["ts"], -e.get("dur", 0))):
        of_home = e["cat"] in ("card", "mark") or e["tid"] == home["tid"] or \
            e["name"] in ("interrupt", "openreg_irq")
        if of_home and overlaps(e, home["ts"], home["ts"] + home["dur"]):
            print(json.dumps({
                "where": "trace", "layer": layer(e, home), "name": e["name"],
                "at_ns": round((e["ts"] - home["ts"]) * 1000),
                "ns": round(e.get("dur", 0) * 1000)}), flush=True)
    print(json.dumps({"where": "trace", "layer": "all", "elements": ELEMENTS,
                      "clock_error_ns": trace["openreg_clock_error_ns"]}), flush=True)


run() if sys.argv[1:] == ["run"] else main()
