# SPDX-License-Identifier: BSD-3-Clause
"""The CPU's kernels read the indices of a sparse tensor correctly in every memory layout."""

import pytest
import torch

DEV = "openreg"

# Rows and columns without elements, and rows with several.
DENSE = torch.tensor([
    [0, 0, 0, 0, 1.0, 0],
    [0, 2, 3, 0, 0, 0],
    [0, 0, 0, 0, 0, 0],
    [0, 0, 4, 0, 5, 6],
])
OTHER = torch.arange(24.0).view(6, 4)


def from_dense(device):
    return DENSE.to(device).to_sparse()


def from_columns(device):
    """Transposed indices: many programs keep one row per element."""
    places = DENSE.nonzero().to(device)
    return torch.sparse_coo_tensor(
        places.contiguous().t(), DENSE[DENSE != 0].to(device), DENSE.shape, is_coalesced=True)


def from_gaps(device):
    places = torch.zeros(2, 2 * 6, dtype=torch.int64)
    places[:, ::2] = DENSE.nonzero().t()
    values = torch.zeros(6, 2)
    values[:, 1] = DENSE[DENSE != 0]
    return torch.sparse_coo_tensor(
        places.to(device)[:, ::2], values.to(device)[:, 1], DENSE.shape, is_coalesced=True)


def twice(device):
    """Every element occurs twice in the list."""
    places = DENSE.nonzero().to(device)
    return torch.sparse_coo_tensor(
        torch.cat([places, places.flip(0)]).t(),
        torch.cat([DENSE[DENSE != 0], DENSE[DENSE != 0].flip(0)]).to(device), DENSE.shape)


READERS = {
    "csr": lambda s, o: s.to_sparse_csr(),
    "csc": lambda s, o: s.to_sparse_csc(),
    "bsr": lambda s, o: s.to_sparse_bsr((2, 3)),
    "bsc": lambda s, o: s.to_sparse_bsc((2, 2)),
    "dense": lambda s, o: s.to_dense(),
    "coalesce": lambda s, o: s.coalesce(),
    "t": lambda s, o: s.t().coalesce(),
    "mm": lambda s, o: s @ o,
    "mm of two": lambda s, o: torch.sparse.mm(s, s.t()),
    "mv": lambda s, o: s @ o[:, 0],
    "addmm": lambda s, o: torch.addmm(o[:4, :4], s, o, beta=2, alpha=3),
    "sspaddmm": lambda s, o: torch.sspaddmm(s, torch.sparse.mm(s, s.t()).coalesce(), o.t().contiguous()),
    "hspmm": lambda s, o: torch.hspmm(s, o),
    "sum": lambda s, o: torch.sparse.sum(s),
    "sum of rows": lambda s, o: torch.sparse.sum(s, 1),
    "sum of columns": lambda s, o: torch.sparse.sum(s, 0),
    "softmax": lambda s, o: torch.sparse.softmax(s, 1),
    "softmax of columns": lambda s, o: torch.sparse.softmax(s, 0),
    "log_softmax": lambda s, o: torch.sparse.log_softmax(s, 1),
    "index_select": lambda s, o: s.index_select(0, torch.tensor([3, 1, 1], device=s.device)),
    "select": lambda s, o: s.select(1, 4),
    "narrow": lambda s, o: s.narrow_copy(1, 2, 3),
    "cat": lambda s, o: torch.cat([s, s]),
    "add": lambda s, o: s + s * 2,
    "add to dense": lambda s, o: o.t() + s,
    "mul": lambda s, o: s * s,
    "mul by dense": lambda s, o: s * o.t(),
    "div": lambda s, o: s / 4,
    "mask": lambda s, o: o.t().sparse_mask(s.coalesce()),
    "norm": lambda s, o: s.norm(),
    "sum of csr": lambda s, o: s.coalesce().to_sparse_csr().sum(1, keepdim=True),
    "csr times dense": lambda s, o: s.to_sparse_csr() @ o,
    "csc to csr": lambda s, o: s.to_sparse_csc().to_sparse_csr(),
    "bsr to coo": lambda s, o: s.to_sparse_bsr((2, 2)).to_sparse(),
    "csr.t": lambda s, o: s.to_sparse_csr().t(),
    "sampled_addmm": lambda s, o: torch.sparse.sampled_addmm(s.to_sparse_csr(), o.t(), o[:, :1] @ o[:1].new_ones(1, 6)),
}


def parts(t):
    if t.layout == torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices(), t.values()]
    if t.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [t.ccol_indices(), t.row_indices(), t.values()]
    return [t]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("source", [from_dense, from_columns, from_gaps, twice])
def test_readers(source, name):
    reader = READERS[name]
    want = reader(from_dense("cpu") * (2 if source is twice else 1), OTHER)
    got = reader(source(DEV), OTHER.to(DEV))
    assert got.is_openreg and got.layout == want.layout
    if source is twice and got.layout == torch.sparse_coo:
        got, want = got.coalesce(), want.coalesce()
    for g, w in zip(parts(got), parts(want), strict=True):
        torch.testing.assert_close(g.cpu(), w, check_stride=False)


@pytest.mark.parametrize("shape", [(), (5,), (4, 6), (2, 3, 4), (0, 3), (3, 4, 0)])
def test_nonzero_has_the_cpus_strides(shape):
    x = (torch.arange(torch.Size(shape).numel()) % 3).view(shape)
    want, got = x.nonzero(), x.to(DEV).nonzero()
    assert torch.equal(got.cpu(), want)
    assert got.stride() == want.stride()
    out = torch.empty(0, dtype=torch.int64)
    card = torch.empty(0, dtype=torch.int64, device=DEV)
    torch.nonzero(x, out=out), torch.nonzero(x.to(DEV), out=card)
    assert torch.equal(card.cpu(), out) and card.stride() == out.stride()
    right = torch.empty(want.shape, dtype=torch.int64, device=DEV)
    strides = right.stride()
    torch.nonzero(x.to(DEV), out=right)
    assert torch.equal(right.cpu(), want) and right.stride() == strides
