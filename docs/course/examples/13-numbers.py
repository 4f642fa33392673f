# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of eight bits: casts, products with scales, rounding to levels, and what is refused."""

import torch

x = torch.tensor([0.3, 447.0, 1000.0, -0.0, float("nan")], device="openreg")
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    print(str(dtype)[6:], x.to(dtype).float().tolist())


def quantize(matrix, dim):
    """One scale for each row or column, such that the largest element becomes 448."""
    scale = matrix.abs().amax(dim, keepdim=True) / 448
    return (matrix / scale).to(torch.float8_e4m3fn), scale


torch.manual_seed(0)
a, b = torch.randn(64, 256, device="openreg"), torch.randn(256, 32, device="openreg")
(a8, by_row), (b8, by_column) = quantize(a, 1), quantize(b, 0)
product = torch._scaled_mm(a8, b8, by_row, by_column, out_dtype=torch.bfloat16)
error = (product.float() - a @ b).norm() / (a @ b).norm()
print("bytes:", a8.nbytes, "instead of", a.nbytes, "error below 5 %:", error.item() < 0.05)

try:
    torch._scaled_mm(a8, b8, by_row[:3], by_column)
except ValueError as refusal:
    print("refused:", str(refusal).splitlines()[0][:51])

levels = torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7)
print("levels:", levels.tolist())
pair = torch.tensor([0x5A], dtype=torch.uint8, device="openreg")
print("two numbers in a byte:", (pair >> 4).item(), (pair & 15).item())

try:
    torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
except NotImplementedError as refusal:
    print(str(refusal).split(",")[0])
print("fallbacks:", {k: v for k, v in torch.openreg.fallbacks().items() if "mm" in k or "fake" in k})
