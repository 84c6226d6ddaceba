"""Views of NumPy arrays as arguments and as memory for results."""

from __future__ import annotations

import random
from typing import Any

import fuseloop as fl
import numpy as np
import pytest
from fuseloop import _turned

MODULE = fl.compile("""
fn rows(x: f64[n, m], y: f64[m]) -> (sums: f64[n], shifted: f64[n, m]) = (x @ y, x + y)
fn deep(x: float[n, m, k], by: float) = x * by
fn image(x: u8[h, w, 3]) = 255 - x
fn pairs(x: f64[2 * n, m]) = x + 1
fn plus(x: f64[n]) = x + 1
fn given(n: i64, x: f64[n]) = x + f64(n)
fn long(x: f64[n]) where n >= 4 = x + 1
fn flags(x: bool[n]) = !x
""")


@pytest.fixture(params=["copied", "as they lie"])
def through(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call with gaps went without a copy. Small arrays are copied."""
    went: list[bool] = []
    original = _turned._through

    def noted(*args: Any) -> Any:
        result = original(*args)
        went.append(result is not None)
        return result

    monkeypatch.setattr(_turned, "_through", noted)
    monkeypatch.setattr(_turned, "_MANY", 10_000)
    monkeypatch.setattr(_turned, "SMALL", 0 if request.param == "as they lie" else 1 << 40)
    return went


def test_every_view(rng: np.random.Generator, through: list[bool]) -> None:
    x = rng.random((9, 10, 11))
    draw = random.Random(1)
    kinds = [
        slice(None),
        slice(1, None),
        slice(None, -1),
        slice(2, -2),
        slice(None, None, 2),
        slice(1, None, 3),
        slice(None, None, -1),
        slice(-2, 1, -2),
        slice(3, 4),
        slice(0, 0),
    ]
    for _ in range(300):
        view = x[tuple(draw.choices(kinds, k=3))].transpose(draw.sample(range(3), 3))
        if len(view) and draw.random() < 0.2:
            view = np.broadcast_to(view[:1], (5, *view.shape[1:]))
        np.testing.assert_array_equal(MODULE.deep(view, 2.0), 2 * view)
    if _turned.SMALL == 0:
        assert through.count(True) > 150


def test_several_views(rng: np.random.Generator, through: list[bool]) -> None:
    x = rng.random((10, 12))
    for view in (x[::2], x[:, ::2], x[::-1], x[:, ::-1], x.T[1:, 1:], x[3:7, 2:9], x[:, :1], x[2:3, ::3]):
        y = rng.random(2 * view.shape[1])[::-2]
        result = MODULE.rows(view, y=y)
        assert type(result).__name__ == "rows"
        np.testing.assert_allclose(result.sums, view @ y)
        np.testing.assert_array_equal(result.shifted, view + y)


def test_pictures(rng: np.random.Generator, through: list[bool]) -> None:
    picture = rng.integers(0, 256, (20, 30, 3), np.uint8)
    for view in (picture[::2, ::2], picture[1:, 1:], picture[:, ::-1], picture[5:10, 3:20], picture[..., ::-1]):
        np.testing.assert_array_equal(MODULE.image(view), 255 - view)


def test_sizes_and_conditions(through: list[bool]) -> None:
    x = np.arange(20.0)[::2]
    np.testing.assert_array_equal(MODULE.given(10, x), x + 10)
    np.testing.assert_array_equal(MODULE.long(x), x + 1)
    np.testing.assert_array_equal(MODULE.pairs(x.reshape(2, 5)[:, ::2]), x.reshape(2, 5)[:, ::2] + 1)


def test_views_of_other_memory(through: list[bool]) -> None:
    """Of memory with an end that nobody knows, only the view itself is read."""
    x = np.arange(40.0).reshape(5, 8)
    strided = np.lib.stride_tricks.as_strided(x[0], (4, 3), (64, 16))
    np.testing.assert_array_equal(MODULE.rows(strided, np.zeros(3)).shifted, strided)
    sliding = np.lib.stride_tricks.sliding_window_view(x[0], 3)
    np.testing.assert_array_equal(MODULE.rows(sliding, np.zeros(3)).shifted, sliding)
    fields = np.zeros(6, [("a", "f4"), ("b", "f8")])
    fields["b"] = np.arange(6)
    np.testing.assert_array_equal(MODULE.plus(fields["b"]), np.arange(6) + 1)
    np.testing.assert_array_equal(MODULE.plus(memoryview(x[0])[::2]), x[0, ::2] + 1)
    # The bytes in the gaps are no values of the type.
    odd = np.array([1, 7, 0, 9], np.uint8).view(bool)[::2]
    np.testing.assert_array_equal(MODULE.flags(odd), [False, True])
    x.flags.writeable = False
    np.testing.assert_array_equal(MODULE.plus(x[0, ::2]), x[0, ::2] + 1)


@pytest.mark.parametrize(
    ("function", "args", "code"),
    [
        ("given", (9, np.arange(20.0)[::2]), "E0204"),
        ("long", (np.arange(6.0)[::2],), "E0211"),
        ("rows", (np.ones((4, 6))[:, ::2], np.ones(8)[::2]), "E0204"),
        ("plus", (np.ones((4, 6))[:, ::2],), "E0203"),
        ("plus", (np.ones(6, np.float32)[::2],), "E0202"),
        ("plus", (np.ones(6, ">f8")[::2],), None),
        ("plus", (np.ma.masked_array(np.ones(6), [True] * 6)[::2],), None),
        ("image", (np.ones((4, 6, 4), np.uint8)[:, ::2],), "E0204"),
    ],
)
def test_errors_are_those_of_the_function(through: list[bool], function: str, args: Any, code: str | None) -> None:
    """Not those of the program that takes the slice."""
    with pytest.raises(fl.Error) as caught:
        MODULE[function](*args)
    assert caught.value.code == code and "turned" not in str(caught.value)


def test_wrong_calls_stay_wrong() -> None:
    x = np.ones(6)[::2]
    for call in (lambda: MODULE.plus(x, x), lambda: MODULE.plus(x, x=x), lambda: MODULE.plus(x, z=1), MODULE.plus):
        with pytest.raises(TypeError):
            call()


def test_results_with_gaps(rng: np.random.Generator, through: list[bool]) -> None:
    x, y = rng.random((4, 3)), rng.random(3)
    wide, tall = np.zeros((4, 6)), np.zeros((3, 8))
    out = (wide[:, 0], tall[:, ::-2].T)
    assert MODULE.rows(x, y, out=out) is out
    np.testing.assert_allclose(wide[:, 0], x @ y)
    np.testing.assert_array_equal(tall[:, ::-2].T, x + y)
    assert not wide[:, 1:].any() and not tall[:, ::2].any()
    # Reads and writes through views of one array, as NumPy does.
    z = np.arange(10.0)
    MODULE.plus(z[::2], out=z[::2])
    np.testing.assert_array_equal(z, [1, 1, 3, 3, 5, 5, 7, 7, 9, 9])
    grid = rng.random((4, 4))
    expected = grid[::2, 1] + 1
    MODULE.plus(grid[::2, 1], out=grid[1, :2])
    np.testing.assert_array_equal(grid[1, :2], expected)


def test_results_that_cannot_be_written() -> None:
    x = np.ones(3)
    for out, message in (
        (np.zeros(8)[::2], r"the array to write to is f64\[4\]"),
        (np.zeros(6, np.float32)[::2], r"the array to write to is f32\[3\]"),
        (np.broadcast_to(np.zeros(1), 3), "is read-only"),
    ):
        with pytest.raises(fl.Error, match=message):
            MODULE.plus(x, out=out)
        assert not out.any()


def test_jit_takes_views(rng: np.random.Generator, through: list[bool]) -> None:
    @fl.jit
    def centred(x: Any) -> Any:
        return x - x.mean(axis=1, keepdims=True)

    x = rng.random((6, 8))
    for view in (x[::2], x[:, 1:], x.T[::-1]):
        np.testing.assert_allclose(centred(view), view - view.mean(axis=1, keepdims=True))


def test_large_views_are_not_copied() -> None:
    x = np.ones((600, 600))
    window = _turned.window_of(x[10:, 20:590])
    assert window is not None and np.shares_memory(window.array, x)
    assert x[10:, 20:590].nbytes > _turned.SMALL
    assert _turned._window(x[10:, 20:590], [None]) is not None
    assert _turned._window(x[10:20, ::2], [None]) is None


def test_tensors_with_gaps() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    result = MODULE.plus(x[:, 1])
    assert isinstance(result, torch.Tensor) and result.tolist() == [2, 6, 10]
    out = torch.zeros(3, 2, dtype=torch.float64)
    assert MODULE.plus(x[:, 1], out=out[:, 1]) is not None and out.tolist() == [[0, 2], [0, 6], [0, 10]]
    assert MODULE.rows(x.T, torch.ones(3, dtype=torch.float64)).sums.tolist() == x.sum(0).tolist()
