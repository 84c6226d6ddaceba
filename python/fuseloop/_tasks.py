"""The tasks of ``fuseloop.dask``: they run on workers, where programs are compiled from source."""

from __future__ import annotations

import pickle
import threading
from typing import Any, TypedDict

import numpy as np

from . import _native

#: The end of the last block of an axis.
LAST = 2**63 - 1

#: A part of each axis; ``None`` is all of it.
Parts = list[tuple[int, int] | None]

#: A partial result: its level and number in the tree of a reduction, and its arrays.
Node = tuple[int, int, tuple[Any, ...]]

_lock = threading.Lock()
_stages: dict[tuple[str, int], Any] = {}
_joins: dict[tuple[str, str], Any] = {}

_OPERATIONS = {
    "sum": "a + b",
    "prod": "a * b",
    "max": "max(a, b)",
    "min": "min(a, b)",
    "any": "a || b",
    "all": "a && b",
}


class Plan(TypedDict):
    """A function that is computed in blocks, in a call of certain sizes. It travels as data that a
    process without this package can read."""

    #: The pickled function.
    function: bytes
    wide: bool
    cuts: list[int]
    sizes: list[int]
    threads: int
    token: str


def stage_of(plan: Plan, number: int) -> Any:
    """A compiled stage: each process compiles it once."""
    key = (plan["token"], number)
    with _lock:
        if key not in _stages:
            function = pickle.loads(plan["function"])
            _stages[key] = function._stage(plan["cuts"], number, plan["wide"])
        return _stages[key]


#: The program that a task runs on a worker: text, and no reference to this module, because a worker that
#: cannot find a module when it reads a task gives up without an error that one could understand.
_RUN = """
def run(name, *args):
    try:
        from fuseloop import _tasks
    except ImportError as error:
        import socket
        raise RuntimeError(
            f"a worker on {socket.gethostname()} cannot import the package fuseloop ({error}): "
            "install it where each worker runs, in the version that this client has"
        ) from None
    return getattr(_tasks, name)(*args)
"""


class Run:
    """Runs a function of this module, by its name."""

    def __call__(self, name: str, *args: Any) -> Any:
        return globals()[name](*args)

    def __reduce__(self) -> tuple[Any, ...]:
        # The scheduler pickles what becomes of this again, by value: that takes milliseconds for a
        # function of any other module than this one.
        return eval, (f"(lambda space: (exec({_RUN!r}, space), space['run'])[1])({{'__name__': '__main__'}})",)


RUN = Run()


def block(plan: Plan, number: int, ends: list[tuple[int, int]], given: list[Any]) -> list[Any]:
    """The results of a stage for a block."""
    arrays = [assembled(one) for one in given]
    stage = stage_of(plan, number)
    return stage(arrays, plan["sizes"], ends, (0, 0), plan["threads"])  # type: ignore[no-any-return]


def only(plan: Plan, number: int, ends: list[tuple[int, int]], given: list[Any]) -> Any:
    """The same for a stage with one result."""
    return block(plan, number, ends, given)[0]


def partial(
    plan: Plan, number: int, ends: list[tuple[int, int]], given: list[Any], groups: list[tuple[int, str]]
) -> list[list[Node]]:
    """The partial results of a block, for reductions in any order."""
    return grouped([(0, 0, block(plan, number, ends, given))], groups)


def pieces(
    plan: Plan,
    number: int,
    ends: list[tuple[int, int]],
    cut: int,
    unit: tuple[int, int, int, bool],
    chunks: tuple[int, int],
    given: list[Any],
    groups: list[tuple[int, str]],
) -> list[list[Node]]:
    """The partial results of a block, for reductions in an order: one for each of its pieces."""
    stage, sizes = stage_of(plan, number), plan["sizes"]
    arrays = [assembled(one) for one in given]
    whole = stage.needs(sizes, ends)
    made = []
    for level, at in decomposed(*chunks, unit[3]):
        own, piece = piece_ends(ends, cut, unit, at << level, (at + 1) << level)
        needed = stage.needs(sizes, own)
        cut_out = [within(array, all_, part) for array, (_, _, all_), (_, _, part) in zip(arrays, whole, needed, strict=True)]
        made.append((level, at, stage(cut_out, sizes, own, piece, plan["threads"])))
    return grouped(made, groups)


def scans(
    plan: Plan,
    number: int,
    ends: list[tuple[int, int]],
    cut: int,
    unit: tuple[int, int, int, bool] | None,
    chunks: tuple[int, int],
    given: list[Any],
    count: int,
) -> list[list[tuple[Any, Any]]]:
    """For each of several scans the prefixes of each piece of a block, with their results."""
    if unit is None:
        made = block(plan, number, ends, given)
        return [[(made[2 * k], made[2 * k + 1])] for k in range(count)]
    nodes = pieces(plan, number, ends, cut, unit, chunks, given, [(2, "")] * count)
    return [[(arrays[0], arrays[1]) for _, _, arrays in many] for many in nodes]


def carried(before: Any, made: list[tuple[Any, Any]], operation: str) -> tuple[list[Any], Any]:
    """The results before each piece of a block, and before the next block."""
    carry = None if before is None else before[1]
    carries = []
    for _, total in made:
        carries.append(carry)
        carry = total if carry is None else join(operation, (carry,), (total,))[0]
    return carries, carry


def continued(made: list[tuple[Any, Any]], carries: tuple[list[Any], Any], operation: str, axis: int) -> Any:
    """The prefixes of a block, from the beginning of the array on."""
    parts = []
    for (prefixes, _), carry in zip(made, carries[0], strict=True):
        if carry is not None:
            before = np.broadcast_to(np.expand_dims(np.asarray(carry), axis), prefixes.shape)
            prefixes = join(operation, (before,), (prefixes,))[0]
        parts.append(prefixes)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)


def piece_ends(
    ends: list[tuple[int, int]], cut: int, unit: tuple[int, int, int, bool], first: int, last: int
) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """The ends of a piece from one chunk to another, and its elements within these ends."""
    chunk, inner, length, _ = unit
    total = length * inner
    begin, end = min(first * chunk, total), min(last * chunk, total)
    own = list(ends)
    rows = (begin // inner, -(-end // inner)) if inner else (0, length)
    own[cut] = (rows[0], LAST if rows[1] >= length else rows[1])
    return own, (begin - rows[0] * inner, end - begin)


def decomposed(first: int, last: int, joined: bool) -> list[tuple[int, int]]:
    """Chunks from one to another as nodes of the pairwise levels: level and number."""
    nodes = []
    while first < last:
        level = 0
        if joined:
            while not first & (1 << level) and first + (2 << level) <= last:
                level += 1
        nodes.append((level, first >> level))
        first += 1 << level
    return nodes


def grouped(made: list[tuple[int, int, Any]], groups: list[tuple[int, str]]) -> list[list[Node]]:
    """The nodes of each of several values whose arrays come one after another."""
    result: list[list[Node]] = []
    at = 0
    for count, _ in groups:
        result.append([(level, number, tuple(arrays[at : at + count])) for level, number, arrays in made])
        at += count
    return result


def within(array: Any, whole: Parts, part: Parts) -> Any:
    """A part of an array, from another part of it."""
    if whole == part:
        return array
    slices = tuple(
        slice(None) if p is None or w is None else slice(p[0] - w[0], p[1] - w[0]) for w, p in zip(whole, part, strict=True)
    )
    return np.ascontiguousarray(array[slices])


def assembled(given: Any) -> Any:
    """An array from its blocks, nested in lists as the axes are."""
    while isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, list):
        given = np.block(_nested(given))
    if isinstance(given, np.ndarray) and not given.flags.c_contiguous:
        return np.ascontiguousarray(given)
    return given


def _nested(given: Any) -> Any:
    return [_nested(one) for one in given] if isinstance(given, list) else given


def sliced(array: Any, slices: tuple[slice, ...]) -> Any:
    """A part of a block, which alone goes to the worker that needs it."""
    return np.ascontiguousarray(array[slices])


def joined(nodes: list[list[Node]], operation: str, ordered: bool, last: bool) -> Any:
    """The nodes of several blocks, with those joined that the pairwise levels join; at last the
    result alone."""
    stack: list[Node] = []
    for node in (one for many in nodes for one in many):
        stack.append(node)
        while len(stack) > 1 and (not ordered or _are_pair(stack[-2], stack[-1])):
            (level, number, a), (_, _, b) = stack[-2], stack[-1]
            stack[-2:] = [(level + 1, number >> 1, join(operation, a, b))]
    if not last:
        return stack
    result = stack.pop()[2]
    while stack:
        result = join(operation, stack.pop()[2], result)
    return result[0]


def _are_pair(a: Node, b: Node) -> bool:
    return a[0] == b[0] and not a[1] & 1 and b[1] == a[1] + 1


def join(operation: str, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Two partial results as one."""
    if operation in ("argmax", "argmin"):
        (place, one), (other, two) = (tuple(np.asarray(x) for x in pair) for pair in (a, b))
        ahead = two > one if operation == "argmax" else two < one
        ahead = np.where(np.isnan(one), False, np.isnan(two) | ahead) if one.dtype.kind == "f" else ahead
        same = (two == one) | (np.isnan(one) & np.isnan(two)) if one.dtype.kind == "f" else two == one
        ahead = ahead | (same & (other < place))
        return np.where(ahead, other, place), np.where(ahead, two, one)
    one, two = np.asarray(a[0]), np.asarray(b[0])
    key = (operation, one.dtype.name)
    with _lock:
        if key not in _joins:
            name = {"bool": "bool"}.get(key[1], key[1].replace("uint", "u").replace("int", "i").replace("float", "f"))
            _joins[key] = _native.compile(f"fn joined(a: {name}[n], b: {name}[n]) = {_OPERATIONS[operation]}")
    flat = _joins[key].joined(np.ravel(one), np.ravel(two), threads=1)
    return (flat.reshape(one.shape),)


def picked(results: list[Any], number: int) -> Any:
    """One of the results of a task."""
    return results[number]
