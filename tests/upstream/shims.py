# SPDX-License-Identifier: MIT
"""Supplies names that PyTorch's tests of another version import and this torch lacks."""

import importlib
import os
import sys
import types

import torch
from torch.testing._internal import common_device_type as device_type

# {module: function that returns the old names of the module with their values}
NAMES = {
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
}


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
    # Older tests do not restore TF32. Newer torch would count this as a failure.
    os.environ["PYTORCH_DISABLE_FP32_PRECISION_LEAK_CHECK"] = "1"
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device.replace("openreg", "privateuse1")
