# SPDX-License-Identifier: BSD-3-Clause
"""Generators of the device."""

import pytest
import torch

DEV = "openreg"


def test_seed_repeats():
    torch.manual_seed(5)
    a = torch.randn(100, device=DEV)
    torch.manual_seed(5)
    b = torch.randn(100, device=DEV)
    c = torch.randn(100, device=DEV)
    assert torch.equal(a.cpu(), b.cpu()) and not torch.equal(b.cpu(), c.cpu())


def test_state():
    state = torch.openreg.get_rng_state()
    a = torch.rand(10, device=DEV)
    torch.openreg.set_rng_state(state)
    assert torch.equal(torch.rand(10, device=DEV).cpu(), a.cpu())
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.openreg.set_rng_state(torch.zeros(5, dtype=torch.uint8))
    states = torch.openreg.get_rng_state_all()
    assert len(states) == 2
    torch.openreg.set_rng_state_all(states)


def test_the_generator_of_the_cpu_is_left_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    torch.rand(10, device=DEV)
    torch.nn.functional.dropout(torch.ones(10, device=DEV))
    assert torch.equal(torch.get_rng_state(), state)


def test_own_generator():
    g = torch.Generator(device=DEV).manual_seed(3)
    assert g.device == torch.device("openreg:0") and g.initial_seed() == 3
    a = torch.randn(10, device=DEV, generator=g)
    h = torch.Generator(device=DEV).manual_seed(3)
    assert torch.equal(a.cpu(), torch.randn(10, device=DEV, generator=h).cpu())
    assert g.clone_state().initial_seed() == 3


def test_devices_have_their_own():
    torch.openreg.manual_seed_all(7)
    a = torch.rand(10, device="openreg:0")
    b = torch.rand(10, device="openreg:1")
    assert torch.equal(a.cpu(), b.cpu())
    assert torch.openreg.initial_seed() == 7
    assert len(torch.openreg.default_generators) == 2


def test_fork_rng():
    torch.manual_seed(2)
    with torch.random.fork_rng(devices=[0], device_type=DEV):
        torch.rand(5, device=DEV)
    a = torch.rand(5, device=DEV)
    torch.manual_seed(2)
    assert torch.equal(torch.rand(5, device=DEV).cpu(), a.cpu())


def test_permutation_and_integers():
    assert torch.randperm(50, device=DEV).cpu().sort().values.tolist() == list(range(50))
    r = torch.randint(3, 9, (1000,), device=DEV).cpu()
    assert r.min() == 3 and r.max() == 8


def test_dropout_repeats():
    x = torch.ones(1000, device=DEV)
    torch.manual_seed(9)
    a = torch.nn.functional.dropout(x, 0.3)
    torch.manual_seed(9)
    b = torch.nn.functional.dropout(x, 0.3)
    assert torch.equal(a.cpu(), b.cpu())
    assert 100 < (a.cpu() == 0).sum() < 500
