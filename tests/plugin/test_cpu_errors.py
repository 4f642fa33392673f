# SPDX-License-Identifier: BSD-3-Clause
"""Arguments from which no packet can be built raise the CPU's error. They do not stop the
stream."""

import functools

import pytest
import torch

DEV = "openreg"


def windows():
    """{name: call(device)} with windows that no convolution has."""
    bad = [{"dilation": 0}, {"dilation": -1}, {"stride": 0}, {"padding": -1}, {"groups": 0}]
    cases = {}
    for n in (1, 2, 3):
        for kind in ("conv", "conv_transpose"):
            conv = getattr(torch.nn.functional, f"{kind}{n}d")

            def run(device, conv, n=n, size=2, **given):
                x = torch.ones(1, 1, *[5] * n, device=device)
                return conv(x, torch.ones(1, 1, *[size] * n, device=device), **given)

            for given in [*bad, {"size": 0}]:
                cases[f"{conv.__name__} {given}"] = functools.partial(run, conv=conv, **given)
    return cases


def scans():
    return {
        f"logcumsumexp of {dtype}, {size}": lambda device, dtype=dtype, size=size: (
            torch.logcumsumexp(torch.ones(size, dtype=dtype, device=device), 0)
        )
        for dtype in (torch.int64, torch.uint8, torch.bool)
        for size in ((2,), ())
    }


@pytest.mark.parametrize("cases", [windows, scans])
def test_the_cpus_errors(cases):
    """What the CPU refuses raises the same error, and does not stop the stream."""
    for name, call in cases().items():
        with pytest.raises((RuntimeError, NotImplementedError)) as on_the_cpu:
            call("cpu")
        with pytest.raises(on_the_cpu.type) as on_card:
            call(DEV)
        assert not isinstance(on_card.value, torch.AcceleratorError), name
        words = [str(e.value).split(" ")[:4] for e in (on_the_cpu, on_card)]
        if cases is windows and "transpose3d {'size'" not in name:
            assert words[0] == words[1], name
        torch.openreg.synchronize()


def test_strides_that_no_packet_holds():
    x, w = torch.arange(5.0).view(1, 1, 5), torch.ones(1, 1, 2)
    for how in ({"stride": 2**62}, {"stride": 2**40, "padding": 1}):
        want = torch.nn.functional.conv1d(x, w, **how)
        got = torch.nn.functional.conv1d(x.to(DEV), w.to(DEV), **how)
        assert got.cpu().equal(want), how


def test_softmax_of_mixed_types():
    x = torch.ones(2, 3, device=DEV)
    cases = {
        name: lambda op=getattr(torch, name): op(x, x.long(), 1, torch.float32)
        for name in ("_softmax_backward_data", "_log_softmax_backward_data")
    }
    for call in cases.values():
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            call()
    torch.openreg.synchronize()


def test_windows_of_the_special_operators():
    """Core checks nothing for callers of the operators that it calls itself."""
    x, w = torch.ones(1, 1, 5, device=DEV), torch.ones(1, 1, 2, device=DEV)
    good = {"stride": [1], "padding": [0], "dilation": [1], "transposed": False}
    good |= {"output_padding": [0], "groups": 1}
    forward = torch.ops.aten.convolution_overrideable
    backward = torch.ops.aten.convolution_backward_overrideable
    cases = {}
    for bad in ({"stride": [0]}, {"padding": [-1]}, {"dilation": [0]}, {"groups": 0}):
        how = good | bad
        cases[f"forward {bad}"] = lambda how=how: forward(x, w, None, **how)
        cases[f"backward {bad}"] = lambda how=how: backward(
            torch.ones(1, 1, 4, device=DEV), x, w, **how, output_mask=[True] * 3
        )
    for name, call in cases.items():
        with pytest.raises(RuntimeError) as caught:
            call()
        assert not isinstance(caught.value, torch.AcceleratorError), name
    torch.openreg.synchronize()
