"""``fuseloop.grad``: derivatives of functions, as functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, overload

from . import _native
from ._errors import Error
from ._jit import Jit
from ._native import Function

#: The types of floats, as programs write them.
_FLOATS = {"f16", "bf16", "f32", "f64"}


@overload
def grad(function: Function, /, wrt: str | Iterable[str] | None = None) -> Function: ...
@overload
def grad(function: Jit[..., Any], /, wrt: str | Iterable[str] | None = None) -> Jit[..., Any]: ...


def grad(function: Any, /, wrt: str | Iterable[str] | None = None) -> Any:
    """The derivative of a function that gives a number.

    ``function`` is a function of a program, or one that `jit` compiles; so is the result, with the
    same parameters. ``wrt`` names the parameter that the derivative is in, or several; without it
    the derivative is in all parameters of floats. Each has the shape of its parameter. Several are a
    named tuple, ``dw`` for a parameter ``w``; those of a function that `jit` compiles are a plain
    tuple, and each has the structure of its argument.

    Examples:
        >>> module = fl.compile("fn loss(w: float[n], x: float[n]) = sum((w - x) ^ 2)")
        >>> slope = fl.grad(module.loss, wrt="w")
        >>> slope(np.array([1.0, 2.0]), np.array([0.0, 5.0]))
        array([ 2., -6.])
    """
    return _derived(function, wrt, with_value=False)


@overload
def value_and_grad(function: Function, /, wrt: str | Iterable[str] | None = None) -> Function: ...
@overload
def value_and_grad(function: Jit[..., Any], /, wrt: str | Iterable[str] | None = None) -> Jit[..., Any]: ...


def value_and_grad(function: Any, /, wrt: str | Iterable[str] | None = None) -> Any:
    """The number that a function gives, followed by the derivatives that `grad` gives.

    Both are one program: what both need is computed once.

    Examples:
        >>> module = fl.compile("fn loss(w: float[n], x: float[n]) = sum((w - x) ^ 2)")
        >>> fl.value_and_grad(module.loss, wrt="w")(np.array([1.0, 2.0]), np.array([0.0, 5.0]))
        loss_value_and_grad(value=np.float64(10.0), dw=array([ 2., -6.]))
    """
    return _derived(function, wrt, with_value=True)


def _derived(function: Any, wrt: str | Iterable[str] | None, *, with_value: bool) -> Any:
    names = None if wrt is None else (wrt,) if isinstance(wrt, str) else tuple(wrt)
    if isinstance(function, Jit):
        return function._derivative(names, with_value, derivative)
    if not isinstance(function, Function):
        raise TypeError(f"a derivative is of a function of a program or of `fuseloop.jit`, not of {type(function).__name__}")
    if names is None:
        names = tuple(floats(function))
    if not names:
        raise Error(f"`{function.__name__}` has no parameter of floats", help="convert one in the program: `f32(x)`")
    return derivative(function, names, with_value)


def floats(function: Function) -> list[str]:
    """The parameters of floats."""
    params = zip(function.names, function.params, strict=True)
    return [name for name, declared in params if declared.partition("[")[0] in _FLOATS]


def derivative(function: Function, names: tuple[str, ...], with_value: bool) -> Function:
    """The derivative in some parameters: a function that calls the other one, behind its program."""
    for name in names:
        if name not in function.names:
            known = ", ".join(f"`{known}`" for known in function.names)
            raise Error(f"`{function.__name__}` has no parameter `{name}`", help=f"name some of {known}")
    reduced: Any = function.module.__reduce__()
    state: dict[str, Any] = dict(reduced[1][0])
    text = state["text"] + "".join(part for _, _, part in state["parts"])
    made = f"{function.__name__}_value_and_grad" if with_value else f"{function.__name__}_grad"
    while made in text:
        made += "_"
    types = {
        name: _Type("float" if is_float else declared.partition("[")[0], "".join(declared.partition("[")[1:]))
        for name, declared, is_float in zip(function.names, function.params, function.floats, strict=True)
    }
    taken = list(types)
    results: list[str] = []
    for name in names:
        results.append(_free(f"d{name}", taken + results))
    shown = [f"{result}: {types[name].derived()}" for name, result in zip(names, results, strict=True)]
    call = f"{function.__name__}({', '.join(taken)})"
    left = results[0] if len(results) == 1 else f"({', '.join(results)})"
    params = ", ".join(f"{name}: {of.element}{of.lengths}" for name, of in types.items())
    if not with_value:
        lets = f"    let {left} = grad[{', '.join(names)}]({call})\n    {left}\n"
        arrow = shown[0].partition(": ")[2] if len(shown) == 1 else f"({', '.join(shown)})"
        state["text"] += f"\nfn {made}({params}) -> {arrow} {{\n{lets}}}\n"
        return _native.unpickle(state)[made]
    value = _free("value", taken + results)
    lets = f"    let {value} = {call}\n    let {left} = grad[{', '.join(names)}]({value})\n"
    lets += f"    ({', '.join([value, *results])})\n"
    # The type is that of the function where `float` is `f32`: it may be one of these.
    ty = function.results[0]
    for candidate in ["float"] * (ty == "f32" and any(function.floats)) + [ty]:
        text = f"\nfn {made}({params}) -> ({', '.join([f'{value}: {candidate}', *shown])}) {{\n{lets}}}\n"
        try:
            return _native.unpickle(state | {"text": state["text"] + text})[made]
        except Error:
            if candidate == ty:
                raise
    raise AssertionError("the last one is the type")


class _Type(NamedTuple):
    element: str
    lengths: str

    def derived(self) -> str:
        """The type of a derivative: one of a storage type is an `f32`."""
        return ("f32" if self.element in ("f16", "bf16") else self.element) + self.lengths


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name
