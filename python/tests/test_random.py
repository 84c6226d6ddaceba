"""Random functions of NumPy under `fuseloop.jit`: the same values, types and shapes, or an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseloop as fl

Step = Callable[[list[Any], Any], Any]
DTYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_)


def _steps(choose: np.random.Generator) -> list[Callable[[Any, Any], Any]]:
    """A few operations, each of two arrays; the second may be left aside."""
    unary = [np.sqrt, np.exp, np.tanh, np.negative, np.abs, np.floor, np.square, np.sign, np.isfinite, np.logical_not]
    binary = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.remainder, np.floor_divide,
              np.less, np.equal, np.logical_and, np.arctan2]  # fmt: skip
    reducers = [np.sum, np.mean, np.max, np.min, np.any, np.all, np.argmax, np.var]
    number = [2, 0.5, -1, 3.0, True, np.float32(1.5), np.int64(4)][choose.integers(7)]
    u, b, r = (table[choose.integers(len(table))] for table in (unary, binary, reducers))
    axis = [None, 0, -1][choose.integers(3)]
    start, stop, by = (int(choose.integers(0, 2)), [None, -1, 2][choose.integers(3)], int(choose.choice([1, 1, 2, -1])))
    if by < 0:
        start, stop = [(None, None), (-1, 0)][choose.integers(2)]  # type: ignore[assignment]
    cut = (slice(None),) * int(choose.integers(0, 2)) + (slice(start, stop, by),)

    def assigned(x: Any, y: Any) -> Any:
        if not x.ndim:
            return x  # numbers of NumPy cannot be changed
        z = x.copy()
        z[cut if x.ndim >= len(cut) else ...] = number
        return z

    def added(x: Any, y: Any) -> Any:
        if not x.ndim:
            return x
        z = x * 1.0
        z[cut if x.ndim >= len(cut) else ...] += 2
        z[z > 1] *= 2
        return z

    table: list[Callable[[Any, Any], Any]] = [
        lambda x, y: u(x),
        lambda x, y: b(x, y),
        lambda x, y: b(x, number),
        lambda x, y: b(number, x),
        lambda x, y: r(x, axis=axis if x.ndim else None),
        lambda x, y: x - r(x, axis=axis if x.ndim else None, keepdims=True),
        lambda x, y: x[cut] if x.ndim >= len(cut) else x,
        lambda x, y: x.T,
        lambda x, y: np.where(x > 0, x, y),
        lambda x, y: np.where(x > number, 1, x),
        lambda x, y: np.concatenate([x, x], axis=-1) if x.ndim else x,
        lambda x, y: np.stack([x, x + 1]),
        lambda x, y: x.reshape(-1),
        lambda x, y: np.cumsum(x, axis=0) if x.ndim else x,
        lambda x, y: np.sort(x, axis=-1) if x.ndim else x,
        lambda x, y: np.flip(x),
        lambda x, y: np.roll(x, 1),
        lambda x, y: x[..., None] * y if x.ndim < 3 else x,
        lambda x, y: x[np.argsort(x, axis=0)[0]] if x.ndim == 1 else x,
        lambda x, y: x.astype(np.float32),
        lambda x, y: np.clip(x, 0, 2),
        lambda x, y: x @ x.T if x.ndim == 2 and x.dtype != bool else x,
        assigned,
        added,
    ]
    return [table[k] for k in choose.integers(0, len(table), int(choose.integers(1, 5)))]


def _more_steps(choose: np.random.Generator) -> list[Callable[[Any, Any], Any]]:
    """Operations that move elements, or that need an array rather than a number."""

    def between(low: int, high: int) -> int:
        return int(choose.integers(low, high))

    mode, axis, shift, row = between(0, 3), between(-1, 1), between(-2, 3), between(-1, 2)
    number, times, numbers = [2.0, 0.5, -1.5][between(0, 3)], between(1, 3), np.array([0, 2, 1, 1])
    reducer = [np.sum, np.mean, np.max, np.argmin, np.median, np.std][between(0, 6)]

    def rows(x: Any, y: Any) -> Any:
        z = x.copy()
        if z.ndim == 2:
            z[row] = y if y.shape == z.shape[1:] else 1.0
            z[:, 1] += z[:, 0]
        else:
            z[1:] = z[:-1] * number
        return z

    def alias(x: Any, y: Any) -> Any:
        z = x * 1.0
        view = z[1:]
        view *= 2
        view -= 1
        return z

    def masks(x: Any, y: Any) -> Any:
        z = x.copy()
        z[z > number] = number
        z[z < 0] *= -1
        return z + x[x > 0].sum()

    table: dict[int, list[Callable[[Any, Any], Any]]] = {
        1: [
            lambda x, y: np.einsum("i,i->", x, x),
            lambda x, y: np.outer(x, y),
            lambda x, y: np.convolve(x, [1.0, 2.0, 0.5], ["full", "same", "valid"][mode]),
        ],
        2: [
            lambda x, y: np.einsum("ij,kj->ik", x, x),
            lambda x, y: x[:, numbers],
            lambda x, y: x[numbers, numbers],
            lambda x, y: np.tril(x, shift),
        ],
        0: [
            rows,
            alias,
            masks,
            lambda x, y: x[numbers],
            lambda x, y: np.tile(x, times),
            lambda x, y: np.repeat(x, times, axis=axis),
            lambda x, y: np.pad(x, times, mode=["constant", "edge", "reflect"][mode]),
            lambda x, y: np.roll(x, shift, axis=axis),
            lambda x, y: np.roll(x, shift),
            lambda x, y: np.diff(x, axis=axis),
            lambda x, y: np.take_along_axis(x, np.argsort(x, axis=axis), axis=axis),
            lambda x, y: np.vstack([x, x]),
            lambda x, y: np.moveaxis(x, 0, -1),
            lambda x, y: x.reshape(x.shape + (1,)) if x.ndim < 3 else np.squeeze(x),
            lambda x, y: x.reshape(x.shape[::-1]),
            lambda x, y: np.linalg.norm(x, axis=axis),
            lambda x, y: reducer(x, axis=axis),
            lambda x, y: np.quantile(x, 0.3, axis=axis),
            lambda x, y: np.arange(x.shape[0]) * 1.0 + x.sum(),
            lambda x, y: x / len(x),
            lambda x, y: np.eye(x.shape[0]) * x[0].sum(),
            lambda x, y: np.interp(x, [-1.0, 0.0, 1.0], [0.0, 2.0, 1.0]),
            lambda x, y: np.where(np.arange(x.shape[-1]) % 2 == 0, x, -x),
            lambda x, y: np.histogram(x, bins=4, range=(-2, 2))[0] * 1.0,
        ],
    }

    def step(rank: int, number: int) -> Callable[[Any, Any], Any]:
        chosen = table[rank][number % len(table[rank])]

        def run(x: Any, y: Any) -> Any:
            return chosen(x, y) if x.ndim and rank in (0, x.ndim) else x

        return run

    return [step(between(0, 3) if between(0, 2) else 0, between(0, 1000)) for _ in range(between(1, 5))]


def _run(function: Any, *args: Any) -> tuple[Any, Exception | None]:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*args), None
    except Exception as error:
        return None, error


@pytest.mark.parametrize(("table", "first"), [(_steps, 0), (_more_steps, 1000)])
def test_random_functions(table: Any, first: int) -> None:
    compared = refused = 0
    for seed in range(first, first + 250):
        choose = np.random.default_rng(seed)
        steps = table(choose)

        def function(x: Any, y: Any, steps: Any = steps) -> Any:
            for step in steps:
                x = step(x, y)
            return x

        compiled = fl.jit(function)
        rank = int(choose.integers(1, 3))
        dtypes = [DTYPES[choose.integers(len(DTYPES))] for _ in range(2)]
        for size in (4, 5):
            shape = (size, size + 1)[:rank]
            x = (choose.integers(-3, 4, shape) + 0.25).astype(dtypes[0])
            y = (choose.integers(-2, 5, shape[rank - 1 :])).astype(dtypes[1])
            expected, failure = _run(function, x, y)
            actual, error = _run(compiled, x, y)
            if failure is not None:
                assert error is not None, (seed, failure, actual)
                continue
            if error is not None:
                assert isinstance(error, fl.Error), (seed, error)
                refused += 1
                continue
            compared += 1
            assert np.asarray(actual).dtype == np.asarray(expected).dtype, (seed, compiled.source)
            assert np.shape(actual) == np.shape(expected), (seed, compiled.source)
            loose = np.asarray(expected).dtype == np.float32
            limit = 1e-4 if loose else 1e-9
            np.testing.assert_allclose(actual, expected, rtol=limit, atol=limit, err_msg=f"{seed}: {compiled.source}")
    assert compared > 300 and refused < 40, (compared, refused)
