# SPDX-License-Identifier: BSD-3-Clause
"""
What Inductor does differently for openreg. Nothing here changes code for other devices.

- cat and slice_scatter write each part into its place.
- Operators that gather, scatter, pad or sort keep their eager kernels: VECTOR has no indexed
  access.
- A division by a constant stays a division, so that its bits are those of eager.
- A variance is two sums. VECTOR has no Welford reduction.
- A product with a weight of 8 bits and its scales are one operator.
- The gradient of an embedding is added to another gradient of its weight in place.
- Random operators keep their eager kernels, so that the numbers are those of eager.
"""

import functools
import hashlib
import pathlib
from typing import Any, Sequence

import sympy
import torch
from torch._inductor import decomposition, ir, lowering
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import ops
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND

from . import embeddings, on_cpu, quantized

aten = torch.ops.aten

# The overload packets whose operators keep their eager kernel, if their result is on openreg.
_EAGER = {
    # places from data
    aten.bucketize,
    aten.embedding,
    aten.embedding_dense_backward,
    aten.gather,
    aten.index,
    aten.index_put,
    aten.index_put_,
    aten.index_select,
    aten.scatter,
    aten.scatter_,
    aten.scatter_add,
    aten.scatter_add_,
    aten.scatter_reduce,
    aten.scatter_reduce_,
    aten.searchsorted,
    aten._unsafe_index,
    aten._unsafe_index_put,
    aten._unsafe_masked_index,
    aten._unsafe_masked_index_put_accumulate,
    # places outside of a tensor
    aten.avg_pool2d,
    aten.avg_pool2d_backward,
    aten.avg_pool3d,
    aten.avg_pool3d_backward,
    aten._adaptive_avg_pool2d,
    aten.constant_pad_nd,
    aten.reflection_pad1d,
    aten.reflection_pad2d,
    aten.reflection_pad3d,
    aten.roll,
    aten.diagonal_scatter,
    aten.unfold_backward,
    aten.upsample_bilinear2d,
    aten.upsample_nearest2d,
    aten.upsample_nearest2d_backward,
    # products with scales
    aten._scaled_mm,
    aten._scaled_mm_v2,
    # functions that the card's programs lack
    aten.digamma,
    aten.erfinv,
    aten.igamma,
    aten.igammac,
    aten.polygamma,
    aten.nextafter,
    aten.i0,
    aten.special_i0e,
    aten.special_i1,
    aten.special_i1e,
    aten.special_bessel_j0,
    aten.special_bessel_j1,
    aten.special_bessel_y0,
    aten.special_bessel_y1,
    aten.special_erfcx,
    aten.special_modified_bessel_i0,
    aten.special_modified_bessel_i1,
    aten.special_modified_bessel_k0,
    aten.special_modified_bessel_k1,
    aten.special_ndtri,
    aten.special_zeta,
}

# These keep their eager kernel on every device: in a graph with the card, Inductor does
# not prepare them for its own random numbers.
_RANDOM = {
    aten.rand,
    aten.rand_like,
    aten.randn,
    aten.randn_like,
    aten.randint,
    aten.randint_like,
    aten.randperm,
    aten.bernoulli,
    aten.native_dropout,
    aten.uniform,
    aten.normal,
    aten.normal_functional,
    aten.exponential,
    aten.geometric,
    aten.cauchy,
    aten.log_normal,
    aten.rrelu_with_noise_functional,
}


# Operators that are not decomposed: their kernels use one pass where the decomposition needs
# several programs, or indexed access.
_WHOLE = (
    aten.max_pool2d_with_indices.default,
    aten.max_pool2d_with_indices_backward.default,
    aten.nll_loss_forward.default,
    aten.nll_loss2d_forward.default,
    aten.embedding_dense_backward.default,
)


# These are decomposed only along the last dimension, with the place of the dimension among the
# arguments. Along another one their kernels walk the memory in a better order.
_ROWS = {
    aten._softmax.default: 1,
    aten._log_softmax.default: 1,
    aten._softmax_backward_data.default: 2,
    aten._log_softmax_backward_data.default: 2,
}


def _on_card(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_on_card, value))
    return isinstance(value, torch.Tensor) and value.device.type == "openreg"


class Steering(CustomGraphModulePass):
    """Marks operators that keep their eager kernel, and changes patterns of operators."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        quantized.fuse(gm)
        embeddings.add_in_place(gm)
        for node in gm.graph.nodes:
            if node.op != "call_function":
                continue
            packet = getattr(node.target, "overloadpacket", None)
            eager = packet in _EAGER or node.target in _WHOLE or node.target in _ROWS
            if packet in _RANDOM or (eager and _on_card(node.meta.get("val"))):
                node.meta["should_fallback"] = True

    def uuid(self) -> str:
        """A key of cached code: the text of this package."""
        return _package_hash()


@functools.cache
def _package_hash() -> str:
    files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def _device_of(x: Any) -> str:
    device = x.get_device() if hasattr(x, "get_device") else None
    return device.type if device is not None else ""


def _variance(x, axis=None, *, correction=None, keepdim=False, mean: bool):
    if _device_of(x) != "openreg":
        return None
    dtype = x.get_dtype()
    compute = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    found = lowering.var_mean_sum_(
        lowering.to_dtype(x, compute, copy=False), axis, correction, keepdim, mean
    )
    found = tuple(lowering.to_dtype(t, dtype, copy=False) for t in found)
    return found if mean else found[0]


def _cat(inputs, dim=0):
    """Each part is written into its place: no program needs a mask."""
    rank = len(inputs[0].get_size())
    if _device_of(inputs[0]) != "openreg" or len(inputs) == 1:
        return None
    if any(len(t.get_size()) != rank for t in inputs):
        return None
    dtype = lowering.get_promoted_dtype(
        *inputs, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    )
    inputs = [lowering.to_dtype(t, dtype) for t in inputs]
    return ir.TensorBox(ir.ConcatKernel.create(inputs, dim % rank))


def _slice_scatter(x, src, dim=0, start=None, end=None, step=1):
    if _device_of(x) != "openreg" or step != 1:
        return None
    start, end = ir.SliceView.normalize_start_end(x, dim, start, end)
    size = x.get_size()[dim]
    if not all(sympy.sympify(n).is_Integer for n in (start, end, size)) or start >= end:
        return None
    parts = [lowering.to_dtype(src, x.get_dtype())]
    if start > 0:
        parts.insert(0, lowering.slice_(x, dim, 0, start))
    if end < size:
        parts.append(lowering.slice_(x, dim, end, size))
    return _cat(parts, dim) if len(parts) > 1 else lowering.clone(parts[0])


def _division_stays() -> None:
    """For GPUs, Inductor multiplies by the reciprocal of a constant."""
    divide = lowering.div_prim

    @functools.wraps(divide)
    def unless_on_card(a: Any, b: Any) -> Any:
        if _device_of(a) != "openreg" or not a.get_dtype().is_floating_point:
            return divide(a, b)
        return lowering.make_pointwise(lambda x, y: ops.truediv(x, y))(a, b)

    lowering.div_prim = unless_on_card


def _card_before_cpu() -> None:
    """A number on the CPU does not move a loop to the CPU, even as the first operand."""
    is_gpu = lowering.is_gpu
    lowering.is_gpu = lambda device: device == "openreg" or is_gpu(device)


def _random_stays_eager() -> None:
    """Keeps the random operators of graphs on openreg."""
    from torch._inductor.fx_passes import joint_graph

    replace = joint_graph.replace_random_passes

    @functools.wraps(replace)
    def unless_on_card(gm: torch.fx.GraphModule) -> int:
        if any(_on_card(node.meta.get("val")) for node in gm.graph.nodes):
            return 0
        return replace(gm)

    joint_graph.replace_random_passes = unless_on_card
    _leave(decomposition.extra_random_decomps, list(decomposition.extra_random_decomps))


def _leave(table: dict, operators: Sequence) -> None:
    """Makes decompositions refuse tensors on openreg, so that the operators stay."""
    for op in operators:
        if op in table:
            table[op] = _unless_on_card(table[op])


def _layout_stays() -> None:
    """Keeps the layout of convolutions: the card does not prefer channels last."""
    decide = GraphLowering.decide_layout_opt

    @functools.wraps(decide)
    def unless_on_card(gm: torch.fx.GraphModule, *, is_inference: bool) -> bool:
        if any(_on_card(node.meta.get("val")) for node in gm.graph.nodes):
            return False
        return decide(gm, is_inference=is_inference)

    GraphLowering.decide_layout_opt = staticmethod(unless_on_card)


def _only_rows(op: Any, place: int) -> None:
    table = decomposition.decompositions
    decomposed, whole = table[op], _unless_on_card(table[op])

    @functools.wraps(decomposed)
    def run(*args: Any, **kwargs: Any) -> Any:
        if args[place] not in (-1, args[0].dim() - 1):
            return whole(*args, **kwargs)
        if op is aten._softmax.default and _on_card(args) and 0 not in args[0].shape:
            return _softmax(*args)
        return decomposed(*args, **kwargs)

    table[op] = run


def _like_input(op: Any) -> None:
    """The gradient has the input's dtype, even if a number has another."""
    decomposed = decomposition.decompositions[op]

    @functools.wraps(decomposed)
    def run(grad: torch.Tensor, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = decomposed(grad, x, *args, **kwargs)
        return found.to(x.dtype) if _on_card(x) else found

    decomposition.decompositions[op] = run


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """As the eager kernel, multiplies by one over the sum."""
    dtype = torch.float32 if half_to_float else x.dtype
    x = x.contiguous().to(torch.promote_types(x.dtype, torch.float32))
    e = (x - x.amax(dim, keepdim=True)).exp()
    return (e * e.sum(dim, keepdim=True).reciprocal()).to(dtype)


def _unless_on_card(decomposed):
    @functools.wraps(decomposed)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _on_card(args) or torch.device(kwargs.get("device") or "cpu").type == "openreg":
            return NotImplemented
        return decomposed(*args, **kwargs)

    return run


def install() -> None:
    lowering.user_lowerings[aten.var_mean.correction] = functools.partial(
        _variance, mean=True
    )
    lowering.user_lowerings[aten.var.correction] = functools.partial(_variance, mean=False)
    lowering.user_lowerings[aten.cat.default] = _cat
    lowering.user_lowerings[aten.slice_scatter.default] = _slice_scatter
    on_cpu.install()
    _card_before_cpu()
    _division_stays()
    _random_stays_eager()
    _layout_stays()
    _leave(decomposition.decompositions, _WHOLE)
    _like_input(aten.nll_loss_backward.default)
    _like_input(aten.nll_loss2d_backward.default)
    for op, place in _ROWS.items():
        _only_rows(op, place)
    random = [
        getattr(packet, name)
        for packet in _RANDOM
        for name in packet.overloads()
        if not name.endswith("out")
    ]
    for op in (*_WHOLE, *_ROWS, *random):
        if op not in lowering.lowerings:
            lowering.make_fallback(op, warn=False, override_decomp=True)
    decomposition.fast_random_decomps.cache_clear()
