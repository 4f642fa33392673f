# SPDX-License-Identifier: MIT
"""Finished entries on disk, one JSON object a line, so that a run can continue."""

import json
import pathlib


class Store:
    """The first line describes the run. A file of a different run is refused."""

    def __init__(self, path: pathlib.Path, run: dict, fresh: bool, again=()) -> None:
        self.path = path
        self.records: dict = {}
        if path.exists() and not fresh:
            self._load(run)
        for key in [k for k, r in self.records.items() if r["status"] in again]:
            del self.records[key]
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [{"run": run}, *self.records.values()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self._file = path.open("a")

    def _load(self, run: dict) -> None:
        lines = self.path.read_text().splitlines()
        if not lines:
            return
        before = json.loads(lines[0])["run"]
        if before != run:
            changed = [k for k in run if before.get(k) != run[k]]
            raise SystemExit(
                f"{self.path} holds a run with another {', '.join(changed)}: "
                "delete it with --fresh, or choose another directory with --out"
            )
        for line in lines[1:]:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # the run was killed while it wrote this line
                continue
            self.records[record["key"]] = record

    def add(self, record: dict) -> None:
        self.records[record["key"]] = record
        print(json.dumps(record), file=self._file, flush=True)
