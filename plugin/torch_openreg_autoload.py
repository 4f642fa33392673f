# SPDX-License-Identifier: BSD-3-Clause
"""The function of the torch.backends entry point.

The module is outside of the package, because torch may call it while the package is only
partly imported. autoload() never raises: a broken plugin must not break torch.
"""


def autoload() -> None:
    try:
        import torch_openreg  # noqa: F401
    except Exception as error:
        _warn(
            f"the openreg backend is installed but does not load: {error!r}. "
            "Run `python3 -c 'import torch_openreg'` for the traceback, or set "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 to disable it."
        )


def _warn(text: str) -> None:
    import sys
    import warnings

    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except Exception:  # warnings are errors here
        if sys.stderr is not None:
            sys.stderr.write(f"warning: {text}\n")
