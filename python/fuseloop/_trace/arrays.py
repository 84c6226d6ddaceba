"""The arrays of a trace: they stand for arguments and for what comes of them."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy
from numpy import dtype as Dtype
from numpy import ndarray as NdArray

from .errors import refuse
from .program import ATOM, NEGATE, Node, current, expr
from .sizes import Length, Size, product

#: Without its types, which know nothing of traced arrays.
np: Any = numpy

LANGUAGE = {
    "b1": "bool",
    "i1": "i8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
    "u1": "u8",
    "u2": "u16",
    "u4": "u32",
    "u8": "u64",
    "f2": "f16",
    "f4": "f32",
    "f8": "f64",
}
#: Types that arithmetic widens.
STORAGE = frozenset(["i8", "i16", "u8", "u16", "f16"])
BOOL = np.dtype(bool)
INT = np.dtype(np.int64)
FLOAT = np.dtype(np.float64)


def language(dtype: Any) -> str:
    """The language's name of a type."""
    dtype = np.dtype(dtype)
    name = LANGUAGE.get(f"{dtype.kind}{dtype.itemsize}")
    if name is None or not dtype.isnative:
        refuse(f"elements of type {dtype} cannot be traced", "the language has bool, integers and real floats")
    return name


class Cell:
    """Elements that assignments replace: all names of an array see them."""

    __slots__ = ("node", "version", "argument")

    def __init__(self, node: Node, argument: str | None) -> None:
        self.node = node
        self.version = 0
        #: The name of the argument, which a trace must not change.
        self.argument = argument


class Traced:
    """An array, or a number, while a function is traced."""

    __slots__ = ("_cell", "_own", "_seen", "_base", "_key", "dtype", "shape", "weak")
    __array_priority__ = 1000

    def __init__(
        self,
        node: Node,
        dtype: Any,
        shape: tuple[Length, ...] = (),
        *,
        weak: bool = False,
        argument: str | None = None,
        base: Traced | None = None,
        key: Any = None,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = shape
        #: Whether it takes the type of what it meets, as a ``float`` of Python does.
        self.weak = weak
        self._base = base
        self._key = key
        self._cell: Cell = Cell(node, argument) if base is None else base._cell
        self._own = node
        self._seen = self._cell.version

    @property
    def node(self) -> Node:
        """The expression of its elements, as they are now."""
        if self._base is None:
            return self._cell.node
        if self._seen != self._cell.version:
            refuse(
                "this view shows an array that was changed after the view was made",
                "take the view again after the assignment, or make a copy before it",
            )
        return self._own

    def assign(self, node: Node) -> None:
        """Replaces the elements in place."""
        if self._cell.argument is not None:
            refuse(
                f"the argument `{self._cell.argument}` would be changed in place",
                "work on a copy: x = x.copy()",
            )
        if self._base is None:
            self._cell.node = node
            self._cell.version += 1
            return
        if self._key is None:
            refuse("a view of another shape cannot be assigned to", "assign to the array itself")
        _ = self.node
        from .indexing import assign

        assign(self._base, self._key, Traced(node, self.dtype, self.shape))
        self._own = node
        self._seen = self._cell.version

    def hint(self, name: str) -> None:
        """The name that the function gave it."""
        if self._base is None and self._cell.argument is None and self._cell.node.hint is None:
            self._cell.node.hint = name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return product(self.shape)

    @property
    def itemsize(self) -> Any:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Any:
        return np.transpose(self)

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> Any:
        return np.zeros_like(self)

    @property
    def flat(self) -> Any:
        return np.ravel(self)

    @property
    def flags(self) -> Any:
        return refuse("where the elements of an array lie is not known while tracing")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .ufuncs import apply

        return apply(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .functions import dispatch

        return dispatch(function, args, kwargs)

    def __array__(self, *_: Any, **__: Any) -> Any:
        refuse(
            "the elements of an array are needed here, which a trace does not have",
            "use functions of NumPy that work on whole arrays",
        )

    def __bool__(self) -> bool:
        refuse(
            "an `if` or `while` that depends on elements cannot be traced",
            "use np.where(condition, a, b), or a program of the language",
        )

    def __index__(self) -> int:
        refuse("a number that depends on elements is needed here", "name the argument in `static`")

    def __int__(self) -> int:
        refuse("a number that depends on elements is needed here", "use x.astype(int)")

    def __float__(self) -> float:
        refuse("a number that depends on elements is needed here", "use NumPy's function in place of that of `math`")

    def __complex__(self) -> complex:
        refuse("complex numbers cannot be traced")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        if not isinstance(self.shape[0], int):
            refuse(
                f"a loop over an axis of length `{self.shape[0]}` cannot be traced",
                "use functions of whole arrays",
            )
        return (self[k] for k in range(self.shape[0]))

    def __repr__(self) -> str:
        shape = ", ".join(str(length) for length in self.shape)
        return f"<traced {language(self.dtype)}[{shape}]>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __getitem__(self, key: Any) -> Any:
        from .indexing import take

        return take(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from .indexing import assign

        assign(self, key, value)

    def __neg__(self) -> Any:
        return operate(np.negative, self)

    def __pos__(self) -> Any:
        return operate(np.positive, self)

    def __abs__(self) -> Any:
        return operate(np.absolute, self)

    def __invert__(self) -> Any:
        return operate(np.invert, self)

    def __round__(self, digits: int = 0) -> Any:
        return np.round(self, digits)

    # Methods of arrays that are functions of NumPy with the array first.

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return converted(self, np.dtype(dtype))

    def copy(self, order: str = "C") -> Any:
        return Traced(self.node, self.dtype, self.shape)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, given or None)

    def flatten(self, order: Any = "C") -> Any:
        return np.ravel(self, order).copy()

    def fill(self, value: Any) -> None:
        self[...] = value

    def dot(self, other: Any) -> Any:
        return np.dot(self, other)

    def sort(self, axis: int = -1, **kwargs: Any) -> None:
        self.assign(np.sort(self, axis, **kwargs).node)

    def ptp(self, *args: Any, **kwargs: Any) -> Any:
        return np.ptp(self, *args, **kwargs)

    def conj(self) -> Any:
        return self

    def item(self, *args: Any) -> Any:
        return refuse("a number that depends on elements is needed here", "keep it as an array")

    def tolist(self) -> Any:
        return refuse("the elements of an array are needed here, which a trace does not have")

    def view(self, *args: Any) -> Any:
        return refuse("the bits of an array as another type cannot be traced", "use x.astype, or a program with bitcast")


#: The operators of arithmetic, by the names of Python's methods.
ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
}


def _binary(name: str, ufunc: Any) -> None:
    def forward(self: Traced, other: Any) -> Any:
        return operate(ufunc, self, other)

    def reflected(self: Traced, other: Any) -> Any:
        return operate(ufunc, other, self)

    def in_place(self: Traced, other: Any) -> Any:
        result = operate(ufunc, self, other)
        if self.weak or not self.shape and self._cell.argument is not None:
            return result  # a number is no array: the name gets a new value
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(f"Cannot cast ufunc '{ufunc.__name__}' output from {result.dtype!r} to {self.dtype!r}")
        if len(result.shape) != len(self.shape):
            raise ValueError("non-broadcastable output operand")
        self.assign(converted(result, self.dtype).node)
        return self

    setattr(Traced, f"__{name}__", forward)
    setattr(Traced, f"__r{name}__", reflected)
    setattr(Traced, f"__i{name}__", in_place)


for _name, _ufunc in {
    **ARITHMETIC,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}.items():
    _binary(_name, _ufunc)


def _comparison(name: str, ufunc: Any) -> None:
    def compare(self: Traced, other: Any) -> Any:
        return operate(ufunc, self, other)

    setattr(Traced, f"__{name}__", compare)


for _name, _ufunc in {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}.items():
    _comparison(_name, _ufunc)


def _method(name: str, function: Any) -> None:
    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    setattr(Traced, name, method)


for _name in (
    "sum prod mean var std max min argmax argmin any all cumsum cumprod round clip ravel swapaxes "
    "squeeze take repeat argsort trace diagonal searchsorted nonzero choose compress partition"
).split():
    _method(_name, getattr(np, _name))


def operate(ufunc: Any, *operands: Any) -> Any:
    """The result of an operator: of numbers of Python it is one too."""
    from .ufuncs import apply

    result = apply(ufunc, "__call__", operands, {})
    if isinstance(result, Traced) and not result.shape and result.dtype == FLOAT:
        result.weak = all(is_weak(operand) for operand in operands)
    return result


def is_weak(operand: Any) -> bool:
    """Whether an operand takes the type of what it meets."""
    return type(operand) in (bool, int, float) or isinstance(operand, Size) or getattr(operand, "weak", False) is True


def weak_float(size: Size) -> Traced:
    """A size as a ``float`` of Python."""
    return Traced(size_node(size, FLOAT), FLOAT, weak=True)


def size_node(size: Size, dtype: Any) -> Node:
    """A size as a number of a type."""
    return expr_of_size(size) if np.dtype(dtype) == INT else expr(f"{language(dtype)}({{s0}})", lengths=(size,), cheap=True)


def expr_of_size(size: Size) -> Node:
    def render(_: Any) -> str:
        return size.text()[0]

    return Node(render, prec=5, cheap=True, natural=True)


def literal(value: Any, dtype: Any, typed: bool = False) -> Node:
    """A number in the text, of a type that its context gives it unless it is ``typed``."""
    dtype = np.dtype(dtype)
    name = language(dtype)
    if dtype.kind == "b":
        return expr("true" if value else "false", cheap=True)
    if dtype.kind in "iu":
        number = int(value)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not low <= number <= high:
            raise OverflowError(f"Python integer {number} out of bounds for {dtype.name}")
        shown = str(number)
    else:
        shown = _float_text(float(value) if dtype != np.float32 else float(np.float32(value)), dtype)
    if typed or name in STORAGE:
        return expr(f"{name}({shown})", cheap=True, natural=not shown.startswith("-"))
    negative = shown.startswith("-")
    return expr(shown, prec=NEGATE if negative else ATOM, cheap=True, natural=not negative)


def _float_text(value: float, dtype: Dtype[Any]) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return repr(float(value)) if dtype != np.float32 else str(np.float32(value))


class Number:
    """A number that is known while tracing, with its type as NumPy sees it."""

    __slots__ = ("value", "kind")
    shape: tuple[Length, ...] = ()

    def __init__(self, value: Any) -> None:
        self.value = value
        #: ``int`` or ``float`` for a number of Python, else its type.
        self.kind: Any = type(value) if type(value) in (int, float) else np.dtype(type(value))


Operand = Any


def lift(value: Any) -> Operand:
    """An operand as a traced array, a size or a known number."""
    if isinstance(value, (Traced, Size, Number)):
        return value
    # A number of NumPy may be a `float` of Python too.
    if isinstance(value, numpy.generic):
        language(value.dtype)
        return Number(value)
    if isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
        return Number(value)
    if isinstance(value, numpy.ndarray):
        return capture(value)
    if isinstance(value, (list, tuple)):
        from .modules import array

        made = array(value)
        return made if isinstance(made, Traced) else lift(made)
    if isinstance(value, complex):
        refuse("complex numbers cannot be traced")
    return refuse(f"an object of type `{type(value).__name__}` cannot be traced")


def traced(value: Any) -> Traced:
    """An operand as a traced array."""
    operand = lift(value)
    if isinstance(operand, Traced):
        return operand
    if isinstance(operand, Size):
        return Traced(expr("i64({s0})", lengths=(operand,), cheap=True, natural=True), INT)
    dtype = kind_of(operand)
    return Traced(literal(operand.value, dtype, typed=True), dtype)


def kind_of(operand: Operand) -> Any:
    """The type of an operand by itself."""
    if isinstance(operand, Size):
        return INT
    if isinstance(operand, Number):
        return np.dtype(operand.kind)
    return operand.dtype


def spec_of(operand: Operand) -> Any:
    """The type of an operand as NumPy's rules of promotion take it."""
    if isinstance(operand, Size):
        return int
    if isinstance(operand, Number):
        return operand.kind
    return float if operand.weak else operand.dtype


def shape_of(operand: Operand) -> tuple[Length, ...]:
    return () if isinstance(operand, Size) else operand.shape


def node_of(operand: Operand, dtype: Any, typed: bool = False) -> Node:
    """The expression of an operand in a type; that of a number that is known, or of a size, gets it
    from its context unless it is ``typed``."""
    dtype = np.dtype(dtype)
    if isinstance(operand, Number):
        return literal(operand.value, dtype, typed)
    if isinstance(operand, Size):
        return size_node(operand, dtype) if not typed else expr(f"{language(dtype)}({{s0}})", lengths=(operand,), cheap=True)
    return cast(operand.node, operand.dtype, dtype)


def cast(node: Node, before: Any, after: Any) -> Node:
    """An expression in another type."""
    before, after = np.dtype(before), np.dtype(after)
    if before == after:
        return node
    natural = node.natural and after.kind in "iuf"
    return expr(f"{language(after)}({{0}})", node, natural=natural, counts=node.counts and after == INT)


def converted(value: Traced, dtype: Dtype[Any]) -> Traced:
    """A new array with the elements in another type."""
    if dtype == FLOAT and value.weak:
        return Traced(value.node, dtype, value.shape)
    return Traced(cast(value.node, value.dtype, dtype), dtype, value.shape)


def capture(array: NdArray[Any, Any], called: str = "c") -> Traced:
    """An array from outside of the function: small ones are part of the program, others become
    arguments of it."""
    trace = current()
    own = id(array) in trace.made
    known = trace.known.get(id(array))
    if known is not None and not own:
        held(known)
    if known is not None and (not own or np.array_equal(known[1], array)):
        stands: Traced = known[2]
        return stands
    name = language(array.dtype)
    if own and 0 < array.size <= 64 and array.ndim <= 2 and np.all(np.isfinite(array)):
        made = Traced(expr(_array_text(array, name)), array.dtype, array.shape)
    else:
        order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        kept = array.copy() if own else array
        if not kept.flags.c_contiguous and kept.transpose(order).flags.c_contiguous:
            kept = kept.transpose(order)
        node, shape = trace.parameter(called, name, kept.shape, symbolic=False)
        made = Traced(node, array.dtype, shape, argument=called)
        if kept.shape != array.shape or not own and kept is not array:
            made = np.transpose(made, [order.index(k) for k in range(array.ndim)])
        trace.captured.append(kept)
    trace.known[id(array)] = (array, array.copy(), made)
    return made


def held(known: tuple[Any, Any, Any]) -> None:
    """Refuses a trace that changed an array from outside of it, which its program does not."""
    array, before, _ = known
    if not np.array_equal(array, before, equal_nan=array.dtype.kind == "f"):
        refuse("an array that the function used was changed afterwards", "work on a copy of it")


def _array_text(array: NdArray[Any, Any], name: str) -> str:
    def shown(part: Any) -> str:
        if part.ndim:
            return f"[{', '.join(shown(row) for row in part)}]"
        if part.dtype.kind == "b":
            return "true" if part else "false"
        return str(int(part)) if part.dtype.kind in "iu" else _float_text(float(part), part.dtype)

    return f"{name}({shown(array)})" if name != "bool" else shown(array)
