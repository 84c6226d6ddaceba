"""Derivatives of functions of programs, and of functions that `jit` compiles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fuseloop as fl

SOURCE = """
fn loss(w: f32[d], b: f32, x: f32[n, d], y: f32[n]) = mean((x @ w + b - y) ^ 2)
fn either(x: float[n], by: float) = sum(x ^ 3) * by
fn weighed(x: f64[n], key: i64[n], dx: f64) = sum[i](x[i] * f64(key[i])) + dx
fn narrow(x: f16[n]) = sum(x * x)
fn noisy(x: f32[n], key: i64) = sum[i](x[i] * uniform(key, i))
fn rows(x: f32[n, m]) -> f32[n] = sum(x, axis = 1)
fn count(x: i64[n]) = f32(sum(x))
"""


@pytest.fixture(scope="module")
def module() -> fl.Module:
    return fl.compile(SOURCE)


def test_one_and_several(module: fl.Module, rng: np.random.Generator) -> None:
    w, x, y = (rng.standard_normal(shape).astype(np.float32) for shape in [3, (5, 3), 5])
    b = np.float32(0.5)
    error = x @ w + b - y
    dw, db = 2 * error @ x / 5, 2 * error.mean()
    alone = fl.grad(module.loss, wrt="w")
    assert alone.names == module.loss.names
    np.testing.assert_allclose(alone(w, b, x, y), dw, rtol=1e-4)
    both = fl.grad(module.loss, wrt=["b", "w"])(w, b, x=x, y=y)
    np.testing.assert_allclose(both.dw, dw, rtol=1e-4)
    np.testing.assert_allclose(both.db, db, rtol=1e-4)
    np.testing.assert_array_equal(both.dw, alone(w, b, x, y))
    assert both._fields == ("db", "dw")
    all_ = fl.grad(module.loss)(w, b, x, y)
    assert all_._fields == ("dw", "db", "dx", "dy")
    value = fl.value_and_grad(module.loss, wrt="w")(w, b, x, y)
    assert value.value == module.loss(w, b, x, y)
    np.testing.assert_array_equal(value.dw, both.dw)


def test_the_types_are_those_of_the_parameters(module: fl.Module) -> None:
    slope = fl.grad(module.either, wrt="x")
    for dtype in (np.float32, np.float64):
        found = slope(np.array([1, 2], dtype), 2)
        assert found.dtype == dtype
        assert found.tolist() == [6, 24]
    # A derivative in a storage type is an `f32`.
    assert fl.grad(module.narrow)(np.array([1, 2], np.float16)).dtype == np.float32


def test_names_that_are_taken(module: fl.Module) -> None:
    found = fl.grad(module.weighed)(np.ones(2), np.array([3, 4]), 1.0)
    assert found.dx_.tolist() == [3, 4]
    assert found.ddx == 1


def test_a_derivative_of_a_derivative(module: fl.Module) -> None:
    program = fl.compile("fn cube(x: f64) = x ^ 3")
    assert fl.grad(fl.grad(program.cube))(2.0) == 12


def test_the_program_goes_along(module: fl.Module) -> None:
    """With its files, its options and whatever cannot be written as one text."""
    slope = pickle.loads(pickle.dumps(fl.grad(module.either, wrt="x")))
    assert slope(np.ones(2), 1.0).tolist() == [3, 3]
    with_files = fl.compile("use nn\nfn loss(z: f64[n, c], label: i64[n]) = cross_entropy(z, label)", device="interp")
    found = fl.grad(with_files.loss)(np.zeros((1, 2)), np.array([1]))
    assert found.tolist() == [[0.5, -0.5]]
    noise = fl.grad(module.noisy)(np.ones(4, np.float32), 7)
    assert 0 <= noise.min() and noise.max() < 1


def test_to_read(module: fl.Module) -> None:
    assert module.narrow.gradient() == "fn narrow_grad(x: f16[n]) -> f32[n] = 2 * f32(x)\n"
    program = fl.compile(module.loss.gradient("w", "b"), device="interp")
    arrays = [np.ones(shape, np.float32) for shape in [(3,), (), (2, 3), (2,)]]
    both = fl.grad(module.loss, wrt=["w", "b"])(*arrays)
    for one, other in zip(program.loss_grad(*arrays), both, strict=True):
        np.testing.assert_array_equal(one, other)
    drawn = fl.compile(module.noisy.gradient(), device="interp")
    noise = fl.grad(module.noisy)(np.ones(4, np.float32), 7)
    np.testing.assert_array_equal(drawn.noisy_grad(np.ones(4, np.float32), 7), noise)
    gathered = fl.compile("fn f(x: f64[n], k: i64[n]) = sum((if x > 1 then x[k] * x else x) ^ 2)", device="interp")
    with pytest.raises(fl.Error, match="cannot be written"):
        gathered.f.gradient()


def test_a_view(module: fl.Module) -> None:
    program = fl.compile("fn f(x: f64[n]) = sum(x ^ 2)")
    x = np.arange(200_000.0)
    assert np.array_equal(fl.grad(program.f)(x[::-2]), 2 * x[::-2])


def test_no_derivative(module: fl.Module) -> None:
    with pytest.raises(fl.Error, match="no parameter `v`") as caught:
        fl.grad(module.loss, wrt="v")
    assert caught.value.help is not None and "`w`" in caught.value.help
    with pytest.raises(fl.Error, match="no parameter of floats"):
        fl.grad(module.count)
    with pytest.raises(fl.Error) as caught:
        fl.grad(module.weighed, wrt="key")
    assert caught.value.code == "E0153"
    with pytest.raises(fl.Error, match="takes a scalar") as caught:
        fl.grad(module.rows)
    assert caught.value.code == "E0153"
    with pytest.raises(TypeError):
        fl.grad(lambda x: x)  # type: ignore[call-overload]


def test_numpy_code() -> None:
    @fl.jit
    def loss(params: dict[str, np.ndarray], x: np.ndarray, power: int = 2) -> np.ndarray:
        return ((x @ params["w"] + params["b"]) ** power).sum()

    params = {"w": np.array([1.0, 2.0]), "b": np.array(0.5)}
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    slope = fl.grad(loss, wrt="params")(params, x)
    assert slope["w"].tolist() == [3, 5]
    assert slope["b"] == 8
    value, (dparams, dx) = (lambda found: (found[0], found[1:]))(fl.value_and_grad(loss)(params, x))
    assert value == loss(params, x) == 8.5
    assert dparams["w"].tolist() == [3, 5]
    assert dx.tolist() == [[3, 6], [5, 10]]
    alone = fl.jit(lambda x: (x**2).sum())
    assert fl.grad(alone)(x[0]).tolist() == [2, 0]
    with pytest.raises(fl.Error, match="is not of floats"):
        fl.grad(loss, wrt="power")(params, x)
    with pytest.raises(fl.Error, match="no argument `y`"):
        fl.grad(loss, wrt="y")
    with pytest.raises(fl.Error, match="derivative of"):
        fl.grad(fl.grad(loss))
