"""Subscripts, and assignments to elements."""

from __future__ import annotations

from typing import Any

import numpy

from .arrays import BOOL, INT, Traced, lift, node_of, shape_of, traced
from .errors import refuse
from .program import IF, Node, elements, expr
from .registry import reshaped
from .shapes import spread
from .sizes import Length, Size, now, same, text
from .ufuncs import broadcast

#: Without its types, which know nothing of traced arrays.
np: Any = numpy


class Part:
    """The effect of a subscript on one axis."""

    def __init__(
        self, kind: str, axis: int, start: Any = 0, length: Length = 1, step: int = 1, stop: Length | None = None
    ) -> None:
        #: ``slice``, ``number``, ``array`` or ``new``.
        self.kind = kind
        self.axis = axis
        #: The first element of a slice, the number, or the array of numbers.
        self.start = start
        self.length = length
        self.step = step
        #: Where a slice ends, if that is not known from its length.
        self.stop: Any = start + length if stop is None and kind == "slice" and step == 1 else stop


def parts_of(a: Traced, key: Any) -> list[Part]:
    """A subscript, a part for each axis, and one for each axis that it adds."""
    items = list(key) if isinstance(key, tuple) else [key]
    given = sum(1 for item in items if item is not None and item is not Ellipsis)
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if given > a.ndim:
        raise IndexError(f"too many indices for array: array is {a.ndim}-dimensional, but {given} were indexed")
    fill = [slice(None)] * (a.ndim - given)
    if dots:
        items[dots[0] : dots[0] + 1] = fill
    else:
        items += fill
    parts, axis = [], 0
    for item in items:
        if item is None:
            parts.append(Part("new", axis))
            continue
        parts.append(_part(a, item, axis))
        axis += 1
    return parts


def _part(a: Traced, item: Any, axis: int) -> Part:
    length = a.shape[axis]
    if isinstance(item, slice):
        return _slice(item, length, axis)
    if _is_number(item):
        number = int(item)
        if isinstance(length, int) and not -length <= number < length:
            raise IndexError(f"index {number} is out of bounds for axis {axis} with size {length}")
        return Part("number", axis, number + length if number < 0 else number)
    if isinstance(item, Size):
        return Part("number", axis, item)
    if isinstance(item, (list, np.ndarray)):
        item = np.asarray(item) if isinstance(item, np.ndarray) or not any(isinstance(x, Traced) for x in item) else item
    if isinstance(item, np.ndarray) and item.dtype.kind == "b":
        item = np.flatnonzero(item) if item.ndim == 1 else refuse("a mask of several axes cannot be traced")
    if isinstance(item, np.ndarray) and item.dtype.kind == "i" and (item < 0).any():
        item = np.where(item < 0, item + length, item)
    numbers = item if isinstance(item, Traced) else _own(item)
    if numbers.dtype == BOOL:
        refuse(
            "the number of elements for which a condition holds is not known",
            "use np.where(condition, a, b), or the `where` of a reduction",
        )
    if numbers.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return Part("array" if numbers.shape else "number", axis, numbers)


def _is_number(item: Any) -> bool:
    """Whether a subscript is a number; ``True`` and ``False`` are masks."""
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _own(item: Any) -> Traced:
    from .modules import mine

    return traced(mine(item)) if isinstance(item, np.ndarray) else traced(item)


def _slice(item: slice, length: Length, axis: int) -> Part:
    step = 1 if item.step is None else item.step
    if not isinstance(step, (int, np.integer)):
        refuse("a slice with a step that is not a plain number cannot be traced")
    for end in (item.start, item.stop):
        if isinstance(end, Traced):
            refuse("the length of a slice between numbers that depend on elements is not known")
    if isinstance(length, int) and not isinstance(item.start, Size) and not isinstance(item.stop, Size):
        first, last, by = item.indices(length)
        many = len(range(first, last, by))
        return Part("slice", axis, first, many, by, first + max(many - 1, 0) * by + min(many, 1))
    start: Any
    stop: Any
    count: Any
    if step < 0:
        start = length - 1 if item.start is None else _from_end(item.start, length)
        stop = -1 if item.stop is None else _from_end(item.stop, length)
        count = (start - stop - step - 1) // -step
    else:
        start = 0 if item.start is None else _from_end(item.start, length)
        stop = length if item.stop is None else _from_end(item.stop, length)
        count = (stop - start + step - 1) // step
    if now(count) < 0:
        refuse("the slice ends before it begins, where NumPy would give no elements", "slice upwards")
    if now(stop) > now(length):
        refuse(
            f"the slice ends outside of an axis of length {now(length)}, where NumPy would cut it off",
            "slice within the array",
        )
    return Part("slice", axis, start, count, int(step), stop)


def _from_end(place: Any, length: Length) -> Any:
    if isinstance(place, Size):
        return place if place.now >= 0 else length + place
    return length + int(place) if place < 0 else int(place)


def take(a: Traced, key: Any) -> Any:
    """``a[key]``"""
    if isinstance(key, Traced) and key.dtype == BOOL and key.ndim == a.ndim:
        from .masks import Selected

        return Selected(a, key)
    parts = parts_of(a, key)
    if any(part.kind == "array" for part in parts):
        return _gathered(a, parts)
    kept = [part for part in parts if part.kind in ("slice", "new")]
    shape = tuple(part.length for part in kept)
    if all(_is_whole(part, a) or part.kind == "new" for part in parts):
        if not any(part.kind == "new" for part in parts):
            return Traced(a.node, a.dtype, a.shape, base=a, key=Ellipsis)
        node = reshaped(a.node, shape) if a.shape else elements(lambda p: p.arg(0), shape, a.node)
        node.natural = a.node.natural
        return Traced(node, a.dtype, shape, base=a)
    numbers = [part.start.node for part in parts if isinstance(part.start, Traced)]
    if any(part.step < 0 for part in parts):
        node = _turned(a, parts, numbers)
    else:
        node = _sliced(a, parts, numbers)
    if any(part.kind == "new" for part in kept) and not any(part.step < 0 for part in parts):
        node = reshaped(node, shape)
    node.natural = a.node.natural
    if not shape:
        return Traced(node, a.dtype)
    return Traced(node, a.dtype, shape, base=a, key=key)


def _is_whole(part: Part, a: Traced) -> bool:
    return part.kind == "slice" and part.step == 1 and same(part.start, 0) and same(part.length, a.shape[part.axis])


def _sliced(a: Traced, parts: list[Part], numbers: list[Node]) -> Node:
    """A subscript that the language has."""
    real = [part for part in parts if part.kind != "new"]
    while len(real) > 1 and _is_whole(real[-1], a):
        real.pop()

    def body(p: Any) -> str:
        shown, number = [], 1
        for part in real:
            if isinstance(part.start, Traced):
                shown.append(p.arg(number))
                number += 1
            elif part.kind == "number":
                shown.append(text(part.start))
            elif _is_whole(part, a):
                shown.append(":")
            else:
                start = "" if same(part.start, 0) else text(part.start)
                finish = "" if same(part.stop, a.shape[part.axis]) else text(part.stop)
                shown.append(f"{start}:{finish}" + (f":{part.step}" if part.step != 1 else ""))
        return f"{p.arg(0)}[{', '.join(shown)}]"

    return Node(body, (a.node, *numbers), named=True)


def _turned(a: Traced, parts: list[Part], numbers: list[Node]) -> Node:
    """A subscript with a slice that goes backwards."""
    kept = [part for part in parts if part.kind in ("slice", "new")]

    def body(p: Any) -> str:
        places: dict[int, str] = {}
        number = 1
        for part in parts:
            if part.kind == "slice":
                places[part.axis] = _place(p.i[kept.index(part)], part)
            elif part.kind == "number":
                places[part.axis] = p.arg(number) if isinstance(part.start, Traced) else text(part.start)
                number += isinstance(part.start, Traced)
        return f"{p.arg(0)}[{', '.join(places[k] for k in range(a.ndim))}]"

    return elements(body, tuple(part.length for part in kept), a.node, *numbers)


def _place(index: str, part: Part) -> str:
    """The place of an element of a slice."""
    scaled = index if abs(part.step) == 1 else f"{abs(part.step)} * {index}"
    if part.step < 0:
        start = part.start
        shown = text(start)
        return f"{shown} - {scaled}"
    return scaled if same(part.start, 0) else f"{scaled} + {text(part.start)}"


def _gathered(a: Traced, parts: list[Part]) -> Traced:
    """A subscript with arrays of numbers, which are broadcast against each other."""
    advanced = [k for k, part in enumerate(parts) if part.kind in ("array", "number")]
    arrays = [parts[k] for k in advanced]
    together = broadcast([part.start.shape if isinstance(part.start, Traced) else () for part in arrays])
    adjacent = advanced == list(range(advanced[0], advanced[-1] + 1))
    shape: list[Length] = []
    where: dict[int, int] = {}
    first = 0
    if not adjacent:
        shape += together
    for k, part in enumerate(parts):
        if adjacent and k == advanced[0]:
            first = len(shape)
            shape += together
        if part.kind in ("slice", "new"):
            where[k] = len(shape)
            shape.append(part.length)
    plain = len(arrays) == 1 and arrays[0].axis == 0 and all(_is_whole(p, a) for p in parts if p is not arrays[0])
    numbers = [part.start.node for part in arrays if isinstance(part.start, Traced)]
    if plain and len(parts) == a.ndim:
        node = expr("{0}[{1}]", a.node, numbers[0], named=True, natural=a.node.natural)
        return Traced(node, a.dtype, tuple(shape))

    def body(p: Any) -> str:
        inner = p.i[first : first + len(together)]
        places: dict[int, str] = {}
        number = 1
        for k, part in enumerate(parts):
            if part.kind == "slice":
                places[part.axis] = _place(p.i[where[k]], part)
            elif part.kind == "number" and not isinstance(part.start, Traced):
                places[part.axis] = text(part.start)
            elif part.kind != "new":
                read = spread(part.start, together)(p.arg(number), inner)
                counts = part.start.node.counts and part.start.ndim == 1 and not same(part.start.shape[0], 1)
                places[part.axis] = inner[-1] if counts else read
                number += 1
        return f"{p.arg(0)}[{', '.join(places[k] for k in range(a.ndim))}]"

    node = elements(body, tuple(shape), a.node, *numbers, natural=a.node.natural)
    return Traced(node, a.dtype, tuple(shape))


def assign(a: Traced, key: Any, value: Any) -> None:
    """``a[key] = value``"""
    from .masks import Selected

    if isinstance(value, Selected):
        if value.mask is key or isinstance(key, Traced) and value.mask.node is key.node:
            value = value.values
        else:
            refuse("elements selected by one condition cannot be assigned by another", "use np.where")
    operand = value if isinstance(value, Traced) else lift(value)
    if isinstance(key, Traced) and key.dtype == BOOL:
        if not shape_of(operand) or len(shape_of(operand)) == a.ndim:
            mask = key if key.ndim == a.ndim else key[(...,) + (None,) * (a.ndim - key.ndim)]
            chosen = expr("if {0} then {1} else {2}", mask.node, node_of(operand, a.dtype), a.node, prec=IF)
            a.assign(chosen)
            return
        refuse("an assignment of an array by a condition cannot be traced", "use np.where(condition, new, old)")
    parts = parts_of(a, key)
    kept = [part for part in parts if part.kind in ("slice", "new")]
    arrays = [part for part in parts if part.kind == "array"]
    if len(arrays) > 1 or any(part.start.ndim != 1 or not part.start.node.counts for part in arrays):
        if not _one_each(a, parts, arrays):
            refuse(
                "an assignment to elements that numbers select cannot be traced",
                "use np.where with the numbers of all elements, np.bincount or np.add.at",
            )
        _assign_one_each(a, parts, operand)
        return
    if arrays:
        parts = [Part("slice", p.axis, 0, p.start.shape[0]) if p.kind == "array" else p for p in parts]
        kept = [part for part in parts if part.kind in ("slice", "new")]
    target = tuple(part.length for part in kept)
    shape = shape_of(operand)
    while len(shape) > len(target) and same(shape[0], 1):
        operand = traced(operand)[0]
        shape = shape_of(operand)
    broadcast([target, shape])
    a.assign(_replaced(a, parts, kept, operand, target))


def _replaced(a: Traced, parts: list[Part], kept: list[Part], operand: Any, target: tuple[Length, ...]) -> Node:
    """The elements of an array, some of them replaced."""
    whole = all(_is_whole(part, a) for part in parts)
    value = node_of(operand, a.dtype, True)
    if whole:
        filled: Traced = np.broadcast_to(Traced(value, a.dtype, shape_of(operand)), a.shape)
        return filled.node
    source = Traced(value, a.dtype, shape_of(operand))
    read = spread(source, target)
    numbers = [part.start.node for part in parts if isinstance(part.start, Traced)]

    def body(p: Any) -> str:
        conditions: list[str] = []
        indices = ["0"] * len(kept)
        number = 2
        for part in parts:
            if part.kind == "new":
                continue
            index = p.i[part.axis]
            if part.kind == "number":
                shown = p.arg(number) if isinstance(part.start, Traced) else text(part.start)
                number += isinstance(part.start, Traced)
                conditions.append(f"{index} == {shown}")
            else:
                conditions += _within(index, part, a.shape[part.axis])
                indices[kept.index(part)] = _number_within(index, part)
        old = f"{p.arg(0)}[{', '.join(p.i[: a.ndim])}]"
        return f"if {' && '.join(conditions)} then {read(p.arg(1), indices)} else {old}"

    return elements(body, a.shape, a.node, value, *numbers)


def _within(index: str, part: Part, length: Length) -> list[str]:
    """The conditions that an index is one of a slice."""
    low, count = part.start, part.length
    if part.step < 0:
        low = part.start + (part.length - 1) * part.step
    end = low + (count - 1) * abs(part.step) + 1
    conditions = [] if same(low, 0) else [f"{index} >= {text(low)}"]
    if not same(end, length):
        conditions.append(f"{index} < {text(end)}")
    if abs(part.step) != 1:
        shifted = index if same(low, 0) else f"({index} - {_tight(low)})"
        conditions.append(f"{shifted} % {abs(part.step)} == 0")
    return conditions or [f"{index} >= 0"]


def _tight(length: Length) -> str:
    shown, prec = length.text() if isinstance(length, Size) else (str(length), 9)
    return shown if prec > 5 else f"({shown})"


def _number_within(index: str, part: Part) -> str:
    """The number of an element among those of a slice."""
    if part.step < 0:
        shifted = f"{text(part.start)} - {index}"
    else:
        shifted = index if same(part.start, 0) else f"{index} - {_tight(part.start)}"
    return shifted if abs(part.step) == 1 else f"({shifted}) / {abs(part.step)}"


def _one_each(a: Traced, parts: list[Part], arrays: list[Part]) -> bool:
    """Whether one array counts rows and the other has a number for each, as in a one-hot matrix."""
    counting = [part for part in arrays if part.start.ndim == 1 and part.start.node.counts]
    return len(arrays) == len(parts) == 2 and len(counting) == 1 and all(part.start.ndim == 1 for part in arrays)


def _assign_one_each(a: Traced, parts: list[Part], operand: Any) -> None:
    rows = next(part for part in parts if part.start.node.counts)
    other = next(part for part in parts if part is not rows)
    read = spread(Traced(node_of(operand, a.dtype, True), a.dtype, shape_of(operand)), (rows.start.shape[0],))

    def body(p: Any) -> str:
        i, j = p.i[rows.axis], p.i[other.axis]
        old = f"{p.arg(0)}[{p.i[0]}, {p.i[1]}]"
        return f"if {p.arg(2)}[{i}] == {j} then {read(p.arg(1), [i])} else {old}"

    if not same(rows.start.shape[0], a.shape[rows.axis]):
        refuse("an assignment to some rows by numbers cannot be traced", "use all rows")
    # A number outside of the array is an error of NumPy, and here of the access that this makes.
    limit = Traced(expr("iota({s0})", lengths=(a.shape[other.axis],), natural=True), INT, (a.shape[other.axis],))
    value = node_of(operand, a.dtype, True)
    a.assign(elements(body, a.shape, a.node, value, limit[other.start].node))


