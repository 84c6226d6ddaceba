"""Writes cases.txt: arrays and what NumPy makes of them, for the tests of printing.

    python src/print/cases.py        (NumPy 2.4)

A case is a line `dtype AxB precision bits bits ...` (the precision is a number or `all`; bits are
hexadecimal, row-major), the text, and a line `--`. Truth values are lowercase, and commas stand right
behind the element rather than behind its padding.
"""

import re
from pathlib import Path

import numpy as np

NAMES = {"?": "bool", "b": "i8", "B": "u8", "i": "i32", "l": "i64", "I": "u32", "L": "u64",
         "e": "f16", "f": "f32", "d": "f64"}
inf, nan = np.inf, np.nan
rng = np.random.default_rng(1)


def cases():
    for t in "efd":
        a = lambda *v: np.array(v, t)
        yield a(0.5, 1, -2.25)
        yield a(1, 2, 3)
        yield a(-0.0, 0.0)
        yield a(1e-4, 1)
        yield a(9e-5, 1)
        yield a(1, 1000)
        yield a(1, 1001)
        yield a(0.1, 1000)
        yield a(0.1, 0.25, nan)
        yield a(nan, inf)
        yield a(nan, -inf, 1)
        yield a(nan)
        yield a(inf, 12345)
        yield a(-1e-5, 0.1, 300, -inf)
        yield a(1 / 3, 2 / 3, -1 / 7)
        yield a(0.012345678, 0.5)
        yield a(6e-8, 5e-7)
        yield rng.standard_normal((3, 4)).astype(t)
        yield rng.standard_normal(23).astype(t)
        yield rng.random((2, 2, 3)).astype(t)
        yield np.exp(rng.standard_normal(9) * 4).astype(t)
        for v in (0, 1, -0.0, 0.1, 1 / 3, 1e-4, 9e-5, 1234.5, 999, 1000, 65000, nan, -inf):
            yield np.array(v, t)
    for t in "fd":
        for v in (999999, 1e6, 1234567, 16777216, 1e7, 99999999, 1e8, 1e15, 1e16, 1.5e30, 1e-30, 123456.789):
            yield np.array(v, t)
            yield np.array([v, v / 3], t)
    for t in "bBilIL":
        yield np.arange(12).astype(t).reshape(3, 4)
        yield (np.arange(40) * 3).astype(t)
        yield np.array([np.iinfo(t).max, np.iinfo(t).min], t)
        yield np.array(7, t)
    yield np.array([[True, False], [True, True]])
    yield np.array([True, True])
    yield np.array(True)
    yield np.zeros((0, 3), "f")
    yield np.zeros((2, 1, 1, 2), "i")
    yield np.arange(1001, dtype="i")
    yield np.arange(1000, dtype="B") % 200
    yield np.arange(1200, dtype="i").reshape(30, 40)
    yield np.arange(1008, dtype="i").reshape(7, 12, 12)
    yield np.arange(1200, dtype="f").reshape(4, 300) / 8


def text(x, precision):
    """The text of an array in NumPy's layout, with commas and lowercase truth values."""
    how = {"floatmode": "unique"} if precision is None else {"floatmode": "maxprec", "precision": precision}
    if x.ndim == 0:
        return str(x[()]) if x.dtype.char != "?" else str(x[()]).lower()
    written = np.array2string(x, separator=", ", max_line_width=75, **how)
    written = re.sub(r"( +),", lambda spaces: "," + spaces[1], written)
    written = re.sub(r" +$", "", written, flags=re.M)
    return written.lower() if x.dtype.char == "?" else written


with open(Path(__file__).with_name("cases.txt"), "w") as out:
    with np.errstate(over="ignore"):
        for x in cases():
            bits = x if x.dtype.char == "?" else x.view(f"u{x.dtype.itemsize}")
            shape = "x".join(map(str, x.shape)) or "scalar"
            words = " ".join(f"{int(b):x}" for b in bits.ravel())
            for precision in [None] + [3] * (x.dtype.kind == "f" and x.ndim > 0):
                how = "all" if precision is None else precision
                print(f"{NAMES[x.dtype.char]} {shape} {how} {words}\n{text(x, precision)}\n--", file=out)
