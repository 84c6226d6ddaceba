"""Calls with arrays that have gaps between their elements, or axes in another order in memory.

The function is called by another one that takes the slice or the transpose, so that the array is
read as it lies. An array that the language cannot describe, or a small one, is copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._errors import Error

#: An array of fewer bytes is copied, which takes less time than to find out how it lies.
SMALL = 1 << 18

#: A function has no more programs for layouts than this.
_MANY = 32


class Layout(NamedTuple):
    """How an array lies in an array without gaps, its window. An axis of the window is an axis of
    the array, in their order in memory; an axis along which elements repeat is in no window."""

    order: tuple[int, ...]
    #: The axes of the array that go backwards.
    backwards: frozenset[int]
    #: The step along the last axis of the window.
    step: int
    #: Whether the array begins behind the beginning of each axis of the window.
    shifted: tuple[bool, ...]
    #: Whether the array is all of its window.
    whole: bool


class Window(NamedTuple):
    """An array without gaps that has the elements of another one."""

    layout: Layout
    array: Any
    #: Where the other array begins along each axis that is shifted.
    begin: tuple[int, ...]


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The results of the call; ``None`` if no array has gaps, or if the call is wrong."""
    names = function.names
    given = kwargs or {}
    known = [name for name in ("out", "threads", "stream") if name in given and name not in names]
    options: dict[str, Any] = {name: given[name] for name in known}
    by_name = {name: value for name, value in given.items() if name not in options}
    values = dict(zip(names, args, strict=False)) | by_name
    if len(args) + len(by_name) != len(names) or set(values) != set(names):
        return None
    values = {name: values[name] for name in names}
    out = options.get("out")
    outs: list[Any] = list(out) if isinstance(out, (tuple, list)) else [out]
    if not any(map(has_gaps, [*values.values(), *outs])):
        return None
    dense = [_dense(one) for one in outs]
    if out is not None:
        options["out"] = dense if isinstance(out, (tuple, list)) else dense[0]
    windows = {name: found for name, value in values.items() if (found := _window(value, dense)) is not None}
    result = _through(function, windows, values, options) if windows else None
    if result is None:
        result = function(*[_copied(value) for value in values.values()], **options)
    for one, written in zip(outs, dense, strict=True):
        if one is not written:
            # Tensors of torch take the same subscript.
            one[...] = written
    return result if out is None else out


def has_gaps(array: Any) -> bool:
    """Whether the elements of an array are not one after another, row by row."""
    if isinstance(array, np.ndarray):
        return not array.flags.c_contiguous and not hasattr(array, "filled")
    if isinstance(array, memoryview):
        return not array.c_contiguous
    # A tensor of torch.
    return hasattr(array, "is_contiguous") and not array.is_contiguous()


def _copied(array: Any) -> Any:
    if not has_gaps(array):
        return array
    return array.contiguous() if hasattr(array, "is_contiguous") else np.ascontiguousarray(array)


def _dense(out: Any) -> Any:
    """Memory for a result that belongs into an array with gaps."""
    if not has_gaps(out) or isinstance(out, memoryview):
        return out
    if not isinstance(out, np.ndarray):
        return out.contiguous()
    made = np.empty(out.shape, out.dtype)
    made.flags.writeable = out.flags.writeable
    return made


def _window(array: Any, outs: list[Any]) -> Window | None:
    """The window of an array that need not be copied."""
    if not isinstance(array, np.ndarray) or not has_gaps(array) or array.dtype.kind not in "biuf":
        return None
    found = None if array.nbytes < SMALL else window_of(array)
    if found is None:
        return None
    # A result may lie in the gaps.
    shared = any(isinstance(out, np.ndarray) and np.may_share_memory(found.array, out) for out in outs)
    return None if shared else found


def window_of(array: Any) -> Window | None:
    """The window that an array lies in, if its memory is known to have one."""
    size = array.itemsize
    if array.size == 0 or any(stride % size for stride in array.strides):
        return None
    lengths, strides = array.shape, [stride // size for stride in array.strides]
    moving = [axis for axis in range(array.ndim) if lengths[axis] > 1 and strides[axis]]
    backwards = frozenset(axis for axis in moving if strides[axis] < 0)
    repeated = [axis for axis in range(array.ndim) if lengths[axis] > 1 and not strides[axis]]
    # Where an axis of one element lies makes no difference: it comes first.
    rest = [axis for axis in range(array.ndim) if axis not in repeated]
    order = sorted(rest, key=lambda axis: (axis in moving, -abs(strides[axis])))
    if not moving:
        return None
    steps = [abs(strides[axis]) for axis in order if axis in moving]
    pitches = [*steps[:-1], 1]
    # The length of each axis of the window but the first.
    widths = [above // below for above, below in zip(pitches, pitches[1:])]
    if any(above % below for above, below in zip(pitches, pitches[1:])):
        return None
    counts = [lengths[axis] for axis in order if axis in moving]
    step = steps[-1]
    first = (counts[0] - 1) * (step if len(counts) == 1 else 1) + 1
    # In elements: where the array begins in its memory, and how many it has.
    low, high = _memory_of(array)
    at = array.__array_interface__["data"][0] + size * sum(
        strides[axis] * (lengths[axis] - 1) for axis in backwards
    )
    before, after = (at - low) // size, (high - at) // size
    shift = max(0, first * pitches[0] - after)
    if shift > before:
        return None
    begin = []
    left = shift
    for pitch in pitches:
        begin.append(left // pitch)
        left %= pitch
    spans = [(count - 1) * (step if k == len(counts) - 1 else 1) for k, count in enumerate(counts)]
    if begin[0] or any(b + span >= width for b, span, width in zip(begin[1:], spans[1:], widths, strict=True)):
        return None
    # With the axes of one element.
    full, places, k = [], [], 0
    for axis in order:
        if axis in moving:
            full.append(first if k == 0 else widths[k - 1])
            places.append(begin[k])
            k += 1
        else:
            full.append(1)
            places.append(0)
    whole = not (backwards or repeated or shift) and step == 1 and full == [lengths[axis] for axis in order]
    layout = Layout(tuple(order), backwards, step, tuple(place > 0 for place in places), whole)
    memory = _Memory(array, at - shift * size, tuple(full))
    return Window(layout, np.asarray(memory), tuple(place for place in places if place))


class _Memory:
    """Elements without gaps in the memory of an array, for NumPy to look at."""

    def __init__(self, array: Any, address: int, shape: tuple[int, ...]) -> None:
        self._array = array
        self.__array_interface__ = {
            "version": 3,
            "data": (address, not array.flags.writeable),
            "shape": shape,
            "typestr": array.dtype.str,
        }


def _memory_of(array: Any) -> tuple[int, int]:
    """The addresses between which the memory of an array lies: that of the array that it is a view
    of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _through(function: Any, windows: dict[str, Window], values: dict[str, Any], options: dict[str, Any]) -> Any:
    """The results of a program that takes the windows; ``None`` if there is none, or if it fails."""
    sizes = _sizes(function, windows, values)
    if sizes is None:
        return None
    key = tuple((name, window.layout) for name, window in windows.items())
    known = function.__dict__.setdefault("_turned", {})
    if key not in known and len(known) < _MANY:
        known[key] = _made(function, windows, list(sizes))
    if known.get(key) is None:
        return None
    passed: list[Any] = []
    for name, value in values.items():
        if name in windows:
            passed += [windows[name].array, *windows[name].begin]
        else:
            passed.append(_copied(value))
    try:
        result = known[key](*passed, *sizes.values(), **options)
    except Error:
        # The function itself is in the error that a copy gives.
        return None
    make = function.__dict__["_tuple"]
    return result if make is None or "out" in options else make(*result)


def _lengths(declared: str) -> list[str]:
    shape = declared.partition("[")[2].removesuffix("]")
    return shape.split(", ") if shape else []


def _sizes(function: Any, windows: dict[str, Window], values: dict[str, Any]) -> dict[str, int] | None:
    """The sizes that only arrays with windows give; ``None`` if arrays disagree about a size."""
    known: dict[str, int] = {}
    bound = set(function.names)
    for name, declared in zip(function.names, function.params, strict=True):
        lengths = _lengths(declared)
        shape = getattr(values[name], "shape", ())
        partial = name in windows and not windows[name].layout.whole
        if len(lengths) != len(shape) or partial and not all(map(_is_plain, lengths)):
            return None
        for length, count in zip(lengths, shape, strict=True):
            if known.setdefault(length, count) != count or length.isdecimal() and int(length) != count:
                return None
        if not partial:
            bound.update(lengths)
    if any(name in known and values[name] != known[name] for name in function.names):
        return None
    return {length: count for length, count in known.items() if length.isidentifier() and length not in bound}


def _is_plain(length: str) -> bool:
    """Whether a length is a name or a number."""
    return length.isidentifier() or length.isdecimal()


def _made(function: Any, windows: dict[str, Window], sizes: list[str]) -> Any:
    """The function that takes windows; ``None`` if it cannot be stated."""
    state = dict(function.module.__reduce__()[1][0])
    tag = "turned"
    while tag in state["text"]:
        tag += "_"
    params: list[str] = []
    lets: list[str] = []
    passed: list[str] = []
    for param, declared, is_float in zip(function.names, function.params, function.floats, strict=True):
        element = "float" if is_float else declared.partition("[")[0]
        lengths = _lengths(declared)
        passed.append(param if param not in windows else f"{param}_{tag}")
        begins: list[str] = []
        if param in windows:
            layout = windows[param].layout
            begins = [f"{param}_{k}_{tag}" for k, shifted in enumerate(layout.shifted) if shifted]
            lets.append(f"    let {param}_{tag}[{_indices(lengths, tag)}] = {param}[{_places(param, layout, lengths, tag)}]\n")
            if layout.whole:
                lengths = [lengths[axis] for axis in layout.order]
            else:
                lengths = [f"{param}_length{k}_{tag}" for k in range(len(layout.order))]
        params.append(f"{param}: {element}" + (f"[{', '.join(lengths)}]" if lengths else ""))
        params += [f"{begin}: i64" for begin in begins]
    params += [f"{size}: i64" for size in sizes]
    name = f"{function.__name__}_{tag}"
    state["text"] += f"\nfn {name}({', '.join(params)}) {{\n{''.join(lets)}    {function.__name__}({', '.join(passed)})\n}}\n"
    try:
        made = _native.unpickle(state)[name]
        made.check()
    except Error:
        return None
    return made


def _indices(lengths: list[str], tag: str) -> str:
    return ", ".join(f"axis{axis}_{tag} < {length}" for axis, length in enumerate(lengths))


def _places(param: str, layout: Layout, lengths: list[str], tag: str) -> str:
    """The subscripts of an element of the array in its window."""
    places = []
    for k, axis in enumerate(layout.order):
        place = f"axis{axis}_{tag}"
        if axis in layout.backwards:
            place = f"({lengths[axis]} - 1 - {place})"
        if k == len(layout.order) - 1 and layout.step > 1:
            place = f"{layout.step} * {place}"
        if layout.shifted[k]:
            place = f"{param}_{k}_{tag} + {place}"
        places.append(place)
    return ", ".join(places)
