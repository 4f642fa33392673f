# SPDX-License-Identifier: BSD-3-Clause
"""Marks that several test files give to some of their cases."""

import pytest


def unchecked_among(names, unwritten):
    """The names as parameters; a card that checks programs gets none of `unwritten`."""
    mark = pytest.mark.unchecked("it reads what nobody has written")
    assert set(unwritten) <= set(names), set(unwritten) - set(names)
    return [pytest.param(name, marks=mark) if name in unwritten else name for name in names]
