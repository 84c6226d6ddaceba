"""A traced function as expressions, and its text in the language."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .. import _native
from .errors import Place, here
from .sizes import Length, Size, Symbol, text

#: How tightly operators bind, loosest first.
IF, OR, AND, NOT, COMPARE, SUM, PRODUCT, NEGATE, POWER, ATOM = range(10)

KEYWORDS = frozenset("fn let rec if then else where loop while use float".split())
TYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
#: Names for the lengths of axes and for indices, in the order of preference.
LENGTHS = ("n", "m", "k", "d", "h", "w", "c", "b", "r", "s")
INDICES = ("i", "j", "k", "l", "p", "q", "r", "s", "u", "v", "w", "z")


class Printer:
    """The context in which an expression prints itself."""

    def __init__(self, args: list[tuple[str, int]], indices: list[str]) -> None:
        self._args = args
        #: The names of the indices.
        self.i = indices

    def arg(self, number: int, prec: int = IF) -> str:
        """An operand, in parentheses if its operator binds less tightly than ``prec``."""
        shown, binds = self._args[number]
        return shown if binds >= prec else f"({shown})"


Render = Callable[[Printer], str]


class Node:
    """An expression over others."""

    __slots__ = ("args", "render", "prec", "bounds", "hint", "place", "cheap", "natural", "counts", "named")

    def __init__(
        self,
        render: Render,
        args: tuple[Node, ...] = (),
        *,
        prec: int = ATOM,
        bounds: tuple[Length, ...] | None = None,
        cheap: bool = False,
        natural: bool = False,
        counts: bool = False,
        named: bool = False,
    ) -> None:
        self.render = render
        self.args = args
        self.prec = prec
        #: The lengths of the indices, for an array by its element at each index.
        self.bounds = bounds
        self.hint: str | None = None
        self.place: Place = here()
        #: Whether it is printed wherever it is used, instead of being named.
        self.cheap = cheap
        #: Whether its elements are not negative.
        self.natural = natural
        #: Whether element ``i`` is ``i``.
        self.counts = counts
        #: Whether its operands have to be names, because it subscripts them.
        self.named = named or bounds is not None


def expr(
    template: str,
    *args: Node,
    prec: int = ATOM,
    precs: tuple[int, ...] = (),
    lengths: tuple[Length, ...] = (),
    **flags: Any,
) -> Node:
    """An expression by a template, in which ``{0}`` stands for the first operand and ``{s0}`` for
    the first of ``lengths``. An operand that occurs twice is given twice."""
    pieces = re.split(r"\{(s?\d+)\}", template)

    def render(p: Printer) -> str:
        out = [pieces[0]]
        for number, rest in zip(pieces[1::2], pieces[2::2], strict=True):
            if number[0] == "s":
                # Sizes get their names when the program is printed.
                out += [text(lengths[int(number[1:])]), rest]
                continue
            at = int(number)
            out += [p.arg(at, precs[at] if at < len(precs) else IF), rest]
        return "".join(out)

    return Node(render, args, prec=prec, **flags)


def elements(body: Callable[[Any], str], bounds: tuple[Length, ...], *args: Node, **flags: Any) -> Node:
    """An array by its element at each index; ``body`` is given names of operands and indices."""
    return Node(body, args, bounds=bounds, **flags)


class Parameter:
    """An argument of the traced program."""

    def __init__(self, name: str, dtype: str, shape: tuple[Length, ...], node: Node) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.node = node


class Trace:
    """The record of the operations of a function on its arguments so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: list[Parameter] = []
        #: Arrays from outside of the function, which follow its arguments in a call.
        self.captured: list[Any] = []
        #: Whether an argument is in the memory of a GPU, so that the program runs there.
        self.on_gpu = False
        #: Arrays that were met, by identity: each with itself, a copy, and what stands for it.
        self.known: dict[int, tuple[Any, Any, Any]] = {}
        #: Arrays that the function itself made.
        self.made: dict[int, Any] = {}
        #: Sizes that decided something, each with the condition and whether it was met.
        self.decisions: list[tuple[Size, Callable[[int], bool], bool]] = []
        #: The line of Python of each statement.
        self.places: list[Place] = []

    def parameter(
        self, name: str, dtype: str, shape: tuple[int, ...], *, symbolic: bool = True
    ) -> tuple[Node, tuple[Length, ...]]:
        """A parameter for an array of this shape, where each length but 1 is a symbol, unless the
        array is always the same."""
        lengths: list[Length] = []
        for axis, length in enumerate(shape):
            if length == 1 or not symbolic:
                lengths.append(length)
            else:
                symbol = Symbol(length, f"{name}.shape[{axis}]", (len(self.parameters), axis))
                lengths.append(Size([((symbol,), 1)]))
        node = Node(lambda p: "", cheap=True)
        self.parameters.append(Parameter(name, dtype, tuple(lengths), node))
        return node, tuple(lengths)

    def source(self, results: list[Node]) -> str:
        """The program."""
        names = _Names()
        for parameter in self.parameters:
            parameter.name = names.fresh(parameter.name)
        texts = {id(p.node): (p.name, ATOM) for p in self.parameters}
        for parameter in self.parameters:
            for length in parameter.shape:
                symbol = length.symbol() if isinstance(length, Size) else None
                if symbol is not None and not symbol.name:
                    symbol.name = names.first(LENGTHS, "n")
        order = _ordered(results)
        uses: dict[int, int] = {}
        forced: set[int] = set()
        for node in order:
            for arg in node.args:
                uses[id(arg)] = uses.get(id(arg), 0) + 1
                if node.named:
                    forced.add(id(arg))
        final = {id(node) for node in results} if len(results) == 1 else set()
        named = {
            id(node): names.fresh(node.hint or "t")
            for node in order
            if id(node) not in texts
            and (node.bounds is not None or not node.cheap)
            and (
                node.bounds is not None
                or id(node) in forced
                or uses.get(id(node), 0) > 1
                or (node.hint is not None and id(node) not in final)
            )
        }
        lines: list[str] = []
        for node in order:
            if id(node) in texts:
                continue
            indices = [names.peek(INDICES, "i", k) for k in range(len(node.bounds or ()) + 6)]
            shown = node.render(Printer([texts[id(arg)] for arg in node.args], indices))
            name = named.get(id(node))
            if name is None and len(shown) > 88 and not node.cheap and id(node) not in final:
                name = names.fresh("t")
            if name is None:
                texts[id(node)] = (shown, node.prec)
                continue
            head = name
            if node.bounds:
                ranges = (f"{i} < {text(length)}" for i, length in zip(indices, node.bounds, strict=False))
                head = f"{name}[{', '.join(ranges)}]"
            lines.append(f"    let {head} = {shown}")
            self.places.append(node.place)
            texts[id(node)] = (name, ATOM)
        last = [texts[id(node)][0] for node in results]
        lines.append("    " + (last[0] if len(last) == 1 else f"({', '.join(last)})"))
        self.places.append(results[0].place)
        params = ", ".join(f"{p.name}: {p.dtype}{_shape(p.shape)}" for p in self.parameters)
        body = "\n".join(lines)
        return f"fn {self.name}({params}) {{\n{body}\n}}\n"


class _Names:
    """Names that are taken."""

    def __init__(self) -> None:
        self.taken = {*KEYWORDS, *TYPES, *_native.names()}

    def fresh(self, wanted: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_]", "_", wanted).strip("_") or "t"
        if name[0].isdigit():
            name = f"t{name}"
        found, number = name, 2
        while found in self.taken:
            found, number = f"{name}{number}" if not name[-1].isdigit() else f"{name}_{number}", number + 1
        self.taken.add(found)
        return found

    def first(self, pool: tuple[str, ...], other: str) -> str:
        free = next((name for name in pool if name not in self.taken), other)
        return self.fresh(free)

    def peek(self, pool: tuple[str, ...], other: str, number: int) -> str:
        free = [name for name in pool if name not in self.taken]
        number_left = number - len(free)
        if number_left < 0:
            return free[number]
        while f"{other}{number_left}" in self.taken:
            number_left += 100
        return f"{other}{number_left}"


def _shape(lengths: tuple[Length, ...]) -> str:
    return f"[{', '.join(text(length) for length in lengths)}]" if lengths else ""


def _ordered(results: list[Node]) -> list[Node]:
    """The expressions that the results need, operands first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, int]] = [(node, 0) for node in reversed(results)]
    while stack:
        node, at = stack.pop()
        if at == 0:
            if id(node) in seen:
                continue
            seen.add(id(node))
        if at < len(node.args):
            stack.append((node, at + 1))
            if id(node.args[at]) not in seen:
                stack.append((node.args[at], 0))
        else:
            order.append(node)
    return order


class _Current(threading.local):
    traces: list[Trace]

    def __init__(self) -> None:
        self.traces = []


_current = _Current()


def current() -> Trace:
    """The trace that runs on this thread."""
    return _current.traces[-1]


def tracing() -> bool:
    """Whether a trace runs on this thread."""
    return bool(_current.traces)


@contextlib.contextmanager
def running(trace: Trace) -> Iterator[Trace]:
    """Makes a trace the one that runs on this thread."""
    _current.traces.append(trace)
    try:
        yield trace
    finally:
        _current.traces.pop()
