# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers in graphs of torch.compile() that compute a part twice.

AOTAutograd gives the second computation the numbers of the first with a generator of its
own, if it knows that the device's generators can share a state. This module registers the
device only when a program imports AOTAutograd: the import takes a second, and most programs
do not need it.
"""

import importlib.abc
import importlib.util
import sys

_NAME = "torch._functorch._aot_autograd.utils"


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != _NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.register_graphsafe_rng_device_type("openreg")

        spec.loader.exec_module = exec_module
        return spec


def install() -> None:
    if _NAME in sys.modules:
        sys.modules[_NAME].register_graphsafe_rng_device_type("openreg")
    else:
        sys.meta_path.insert(0, _Finder())
