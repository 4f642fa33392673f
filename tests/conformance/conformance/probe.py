# SPDX-License-Identifier: MIT
"""How many operators ran on the CPU for want of a kernel: only the backend knows.

A probe has reset() and read(), which returns {operator: count} since the reset, or
None if it cannot know."""

import importlib

import torch


class Unknown:
    name = "unknown"

    def reset(self) -> None:
        """Nothing to set back."""

    def read(self):
        return None


class DeviceModule:
    """Backends whose torch.<name> has fallbacks() and reset_fallbacks()."""

    name = "fallbacks"

    def __init__(self, module) -> None:
        self.reset = module.reset_fallbacks
        self.read = module.fallbacks


def make(device_type: str, given: str = ""):
    """given: "package.module:factory", called without arguments."""
    if given:
        module, _, factory = given.partition(":")
        return getattr(importlib.import_module(module), factory)()
    module = getattr(torch, device_type, None)
    if hasattr(module, "fallbacks") and hasattr(module, "reset_fallbacks"):
        return DeviceModule(module)
    return Unknown()
