"""Arrays of other libraries, by DLPack and the buffer protocol."""

from __future__ import annotations

import array
import mmap
from typing import Any

import numpy as np
import pytest

import fuseloop as fl

MODULE = fl.compile("""
fn scaled(x: f32[n, m], by: f32) = x * by
fn total(x: f64[n]) = sum(x)
fn half(x: bf16[n]) = bf16(x * 0.5)
fn turned(x: bool[n]) = !x
fn extremes(x: i32[n]) -> (lo: i32, all: i32[n]) = (min(x), x + 1)
""")


class Lent:
    """An object that has nothing but the protocol."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


def test_an_object_with_the_protocol() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = MODULE.scaled(Lent(x), 2)
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, 2 * x)
    with pytest.raises(fl.Error, match="not one after another"):
        MODULE.scaled(Lent(x.T), 2)
    with pytest.raises(fl.Error, match="of a type that the language lacks"):
        MODULE.scaled(Lent(np.ones((2, 2), complex)), 2)


def test_results_give_themselves_by_the_protocol() -> None:
    y = MODULE.scaled(np.ones((2, 3), np.float32), 2)
    assert y.base.__dlpack_device__() == (1, 0)
    again = np.from_dlpack(y.base)
    assert again.ctypes.data == y.ctypes.data
    del y
    np.testing.assert_array_equal(again, np.full((2, 3), 2))
    unused = MODULE.scaled(np.ones((2, 3), np.float32), 2).base.__dlpack__()
    del unused


def test_the_buffer_protocol() -> None:
    for memory in (array.array("d", [1, 2, 3]), memoryview(np.array([1.0, 2, 3]))):
        assert MODULE.total(memory) == 6
    counted = fl.compile("fn f(x: u8[n]) = sum(x)").f
    assert counted(b"\x01\x02") == 3 and counted(bytearray(b"\x05")) == 5
    with mmap.mmap(-1, 16) as mapped:
        mapped[:3] = b"\x01\x01\x01"
        assert counted(mapped) == 3
    out = bytearray(4)
    fl.compile("fn f(x: u8[n]) = u8(x + 1)").f(b"abcd", out=out)
    assert out == b"bcde"
    with pytest.raises(fl.Error, match="read-only"):
        fl.compile("fn f(x: u8[n]) = u8(x + 1)").f(b"abcd", out=bytes(4))


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    y = MODULE.scaled(x, 2)
    assert isinstance(y, torch.Tensor) and torch.equal(y, 2 * x)
    y[0, 0] = 7  # it may be written to
    out = torch.zeros(2, 3)
    where = out.data_ptr()
    assert MODULE.scaled(x, 3, out=out) is out and out.data_ptr() == where
    assert torch.equal(out, 3 * x)
    half = MODULE.half(torch.tensor([1.0, 3.0], dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16 and half.tolist() == [0.5, 1.5]
    assert MODULE.turned(torch.tensor([True, False])).tolist() == [False, True]
    both = MODULE.extremes(torch.tensor([3, 1], dtype=torch.int32))
    assert both.lo.item() == 1 and both.all.tolist() == [4, 2]
    assert torch.equal(MODULE.scaled(x.T, 2), 2 * x.T) and torch.equal(MODULE.scaled(x[:, ::2], 2), 2 * x[:, ::2])
    with pytest.raises(fl.Error, match="E0202"):
        MODULE.scaled(x.double(), 2)
    with pytest.raises(fl.Error, match="shares memory"):
        MODULE.scaled(x, 2, out=x)
    with pytest.raises(Exception, match="grad"):
        MODULE.scaled(x.clone().requires_grad_(), 2)
    assert MODULE.scaled(torch.zeros(0, 3), 2).shape == (0, 3)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    # Where there is a GPU, JAX makes its arrays there unless told otherwise.
    with jax.default_device(jax.devices("cpu")[0]):
        x = jax.numpy.arange(6, dtype="float32").reshape(2, 3)
        y = MODULE.scaled(x, 2)
        assert isinstance(y, jax.Array)
        np.testing.assert_array_equal(np.asarray(y), 2 * np.asarray(x))
        with pytest.raises(fl.Error, match="read-only"):
            MODULE.scaled(x, 2, out=jax.numpy.zeros((2, 3), "float32"))
