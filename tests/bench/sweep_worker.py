# SPDX-License-Identifier: MIT
"""Times calls on the card and on torch's CPU, in one process and in turns.

- A turn is a batch of N calls on the card or on the CPU. A turn on the card ends with one
  synchronize. So a turn costs as much as a loop over small operators: launches and
  execution overlap.
- N is the same for both. The CPU takes about BATCH_US for N calls; N is at least 1.
- The figure is the median of 7 turns, or of at least 3 turns if they take long.
- Before each turn comes a pause, in which the idle card stops polling. So neither device
  takes processors from the other.
- The environment is that of fair.py."""

import ctypes
import os
import pathlib
import platform
import statistics
import time
import warnings

from fair import QUIET, workers

BATCH_US = 400
TURNS, FEW_TURNS = 7, 3
PAUSE = 0.0004
MOST_CALLS = 64


def blas() -> str:
    """Returns the BLAS that torch uses, and the kernels that it has chosen for this CPU."""
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    for path in dict.fromkeys(line.split()[-1] for line in maps if "blas" in line):
        try:
            library = ctypes.CDLL(path)
            config, core = library.openblas_get_config, library.openblas_get_corename
        except (OSError, AttributeError):
            continue
        config.restype = core.restype = ctypes.c_char_p
        return f"{config().decode().split(' NO_')[0]}, kernels {core().decode()}"
    return "unknown"


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


class Worker:
    def __init__(self, options: dict) -> None:
        import torch
        import torch_openreg
        from conformance import entries, forms
        from conformance.worker import build_of

        warnings.simplefilter("ignore")
        torch.set_num_threads(workers())
        self.torch, self.options = torch, options
        self.build = build_of(torch_openreg)
        forms.same_on("openreg")
        self.ops = entries.Lists()["op"] if options["ops_too"] else {}
        self.maker = None

    def hello(self) -> dict:
        torch = self.torch
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        import sweep_models
        import sweep_shapes

        dtypes = {
            name: [
                d
                for d in self.options["dtypes"]
                if getattr(torch, d) in op.supported_dtypes("cpu")
            ]
            for name, op in self.ops.items()
        }
        return {
            "ops": {name: found for name, found in dtypes.items() if found},
            "shapes": list(sweep_shapes.CASES),
            "models": list(sweep_models.CASES),
            "machine": {
                "processor": processor(),
                "threads of each": workers(),
                "torch": torch.__version__,
                "BLAS": blas(),
                "oneDNN": torch.backends.mkldnn.is_available(),
                "environment": ", ".join(f"{k}={os.environ[k]}" for k in QUIET),
            },
        }

    def entry(self, key: str) -> dict:
        kind, rest = key.split(":", 1)
        try:
            return self._op(rest) if kind == "op" else self._case(kind, rest)
        except Exception as error:  # noqa: BLE001 - the entry's result
            text = " ".join(str(error).split())[:200]
            return {"status": "error", "error": f"{type(error).__name__}: {text}"}

    def _case(self, kind: str, name: str) -> dict:
        import sweep_models
        import sweep_shapes

        make = (sweep_models if kind == "model" else sweep_shapes).CASES[name]
        self.torch.manual_seed(0)
        figure = self._compare({d: make(d) for d in ("cpu", "openreg")})
        return {"status": "measured", "figures": [{"pass": "", "input": "", **figure}]}

    def _op(self, rest: str) -> dict:
        from sweep_inputs import Maker, elements

        name, dtype, size = rest.rsplit(":", 2)
        torch, op = self.torch, self.ops[name]
        self.maker = self.maker or Maker()
        dtype, target = getattr(torch, dtype), int(size)
        grad = dtype in op.supported_backward_dtypes("cpu")
        most = 2 if target > 10**5 else 1
        calls = self.maker.calls(op, dtype, target, grad, most)
        if not calls:
            return {"status": "no inputs"}
        torch.openreg.reset_fallbacks()
        figures = []
        for call in calls:
            about = {"input": call.text(), "elements": elements(call)}
            for which, pair in self._passes(op, call, grad):
                if torch.openreg.fallbacks():
                    return {"status": "fallback", "ops": list(torch.openreg.fallbacks())}
                figures.append({"pass": which, **about, **self._compare(pair)})
        if torch.openreg.fallbacks():
            return {"status": "fallback", "ops": list(torch.openreg.fallbacks())}
        return {"status": "measured", "figures": figures}

    def _passes(self, op, call, grad: bool):
        """Yields (name of the pass, {device: function})."""
        from conformance.cases import Forward

        torch = self.torch
        forward, backward = {}, {}
        for device in ("cpu", "openreg"):
            there = call.on(device)

            def run(there=there, device=device):
                with Forward.default_device(there, device):
                    return op(there.input, *there.args, **there.kwargs)

            def plain(run=run):
                with torch.no_grad():
                    return run()

            forward[device] = plain
            plain()
            if grad:
                backward[device] = self._backward(there, run)
        torch.openreg.synchronize()
        yield "forward", forward
        if grad and all(backward.values()):
            yield "backward", backward

    def _backward(self, call, run):
        from torch.utils._pytree import tree_leaves

        torch = self.torch
        inputs = [t for t in dict.fromkeys(call.tensors()) if t.requires_grad]
        outs = tree_leaves(call.process(run()))
        outs = [t for t in outs if isinstance(t, torch.Tensor) and t.requires_grad]
        if not inputs or not outs:
            return None
        grads = [torch.ones_like(t) for t in outs]

        def backward():
            torch.autograd.grad(
                outs, inputs, grads, retain_graph=True, allow_unused=True
            )

        backward()
        return backward

    def _turn(self, device: str, call, calls: int) -> float:
        """Returns the microseconds of one call."""
        time.sleep(PAUSE)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if device == "openreg":
            self.torch.openreg.synchronize()
        return 1e6 * (time.perf_counter() - begin) / calls

    def _compare(self, pair: dict) -> dict:
        once = {}
        for device, call in pair.items():
            self._turn(device, call, 1)
            once[device] = min(self._turn(device, call, 1) for _ in range(2))
        calls = max(1, min(MOST_CALLS, int(BATCH_US / once["cpu"])))
        turns = int(1e6 * self.options["seconds"] / (calls * sum(once.values())))
        turns = max(FEW_TURNS, min(TURNS, turns))
        times: dict = {device: [] for device in pair}
        for _ in range(turns):
            for device, call in pair.items():
                times[device].append(self._turn(device, call, calls))
        card, cpu = (statistics.median(times[d]) for d in ("openreg", "cpu"))
        return {
            "card_us": round(card, 2),
            "cpu_us": round(cpu, 2),
            "ratio": round(card / cpu, 3),
            "turns": turns,
        }
