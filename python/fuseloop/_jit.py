"""``fuseloop.jit``: functions over NumPy arrays, compiled."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from . import _native
from ._errors import Error
from ._trace.arrays import Traced, held, language, traced
from ._trace.errors import Place, trace_error
from ._trace.masks import UNKNOWN_NUMBER, Selected
from ._trace.modules import Rebinding, replaced
from ._trace.program import Trace, running, tracing
from ._trace.sizes import Size

P = ParamSpec("P")
R = TypeVar("R")

#: A function with this number of traces probably has an argument that it should not.
_MANY = 50

#: A key of a structure of arguments or results.
Key = Any


class Specialization:
    """The program that a function became for arguments of certain ranks and types."""

    def __init__(self, source: str, function: Any, trace: Trace, shape: Any, guards: list[Any]) -> None:
        self.source = source
        self.function = function
        self.captured = trace.captured
        self.structure = shape
        #: The line of Python of each statement.
        self.places = trace.places
        self.guards = guards
        #: Sizes that decided something, as for `Trace`.
        self.decisions = trace.decisions
        #: Whether the program serves every call with its key.
        self.plain = not guards and not self.decisions
        #: Whether the arguments and the result are those of the program.
        self.direct = shape is None and not self.captured

    def holds(self, leaves: list[Any]) -> bool:
        """Whether all names that the function looks up outside of itself still mean the same, and
        the sizes decide as they did."""
        if self.decisions:
            shapes = [getattr(leaf, "shape", ()) for leaf in leaves]
            if any(test(size.at(shapes)) is not outcome for size, test, outcome in self.decisions):
                return False
        return self.same_names()

    def same_names(self) -> bool:
        """Whether all names that the function looks up outside of itself still mean the same."""
        for place, name, value in self.guards:
            if name is None:
                if place.cell_contents is not value:
                    return False
            elif place.get(name) is not value:
                return False
        return True

    def call(self, leaves: list[Any], out: Any, threads: int) -> Any:
        """Calls the program."""
        if self.captured:
            leaves = leaves + self.captured
        if out is None:
            result = self.function(*leaves, threads=threads)
        else:
            result = self.function(*leaves, threads=threads, out=out)
        return result if self.structure is None else _built(self.structure, result)


class _Derived:
    """A derivative in some arguments of a function, or in all that have floats."""

    def __init__(self, names: tuple[str, ...] | None, with_value: bool, make: Callable[..., Any]) -> None:
        self.names = names
        self.with_value = with_value
        self.make = make

    def of(self, function: Any, trace: Trace, arguments: dict[str, Any]) -> tuple[Any, Any]:
        """The derivative of a program that was traced for these stand-ins, and the structure of what
        it gives: for each argument that of the argument."""
        params = {id(parameter.node): parameter.name for parameter in trace.parameters}
        names: list[str] = []
        parts: list[Any] = [0] if self.with_value else []
        for name in arguments if self.names is None else self.names:
            if self.names is None and not _any_traced(arguments[name]):
                continue
            leaves: list[Traced] = []
            part = _structure_of(arguments[name], leaves)
            if all(id(leaf.node) in params and leaf.dtype.kind == "f" for leaf in leaves):
                parts.append(_moved(part, len(names) + self.with_value))
                names += [params[id(leaf.node)] for leaf in leaves]
            elif self.names is not None:
                raise Error(f"the argument `{name}` is not of floats", help="pass an array of floats, or a float")
        if not names:
            raise Error(f"`{trace.name}` has no argument of floats", help="pass arrays of floats")
        structure = (tuple, parts) if len(parts) > 1 else parts[0]
        return self.make(function, tuple(names), self.with_value), None if structure == 0 else structure


class Jit(Generic[P, R]):
    """A function over NumPy arrays that is compiled when it is called.

    It is traced once for each combination of types and ranks of its arguments, never for sizes;
    axes of length 1 count as a rank of their own, because NumPy broadcasts them. Integers, strings
    and other arguments that are no arrays are part of the program: it is traced for each of their
    values. A ``float`` is an argument.
    """

    def __init__(
        self, function: Callable[P, R], static: Iterable[str] = (), derived: _Derived | None = None
    ) -> None:
        functools.update_wrapper(self, _plain(function))
        self._function = function
        self._signature = inspect.signature(function)
        self._static = frozenset((static,) if isinstance(static, str) else static)
        #: The derivative that a call gives, in place of the function's own result.
        self._derived = derived
        unknown = self._static - set(self._signature.parameters)
        if unknown:
            raise TypeError(f"{function.__name__}() has no parameter {sorted(unknown)[0]!r} to be static")
        kinds = [p.kind for p in self._signature.parameters.values()]
        plain = all(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
        #: The number of parameters, if a call with as many arguments needs no binding.
        self._count = len(kinds) if plain and not self._static else -1
        #: Arguments of the function that have the name of an option of a call.
        self._shadowed = {"out", "threads"} & set(self._signature.parameters)
        self._known: dict[Key, list[Specialization]] = {}
        self._last: Specialization | None = None
        self._lock = threading.Lock()

    # Without `out` and `threads`, the arguments are those of the function.
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Any, out: Any, threads: int = 0, **kwargs: Any) -> R: ...
    @overload
    def __call__(self, *args: Any, threads: int, out: None = None, **kwargs: Any) -> R: ...

    def __call__(  # type: ignore[misc]  # it takes whatever a function may
        self, *args: Any, out: Any = None, threads: int = 0, **kwargs: Any
    ) -> R:
        if self._shadowed and (out is not None or threads):
            for option, value in (("out", out), ("threads", threads)):
                if option in self._shadowed and value is not None and not (type(value) is int and value == 0):
                    kwargs[option] = value
            out = None if "out" in kwargs else out
            threads = 0 if "threads" in kwargs else threads
        if kwargs or len(args) != self._count:
            if tracing() and _any_traced((args, kwargs)):
                return self._inline(args, kwargs)
            args = self._bound(args, kwargs)
        leaves: list[Any] = []
        key = self._key(args, leaves)
        if key is None:
            return self._inline(args, {})
        for known in self._known.get(key, ()):
            if known.plain or known.holds(leaves):
                break
        else:
            try:
                known = self._add(key, args)
            except Error as error:
                # It names the line; how this package came to it helps nobody.
                raise error.with_traceback(None) from None
        self._last = known
        try:
            if known.direct and out is None and not threads:
                return known.function(*leaves)  # type: ignore[no-any-return]
            return known.call(leaves, out, threads)  # type: ignore[no-any-return]
        except Error as error:
            raise _placed(error, known.source, known.places, "the program that this became fails") from None

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Traces the function as a part of the one that calls it."""
        plain = _plain(self._function)
        return Rebinding(plain).function(plain)(*args, **kwargs)  # type: ignore[no-any-return]

    def _add(self, key: Key, args: tuple[Any, ...]) -> Specialization:
        """Traces the function for arguments that no program is for."""
        with self._lock:
            made = self._traced(args)
            # A program from before a name got another meaning is not needed again.
            others = [one for one in self._known.get(key, ()) if one.same_names()]
            self._known[key] = [*others, made][-64:]
            if len(self._known) == _MANY:
                warnings.warn(
                    f"`{self._function.__name__}` has been traced {_MANY} times: integers and other arguments that are no "
                    "arrays are part of the program; pass numbers that change as floats, or as np.int64(...)",
                    RuntimeWarning,
                    stacklevel=4,
                )
        return made

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def _key(self, args: tuple[Any, ...], leaves: list[Any]) -> Key:
        """The key of a call, and its arrays; ``None`` if it is part of a trace."""
        if self._count >= 0:
            # Calls with arrays alone are small ones too, so this is short.
            key = []
            for arg in args:
                if type(arg) is not np.ndarray:
                    break
                shape = arg.shape
                key.append((arg.dtype.num, len(shape)) if 1 not in shape else _shape_key(arg.dtype.num, shape))
            else:
                leaves += args
                return tuple(key)
        if tracing() and _any_traced(args):
            return None
        if self._static:
            names = self._signature.parameters
            return tuple(
                ("static", arg) if name in self._static else _key(arg, leaves)
                for name, arg in zip(names, args, strict=True)
            )
        return tuple([_key(arg, leaves) for arg in args])

    def _traced(self, args: tuple[Any, ...]) -> Specialization:
        """Runs the function with arrays that write down what is done with them."""
        plain = _plain(self._function)
        rebinding = Rebinding(plain)
        name = plain.__name__ if plain.__name__.isidentifier() and plain.__name__.isascii() else "traced"
        trace = Trace(name if name not in {"fn", "let", "rec", "then", "where", "loop", "use", "float"} else f"{name}_")
        parameters = list(self._signature.parameters.values())
        with running(trace):
            # Arguments come first, whatever else the program is given.
            values = [
                arg if p.name in self._static else _stand_in(trace, rebinding, arg, p.name)
                for p, arg in zip(parameters, args, strict=True)
            ]
            result = _named(plain, rebinding.function(plain), _arguments(parameters, values))
            for known in trace.known.values():
                if id(known[0]) not in trace.made:
                    held(known)
            leaves: list[Traced] = []
            structure = _structure(result, leaves)
            if not leaves:
                raise trace_error(f"`{name}` returns no array", "return what it computes", _definition(plain))
            nodes = [leaf.node for leaf in leaves]
            source = _native.format(trace.source(nodes))
        function_ = _compiled(source, trace)
        _hold_types(function_, leaves, source)
        if self._derived is not None:
            of = {p.name: value for p, value in zip(parameters, values, strict=True)}
            function_, structure = self._derived.of(function_, trace, of)
            source = function_.module.source
        return Specialization(source, function_, trace, structure, rebinding.guards)

    def _derivative(self, names: tuple[str, ...] | None, with_value: bool, make: Callable[..., Any]) -> Jit[P, Any]:
        """The derivative in some arguments, which ``make`` gives for a program."""
        if self._derived is not None:
            raise Error(
                f"this is a derivative of `{self.__name__}` already",  # type: ignore[attr-defined]
                help="write a program of the language: there `grad` may stand in `grad`",
            )
        for name in names or ():
            if name not in self._signature.parameters or name in self._static:
                known = ", ".join(f"`{known}`" for known in self._signature.parameters if known not in self._static)
                message = f"`{self.__name__}` has no argument `{name}` to derive in"  # type: ignore[attr-defined]
                raise Error(message, help=f"name some of {known}")
        return Jit(self._function, self._static, _Derived(names, with_value, make))

    @property
    def source(self) -> str:
        """The program of the language that the last call, or else the first, became."""
        return self._latest().source

    def _latest(self) -> Specialization:
        if self._last is None:
            raise Error(f"`{self.__name__}` has not been traced", help="call it first")  # type: ignore[attr-defined]
        return self._last

    def trace(self, *args: Any, **kwargs: Any) -> str:
        """Traces the function for these arguments without calling it, and gives its program."""
        args = self._bound(args, kwargs)
        self._last = self._add(self._key(args, []), args)
        return self._last.source

    def explain(self, **sizes: int) -> _native.Explanation:
        """Explains how fusion changes the program of the last call."""
        return self._latest().function.explain(**sizes)  # type: ignore[no-any-return]

    def bench(self, **sizes: int) -> _native.Benchmark:
        """Measures the program of the last call with and without fusion."""
        return self._latest().function.bench(**sizes)  # type: ignore[no-any-return]

    @property
    def signature(self) -> str:
        """The parameters and results of the program of the last call, with its conditions."""
        return self._latest().function.signature  # type: ignore[no-any-return]

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Jit[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<fuseloop.jit of {self._function!r}>"

    def __reduce__(self) -> str:
        return self._function.__qualname__


def _plain(function: Any) -> types.FunctionType:
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"fuseloop.jit takes a function written in Python, not {type(function).__name__}")
    return function


def _definition(function: types.FunctionType) -> Place:
    return Place(function.__code__.co_filename, function.__code__.co_firstlineno, function.__name__)


def _arguments(parameters: list[inspect.Parameter], values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, value in zip(parameters, values, strict=True):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs


def _key(arg: Any, leaves: list[Any]) -> Key:
    """The type and rank of an argument, or what it is if it is part of the program. Arrays and
    floats are added to ``leaves``."""
    kind = type(arg)
    if kind is np.ndarray:
        leaves.append(arg)
        shape = arg.shape
        return (arg.dtype.num, len(shape)) if 1 not in shape else _shape_key(arg.dtype.num, shape)
    if kind is float:
        leaves.append(arg)
        return float
    if isinstance(arg, (np.ma.MaskedArray, np.matrix)):
        raise Error(f"an argument of type `{kind.__name__}` cannot be traced", help="pass a plain array")
    if isinstance(arg, (np.ndarray, np.generic)):
        return _key(np.asarray(arg), leaves) if isinstance(arg, np.ndarray) else _scalar_key(arg, leaves)
    if kind in (tuple, list):
        return (kind, *[_key(one, leaves) for one in arg])
    if kind is dict:
        return (dict, *[(name, _key(one, leaves)) for name, one in arg.items()])
    if hasattr(arg, "__dlpack__"):
        return _tensor_key(arg, leaves)
    try:
        hash(arg)
    except TypeError:
        raise Error(
            f"an argument of type `{kind.__name__}` cannot be traced",
            help="pass arrays, numbers, or tuples, lists and dictionaries of these",
        ) from None
    return (kind, arg)


def _shape_key(number: Any, shape: tuple[int, ...]) -> Key:
    return (number, len(shape), *[k for k, n in enumerate(shape) if n == 1])


def _scalar_key(arg: Any, leaves: list[Any]) -> Key:
    leaves.append(arg)
    return (arg.dtype.num, 0)


def _tensor_key(arg: Any, leaves: list[Any]) -> Key:
    leaves.append(arg)
    shape = tuple(arg.shape)
    key = _shape_key(_dtype_of(arg).num, shape)
    return ("gpu", key) if _is_on_gpu(arg) else key


def _is_on_gpu(arg: Any) -> bool:
    """Whether a tensor is in the memory of a GPU, as DLPack numbers devices."""
    return hasattr(arg, "__dlpack_device__") and arg.__dlpack_device__()[0] in (2, 13)


def _dtype_of(arg: Any) -> np.dtype[Any]:
    """NumPy's type of an array of any library."""
    name = str(arg.dtype).rpartition(".")[2]
    try:
        return np.dtype(name)
    except TypeError:
        raise Error(f"elements of type {name} cannot be traced", help="convert them first") from None


def _stand_in(trace: Trace, rebinding: Rebinding, arg: Any, name: str) -> Any:
    """The stand-in for an argument while the function is traced."""
    if isinstance(arg, (np.ndarray, np.generic)) or hasattr(arg, "__dlpack__"):
        dtype = arg.dtype if isinstance(arg, (np.ndarray, np.generic)) else _dtype_of(arg)
        node, shape = trace.parameter(name, language(dtype), tuple(arg.shape))
        trace.on_gpu = trace.on_gpu or _is_on_gpu(arg)
        return Traced(node, dtype, shape, argument=name)
    if type(arg) is float:
        node, _ = trace.parameter(name, "f64", ())
        return Traced(node, np.float64, weak=True, argument=name)
    if type(arg) in (tuple, list):
        return type(arg)(_stand_in(trace, rebinding, one, f"{name}{k}") for k, one in enumerate(arg))
    if type(arg) is dict:
        return {key: _stand_in(trace, rebinding, one, f"{name}_{key}") for key, one in arg.items()}
    # A function is traced with this one, and a generator of random numbers refuses to draw.
    return replaced(arg, rebinding, name)


def _named(plain: types.FunctionType, function: types.FunctionType, arguments: tuple[list[Any], dict[str, Any]]) -> Any:
    """Calls the function, and gives arrays the names that it gave them."""
    before = sys.getprofile()

    def on_return(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is plain.__code__:
            for name, value in frame.f_locals.items():
                if isinstance(value, Traced):
                    value.hint(name)

    args, kwargs = arguments
    sys.setprofile(on_return)
    try:
        return function(*args, **kwargs)
    finally:
        sys.setprofile(before)


def _structure(result: Any, leaves: list[Traced]) -> Any:
    """The structure of a result; ``None`` for a single array. Its arrays are added to ``leaves``."""
    if isinstance(result, (Traced, np.ndarray, np.generic, int, float, Size)):
        leaves.append(traced(result))
        return None
    return _structure_of(result, leaves)


def _structure_of(result: Any, leaves: list[Traced]) -> Any:
    if isinstance(result, (Traced, np.ndarray, np.generic, int, float, Size)):
        leaves.append(traced(result))
        return len(leaves) - 1
    if isinstance(result, dict):
        return (dict, [(key, _structure_of(one, leaves)) for key, one in result.items()])
    if isinstance(result, (tuple, list)):
        parts = [_structure_of(one, leaves) for one in result]
        kind: Any = type(result)
        make = kind._make if hasattr(kind, "_make") else kind
        return (make, parts)
    if isinstance(result, Selected):
        raise trace_error(*UNKNOWN_NUMBER, result.mask.node.place)
    raise trace_error(f"a result of type `{type(result).__name__}` cannot be traced", "return arrays, or tuples of them")


def _moved(part: Any, by: int) -> Any:
    """A structure with other numbers of its arrays."""
    if isinstance(part, int):
        return part + by
    make, parts = part
    if make is dict:
        return (dict, [(key, _moved(one, by)) for key, one in parts])
    return (make, [_moved(one, by) for one in parts])


def _built(structure: Any, results: Any) -> Any:
    """The results in their structure."""
    results = results if isinstance(results, tuple) else (results,)

    def build(part: Any) -> Any:
        if isinstance(part, int):
            return results[part]
        make, parts = part
        if make is dict:
            return {key: build(one) for key, one in parts}
        return make([build(one) for one in parts])

    return build(structure)


def _compiled(source: str, trace: Trace) -> Any:
    """The function of the program; an error names the line of Python that it comes from."""
    try:
        device: _native.Device = "gpu" if trace.on_gpu else "cpu"
        module = _native.compile(source, name=f"<fuseloop.jit {trace.name}>", device=device)
        function = module[module.functions[0]]
        function.check()
    except Error as error:
        raise _placed(error, source, trace.places, "the program that this became cannot be compiled") from None
    return function


def _placed(error: Error, source: str, places: list[Place], what: str) -> Error:
    """An error of the program with the line of Python that it comes from."""
    if error.span is None or error.notes and error.notes[0] in map(str, places):
        return error
    # The layout may give a statement several lines: it begins where a line is indented once.
    before = source[: error.span[0]].split("\n")
    before[-1] += source[error.span[0] :].partition("\n")[0]
    number = sum(1 for line in before if re.match(r"    [^\s)\]}]", line)) - 1
    place = places[min(max(number, 0), len(places) - 1)]
    drawn = f"{place}\n    {place.text.strip()}\n{what}\n{error}"
    notes = (str(place), *error.notes)
    return Error(error.message, code=error.code, span=error.span, help=error.help, notes=notes, drawn=drawn)


def _hold_types(function: Any, leaves: list[Traced], source: str) -> None:
    """Checks that the program computes in the types that NumPy would."""
    results = [result.partition("[")[0] for result in function.results]
    wanted = [language(leaf.dtype) for leaf in leaves]
    if results != wanted:
        raise Error(
            f"the program gives {', '.join(results)} where NumPy gives {', '.join(wanted)}",
            help=f"please report it, with the program:\n{source}",
        )


def _any_traced(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_any_traced(one) for one in value)
    if isinstance(value, dict):
        return any(_any_traced(one) for one in value.values())
    return isinstance(value, (Traced, Size))


@overload
def jit(function: Callable[P, R], /) -> Jit[P, R]: ...


@overload
def jit(*, static: Iterable[str] = ()) -> Callable[[Callable[P, R]], Jit[P, R]]: ...


def jit(function: Callable[P, R] | None = None, /, *, static: Iterable[str] = ()) -> Any:
    """Compiles a function written with NumPy.

    The function runs once for each set of types and ranks, with arrays that write down what is done
    with them; what they wrote becomes a program of the language, which ``.source`` shows. Where that
    is not possible, ``fuseloop.Error`` names the line of Python; NumPy never runs in its place.
    ``static`` names arguments that are part of the program although they are floats.

    Examples:
        >>> @jit
        ... def scaled(x):
        ...     return x / x.sum()
        >>> scaled(np.array([1.0, 3.0]))
        array([0.25, 0.75])
        >>> print(scaled.source)
        fn scaled(x: f64[n]) {
            x / sum(x)
        }
        <BLANKLINE>
    """
    if function is None:
        return lambda given: Jit(given, static)
    return Jit(function, static)
