"""NumPy's elementwise functions in the language."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import dtype as Dtype

from .arrays import (
    BOOL,
    FLOAT,
    INT,
    STORAGE,
    Number,
    Traced,
    cast,
    language,
    lift,
    literal,
    node_of,
    shape_of,
    spec_of,
    traced,
)
from .errors import refuse
from .program import AND, ATOM, COMPARE, IF, NEGATE, NOT, OR, POWER, PRODUCT, SUM, Node, expr
from .sizes import Length, Size, equate, now

#: Without its types, which know nothing of traced arrays.
np: Any = numpy

#: Functions that are one operator or one call: the template, how tightly it binds, and how tightly
#: its operands have to.
TEMPLATES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "add": ("{0} + {1}", SUM, (SUM, PRODUCT)),
    "subtract": ("{0} - {1}", SUM, (SUM, PRODUCT)),
    "multiply": ("{0} * {1}", PRODUCT, (PRODUCT, NEGATE)),
    "divide": ("{0} / {1}", PRODUCT, (PRODUCT, NEGATE)),
    "negative": ("-{0}", NEGATE, (POWER,)),
    "positive": ("{0}", IF, ()),
    "less": ("{0} < {1}", COMPARE, (SUM, SUM)),
    "less_equal": ("{0} <= {1}", COMPARE, (SUM, SUM)),
    "greater": ("{0} > {1}", COMPARE, (SUM, SUM)),
    "greater_equal": ("{0} >= {1}", COMPARE, (SUM, SUM)),
    "equal": ("{0} == {1}", COMPARE, (SUM, SUM)),
    "not_equal": ("{0} != {1}", COMPARE, (SUM, SUM)),
    "maximum": ("max({0}, {1})", ATOM, ()),
    "minimum": ("min({0}, {1})", ATOM, ()),
    "remainder": ("mod({0}, {1})", ATOM, ()),
    "floor_divide": ("floor_div({0}, {1})", ATOM, ()),
    "fmod": ("{0} % {1}", PRODUCT, (PRODUCT, NEGATE)),
    "arctan2": ("atan2({0}, {1})", ATOM, ()),
    "square": ("{0} ^ 2", POWER, (ATOM,)),
    "reciprocal": ("1 / {0}", PRODUCT, (NEGATE,)),
    "deg2rad": ("{0} * (pi / 180)", PRODUCT, (PRODUCT,)),
    "radians": ("{0} * (pi / 180)", PRODUCT, (PRODUCT,)),
    "rad2deg": ("{0} * (180 / pi)", PRODUCT, (PRODUCT,)),
    "degrees": ("{0} * (180 / pi)", PRODUCT, (PRODUCT,)),
    # Equal infinities have no difference.
    "logaddexp": (
        "if {0} == {1} then {2} + log(2) else max({3}, {4}) + log1p(exp(-abs({5} - {6})))",
        IF,
        (SUM, SUM, SUM, IF, IF, SUM, PRODUCT),
    ),
    "logaddexp2": (
        "if {0} == {1} then {2} + 1 else max({3}, {4}) + log2(1 + exp2(-abs({5} - {6})))",
        IF,
        (SUM, SUM, SUM, IF, IF, SUM, PRODUCT),
    ),
    "fmax": ("if isnan({0}) then {1} else if isnan({2}) then {3} else max({4}, {5})", IF, ()),
    "fmin": ("if isnan({0}) then {1} else if isnan({2}) then {3} else min({4}, {5})", IF, ()),
    "signbit": ("{0} < 0 || 1 / {1} < 0", OR, (SUM, NEGATE)),
    "copysign": ("if {0} < 0 || 1 / {1} < 0 then -abs({2}) else abs({3})", IF, (SUM, NEGATE)),
    "heaviside": ("if isnan({0}) then {1} else if {2} < 0 then 0 else if {3} > 0 then 1 else {4}", IF, (IF, IF, SUM, SUM)),
    "logical_and": ("{0} && {1}", AND, (NOT, NOT)),
    "logical_or": ("{0} || {1}", OR, (AND, AND)),
    "logical_xor": ("{0} != {1}", COMPARE, (SUM, SUM)),
    "logical_not": ("!{0}", NOT, (COMPARE,)),
    "bitwise_and": ("bit_and({0}, {1})", ATOM, ()),
    "bitwise_or": ("bit_or({0}, {1})", ATOM, ()),
    "bitwise_xor": ("bit_xor({0}, {1})", ATOM, ()),
    "invert": ("bit_not({0})", ATOM, ()),
    "left_shift": ("shift_left({0}, {1})", ATOM, ()),
    "right_shift": ("shift_right({0}, {1})", ATOM, ()),
    "ndtr": ("0.5 * (1 + erf({0} * sqrt(0.5)))", PRODUCT, (PRODUCT,)),
    "ndtri": ("sqrt(2) * erf_inv(2 * {0} - 1)", PRODUCT, (NEGATE,)),
    "expit": ("sigmoid({0})", ATOM, ()),
    "logit": ("log({0} / (1 - {1}))", ATOM, (PRODUCT, PRODUCT)),
    "entr": ("if {0} == 0 then 0 else -{1} * log({2})", IF, (SUM, POWER)),
    "xlogy": ("if {0} == 0 && !isnan({1}) then 0 else {2} * log({3})", IF, (SUM, IF, PRODUCT)),
    "rel_entr": ("if {0} == 0 && {1} >= 0 then 0 else {2} * log({3} / {4})", IF, (SUM, SUM, PRODUCT, PRODUCT, NEGATE)),
}
#: The order of the operands in templates that have one several times.
ORDERS = {
    "logaddexp": (0, 1, 0, 0, 1, 0, 1),
    "logaddexp2": (0, 1, 0, 0, 1, 0, 1),
    "fmax": (0, 1, 1, 0, 0, 1),
    "fmin": (0, 1, 1, 0, 0, 1),
    "signbit": (0, 0),
    "copysign": (1, 1, 0, 0),
    "heaviside": (0, 0, 0, 0, 1),
    "logit": (0, 0),
    "entr": (0, 0, 0),
    "xlogy": (0, 1, 0, 1),
    "rel_entr": (0, 1, 0, 0, 1),
}
#: Functions with another name here.
RENAMED = {
    "absolute": "abs",
    "fabs": "abs",
    "rint": "round",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "bitwise_count": "popcount",
    "gammaln": "lgamma",
    "loggamma": "lgamma",
    "psi": "digamma",
    "erfinv": "erf_inv",
}
SAME = frozenset(
    "sign sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh floor ceil trunc erf".split()
)
#: Functions that leave integers as they are.
WHOLE = frozenset(["floor", "ceil", "trunc", "rint"])
#: Operators on integers, with those that take their place on truth values.
OF_BOOLS = {
    "add": "logical_or",
    "multiply": "logical_and",
    "maximum": "logical_or",
    "minimum": "logical_and",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
}
LOGICAL = frozenset(["logical_and", "logical_or", "logical_xor", "logical_not"])
TESTS = frozenset(["isnan", "isinf", "isfinite"])


def broadcast(shapes: list[tuple[Length, ...]]) -> tuple[Length, ...]:
    """The shape that all have in common, as NumPy broadcasts them."""
    rank = max((len(shape) for shape in shapes), default=0)
    common: list[Length] = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            if isinstance(length, int) and length == 1:
                continue
            if isinstance(common[axis], int) and common[axis] == 1:
                common[axis] = length
                continue
            both = equate(common[axis], length)
            if both is None and 1 in (now(common[axis]), now(length)):
                refuse(
                    f"axes of length `{common[axis]}` and `{length}` meet, and one of them is 1 in this call",
                    "only axes that always have the length 1 are broadcast",
                )
            if both is None:
                shown = " ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
                raise ValueError(f"operands could not be broadcast together with shapes {shown}")
            common[axis] = both
    return tuple(common)


def apply(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of an elementwise function, or of one of its methods."""
    from . import functions

    out = kwargs.pop("out", None)
    target = out[0] if isinstance(out, tuple) else out
    if isinstance(out, tuple) and len(out) > 1:
        refuse("several outputs cannot be traced", "take the results without `out`")
    if method == "__call__":
        where = kwargs.pop("where", True)
        result = call(ufunc, inputs, **kwargs)
        if where is not True:
            if target is None:
                refuse("`where` without `out` leaves elements undefined", "pass out=")
            result = functions.where(where, result, target)
        return into(target, result)
    if method == "reduce":
        return functions.reduce_ufunc(ufunc, inputs[0], out=target, **kwargs)
    if method == "accumulate":
        return into(target, functions.accumulate(ufunc, inputs[0], **kwargs))
    if method == "outer":
        a, b = traced(inputs[0]), inputs[1]
        a = functions.reshape(a, a.shape + (1,) * len(shape_of(lift(b))))
        return into(target, call(ufunc, (a, b), **kwargs))
    if method == "at":
        return functions.at(ufunc, *inputs)
    return refuse(f"`np.{ufunc.__name__}.{method}` cannot be traced")


def into(target: Any, result: Any) -> Any:
    """Writes a result to the array that `out` names, if there is one."""
    if target is None:
        return result
    if not isinstance(target, Traced):
        refuse("`out` is an array from outside of the function", "return the result, and assign it there")
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise TypeError(f"Cannot cast output from {result.dtype!r} to {target.dtype!r}")
    target[...] = result
    return target


def loops(ufunc: Any, operands: list[Any], dtype: Any) -> tuple[Dtype[Any], ...]:
    """The types in which NumPy computes, those of the operands and then that of the result."""
    specs = tuple(spec_of(operand) for operand in operands) + (None,) * ufunc.nout
    options = {} if dtype is None else {"signature": (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout}
    found = ufunc.resolve_dtypes(specs, **options)
    for one in found:
        language(one)
    return tuple(found)


def call(ufunc: Any, inputs: tuple[Any, ...], dtype: Any = None, casting: str = "same_kind", **other: Any) -> Any:
    """The function of arrays."""
    from . import functions

    for option in ("order", "subok"):
        other.pop(option, None)
    if other:
        refuse(f"`{next(iter(other))}` of `np.{ufunc.__name__}` cannot be traced")
    called: str = ufunc.__name__
    synonyms = {"true_divide": "divide", "abs": "absolute", "mod": "remainder", "conjugate": "positive"}
    name = synonyms.get(called, called)
    if name in ("matmul", "vecdot", "matvec", "vecmat"):
        return functions.products(name, *inputs)
    operands = [lift(value) for value in inputs]
    if name == "divmod":
        return call(np.floor_divide, inputs), call(np.remainder, inputs)
    if name == "modf":
        whole = call(np.trunc, inputs)
        return call(np.subtract, (inputs[0], whole)), whole
    if name == "hypot":
        return _hypot(*inputs)
    if name == "clip":
        low = call(np.maximum, inputs[:2])
        return call(np.minimum, (low, inputs[2]))
    types = loops(ufunc, operands, dtype)
    if types[-1] == BOOL and types[0].kind in "iu" and not all(_fits(o, types[0]) for o in operands):
        types = (INT, INT, BOOL)  # a comparison with a number beyond the type is none that overflows
    shape = broadcast([shape_of(operand) for operand in operands])
    # A result has the type of one operand, which must not be a number without one.
    known = [k for k, operand in enumerate(operands) if not isinstance(operand, (Number, Size))]
    typed = 0 if not known else -1
    if name in ("power", "float_power"):
        node = _power(operands, types)
    else:
        # A template with its operands in another order need not put one of a type next to a number.
        typed_all = name in ORDERS
        nodes = [node_of(o, t, typed_all or k == typed) for k, (o, t) in enumerate(zip(operands, types, strict=False))]
        node = one(name, nodes, types)
    return Traced(node, types[-1], shape)


def _fits(operand: Any, dtype: Dtype[Any]) -> bool:
    """Whether an operand, if it is a number that is known, is one of a type of integers."""
    if not isinstance(operand, Number) or operand.kind is not int:
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= operand.value <= limits.max)


def one(name: str, nodes: list[Node], types: tuple[Dtype[Any], ...]) -> Node:
    """One function of operands of the types in which NumPy computes it."""
    work, result = types[0], types[-1]
    if work == BOOL:
        name = OF_BOOLS.get(name, name)
    if name in LOGICAL:
        nodes = [cast(node, t, BOOL) for node, t in zip(nodes, types, strict=False)]
    elif name in TESTS:
        node = nodes[0] if work.kind == "f" else cast(nodes[0], work, FLOAT)
        return expr(f"{name}({{0}})", node)
    elif name in WHOLE and work.kind != "f":
        return nodes[0]
    if name == "positive":
        return nodes[0]
    if name == "absolute" and work.kind in "ub":
        return nodes[0]
    if name in TEMPLATES:
        template, prec, precs = TEMPLATES[name]
        order = ORDERS.get(name)
        given = [nodes[k] for k in order] if order else nodes
        natural = name in ("add", "multiply", "remainder", "minimum", "square") and all(n.natural for n in nodes)
        made = expr(template, *given, prec=prec, precs=precs, natural=natural)
    elif name in SAME or name in RENAMED:
        made = expr(f"{RENAMED.get(name, name)}({', '.join('{%d}' % k for k in range(len(nodes)))})", *nodes)
    else:
        refuse(f"`np.{name}` cannot be traced", "the language has no such function: see docs/language.md")
    # Arithmetic widens storage types, and NumPy does not.
    if language(result) in STORAGE and result.kind != "b":
        return expr(f"{language(result)}({{0}})", made, natural=made.natural)
    return made


def _power(operands: list[Any], types: tuple[Dtype[Any], ...]) -> Node:
    base, exponent = operands
    work = types[-1]
    if work.kind == "b":
        refuse("powers of truth values cannot be traced", "convert them first: x.astype(int)")
    if isinstance(exponent, Number):
        value = exponent.value
        left = node_of(base, types[0], True)
        if work.kind in "iu" and value < 0:
            raise ValueError("Integers to negative integer powers are not allowed.")
        if value == 0.5:
            made = expr("sqrt({0})", left)
        elif float(value).is_integer() and abs(value) <= 64:
            whole = int(value)
            made = expr(f"{{0}} ^ {whole}", left, prec=POWER, precs=(ATOM,), natural=left.natural)
        else:
            right = literal(value, types[1])
            made = expr("{0} ^ {1}", left, right, prec=POWER, precs=(ATOM, ATOM))
    else:
        right = node_of(exponent, types[1])
        if work.kind in "iu" and not right.natural:
            refuse(
                "integers to the power of integers of unknown sign cannot be traced",
                "NumPy refuses negative exponents as the program runs: use a base of floats",
            )
        made = expr("{0} ^ {1}", node_of(base, types[0]), right, prec=POWER, precs=(ATOM, ATOM))
    return expr(f"{language(work)}({{0}})", made) if language(work) in STORAGE else made


def _hypot(x: Any, y: Any) -> Any:
    operands = [lift(x), lift(y)]
    types = loops(np.hypot, operands, None)
    x, y = (Traced(node_of(o, t, True), t, shape_of(o)) for o, t in zip(operands, types, strict=False))
    x, y = call(np.absolute, (x,)), call(np.absolute, (y,))
    great = call(np.maximum, (x, y))
    ratio = call(np.divide, (call(np.minimum, (x, y)), great))
    scaled = call(np.multiply, (great, call(np.sqrt, (call(np.add, (1, call(np.square, (ratio,)))),))))
    plain = expr("{0} == 0 || isinf({1})", great.node, great.node, prec=OR, precs=(SUM,))
    node = expr("if {0} then {1} else {2}", plain, great.node, scaled.node, prec=IF, precs=(OR, IF, IF))
    return Traced(node, scaled.dtype, scaled.shape)
