# SPDX-License-Identifier: MIT
"""Tests a PrivateUse1 backend with PyTorch's own lists of operators, modules and
optimizers, with the CPU as the reference. The package knows the backend only by the name
of its Python module."""
