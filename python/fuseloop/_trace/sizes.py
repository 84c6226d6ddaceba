"""Sizes as symbols: the lengths of axes while a function is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from .errors import refuse


class Symbol:
    """The length of an axis of an argument. Two that must be equal become one."""

    __slots__ = ("name", "now", "label", "place", "_same")

    def __init__(self, now: int, label: str, place: tuple[int, int]) -> None:
        self.now = now
        #: The parameter and its axis.
        self.place = place
        #: Its name in errors before the program is printed.
        self.label = label
        self.name = ""
        self._same: Symbol | None = None

    def root(self) -> Symbol:
        symbol = self
        while symbol._same is not None:
            symbol = symbol._same
        return symbol

    def unify(self, other: Symbol) -> None:
        a, b = self.root(), other.root()
        if a is not b:
            b._same = a


class Quotient:
    """A quotient of sizes, rounded down."""

    __slots__ = ("above", "below")

    def __init__(self, above: Size, below: Length) -> None:
        self.above = above
        self.below = below


Atom = Union[Symbol, Quotient]


def _key(atom: Atom) -> tuple[Any, ...]:
    if isinstance(atom, Symbol):
        return (0, id(atom.root()))
    return (1, atom.above.key(), atom.below.key() if isinstance(atom.below, Size) else atom.below)


class Size:
    """A sum of products of symbols and quotients, with whole coefficients."""

    __slots__ = ("terms",)
    __array_priority__ = 1000

    def __init__(self, terms: list[tuple[tuple[Atom, ...], int]]) -> None:
        self.terms = terms

    def key(self) -> tuple[Any, ...]:
        """The same for sizes that are equal by their form."""
        merged: dict[tuple[Any, ...], int] = {}
        for product, times in self.terms:
            key = tuple(sorted((_key(atom) for atom in product), key=repr))
            merged[key] = merged.get(key, 0) + times
        return tuple(sorted(((k, t) for k, t in merged.items() if t != 0), key=repr))

    @property
    def now(self) -> int:
        """The value in the call that is traced."""
        total = 0
        for product, times in self.terms:
            for atom in product:
                times *= atom.now if isinstance(atom, Symbol) else atom.above.now // now(atom.below)
            total += times
        return total

    def at(self, shapes: list[tuple[int, ...]]) -> int:
        """The value in a call with arguments of these shapes."""
        total = 0
        for product, times in self.terms:
            for atom in product:
                if isinstance(atom, Symbol):
                    times *= shapes[atom.place[0]][atom.place[1]]
                else:
                    below = atom.below.at(shapes) if isinstance(atom.below, Size) else atom.below
                    times *= atom.above.at(shapes) // below
            total += times
        return total

    def symbol(self) -> Symbol | None:
        """The symbol, if the size is one and nothing else."""
        simple = self.simplified()
        if isinstance(simple, Size) and len(simple.terms) == 1:
            (product, times) = simple.terms[0]
            if times == 1 and len(product) == 1 and isinstance(product[0], Symbol):
                return product[0].root()
        return None

    def simplified(self) -> Length:
        merged: dict[tuple[Any, ...], tuple[tuple[Atom, ...], int]] = {}
        for product, times in self.terms:
            key = tuple(sorted((_key(atom) for atom in product), key=repr))
            merged[key] = (product, merged.get(key, (product, 0))[1] + times)
        terms = [(product, times) for product, times in merged.values() if times != 0]
        if all(not product for product, _ in terms):
            return sum(times for _, times in terms)
        return Size(terms)

    def text(self) -> tuple[str, int]:
        """The size in the language, and how tightly its operator binds."""
        simple = self.simplified()
        if isinstance(simple, int):
            return str(simple), 9
        # A constant comes last, and a term that is added first.
        terms = sorted(simple.terms, key=lambda term: (not term[0], term[1] < 0))
        text, prec = "", 9
        for number, (product, times) in enumerate(terms):
            factors = [_atom_text(atom) for atom in product]
            if abs(times) != 1 or not factors:
                factors.insert(0, (str(abs(times)), 9))
            shown = " * ".join(t if p > 6 or len(factors) == 1 else f"({t})" for t, p in factors)
            if number == 0:
                text = f"-{shown}" if times < 0 else shown
                prec = 7 if times < 0 else factors[0][1] if len(factors) == 1 else 6
            else:
                text += f" - {shown}" if times < 0 else f" + {shown}"
                prec = 5
        return text, prec

    def __repr__(self) -> str:
        return self.text()[0]

    def __hash__(self) -> int:
        return 0

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (int, Size)):
            return Size(self.terms + as_size(other).terms).simplified()
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Any:
        return Size([(product, -times) for product, times in self.terms]).simplified()

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, (int, Size)):
            return self + (-other)
        return NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, int) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        pairs = [(a, b) for a in self.terms for b in as_size(other).terms]
        return Size([(p + q, s * t) for (p, s), (q, t) in pairs]).simplified()

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(as_size(other), self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return self - (self // other) * other

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return _weak(self) / (_weak(other) if isinstance(other, Size) else other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / _weak(self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and other >= 0:
            power: Any = 1
            for _ in range(other):
                power = self * power
            return power
        return _weak(self) ** other

    def __rpow__(self, other: Any) -> Any:
        return refuse(f"a power with the size `{self}` as its exponent cannot be traced", "use a float as its base")

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (int, Size)):
            return False if other is None or isinstance(other, (str, tuple)) else NotImplemented
        difference = self - other
        if isinstance(difference, int):
            return difference == 0
        equal = _decided(difference, lambda value: value == 0)
        if equal:
            equate(self, other)
        return equal

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def _at_least(self, other: Any, extra: int) -> Any:
        """Whether ``self >= other + extra``."""
        if not isinstance(other, (int, Size)):
            return NotImplemented
        difference = self - other - extra
        if isinstance(difference, int):
            return difference >= 0
        constant = sum(times for product, times in difference.terms if not product)
        others = [times for product, times in difference.terms if product]
        if constant >= 0 and all(times > 0 for times in others):
            return True
        if constant < 0 and all(times < 0 for times in others):
            return False
        return _decided(difference, lambda value: value >= 0)

    def __ge__(self, other: Any) -> Any:
        return self._at_least(other, 0)

    def __gt__(self, other: Any) -> Any:
        return self._at_least(other, 1)

    def __lt__(self, other: Any) -> Any:
        least = self._at_least(other, 0)
        return least if least is NotImplemented else not least

    def __le__(self, other: Any) -> Any:
        least = self._at_least(other, 1)
        return least if least is NotImplemented else not least

    def __bool__(self) -> bool:
        return bool(self > 0)

    def __index__(self) -> int:
        refuse(
            f"the size `{self}` is needed as a number, which a trace leaves open",
            "a loop over a size has no trace: use whole arrays, or a program of the language",
        )

    __int__ = __index__

    def __float__(self) -> float:
        refuse(f"the size `{self}` is needed as a number, which a trace leaves open", "use it in NumPy's functions")

    def __array__(self, *_: Any, **__: Any) -> Any:
        refuse(f"the size `{self}` is needed as a number, which a trace leaves open")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .ufuncs import apply

        return apply(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .functions import dispatch

        return dispatch(function, args, kwargs)


Length = Union[int, Size]


def _weak(size: Size) -> Any:
    from .arrays import weak_float

    return weak_float(size)


def _decided(size: Size, test: Callable[[int], bool]) -> bool:
    """Whether a size meets a condition: as it does in this call, and the trace serves calls in which
    it does too."""
    from .program import current, tracing

    outcome = test(size.now)
    if tracing():
        current().decisions.append((size, test, outcome))
    return outcome


def as_size(length: Length) -> Size:
    return length if isinstance(length, Size) else Size([((), int(length))])


def now(length: Length) -> int:
    """The value of a length in the call that is traced."""
    return length.now if isinstance(length, Size) else length


def text(length: Length) -> str:
    return length.text()[0] if isinstance(length, Size) else str(length)


def _atom_text(atom: Atom) -> tuple[str, int]:
    if isinstance(atom, Symbol):
        return atom.root().name or atom.root().label, 9
    above, prec = atom.above.text()
    below, other = atom.below.text() if isinstance(atom.below, Size) else (str(atom.below), 9)
    return f"{above if prec >= 6 else f'({above})'} / {below if other > 6 else f'({below})'}", 6


def quotient(above: Length, below: Length) -> Length:
    """The quotient, rounded down."""
    if isinstance(above, int) and isinstance(below, int):
        return above // below
    if same(above, below):
        return 1
    above = as_size(above)
    if isinstance(below, int):
        if below == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if below < 0:
            return quotient(-above, -below)
        if all(times % below == 0 for _, times in above.terms):
            return Size([(product, times // below) for product, times in above.terms]).simplified()
    else:
        exact = _divided(above, below)
        if exact is not None:
            return exact
    return Size([((Quotient(above, below),), 1)])


def _divided(above: Size, below: Size) -> Length | None:
    """The quotient by a single product, if every term has it as a factor."""
    simple = below.simplified()
    if isinstance(simple, int) or len(simple.terms) != 1:
        return None
    factors, by = simple.terms[0]
    terms = []
    for product, times in above.terms:
        left = list(product)
        for factor in factors:
            found = next((atom for atom in left if _key(atom) == _key(factor)), None)
            if found is None:
                return None
            left.remove(found)
        if times % by:
            return None
        terms.append((tuple(left), times // by))
    return Size(terms).simplified()


def same(a: Length, b: Length) -> bool:
    """Whether two lengths are equal by their form."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return as_size(a).key() == as_size(b).key()


def equate(a: Length, b: Length) -> Length | None:
    """The length that both are, or ``None`` if they differ in this call. Two symbols become one; of
    other lengths the compiler checks at each call that they are equal."""
    if same(a, b):
        return a
    if now(a) != now(b) or isinstance(a, int) and isinstance(b, int):
        return None
    if isinstance(a, int) or isinstance(b, int):
        return a if isinstance(a, int) else b
    difference = a - b
    if isinstance(difference, Size) and len(difference.terms) == 2:
        (p, times), (q, less) = difference.terms
        if times == -less and len(p) == len(q) == 1 and isinstance(p[0], Symbol) and isinstance(q[0], Symbol):
            p[0].unify(q[0])
            return a
    return a if a.symbol() is not None else b


def product(lengths: Any) -> Length:
    total: Any = 1
    for length in lengths:
        total = total * length
    return total  # type: ignore[no-any-return]
