# SPDX-License-Identifier: MIT
"""Tests the tool: it must find every fault of fake_ops.py, and report no other."""

import datetime
import json
import pathlib
import sys
import types

import pytest
import torch
from tool import run_tool

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from conformance import (  # noqa: E402
    cases,
    compare,
    inputs,
    judge,
    keys,
    report,
    status,
    store,
    worker,
)


def results_of(out):
    entries = json.loads((out / "report.json").read_text())["entries"]
    return {e["key"].split(":")[1].removeprefix("fake."): e for e in entries}


@pytest.fixture(scope="module")
def fakes(tmp_path_factory):
    """All fake operators in one run: a crash or a hang does not end it."""
    out = tmp_path_factory.mktemp("fakes")
    run_tool(
        out,
        *("--own-ops", HERE / "fake_ops.py", "--db", "op", "--dtypes", "float32"),
        *("--jobs", 1, "--timeout", 8),
        code=1,
    )
    return out, results_of(out)


@pytest.mark.parametrize(
    "name, want, check",
    [
        ("wrong_value", "wrong", "forward"),
        ("wrong_when_strided", "wrong", "strided"),
        ("wrong_dtype", "wrong", "forward"),
        ("wrong_device", "wrong", "forward"),
        ("wrong_gradient", "wrong", "backward"),
        ("too_steep", "wrong", "forward"),
        ("kthvalue", "wrong", "forward"),
        ("max_of_rows", "wrong", "forward"),
        ("wrong_sizes", "wrong", "empty"),
        ("wrong_when_broadcast", "wrong", "empty"),
        ("in_place", "wrong", "inplace"),
        ("wrong_out", "wrong", "out"),
        ("crash", "crash", "forward"),
        ("hang", "hang", "forward"),
        ("missing", "missing", "forward"),
        ("refused", "refused", "forward"),
        ("extra", "extra", "forward"),
        ("crash_on_cpu", "untested", "forward"),
    ],
)
def test_finds(fakes, name, want, check):
    entry = fakes[1][name]
    assert entry["status"] == want
    assert entry["checks"][check]["status"] == want
    if want in ("wrong", "missing", "crash", "hang"):
        assert entry["error"].startswith(f"{check}: ") and len(entry["error"]) > 12


@pytest.mark.parametrize(
    "name",
    [
        "right",
        "random",
        "nearly",
        "picky",
        "odd_sizes_of_the_cpu",
        "broadcast_by_the_cpu",
        "out_of_nothing",
        "left_by_the_cpu",
        "steep",
        "topk",
    ],
)
def test_accepts(fakes, name):
    assert fakes[1][name]["status"] in status.RIGHT


def test_only_the_check_that_fails_is_blamed(fakes):
    checks = fakes[1]["wrong_when_strided"]["checks"]
    assert checks["forward"]["status"] in status.RIGHT
    checks = fakes[1]["wrong_gradient"]["checks"]
    assert checks["forward"]["status"] in status.RIGHT


def test_says_why_it_was_lenient(fakes):
    assert "random" in fakes[1]["random"]["checks"]["forward"]["notes"][0]
    assert "meta" in fakes[1]["odd_sizes_of_the_cpu"]["checks"]["empty"]["notes"][0]


def test_bad_arguments_are_reported_apart(fakes):
    entry = fakes[1]["picky"]
    assert entry["checks"]["errors"]["bad"] == 1
    assert "accepts" in entry["checks"]["errors"]["different"][0]
    assert "not refused as on the CPU" in (fakes[0] / "report.md").read_text()


def test_tables(fakes):
    text = (fakes[0] / "report.md").read_text()
    for line in (
        *("| fake.crash | float32 | crash |", "## Not right", "## All"),
        *("| fake.crash | crash |", "| fake.right | N |", datetime.date.today().isoformat()),
    ):
        assert line in text
    summary = json.loads((fakes[0] / "report.json").read_text())["summary"]
    assert not summary["passed"] and summary["by_list"]["op"]["hang"] == 1
    share = summary["native_float32"]
    assert share["ops"] > share["right"] >= share["native"]


def test_interrupted_run_continues(tmp_path):
    some = ("--own-ops", HERE / "fake_ops.py", "--db", "op", "--dtypes", "float32")
    run_tool(tmp_path, *some, "--ops", "fake.right")
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    marked = json.loads(lines[1]) | {"seconds": 12345.0}
    # Simulate a run that was killed while it wrote its last line.
    (tmp_path / "results.jsonl").write_text(
        "\n".join([lines[0], json.dumps(marked), lines[1][:20]])
    )
    run_tool(tmp_path, *some, "--ops", "fake.(right|missing|wrong_value)", code=1)
    found = results_of(tmp_path)
    assert found["right"]["seconds"] == 12345.0
    assert found["missing"]["status"] == "missing" and len(found) == 3
    # --again runs the entries with this status again.
    run_tool(tmp_path, *some, "--ops", "fake.right", "--again", "native")
    assert results_of(tmp_path)["right"]["seconds"] != 12345.0


def test_fails_if_and_only_if_something_is_wrong(tmp_path):
    some = ("--own-ops", HERE / "fake_ops.py", "--db", "op", "--dtypes", "float32")
    run_tool(tmp_path / "a", *some, "--ops", "fake.(right|extra|random)$")
    run_tool(tmp_path / "b", *some, "--ops", "fake.(right|wrong_value)$", code=1)
    run_tool(tmp_path / "c", *some, "--ops", "fake.(right|missing)$", code=1)


def test_another_backend(tmp_path):
    """A backend in Python alone, with another name. It cannot synchronize, and reports
    neither where an operator ran nor its dtypes."""
    run_tool(
        tmp_path,
        *("--own-ops", HERE / "fake_ops.py", "--db", "op", "--jobs", 1),
        *("--ops", "fake.(right|wrong_value|missing|in_place|refused)$"),
        module="other_backend",
        code=1,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        PYTHONPATH=str(HERE),
    )
    found = {name: entry["status"] for name, entry in results_of(tmp_path).items()}
    assert found == {
        "right": "unknown",
        "wrong_value": "wrong",
        "missing": "missing",
        "in_place": "wrong",
        "refused": "refused",
    }
    text = (tmp_path / "report.md").read_text()
    assert "other_backend 0.0" in text and "device `other`" in text


def test_a_backend_that_does_not_load(tmp_path):
    done = run_tool(tmp_path, module="no_such", code=1)
    assert "cannot be loaded" in done.stderr
    assert "no_such" in done.stderr


def test_another_run_is_not_mixed_in(tmp_path):
    path = tmp_path / "results.jsonl"
    store.Store(path, {"module": "a"}, False).add({"key": "op:x:int8", "status": "wrong"})
    with pytest.raises(SystemExit, match="another module.*--fresh"):
        store.Store(path, {"module": "b"}, False)
    assert not store.Store(path, {"module": "b"}, True).records


def test_sample_is_fixed():
    names = [keys.key_of("op", f"op{i}", "float32") for i in range(200)]
    ten = keys.sample(names, 10)
    assert ten == keys.sample(names, 10) == keys.sample(names[::-1], 10)[::-1]
    assert set(ten) < set(keys.sample(names, 20)) and len(ten) == 10
    assert ten == [name for name in names if name in ten]


def test_keys():
    for db, name in (("op", "nn.functional.x::y"), ("module", "nn.Linear")):
        assert keys.split_key(keys.key_of(db, name, "int8")) == (db, name, "int8")


def test_gravity():
    assert status.gravest(["native", "wrong", "missing"]) == "wrong"
    assert status.gravest(["native", "fallback"]) == "fallback"
    assert status.gravest([]) == "untested"


def test_share_counts_only_operators_of_the_cpu():
    def record(name, state, forward="native"):
        return {
            "key": keys.key_of("op", name, "float32"),
            "status": state,
            "error": "",
            "checks": {"forward": {"status": forward, "fallbacks": {}}},
        }

    share = report.native_share(
        [
            record("a", "native"),
            record("b", "fallback"),
            record("c", "wrong", "wrong"),
            record("d", "refused", "refused"),
        ]
    )
    assert (share["ops"], share["native"], share["native_forward"]) == (3, 1, 2)
    assert share["percent_native"] == 33.3


def near(got, cpu, exact):
    comparer = compare.Comparer("cpu", torch.float32, (0.0, 0.0))
    return comparer.no_worse_than(
        torch.tensor(got), torch.tensor(cpu), torch.tensor(exact, dtype=torch.float64)
    )


def test_the_cpu_rounds_as_well():
    assert near([1.01, 5.0], [1.02, 5.0], [1.0, 5.0])
    assert not near([1.05, 5.0], [1.02, 5.0], [1.0, 5.0])
    assert not near([1.01, 5.0], [1.0, 5.0], [1.0, 5.0])
    inf, nan = float("inf"), float("nan")
    assert near([inf, nan], [inf, nan], [1e300, nan])
    assert not near([3.0], [nan], [nan])


def test_forms_and_values():
    comparer = compare.Comparer("cpu", torch.float32, (0.0, 0.0))
    a = torch.ones(2)
    comparer.form([a, 1], [a, 2])
    comparer.values([a, True], [a + 1e-7, True])
    for got, want in (([a], [a, a]), ([a.int()], [a]), ([a[:1]], [a]), ([1], [1.0])):
        with pytest.raises(compare.Mismatch):
            comparer.form(got, want)
    for got, want in (([a], [a + 1e-3]), ([True], [False]), (["x"], ["y"])):
        with pytest.raises(compare.Mismatch):
            comparer.values(got, want)


def test_rounding_of_inputs():
    comparer = compare.Comparer("cpu", torch.float32, (0.0, 0.0))
    cpu, got = torch.tensor([1.0, 5.0]), torch.tensor([1.0, 5.001])
    exact, inf = torch.tensor([1.0, 5.0], dtype=torch.float64), float("inf")
    for nudged, want in (([1.0, 5.001], True), ([1.001, 5.0], False), ([1.0, inf], False)):
        nudged = torch.tensor(nudged, dtype=torch.float64)
        assert comparer.no_worse_than(got, cpu, exact, nudged) == want
    x = torch.tensor([1.5, 3.0])
    with inputs.nudged(torch.float32, 0):
        wide = inputs.Copier("cpu", torch.float32)(x)
    assert 0 < (wide[0] - 1.5).abs() < 1e-6 and wide[1] == 3.0


def test_gradients_of_equal_elements():
    x = torch.tensor([[2.0, 1.0, 2.0], [1.0, 3.0, 4.0]])
    one = torch.tensor([[5.0, 6.0, 7.0], [1.0, 2.0, 3.0]])
    for row, want in (([7.0, 6.0, 5.0], True), ([6.0, 5.0, 7.0], False)):
        other = torch.stack([torch.tensor(row), one[1]])
        assert compare.same_sums_of_ties([one], [other], x) == want


def test_weights_of_modules_are_not_random():
    call = inputs.Call(None, (torch.ones(2, 3),), {}, lambda result: result)
    comparer = compare.Comparer("cpu", torch.float32, (0.0, 0.0))
    for make, random in ((lambda: torch.nn.Linear(3, 3), False), (torch.nn.Dropout, True)):
        case = cases.Module(make, call, True, False, torch.float32)
        of_cpu = judge.Outcome(case, "cpu")
        found = judge.Judge("cpu", None, None)._is_random(case, of_cpu, comparer)
        assert found == random


def test_copies_lie_in_memory_as_the_original():
    x = torch.arange(24.0)[3:].as_strided((2, 3), (5, 2), 4).requires_grad_()
    both = inputs.Copier("cpu")([x, {"again": x}])
    copy = both[0]
    assert copy is both[1]["again"] and copy.is_leaf and copy.requires_grad
    assert (copy.stride(), copy.storage_offset()) == ((5, 2), 4)
    assert torch.equal(copy, x) and copy.data_ptr() != x.data_ptr()
    wide = inputs.Copier("cpu", torch.float32)([x, torch.float32, torch.int8])
    assert wide[0].dtype == wide[1] == torch.float64 and wide[2] == torch.int8
    whole = torch.ones(3).expand(4, 3)
    assert inputs.Copier("cpu")(whole).stride() == (0, 1)


def test_spread():
    assert inputs.spread_evenly(list(range(100)), 4) == [0, 33, 66, 99]
    assert inputs.spread_evenly([1, 2], 4) == [1, 2]


def test_build_changes_with_the_files(tmp_path):
    """Otherwise a changed backend would get the results of the old one."""
    (tmp_path / "lib").mkdir()
    code = tmp_path / "lib" / "code.so"
    code.write_bytes(b"one")
    module = types.SimpleNamespace(__path__=[str(tmp_path)])
    before = worker.build_of(module)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"")
    assert worker.build_of(module) == before
    code.write_bytes(b"two")
    assert worker.build_of(module) != before
    alone = types.SimpleNamespace(__file__=str(code))
    assert worker.build_of(alone) not in ("", before)


def test_float8_may_be_nearer_to_the_exact_result_than_the_cpu():
    f8 = torch.float8_e5m2
    comparer = compare.Comparer("cpu", f8, (0.0, 0.0))
    exact = torch.tensor([1.3, 9e9], dtype=torch.float64)
    nearest, cpu = exact.to(f8), torch.tensor([1.5, 9e9]).to(f8)
    assert comparer.no_worse_than(nearest, cpu, exact)
    assert not comparer.no_worse_than(torch.tensor([2.0, 9e9]).to(f8), cpu, exact)
    assert not comparer.no_worse_than(torch.tensor([1.25, 4.0]).to(f8), cpu, exact)
