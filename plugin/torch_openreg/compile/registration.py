# SPDX-License-Identifier: BSD-3-Clause
"""Registers the backend with Dynamo and Inductor."""

import functools

from torch._dynamo import trace_rules
from torch._dynamo.device_interface import register_interface_for_device
from torch._inductor.codegen.common import (
    register_backend_for_device,
    register_device_op_overrides,
)

from . import steering
from .device import OpenregInterface, OpenregOverrides
from .scheduling import OpenregScheduling
from .wrapper import OpenregCppWrapper, OpenregWrapper


@functools.cache
def register() -> None:
    trace_rules.add("torch_openreg")  # calls break the graph, but run as a whole
    register_interface_for_device("openreg", OpenregInterface)
    register_device_op_overrides("openreg", OpenregOverrides())
    register_backend_for_device(
        "openreg",
        OpenregScheduling,
        OpenregWrapper,
        OpenregCppWrapper,
        device_custom_pass=steering.Steering(),
    )
    steering.install()
