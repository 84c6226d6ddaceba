"""Elements that a condition selects: how many there are is not known, but what is done with all of
them is."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import dtype as Dtype

from .arrays import ARITHMETIC, Traced, lift
from .errors import refuse

#: Without its types, which know nothing of traced arrays.
np: Any = numpy


#: The error that such elements are needed one by one, and the remedy.
UNKNOWN_NUMBER = (
    "the number of elements for which a condition holds is not known",
    "use np.where(condition, a, b), or the `where` of a reduction",
)


class Selected:
    """``x[mask]``, which can be changed in place, assigned, and reduced to a number."""

    __array_priority__ = 2000
    __array_ufunc__ = None

    def __init__(self, values: Traced, mask: Traced) -> None:
        self.values = values
        self.mask = mask

    def _with(self, other: Any, ufunc: Any, turned: bool = False) -> Selected:
        if isinstance(other, Selected):
            if other.mask.node is not self.mask.node:
                refuse("elements selected by different conditions cannot be combined", "use np.where")
            other = other.values
        elif getattr(lift(other), "shape", ()):
            refuse("elements selected by a condition cannot be combined with an array", "use np.where")
        operands = (other, self.values) if turned else (self.values, other)
        return Selected(ufunc(*operands), self.mask)

    def sum(self) -> Any:
        return np.sum(self.values, where=self.mask)

    def mean(self) -> Any:
        return np.mean(self.values, where=self.mask)

    def max(self) -> Any:
        return np.max(self.values, where=self.mask, initial=_least(self.values.dtype))

    def min(self) -> Any:
        return np.min(self.values, where=self.mask, initial=_greatest(self.values.dtype))

    def any(self) -> Any:
        return np.any(self.values, where=self.mask)

    def all(self) -> Any:
        return np.all(self.values, where=self.mask)

    @property
    def size(self) -> Any:
        return np.sum(self.mask)

    def __len__(self) -> int:
        refuse("the number of elements for which a condition holds is not known", "use np.sum(condition)")

    def __array__(self, *_: Any, **__: Any) -> Any:
        refuse(*UNKNOWN_NUMBER)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__.removeprefix("a")
        if len(args) == 1 and not kwargs and name in ("sum", "mean", "max", "min", "any", "all"):
            return getattr(self, name)()
        return self.__array__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__array__()


def _least(dtype: Dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _greatest(dtype: Dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _operator(name: str, ufunc: Any) -> None:
    def forward(self: Selected, other: Any) -> Selected:
        return self._with(other, ufunc)

    def reflected(self: Selected, other: Any) -> Selected:
        return self._with(other, ufunc, turned=True)

    def in_place(self: Selected, other: Any) -> Selected:
        result = self._with(other, ufunc)
        before, after = self.values.dtype, result.values.dtype
        if not np.can_cast(after, before, "same_kind"):
            raise TypeError(f"Cannot cast ufunc '{ufunc.__name__}' output from {after!r} to {before!r}")
        return result

    setattr(Selected, f"__i{name}__", in_place)
    setattr(Selected, f"__{name}__", forward)
    setattr(Selected, f"__r{name}__", reflected)


for _name, _ufunc in ARITHMETIC.items():
    _operator(_name, _ufunc)
