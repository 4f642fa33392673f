# SPDX-License-Identifier: BSD-3-Clause
"""Bad arguments raise torch's usual type of error with torch's text, and leak nothing. Each
case runs many times, so that a leak becomes visible."""

import contextlib
import gc
import os
import warnings

import pytest
import torch

DEV = "openreg"
TRIES = 50


def resources():
    """Resources in use, which a refused call must not change: device memory, pinned
    memory, open files."""
    gc.collect()
    host = torch.openreg.host_memory_stats()
    return (
        [torch.openreg.memory_allocated(index) for index in range(2)],
        {name: host[name] for name in host if name.endswith(".current")},
        len(os.listdir("/proc/self/fd")),
    )


@contextlib.contextmanager
def nothing_is_lost():
    before = resources()
    yield
    assert resources() == before


def refused(name, call, error=RuntimeError):
    """The text of the error that call() raises, which must have this type."""
    try:
        call()
    except error as caught:
        return str(caught)
    raise AssertionError(f"{name} was not refused")


def all_refused(cases, error=RuntimeError, words=()):
    """cases: {name: call}. All calls must raise this error. Returns {name: its text}."""
    texts = {name: refused(name, call, error) for name, call in cases.items()}
    with nothing_is_lost():
        for name, call in cases.items():
            for _ in range(TRIES):
                refused(name, call, error)
    for name, text in texts.items():
        for word in words:
            assert word in text, f"{name}: {text}"
    return texts


WRONG = (2, 15, 100, 127, 128, 1000, -2)

OF_OPENREG = """
    ExternalStream Stream caching_allocator_alloc can_device_access_peer current_stream
    default_stream device_handle device_memory_used get_device_capability
    get_device_name get_device_properties get_per_process_memory_fraction get_rng_state
    get_stream_from_external max_memory_allocated max_memory_cached max_memory_reserved
    mem_get_info memory_allocated memory_cached memory_reserved memory_stats
    memory_stats_as_nested_dict memory_summary queue_stats
    reset reset_accumulated_memory_stats reset_max_memory_allocated
    reset_max_memory_cached reset_peak_memory_stats set_device
    set_per_process_memory_fraction set_rng_state synchronize utilization
    memory._record_memory_history memory._snapshot device _exchange_device
    _maybe_exchange_device
""".split()
# The arguments before the index.
BEFORE = {
    "ExternalStream": (1,),
    "caching_allocator_alloc": (1,),
    "can_device_access_peer": (0,),
    "get_stream_from_external": (1,),
    "set_per_process_memory_fraction": (1.0,),
    "set_rng_state": (torch.zeros(16, dtype=torch.uint8),),
    "memory._record_memory_history": ("all", "all", "all", 1),
}
# As with torch.cuda, a negative number means none.
NONE_IF_NEGATIVE = {"device", "_exchange_device", "_maybe_exchange_device"}

OF_ACCELERATOR = """
    current_stream device_index get_device_capability get_memory_info
    max_memory_allocated max_memory_reserved memory_allocated memory_reserved
    memory_stats reset_accumulated_memory_stats reset_peak_memory_stats
    set_device_index synchronize
""".split()
NONE_OF_ACCELERATOR = {("set_device_index", -2), ("device_index", -2)}
REFUSALS = (RuntimeError, TypeError, ValueError)


def of_module(module, name, index):
    for part in name.split("."):
        module = getattr(module, part)
    made = module(*BEFORE.get(name, ()), index)
    if hasattr(made, "__enter__"):
        with made:
            pass


def calls_with(index):
    where = f"openreg:{index}"
    x = torch.ones(1)
    return {
        "empty": lambda: torch.empty(1, device=where),
        "empty_strided": lambda: torch.empty_strided((1,), (1,), device=where),
        "zeros": lambda: torch.zeros(1, device=torch.device(DEV, index)),
        "by number": lambda: torch.ones(1, device=index),
        "to": lambda: x.to(where),
        "openreg": lambda: x.openreg(index),
        "pickled": lambda: torch.UntypedStorage(4, device=where),
        "storage": lambda: x.untyped_storage().openreg(index),
        "module": lambda: torch.nn.Linear(1, 1).to(where),
        "Generator": lambda: torch.Generator(where),
        "torch.Stream": lambda: torch.Stream(where),
        "like": lambda: torch.ones_like(x, device=where),
    }


@pytest.fixture
def on_card():
    """A tensor on the card, so that the plugin is initialized."""
    return torch.zeros(1, device=DEV)


def test_missing_device(on_card):
    """The error has the number of cards, if core passes the index on."""
    for index in WRONG:
        left_out = NONE_IF_NEGATIVE if index < 0 else ()
        cases = {
            name: lambda name=name: of_module(torch.openreg, name, index)
            for name in OF_OPENREG
            if name not in left_out
        }
        error = ValueError if index < 0 else RuntimeError
        texts = {name: refused(name, call, error) for name, call in cases.items()}
        for name, text in texts.items():
            assert "2 cards" in text and "device_count()" in text, f"{name}: {text}"
            assert str(index) in text, f"{name}: {text}"
    assert torch.openreg.current_device() == 0


def test_negative_device_means_none():
    for name in NONE_IF_NEGATIVE:
        of_module(torch.openreg, name, -2)
    torch.accelerator.set_device_index(-2)
    assert torch.openreg.current_device() == 0


def test_missing_device_of_torch_accelerator(on_card):
    """Core keeps an index in 8 bits, and raises TypeError for a larger one."""
    for index in WRONG:
        for name in OF_ACCELERATOR:
            if (name, index) in NONE_OF_ACCELERATOR:
                continue
            error = TypeError if index > 127 else RuntimeError
            text = refused(
                name, lambda: of_module(torch.accelerator, name, index), error
            )
            if index <= 127:
                assert "2 cards" in text and "device_count()" in text, f"{name}: {text}"
    assert torch.openreg.current_device() == 0


def test_tensors_for_a_missing_device(on_card):
    """Core turns an index of 128 or more into a negative one. This must not mean the
    current device."""
    for index in WRONG:
        for name, call in calls_with(index).items():
            text = refused(f"{name} {index}", call)
            if index >= 0:
                assert "2 cards" in text and "device_count()" in text, f"{name}: {text}"


def test_wrong_devices_leak_nothing(on_card):
    cases = {}
    for index in WRONG:
        for name in OF_OPENREG:
            if name not in NONE_IF_NEGATIVE:
                cases[name, index] = lambda n=name, i=index: of_module(torch.openreg, n, i)
        for name, call in calls_with(index).items():
            cases[name, index] = call
        for name in OF_ACCELERATOR:
            if (name, index) not in NONE_OF_ACCELERATOR:
                cases[f"accelerator.{name}", index] = lambda n=name, i=index: of_module(
                    torch.accelerator, n, i
                )
    names = sorted({name for name, _ in cases})
    with nothing_is_lost():
        for turn in range(TRIES):
            index = WRONG[turn % len(WRONG)]
            for name in names:
                if (name, index) in cases:
                    refused(name, cases[name, index], REFUSALS)


def test_statistics_before_the_first_use(run_forked):
    """Before the first use torch.openreg also refuses a missing device. Core's own
    functions return nothing for any device, as with torch.cuda."""
    code = (
        "import torch\n"
        "for name in ('memory_stats', 'memory_allocated', 'max_memory_reserved',\n"
        "             'memory_summary', 'default_stream', 'reset_peak_memory_stats'):\n"
        "    try:\n"
        "        getattr(torch.openreg, name)(99)\n"
        "        print(name)\n"
        "    except RuntimeError as error:\n"
        "        assert '2 cards' in str(error), error\n"
        "assert torch.openreg.memory_stats() == {} == torch.openreg.memory_stats(1)\n"
        "assert torch.accelerator.memory_stats(99) == {}\n"
    )
    assert run_forked(code) == ""


def test_sizes_that_overflow(on_card):
    big = 2**40
    x = torch.empty(1, device=DEV)
    cases = {
        "empty": lambda: torch.empty((big, big), device=DEV),
        "empty 2^62": lambda: torch.empty(2**62, device=DEV),
        "zeros": lambda: torch.zeros(big, big, device=DEV),
        "full": lambda: torch.full((big, big), 1.0, device=DEV),
        "new_empty": lambda: x.new_empty(big, big),
        "empty_strided": lambda: torch.empty_strided((big, big), (1, big), device=DEV),
        "strides": lambda: torch.empty_strided((2, 2), (2**62, 2**62), device=DEV),
        "arange": lambda: torch.arange(2**61, device=DEV),
        "randperm": lambda: torch.randperm(2**60, device=DEV),
        "resize_": lambda: torch.empty(1, device=DEV).resize_(2**62),
        "resize_ to fewer than none": lambda: torch.empty(1, device=DEV).resize_(-1),
        "resize_ twice": lambda: torch.empty(1, device=DEV).resize_(big, big),
        "set_": lambda: x.set_(x.untyped_storage(), 0, (big, big), (big, 1)),
        "eye": lambda: torch.eye(2**32, device=DEV),
    }
    for name, text in all_refused(cases).items():
        assert "overflow" in text, f"{name}: {text}"


def test_sizes_larger_than_the_card(on_card):
    x = torch.ones(1, device=DEV)
    cases = {
        "empty": lambda: torch.empty(2**45, device=DEV),
        "clone": lambda: x.expand(2**60).clone(),
        "storage": lambda: torch.UntypedStorage(2**62, device=DEV),
        "resize_": lambda: torch.empty(1, device=DEV).resize_(2**50),
        "resize_ of a storage": lambda: x.untyped_storage().resize_(2**62),
        "fewer than no bytes": lambda: torch.UntypedStorage(-1, device=DEV),
        "fewer than none after": lambda: x.untyped_storage().resize_(-1),
    }
    all_refused(cases, torch.OutOfMemoryError, ["Tried to allocate", "empty_cache()"])
    assert x.tolist() == [1]


def test_invalid_sizes(on_card):
    x = torch.ones(1, device=DEV)
    cases = {
        "empty": lambda: torch.empty(-1, device=DEV),
        "new_empty": lambda: x.new_empty(2, -1),
    }
    all_refused(cases, RuntimeError, ["negative dimension", "-1"])
    cases = {
        "as_strided": lambda: x.as_strided((2**40,), (1,)),
        "with strides": lambda: torch.as_strided(x, (2, 2), (2**40, 1)),
    }
    all_refused(cases, RuntimeError, ["out of bounds for storage of size 4"])
    assert x.tolist() == [1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantized_tensors(on_card):
    x = torch.ones(2, 2, device=DEV)
    on_the_cpu = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    cases = {
        "to": lambda: on_the_cpu.to(DEV),
        "empty": lambda: torch.empty(2, dtype=torch.quint8, device=DEV),
        "per tensor": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        "per channel": lambda: torch.quantize_per_channel(
            x, torch.ones(2).to(DEV), torch.zeros(2).to(DEV), 0, torch.qint8
        ),
    }
    all_refused(cases, NotImplementedError, ["openreg has no quantized", "dequantize()"])
    assert on_the_cpu.dequantize().to(DEV).cpu().tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nested_tensors(on_card):
    nested = torch.nested
    for grad in (False, True):
        parts = [torch.ones(n, device=DEV, requires_grad=grad) for n in (2, 3)]
        whole = torch.ones(2, 3, device=DEV, requires_grad=grad)
        host = nested.nested_tensor([torch.ones(2)], requires_grad=grad)
        cases = {
            "nested_tensor": lambda: nested.nested_tensor(parts, device=DEV, requires_grad=grad),
            "of its parts": lambda: nested.nested_tensor(parts),
            "of the CPU's parts": lambda: nested.nested_tensor([torch.ones(2)], device=DEV),
            "of lists": lambda: nested.nested_tensor([[1.0], [2.0, 3.0]], device=DEV),
            "of nothing": lambda: nested.nested_tensor([], device=DEV),
            "as_nested_tensor": lambda: nested.as_nested_tensor(parts),
            "as_nested_tensor of one": lambda: nested.as_nested_tensor(whole),
            "of a device": lambda: nested.as_nested_tensor([torch.ones(2)], device=DEV),
            "of a list": lambda: torch._nested_tensor_from_tensor_list(parts),
            "of a mask": lambda: torch._nested_tensor_from_mask(
                whole[None], torch.ones(1, 2, device=DEV).bool()),
            "of padding": lambda: torch._nested_from_padded(
                whole[None], torch.tensor([[1, 2]]), False),
            "of a buffer": lambda: torch._nested_view_from_buffer(
                whole.view(-1), torch.tensor([[2], [4]]), torch.ones(2, 1).long(),
                torch.tensor([0, 2])),
            "to": lambda: host.to(DEV),
        }
        all_refused(cases, NotImplementedError, ["openreg has no nested", "torch.jagged"])


def mixed(E, O):
    """{name: operator}. E makes tensors on one device, O on another."""
    F = torch.nn.functional
    i = lambda make: make(2).long() * 0  # noqa: E731
    b = lambda make: make(2, 2).bool()  # noqa: E731
    return {
        "add": lambda: E(2, 2) + O(2, 2),
        "add_": lambda: E(2, 2).add_(O(2, 2)),
        "mul": lambda: E(2, 2) * O(2, 2),
        "eq": lambda: E(2, 2) == O(2, 2),
        "mm": lambda: E(2, 2) @ O(2, 2),
        "bmm": lambda: torch.bmm(E(2, 2, 2), O(2, 2, 2)),
        "addmm": lambda: torch.addmm(O(2, 2), E(2, 2), E(2, 2)),
        "linear": lambda: F.linear(E(2, 2), E(2, 2), O(2)),
        "index_select": lambda: torch.index_select(E(2, 2), 0, i(O)),
        "gather": lambda: torch.gather(E(2, 2), 0, i(O).view(1, 2)),
        "embedding": lambda: F.embedding(i(O), E(2, 2)),
        "layer_norm": lambda: F.layer_norm(E(2, 2), (2,), O(2), O(2)),
        "batch_norm": lambda: F.batch_norm(E(2, 2), E(2), E(2), O(2), O(2), True),
        "batch_norm's state": lambda: F.batch_norm(E(2, 2), O(2), O(2)),
        "conv1d": lambda: F.conv1d(E(1, 1, 3), O(1, 1, 2)),
        "conv2d": lambda: F.conv2d(E(1, 1, 3, 3), O(1, 1, 2, 2)),
        "conv2d's bias": lambda: F.conv2d(E(1, 1, 3, 3), E(1, 1, 2, 2), O(1)),
        "conv3d": lambda: F.conv3d(E(1, 1, 3, 3, 3), O(1, 1, 2, 2, 2)),
        "conv_transpose2d": lambda: F.conv_transpose2d(E(1, 1, 3, 3), O(1, 1, 2, 2)),
        "dilated": lambda: F.conv2d(E(1, 1, 5, 5), O(1, 1, 2, 2), dilation=2),
        "max_unpool2d": lambda: F.max_unpool2d(
            *(t(pool) for t, pool in zip((E, O), pooled())), 2
        ),
        "max_pool2d's backward": lambda: backward_of_pool(E, O),
        "lstm": lambda: lstm(E)(O(1, 1, 2)),
        "lstm's state": lambda: lstm(E)(E(1, 1, 2), (O(1, 1, 2), O(1, 1, 2))),
        "gru": lambda: torch.nn.GRU(2, 2).to(E(1).device)(O(1, 1, 2)),
        "cat": lambda: torch.cat([E(2, 2), O(2, 2)]),
        "stack": lambda: torch.stack([E(2, 2), O(2, 2)]),
        "where": lambda: torch.where(b(E), E(2, 2), O(2, 2)),
        "where's condition": lambda: torch.where(b(O), E(2, 2), E(2, 2)),
        "scatter": lambda: E(2, 2).scatter(0, i(E).view(1, 2), O(2, 2)),
        "scatter's index": lambda: E(2, 2).scatter(0, i(O).view(1, 2), E(2, 2)),
        "scatter_add": lambda: E(2, 2).scatter_add(0, i(O).view(1, 2), E(2, 2)),
        "index_add": lambda: E(2, 2).index_add(0, i(E), O(2, 2)),
        "index_put": lambda: E(2, 2).index_put((i(E),), O(2, 2)),
        "masked_fill": lambda: E(2, 2).masked_fill(b(O), 0),
        "masked_select": lambda: E(2, 2).masked_select(b(O)),
        "cross_entropy": lambda: F.cross_entropy(E(2, 2), i(O)),
        "mse_loss": lambda: F.mse_loss(E(2, 2), O(2, 2)),
        "attention": lambda: F.scaled_dot_product_attention(
            E(1, 1, 2, 2), O(1, 1, 2, 2), E(1, 1, 2, 2)
        ),
        "prelu": lambda: F.prelu(E(2, 2), O(1)),
        "lerp": lambda: torch.lerp(E(2, 2), O(2, 2), 0.5),
        "foreach_add": lambda: torch._foreach_add([E(2, 2)], [O(2, 2)]),
        "foreach_mul_": lambda: torch._foreach_mul_([E(2), E(2)], [E(2), O(2)]),
        "cholesky_solve": lambda: torch.cholesky_solve(E(2, 2), O(2, 2)),
    }


def pooled():
    return torch.nn.functional.max_pool2d(torch.ones(1, 1, 4, 4), 2, return_indices=True)


def backward_of_pool(E, O):
    backward = torch.ops.aten.max_pool2d_with_indices_backward
    how = [2, 2], [2, 2], [0, 0], [1, 1], False
    indices = pooled()[1].to(O(1).device)
    return backward(E(1, 1, 2, 2), E(1, 1, 4, 4), *how, indices)


def lstm(E):
    return torch.nn.LSTM(2, 2).to(E(1).device)


def maker(where):
    def make(*given):
        if isinstance(given[0], torch.Tensor):
            return given[0].to(where)
        return torch.ones(*given, device=where)

    return make


@pytest.mark.parametrize("other", ["cpu", "openreg:1"])
@pytest.mark.parametrize("first", [True, False])
def test_operands_of_two_devices(other, first):
    makers = [maker("openreg:0"), maker(other)]
    cases = mixed(*(makers if first else reversed(makers)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = all_refused(cases)
    for name, text in texts.items():
        assert "openreg:0" in text and other in text, f"{name}: {text}"


def test_operands_allowed_on_two_devices():
    """As with CUDA: single numbers, indices on the CPU, and copies."""
    x = torch.arange(4.0).to(DEV)
    for y in (
        x + torch.tensor(1.0),
        x[torch.tensor([0, 1])] + 1,
        x.masked_fill(x > 1, torch.tensor(0.0)),
        torch.empty(4, device="openreg:1").copy_(x),
        torch._foreach_copy_([torch.empty(4)], [x]) and x,
    ):
        assert y.numel() in (2, 4)
    x.index_put_((torch.tensor([3]),), torch.tensor(9.0))
    assert x.tolist() == [0, 1, 2, 9]


def test_fallback_with_operands_of_two_devices():
    """The fallback takes lengths on the CPU, but refuses an out= there."""
    x = torch.ones(4, dtype=torch.int64, device=DEV)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        torch.ones(3, 2, 4, device=DEV), torch.tensor([3, 1]), enforce_sorted=False
    )
    assert packed.data.device == x.device
    torch.openreg.reset_fallbacks()
    bins = torch.histc(x.float(), torch.tensor(4), torch.tensor(0), torch.tensor(4))
    assert bins.cpu().tolist() == [0, 4, 0, 0]
    torch.openreg.reset_fallbacks()
    square, out = 4 * torch.eye(2, device=DEV), torch.full((2, 2), 7.0)
    with pytest.raises(RuntimeError, match="same device.*openreg:0 and cpu"):
        torch.linalg.cholesky(square, out=out)
    assert out.tolist() == [[7, 7]] * 2
    result = torch.linalg.cholesky(square, out=torch.zeros_like(square))
    assert result.tolist() == [[2, 0], [0, 2]]
    assert torch.openreg.fallbacks()


def into(out):
    """{name: (the result's shape, a call with out=out())}"""
    x, i = torch.ones(2, 2, device=DEV), torch.zeros(2, dtype=torch.int64, device=DEV)
    return {
        "add": ((2, 2), lambda: torch.add(x, x, out=out())),
        "exp": ((2, 2), lambda: torch.exp(x, out=out())),
        "sum": ((2,), lambda: torch.sum(x, 0, out=out())),
        "mean": ((2,), lambda: torch.mean(x, 0, out=out())),
        "mm": ((2, 2), lambda: torch.mm(x, x, out=out())),
        "addmm": ((2, 2), lambda: torch.addmm(x, x, x, out=out())),
        "cat": ((4, 2), lambda: torch.cat([x, x], out=out())),
        "index_select": ((2, 2), lambda: torch.index_select(x, 0, i, out=out())),
        "gather": ((1, 2), lambda: torch.gather(x, 0, i.view(1, 2), out=out())),
        "where": ((2, 2), lambda: torch.where(x > 0, x, x, out=out())),
        "cumsum": ((2, 2), lambda: torch.cumsum(x, 0, out=out())),
        "softmax": ((2, 2), lambda: torch.softmax(x, 0, out=out())),
        "topk": ((2, 1), lambda: torch.topk(x, 1, out=(out(), i.new_empty(0)))[0]),
        "max": ((2,), lambda: torch.max(x, 0, out=(out(), i.new_empty(0)))[0]),
    }


def test_results_of_another_shape():
    """The operator resizes out=. Core warns unless out= was empty."""
    for name, (shape, call) in into(lambda: torch.empty(5, device=DEV)).items():
        with pytest.warns(UserWarning, match="was resized since it had shape \\[5\\]"):
            assert call().shape == shape, name
    for name, (shape, call) in into(lambda: torch.empty(0, device=DEV)).items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert call().shape == shape, name


def test_results_of_another_shape_leak_nothing():
    """The old memory of a resized out= is freed."""
    calls = [call for _, call in into(lambda: torch.empty(3, device=DEV)).values()]
    with nothing_is_lost(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls * TRIES:
            call()


@pytest.mark.parametrize("other", ["cpu", "openreg:1"])
def test_results_on_another_device(other):
    cases = {
        name: call
        for name, (_, call) in into(lambda: torch.empty(5, device=other)).items()
    }
    texts = all_refused(cases)
    for name, text in texts.items():
        assert "openreg:0" in text and other in text, f"{name}: {text}"
