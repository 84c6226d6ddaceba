"""Functions that give elements other places."""

from __future__ import annotations

from typing import Any

import numpy

from .arrays import Traced, converted, lift, literal, node_of, traced
from .errors import refuse
from .program import Node, elements, expr
from .registry import axes_of, axis_of, common, implements, reshaped, shape_from
from .sizes import Length, Size, now, product, quotient, same, text
from .ufuncs import broadcast

#: Without its types, which know nothing of traced arrays.
np: Any = numpy


def moved(a: Traced, node: Node, shape: tuple[Length, ...], view: bool = True) -> Traced:
    """An array of the elements of another at other places."""
    node.natural = a.node.natural
    return Traced(node, a.dtype, shape, base=a if view else None)


@implements(np.reshape)
def reshape(a: Any, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    if order not in ("C", "K", "A"):
        refuse(f"a reshape in the order `{order}` cannot be traced", "transpose before and after")
    a = traced(a)
    wanted = list(shape_from(shape if newshape is None else newshape))
    unknown = [k for k, length in enumerate(wanted) if isinstance(length, int) and length < 0]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    total = product(a.shape)
    if unknown:
        rest = product(length for k, length in enumerate(wanted) if k != unknown[0])
        wanted[unknown[0]] = quotient(total, rest)
    given = tuple(wanted)
    if now(product(given)) != now(total):
        raise ValueError(f"cannot reshape array of size {now(total)} into shape {given}")
    if len(given) == a.ndim and all(same(x, y) for x, y in zip(given, a.shape, strict=True)):
        return a
    if not a.shape:
        return moved(a, elements(lambda p: p.arg(0), given, a.node), given)
    return moved(a, reshaped(a.node, given), given)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, (product(traced(a).shape),), order)


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> Any:
    a = traced(a)
    rank = a.ndim
    order = tuple(reversed(range(rank))) if axes is None else tuple(axis_of(k, rank) for k in axes)
    if sorted(order) != list(range(rank)):
        raise ValueError("axes don't match array")
    if order == tuple(range(rank)):
        return a
    shape = tuple(a.shape[k] for k in order)
    if order == tuple(reversed(range(rank))):
        return moved(a, expr("transpose({0})", a.node), shape)

    def body(p: Any) -> str:
        return f"{p.arg(0)}[{', '.join(p.i[order.index(k)] for k in range(rank))}]"

    return moved(a, elements(body, shape, a.node), shape)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    a = traced(a)
    order = list(range(a.ndim))
    one, other = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order[one], order[other] = order[other], order[one]
    return transpose(a, order)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    a = traced(a)
    sources = [axis_of(k, a.ndim) for k in (source if isinstance(source, (tuple, list)) else (source,))]
    places = [axis_of(k, a.ndim) for k in (destination if isinstance(destination, (tuple, list)) else (destination,))]
    order = [k for k in range(a.ndim) if k not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(a, order)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    a = traced(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = a.ndim + len(axes)
    places = {axis_of(k, rank) for k in axes}
    lengths = iter(a.shape)
    return reshape(a, tuple(1 if k in places else next(lengths) for k in range(rank)))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    a = traced(a)
    ones = {k for k, length in enumerate(a.shape) if isinstance(length, int) and length == 1}
    gone = ones if axis is None else set(axes_of(axis, a.ndim))
    if not gone <= ones:
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshape(a, tuple(length for k, length in enumerate(a.shape) if k not in gone))


def spread(a: Traced, shape: tuple[Length, ...]) -> Any:
    """How a body reads an element of an array that is broadcast to a shape, from names of the array
    and of indices."""
    ahead = len(shape) - a.ndim

    def element(name: str, indices: list[str]) -> str:
        if not a.shape:
            return name
        places = []
        for k, length in enumerate(a.shape):
            stays = isinstance(length, int) and length == 1 and not same(length, shape[k + ahead])
            places.append("0" if stays else indices[k + ahead])
        return f"{name}[{', '.join(places)}]"

    return element


@implements(np.broadcast_to)
def broadcast_to(a: Any, shape: Any, subok: bool = False) -> Any:
    a, shape = traced(a), shape_from(shape)
    both = broadcast([a.shape, shape])
    if len(both) == a.ndim and all(same(x, y) for x, y in zip(both, a.shape, strict=True)):
        return a
    element = spread(a, both)
    return Traced(elements(lambda p: element(p.arg(0), p.i), both, a.node), a.dtype, both)


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    shape = broadcast([traced(a).shape for a in arrays])
    return tuple(broadcast_to(a, shape) for a in arrays)


@implements(np.concatenate)
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    kind = np.dtype(dtype) if dtype is not None else common(arrays)
    parts = [converted(traced(a), kind) for a in arrays]
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    rank = parts[0].ndim
    at = axis_of(axis, rank)
    if any(part.ndim != rank for part in parts):
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    if len(parts) == 1:
        return parts[0].copy()
    shape = list(parts[0].shape)
    for part in parts[1:]:
        for k in range(rank):
            if k != at:
                shape[k] = broadcast([(shape[k],), (part.shape[k],)])[0]
    shape[at] = sum((part.shape[at] for part in parts[1:]), parts[0].shape[at])
    where = f", axis = {at}" if at else ""
    slots = ", ".join(f"{{{k}}}" for k in range(len(parts)))
    node = expr(f"concat({slots}{where})", *[part.node for part in parts])
    node.natural = all(part.node.natural for part in parts)
    from .ufuncs import into

    return into(out, Traced(node, kind, tuple(shape)))


@implements(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    parts = list(arrays)
    kind = np.dtype(dtype) if dtype is not None else common(parts)
    shape = broadcast([traced(part).shape for part in parts])
    at = axis_of(axis, len(shape) + 1)
    whole = shape[:at] + (len(parts),) + shape[at:]
    nodes = [node_of(lift(part), kind, True) for part in parts]
    readers = [spread(traced(part), shape) for part in parts]

    def body(p: Any) -> str:
        others = [p.i[k] for k in range(len(whole)) if k != at]
        shown = [read(p.arg(k), others) for k, read in enumerate(readers)]
        tests = "".join(f"if {p.i[at]} == {k} then {one} else " for k, one in enumerate(shown[:-1]))
        return f"{tests}{shown[-1]}"

    from .ufuncs import into

    return into(out, Traced(elements(body, whole, *nodes), kind, whole))


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([arr, values] if axis is not None else [ravel(arr), ravel(values)], axis or 0)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    a = traced(arr)
    if axis is None:
        a, axis = ravel(a), 0
    at = axis_of(axis, a.ndim)
    if not isinstance(obj, (int, np.integer, Size)):
        refuse("an insertion at several places cannot be traced", "use np.concatenate")
    ahead = (slice(None),) * at
    place = a.shape[at] + obj if isinstance(obj, int) and obj < 0 else obj
    shape = tuple(1 if k == at else length for k, length in enumerate(a.shape))
    new = traced(values)
    if new.ndim == a.ndim - 1 and a.ndim > 1:
        new = expand_dims(new, at)
    if new.ndim < a.ndim:
        new = broadcast_to(new, shape)
    new = converted(new, a.dtype)
    parts = [new] if same(place, 0) else [a[(*ahead, slice(None, place))], new]
    return concatenate([*parts, a if same(place, 0) else a[(*ahead, slice(place, None))]], at)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    parts = [atleast_1d(a) for a in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    parts = [traced(a) for a in tup]
    return concatenate([reshape(a, (a.size, 1)) if a.ndim < 2 else a for a in parts], 1)


@implements(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Any:
    made = tuple(traced(a) if traced(a).ndim else reshape(traced(a), (1,)) for a in arrays)
    return made[0] if len(made) == 1 else made


@implements(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Any:
    def one(a: Any) -> Any:
        a = traced(a)
        return a if a.ndim >= 2 else reshape(a, (1,) * (2 - a.ndim) + a.shape)

    made = tuple(one(a) for a in arrays)
    return made[0] if len(made) == 1 else made


def _at(index: str, offset: Length) -> str:
    """An index plus a length."""
    if isinstance(offset, int):
        return index if offset == 0 else f"{index} + {offset}" if offset > 0 else f"{index} - {-offset}"
    return f"{index} + {text(offset)}"


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    m = traced(m)
    axes = axes_of(axis, m.ndim)
    if not m.ndim:
        return m

    def body(p: Any) -> str:
        places = [f"{text(m.shape[k] - 1)} - {p.i[k]}" if k in axes else p.i[k] for k in range(m.ndim)]
        return f"{p.arg(0)}[{', '.join(places)}]"

    return moved(m, elements(body, m.shape, m.node), m.shape)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    return flip(m, 0)


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    return flip(m, 1)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    a = traced(a)
    if axis is None and a.ndim != 1:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = [0] if axis is None else list(axis) if isinstance(axis, (tuple, list)) else [axis]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    by = {axis_of(k, a.ndim): s for k, s in zip(axes, shifts, strict=True)}
    if any(isinstance(s, Traced) for s in by.values()):
        refuse("a shift that depends on elements cannot be traced")

    def body(p: Any) -> str:
        places = []
        for k in range(a.ndim):
            length, index = text(a.shape[k]), p.i[k]
            places.append(index if k not in by else f"mod({_at(index, -by[k])}, {length})")
        return f"{p.arg(0)}[{', '.join(places)}]"

    return moved(a, elements(body, a.shape, a.node), a.shape, view=False)


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    a = traced(A)
    times = shape_from(reps)
    rank = max(a.ndim, len(times))
    a = reshape(a, (1,) * (rank - a.ndim) + a.shape)
    times = (1,) * (rank - len(times)) + times
    shape = tuple(length * time for length, time in zip(a.shape, times, strict=True))

    def body(p: Any) -> str:
        places = [
            p.i[k] if times[k] == 1 else "0" if a.shape[k] == 1 else f"{p.i[k]} % {_tight(a.shape[k])}" for k in range(rank)
        ]
        return f"{p.arg(0)}[{', '.join(places)}]"

    return moved(a, elements(body, shape, a.node), shape, view=False)


def _tight(length: Length) -> str:
    if isinstance(length, Size):
        shown, prec = length.text()
        return shown if prec > 6 else f"({shown})"
    return str(length)


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if not isinstance(repeats, (int, np.integer, Size)):
        refuse("a repetition of each element by its own number cannot be traced", "the length would depend on elements")
    a = traced(a)
    if axis is None:
        a, axis = ravel(a), 0
    at = axis_of(axis, a.ndim)
    shape = tuple(length * repeats if k == at else length for k, length in enumerate(a.shape))

    def body(p: Any) -> str:
        places = [f"{p.i[k]} / {_tight(repeats)}" if k == at else p.i[k] for k in range(a.ndim)]
        return f"{p.arg(0)}[{', '.join(places)}]"

    return moved(a, elements(body, shape, a.node), shape, view=False)


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    a = traced(array)
    widths = np.broadcast_to(np.asarray(pad_width), (a.ndim, 2)) if not _symbolic(pad_width) else None
    if widths is None:
        refuse("a padding that depends on sizes cannot be traced", "use np.concatenate")
    pairs = [(int(before), int(after)) for before, after in widths]
    value = kwargs.pop("constant_values", 0)
    if kwargs or mode not in ("constant", "edge", "reflect", "symmetric", "wrap") or np.ndim(value) != 0:
        refuse("a padding of this kind cannot be traced", "constant, edge, reflect, symmetric and wrap can be")
    shape = tuple(before + length + after for (before, after), length in zip(pairs, a.shape, strict=True))
    fill = node_of(lift(value), a.dtype, True)

    def body(p: Any) -> str:
        places, conditions = [], []
        for k, (before, after) in enumerate(pairs):
            index, length = p.i[k], text(a.shape[k])
            place = _at(index, -before)
            if before == after == 0:
                places.append(index)
            elif mode == "constant":
                places.append(place)
                conditions += [f"{index} >= {before}"] if before else []
                conditions += [f"{index} < {_at(length, before)}"] if after else []
            elif mode == "edge":
                places.append(f"clamp({place}, 0, {length} - 1)")
            elif mode == "wrap":
                places.append(f"mod({place}, {length})")
            else:
                last = f"{length} - 1"
                twice = f"2 * {_tight(a.shape[k])} - {2 if mode == 'reflect' else 1}"
                low = f"abs({place})" if mode == "reflect" else f"(if {index} < {before} then {before - 1} - {index} else {place})"
                places.append(f"(if {place} > {last} then {twice} - ({place}) else {low})")
        element = f"{p.arg(0)}[{', '.join(places)}]"
        return f"if {' && '.join(conditions)} then {element} else {p.arg(1)}" if conditions else element

    args = (a.node, fill) if mode == "constant" else (a.node,)
    return moved(a, elements(body, shape, *args), shape, view=False)


def _symbolic(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_symbolic(one) for one in value)
    return isinstance(value, (Size, Traced))


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    v = traced(v)
    if v.ndim == 2:
        return diagonal(v, k)
    size = v.shape[0] + abs(k)

    def body(p: Any) -> str:
        i, j = p.i[:2]
        return f"if {j} == {_at(i, k)} then {p.arg(0)}[{_at(i, min(k, 0))}] else {p.arg(1)}"

    zero = literal(0, v.dtype, True)
    return Traced(elements(body, (size, size), v.node, zero), v.dtype, (size, size))


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a = traced(a)
    one, other = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    rows, columns = a.shape[one], a.shape[other]
    down, across = max(-offset, 0), max(offset, 0)
    length: Length = rows - down if rows - down <= columns - across else columns - across
    rest = [k for k in range(a.ndim) if k not in (one, other)]
    shape = tuple(a.shape[k] for k in rest) + (length,)

    def body(p: Any) -> str:
        places = {k: p.i[number] for number, k in enumerate(rest)}
        places[one], places[other] = _at(p.i[len(rest)], down), _at(p.i[len(rest)], across)
        return f"{p.arg(0)}[{', '.join(places[k] for k in range(a.ndim))}]"

    return moved(a, elements(body, shape, a.node), shape, view=False)


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, "<=")


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, ">=")


def _triangle(m: Any, k: int, relation: str) -> Any:
    m = traced(m)
    zero = literal(0, m.dtype, True)
    rank = m.ndim

    def body(p: Any) -> str:
        i, j = p.i[rank - 2], p.i[rank - 1]
        element = f"{p.arg(0)}[{', '.join(p.i[:rank])}]"
        return f"if {j} {relation} {_at(i, k)} then {element} else {p.arg(1)}"

    return Traced(elements(body, m.shape, m.node, zero), m.dtype, m.shape)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    from .ufuncs import into

    a = traced(a)
    if axis is None:
        a, axis = ravel(a), 0
    at = axis_of(axis, a.ndim)
    if mode != "raise":
        limit = a.shape[at] - 1
        indices = np.clip(indices, 0, limit) if mode == "clip" else np.remainder(indices, a.shape[at])
    return into(out, a[(slice(None),) * at + (indices,)])


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    a, numbers = traced(arr), traced(indices)
    if axis is None:
        a, axis = ravel(a), 0
    at = axis_of(axis, a.ndim)
    shape = tuple(
        numbers.shape[k] if k == at else broadcast([(a.shape[k],), (numbers.shape[k],)])[0] for k in range(a.ndim)
    )

    def body(p: Any) -> str:
        number = f"{p.arg(1)}[{', '.join(p.i[: a.ndim])}]"
        return f"{p.arg(0)}[{', '.join(number if k == at else p.i[k] for k in range(a.ndim))}]"

    return moved(a, elements(body, shape, a.node, numbers.node), shape, view=False)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    a = traced(a)
    at = axis_of(axis, a.ndim)
    for value, first in ((prepend, True), (append, False)):
        if value is not np._NoValue:
            end = traced(value)
            end = broadcast_to(end, tuple(1 if k == at else s for k, s in enumerate(a.shape))) if end.ndim == 0 else end
            a = concatenate([end, a] if first else [a, end], at)
    for _ in range(n):
        low = (slice(None),) * at + (slice(None, -1),)
        high = (slice(None),) * at + (slice(1, None),)
        a = np.not_equal(a[high], a[low]) if a.dtype.kind == "b" else a[high] - a[low]
    return a


def _view_of_windows(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
    a = traced(x)
    windows = shape_from(window_shape)
    axes = list(range(a.ndim)) if axis is None else list(axis) if isinstance(axis, (tuple, list)) else [axis]
    axes = [axis_of(k, a.ndim) for k in axes]
    lengths = list(a.shape)
    for k, width in zip(axes, windows, strict=True):
        lengths[k] = lengths[k] - width + 1
    shape = tuple(lengths) + windows

    def body(p: Any) -> str:
        places = list(p.i[: a.ndim])
        for number, k in enumerate(axes):
            places[k] = f"{places[k]} + {p.i[a.ndim + number]}"
        return f"{p.arg(0)}[{', '.join(places)}]"

    return moved(a, elements(body, shape, a.node), shape, view=False)


implements(np.lib.stride_tricks.sliding_window_view)(_view_of_windows)

