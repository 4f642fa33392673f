# SPDX-License-Identifier: MIT
"""Holds a PrivateUse1 backend against PyTorch's own lists of operators, modules and
optimizers, with the CPU as the reference. It knows the backend by the name of its
Python module and by nothing else."""
