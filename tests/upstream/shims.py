# SPDX-License-Identifier: MIT
"""What PyTorch's tests of another version miss in this torch, under the names they use."""

import importlib
import os
import sys
import types

import torch
from torch.testing._internal import common_device_type as device_type

# By module: names of older versions, and what they stand for.
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
    """For a file that consists of `text`: what it does not import takes no time."""
    for path, names in NAMES.items():
        if path in text:
            module = importlib.import_module(path)
            for name, value in names(module).items():
                if not hasattr(module, name):
                    setattr(module, name, value)
    if device != "cpu":
        # The example backend of the tests' version, which upstream has renamed since.
        sys.modules["pytorch_openreg"] = example = types.ModuleType("pytorch_openreg")
        example.NUM_DEVICES = torch.openreg.device_count()
        # Or each file's first class only would be named "privateuse1".
        device_type.PrivateUse1TestBase.setUpClass()
    # Older tests leave TF32 as they set it, which newer torch takes for a failure.
    os.environ["PYTORCH_DISABLE_FP32_PRECISION_LEAK_CHECK"] = "1"
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device.replace("openreg", "privateuse1")
