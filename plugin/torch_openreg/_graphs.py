# SPDX-License-Identifier: BSD-3-Clause
"""Graphs: captured packets that run again with one packet. The names are torch.cuda's."""

import gc

import torch
from torch.utils import _pytree as pytree

from . import _C
from ._device import current_device, synchronize
from ._memory import empty_cache
from ._streams import Stream, current_stream
from ._streams import stream as use_stream


def is_current_stream_capturing() -> bool:
    """True if a graph is being captured on the current stream."""
    return _C.is_capturing(current_device())


def graph_pool_handle() -> tuple[int, int]:
    """A new token for the memory of graphs that share it."""
    return _C.graph_pool_handle()


class Graph(torch._C._acceleratorGraph):
    """Work of the card that is captured once and replayed with one packet. See graph()."""

    def __new__(cls, keep_graph: bool = False):
        return super().__new__(cls, keep_graph)

    def __init__(self, keep_graph: bool = False):
        super().__init__(keep_graph)

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "default",
    ) -> None:
        """Begin to capture the current stream. graph() does so, too, and more."""
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)


class graph:
    """Captures what its block launches:

        g = torch.openreg.Graph()
        with torch.openreg.graph(g):
            y = model(x)
        x.copy_(new)
        g.replay()  # y has the results for the new x

    The block runs on a stream of its own, and launches nothing: y has no values before the
    first replay. pool is the pool() of a graph, or graph_pool_handle().
    """

    _streams: dict[int, torch.Stream] = {}  # by card

    def __init__(
        self,
        openreg_graph: Graph,
        pool: tuple[int, int] | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "default",
    ):
        if stream is None:
            card = current_device()
            if card not in graph._streams:
                graph._streams[card] = Stream(card)
            stream = graph._streams[card]
        self.capture_stream = stream
        self._graph = openreg_graph
        self._pool = pool
        self._mode = capture_error_mode
        self._scope = None

    def __enter__(self) -> None:
        if is_current_stream_capturing():
            raise RuntimeError(
                "another graph is being captured on this stream. End that capture first, "
                "or call the operators in one capture."
            )
        synchronize()
        gc.collect()
        empty_cache()
        scope = use_stream(self.capture_stream)
        scope.__enter__()
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            scope.__exit__(None, None, None)
            raise
        self._scope = scope

    def __exit__(self, kind, error, trace) -> None:
        try:
            if kind is None:
                self._graph.capture_end()
            else:
                self._graph.reset()  # the error of the block says what went wrong
        finally:
            self._scope.__exit__(kind, error, trace)


class _Graphed:
    """The graphs of one callable, and the tensors that they read and write."""

    def __init__(self, call, args: tuple, pool):
        self.args = tuple(pytree.arg_tree_leaves(*args))
        _check_callable(call, self.args)
        self.params = tuple(call.parameters()) if _is_module(call) else ()
        self.inputs = self.args + self.params
        self.call = call
        self.sample = args
        self.pool = pool
        self.forward = Graph()
        self.backward = Graph()

    def _gradients(self, outputs, grads, allow_unused: bool):
        """Gradients of the outputs that have some, for the inputs that want them."""
        wanted = [t for t in self.inputs if t.requires_grad]
        pairs = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
        if not pairs or not wanted:
            return (None,) * len(self.inputs)
        found = iter(
            torch.autograd.grad(
                [o for o, _ in pairs],
                wanted,
                [g for _, g in pairs],
                allow_unused=allow_unused,
            )
        )
        return tuple(next(found) if t.requires_grad else None for t in self.inputs)

    def warm_up(self, times: int, allow_unused: bool) -> None:
        for _ in range(times):
            outputs = pytree.tree_leaves(self.call(*self.sample))
            grads = [torch.zeros_like(o) for o in outputs]
            self._gradients(outputs, grads, allow_unused)

    def capture_forward(self) -> None:
        with graph(self.forward, pool=self.pool):
            outputs = self.call(*self.sample)
        self.outputs, self.structure = pytree.tree_flatten(outputs)

    def capture_backward(self, allow_unused: bool) -> None:
        self.output_grads = tuple(
            torch.empty_like(o) if o.requires_grad else None for o in self.outputs
        )
        with graph(self.backward, pool=self.pool):
            self.input_grads = self._gradients(
                self.outputs, self.output_grads, allow_unused
            )
        # Drop the autograd graph: its nodes belong to the stream of the capture.
        self.outputs = tuple(o.detach() for o in self.outputs)

    def check(self, inputs: list) -> None:
        """Raise unless the graphs can take the inputs."""
        if len(inputs) != len(self.args):
            raise TypeError(
                f"the graphed callable takes {len(self.args)} tensors, but got "
                f"{len(inputs)}. Pass as many as sample_args has."
            )
        for i, (sample, given) in enumerate(zip(self.args, inputs)):
            if not isinstance(given, torch.Tensor):
                raise TypeError(
                    f"tensor {i} of the arguments of the graphed callable is a "
                    f"{type(given).__name__}. Pass a tensor, as sample_args has."
                )
            if given.shape != sample.shape or given.dtype != sample.dtype:
                raise ValueError(
                    f"tensor {i} of the arguments of the graphed callable has shape "
                    f"{tuple(given.shape)} and dtype {given.dtype}, but was captured with "
                    f"shape {tuple(sample.shape)} and dtype {sample.dtype}. Pass a tensor "
                    "like the sample, or capture the callable again."
                )

    def function(self):
        """The callable that replays the graphs."""
        graphed = self

        class Replay(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                for static, given in zip(graphed.args, inputs):
                    if static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                graphed.forward.replay()
                return tuple(o.detach() for o in graphed.outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, *grads):
                for static, given in zip(graphed.output_grads, grads):
                    if static is not None and static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                graphed.backward.replay()
                # autograd adds the next gradients to what it gets in place, and the next
                # replay writes over it.
                return tuple(
                    None if g is None else g.clone() for g in graphed.input_grads
                )

        def replay(*args):
            inputs = pytree.arg_tree_leaves(*args)
            graphed.check(inputs)
            outputs = Replay.apply(*inputs, *graphed.params)
            return pytree.tree_unflatten(list(outputs), graphed.structure)

        return replay


def _is_module(call) -> bool:
    return isinstance(call, torch.nn.Module)


def _check_callable(call, args) -> None:
    if not all(isinstance(a, torch.Tensor) for a in args):
        raise TypeError(
            "make_graphed_callables() takes sample arguments that are tensors, or nested "
            "tuples, lists and dictionaries of tensors"
        )
    if not _is_module(call):
        return
    if call._backward_hooks or call._forward_hooks or call._forward_pre_hooks:
        raise RuntimeError(
            "a module that make_graphed_callables() captures cannot have hooks yet; "
            "register them on the module afterwards"
        )
    if any(b.requires_grad for b in call.buffers()):
        raise RuntimeError(
            "a module that make_graphed_callables() captures cannot have buffers that "
            "require gradients; make them parameters"
        )


def _replace_forward(module: torch.nn.Module, replay) -> torch.nn.Module:
    """The module replays while its training mode is that of the capture."""
    training, original = module.training, module.forward

    def forward(*args, **kwargs):
        if module.training == training:
            return replay(*args, **kwargs)
        return original(*args, **kwargs)

    module.forward = forward
    return module


def make_graphed_callables(
    callables,
    sample_args,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
):
    """Return versions of modules or functions whose forward and backward each are a graph.

    callables is one callable or a tuple of them, in the order in which the program calls
    them; sample_args has the arguments of each. Later arguments must have the same shapes,
    dtypes and layouts.
    """
    if torch.is_autocast_enabled("openreg") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables() cannot capture casts that autocast keeps for later "
            "calls. Use torch.autocast('openreg', cache_enabled=False)."
        )
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if pool is None:
        pool = graph_pool_handle()
    all_graphed = [_Graphed(c, a, pool) for c, a in zip(callables, sample_args, strict=True)]
    before, side = current_stream(), Stream()
    side.wait_stream(before)
    with use_stream(side):
        for graphed in all_graphed:
            graphed.warm_up(num_warmup_iters, allow_unused_input)
    before.wait_stream(side)
    for graphed in all_graphed:
        graphed.capture_forward()
    # Backward runs in the opposite order, and the graphs share memory.
    for graphed in reversed(all_graphed):
        graphed.capture_backward(allow_unused_input)
    made = tuple(
        _replace_forward(g.call, g.function()) if _is_module(g.call) else g.function()
        for g in all_graphed
    )
    return made[0] if single else made
