"""Functions of Fuseloop over Dask arrays.

Examples:
    >>> import dask.array as da
    >>> import numpy as np
    >>> import fuseloop as fl
    >>> import fuseloop.dask
    >>> module = fl.compile("fn total(x: f64[n]) = sum(x)")
    >>> x = da.ones(100_000, chunks=30_000)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     float(fl.dask.apply(module.total, x).compute())
    100000.0
"""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _tasks
from ._errors import Error
from ._jit import Jit, _built
from ._tasks import LAST, RUN, Plan

try:
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph
except ImportError as _error:
    raise ImportError("fuseloop.dask needs Dask: pip install 'dask[array]'") from _error

#: How many partial results a task joins.
_FAN = 16


class CutWarning(UserWarning):
    """Blocks end where the order of a reduction has no cut, so elements move between them."""


def apply(function: Any, *args: Any, threads: int = 1, **kwargs: Any) -> Any:
    """Calls a function on Dask arrays, block by block, with the same bits as on NumPy arrays.

    Axes with several blocks are cut as the function allows (``function.explain()`` says how);
    other arguments go to every block. The result is a Dask array, or a named tuple of them, that
    is computed when Dask is asked to. ``threads`` is the number of threads of each task.

    Raises ``fuseloop.Error`` if an axis with several blocks cannot be cut, with the reason in the
    source.
    """
    if isinstance(function, Jit):
        return _apply_jit(function, args, kwargs, threads)
    return _Call(function, _in_order(function, args, kwargs), threads).results()


def _apply_jit(function: Jit[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], threads: int) -> Any:
    """Traces the function for arrays of these shapes and types, and applies the program."""
    stand_ins: dict[int, Any] = {}

    def stand_in(value: Any) -> Any:
        if isinstance(value, da.Array):
            _hold_known(value, "an argument")
            shape: Any = value.shape  # which are known: no length is NaN
            array = np.broadcast_to(np.zeros((), value.dtype), shape)
            stand_ins[id(array)] = value
            return array
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(stand_in(one) for one in value)
        if isinstance(value, dict):
            return {key: stand_in(one) for key, one in value.items()}
        return value

    bound = function._bound(stand_in(args), stand_in(kwargs))
    leaves: list[Any] = []
    key = function._key(bound, leaves)
    found = [known for known in function._known.get(key, ()) if known.plain or known.holds(leaves)]
    known = found[0] if found else function._add(key, bound)
    values = [stand_ins.get(id(leaf), leaf) for leaf in [*leaves, *known.captured]]
    result = _Call(known.function, values, threads).results()
    return result if known.structure is None else _built(known.structure, result)


def _in_order(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters."""
    names: list[str] = function.names
    unknown = [name for name in kwargs if name not in names]
    given = dict(zip(names, args, strict=False)) | kwargs
    if unknown or len(args) + len(kwargs) != len(names) or len(given) != len(names):
        raise TypeError(f"{function.__name__}() takes {', '.join(names)}: {function.signature}")
    return [given[name] for name in names]


def _hold_known(array: Any, name: str) -> None:
    if any(math.isnan(length) for length in array.shape):
        raise Error(
            f"`{name}` has blocks of unknown length", help="call its compute_chunk_sizes() first, which computes it"
        )


class _Call:
    """A call in the making."""

    def __init__(self, function: Any, values: list[Any], threads: int) -> None:
        self.function = function
        self.values: list[Any] = [value if isinstance(value, da.Array) else _plain(value) for value in values]
        self.threads = threads
        self.wide = self._is_wide()
        for name, value in zip(function.names, self.values, strict=True):
            if isinstance(value, da.Array):
                _hold_known(value, name)
        self._check_types()
        self.cuts: list[dict[str, Any]] = function._cuts(self.wide)
        #: The ends of the blocks of each cut.
        self.ends: dict[int, list[int]] = {}
        self._find_cuts()
        given = tuple((np.shape(v), _integer(v, p)) for v, p in zip(self.values, function.params, strict=True))
        self.sizes, self.stages = function._stages(given, sorted(self.ends), self.wide)
        self._align()
        token = tokenize(function.module.source, function.__name__, self.wide, sorted(self.ends), self.sizes, threads)
        self.token = tokenize(token, self.ends, *self.values)
        self.name = f"{function.__name__}-{self.token}"
        self.plan = Plan(
            function=pickle.dumps(function),
            wide=self.wide,
            cuts=sorted(self.ends),
            sizes=list(self.sizes),
            threads=threads,
            token=token,
        )
        self.graph: dict[Any, Any] = {f"plan-{self.token}": self.plan}
        self.blocks = [self._blocks_of(number) for number in range(len(self.values))]
        #: The blocks of values: the key of each, and the ends along its axes.
        self.joined: dict[int, tuple[dict[tuple[int, ...], Any], list[list[int]]]] = {}

    def _is_wide(self) -> bool:
        floats = [v for v, is_float in zip(self.values, self.function.floats, strict=True) if is_float]
        types = [v.dtype for v in floats if hasattr(v, "dtype")]
        return bool(floats) and (not types or any(dtype == np.float64 for dtype in types))

    def _check_types(self) -> None:
        params = zip(self.function.names, self.function.params, self.function.floats, self.values, strict=True)
        for name, declared, is_float, value in params:
            element = "f64" if is_float and self.wide else declared.partition("[")[0]
            rank = declared.count(",") + 1 if "[" in declared else 0
            if hasattr(value, "dtype") and _named(value.dtype) != element and (rank or isinstance(value, da.Array)):
                raise Error(
                    f"`{name}` has elements of type {element}, the array given has {_named(value.dtype)}",
                    help=f"pass {name}.astype({_numpy_name(element)!r}), or declare the parameter as {_named(value.dtype)}",
                )
            if np.ndim(value) != rank:
                raise Error(f"`{name}` is {declared}, the array given has {np.ndim(value)} axes")

    def _find_cuts(self) -> None:
        """Cuts what has several blocks."""
        for number, cut in enumerate(self.cuts):
            for param, axis in cut["params"]:
                value = self.values[param]
                if not isinstance(value, da.Array) or len(value.chunks[axis]) < 2:
                    continue
                if cut["refusal"] is not None:
                    why, help = cut["refusal"]
                    name = self.function.names[param]
                    raise Error(
                        f"axis {axis} of `{name}` has {len(value.chunks[axis])} blocks and cannot be cut: {why}",
                        help=f"{help}; {name}.rechunk({{{axis}: -1}}) makes it one block, which goes to every task",
                    )
                if number not in self.ends:
                    self.ends[number] = [0, *itertools.accumulate(value.chunks[axis])]

    def _align(self) -> None:
        """Warns of blocks that end between the cuts of the order of a reduction."""
        for stage in self.stages:
            if stage["unit"] is None:
                continue
            chunk, inner, length, _ = stage["unit"]
            cut = stage["outputs"][0]["over"][0][0]
            between = [end for end in self.ends[cut] if end < length and end * inner % chunk]
            if between:
                param, axis = self.cuts[cut]["params"][0]
                unit = chunk // math.gcd(chunk, max(inner, 1))
                warnings.warn(
                    f"axis {axis} of `{self.function.names[param]}` is cut at {between[0]}, where the order of a sum has no "
                    f"cut: its elements are added in chunks of {chunk}. The blocks of the sum end at the nearest cuts, for "
                    f"which some elements move; with blocks of a multiple of {unit}, none do",
                    CutWarning,
                    stacklevel=5,
                )
                return

    def _blocks_of(self, number: int) -> Any:
        """The keys of the blocks of an argument, and where these end along each axis."""
        value = self.values[number]
        if not isinstance(value, da.Array):
            if np.ndim(value) == 0:
                return value
            key = f"given-{number}-{self.token}"
            self.graph[key] = np.ascontiguousarray(value)
            return ({(0,) * value.ndim: key}, [[0, length] for length in value.shape])
        ends = [[0, *itertools.accumulate(chunks)] for chunks in value.chunks]
        places = itertools.product(*(range(len(chunks)) for chunks in value.chunks))
        return ({place: (value.name, *place) for place in places}, ends)

    def results(self) -> Any:
        """The results as Dask arrays."""
        found: dict[int, Any] = {}
        for number, stage in enumerate(self.stages):
            if stage["outputs"][0]["scan"] is not None:
                self._scan(number, stage)
            elif stage["outputs"][0]["join"] is not None:
                self._partial(number, stage)
            else:
                for place, output in enumerate(stage["outputs"]):
                    found[output["number"]] = (place, output)
                self._final(number, stage)
        made = tuple(self._array(number, *found[number]) for number in sorted(found))
        if len(made) == 1:
            return made[0]
        make = self.function.__dict__["_tuple"]
        return made if make is None else make(*made)

    def _array(self, number: int, place: int, output: dict[str, Any]) -> Any:
        """A result as an array of the blocks that tasks compute."""
        name = f"{self.name}-{number}"
        stage = next(n for n, stage in enumerate(self.stages) if output in stage["outputs"])
        cuts = self.stages[stage]["cuts"]
        chunks, axes = [], []
        for cut, length in zip(output["cuts"], output["shape"], strict=True):
            ends = [0, LAST] if cut is None else self._open(cut)
            chunks.append(tuple(min(b, length) - min(a, length) for a, b in itertools.pairwise(ends)))
            axes.append(cut)
        graph: dict[Any, Any] = {}
        for at in itertools.product(*(range(len(one)) for one in chunks)):
            block = ("blocks-" + self.name, stage, *(at[axes.index(cut)] for cut in cuts))
            if len(self.stages[stage]["outputs"]) == 1:
                # Every task costs the scheduler about a millisecond.
                graph[(name, *at)] = (RUN, "only", *self.graph.pop(block)[2:])
            else:
                graph[(name, *at)] = (RUN, "picked", block, place)
        arrays: list[Any] = [value for value in self.values if isinstance(value, da.Array)]
        layers = HighLevelGraph.from_collections(name, {**self.graph, **graph}, dependencies=arrays)
        make: Any = da.Array
        return make(layers, name, tuple(chunks), dtype=_numpy_type(output["dtype"]))

    def _open(self, cut: int) -> list[int]:
        """The ends of the blocks of a cut, with the last of them open."""
        return [*self.ends[cut][:-1], LAST]

    def _grid(self, cuts: list[int]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
        """The blocks of some cuts: their numbers, and their ends along all cuts."""
        spans = [list(itertools.pairwise(self._open(cut))) for cut in cuts]
        for at in itertools.product(*(range(len(one)) for one in spans)):
            ends = [(0, LAST)] * len(self.cuts)
            for cut, span, number in zip(cuts, spans, at, strict=True):
                ends[cut] = span[number]
            yield at, ends

    def _final(self, number: int, stage: dict[str, Any]) -> None:
        """The tasks for the blocks of results."""
        compiled = _tasks.stage_of(self.plan, number)
        for at, ends in self._grid(stage["cuts"]):
            key = ("blocks-" + self.name, number, *at)
            self.graph[key] = (RUN, "block", f"plan-{self.token}", number, ends, self._given(compiled, ends))

    def _given(self, compiled: Any, ends: list[tuple[int, int]]) -> list[Any]:
        """The inputs of a stage for a block: blocks, and parts of blocks."""
        given = []
        for is_value, number, parts in compiled.needs(self.sizes, ends):
            known = self.joined[number] if is_value else self.blocks[number]
            given.append(self._part(known, parts) if isinstance(known, tuple) else known)
        return given

    def _part(self, known: tuple[dict[tuple[int, ...], Any], list[list[int]]], parts: _tasks.Parts) -> Any:
        """A part of an array, as nested lists of keys."""
        keys, all_ends = known
        choices: list[list[tuple[int, slice | None]]] = []
        for ends, part in zip(all_ends, parts, strict=True):
            begin, end = (0, ends[-1]) if part is None else part
            chosen: list[tuple[int, slice | None]] = []
            for number, (a, b) in enumerate(itertools.pairwise(ends)):
                if a < end and begin < b:
                    whole = begin <= a and b <= end
                    chosen.append((number, None if whole else slice(max(begin, a) - a, min(end, b) - a)))
            if not chosen:
                at = next((n for n, (a, b) in enumerate(itertools.pairwise(ends)) if a <= begin <= b), 0)
                chosen = [(at, slice(0, 0))]
            choices.append(chosen)

        def nested(axis: int, at: tuple[int, ...], slices: tuple[slice | None, ...]) -> Any:
            if axis < len(choices):
                return [nested(axis + 1, (*at, n), (*slices, s)) for n, s in choices[axis]]
            key = keys[at]
            if all(one is None for one in slices):
                return key
            spans = tuple(slice(None) if one is None else one for one in slices)
            name = ("part-" + self.token, str(key), *((s.start, s.stop) if s is not None else (0, -1) for s in slices))
            self.graph[name] = (RUN, "sliced", key, spans)
            return name

        return nested(0, (), ())

    def _partial(self, number: int, stage: dict[str, Any]) -> None:
        """The tasks for the partial results of a stage, and those that join them."""
        compiled = _tasks.stage_of(self.plan, number)
        outputs = stage["outputs"]
        groups = [(2 if output["join"].startswith("arg") else 1, output["join"]) for output in outputs]
        over = [cut for cut, _ in outputs[0]["over"]]
        made: dict[tuple[int, ...], list[tuple[Any, list[tuple[int, int]]]]] = {}
        for at, ends in self._grid(stage["cuts"]):
            key = ("partial-" + self.name, number, *at)
            plan = f"plan-{self.token}"
            task: tuple[Any, ...]
            if stage["unit"] is None:
                task = (RUN, "partial", plan, number, ends, self._given(compiled, ends), groups)
            else:
                chunks = self._chunks(stage["unit"], ends[over[0]])
                if chunks is None:
                    continue
                rows, _ = _tasks.piece_ends(ends, over[0], stage["unit"], *chunks)
                given = self._given(compiled, rows)
                task = (RUN, "pieces", plan, number, rows, over[0], stage["unit"], chunks, given, groups)
            self.graph[key] = task
            place = tuple(n for n, cut in zip(at, stage["cuts"], strict=True) if cut not in over)
            made.setdefault(place, []).append((key, ends))
        for place_of, output in enumerate(outputs):
            self._join(number, stage, place_of, output, made)

    def _chunks(self, unit: tuple[int, int, int, bool], ends: tuple[int, int]) -> tuple[int, int] | None:
        """The chunks of the order that are nearest to a block: from the first to one past the last;
        ``None`` if they belong to other blocks."""
        chunk, inner, length, _ = unit
        last = -(-length * inner // chunk)
        first, end = (last if e == LAST else min(last, (2 * e * inner + chunk) // (2 * chunk)) for e in ends)
        if first < end:
            return first, end
        return None if last or ends[0] else (0, 1)

    def _scan(self, number: int, stage: dict[str, Any]) -> None:
        """The tasks for scans: prefixes of pieces, and what comes before each of them."""
        compiled = _tasks.stage_of(self.plan, number)
        outputs, unit = stage["outputs"], stage["unit"]
        cut = outputs[0]["over"][0][0]
        made: dict[tuple[int, ...], list[tuple[int, Any]]] = {}
        for at, ends in self._grid(stage["cuts"]):
            rows, chunks, begin = ends, (0, 0), ends[cut][0]
            if unit is not None:
                found = self._chunks(unit, ends[cut])
                if found is None:
                    continue
                chunks, begin = found, found[0] * unit[0]
                rows, _ = _tasks.piece_ends(ends, cut, unit, *chunks)
            key = ("scan-" + self.name, number, *at)
            given = self._given(compiled, rows)
            task = (RUN, "scans", f"plan-{self.token}", number, rows, cut, unit, chunks, given, len(outputs))
            self.graph[key] = task
            place = tuple(n for n, other in zip(at, stage["cuts"], strict=True) if other != cut)
            made.setdefault(place, []).append((begin, key))
        around = [other for other in stage["cuts"] if other != cut]
        for place_of, output in enumerate(outputs):
            self._continue(output, place_of, cut, around, made)

    def _continue(self, output: dict[str, Any], place_of: int, cut: int, around: list[int], made: Any) -> None:
        """The tasks that carry a scan from one block to the next."""
        name = f"value-{output['number']}-{self.token}"
        keys: dict[tuple[int, ...], Any] = {}
        begins: list[int] = []
        for place, blocks in made.items():
            before = None
            begins = [begin for begin, _ in blocks]
            for k, (_, key) in enumerate(blocks):
                own = (RUN, "picked", key, place_of)
                carry = (name, "carry", k, *place)
                self.graph[carry] = (RUN, "carried", before, own, output["join"])
                before = carry
                self.graph[(name, k, *place)] = (RUN, "continued", own, carry, output["join"], output["scan"])
                where = dict(zip(around, place, strict=True)) | {cut: k}
                keys[tuple(0 if c is None else where[c] for c in output["cuts"])] = (name, k, *place)
        ends = []
        for other, length in zip(output["cuts"], output["shape"], strict=True):
            inner = [*begins[1:], LAST] if other == cut else [LAST] if other is None else self._open(other)[1:]
            ends.append([0, *(min(end, length) for end in inner)])
        self.joined[output["number"]] = (keys, ends)

    def _join(self, number: int, stage: dict[str, Any], place_of: int, output: dict[str, Any], made: Any) -> None:
        """The tasks that join the partial results of a value, a few at a time."""
        lengths = dict(output["over"])
        ordered = stage["unit"] is not None
        name = f"value-{output['number']}-{self.token}"
        around = [cut for cut in stage["cuts"] if cut not in lengths]
        keys: dict[tuple[int, ...], Any] = {}
        for place, partials in made.items():
            # Blocks behind the end of a shorter axis have no elements.
            keep = partials if ordered else [p for p in partials if all(p[1][c][0] < n for c, n in lengths.items())]
            nodes: list[Any] = [(RUN, "picked", key, place_of) for key, _ in keep or partials[:1]]
            level = 0
            while len(nodes) > _FAN:
                few = [nodes[k : k + _FAN] for k in range(0, len(nodes), _FAN)]
                nodes = []
                for k, some in enumerate(few):
                    self.graph[(name, "level", level, k, *place)] = (RUN, "joined", some, output["join"], ordered, False)
                    nodes.append((name, "level", level, k, *place))
                level += 1
            key = (name, *place)
            self.graph[key] = (RUN, "joined", nodes, output["join"], ordered, True)
            keys[tuple(place[around.index(cut)] for cut in output["cuts"] if cut is not None)] = key
        axes = [k for k, cut in enumerate(output["cuts"]) if cut is not None]
        spread = {}
        for at, key in keys.items():
            full = [0] * len(output["cuts"])
            for axis, block in zip(axes, at, strict=True):
                full[axis] = block
            spread[tuple(full)] = key
        ends = []
        for cut, length in zip(output["cuts"], output["shape"], strict=True):
            ends.append([0, length] if cut is None else [min(end, length) for end in self._open(cut)])
        self.joined[output["number"]] = (spread, ends)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, np.ndarray, np.generic)) else np.asarray(value)


def _integer(value: Any, declared: str) -> int | None:
    """The value of an integer that a size may depend on."""
    if "[" in declared or declared[0] not in "iu" or isinstance(value, da.Array):
        return None
    return int(value)


def _named(dtype: Any) -> str:
    name: str = np.dtype(dtype).name
    if name in ("bool", "bfloat16"):
        return {"bool": "bool", "bfloat16": "bf16"}[name]
    return name.replace("uint", "u").replace("int", "i").replace("float", "f")


def _numpy_name(element: str) -> str:
    if element in ("bool", "bf16"):
        return {"bool": "bool", "bf16": "bfloat16"}[element]
    kind = {"i": "int", "u": "uint", "f": "float"}[element[0]]
    return f"{kind}{element[1:]}"


def _numpy_type(element: str) -> Any:
    if element == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_numpy_name(element))
