# SPDX-License-Identifier: BSD-3-Clause
"""Saving, loading, copying and pickling tensors of a card."""

import copy
import io
import pickle

import pytest
import safetensors.torch
import torch

DEV = "openreg"


def saved(thing, **how):
    buffer = io.BytesIO()
    torch.save(thing, buffer, **how)
    buffer.seek(0)
    return buffer


def small_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_dtypes(dtype):
    x = torch.arange(6).view(2, 3).to(dtype)
    y = torch.load(saved(x.to("openreg:1")))
    assert y.device == torch.device("openreg:1") and y.dtype == dtype
    assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize(
    "where, want",
    [
        ("cpu", "cpu"),
        ("openreg", "openreg:0"),
        ("openreg:1", "openreg:1"),
        (torch.device("openreg", 1), "openreg:1"),
        ({"openreg:0": "openreg:1"}, "openreg:1"),
        ({"openreg:0": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.openreg(1), "openreg:1"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_map_location(where, want, weights_only):
    x = torch.arange(4.0)
    file = saved({"x": x.to(DEV)})
    y = torch.load(file, map_location=where, weights_only=weights_only)["x"]
    assert y.device == torch.device(want) and torch.equal(y.cpu(), x)


def test_from_the_cpu_to_the_card():
    x = torch.arange(4.0)
    assert torch.load(saved(x), map_location="openreg:1").device.index == 1


def test_onto_a_missing_card():
    file = saved(torch.ones(2))
    with pytest.raises(RuntimeError, match="device 7 .* is 2"):
        torch.load(file, map_location="openreg:7")


def test_legacy_format():
    x = torch.arange(4.0)
    file = saved(x.to(DEV), _use_new_zipfile_serialization=False)
    y = torch.load(file)
    assert y.is_openreg and torch.equal(y.cpu(), x)


def test_memory_mapped(tmp_path):
    x = torch.arange(1000.0)
    torch.save(x.to(DEV), tmp_path / "x.pt")
    y = torch.load(tmp_path / "x.pt", mmap=True, map_location="cpu")
    assert torch.equal(y, x)


def test_views_share_a_storage_again():
    base = torch.arange(10.0).to(DEV)
    a, b = torch.load(saved([base, base[2:5]]))
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    assert b.storage_offset() == 2 and b.tolist() == [2, 3, 4]


def test_parameters_and_optimizers():
    model = small_model().to(DEV)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    model(torch.randn(5, 3).to(DEV)).sum().backward()
    optimizer.step()
    both = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    loaded = torch.load(saved(both), map_location="cpu")
    twin = small_model()
    twin.load_state_dict(loaded["model"])
    for ours, theirs in zip(twin.parameters(), model.parameters()):
        assert torch.equal(ours, theirs.cpu())
    twin = twin.to(DEV)
    other = torch.optim.Adam(twin.parameters(), foreach=True)
    other.load_state_dict(loaded["optimizer"])
    state = other.state[next(twin.parameters())]
    assert state["exp_avg"].is_openreg


def test_whole_module():
    model = torch.load(saved(small_model().to(DEV)), weights_only=False)
    assert all(p.is_openreg for p in model.parameters())


def test_deepcopy_and_pickle():
    x = torch.nn.Parameter(torch.arange(6.0).view(2, 3).to("openreg:1").t())
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert isinstance(y, torch.nn.Parameter) and y.requires_grad
        assert y.device == x.device and y.stride() == x.stride()
        assert torch.equal(y.cpu(), x.cpu())
        assert y.data_ptr() != x.data_ptr()


def test_storages():
    s = torch.arange(4, dtype=torch.uint8).to(DEV).untyped_storage()
    assert s.is_openreg and s.device == torch.device("openreg:0")
    assert s.cpu().tolist() == [0, 1, 2, 3]
    assert s.clone().data_ptr() != s.data_ptr()
    assert torch.UntypedStorage(4).openreg().is_openreg
    assert torch.load(saved(s), weights_only=False).is_openreg


def test_type_names():
    assert torch.ones(1, device=DEV).type() == "torch.openreg.FloatTensor"
    assert torch.ones(1, device=DEV).double().type() == "torch.openreg.DoubleTensor"


def test_safetensors(tmp_path):
    """Loads through the CPU, since safetensors has its own list of devices."""
    file = tmp_path / "model.safetensors"
    model = small_model().to(DEV)
    safetensors.torch.save_file(model.state_dict(), file)
    twin = small_model().to("openreg:1")
    for p in twin.parameters():
        torch.nn.init.zeros_(p)
    safetensors.torch.load_model(twin, file)
    for ours, theirs in zip(twin.parameters(), model.parameters()):
        assert ours.device.index == 1 and torch.equal(ours.cpu(), theirs.cpu())


def labelled():
    x = torch.nn.Parameter(torch.arange(4.0, device=DEV))
    torch.openreg.set_label(x, "encoder weight = 1")
    return x


def test_labels():
    x = labelled()
    get_label = torch.openreg.get_label
    assert get_label(x) == get_label(x.detach()) == "encoder weight = 1"
    assert get_label(x.cpu()) == get_label(x + 1) == ""
    torch.openreg.set_label(x, "")
    assert get_label(x) == ""
    with pytest.raises(ValueError, match="on cpu"):
        torch.openreg.set_label(torch.ones(1), "a")


@pytest.mark.parametrize("weights_only", [True, False])
def test_labels_are_saved(weights_only):
    x = labelled()
    file = saved([x, x.detach() + 1])
    y, other = torch.load(file, weights_only=weights_only)
    assert torch.openreg.get_label(y) == "encoder weight = 1" and torch.equal(x, y)
    assert torch.openreg.get_label(other) == ""
    file.seek(0)
    assert not torch.load(file, map_location="cpu")[0].is_openreg
    assert torch.openreg.get_label(pickle.loads(pickle.dumps(x))) == "encoder weight = 1"


def test_a_file_of_a_newer_version():
    """The file contains the version as a key of a dictionary."""
    data = pickle.dumps(labelled())
    assert data.count(b"openreg.version=1") == 1
    newer = data.replace(b"openreg.version=1", b"openreg.version=2")
    with pytest.raises(RuntimeError, match="version 2, .* reads version 1"):
        pickle.loads(newer)


def newer_file(zipped):
    """Makes a file of torch.save() that claims the next version."""
    data = saved([labelled(), torch.ones(2)], _use_new_zipfile_serialization=zipped)
    assert data.getvalue().count(b"openreg.version=1") == 1
    newer = data.getvalue().replace(b"openreg.version=1", b"openreg.version=2")
    return lambda: io.BytesIO(newer)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_saved_file_of_a_newer_version(weights_only, zipped):
    """The error suggests map_location="cpu", which must work."""
    file = newer_file(zipped)
    for where in (None, DEV, "openreg:1"):
        with pytest.raises(RuntimeError, match="newer torch_openreg.*'cpu'"):
            torch.load(file(), weights_only=weights_only, map_location=where)
    for where in ("cpu", {"openreg:0": "cpu"}):
        loaded = torch.load(file(), weights_only=weights_only, map_location=where)
        assert [t.device.type for t in loaded] == ["cpu", "cpu"]
        assert loaded[0].tolist() == [0, 1, 2, 3] and loaded[1].tolist() == [1, 1]
        assert torch.openreg.get_label(loaded[0].to(DEV)) == ""
