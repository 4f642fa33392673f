# SPDX-License-Identifier: BSD-3-Clause
"""A loader that prepares the next batch on a stream of its own, and forgets one wait."""

import torch

batch = torch.zeros(32, 64, device="openreg")
weight = torch.ones(64, 64, device="openreg")
loader = torch.openreg.Stream()


def load():
    with torch.openreg.stream(loader):
        batch.normal_()


def step():
    return batch @ weight


torch.openreg.synchronize()
for _ in range(3):
    load()
    torch.openreg.current_stream().wait_stream(loader)
    step()  # the next load() does not wait for it

for finding in torch.openreg.check_findings():
    print(finding["kind"], "on", finding["bytes"], "bytes:")
    # Either may come first on the card.
    for access in sorted((finding["access"], finding["other"]), key=lambda a: a["op"]):
        does = "writes" if access["written"] else "reads"
        print(" ", access["op"], does, "on stream", access["stream"], "at", access["stack"][0])
print("findings:", len(torch.openreg.check_findings()))
