# SPDX-License-Identifier: MIT
"""Supplies names that PyTorch's tests of another version import and this torch lacks."""

import functools
import importlib
import os
import sys
import types
import unittest

import torch
from torch.testing._internal import common_device_type as device_type
from torch.utils._dtype_abbrs import dtype_abbrs

# {module: function that returns the old names of the module with their values}
NAMES = {
    "torch.testing._internal.common_utils": lambda module: {"dtype_abbrs": dtype_abbrs},
    "torch.testing._internal.common_cuda": lambda module: {
        "tf32_is_not_fp32": lambda: False,
    },
    "torch.testing._internal.common_mkldnn": lambda module: {
        "bf32_on_and_off": lambda precision=0: lambda test: test,
    },
    "torch.testing._internal.common_nn": lambda module: {
        "new_module_tests": module.get_new_module_tests(),
    },
    "torch.testing._internal.common_methods_invocations": lambda module: {
        "binary_ufuncs_and_refs": module.binary_ufuncs,
        "unary_ufuncs_and_refs": module.unary_ufuncs,
        "skip": device_type.skip,
        "xfail": device_type.xfail,
        "skipOps": lambda case, test, ops: device_type.skipOps(ops),
    },
    "torch.nn.attention.flex_attention": lambda module: {"create_nested_block_mask": None},
    "torch._inductor.codecache": lambda module: {"cpp_prefix_path": None},
    "torch._inductor.compile_fx": lambda module: {"complex_memory_overlap": None},
    "torch.testing._internal.inductor_utils": lambda module: {
        "HAS_CUDA": False,
        "HAS_XPU": False,
    },
    "torch.testing._internal.triton_utils": lambda module: {
        "requires_cuda": lambda test: test,
    },
}


def name_gpu(device):
    """Makes the device the "GPU" of PyTorch's tests of Inductor, which know it by a name."""
    from torch.testing._internal import inductor_utils

    if device != "cpu":
        inductor_utils.GPU_TYPE = device
        inductor_utils.HAS_CPU = False  # do not create the cases for the CPU
        inductor_utils.HAS_MULTIGPU = torch.openreg.device_count() > 1
    inductor_utils.requires_gpu = functools.partial(
        unittest.skipIf, device == "cpu", "requires gpu"
    )


def instantiate_template(module, device):
    """Creates the cases of Inductor's template, as the module does for the CPU and CUDA. The
    file of dynamic shapes imports the template of another file, and has one of its own."""
    for name in ("DynamicShapesCommonTemplate", "CommonTemplate"):
        template = getattr(module, name, None)
        if template is None:
            continue
        common = module.check_model if device == "cpu" else module.check_model_gpu
        members = {"common": common, "device": device, "device_type": device}
        kind = type(name + device.upper(), (module.TestCase,), members)
        module.copy_tests(template, kind, device)
        setattr(module, kind.__name__, kind)
        break


def be_gpu(module, device):
    """Gives the device the tolerances and the number of samples that the file of OpInfo has
    for CUDA. Its lists of skips and expected failures stay CUDA's."""
    for name in ("inductor_override_kwargs", "inductor_one_sample"):
        if device != "cpu" and (table := getattr(module, name, None)) is not None:
            table[device] = table["cuda"]
    for name, kind in vars(module).copy().items():
        if name.startswith("TestInductorDynamic"):
            module.HAS_GPU = True  # otherwise setUp() skips all cases
            # In Python 3.14 a partial function of a class is a method.
            kind.compile_fn = staticmethod(functools.partial(torch.compile, dynamic=True))


def limit_inputs(count):
    """Keeps the first and the last input of each OpInfo, and others at equal distances."""
    from torch.testing._internal.opinfo.core import OpInfo

    every = OpInfo.sample_inputs

    @functools.wraps(every)
    def some(*args, **kwargs):
        found = list(every(*args, **kwargs))
        last = len(found) - 1
        places = {round(i * last / max(count - 1, 1)) for i in range(count)}
        return [found[i] for i in sorted(places)] if found else []

    OpInfo.sample_inputs = some


def install(device, text):
    """Supplies the names for a test file with this text. Imports only modules that occur in
    the text, since imports take time."""
    for path, names in NAMES.items():
        if path in text:
            module = importlib.import_module(path)
            for name, value in names(module).items():
                if not hasattr(module, name):
                    setattr(module, name, value)
    if device != "cpu":
        # The example backend in the tests' version of PyTorch; upstream has renamed it.
        sys.modules["pytorch_openreg"] = example = types.ModuleType("pytorch_openreg")
        example.NUM_DEVICES = torch.openreg.device_count()
        # Otherwise the first class of each file would be named "privateuse1".
        device_type.PrivateUse1TestBase.setUpClass()
    if "torch._inductor" in text:
        name_gpu(device)
    # Older tests do not restore TF32. Newer torch would count this as a failure.
    os.environ["PYTORCH_DISABLE_FP32_PRECISION_LEAK_CHECK"] = "1"
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device.replace("openreg", "privateuse1")
