"""Fuseloop: a compiler for array programs.

Examples:
    >>> import numpy as np
    >>> import fuseloop as fl
    >>> module = fl.compile("fn scaled(x: f32[n], by: f32) = x * by")
    >>> module.scaled(np.arange(3, dtype=np.float32), 0.5)
    array([0. , 0.5, 1. ], dtype=float32)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import Error
from ._grad import grad, value_and_grad
from ._jit import Jit, jit
from ._native import Benchmark, DeviceArray, Explanation, Function, Module, compile, format, load

if TYPE_CHECKING:
    from . import dask as dask
else:

    def __getattr__(name: str) -> Any:
        if name == "dask":
            # Most programs do without it, and it takes part of a second to import.
            return import_module(".dask", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Adds the magics ``%%fuseloop`` and ``%explain``. ``%load_ext fuseloop`` calls it."""
    import_module("._notebook", __name__).register(shell)


__all__ = [
    "Benchmark",
    "DeviceArray",
    "Error",
    "Explanation",
    "Function",
    "Jit",
    "Module",
    "compile",
    "format",
    "grad",
    "jit",
    "load",
    "value_and_grad",
]
