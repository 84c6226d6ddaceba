"""Calls with arrays whose axes have another order in memory, such as transposed ones: the function
is called by another one that transposes them, so that they are read as they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from ._errors import Error


def order_of(array: Any) -> tuple[int, ...] | None:
    """The axes in their order in memory, if the elements are one after another in that order."""
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The results of the call; ``None`` if there is no such array, or no such function."""
    names = function.names
    given = [*zip(names, args, strict=False), *(kwargs or {}).items()]
    orders = {
        name: order_of(value)
        for name, value in given
        if name in names and isinstance(value, np.ndarray) and not value.flags.c_contiguous
    }
    if not orders or None in orders.values():
        return None
    key = tuple(sorted(orders.items()))
    known = function.__dict__.setdefault("_turned", {})
    if key not in known:
        known[key] = _made(function, orders)
    turned = known[key]
    if turned is None:
        return None
    values = {name: value.transpose(orders[name]) if name in orders else value for name, value in given}
    result = turned(**values)
    make = function.__dict__["_tuple"]
    return result if make is None or values.get("out") is not None else make(*result)


def _made(function: Any, orders: dict[str, Any]) -> Any:
    """The function that transposes these arguments; ``None`` if it cannot be stated."""
    name = f"{function.__name__}_turned"
    while name in function.module:
        name += "_"
    params: list[str] = []
    lets: list[str] = []
    passed: list[str] = []
    for param, declared, is_float in zip(function.names, function.params, function.floats, strict=True):
        element, _, shape = declared.partition("[")
        element = "float" if is_float else element
        order = orders.get(param)
        lengths = shape.removesuffix("]").split(", ") if shape else []
        if order is not None:
            lengths = [lengths[axis] for axis in order]
            indices = [f"axis{k}" for k in range(len(order))]
            places = [indices[axis] for axis in order]
            lets.append(f"    let {param}_turned[{', '.join(indices)}] = {param}[{', '.join(places)}]\n")
        passed.append(param if order is None else f"{param}_turned")
        params.append(f"{param}: {element}" + (f"[{', '.join(lengths)}]" if lengths else ""))
    state = dict(function.module.__reduce__()[1][0])
    body = f"{''.join(lets)}    {function.__name__}({', '.join(passed)})"
    state["text"] += f"\nfn {name}({', '.join(params)}) {{\n{body}\n}}\n"
    try:
        made = _native.unpickle(state)[name]
        made.check()
    except Error:
        return None
    return made
