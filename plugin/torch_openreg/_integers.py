# SPDX-License-Identifier: BSD-3-Clause
"""Products of bytes with sums in int32, for torch's out_dtype operator.

Core's own rule names the devices with such a product. Elsewhere it casts both matrices to
int32 first.
"""

import torch
from torch._higher_order_ops.out_dtype import out_dtype, out_dtype_dense

_BYTES = (torch.int8, torch.uint8)


def _run(op, dtype, *args):
    if op is torch.ops.aten.mm.default and dtype is torch.int32:
        a, b = args
        if a.dtype in _BYTES and b.dtype is torch.int8:
            return torch._int_mm(a, b)
    return out_dtype_dense(op, dtype, *args)


def install() -> None:
    out_dtype.py_impl(torch._C.DispatchKey.PrivateUse1)(_run)
