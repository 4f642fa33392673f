# SPDX-License-Identifier: MIT
"""Names that PyTorch's tests of another version use and this torch no longer has."""

import importlib
import os
import sys
import types

import torch
from torch.testing._internal import common_device_type as device_type

# For each module: names of older versions, and their replacements.
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
    """Add the names of those modules that occur in `text`, a test file's source."""
    for path, names in NAMES.items():
        if path in text:
            module = importlib.import_module(path)
            for name, value in names(module).items():
                if not hasattr(module, name):
                    setattr(module, name, value)
    if device != "cpu":
        # The old name of upstream's example backend.
        sys.modules["pytorch_openreg"] = example = types.ModuleType("pytorch_openreg")
        example.NUM_DEVICES = torch.openreg.device_count()
        # Else the first class of each file would get the name "privateuse1".
        device_type.PrivateUse1TestBase.setUpClass()
    # Older tests do not restore TF32, which newer torch reports as a failure.
    os.environ["PYTORCH_DISABLE_FP32_PRECISION_LEAK_CHECK"] = "1"
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device.replace("openreg", "privateuse1")
