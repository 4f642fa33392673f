# SPDX-License-Identifier: BSD-3-Clause
"""Inductor generates no code for the card yet: an error that names the alternative.
Inductor asks torch.openreg for a code generator, and gets NONE."""

from typing import Any, NoReturn


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "torch.compile: Inductor, its default backend, generates no code for openreg "
        "yet. Use torch.compile(..., backend='aot_eager'), which runs the operators of "
        "the captured graph on the card, or leave torch.compile out."
    )


class _NoCodeGenerator:
    @property
    def supports_caching(self) -> bool:  # Inductor's first question
        _refuse()

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        _refuse()


NONE = _NoCodeGenerator()
