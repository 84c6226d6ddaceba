"""The table of NumPy's functions that are traced, and what their arguments have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy

from .arrays import Traced, lift, shape_of
from .errors import refuse
from .program import Node, expr
from .sizes import Length, Size

#: Without its types, which know nothing of traced arrays.
np: Any = numpy

FUNCTIONS: dict[Any, Callable[..., Any]] = {}

F = TypeVar("F", bound=Callable[..., Any])


def implements(*functions: Any) -> Callable[[F], F]:
    """Puts a function in the table for one or several of NumPy's."""

    def put(made: F) -> F:
        for function in functions:
            FUNCTIONS[function] = made
        return made

    return put


def only(function: str, **options: Any) -> None:
    """Refuses options that are not traced: they have to be what they are if they are left away."""
    for option, value in options.items():
        if value is not None and value is not np._NoValue:
            refuse(f"`{option}` of `np.{function}` cannot be traced", "leave it away")


def given(value: Any) -> Any:
    """An option, or ``None`` if it was left away."""
    return None if value is np._NoValue else value


def axis_of(axis: Any, rank: int) -> int:
    """The number of an axis, which may count from the end."""
    if isinstance(axis, Traced):
        refuse("an axis that depends on elements cannot be traced")
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(int(axis), rank)
    return int(axis) % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes that an option names, ascending; all of them for ``None``."""
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted({axis_of(one, rank) for one in axes}))


def shape_from(shape: Any) -> tuple[Length, ...]:
    """A shape as NumPy takes it: a length, or several."""
    if isinstance(shape, (tuple, list)):
        return tuple(length if isinstance(length, Size) else int(length) for length in shape)
    return (shape if isinstance(shape, Size) else int(shape),)


def reshaped(node: Node, shape: tuple[Length, ...]) -> Node:
    """The elements in another shape of as many."""
    if not shape:
        return expr("reshape({0}, 1)[0]", node)
    slots = ", ".join(f"{{s{k}}}" for k in range(len(shape)))
    return expr(f"reshape({{0}}, {slots})", node, lengths=shape, natural=node.natural)


def common(values: Any) -> Any:
    """The type that several operands have in common."""
    from .arrays import spec_of

    specs = [spec_of(lift(value)) for value in values]
    # By identity: a type of NumPy equals the type of Python that it stands for.
    strong = [spec for spec in specs if spec is not int and spec is not float]
    weak = [0 if spec is int else 0.0 for spec in specs if spec is int or spec is float]
    if not strong:
        return np.result_type(*[np.dtype(spec) for spec in specs])
    return np.result_type(*strong, *weak)


def shapes(values: Any) -> list[tuple[Length, ...]]:
    return [shape_of(lift(value)) for value in values]
