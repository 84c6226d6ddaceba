"""Functions of NumPy, one by one, under `fuseloop.jit`; and what cannot be traced."""

from __future__ import annotations

import collections
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import _turned

Rng = np.random.Generator


def same(function: Callable[..., Any], *args: Any) -> fl.Jit[..., Any]:
    """Compiles a function, and compares it with itself run by NumPy, in types and shapes too."""
    compiled = fl.jit(function)
    with np.errstate(all="ignore"):
        expected = function(*args)
    _compare(compiled(*args), expected)
    return compiled


def _compare(actual: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            _compare(a, e)
        return
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.dtype == e.dtype, (a.dtype, e.dtype)
    assert a.shape == e.shape, (a.shape, e.shape)
    limit = {"e": 2e-3, "f": 2e-6}.get(e.dtype.char, 1e-12)
    np.testing.assert_allclose(a, e, rtol=limit, atol=limit)


FLOATS = "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh".split()


@pytest.mark.parametrize("name", [*FLOATS, "square", "reciprocal", "absolute", "fabs", "negative", "positive", "sign",
    "rint", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "signbit", "deg2rad", "rad2deg", "logical_not"])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_functions_of_one(name: str, dtype: Any, rng: Rng) -> None:
    ufunc = getattr(np, name)
    x = (rng.random(20) * 0.9 if np.dtype(dtype).kind == "f" else rng.integers(1, 4, 20)).astype(dtype)
    same(lambda x: ufunc(x), x)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "fmax", "fmin",
    "floor_divide", "remainder", "fmod", "arctan2",
    "hypot", "copysign", "logaddexp", "logaddexp2", "float_power", "heaviside", "less",
    "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_two_floats(name: str, dtype: Any, rng: Rng) -> None:
    ufunc = getattr(np, name)
    x, y = rng.normal(size=(4, 5)).astype(dtype), rng.normal(size=5).astype(dtype)
    x[0, 0], x[1, 1] = np.nan, 0
    x[2, 2] = y[2] = -np.inf
    if "power" in name:
        x, y = np.abs(x), np.abs(y)
    same(lambda x, y: ufunc(x, y), x, y)
    same(lambda x: ufunc(x, 1.5), x)
    same(lambda x: ufunc(2, x), x)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide", "remainder",
    "bitwise_and", "bitwise_or", "bitwise_xor", "less", "equal", "logical_and"])  # fmt: skip
@pytest.mark.parametrize("dtypes", [(np.int64, np.int64), (np.int32, np.int64), (np.uint8, np.uint8), (np.int8, np.int16)])
def test_functions_of_two_integers(name: str, dtypes: tuple[Any, Any], rng: Rng) -> None:
    ufunc = getattr(np, name)
    x = rng.integers(-100 if np.dtype(dtypes[0]).kind == "i" else 0, 100, (4, 5)).astype(dtypes[0])
    y = rng.integers(1, 100, 5).astype(dtypes[1])
    same(lambda x, y: ufunc(x, y), x, y)
    same(lambda x: ufunc(x, 3), x)


def test_truth_values(rng: Rng) -> None:
    a, b, x = rng.random(9) > 0.5, rng.random(9) > 0.5, rng.random(9)
    same(lambda a, b: (a & b, a | b, a ^ b, ~a, a + b, a * b, a == b), a, b)
    same(lambda a, x: (a * x, a + 1, a.sum(), a.mean(), a.astype(np.float32), x[0] * a), a, x)
    same(lambda a: (a.any(), a.all(), a.max(), np.count_nonzero(a)), a)


def test_types_follow_numpy(rng: Rng) -> None:
    f, i, u, h = rng.random(5).astype(np.float32), np.arange(5, dtype=np.int32), np.arange(5, dtype=np.uint8), np.ones(5, np.float16)
    same(lambda f, i: (f + i, f * 2, f * np.float64(2), i / 2, i * 2.5, f + 1j.real), f, i)
    same(lambda u, h: (u + 1, u * u, h * 2, h + u, h.sum(), u.sum(), u.mean(), u - 1), u, h)
    same(lambda f, a: (f * a, a * 2, f + a / 3), f, 0.1)
    same(lambda f: (f.astype(np.float64), f.astype(int), np.float64(f), f.astype("int16")), 100 * f)
    same(lambda f, k: f * k, f, np.float64(3))


def test_reductions(rng: Rng) -> None:
    x = rng.normal(size=(3, 4, 5))
    for f in (np.sum, np.mean, np.max, np.min, np.prod, np.var, np.std, np.ptp):
        for axis in (None, 0, 1, -1, (0, 2)):
            if f is np.ptp and isinstance(axis, tuple):
                continue
            same(lambda x: (f(x, axis=axis), f(x, axis=axis, keepdims=True)), x)
    same(lambda x: (np.var(x, ddof=1), np.std(x, axis=1, ddof=1), x.std(axis=0)), x)
    same(lambda x: (x.argmax(), x.argmin(axis=1), np.argmax(x, axis=-1, keepdims=True)), x)
    same(lambda x: (np.median(x), np.median(x, axis=1), np.quantile(x, 0.3, axis=0), np.percentile(x, [10, 50])), x)
    same(lambda x: (np.sum(x, where=x > 0), np.mean(x, axis=0, where=x > 0), np.max(x, initial=0)), x)
    same(lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.logical_or.reduce(x > 1)), x)
    same(lambda x: (np.cumsum(x), np.cumsum(x, axis=1), x.cumprod(axis=0), np.minimum.accumulate(x, axis=2)), x)
    same(lambda x: (np.nansum(x), np.nanmean(x, axis=0), np.nanmax(x, axis=1), np.nanstd(x)), np.where(x > 1, np.nan, x))
    same(lambda x: (np.average(x, axis=0), np.average(x, weights=np.abs(x))), x)


def test_order(rng: Rng) -> None:
    x, v = rng.normal(size=(4, 6)), rng.normal(size=9)
    same(lambda x: (np.sort(x), np.sort(x, axis=0), np.argsort(x, axis=1), np.sort(x, axis=None)), x)
    same(lambda v, x: (np.searchsorted(np.sort(v), x[0]), np.searchsorted(np.sort(v), v, side="right")), v, x)
    same(lambda v: np.digitize(v, [-1.0, 0.0, 1.0]), v)

    def sorted_in_place(v):
        w = v.copy()
        w.sort()
        return w

    same(sorted_in_place, v)


def test_shapes(rng: Rng) -> None:
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4, 5))
    same(lambda x: (x.reshape(4, 3), x.reshape(-1), x.reshape(2, -1), x.ravel(), x.T, x.flatten(), x[:, None].squeeze(1)), x)
    same(lambda x: (x.reshape(x.shape[1], x.shape[0]), np.expand_dims(x, 1), np.atleast_2d(x[0])), x)
    same(lambda y: (y.transpose(2, 0, 1), y.T, np.swapaxes(y, 0, 1), np.moveaxis(y, 0, -1), y.reshape(3, -1)), y)
    same(lambda x: (np.concatenate([x, x]), np.concatenate([x, x], axis=1), np.vstack([x, x[0]]), np.hstack([x, x])), x)
    same(lambda x: (np.stack([x, 2 * x]), np.stack([x, x], axis=-1), np.column_stack([x[:, 0], x[:, 1]])), x)
    same(lambda x: (np.flip(x), np.flip(x, 0), np.fliplr(x), np.roll(x, 1), np.roll(x, -2, axis=1), np.roll(x, (1, 1), (0, 1))), x)
    same(lambda x: (np.tile(x, 2), np.tile(x, (2, 1)), np.repeat(x, 3), np.repeat(x, 2, axis=0)), x)
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        same(lambda x: (np.pad(x, 1, mode=mode), np.pad(x, ((0, 2), (1, 0)), mode=mode)), x)
    same(lambda x: (np.pad(x, 2, constant_values=7), np.broadcast_to(x, (2, 3, 4)), np.append(x, 1.0), np.insert(x, 1, 5, axis=1)), x)
    same(lambda x: (np.diag(x[:, :3]), np.diag(x[0]), np.diag(x[0], 1), np.trace(x[:, :3]), np.tril(x), np.triu(x, 1)), x)
    same(lambda x: (np.diff(x), np.diff(x, axis=0), np.diff(x, n=2), np.diff(x[0], prepend=0)), x)
    same(lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1).mean(axis=-1), x)
    same(lambda x: np.meshgrid(x[0], x[:, 0]), x)
    same(lambda x: (np.gradient(x[0]), *np.gradient(x, 0.5)), x)


def test_subscripts(rng: Rng) -> None:
    x, y = rng.normal(size=(6, 7)), rng.normal(size=(3, 4, 5))
    same(lambda x: (x[0], x[-1], x[2, 3], x[-1, -2], x[1:], x[:-1], x[1:-1, 2:], x[::2], x[:, 1::3], x[..., 0]), x)
    same(lambda x: (x[::-1], x[:, ::-1], x[::-2, 1], x[4:1:-1], x[-3:], x[:, -2:]), x)
    same(lambda x: (x[None], x[:, None], x[..., None], x[1, None], x[:, np.newaxis, 0]), x)
    same(lambda y: (y[1], y[:, 1], y[:, :, 1], y[..., 1:3], y[0, ..., 0], y[1:, None, 2]), y)
    rows, columns = np.array([0, 2, 5]), np.array([[1, 2, 3], [4, 5, 0]])
    same(lambda x, r, c: (x[r], x[:, r], x[r, r], x[c, 0], x[r][:, r], x[1:][r - r], x[r[:, None], r]), x, rows, columns)
    same(lambda y, r: (y[:, r % 4, r % 5], y[r % 3, :, r % 5], y[0, r % 4]), y, rows)
    same(lambda x: (x[[0, 2]], x[:, [1, -1]], x[np.array([0, 1])], np.take(x, [0, 3], axis=1), x[np.arange(6), np.arange(6)]), x)
    same(lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), x)
    same(lambda x: x[np.argmax(x, axis=0), np.arange(x.shape[1])], x)
    same(lambda x: [row * 2 for row in (x[0], x[1])], x)
    same(lambda x: (x[x > 0].sum(), x[x > 0].mean(), np.sum(x[x > 1]), x[x < 0].max(), x[x > 0].size), x)


def test_assignments(rng: Rng) -> None:
    x = rng.normal(size=(6, 7))

    def borders(x):
        y = np.zeros_like(x)
        y[1:-1, 1:-1] = x[1:-1, 1:-1]
        y[0] = 1
        y[-1, :] = x[0]
        y[:, 0] = x[:, 1]
        y[2, 3] = 5
        return y

    same(borders, x)

    def steps(x):
        y = x.copy()
        y[::2] *= 2
        y[:, 1:] += y[:, :-1]
        y[::-1, 3] = np.arange(6)
        y[y > 1] = 1
        y[y < -1] += 0.5
        y -= y.mean()
        y /= 2
        return y

    same(steps, x)

    def aliases(x):
        y = x.copy()
        z = y
        z += 1
        v = y[1:3]
        v[:] = 0
        v += 2
        return y, z

    same(aliases, x)

    def rows(x):
        y = np.empty((x.shape[0], 2))
        y[:, 0] = x.sum(axis=1)
        y[:, 1] = x.max(axis=1)
        return y

    same(rows, x)

    def outputs(x):
        y = np.empty_like(x)
        np.exp(x, out=y)
        np.add(y, 1, out=y)
        return np.divide(1, y, out=np.zeros_like(y), where=y > 2)

    same(outputs, x)

    def keyed(k, w):
        h = np.zeros(4)
        np.add.at(h, k, w)
        return h, np.bincount(k, minlength=5), np.bincount(k, w, 4)

    same(keyed, np.array([0, 1, 1, 3]), np.array([1.0, 2.0, 3.0, 4.0]))


def test_products(rng: Rng) -> None:
    a, b, v, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=4), rng.normal(size=3)
    same(lambda a, b, v, w: (a @ b, a @ v, w @ a, v @ v, a.dot(b), np.dot(v, v), np.inner(v, v), np.outer(v, w)), a, b, v, w)
    same(lambda a, b: (np.einsum("ij,jk->ik", a, b), np.einsum("ij->j", a), np.einsum("ij,ij->", a, a), np.einsum("ij,jk", a, b)), a, b)
    same(lambda a, b: (np.tensordot(a, b, axes=1), np.tensordot(a, a, axes=([0, 1], [0, 1])), np.vdot(a, a)), a, b)
    same(lambda s: (s @ s, np.einsum("bij,bjk->bik", s, s), np.einsum("...ij->...ji", s), np.einsum("bii->b", s)), rng.normal(size=(2, 3, 3)))
    same(lambda a: (np.linalg.norm(a), np.linalg.norm(a, axis=1), np.linalg.norm(a[0], 1), np.linalg.norm(a[0], np.inf)), a)
    same(lambda a: a @ np.array([1.0, 2.0, 3.0, 4.0]), a)
    same(lambda i: (i @ i.T, i.astype(np.int32) @ i.astype(np.int32).T), np.arange(6).reshape(2, 3))
    same(lambda a: (np.cov(a), np.corrcoef(a), np.cov(a, rowvar=False)), a)


def test_others(rng: Rng) -> None:
    x, y = rng.normal(size=9), rng.normal(size=(3, 4))
    for mode in ("full", "same", "valid"):
        for width in (3, 4):
            same(lambda x, k: (np.convolve(x, k, mode), np.correlate(x, k, mode)), x, rng.normal(size=width))
    same(lambda x: np.convolve(x, np.ones(3) / 3, mode="valid"), x)
    same(lambda x: (np.where(x > 0, x, 0), np.where(x > 0, 1, 0), np.where(x > 0, 1.0, x), np.clip(x, -1, 1), x.clip(0)), x)
    same(lambda x: (np.round(x, 2), np.around(x), x.round(1)), x)
    same(lambda x: np.interp(x, np.array([-1.0, 0.0, 1.0]), np.array([3.0, 5.0, 4.0])), x)
    same(lambda x: (np.isclose(x, x + 1e-9), np.allclose(x, x), np.array_equal(x, x)), x)
    same(lambda x: np.nan_to_num(x), np.array([1, np.nan, np.inf, -np.inf]))
    same(lambda x: np.histogram(x, bins=5), x)
    same(lambda x: np.histogram(x, bins=np.array([-2.0, -1.0, 0.5, 3.0])), x)
    same(lambda x: (np.linspace(0, 1, x.size), np.arange(x.size), np.eye(x.size), np.ones(x.shape), np.full(x.size, 2.5)), x)
    same(lambda y: (np.arange(y.shape[0] - 1), np.arange(2, y.size), np.zeros((y.shape[1], 2), int), np.identity(y.shape[0])), y)
    same(lambda x: (np.array([x.sum(), x.max()]), np.asarray(x), np.array([[x[0], 1], [2, x[1]]])), x)
    same(lambda x: (len(x) * x, x / len(x), x * x.size**0.5, np.sqrt(len(x)), math.sqrt(x.size)), x)
    same(lambda x: (np.polyval([1.0, 2.0, 3.0], x), np.trapezoid(x), np.kron(x[:2], x[:3]), np.cross(x[:3], x[3:6])), x)
    same(lambda x: np.fromfunction(lambda i, j: i + j, (x.size, 3)), x)


def test_scipy(rng: Rng) -> None:
    special = pytest.importorskip("scipy.special")
    x = rng.random(9)
    same(lambda x: (special.erf(x), special.expit(x), special.gammaln(x), special.ndtr(x), special.xlogy(x, x)), x)


def test_python_around_arrays(rng: Rng) -> None:
    x = rng.normal(size=(4, 5))
    Pair = collections.namedtuple("Pair", "low high")

    def helper(x, scale=2):
        return x * scale if scale > 1 else x

    @fl.jit
    def inner(x):
        return x + 1

    def outer(x, times=3, *, name="sum", **options):
        for _ in range(times):
            x = helper(x) if times < 5 else x
        if name == "sum":
            return {"total": x.sum(), "pair": Pair(x.min(), [x.max(), inner(x)]), "n": options["k"]}
        return x

    same(lambda x: outer(x, k=3), x)
    compiled = fl.jit(outer)
    result = compiled(x, k=4)
    assert isinstance(result["pair"], Pair) and result["n"] == 4
    np.testing.assert_allclose(result["total"], 8 * x.sum())
    same(lambda pair, parts: pair[0] * parts["w"] + pair[1], (x, 2.0), {"w": x})


def test_functions_as_arguments(rng: Rng) -> None:
    def ramp(x):
        return x * np.arange(len(x))

    same(lambda x, f: f(x) + 1, rng.random(5), ramp)
    same(lambda x, fs: fs[0](x) + fs[1](x), rng.random(5), (ramp, np.sin))


def test_one_trace_for_all_sizes(rng: Rng) -> None:
    calls = []

    @fl.jit
    def f(x, y):
        calls.append(1)
        return x + y

    for n in (2, 3, 100):
        f(rng.random((n, 5)), rng.random(5))
    assert len(calls) == 1
    f(rng.random((4, 5)).astype(np.float32), rng.random(5).astype(np.float32))
    f(rng.random((4, 1)), rng.random(5))  # an axis of length 1 is broadcast
    f(rng.random(5), rng.random(5))
    assert len(calls) == 4
    with pytest.raises(fl.Error, match="E02"):
        f(rng.random((4, 6)), rng.random(5))
    assert f.source == "fn f(x: f64[n, m], y: f64[m]) {\n    x + y\n}\n"


def test_sizes_that_decide(rng: Rng) -> None:
    calls = []

    @fl.jit
    def f(x):
        calls.append(1)
        return x.sum() if x.shape[0] > 10 else x.max()

    for n in (3, 4, 20, 30, 5):
        x = rng.random(n)
        np.testing.assert_allclose(f(x), x.sum() if n > 10 else x.max())
    assert len(calls) == 2


FACTOR = 2.0
TABLE = np.array([1.0, 2.0, 3.0])


def test_names_from_outside() -> None:
    global FACTOR, TABLE
    bias = 1.0

    @fl.jit
    def f(x):
        return x * FACTOR + TABLE + bias

    x = np.ones(3)
    np.testing.assert_array_equal(f(x), [4, 5, 6])
    TABLE[0] = 10.0  # arrays are arguments: what is in them counts
    np.testing.assert_array_equal(f(x), [13, 5, 6])
    FACTOR, TABLE, bias = 3.0, np.zeros(3), 2.0
    np.testing.assert_array_equal(f(x), [5, 5, 5])
    FACTOR, TABLE = 2.0, np.array([1.0, 2.0, 3.0])


def test_out_and_threads(rng: Rng) -> None:
    x, out = rng.random((50, 60)), np.zeros((50, 60))
    double = fl.jit(lambda x: 2 * x)
    assert double(x, out=out, threads=1) is out
    np.testing.assert_array_equal(out, 2 * x)


def test_calls_from_threads(rng: Rng) -> None:
    f = fl.jit(lambda x: (x - x.mean()) / x.std())
    xs = [rng.random((k + 2,) * (1 + k % 2)) for k in range(8)]
    results: list[Any] = [None] * 8

    def work(k: int) -> None:
        results[k] = f(xs[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(xs, results, strict=True):
        np.testing.assert_allclose(y, (x - x.mean()) / x.std())


@fl.jit
def module_level(x: Any) -> Any:
    """Doubles."""
    return 2 * x


def test_a_jit_is_like_its_function() -> None:
    assert module_level.__name__ == "module_level" and module_level.__doc__ == "Doubles."
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert module_level.trace(np.ones(3)) == "fn module_level(x: f64[n]) {\n    2.0 * x\n}\n"
    assert "kernel" in str(module_level.explain()) and "f64[n]" in module_level.signature
    fresh = fl.jit(lambda x: x)
    with pytest.raises(fl.Error, match="has not been traced"):
        _ = fresh.source

    class Model:
        scale = 3.0

        @fl.jit
        def call(self, x):
            return x * 2

    np.testing.assert_array_equal(Model().call(np.ones(2)), [2, 2])


def test_torch(rng: Rng) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(rng.random((3, 4)))
    y = fl.jit(lambda x: np.exp(x) / np.exp(x).sum(axis=0))(x)
    assert isinstance(y, torch.Tensor) and torch.allclose(y, torch.softmax(x, 0))


def _line(function: Callable[..., Any], offset: int) -> str:
    return f"test_jit.py:{function.__code__.co_firstlineno + offset}, in {function.__name__}"


def refused(function: Callable[..., Any], message: str, *args: Any, offset: int = 1) -> None:
    """Code that cannot be traced is an error that names its line."""
    with pytest.raises(fl.Error) as caught:
        fl.jit(function)(*args)
    assert message in str(caught.value), caught.value
    assert _line(function, offset) in str(caught.value), caught.value


def test_what_cannot_be_traced(rng: Rng) -> None:
    x = rng.normal(size=(4, 4))

    def condition(x):
        return x if x.sum() > 0 else -x

    refused(condition, "an `if` or `while` that depends on elements", x)

    def loop(x):
        return sum(row for row in x)

    with pytest.raises(fl.Error, match="a loop over an axis"):
        fl.jit(loop)(x)

    def counted(x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    refused(counted, "is needed as a number", x)

    def decomposition(x):
        return np.linalg.svd(x)

    refused(decomposition, "`np.linalg.svd` cannot be traced", x)

    def number(x):
        return float(x.sum()) * x

    refused(number, "a number that depends on elements", x)

    def mask(x):
        return np.cumsum(x[x > 0])

    refused(mask, "the number of elements for which a condition holds", x)

    def returned(x):
        return x[x > 0]

    refused(returned, "the number of elements for which a condition holds", x)

    def changed(x):
        x += 1
        return x

    refused(changed, "the argument `x` would be changed in place", x)

    def stale(x):
        y = x.copy()
        v = y[1:]
        y[0] = 1
        return v + 1

    refused(stale, "this view shows an array that was changed", x, offset=4)

    def drawn(x):
        return x + np.random.normal(size=4)

    refused(drawn, "random numbers cannot be traced", x)

    def complexes(x):
        return x * 1j

    refused(complexes, "complex", x)

    def elsewhere(x):
        y = np.zeros(3)
        TABLE[:] = x[0, :3]
        return y

    refused(elsewhere, "the argument `TABLE` would be changed in place", x, offset=2)

    def outside(x):
        return x[:10]

    refused(outside, "the slice ends outside", x)

    def nothing(x):
        pass

    with pytest.raises(fl.Error, match="NoneType"):
        fl.jit(nothing)(x)
    with pytest.raises(fl.Error, match="random numbers cannot be traced"):
        fl.jit(lambda rng: rng.random(3))(rng)
    with pytest.raises(fl.Error, match="elements of type complex128"):
        fl.jit(lambda x: x)(x.astype(complex))
    with pytest.raises(TypeError, match="written in Python"):
        fl.jit(np.sum)
    with pytest.raises(ValueError, match="broadcast"):
        fl.jit(lambda x, y: x + y)(x, np.ones(3))


def test_numpy_never_runs_in_its_place(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every elementwise loop of NumPy out of order, a compiled function still computes."""
    x = rng.random(100)
    f = fl.jit(lambda x: np.exp(x).sum())
    expected = f(x)

    def broken(*_: Any, **__: Any) -> Any:
        raise AssertionError("NumPy ran")

    monkeypatch.setattr(np, "exp", broken)
    monkeypatch.setattr(np, "sum", broken)
    assert f(x) == expected


def test_every_slice(rng: Rng) -> None:
    """Slices with all kinds of ends and steps, where one trace serves several lengths."""
    ends = (None, 0, 1, 3, -1, -2)
    for start in ends:
        for stop in ends:
            for step in (1, 2, 3, -1, -2):
                f = fl.jit(lambda x, s=slice(start, stop, step): x[s] * 2)
                for n in (7, 8, 9, 10):
                    x = rng.random(n)
                    try:
                        result = f(x)
                    except fl.Error as error:
                        assert "slice" in str(error) or error.code is not None
                        continue
                    np.testing.assert_array_equal(result, x[start:stop:step] * 2, f"{start}:{stop}:{step} of {n}")


def test_arrays_in_another_order_are_not_copied(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_turned, "SMALL", 0)
    f = fl.jit(lambda x, y: x * 2 + y)
    a, b = rng.random((3, 4)), rng.random((4, 3, 5))
    np.testing.assert_array_equal(f(a.T, a.T), 3 * a.T)
    np.testing.assert_array_equal(f(np.asfortranarray(a), a), 3 * a)
    for order in ((1, 0, 2), (2, 0, 1), (2, 1, 0), (0, 2, 1)):
        np.testing.assert_array_equal(f(b.transpose(order), 1.0), 2 * b.transpose(order) + 1)
    for other in (a[:, ::2], a[::-1], a[:, 1:]):
        np.testing.assert_array_equal(f(other, 1.0), 2 * other + 1)


TURNED = np.arange(6.0).reshape(2, 3).T
GAPS = np.arange(12.0).reshape(3, 4)[:, ::2]
PARTS = {"w": np.array([1.0, 2.0, 3.0]), "b": [np.array(0.5)]}
GENERATOR = np.random.default_rng(1)


def test_arrays_from_outside_are_arguments() -> None:
    @fl.jit
    def f(x):
        scaled = TABLE * 2  # computed at each call, not when it is traced
        return x @ TURNED, x @ GAPS, x * scaled, x * PARTS["w"] + PARTS["b"][0]

    x = np.ones(3)
    for _ in range(2):
        _compare(f(x), (x @ TURNED, x @ GAPS, x * TABLE * 2, x * PARTS["w"] + PARTS["b"][0]))
        TABLE[1] += 1
        TURNED[0] += 1
        GAPS[0] += 1
        PARTS["w"][0] += 1
        PARTS["b"][0][()] += 1
    TABLE[:] = [1, 2, 3]

    @fl.jit
    def changed(x):
        k = np.array([1.0, 2.0, 3.0])
        y = x * k
        k[0] = 5
        return y + k

    np.testing.assert_array_equal(changed(x), [6, 4, 6])

    @fl.jit
    def half(x):
        k = np.array([1.0, 2.0, 3.0]) / 2
        y = x * k
        k[0] = 5
        return y + k

    with pytest.raises(fl.Error, match="changed afterwards"):
        half(x)


def test_random_numbers_are_refused() -> None:
    import random

    from numpy.random import normal

    for draw in (
        lambda x: x + GENERATOR.random(3),
        lambda x: x + random.random(),
        lambda x: x + normal(size=3),
        lambda x: x + np.random.default_rng(1).random(3),
    ):
        with pytest.raises(fl.Error, match="random numbers cannot be traced"):
            fl.jit(draw)(np.ones(3))


def test_arguments_with_the_names_of_options() -> None:
    @fl.jit
    def f(x, out=1.0, threads=2):
        return x * out * threads

    np.testing.assert_array_equal(f(np.ones(2), out=3.0, threads=4), [12, 12])
    np.testing.assert_array_equal(f(np.ones(2)), [2, 2])


def test_too_many_traces_are_a_warning() -> None:
    f = fl.jit(lambda x, k: x + k)
    with pytest.warns(RuntimeWarning, match="has been traced 50 times"):
        for k in range(50):
            f(np.ones(2), k)
    g = fl.jit(lambda x, k: x + k)
    for k in range(3):
        np.testing.assert_array_equal(g(np.ones(2), np.int64(k)), [1 + k, 1 + k])
    assert len(g._known) == 1


def test_errors_of_a_call_name_the_line_of_python(rng: Rng) -> None:
    def taken(x, at):
        y = x * 2 + np.exp(x) * np.sin(x) + np.cos(x) * np.tanh(x) + np.sqrt(np.abs(x)) * np.log1p(np.abs(x)) + 1
        z = y[at]
        return z * 2

    compiled = fl.jit(taken)
    with pytest.raises(fl.Error) as caught:
        compiled(rng.random(3), np.array([0, 5]))
    error = caught.value
    assert error.code == "E0220" and error.notes[0].endswith(_line(taken, 2)), error
    assert "z = y[at]" in str(error) and "subscript 5 is outside" in str(error)
    with pytest.raises(fl.Error) as caught:
        fl.jit(lambda x, y: x + y)(rng.random(3), rng.random((1, 2, 3)))
        fl.jit(lambda x, y: x[1:] + y)(rng.random(1), rng.random(0))
    assert "test_jit.py" in str(caught.value)
