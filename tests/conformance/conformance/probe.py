# SPDX-License-Identifier: MIT
"""Counts the operators that the backend ran on the CPU because it has no kernel.

A probe has reset() and read(). read() returns {operator: count} since the reset, or None
if the backend does not report fallbacks."""

import importlib

import torch


class Unknown:
    name = "unknown"

    def reset(self) -> None:
        """Does nothing: this probe has no counters."""

    def read(self):
        return None


class DeviceModule:
    """For backends with torch.<name>.fallbacks() and reset_fallbacks()."""

    name = "fallbacks"

    def __init__(self, module) -> None:
        self.reset = module.reset_fallbacks
        self.read = module.fallbacks


def make(device_type: str, given: str = ""):
    """The probe for the device. given is "package.module:factory"; the factory takes no
    arguments."""
    if given:
        module, _, factory = given.partition(":")
        return getattr(importlib.import_module(module), factory)()
    module = getattr(torch, device_type, None)
    if hasattr(module, "fallbacks") and hasattr(module, "reset_fallbacks"):
        return DeviceModule(module)
    return Unknown()
