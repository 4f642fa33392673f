# SPDX-License-Identifier: MIT
"""A packed weight has the values of a plain one, whatever happens to it."""
import io

import torch
import torch.nn.functional as F

plain = torch.randn(256, 64)
w = torch.openreg.format_cast(plain.to("openreg"), "packed")
print(torch.openreg.get_format(w), w.shape)

x = torch.randn(4, 64)
y = F.linear(x.to("openreg"), w)
assert torch.allclose(y.cpu(), F.linear(x, plain), atol=1e-4)
print("products convert nothing:", torch.openreg.format_conversions())
w.softmax(-1)
print("a softmax converts:", torch.openreg.format_conversions())
part = w[3:5]
print("a slice is packed and right:", torch.openreg.get_format(part), torch.equal(part.cpu(), plain[3:5]))

file = io.BytesIO()
torch.save(w, file)
for name, where in (("loaded:", None), ("on the CPU:", "cpu")):
    file.seek(0)
    again = torch.load(file, map_location=where)
    print(name, torch.openreg.get_format(again), torch.equal(again.cpu(), plain))

w.add_(1)
print("after add_:", torch.openreg.get_format(w))
p = torch.openreg.format_cast(w, "packed").requires_grad_()
F.linear(x.to("openreg"), p).sum().backward()
print("gradient:", torch.allclose(p.grad[0].cpu(), x.sum(0), atol=1e-4))
