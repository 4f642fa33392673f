# SPDX-License-Identifier: MIT
"""(h) torch.compile on the card inside the process, compared with eager mode and with
torch.compile on the CPU. usage: compiled.py [cold DEVICE]"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

from fair import fair_environment

fair_environment()

import torch  # noqa: E402

from common import DEVICES, figure, measure, synchronize  # noqa: E402
from functions import eight, layer_norm, normal, softmax  # noqa: E402
from networks import NETWORKS, bert, resnet18  # noqa: E402


# name: (function, shape of its two arguments, calls a measurement, measurements)
FUNCTIONS = {
    "8 operators over 16M floats": (eight, (1 << 24,), 1, 7),
    "8 operators over 4096 floats": (eight, (4096,), 1000, 15),
    "layer norm and GELU of 4096x1024": (normal, (4096, 1024), 4, 7),
    "softmax from operators, 4096x4096": (softmax, (4096, 4096), 1, 7),
    "layer norm from operators, 4096x4096": (layer_norm, (4096, 4096), 1, 7),
}
# Also replayed as a graph, and compiled to code that does nothing: the call then costs
# Dynamo's guards, and the wrapper of AOTAutograd.
SMALL = "8 operators over 4096 floats"
STEPS = {
    "GPT-2 of 4 layers, 2x128: step": NETWORKS["GPT-2 of 4 layers, 2x128"],
    "BERT of 4 layers, 2x128: step": bert,
}


def ready_result(graph, inputs):
    """Compiles every graph to code that returns its first argument."""
    from torch._dynamo.backends.common import aot_autograd

    def code(args):
        first = args[0]
        args.clear()
        return (first,)

    code._boxed_call = True
    return aot_autograd(fw_compiler=lambda graph, inputs: code)(graph, inputs)


def ways(device, options, small=False):
    """The ways to call a function on the device: a name, and a function of it."""
    if device == "cpu":
        # Inductor needs a C++ compiler for the CPU.
        return {"cpu, compiled": torch.compile} if shutil.which("g++") else {}
    found = {"compiled": torch.compile, "eager": lambda f: f}
    if small:
        found["a ready result"] = lambda f: torch.compile(f, backend=ready_result)
    if options:
        found["reduce-overhead"] = lambda f: torch.compile(f, mode="reduce-overhead")
    return found


def functions():
    for name, (function, shape, calls, runs) in FUNCTIONS.items():
        for device in DEVICES:
            x, y = torch.rand(shape).to(device), torch.rand(shape).to(device)
            for way, compiled in ways(device, name == SMALL, name == SMALL).items():
                torch.compiler.reset()
                run = compiled(function)

                def repeat(run=run, x=x, y=y):
                    for _ in range(calls):
                        run(x, y)

                with torch.no_grad():
                    for _ in range(3):
                        run(x, y)
                    took = measure(repeat, device, runs) / calls
                figure("h", f"{name}, in process, {way}", 1e3 * took, "ms")


def steps():
    for name, make in STEPS.items():
        for device in DEVICES:
            for way, compiled in ways(device, True).items():
                torch.compiler.reset()
                step = make(device, compiled)
                for _ in range(4):
                    step()
                took = measure(step, device, 7)
                figure("h", f"{name}, in process, {way}", 1e3 * took, "ms")


def cold(device):
    """The first step of a compiled network, with no code in the caches."""
    step = resnet18(device, torch.compile)
    begin = time.perf_counter()
    step()
    synchronize(device)
    print(time.perf_counter() - begin)


def colds():
    for device in DEVICES:
        if device == "cpu" and not ways("cpu", False):
            continue
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
            took = subprocess.run([sys.executable, __file__, "cold", device], check=True,
                                  env=environment, stdout=subprocess.PIPE, text=True).stdout
        figure("h", f"ResNet-18: cold compile, in process, {device}",
               float(took.split()[-1]), "s")


if sys.argv[1:2] == ["cold"]:
    cold(sys.argv[2])
    sys.exit()
functions()
steps()
colds()
