# SPDX-License-Identifier: BSD-3-Clause
"""Two queues, an event between them, and the card's clock."""

import torch

x = torch.zeros(1 << 23, device="openreg")
torch.openreg.synchronize()
side = torch.openreg.Stream()
main = torch.openreg.current_stream()
print("streams:", main.stream_id, side.stream_id)

begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
with torch.openreg.stream(side):
    begin.record()
    for _ in range(30):
        x.sin_().add_(1)
    end.record()
print("launched, done already:", end.query())

main.wait_event(end)  # a WAIT packet: the card waits, this thread does not
x.add_(1)
x.record_stream(side)
main.synchronize()
print("done:", end.query(), side.query())
print("the card worked:", begin.elapsed_time(end) > 0)

y = torch.zeros(1)
for _ in range(30):
    y.sin_().add_(1)
print("in order:", torch.allclose(x.cpu(), y.add_(1), atol=1e-5))
