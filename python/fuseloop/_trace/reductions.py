"""Reductions, scans and order statistics."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import dtype as Dtype

from .arrays import BOOL, FLOAT, INT, STORAGE, Traced, converted, language, lift, literal, node_of, traced
from .errors import refuse
from .program import PRODUCT, Node, elements, expr
from .registry import axes_of, axis_of, common, given, implements, only, reshaped
from .sizes import Length, product, text
from .ufuncs import call, into

#: Without its types, which know nothing of traced arrays.
np: Any = numpy


def kept(node: Node, shape: tuple[Length, ...], axes: tuple[int, ...], keepdims: Any) -> tuple[Node, tuple[Length, ...]]:
    """A reduction over axes, which stay with the length 1 if they are to be kept."""
    if not given(keepdims):
        return node, tuple(length for axis, length in enumerate(shape) if axis not in axes)
    whole = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    if len(axes) == len(shape):
        t = Traced(node, FLOAT)
        return elements(lambda p: p.arg(0), whole, t.node), whole
    return reshaped(node, whole), whole


def reduced(reducer: str, node: Node, rank: int, axes: tuple[int, ...]) -> Node:
    """A reducer over axes, one after the other from the last."""
    natural = node.natural or reducer in ("argmax", "argmin")
    if len(axes) == rank:
        return expr(f"{reducer}({{0}})", node, natural=natural)
    for axis in reversed(axes):
        node = expr(f"{reducer}({{0}}, axis = {axis})", node, natural=natural)
    return node


def narrowed(node: Node, dtype: Dtype[Any]) -> Node:
    """The result of a reduction, which widens storage types, in the type that NumPy gives it."""
    return expr(f"{language(dtype)}({{0}})", node) if language(dtype) in STORAGE else node


def reduction(reducer: str, a: Traced, axis: Any, keepdims: Any, dtype: Dtype[Any]) -> Traced:
    """A reduction of elements that have the type of the result."""
    if not a.shape:
        return Traced(a.node, dtype)
    axes = axes_of(axis, a.ndim)
    node = narrowed(reduced(reducer, a.node, a.ndim, axes), dtype) if axes else a.node
    node, shape = kept(node, a.shape, axes, keepdims)
    return Traced(node, dtype, shape)


def selected(a: Traced, where: Any, zero: Any) -> Traced:
    """The elements for which a condition holds, and others that change nothing."""
    return a if where is True or given(where) is None else np.where(where, a, zero)


@implements(np.sum, np.add.reduce)
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    return _total("sum", np.add, a, axis, dtype, out, keepdims, initial, where)


@implements(np.prod)
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    return _total("prod", np.multiply, a, axis, dtype, out, keepdims, initial, where)


def _total(name: str, ufunc: Any, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    a = traced(a)
    if dtype is None:
        small = a.dtype.kind in "bui" and a.dtype.itemsize < 8
        dtype = (np.uint64 if a.dtype.kind == "u" else np.int64) if small else a.dtype
    a = selected(converted(a, np.dtype(dtype)), where, 0 if name == "sum" else 1)
    result = reduction(name, a, axis, keepdims, a.dtype)
    if given(initial) is not None:
        result = call(ufunc, (result, initial))
    return into(out, result)


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    a = traced(a)
    kind = np.dtype(dtype) if dtype is not None else a.dtype if a.dtype.kind == "f" else FLOAT
    if where is not True and given(where) is not None:
        total = sum(converted(a, kind), axis, keepdims=keepdims, where=where)
        return into(out, total / sum(np.broadcast_to(where, a.shape), axis, keepdims=keepdims).astype(kind))
    a = converted(a, kind)
    if not a.shape:
        return a
    axes = axes_of(axis, a.ndim)
    if len(axes) in (1, a.ndim):
        node = narrowed(reduced("mean", a.node, a.ndim, axes), kind)
    else:
        count = product(a.shape[k] for k in axes)
        total = reduced("sum", a.node, a.ndim, axes)
        node = narrowed(expr(f"{{0}} / {_wide(kind)}({{s0}})", total, prec=PRODUCT, precs=(PRODUCT,), lengths=(count,)), kind)
    node, shape = kept(node, a.shape, axes, keepdims)
    return into(out, Traced(node, kind, shape))


def _wide(dtype: Dtype[Any]) -> str:
    """The type that arithmetic on elements of a type of floats has."""
    return "f32" if language(dtype) in STORAGE else language(dtype)


@implements(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    return into(out, _spread("var", a, axis, dtype, ddof, keepdims, where, mean, correction))


@implements(np.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    return into(out, _spread("std", a, axis, dtype, ddof, keepdims, where, mean, correction))


def _spread(name: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, about: Any, correction: Any) -> Traced:
    only(name, mean=about)
    if where is not True:
        only(name, where=where)
    ddof = ddof if given(correction) is None else correction
    a = traced(a)
    kind = np.dtype(dtype) if dtype is not None else a.dtype if a.dtype.kind == "f" else FLOAT
    a = converted(a, kind)
    axes = axes_of(axis, a.ndim)
    if not a.ndim:
        a, axes, keepdims = np.reshape(a, (1,)), (0,), False
    if isinstance(ddof, (int, float)) and ddof == 0 and len(axes) in (1, a.ndim):
        node = narrowed(reduced(name, a.node, a.ndim, axes), kind)
        node, shape = kept(node, a.shape, axes, keepdims)
        return Traced(node, kind, shape)
    center = mean(a, axes, keepdims=True)
    squares = np.square(a - center)
    count = product(a.shape[k] for k in axes)
    result: Traced = sum(squares, axes, keepdims=keepdims) / (count - ddof)
    spread: Traced = np.sqrt(result) if name == "std" else result
    return spread


@implements(np.max, np.amax)
def max(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    return _extreme("max", np.maximum, a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin)
def min(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    return _extreme("min", np.minimum, a, axis, out, keepdims, initial, where)


def _extreme(name: str, ufunc: Any, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    a = traced(a)
    if where is not True and given(where) is not None:
        a = np.where(where, a, np.asarray(initial, a.dtype)[()])
    if a.dtype == BOOL:
        name = "any" if name == "max" else "all"
    result = reduction(name, a, axis, keepdims, a.dtype)
    return into(out, result if given(initial) is None else call(ufunc, (result, initial)))


@implements(np.any)
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return into(out, reduction("any", selected(converted(traced(a), BOOL), where, False), axis, keepdims, BOOL))


@implements(np.all)
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return into(out, reduction("all", selected(converted(traced(a), BOOL), where, True), axis, keepdims, BOOL))


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return into(out, _place("argmax", traced(a), axis, keepdims))


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return into(out, _place("argmin", traced(a), axis, keepdims))


def _place(name: str, a: Traced, axis: Any, keepdims: Any) -> Traced:
    a = converted(a, np.dtype(np.int32)) if a.dtype == BOOL else a
    axes = axes_of(axis, a.ndim)
    if not a.ndim:
        return Traced(literal(0, INT, True), INT)
    node, shape = kept(reduced(name, a.node, a.ndim, axes), a.shape, axes, keepdims)
    return Traced(node, INT, shape)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return sum(converted(traced(a), BOOL), axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return into(out, max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims))


def reduce_ufunc(ufunc: Any, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    """A reduction by an elementwise function of two operands."""
    known: Any = {
        "add": sum,
        "multiply": prod,
        "maximum": max,
        "minimum": min,
        "logical_and": all,
        "logical_or": any,
    }.get(ufunc.__name__)
    if known is None:
        refuse(f"`np.{ufunc.__name__}.reduce` cannot be traced")
    options = {"initial": initial} if known not in (all, any) else {}
    if known in (sum, prod):
        options["dtype"] = dtype
    return known(a, axis, out=out, keepdims=keepdims, where=where, **options)


def accumulate(ufunc: Any, a: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """The results of a reduction after each element."""
    reducer = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}.get(ufunc.__name__)
    if reducer is None:
        refuse(f"`np.{ufunc.__name__}.accumulate` cannot be traced", "a program of the language has recurrences")
    return scan(reducer, traced(a), axis, dtype)


def scan(reducer: str, a: Traced, axis: Any, dtype: Any) -> Traced:
    if axis is None:
        a, axis = np.ravel(a), 0
    if dtype is None:
        small = reducer in ("sum", "prod") and a.dtype.kind in "bui" and a.dtype.itemsize < 8
        dtype = (np.uint64 if a.dtype.kind == "u" else np.int64) if small else a.dtype
    a = converted(a, np.dtype(dtype))
    at, rank = axis_of(axis, a.ndim), a.ndim
    name = language(a.dtype)

    def body(p: Any) -> str:
        places = [p.i[rank] if k == at else p.i[k] for k in range(rank)]
        prefix = f"{reducer}[{p.i[rank]} <= {p.i[at]}]({p.arg(0)}[{', '.join(places)}])"
        return f"{name}({prefix})" if name in STORAGE else prefix

    return Traced(elements(body, a.shape, a.node, natural=a.node.natural), a.dtype, a.shape)


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return into(out, scan("sum", traced(a), axis, dtype))


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return into(out, scan("prod", traced(a), axis, dtype))


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    only("sort", order=order)
    return _sorted("sort", traced(a), axis)


@implements(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    only("argsort", order=order)
    return _sorted("argsort", traced(a), axis)


def _sorted(name: str, a: Traced, axis: Any) -> Traced:
    if axis is None:
        a, axis = np.ravel(a), 0
    at = axis_of(axis, a.ndim)
    where = "" if at == a.ndim - 1 else f", axis = {at}"
    source = converted(a, np.dtype(np.int32)) if a.dtype == BOOL else a
    node = expr(f"{name}({{0}}{where})", source.node, natural=name == "argsort" or a.node.natural)
    dtype = INT if name == "argsort" else source.dtype
    return converted(Traced(node, dtype, a.shape), INT if name == "argsort" else a.dtype)


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    a = traced(a)
    a = a if a.dtype.kind == "f" else converted(a, FLOAT)
    axes = axes_of(axis, a.ndim)
    if len(axes) not in (1, a.ndim):
        refuse("a median over several axes cannot be traced", "reshape these to one axis")
    node, shape = kept(narrowed(reduced("median", a.node, a.ndim, axes), a.dtype), a.shape, axes, keepdims)
    return into(out, Traced(node, a.dtype, shape))


@implements(np.quantile)
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: Any = False, *, weights: Any = None, interpolation: Any = None) -> Any:
    only("quantile", weights=weights, interpolation=interpolation)
    if method != "linear":
        refuse(f"quantiles by the method `{method}` cannot be traced", 'the language has method="linear"')
    a, places = traced(a), lift(q)
    if getattr(places, "shape", ()):
        if not isinstance(q, (list, tuple, np.ndarray)) or np.ndim(q) != 1:
            refuse("quantiles at places that depend on an array cannot be traced", "ask for one after the other")
        return into(out, np.stack([quantile(a, one, axis, keepdims=keepdims) for one in q]))
    if a.dtype == BOOL:
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported")
    kind = np.result_type(a.dtype, 0.0) if a.dtype.kind == "f" else FLOAT
    a = converted(a, kind)
    axes = axes_of(axis, a.ndim)
    if len(axes) not in (1, a.ndim):
        refuse("a quantile over several axes cannot be traced", "reshape these to one axis")
    where = "" if len(axes) == a.ndim else f", axis = {axes[0]}"
    wide = np.dtype(np.float32) if kind == np.float16 else kind
    place = node_of(places, wide)
    node = narrowed(expr(f"quantile({{0}}, {{1}}{where})", a.node, place), kind)
    node, shape = kept(node, a.shape, axes, keepdims)
    return into(out, Traced(node, kind, shape))


@implements(np.percentile)
def percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(q, (list, tuple, np.ndarray)):
        return quantile(a, [one / 100 for one in q], *args, **kwargs)
    return quantile(a, q / 100, *args, **kwargs)


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    only("searchsorted", sorter=sorter)
    dtype = common([a, v])
    a, v = converted(traced(a), dtype), converted(traced(v), dtype)
    if side == "left":
        return Traced(expr("searchsorted({0}, {1})", a.node, v.node, natural=True), INT, v.shape)
    # Those that are not greater are all but those that are less if everything is negated.
    turned = np.negative(np.flip(a))
    greater = Traced(expr("searchsorted({0}, {1})", turned.node, np.negative(v).node), INT, v.shape)
    return a.shape[0] - greater


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    return searchsorted(bins, x, side="left" if right else "right")


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    if isinstance(minlength, int) and minlength == 0:
        refuse("the length of this result depends on the elements", "pass minlength=")
    x = traced(x)
    # A value that is too great would make NumPy's result longer. Here it is an access outside.
    within = np.arange(minlength) if not isinstance(minlength, int) else None
    numbers = within if within is not None else Traced(expr(f"iota({minlength})", natural=True), INT, (minlength,))
    keys = numbers[x]
    return keyed("sum", keys, None if weights is None else converted(traced(weights), FLOAT), minlength)


def keyed(reducer: str, keys: Traced, values: Traced | None, count: Length) -> Traced:
    """A reduction by key: of the elements of ``values``, or of ones, for each of ``count`` keys."""
    rank = keys.ndim
    args = (keys.node,) if values is None else (keys.node, values.node)

    def body(p: Any) -> str:
        indices = ", ".join(p.i[1 + k] for k in range(rank))
        element = "1" if values is None else f"{p.arg(1)}[{indices}]"
        return f"{reducer}[{indices} where {p.arg(0)}[{indices}] == {p.i[0]}]({element})"

    ranged = _ranged(body, keys)
    dtype = INT if values is None else values.dtype
    return Traced(elements(ranged, (count,), *args, natural=values is None), dtype, (count,))


def _ranged(body: Any, keys: Traced) -> Any:
    """The body with bounds for the indices of its reducer, because a condition bounds nothing."""

    def render(p: Any) -> str:
        shown: str = body(p)
        for k in range(keys.ndim):
            name = p.i[1 + k]
            end = "," if k + 1 < keys.ndim else " where"
            shown = shown.replace(f"{name}{end}", f"{name} < {text(keys.shape[k])}{end}", 1)
        return shown

    return render


def at(ufunc: Any, target: Any, indices: Any, values: Any) -> None:
    """``np.add.at`` and the like: elements that keys select take part in a reduction by key."""
    reducer = {"add": "sum", "maximum": "max", "minimum": "min"}.get(ufunc.__name__)
    if reducer is None or not isinstance(target, Traced) or target.ndim != 1 or isinstance(indices, (tuple, slice)):
        refuse(f"`np.{ufunc.__name__}.at` of this form cannot be traced", "use np.bincount, or a program of the language")
    keys = traced(indices)
    numbers = Traced(expr("iota({s0})", lengths=(target.shape[0],), natural=True), INT, target.shape)
    values = np.broadcast_to(converted(traced(values), target.dtype), keys.shape)
    if language(target.dtype) in STORAGE:
        refuse("sums into storage types cannot be traced", "use wider elements")
    joined = keyed(reducer, numbers[keys], values, target.shape[0])
    target.assign(call(ufunc, (target, joined)).node)


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    only("histogram", weights=weights, density=density or None)
    a = np.ravel(traced(a))
    if isinstance(bins, str):
        refuse("a number of bins that depends on the elements cannot be traced", "pass a number of bins")
    if getattr(lift(bins), "shape", ()):
        edges = traced(bins)
        return _between(a, edges), edges
    low, high = (a.min(), a.max()) if range is None else range
    if _is_open(low) or _is_open(high):
        # As NumPy: a range without a length gets one.
        low, high = np.where(low == high, low - 0.5, low), np.where(low == high, high + 0.5, high)
    elif not low < high:
        refuse("a range of a histogram that does not ascend cannot be traced")
    wide = common([a, 0.5, low, high])
    wide = wide if wide.kind == "f" else FLOAT
    x = converted(a, wide)
    edges = np.linspace(low, high, bins + 1, dtype=wide if range is None else None)
    if not isinstance(edges, Traced):
        edges = traced(edges)
    if edges.dtype != wide:
        edges = converted(edges, np.result_type(edges.dtype, wide))
    # As NumPy: the number by division, then one more or less where the edges say so.
    inside = (x >= low) & (x <= high)
    scaled = (x - low) / (high - low) * bins
    number = np.clip(scaled.astype(np.int64), 0, bins - 1)
    number = number - (x < edges[number])
    number = np.clip(number, 0, bins - 1)
    number = number + ((x >= edges[number + 1]) & (number != bins - 1))
    number = np.where(inside, number, -1)
    return keyed("sum", number, None, bins), edges


def _is_open(value: Any) -> bool:
    """Whether a number is not known while tracing."""
    return isinstance(value, Traced)


def _between(a: Traced, edges: Traced) -> Traced:
    """How many elements lie between one edge and the next; the last bin has its end too."""
    number = searchsorted(edges, a, side="right") - 1
    last = edges.shape[0] - 1
    number = np.where(a == edges[-1], last - 1, number)
    return keyed("sum", number, None, last)


@implements(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **other: Any) -> Any:
    only("nansum", **other)
    return sum(_without_nan(a, 0), axis, dtype, out, keepdims)


@implements(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **other: Any) -> Any:
    only("nanmean", **other)
    a = traced(a)
    total = sum(_without_nan(a, 0), axis, dtype, keepdims=keepdims)
    return into(out, total / sum(~np.isnan(a), axis, keepdims=keepdims).astype(total.dtype))


@implements(np.nanmax)
def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **other: Any) -> Any:
    only("nanmax", **other)
    return _nan_extreme(max, a, -np.inf, axis, out, keepdims)


@implements(np.nanmin)
def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **other: Any) -> Any:
    only("nanmin", **other)
    return _nan_extreme(min, a, np.inf, axis, out, keepdims)


def _nan_extreme(reducer: Any, a: Any, none: float, axis: Any, out: Any, keepdims: Any) -> Any:
    a = traced(a)
    found = reducer(_without_nan(a, none), axis, keepdims=keepdims)
    return into(out, np.where(all(np.isnan(a), axis, keepdims=keepdims), np.nan, found))


@implements(np.nanvar)
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, **other: Any) -> Any:
    only("nanvar", dtype=dtype, **other)
    a = traced(a)
    there = ~np.isnan(a)
    squares = np.where(there, np.square(a - nanmean(a, axis, keepdims=True)), 0)
    return into(out, sum(squares, axis, keepdims=keepdims) / (sum(there, axis, keepdims=keepdims) - ddof).astype(a.dtype))


@implements(np.nanstd)
def nanstd(a: Any, *args: Any, **kwargs: Any) -> Any:
    return np.sqrt(nanvar(a, *args, **kwargs))


def _without_nan(a: Any, value: Any) -> Traced:
    a = traced(a)
    there: Traced = a if a.dtype.kind != "f" else np.where(np.isnan(a), value, a)
    return there
