"""The parts of NumPy that its protocols leave out: arrays made of sizes, such as ``np.zeros(n)``,
conversions, such as ``np.asarray(x)``, and the built-in functions that have to give plain numbers.

A traced function runs with these in place of NumPy's. Its code is the same; the names that it looks
up lead here."""

from __future__ import annotations

import builtins
import math
import random
import types
from typing import Any

import numpy
from numpy import ndarray as NdArray

from .arrays import FLOAT, INT, LANGUAGE, Traced, capture, converted, lift, literal, node_of, traced
from .errors import refuse
from .program import current, elements, expr, tracing
from .registry import common, shape_from
from .sizes import Size
from .ufuncs import call

#: Without its types, which know nothing of traced arrays.
np: Any = numpy


def mine(array: NdArray[Any, Any]) -> NdArray[Any, Any]:
    """Marks an array as made by the function itself, so that a small one becomes part of the program."""
    if tracing():
        current().made[id(array)] = array
    return array


def _is_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_traced(one) for one in value)
    return isinstance(value, (Traced, Size))


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    lengths = shape_from(shape)
    value = lift(fill_value)
    kind = np.dtype(dtype) if dtype is not None else common([fill_value])
    node = node_of(value, kind, True)
    if not lengths:
        return Traced(node, kind)
    return Traced(elements(lambda p: p.arg(0), lengths, node, natural=node.natural), kind, lengths)


def zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    return full(shape, 1, float if dtype is None else dtype)


def arange(*args: Any, dtype: Any = None, **other: Any) -> Any:
    if not _is_traced(args):
        return mine(np.arange(*args, dtype=dtype))
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    if any(isinstance(one, (Traced, float)) for one in (start, stop, step)):
        refuse("the length of a range between floats is not known", "use np.linspace, or np.arange(n) * step")
    count = stop - start if step == 1 else (stop - start + step - 1) // step
    node = expr("iota({s0})", lengths=(count,), natural=True, counts=True)
    numbers: Any = Traced(node, INT, (count,))
    if step != 1:
        numbers = numbers * step
    if not (isinstance(start, int) and start == 0):
        numbers = numbers + start
        numbers.node.natural = isinstance(start, (Size, int)) and not (isinstance(start, int) and start < 0)
    return numbers if dtype is None else converted(numbers, np.dtype(dtype))


def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    if not _is_traced((N, M)):
        return mine(np.eye(N, M, k, dtype))
    shape = (N, N if M is None else M)
    one, zero = literal(1, dtype, True), literal(0, dtype, True)

    def body(p: Any) -> str:
        i = p.i[0] if k == 0 else f"{p.i[0]} + {k}" if k > 0 else f"{p.i[0]} - {-k}"
        return f"if {p.i[1]} == {i} then {p.arg(0)} else {p.arg(1)}"

    return Traced(elements(body, shape, one, zero, natural=True), dtype, shape)


def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return eye(n, dtype=float if dtype is None else dtype)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> Any:
    if not _is_traced((N, M)):
        return mine(np.tri(N, M, k, dtype))
    return np.tril(ones((N, N if M is None else M), dtype), k)


def linspace(start: Any, stop: Any, num: Any = 50, *args: Any, **kwargs: Any) -> Any:
    from .functions import linspace as made

    if not _is_traced((start, stop, num)):
        return np.linspace(start, stop, num, *args, **kwargs)
    return made(start, stop, num, *args, **kwargs)


def array(object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: Any = False, ndmin: int = 0, like: Any = None) -> Any:
    from .masks import Selected

    if isinstance(object, Selected):
        return object.__array__()
    if not _is_traced(object):
        made = np.array(object, dtype, copy=copy, order="C", ndmin=ndmin)
        return mine(made) if made is not object else made
    if isinstance(object, (list, tuple)):
        parts = [array(one, dtype) if isinstance(one, (list, tuple)) else one for one in object]
        if any(isinstance(one, np.ndarray) for one in parts):
            parts = [traced(one) if isinstance(one, np.ndarray) else one for one in parts]
        made_of = np.stack([traced(one) if not isinstance(one, (int, float)) else one for one in parts])
        result = made_of if dtype is None else converted(made_of, np.dtype(dtype))
    elif isinstance(object, Size):
        return Traced(traced(object).node, INT) if dtype is None else converted(traced(object), np.dtype(dtype))
    elif dtype is None or np.dtype(dtype) == object.dtype:
        result = object.copy() if copy else object
        if object.weak:
            result = Traced(object.node, FLOAT)
    else:
        result = converted(object, np.dtype(dtype))
    return result if result.ndim >= ndmin else np.reshape(result, (1,) * (ndmin - result.ndim) + result.shape)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None) -> Any:
    if isinstance(a, np.ndarray) and (dtype is None or a.dtype == np.dtype(dtype)):
        return a
    return array(a, dtype, copy=bool(copy) if isinstance(a, Traced) else copy)


def copied(a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.copy() if isinstance(a, Traced) else mine(np.copy(a))


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    lengths = shape_from(shape)
    axes = [np.reshape(traced(arange(n)), tuple(-1 if k == at else 1 for k in range(len(lengths)))) for at, n in enumerate(lengths)]
    return function(*[converted(np.broadcast_to(axis, lengths), np.dtype(dtype)) for axis in axes], **kwargs)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    lengths = shape_from(dimensions)
    axes = [np.reshape(traced(arange(n)), tuple(-1 if k == at else 1 for k in range(len(lengths)))) for at, n in enumerate(lengths)]
    if sparse:
        return tuple(axes)
    return np.stack([np.broadcast_to(axis, lengths) for axis in axes])


def length_of(a: Any) -> Any:
    """``len``, which may be a size."""
    if isinstance(a, Traced):
        if not a.shape:
            raise TypeError("len() of unsized object")
        return a.shape[0]
    return len(a)


#: Replacements for functions of NumPy, and for those built into Python.
OURS: dict[int, Any] = {
    id(theirs): ours
    for theirs, ours in [
        (np.full, full),
        (np.zeros, zeros),
        (np.empty, zeros),
        (np.ones, ones),
        (np.arange, arange),
        (np.eye, eye),
        (np.identity, identity),
        (np.tri, tri),
        (np.linspace, linspace),
        (np.array, array),
        (np.asarray, asarray),
        (np.asanyarray, asarray),
        (np.ascontiguousarray, asarray),
        (np.asarray_chkfinite, asarray),
        (np.copy, copied),
        (np.fromfunction, fromfunction),
        (np.indices, indices),
    ]
}
BUILT_IN = {"len": length_of}
_MATH = {
    "fabs": np.fabs,
    "pow": np.power,
    "log": None,
    **{
        name: getattr(np, name)
        for name in "sqrt exp expm1 log1p log2 log10 sin cos tan sinh cosh tanh floor ceil hypot isnan isinf isfinite".split()
    },
    **{f"a{name}": getattr(np, f"arc{name}") for name in "sin cos tan sinh cosh tanh".split()},
    "atan2": np.arctan2,
}


def _of_math(name: str) -> Any:
    plain = getattr(math, name)
    ufunc = _MATH.get(name)

    def function(*args: Any) -> Any:
        if not _is_traced(args):
            return plain(*args)
        if name == "log":
            result = call(np.log, args[:1])
            result = result / call(np.log, args[1:]) if len(args) > 1 else result
        elif ufunc is None:
            refuse(f"`math.{name}` cannot be traced", "use NumPy's function")
        else:
            result = call(ufunc, args)
        if any(isinstance(one, Traced) and one.ndim for one in args):
            refuse(f"`math.{name}` takes a number, not an array", "use NumPy's function")
        if result.dtype == FLOAT:
            result.weak = True
        return result

    return function


class Module:
    """A module whose functions lead to those of a trace."""

    def __init__(self, module: types.ModuleType) -> None:
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if self._module is math and callable(value):
            return _of_math(name)
        return replaced(value, None)

    def __dir__(self) -> list[str]:
        return dir(self._module)

    def __repr__(self) -> str:
        return repr(self._module)


class Random:
    """A generator of random numbers, or a function or module that draws them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refuse(
            "random numbers cannot be traced: each call has to draw new ones",
            "draw them outside and pass them, or use `uniform(seed, i)` in a program of the language",
        )

    def __getattr__(self, name: str) -> Any:
        return self()


def _draws(value: Any) -> bool:
    """Whether a value is a source of random numbers."""
    if isinstance(value, types.ModuleType):
        return value is random or value.__name__.startswith("numpy.random")
    owner = getattr(value, "__self__", value)
    if isinstance(owner, (np.random.Generator, np.random.RandomState, random.Random)):
        return True
    return isinstance(value, types.BuiltinFunctionType) and str(value.__module__).startswith("numpy.random")


def replaced(value: Any, rebinding: Rebinding | None, name: str = "c") -> Any:
    """The value that a name in a traced function stands for."""
    if _draws(value):
        return Random()
    if rebinding is not None and tracing():
        # Values that the function computes from arrays outside of it are part of the program.
        if isinstance(value, np.ndarray) and f"{value.dtype.kind}{value.dtype.itemsize}" in LANGUAGE:
            return capture(value, name)
        if type(value) in (tuple, list):
            parts = [replaced(one, rebinding, f"{name}{k}") for k, one in enumerate(value)]
            return value if all(a is b for a, b in zip(value, parts, strict=True)) else type(value)(parts)
        if type(value) is dict:
            items = {key: replaced(one, rebinding, f"{name}_{key}") for key, one in value.items()}
            return value if all(items[key] is one for key, one in value.items()) else items
    ours = OURS.get(id(value))
    if ours is not None:
        return ours
    if isinstance(value, types.ModuleType) and (value is math or value.__name__.split(".")[0] == "numpy"):
        return Module(value)
    if isinstance(value, type) and value in _CONCRETE:
        return _Converter(value)
    if rebinding is not None and isinstance(value, types.FunctionType) and rebinding.takes(value):
        return rebinding.function(value)
    return value


class _Converter:
    """A scalar type of NumPy, such as ``np.float32``, that also converts what is traced."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self.dtype = np.dtype(kind)

    def __call__(self, value: Any = 0, *args: Any) -> Any:
        if not _is_traced(value):
            return self._kind(value, *args)
        return converted(traced(value), np.dtype(self._kind))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._kind or self.dtype == other

    def __hash__(self) -> int:
        return hash(self._kind)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._kind)

    def __mro_entries__(self, bases: Any) -> Any:
        return (self._kind,)


#: The types of the language's elements.
_CONCRETE = frozenset(
    [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
    + [np.float16, np.float32, np.float64]
)


class Rebinding:
    """Functions whose names lead to those of a trace. Helpers in the same package are among them."""

    def __init__(self, root: types.FunctionType) -> None:
        self._package = (root.__module__ or "").split(".")[0]
        self._known: dict[int, types.FunctionType] = {}
        #: The values that names had: a dictionary or a cell, the name, and the value.
        self.guards: list[tuple[Any, str | None, Any]] = []

    def takes(self, function: types.FunctionType) -> bool:
        """Whether a function is run with other names."""
        return (function.__module__ or "").split(".")[0] == self._package

    def function(self, function: types.FunctionType) -> types.FunctionType:
        """The function with other names."""
        known = self._known.get(id(function))
        if known is not None:
            return known
        names: dict[str, Any] = {"__builtins__": builtins.__dict__, "__name__": function.__module__}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        self._known[id(function)] = made
        for name in _names_of(function.__code__):
            if name in function.__globals__:
                value = function.__globals__[name]
                self.guards.append((function.__globals__, name, value))
                names[name] = replaced(value, self, name)
            elif name in BUILT_IN:
                names[name] = BUILT_IN[name]
        free = function.__code__.co_freevars
        for name, cell, new in zip(free, function.__closure__ or (), cells, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self.guards.append((cell, None, value))
            new.cell_contents = replaced(value, self, name)
        return made


def _names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def through(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy by its own text, where that is Python."""
    inner = getattr(function, "__wrapped__", None) or getattr(function, "_implementation", None)
    name = f"np.{getattr(function, '__name__', function)}"
    module = getattr(function, "__module__", None) or ""
    if module.startswith("numpy."):
        name = name.replace("np.", f"np.{module.removeprefix('numpy.')}.", 1)
    if not isinstance(inner, types.FunctionType) or module.startswith(("numpy.linalg", "numpy.fft")):
        refuse(f"`{name}` cannot be traced", "python/docs/jit.md lists the functions that can be")
    return Rebinding(inner).function(inner)(*args, **kwargs)

