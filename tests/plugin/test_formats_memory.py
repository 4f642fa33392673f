# SPDX-License-Identifier: BSD-3-Clause
"""The memory of tensors that change their format: streams, threads and files."""

import io
import threading

import pytest
import torch
from packets import Gate

DEV = "openreg"
N = 512


def packed(x):
    return torch.openreg.format_cast(x.to(DEV), "packed")


def fill_memory():
    """Writes to blocks of the sizes of a packed and of a plain matrix, on this stream."""
    for elements in (N * N + 16, N * N):
        blocks = [torch.full((elements,), float("nan"), device=DEV) for _ in range(4)]
        torch.openreg.current_stream().synchronize()
        del blocks


def test_a_conversion_keeps_the_old_memory():
    """A conversion on another stream still reads the memory that it replaces."""
    x = torch.rand(N, N)
    w = packed(x)
    side, gate = torch.openreg.Stream(), Gate()
    with torch.openreg.stream(side):
        gate.__enter__()
        w.add_(1)
    fill_memory()
    gate.__exit__()
    torch.openreg.synchronize()
    assert torch.equal(w.cpu(), x + 1)


@pytest.mark.unchecked("it reads the elements that resize_() added")
@pytest.mark.parametrize("change", [lambda w: w.add_(1), lambda w: w.resize_(N, N + 1)])
def test_the_new_memory_is_the_owners(change):
    """The stream that made the tensor may use it until it is gone."""
    x = torch.rand(N, N)
    w = packed(x)
    side, gate = torch.openreg.Stream(), Gate()
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        change(w)
    torch.openreg.synchronize()
    want = w.cpu() * 2
    gate.__enter__()
    y = w * 2
    del w
    with torch.openreg.stream(side):
        fill_memory()
        torch.full((N * (N + 1),), float("nan"), device=DEV)
        side.synchronize()
    gate.__exit__()
    torch.openreg.synchronize()
    assert torch.equal(y.cpu().view(-1)[: N * N], want.view(-1)[: N * N])


def test_threads():
    """Operators of several threads may make one tensor plain at once."""
    x = torch.rand(65, 33)
    for _ in range(20):
        w = packed(x)
        start, errors = threading.Barrier(4), []

        def run(w=w, start=start, errors=errors):
            try:
                start.wait()
                w[0, 0].zero_()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.openreg.synchronize()
        assert not errors and torch.openreg.get_format(w) == "plain"
        assert w[0, 0].item() == 0 and torch.equal(w.cpu()[1:], x[1:])


MATRIX = "openreg.format_matrix="


def fields(matrix):
    return {"openreg.format=packed": True, "openreg.format_version=1": True,
            f"{MATRIX}{matrix} Float": True}


@pytest.mark.parametrize("matrix", ["1 4611686018427387908", "4611686018427387908 1", "2 9"])
def test_file_with_impossible_sizes(matrix):
    plain = torch.ones(4, 4, device=DEV)
    with pytest.raises(RuntimeError, match="the file is damaged"):
        torch._C._set_tensor_metadata(plain, fields(matrix))
    assert plain.tolist() == [[1] * 4] * 4


def test_file_with_two_matrices_in_one_storage():
    storage = torch.UntypedStorage(64, device=DEV)  # as torch.load() makes it
    plain = torch.empty(0, device=DEV).set_(storage, 0, (4, 4), (4, 1)).fill_(1)
    view = plain.view(2, 8)
    torch._C._set_tensor_metadata(plain, fields("4 4"))
    torch._C._set_tensor_metadata(view, fields("4 4"))
    with pytest.raises(RuntimeError, match="another matrix: the file is damaged"):
        torch._C._set_tensor_metadata(view, fields("2 8"))
    assert torch.openreg.get_format(plain) == "packed" and plain.tolist() == [[1] * 4] * 4


MAKERS = {
    "empty": lambda x: torch.empty(x.shape, device=DEV).copy_(x),
    "to": lambda x: x.to(DEV),
    "zeros": lambda x: torch.zeros_like(x, device=DEV).copy_(x),
}


@pytest.mark.parametrize("name", MAKERS)
def test_file_read_into_a_tensor_of_torch(name):
    """The storage of such a tensor has no place for a description: it gets another."""
    x = torch.rand(4, 4)
    tensor = MAKERS[name](x)
    torch._C._set_tensor_metadata(tensor, fields("4 4"))
    assert torch.openreg.get_format(tensor) == "packed"
    assert torch.equal(tensor.cpu(), x)
    torch.testing.assert_close(torch.nn.functional.linear(x.to(DEV), tensor).cpu(), x @ x.t())
    assert torch.openreg.get_format(tensor) == "packed"
    tensor.add_(1)
    assert torch.equal(tensor.cpu(), x + 1)
    wrong = MAKERS[name](x)
    with pytest.raises(RuntimeError, match="4 x 5 elements, but its storage has 64 bytes"):
        torch._C._set_tensor_metadata(wrong, fields("4 5"))
    assert torch.equal(wrong.cpu(), x)


def test_file_read_into_a_shared_storage():
    """Views keep to share their memory, so the tensor stays plain."""
    x = torch.rand(4, 4)
    tensor = x.to(DEV)
    view = tensor.view(2, 8)
    torch._C._set_tensor_metadata(tensor, fields("4 4"))
    assert torch.openreg.get_format(tensor) == "plain"
    view.add_(1)
    assert torch.equal(tensor.cpu(), x + 1)


class Product(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return torch.mm(x, self.weight.t())


def test_script():
    x, weight = torch.rand(3, 33), torch.rand(65, 33)
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Product(packed(weight))), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    # Its loader shares the storage, so the weight is plain here.
    assert torch.equal(loaded.weight.cpu(), weight)
    torch.testing.assert_close(loaded(x.to(DEV)).cpu(), x @ weight.t())
