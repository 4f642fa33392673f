# SPDX-License-Identifier: BSD-3-Clause
"""Inductor generates no code for the card yet. When Inductor asks torch.openreg for a code
generator, it gets NONE, which raises an error that names the alternative."""

from typing import Any, NoReturn


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "torch.compile: Inductor, its default backend, generates no code for openreg "
        "yet. Use torch.compile(..., backend='aot_eager'), which runs the operators of "
        "the captured graph on the card, or do not use torch.compile."
    )


class _NoCodeGenerator:
    @property
    def supports_caching(self) -> bool:  # Inductor's first question
        _refuse()

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        _refuse()


NONE = _NoCodeGenerator()
