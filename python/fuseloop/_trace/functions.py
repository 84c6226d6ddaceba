"""The functions of NumPy: what each does with traced arrays."""

from __future__ import annotations

from typing import Any

import numpy

from . import reductions, shapes, statistics
from .arrays import BOOL, FLOAT, Number, Traced, converted, kind_of, language, lift, node_of, shape_of, traced
from .errors import refuse
from .program import IF, OR, PRODUCT, Node, elements, expr
from .registry import FUNCTIONS, axis_of, common, implements, only
from .sizes import Length, Size, same, text
from .ufuncs import broadcast, call, into

#: Without its types, which know nothing of traced arrays.
np: Any = numpy

#: Modules whose functions are in the table.
TABLES = (reductions, shapes, statistics)
accumulate = reductions.accumulate
at = reductions.at
reduce_ufunc = reductions.reduce_ufunc
reshape = shapes.reshape


def dispatch(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of one of NumPy's functions with a traced argument."""
    own = FUNCTIONS.get(function)
    if own is not None:
        return own(*args, **kwargs)
    from .modules import through

    return through(function, args, kwargs)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        refuse("the number of elements for which a condition holds is not known", "use np.where(condition, a, b)")
    kind = common([x, y])
    operands = [lift(condition), lift(x), lift(y)]
    shape = broadcast([shape_of(operand) for operand in operands])
    known = [k for k in (1, 2) if not isinstance(operands[k], (Number, Size))]
    chosen = [node_of(operands[k], kind, not known and k == 1) for k in (1, 2)]
    test = node_of(operands[0], BOOL)
    node = expr("if {0} then {1} else {2}", test, *chosen, prec=IF, precs=(OR, IF, IF))
    node.natural = all(one.natural for one in chosen)
    result = Traced(node, kind, shape)
    # An `if` of a condition with fewer axes than a branch is no array of them all.
    return result


@implements(np.clip)
def clip(a: Any, a_min: Any = np._NoValue, a_max: Any = np._NoValue, out: Any = None, *, min: Any = np._NoValue, max: Any = np._NoValue, **other: Any) -> Any:
    only("clip", **{k: v for k, v in other.items() if k not in ("dtype", "casting")})
    low = a_min if min is np._NoValue else min
    high = a_max if max is np._NoValue else max
    result = traced(a)
    if low is not np._NoValue and low is not None:
        result = call(np.maximum, (result, low))
    if high is not np._NoValue and high is not None:
        result = call(np.minimum, (result, high))
    return into(out, result)


@implements(np.round, np.around)
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    a = traced(a)
    if a.dtype.kind != "f":
        if decimals < 0:
            refuse("rounding integers to tens cannot be traced")
        return into(out, a)
    if decimals == 0:
        return into(out, call(np.rint, (a,)))
    scale = 10.0 ** abs(decimals)
    scaled = call(np.rint, (a * scale if decimals > 0 else a / scale,))
    return into(out, scaled / scale if decimals > 0 else scaled * scale)


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *, device: Any = None) -> Any:
    return full_like(a, 0, dtype, shape=shape)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *, device: Any = None) -> Any:
    return full_like(a, 1, dtype, shape=shape)


@implements(np.empty_like)
def empty_like(prototype: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *, device: Any = None) -> Any:
    return full_like(prototype, 0, dtype, shape=shape)


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *, device: Any = None) -> Any:
    from .modules import full

    like = lift(a)
    return full(shape_of(like) if shape is None else shape, fill_value, kind_of(like) if dtype is None else dtype)


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return traced(a).copy()


@implements(np.shape)
def shape(a: Any) -> Any:
    return shape_of(lift(a))


@implements(np.ndim)
def ndim(a: Any) -> int:
    return len(shape_of(lift(a)))


@implements(np.size)
def size(a: Any, axis: Any = None) -> Any:
    a = traced(a)
    return a.size if axis is None else a.shape[axis_of(axis, a.ndim)]


@implements(np.result_type)
def result_type(*operands: Any) -> Any:
    return np.result_type(*[kind_of(lift(o)) if isinstance(o, (Traced, Size)) else o for o in operands])


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return False


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return True


@implements(np.real, np.real_if_close)
def real(val: Any, tol: Any = 100) -> Any:
    return traced(val)


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> Any:
    return np.can_cast(kind_of(lift(from_)) if isinstance(from_, (Traced, Size)) else from_, to, casting)


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> Any:
    return kind_of(lift(a))


# Products.


def products(name: str, a: Any, b: Any) -> Any:
    """``@`` and its relatives of stacks of vectors."""
    a, b = traced(a), traced(b)
    if name != "matmul":
        letters = {"vecdot": "...i,...i->...", "matvec": "...ij,...j->...i", "vecmat": "...i,...ij->...j"}[name]
        return einsum(letters, a, b)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    kind = np.result_type(a.dtype, b.dtype)
    if kind == BOOL:
        refuse("products of matrices of truth values cannot be traced", "convert them: x.astype(int)")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if not _agree(a.shape[-1], inner):
        raise ValueError(f"matmul: Input operand 1 has a mismatch in its core dimension 0: {a.shape} and {b.shape}")
    left, right = converted(a, kind), converted(b, kind)
    if a.ndim == b.ndim == 1:
        return np.sum(call(np.multiply, (left, right)), dtype=kind)
    ahead = broadcast([a.shape[:-2], b.shape[:-2]])
    shape = ahead + a.shape[-2:-1] + (b.shape[-1:] if b.ndim > 1 else ())
    node = expr("{0} @ {1}", left.node, right.node, prec=PRODUCT, precs=(PRODUCT, PRODUCT + 1))
    name = language(kind)
    if name in ("i8", "i16", "u8", "u16", "f16"):
        node = expr(f"{name}({{0}})", node)
    return Traced(node, kind, shape)


def _agree(a: Length, b: Length) -> bool:
    try:
        broadcast([(a,), (b,)])
    except ValueError:
        return False
    return not (isinstance(a, int) and a == 1) ^ (isinstance(b, int) and b == 1)


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    a, b = traced(a), traced(b)
    if not a.ndim or not b.ndim:
        return into(out, call(np.multiply, (a, b)))
    if b.ndim > 2:
        return into(out, np.tensordot(a, b, axes=(-1, -2)))
    return into(out, products("matmul", a, b))


@implements(np.vdot)
def vdot(a: Any, b: Any) -> Any:
    return dot(np.ravel(a), np.ravel(b))


@implements(np.inner)
def inner(a: Any, b: Any) -> Any:
    a, b = traced(a), traced(b)
    if not a.ndim or not b.ndim:
        return call(np.multiply, (a, b))
    return np.tensordot(a, b, axes=(-1, -1))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    a, b = np.ravel(traced(a)), np.ravel(traced(b))
    return into(out, call(np.multiply, (a[:, None], b[None, :])))


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    a, b = traced(a), traced(b)
    rank = max(a.ndim, b.ndim)
    a, b = (np.reshape(x, (1,) * (rank - x.ndim) + x.shape) for x in (a, b))
    pairs = call(np.multiply, (a[(slice(None), None) * rank], b[(None, slice(None)) * rank]))
    return np.reshape(pairs, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(traced(a), axisa, -1), np.moveaxis(traced(b), axisb, -1)
    if not (a.shape[-1] == 3 and b.shape[-1] == 3):
        refuse("a cross product of vectors without three elements cannot be traced")
    parts = [a[..., i] * b[..., k] - a[..., k] * b[..., i] for i, k in ((1, 2), (2, 0), (0, 1))]
    return np.moveaxis(np.stack(parts, axis=-1), -1, axisc)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = traced(a), traced(b)
    if isinstance(axes, int):
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        pair = [[one] if isinstance(one, int) else list(one) for one in axes]
        left, right = [axis_of(k, a.ndim) for k in pair[0]], [axis_of(k, b.ndim) for k in pair[1]]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(a.ndim)]
    second = [first[left[right.index(k)]] if k in right else next(letters) for k in range(b.ndim)]
    result = [c for k, c in enumerate(first) if k not in left] + [c for k, c in enumerate(second) if k not in right]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(result)}", a, b)


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **other: Any) -> Any:
    only("einsum", **{k: v for k, v in other.items() if k not in ("order", "casting")})
    subscripts, arrays = operands[0], [traced(a) for a in operands[1:]]
    if not isinstance(subscripts, str):
        refuse("`np.einsum` with lists of axes cannot be traced", 'write them as letters: "ij,jk->ik"')
    subscripts = subscripts.replace(" ", "")
    given, arrow, result = subscripts.partition("->")
    terms = given.split(",")
    if "..." in subscripts:
        terms, result = _without_dots(terms, result if arrow else None, arrays)
        arrow = "->"
    if not arrow:
        letters = "".join(terms)
        result = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    lengths: dict[str, Length] = {}
    for term, a in zip(terms, arrays, strict=True):
        if len(term) != a.ndim:
            raise ValueError("einstein sum subscripts string does not match the number of axes")
        for letter, length in zip(term, a.shape, strict=True):
            known = lengths.setdefault(letter, length)
            lengths[letter] = broadcast([(known,), (length,)])[0]
    kind = np.result_type(*[a.dtype for a in arrays])
    summed = [c for c in dict.fromkeys("".join(terms)) if c not in result]
    nodes = [converted(a, kind).node for a in arrays]
    shape = tuple(lengths[c] for c in result)
    names = {c: k for k, c in enumerate(list(result) + summed)}

    def body(p: Any) -> str:
        factors = []
        for number, (term, a) in enumerate(zip(terms, arrays, strict=True)):
            places = [
                "0" if same(length, 1) and not same(lengths[c], 1) else p.i[names[c]]
                for c, length in zip(term, a.shape, strict=True)
            ]
            factors.append(f"{p.arg(number)}[{', '.join(places)}]" if places else p.arg(number))
        element = " * ".join(factors)
        if not summed:
            return f"{language(kind)}({element})" if len(factors) > 1 and kind.itemsize < 4 else element
        bounds = ", ".join(f"{p.i[names[c]]} < {text(lengths[c])}" for c in summed)
        total = f"sum[{bounds}]({element})"
        return f"{language(kind)}({total})" if kind.itemsize < 4 else total

    if kind == BOOL:
        refuse("`np.einsum` of truth values cannot be traced", "convert them: x.astype(int)")
    if not shape:
        return into(out, Traced(Node(body, tuple(nodes), named=True), kind))
    return into(out, Traced(elements(body, shape, *nodes), kind, shape))


def _without_dots(terms: list[str], result: str | None, arrays: list[Traced]) -> tuple[list[str], str]:
    used = set("".join(terms))
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in used]
    most = max(a.ndim - len(t.replace("...", "")) for t, a in zip(terms, arrays, strict=True) if "..." in t)
    letters = "".join(free[:most])
    made = []
    for term, a in zip(terms, arrays, strict=True):
        count = a.ndim - len(term.replace("...", ""))
        made.append(term.replace("...", letters[len(letters) - count :]) if "..." in term else term)
    if result is None:
        plain = "".join(term.replace("...", "") for term in terms)
        return made, letters + "".join(sorted(c for c in set(plain) if plain.count(c) == 1))
    return made, result.replace("...", letters)


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = traced(x)
    x = x if x.dtype.kind == "f" else converted(x, FLOAT)
    matrix = ord is not None and (axis is None and x.ndim == 2 or isinstance(axis, tuple) and len(axis) == 2)
    if matrix and ord != "fro":
        refuse(f"the norm `{ord}` of a matrix cannot be traced", "Frobenius' norm can be")
    if ord in (None, 2, "fro"):
        return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))
    size = np.abs(x)
    if ord == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(x != 0, axis=axis, keepdims=keepdims).astype(x.dtype)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    return _correlated(traced(a), np.flip(traced(v)), mode)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    return _correlated(traced(a), traced(v), mode)


def _correlated(a: Traced, v: Traced, mode: str) -> Any:
    kind = np.result_type(a.dtype, v.dtype)
    a, v = converted(a, kind), converted(v, kind)
    n, width = a.shape[0], v.shape[0]
    from .sizes import now

    if now(width) > now(n):
        refuse("a window that is longer than the array cannot be traced", "swap the two")
    if mode == "full":
        before = after = width - 1
    elif mode == "same":
        before = (width - 1) - (width - 1) // 2 if not isinstance(width, int) else width // 2
        after = width - 1 - before
    else:
        before = after = 0
    shape = (n - width + 1 + before + after,)
    inside = isinstance(before, int) and before == 0 and isinstance(after, int) and after == 0

    def body(p: Any) -> str:
        i, k = p.i[:2]
        place = f"{i} + {k}" if inside else f"{i} + {k} - {text(before)}" if isinstance(before, int) else f"{i} + {k} - ({text(before)})"
        term = f"{p.arg(0)}[{place}] * {p.arg(1)}[{k}]"
        if not inside:
            low = text(before)
            high = text(n + before)
            term = f"if {i} + {k} >= {low} && {i} + {k} < {high} then {term} else 0"
        total = f"sum[{k} < {text(width)}]({term})"
        return f"{language(kind)}({total})" if kind.itemsize < 4 else total

    return Traced(elements(body, shape, a.node, v.node), kind, shape)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    only("interp", period=period)
    x, xp, fp = (converted(traced(one), FLOAT) for one in (x, xp, fp))
    last = xp.shape[0] - 1
    k = np.clip(np.searchsorted(xp, x), 1, last)
    x0, x1, y0, y1 = xp[k - 1], xp[k], fp[k - 1], fp[k]
    inner = (y1 - y0) / (x1 - x0) * (x - x0) + y0
    below = np.where(x < xp[0], fp[0] if left is None else left, inner)
    return np.where(x >= xp[-1], np.where(x > xp[-1], fp[-1] if right is None else right, fp[-1]), below)


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    x: Any = traced(a)
    y: Any = traced(b)
    near = np.abs(x - y) <= atol + rtol * np.abs(y)
    result = (near & np.isfinite(y)) | (x == y)
    return result | (np.isnan(x) & np.isnan(y)) if equal_nan else result


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return np.all(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    return np.all(traced(a1) == traced(a2))


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    x = traced(x)
    if not copy:
        refuse("`np.nan_to_num` in place cannot be traced", "assign its result")
    if x.dtype.kind != "f":
        return x
    limits = np.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    x = np.where(np.isnan(x), nan, x)
    return np.where(x == np.inf, float(high), np.where(x == -np.inf, float(low), x))


@implements(np.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:
    if axis != 0 or shape_of(lift(start)) or shape_of(lift(stop)):
        refuse("`np.linspace` between arrays cannot be traced")
    kind = common([start, stop, 0.0])
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps
    from .modules import arange

    numbers = traced(arange(num))
    values = numbers.astype(kind) * step + start
    if endpoint:
        values = np.where(numbers == num - 1, stop, values)
    values = converted(traced(values), np.dtype(dtype) if dtype is not None else kind)
    return (values, step) if retstep else values


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    arrays = [np.ravel(traced(x)) for x in xi]
    rank = len(arrays)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[0], order[1] = 1, 0
    made = []
    for k, a in enumerate(arrays):
        lengths: list[Length] = [1] * rank
        lengths[order.index(k)] = a.shape[0]
        made.append(np.reshape(a, tuple(lengths)))
    return tuple(made) if sparse else shapes.broadcast_arrays(*made)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = traced(f)
    f = f if f.dtype.kind == "f" else converted(f, FLOAT)
    if edge_order != 1 or any(shape_of(lift(h)) for h in varargs):
        refuse("a gradient of this kind cannot be traced", "one with equal distances and edge_order=1 can be")
    axes = range(f.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = [axis_of(k, f.ndim) for k in axes]
    distances = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    made = []
    for at, h in zip(axes, distances, strict=True):

        def part(start: Any, stop: Any, at: int = at) -> Any:
            return f[(slice(None),) * at + (slice(start, stop),)]

        middle = (part(2, None) - part(None, -2)) / (2.0 * h)
        first = (part(1, 2) - part(0, 1)) / h
        last = (part(-1, None) - part(-2, -1)) / h
        made.append(np.concatenate([first, middle, last], axis=at))
    return made[0] if len(made) == 1 else tuple(made)

