# SPDX-License-Identifier: BSD-3-Clause
"""Tests on a machine without a card: all cards were removed, or it never had one."""

import pytest
import torch


def test_torch_works():
    assert torch.ones(3).sum().item() == 3
    assert not torch.openreg.is_available()
    assert torch.openreg.device_count() == 0
    assert not torch.accelerator.is_available()
    torch.manual_seed(1)
    torch.openreg.manual_seed_all(1)


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(3, device="openreg"),
        lambda: torch.ones(3).to("openreg"),
        lambda: torch.empty(3, device="openreg:0"),
        lambda: torch.openreg.current_device(),
        lambda: torch.openreg.set_device(0),
        lambda: torch.openreg.synchronize(),
        lambda: torch.openreg.current_stream(),
        lambda: torch.openreg.Stream(),
        lambda: torch.openreg.get_device_properties(),
        lambda: torch.openreg.mem_get_info(),
        lambda: torch.openreg.get_rng_state(),
        lambda: torch.Generator(device="openreg"),
        lambda: torch.openreg.init(),
    ],
)
def test_use_raises_with_a_remedy(use):
    with pytest.raises(RuntimeError, match="no openreg card") as caught:
        use()
    for way in ("make shell", "scripts/vm --cards 1", "OPENREG_TRANSPORT=sim; make sim"):
        assert way in str(caught.value)


def test_calls_that_need_no_card():
    assert torch.device("openreg").type == "openreg"
    assert torch.openreg.fallbacks() == {}
    assert torch.openreg.stats()["ops"] == 0
    torch.openreg.empty_cache()
    with torch.openreg.device(None), torch.openreg.device(-1):
        pass
    with torch.openreg.device_of(torch.ones(1)):
        pass
