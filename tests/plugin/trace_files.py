# SPDX-License-Identifier: BSD-3-Clause
"""Runs openreg-trace and reads its file, for tests."""

import json
import os
import shutil
import subprocess
import sys


def run(tmp_path, *command, options=(), env=None, status=0):
    """The trace of a command, and what openreg-trace says."""
    path = tmp_path / "trace.json"
    done = subprocess.run(
        [shutil.which("openreg-trace"), "-o", str(path), *options, "--", *command],
        env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    trace = json.loads(path.read_text()) if path.exists() and path.stat().st_size else None
    return trace, done.stderr


def python(tmp_path, program, **more):
    return run(tmp_path, sys.executable, "-c", program, **more)


def spans(trace, category):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == category]


def marks(trace, name=None):
    return [e for e in trace["traceEvents"]
            if e["ph"] == "i" and name in (None, e["name"])]


def row(event):
    return event["pid"], event["tid"]


def end(event):
    return event["ts"] + event["dur"]


def check_nesting(trace):
    """Two spans of a row are one in the other, or one after the other."""
    rows = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            assert e["dur"] >= 0
            rows.setdefault(row(e), []).append(e)
    for events in rows.values():
        stack = []
        for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            while stack and end(stack[-1]) <= e["ts"] + 0.0015:
                stack.pop()
            assert not stack or end(e) <= end(stack[-1]) + 0.0015, (stack[-1], e)
            stack.append(e)


def check_arrows(trace):
    """Each packet has one launch, which it does not precede."""
    begins, ends = {}, {}
    for e in trace["traceEvents"]:
        if e["ph"] in "sf":
            known = begins if e["ph"] == "s" else ends
            assert e["id"] not in known
            known[e["id"]] = e
    assert begins.keys() == ends.keys()
    for number, e in ends.items():
        assert e["ts"] >= begins[number]["ts"]
    packets = spans(trace, "card")
    assert len(packets) == trace["openreg_packets"] == len(ends)
    assert sorted((row(e), e["ts"]) for e in packets) == \
        sorted((row(e), e["ts"]) for e in ends.values())
