"""Functions over Dask arrays: the same bits as in one call, for any blocks and any workers."""

from __future__ import annotations

import doctest
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import fuseloop as fl
import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask's arrays are not installed")

import fuseloop.dask  # noqa: E402

F32 = np.float32


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(scope="module")
def module() -> fl.Module:
    return fl.compile("""
fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}
fn rows(x: f32[n, m]) -> f32[n, m] {
    let y[i] = softmax(x[i])
    y
}
fn black_scholes(s: f32[n], k: f32[n], t: f32[n], r: f32, v: f32) {
    let d1 = (log(s / k) + (r + v * v / 2) * t) / (v * sqrt(t))
    let d2 = d1 - v * sqrt(t)
    let call = s * 0.5 * (1 + erf(d1 / sqrt(2))) - k * exp(-r * t) * 0.5 * (1 + erf(d2 / sqrt(2)))
    (call, call - s + k * exp(-r * t))
}
fn noise(x: f64[n, m], seed: i64) {
    let y[i, j] = x[i, j] + uniform(seed, i, j) * f64(i - j) / f64(n)
    y
}
fn blur(x: f32[n, m]) {
    let y[i, j] = sum[r < 3, s < 3](x[i + r, j + s]) / 9
    y
}
fn convolved(x: f32[n], k: f32[w]) {
    let y[i] = sum[r < w](k[r] * x[i + r])
    y
}
fn twice(x: f32[n]) {
    let y[i < n] = if i > 0 then x[i - 1] else 0
    let z[i < n] = y[i] + (if i + 2 < n then y[i + 2] else 1) + f32(i)
    (y, z)
}
fn total(x: f64[n]) = sum(x)
fn product(x: f32[n]) = prod(x)
fn of_all(x: f64[n, m]) = sum(x)
fn normal(x: f64[n, m]) = (x - mean(x, axis = 0)) / std(x, axis = 0)
fn best(x: f32[n]) -> (i: i64, j: i64, lo: f32, hi: f32, over: bool) = (argmax(x), argmin(x), min(x), max(x), any(x > 1))
fn centers(x: f32[n, d], label: i64[n], k: i64) -> f32[k, d] {
    let center[c < k, j] = mean[i where label[i] == c](x[i, j])
    center
}
fn kmeans(x: f32[n, d], center: f32[k, d]) -> f32[k, d] {
    let far[i, c] = sum[j]((x[i, j] - center[c, j]) ^ 2)
    let label = argmin(far, axis = 1)
    let next[c < k, j] = mean[i where label[i] == c](x[i, j])
    next
}
fn sums(x: f32[n, m]) {
    let along[i, j] = sum[k <= j](x[i, k])
    let before[i, j] = sum[k < i](x[k, j])
    (along, before)
}
fn moving(x: f64[n]) {
    let c[i] = sum[k < i](x[k] * x[k])
    let y[i] = (c[i + 5] - c[i]) / sum(x)
    y
}
fn record(x: f32[n]) {
    let most[i] = max[k <= i](x[k])
    most
}
fn smoothed(x: f64[n, m], a: f64) {
    let rec y[t < n, j < m] = if t == 0 then x[t, j] else a * x[t, j] + (1 - a) * y[t - 1, j]
    y
}
fn escape(c: f32[n]) -> i32[n] {
    let (_, k)[i] = loop z = 0, k = i32(0) while z * z < 4 && k < 50 { (z * z + c[i], k + 1) }
    k
}
""")


def random_blocks(rng: np.random.Generator, length: int) -> tuple[int, ...]:
    """Lengths that add up to a length; some may be 0."""
    cuts = np.sort(rng.integers(0, length + 1, rng.integers(0, 6)))
    return tuple(int(n) for n in np.diff([0, *cuts, length]))


def lazy(rng: np.random.Generator, array: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    chunks = tuple(random_blocks(rng, n) if axis in axes else n for axis, n in enumerate(array.shape))
    return da.from_array(array, chunks=chunks)


def applied(function: Any, *args: Any) -> Any:
    """The results on Dask arrays, whatever their cuts."""
    with warnings.catch_warnings(action="ignore"):
        return fl.dask.apply(function, *args)


def hold_equal(got: Any, expected: Any) -> None:
    pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
    for lazy_one, one in pairs:
        computed = np.asarray(lazy_one.compute())
        assert (computed.shape, computed.dtype) == (np.shape(one), one.dtype) == (lazy_one.shape, lazy_one.dtype)
        assert computed.tobytes() == np.asarray(one).tobytes()


#: A function, and for each argument its shape and the axes that are cut, or the argument itself.
CASES: list[tuple[str, list[Any]]] = [
    ("rows", [((37, 23), (0, 1))]),
    ("rows", [((5, 20_000), (1,))]),
    ("black_scholes", [((1000,), (0,)), ((1000,), (0,)), ((1000,), (0,)), 0.05, 0.2]),
    ("noise", [((40, 30), (0, 1)), 7]),
    ("blur", [((37, 23), (0, 1))]),
    ("convolved", [((500,), (0,)), ((9,), ())]),
    ("twice", [((50,), (0,))]),
    ("total", [((50_000,), (0,))]),
    ("total", [((3,), (0,))]),
    ("product", [((9000,), (0,))]),
    ("of_all", [((531, 1000), (0,))]),
    ("normal", [((3000, 7), (0, 1))]),
    ("best", [((3000,), (0,))]),
    ("kmeans", [((20_000, 3), (0,)), ((5, 3), ())]),
    ("sums", [((9000, 5), (0, 1))]),
    ("sums", [((5, 9000), (0, 1))]),
    ("sums", [((4096, 2), (0,))]),
    ("moving", [((20_000,), (0,))]),
    ("record", [((500,), (0,))]),
    ("smoothed", [((20, 30), (1,)), 0.3]),
    ("escape", [((300,), (0,))]),
]


@pytest.mark.parametrize(("name", "given"), CASES, ids=[f"{name}-{k}" for k, (name, _) in enumerate(CASES)])
def test_any_blocks_give_the_same_bits(module: fl.Module, rng: np.random.Generator, name: str, given: list[Any]) -> None:
    function = module[name]
    for _ in range(12):
        args, cut = [], []
        for param, one in zip(function.params, given, strict=True):
            if isinstance(one, tuple):
                array = rng.uniform(0.5, 1.5, one[0]).astype(F32 if param.startswith("f32") else np.float64)
                args.append(array)
                cut.append(lazy(rng, array, one[1]) if one[1] else array)
            else:
                args.append(one)
                cut.append(one)
        hold_equal(applied(function, *cut), function(*args))


def test_tables_by_key(module: fl.Module, rng: np.random.Generator) -> None:
    x, label = rng.random((50_000, 3), F32), rng.integers(-1, 2000, 50_000)
    for keys in (7, 1500):
        for _ in range(5):
            cut = applied(module.centers, lazy(rng, x, (0, 1)), lazy(rng, label, (0,)), keys)
            expected = module.centers(x, label, keys)
            assert np.array_equal(cut.compute(), expected, equal_nan=True)


def test_nan_and_ties(module: fl.Module, rng: np.random.Generator) -> None:
    for values in ([1, 3, 3, 0, 0, 3], [1, np.nan, 3, np.nan, 0], [-0.0, 0.0, 0.0, -0.0], [-np.inf] * 4):
        x = np.array(values, F32)
        for _ in range(6):
            hold_equal(applied(module.best, lazy(rng, x, (0,)))[:2], tuple(module.best(x))[:2])


def test_products_agree_to_rounding(rng: np.random.Generator) -> None:
    product = fl.compile("fn product(a: f32[n, k], b: f32[k, m]) = a @ b").product
    a, b = rng.random((30, 9000), F32), rng.random((9000, 20), F32)
    expected = product(a, b)
    for _ in range(5):
        got = applied(product, lazy(rng, a, (0, 1)), lazy(rng, b, (1,)))
        assert np.allclose(got.compute(), expected, rtol=1e-5)
    # The sum over the cut axis is added in pieces of its own, which are the same for any blocks.
    cut = [applied(product, da.from_array(a, chunks=(30, n)), b).compute() for n in (9000 // 2, 1000)]
    assert cut[0].tobytes() == cut[1].tobytes()


def test_a_cut_elsewhere_warns(module: fl.Module) -> None:
    with pytest.warns(fl.dask.CutWarning, match="blocks of a multiple of 4096"):
        fl.dask.apply(module.total, da.ones(10_000, chunks=5000))
    with warnings.catch_warnings(action="error"):
        fl.dask.apply(module.total, da.ones(10_000, chunks=4096))


def test_jit(rng: np.random.Generator) -> None:
    @fl.jit
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    x = rng.random((50, 40))
    hold_equal(applied(softmax, lazy(rng, x, (0, 1))), softmax(x))


REFUSED = [
    ("fn f(x: f32[n]) = sort(x)", r"axis 0 of `x` has 2 blocks and cannot be cut: `sort\(x\)` sorts along it"),
    ("fn f(x: f32[n]) { let c[i] = argmax[k <= i](x[k])\n c }", "numbers the elements of a prefix"),
    ("fn f(x: f32[n]) = x[::2]", "reads it in steps, backwards"),
    ("fn f(x: f32[n]) { let y[i, j] = x[i] - x[j]\n y }", "give the array to two parameters"),
    ("fn f(x: f32[n]) { let rec y[i < n] = if i == 0 then 0 else y[i - 1] + x[i]\n y }", "each element depends on earlier"),
    ("fn f(x: f32[n]) = loop y = x, t < 3 { y / sum(y) }", "every step of its loop needs a value of all blocks"),
    ("fn f(x: f32[n]) = x[0] + x", "is one place of it"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_what_cannot_be_cut_says_why(source: str, message: str) -> None:
    function = fl.compile(source).f
    with pytest.raises(fl.Error, match=message) as error:
        fl.dask.apply(function, da.ones(10, chunks=5, dtype=F32))
    assert "rechunk({0: -1})" in str(error.value)
    whole = fl.dask.apply(function, da.ones(10, chunks=10, dtype=F32))
    assert np.array_equal(whole.compute(), function(np.ones(10, F32)))


def test_the_guide() -> None:
    page = pathlib.Path(__file__).parents[1] / "docs/dask.md"
    assert doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS).failed == 0


def test_errors_of_a_call(module: fl.Module) -> None:
    with pytest.raises(fl.Error, match="has elements of type f64, the array given has f32"):
        fl.dask.apply(module.total, da.ones(10, dtype=F32))
    with pytest.raises(fl.Error, match="the array given has 2 axes"):
        fl.dask.apply(module.total, da.ones((10, 2)))
    with pytest.raises(TypeError, match="takes x"):
        fl.dask.apply(module.total)
    unknown = da.ones(10)
    with pytest.raises(fl.Error, match="blocks of unknown length"):
        fl.dask.apply(module.total, unknown[unknown > 0])
    with pytest.raises(fl.Error, match="E0204"):
        added = fl.compile("fn f(x: f32[n], y: f32[n]) = x + y").f
        fl.dask.apply(added, da.ones(10, dtype=F32), da.ones(11, dtype=F32))
