# SPDX-License-Identifier: MIT
"""Tests the runner with cases that end in every possible way."""

import json
import pathlib
import subprocess
import sys

import pytest

import shims
import verdict

HERE = pathlib.Path(__file__).resolve().parent
FAKE = HERE / "fake"


def run(out, *options, lists=FAKE):
    command = [sys.executable, HERE / "run.py", "--tests", FAKE, "--lists", lists]
    command += ["--out", out, "--timeout", "10", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def records(out):
    (results,) = out.glob("*/results.json")
    return {
        name.removeprefix("TestFake.test_"): record
        for name, record in json.loads(results.read_text())["test_fake"].items()
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, run(out)


def test_every_case_has_its_result(first):
    out, done = first
    found = {name: record["status"] for name, record in records(out).items()}
    assert found == {
        "passes_openreg_float32": "passed",
        "passes_openreg_int64": "passed",
        "skips_openreg": "skipped",
        "succeeds_unexpectedly_openreg": "failed",
        "fails_as_upstream_expects_openreg": "passed",
        "fails_openreg": "failed",
        "fails_in_a_subtest_openreg": "failed",
        "fails_everywhere_openreg": "failed",
        "crashes_openreg": "crash",
        "hangs_openreg": "hang",
        "wants_a_card_openreg": "passed",
        "TestBadClass.test_one_openreg": "failed",
    }, done.stdout + done.stderr


def test_reasons(first):
    found = records(first[0])
    reasons = {name: record.get("reason") for name, record in found.items()}
    assert reasons["fails_openreg"] == reasons["crashes_openreg"] == "the fake card fails"
    assert reasons["fails_everywhere_openreg"] == "fails on the CPU too"
    assert reasons["succeeds_unexpectedly_openreg"] == "fails on the CPU too"
    assert reasons["hangs_openreg"] == reasons["fails_in_a_subtest_openreg"] == "new"
    assert reasons["passes_openreg_int64"] is None
    assert "Fatal Python error: Aborted" in found["crashes_openreg"]["error"]


def test_new_failures_and_stale_entries_fail_the_run(first):
    done = first[1]
    assert done.returncode == 1
    failed = [line.split(": ") for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert sorted((name.removeprefix("FAILED test_fake:"), text) for name, text, *_ in failed) == [
        ("TestFake.test_fails_in_a_subtest_openreg", "failed"),
        ("TestFake.test_hangs_openreg", "hang"),
        ("TestFake.test_hangs_openreg", verdict.STALE),
        ("TestFake.test_passes_*", verdict.STALE),
    ]
    assert done.stdout.splitlines()[-1].startswith("4 passed, 4 failed, 1 skipped in ")


def test_interrupted_run_continues(first):
    """Finished cases do not run again; an unfinished case does."""
    out, _ = first
    (path,) = out.glob("*/test_fake.openreg.jsonl")
    lines = path.read_text().splitlines()
    kept = [line for line in lines if "test_passes_openreg_int64" not in line]
    path.write_text("\n".join(kept) + '\n{"case": "TestFake.test_pas')
    again = run(out)
    text = path.read_text()
    started = text.count('"start": "TestFake.test_passes_openreg_int64"')
    assert started == 1, again.stdout + again.stderr
    assert text.count('"start": "TestFake.test_passes_openreg_float32"') == 1
    assert records(out)["passes_openreg_int64"]["status"] == "passed"


def test_part_of_the_cases(tmp_path):
    """--cases and --sample choose cases; --no-cpu leaves out the second run of a failure."""
    done = run(tmp_path, "--cases", "*_float32,*.test_fails_openreg,*.test_fails_every*", "--no-cpu")
    reasons = {name: record.get("reason") for name, record in records(tmp_path).items()}
    assert reasons == {
        "passes_openreg_float32": None,
        "fails_openreg": "the fake card fails",
        "fails_everywhere_openreg": "new",
    }, done.stdout + done.stderr
    assert verdict.STALE not in done.stdout
    assert not list(tmp_path.glob("*/*.cpu.jsonl"))


def test_sample_is_always_the_same(tmp_path):
    one = run(tmp_path, "--cases", "*_float32,*_int64", "--sample", "1")
    first = set(records(tmp_path))
    run(tmp_path, "--cases", "*_float32,*_int64", "--sample", "2")
    assert len(first) == 1 and first < set(records(tmp_path)), one.stdout + one.stderr


class Op:
    """An OpInfo with numbers as its inputs."""

    def sample_inputs(self, count):
        return range(count)


@pytest.mark.parametrize(
    "limit, count, kept",
    [(1, 5, [0]), (3, 9, [0, 4, 8]), (3, 2, [0, 1]), (3, 1, [0]), (3, 0, [])],
)
def test_few_inputs_of_an_opinfo(monkeypatch, limit, count, kept):
    monkeypatch.setattr("torch.testing._internal.opinfo.core.OpInfo", Op)
    monkeypatch.setattr(Op, "sample_inputs", Op.sample_inputs)
    shims.limit_inputs(limit)
    assert Op().sample_inputs(count) == kept


def test_distributed(tmp_path):
    """The runner of torch's tests of torch.distributed. Each rank has one card."""
    command = [sys.executable, HERE / "distributed" / "run.py", "-k", "test_get_rank$|test_all_reduce_sum_cuda$"]
    done = subprocess.run(
        [*command, "--out", tmp_path], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout.splitlines()[-1]
