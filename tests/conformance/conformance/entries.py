# SPDX-License-Identifier: MIT
"""The entries to run: every entry of the lists, in every dtype of the device."""

import importlib.util
import re

import torch

from .keys import key_of


def _named(infos, name_of) -> dict:
    """The infos by name; a second info with the same name gets "#2"."""
    found: dict = {}
    for info in infos:
        name, n = name_of(info), 1
        while (name if n == 1 else f"{name}#{n}") in found:
            n += 1
        found[name if n == 1 else f"{name}#{n}"] = info
    return found


def _own_ops(path: str) -> list:
    """The OpInfos in the op_db of a file."""
    spec = importlib.util.spec_from_file_location("own_ops", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.op_db)


class Lists:
    """The lists by name, each imported at its first use."""

    def __init__(self, own_ops: str = "") -> None:
        self._own = own_ops
        self._lists: dict = {}

    def __getitem__(self, db: str) -> dict:
        if db not in self._lists:
            self._lists[db] = getattr(self, "_" + db)()
        return self._lists[db]

    def _op(self) -> dict:
        if self._own:
            return _named(_own_ops(self._own), lambda op: op.full_name)
        from torch.testing._internal.common_methods_invocations import op_db

        return _named(op_db, lambda op: op.full_name)

    def _module(self) -> dict:
        from torch.testing._internal.common_modules import module_db

        return _named(module_db, lambda module: module.name)

    def _optim(self) -> dict:
        from torch.testing._internal.common_optimizers import optim_db

        return _named(optim_db, lambda optim: optim.name)


def device_dtypes() -> list:
    """The names of the dtypes that the device reports; float32 if it reports none."""
    try:
        has = torch.accelerator.get_device_capability()["supported_dtypes"]
    except (RuntimeError, NotImplementedError, KeyError):
        has = {torch.float32}
    return sorted(str(dtype).removeprefix("torch.") for dtype in has)


def _wanted_dtypes(db: str, dtypes: list) -> list:
    """Only floating dtypes for modules and optimizers: their parameters need gradients."""
    if db == "op":
        return dtypes
    return [d for d in dtypes if getattr(torch, d).is_floating_point]


def list_keys(lists: Lists, dbs, dtypes: list, pattern: str = "") -> list:
    match = re.compile(pattern).search if pattern else lambda name: True
    return [
        key_of(db, name, dtype)
        for db in dbs
        for name in lists[db]
        if match(name)
        for dtype in _wanted_dtypes(db, dtypes)
    ]
