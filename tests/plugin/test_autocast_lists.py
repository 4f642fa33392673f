# SPDX-License-Identifier: BSD-3-Clause
"""Runs every operator of the lists with which torch tests autocast on its own
accelerators. The result must have the dtype of the list, and the same bits as for
arguments that were cast before.
"""

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast

DEV = "openreg"
HALVES = [torch.float16, torch.bfloat16]
# (the list's name, the dtype in which its operators run, the module of its operators)
LISTS = [
    ("torch_fp16", "half", torch),
    ("torch_fp32", torch.float32, torch),
    ("torch_need_autocast_promote", torch.float32, torch),
    ("torch_expect_builtin_promote", torch.float32, torch),
    ("nn_fp16", "half", torch._C._nn),
    ("nn_fp32", torch.float32, torch._C._nn),
    ("linalg_fp16", "half", torch._C._linalg),
    ("methods_fp16", "half", None),
    ("methods_fp32", torch.float32, None),
    ("methods_expect_builtin_promote", torch.float32, None),
]
# Operators of one vendor's library, which other devices' autocast does not have.
VENDORS = {"cudnn_convolution", "cudnn_convolution_transpose"}
# Tested separately: the entry for einsum fits no equation. torch.equal refuses two dtypes,
# as on the CPU; on CUDA it promotes them.
OTHERWISE = {"einsum", "equal"}
# Methods that Python 3 no longer has.
GONE = {"__div__"}


def in_half(value, half: torch.dtype):
    """Arguments of the list, with half instead of float16."""
    if isinstance(value, torch.Tensor):
        return value.to(half) if value.dtype == torch.float16 else value
    if isinstance(value, (tuple, list)):
        return type(value)(in_half(v, half) for v in value)
    return value


def run(name: str, entry: tuple, kind, module, half: torch.dtype) -> None:
    op, args, *rest = entry
    runs_in = half if kind == "half" else kind
    more = rest[0] if rest and isinstance(rest[0], dict) else None
    gives = rest[0] if rest and isinstance(rest[0], torch.dtype) else None
    try:
        TestAutocast()._run_autocast_outofplace(
            op, in_half(args, half), runs_in, DEV, out_type=gives, module=module,
            add_kwargs=more, amp_dtype=half,
        )
    except Exception as error:
        raise AssertionError(f"{name}: {op}") from error


@pytest.mark.filterwarnings("ignore:.*is deprecated|.*without specifying the dim")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name, kind, module", LISTS, ids=[entry[0] for entry in LISTS])
def test_list(name, kind, module, half):
    torch.manual_seed(0)
    entries = getattr(AutocastTestLists(DEV), name)
    for entry in entries:
        if entry[0] not in VENDORS | OTHERWISE | GONE:
            run(name, entry, kind, module, half)


@pytest.mark.parametrize("half", HALVES)
def test_einsum_and_equal(half):
    x, y = torch.rand(3, 4, device=DEV), torch.rand(4, 5, device=DEV)
    with torch.autocast(DEV, dtype=half):
        assert torch.einsum("ij,jk->ik", x, y).dtype == half
        assert torch.equal(x.to(half), x.to(half).float())
        assert not torch.equal(x, x.to(half))


@pytest.mark.parametrize("half", HALVES)
def test_banned(half):
    for op, args, module in AutocastTestLists(DEV).banned:
        with torch.autocast(DEV, dtype=half), pytest.raises(RuntimeError, match="unsafe to autocast"):
            getattr(module, op)(*args)


def test_both_kinds_of_half():
    """bfloat16 and float16 have no widest dtype of the two, so core raises."""
    x = torch.ones(3, dtype=torch.float16, device=DEV)
    with torch.autocast(DEV, dtype=torch.bfloat16):
        with pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
            torch.dot(x, x.float())
